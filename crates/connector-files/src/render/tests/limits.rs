//! What a volume takes: each limit at its edge, and what it counts.

use super::*;

/// The quota that the error names of a template that never ends within it.
fn steps_told(volume: &Volume) -> u64 {
    let error = volume.files().unwrap_err().to_string();
    let (_, rest) = error
        .rsplit_once("takes more than ")
        .unwrap_or_else(|| panic!("{error}"));
    rest.strip_suffix(" steps").unwrap().parse().unwrap()
}

/// A template that takes more steps than there are.
const ENDLESS: &str = "{{ range until 8000 }}{{ range until 8000 }}{{ end }}{{ end }}";

/// Files `f0`, `f1` and so on of this text.
fn data(count: usize, text: &str) -> Value {
    (0..count)
        .map(|it| (format!("f{it}"), json!(text)))
        .collect()
}

#[test]
fn each_template_has_its_part_of_200_000_steps_and_at_most_50_000() {
    for count in 1..=MOST_FILES {
        let mut volume = Volume::with(&json!({"name": "a", "data": data(count, ENDLESS)}), "a");
        volume.token = None;
        let expected = (200_000 / count as u64).min(50_000);
        assert_eq!(steps_told(&volume), expected, "{count}");
    }
}

/// A volume of as many classes as there are numbers, each with so many templates in configurations `a` and `b`, under
/// names of its own or the same ones.
fn spread(of_classes: &[[usize; 2]], own_names: bool, text: &str) -> Volume {
    let each = of_classes.iter().enumerate().map(|(number, counts)| {
        let name = format!("c{number}");
        let configurations = ["a", "b"].iter().zip(counts).map(|(configuration, count)| {
            let files = (0..*count).map(|it| {
                let file = if own_names {
                    format!("{name}-{configuration}{it}")
                } else {
                    format!("f{it}")
                };
                (file, json!(text))
            });
            json!({"name": configuration, "data": files.collect::<Value>()})
        });
        let spec = json!({"configurations": configurations.collect::<Vec<_>>()});
        let class = json!({"metadata": {"name": name}, "spec": spec});
        (
            connector(&name, &name, None),
            Some(serde_json::from_value(class).unwrap()),
        )
    });
    let mut volume = Volume::of(each.collect());
    (volume.token, volume.names) = (None, "a,b");
    volume.conflict = FileConflict::LastWins;
    volume
}

#[test]
fn every_template_that_is_made_counts_and_no_other() {
    let cases: [(&[[usize; 2]], bool, &'static str, u64); 14] = [
        (&[[1, 0]], true, "a,b", 50_000),
        (&[[4, 0]], true, "a,b", 50_000),
        (&[[5, 0]], true, "a,b", 40_000),
        (&[[0, 5]], true, "a,b", 40_000),
        (&[[5, 5]], true, "a,b", 20_000),
        (&[[5, 5]], true, "b,a", 20_000),
        (&[[5, 5], [5, 5]], true, "a,b", 10_000),
        (&[[10, 0], [0, 10]], true, "a,b", 10_000),
        // Not those of a configuration that the pod does not ask for.
        (&[[5, 50], [5, 50]], true, "a", 20_000),
        // Those that are replaced are made too.
        (&[[64, 64], [64, 64]], false, "a,b", 781),
        (&[[16, 0]; 16], false, "a,b", 781),
        // Those that are left out are not.
        (&[[5, 6], [0, 10]], true, "a,b,!c0-b0", 10_000),
        (&[[6, 6], [6, 4]], false, "a,b,!f5", 10_526),
        (&[[11, 0], [10, 0]], false, "a,b,!c0/f10", 10_000),
    ];
    for (classes, own_names, names, expected) in cases {
        let mut volume = spread(classes, own_names, ENDLESS);
        volume.names = names;
        assert_eq!(steps_told(&volume), expected, "{classes:?} {names}");
    }
    // Connectors of one class make its files once.
    let mut volume = spread(&[[5, 0]], true, ENDLESS);
    let class = volume.connectors[0].1.clone();
    let more = (0..20).map(|it| (connector(&format!("m{it}"), "c0", None), class.clone()));
    volume.connectors.extend(more);
    assert_eq!(steps_told(&volume), 40_000);
}

#[test]
fn too_many_files_are_refused_before_one_is_made() {
    for classes in [
        &[[65, 0]][..],
        &[[33, 32]],
        &[[33, 0], [32, 0]],
        &[[17, 16], [16, 16]],
    ] {
        let error = spread(classes, true, ENDLESS).files().unwrap_err();
        assert_eq!(error, FilesError::TooMuch, "{classes:?}");
    }
    // Templates of files that others replace take time too.
    let error = spread(&[[16, 1]; 16], false, ENDLESS).files().unwrap_err();
    assert_eq!(error, FilesError::TooMuch);
    // The same names are files once.
    let files = spread(&[[64, 0]; 2], false, "x").files().unwrap();
    assert_eq!(files.iter().count(), 64);
}

#[test]
fn built_in_files_count_as_files_unless_they_are_replaced() {
    let with = |count: usize, more: Value, names: &'static str, token| {
        let mut data = data(count, "x");
        data.as_object_mut()
            .unwrap()
            .append(&mut more.as_object().unwrap().clone());
        let class = class("oci", &json!({"name": "a", "data": data}));
        let connector = connector("a", "oci", Some("http://one"));
        let mut volume = Volume::of(vec![(connector, Some(class))]);
        (volume.names, volume.token) = (names, token);
        volume.files().map(|it| it.iter().count())
    };
    let token = Some("t0k3n");
    for (count, more, names, token, expected) in [
        // Eight with a token, and three without one.
        (56, json!({}), "a", token, Ok(64)),
        (57, json!({}), "a", token, Err(FilesError::TooMuch)),
        (61, json!({}), "a", None, Ok(64)),
        (62, json!({}), "a", None, Err(FilesError::TooMuch)),
        (57, json!({}), "a,!.env", token, Ok(64)),
        (56, json!({".env": "", "ca.crt": ""}), "a", token, Ok(64)),
        (
            57,
            json!({".env": ""}),
            "a",
            token,
            Err(FilesError::TooMuch),
        ),
    ] {
        assert_eq!(with(count, more, names, token), expected, "{count} {names}");
    }
}

/// The limit is one of memory: of bytes, of all files together, the built-in ones among them.
#[test]
fn a_volume_takes_256_kib_of_all_files_whatever_their_letters() {
    let made = |texts: &[String], token: &'static str| {
        let each = texts.iter().enumerate();
        let data: Value = each
            .map(|(it, text)| (format!("f{it}"), json!(text)))
            .collect();
        let mut volume = Volume::with(&json!({"name": "a", "data": data}), "a");
        volume.token = Some(token);
        volume
            .files()
            .map(|files| files.iter().map(|it| it.1.len()).sum::<usize>())
    };
    for token in ["t0k3n", "tök€n"] {
        for letter in ["x", "ä", "€", "🦀"] {
            for count in [1, 3] {
                let room = MOST_BYTES - token.len();
                let each = letter.repeat(room / count / letter.len());
                let mut texts = vec![each; count];
                let rest = room - texts.iter().map(String::len).sum::<usize>();
                texts[0] += &"x".repeat(rest);
                assert_eq!(made(&texts, token), Ok(MOST_BYTES), "{letter} {count}");
                texts[count - 1].push('x');
                assert_eq!(
                    made(&texts, token),
                    Err(FilesError::TooMuch),
                    "{letter} {count}"
                );
            }
        }
    }
}

#[test]
fn a_content_that_is_replaced_takes_no_room() {
    let half = "x".repeat(MOST_BYTES / 2 + 1);
    let each = ["a", "b", "c"].map(|name| {
        let class = class(name, &one_file("x", "f", &half));
        (connector(name, name, None), Some(class))
    });
    let mut volume = Volume::of(each.into());
    (volume.names, volume.conflict) = ("x", FileConflict::LastWins);
    assert_eq!(volume.files().unwrap().get("f"), Some(&*half));
    let data = json!({"f": half, "g": half});
    let error = Volume::with(&json!({"name": "a", "data": data}), "a").files();
    assert_eq!(error.unwrap_err(), FilesError::TooMuch);
}
