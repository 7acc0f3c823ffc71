//! The class, the configuration or the proxy that a file is from where several would write it.

use super::*;

/// The outcome that the rule `Refuse` has for a file that would be written twice.
const REFUSED: &str = "refused";
/// A file that is not in the set.
const ABSENT: &str = "absent";

/// Names in their order.
type Names = &'static [&'static str];
/// Connectors by class and proxy.
type Proxies = &'static [(&'static str, Option<&'static str>)];

/// The content of a file, or the outcome in its place.
fn outcome(volume: &Volume, file: &str) -> String {
    match volume.files() {
        Ok(files) => files.get(file).unwrap_or(ABSENT).to_owned(),
        Err(
            FilesError::Conflict { .. } | FilesError::Repeated { .. } | FilesError::Proxies { .. },
        ) => REFUSED.to_owned(),
        Err(error) => error.to_string(),
    }
}

/// The outcomes of both rules.
fn outcomes(volume: &mut Volume, file: &str) -> [String; 2] {
    [FileConflict::Refuse, FileConflict::LastWins].map(|conflict| {
        volume.conflict = conflict;
        outcome(volume, file)
    })
}

/// A class whose configurations each write the file `f`, with the names of both in it.
fn writer(name: &str, configurations: &[&str]) -> ConnectorClass {
    let each = configurations
        .iter()
        .map(|it| one_file(it, "f", &format!("{name} {it}")));
    let each: Vec<_> = each.collect();
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"configurations": each}}))
        .unwrap()
}

#[test]
fn the_class_of_the_last_connector_wins_and_of_it_the_last_configuration() {
    const BOTH: Names = &["x", "y"];
    const ONE: Names = &["x"];
    const OTHER: Names = &["y"];
    // The classes of the connectors in their order, the configurations of classes `a` and `b`, the names, and the outcomes.
    let cases: [(Names, [Names; 2], &'static str, [&str; 2]); 21] = [
        (&["a", "b"], [ONE, ONE], "x", [REFUSED, "b x"]),
        (&["b", "a"], [ONE, ONE], "x", [REFUSED, "a x"]),
        // A class that is there again.
        (&["a", "b", "a"], [ONE, ONE], "x", [REFUSED, "a x"]),
        (&["a", "b", "a", "b"], [ONE, ONE], "x", [REFUSED, "b x"]),
        (&["a", "a", "b"], [ONE, ONE], "x", [REFUSED, "b x"]),
        // The class counts more than the order of the configurations.
        (&["a", "b"], [OTHER, ONE], "x,y", [REFUSED, "b x"]),
        (&["a", "b"], [OTHER, ONE], "y,x", [REFUSED, "b x"]),
        (&["a", "b", "a"], [ONE, OTHER], "x,y", [REFUSED, "a x"]),
        (&["a", "b"], [BOTH, BOTH], "x,y", [REFUSED, "b y"]),
        (&["a", "b"], [BOTH, BOTH], "y,x", [REFUSED, "b x"]),
        (&["a", "b", "a"], [BOTH, BOTH], "x,y", [REFUSED, "a y"]),
        (&["a"], [BOTH, &[]], "x,y", [REFUSED, "a y"]),
        (&["a"], [BOTH, &[]], "y,x", [REFUSED, "a x"]),
        // An exclusion leaves one writer, or none.
        (&["a", "b"], [ONE, ONE], "x,!b/f", ["a x"; 2]),
        (&["a", "b", "a"], [ONE, ONE], "x,!a/f", ["b x"; 2]),
        (&["a", "b"], [ONE, ONE], "x,!f", [ABSENT; 2]),
        (&["a"], [BOTH, &[]], "x,y,!a/f", [ABSENT; 2]),
        // One writer, or none.
        (&["a", "b"], [ONE, OTHER], "x", ["a x"; 2]),
        (&["a", "b"], [ONE, &[]], "x", ["a x"; 2]),
        (&["a", "b"], [BOTH, BOTH], "", [ABSENT; 2]),
        (&[], [&[], &[]], "", [ABSENT; 2]),
    ];
    for (connectors, [a, b], names, expected) in cases {
        let each = connectors.iter().enumerate().map(|(number, name)| {
            let class = writer(name, if *name == "a" { a } else { b });
            (connector(&format!("c{number}"), name, None), Some(class))
        });
        let mut volume = Volume::of(each.collect());
        volume.names = names;
        assert_eq!(
            outcomes(&mut volume, "f"),
            expected,
            "{connectors:?} {a:?} {b:?} {names}"
        );
    }
}

#[test]
fn the_files_are_about_the_proxy_of_the_class_of_the_last_connector() {
    const ONE: Option<&str> = Some("http://one");
    const TWO: Option<&str> = Some("http://two");
    const BAD: Option<&str> = Some("nonsense");
    // The connectors `c0`, `c1` and so on by class and proxy, and the file `http.proxy`: its proxy, and the connectors in
    // its login.
    let cases: [(Proxies, [&str; 2]); 15] = [
        (&[], [ABSENT; 2]),
        (&[("a", None), ("b", None)], [ABSENT; 2]),
        (&[("a", ONE)], ["http://c0@one"; 2]),
        (&[("a", ONE), ("b", ONE)], ["http://c0,c1@one"; 2]),
        (&[("a", ONE), ("b", None)], ["http://c0@one"; 2]),
        (&[("a", ONE), ("b", TWO)], [REFUSED, "http://c1@two"]),
        (&[("b", TWO), ("a", ONE)], [REFUSED, "http://c1@one"]),
        (
            &[("a", ONE), ("b", TWO), ("a", ONE)],
            [REFUSED, "http://c0,c2@one"],
        ),
        // The class of the last connector, whose proxy another connector of it has.
        (
            &[("a", ONE), ("b", TWO), ("a", None)],
            [REFUSED, "http://c0@one"],
        ),
        (
            &[("a", ONE), ("b", TWO), ("c", None)],
            [REFUSED, "http://c1@two"],
        ),
        // A login names each connector behind the proxy, of whatever class.
        (
            &[("a", ONE), ("b", TWO), ("b", ONE)],
            [REFUSED, "http://c0,c2@one"],
        ),
        (&[("a", ONE), ("a", TWO)], [REFUSED, "http://c1@two"]),
        (
            &[("a", TWO), ("b", TWO), ("a", ONE)],
            [REFUSED, "http://c2@one"],
        ),
        // A bad address does no harm where another proxy is used.
        (&[("a", BAD), ("b", TWO)], [REFUSED, "http://c1@two"]),
        (
            &[("a", TWO), ("b", BAD)],
            [
                REFUSED,
                "connector tools/c1: `status.proxy.httpAddress.url` is no address of a proxy: use http://host:port",
            ],
        ),
    ];
    for (connectors, expected) in cases {
        let each = connectors.iter().enumerate();
        let each = each.map(|(number, (class, proxy))| {
            (connector(&format!("c{number}"), class, *proxy), None)
        });
        let mut volume = Volume::of(each.collect());
        for (names, expected) in [("", expected), (ABOUT_A_PROXY, [ABSENT; 2])] {
            volume.names = names;
            let told = outcomes(&mut volume, "http.proxy");
            let told = told.map(|it| it.replace("tools%2F", "").replace(":t0k3n", ""));
            assert_eq!(told, expected, "{connectors:?} {names}");
        }
    }
}

#[test]
fn no_certificate_is_of_another_proxy_than_the_address() {
    let with = |name: &str, class: &str, url: &str| {
        let mut connector = connector(name, class, Some(url));
        let proxy = &mut connector.status.as_mut().unwrap().0["proxy"]["httpAddress"];
        proxy["CACerts"] = format!("{PEM}{url}").into();
        (connector, None)
    };
    let mut volume = Volume::of(vec![
        with("c0", "a", "http://one"),
        with("c1", "b", "http://two"),
    ]);
    volume.conflict = FileConflict::LastWins;
    for file in ["ca.crt", "context.proxy.caCert"] {
        assert_eq!(outcome(&volume, file), format!("{PEM}http://two"), "{file}");
    }
}

#[test]
fn configurations_that_write_a_file_twice_are_named_with_their_class() {
    let class = writer("oci", &["x", "y"]);
    let mut volume = Volume::of(vec![(connector("harbor", "oci", None), Some(class))]);
    volume.names = "y,x";
    let error = volume.files().unwrap_err().to_string();
    let told = "`f` is written by the configurations y and x of class oci: list one of them in the volume attribute \
        `configuration.names`, or leave the file out with `!oci/f`";
    assert_eq!(error, told);
}
