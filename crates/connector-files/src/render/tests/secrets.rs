//! The pod's token is in files alone: however a template reaches it, and however it fails.

use std::{collections::BTreeMap, fmt, marker::PhantomData};

use super::*;

/// Ways to the token: what stands before it, the token, and what stands behind it.
const WAYS: [(&str, &str, &str); 32] = [
    ("", ".context.token", ""),
    ("", "$.context.token", ""),
    ("", "(.context).token", ""),
    ("", "(index . \"context\").token", ""),
    ("", "(index . \"context\" \"token\")", ""),
    ("", "(index .context \"token\")", ""),
    ("", "(index .context (printf \"to%s\" \"ken\"))", ""),
    ("", "(get .context \"token\")", ""),
    ("", "(get .context (list \"tok\" \"en\" | join \"\"))", ""),
    ("", "(pluck \"token\" .context | first)", ""),
    ("", "(dig \"context\" \"token\" \"\" .)", ""),
    ("", "(values .context | last)", ""),
    ("", "(pick .context \"token\" | values | first)", ""),
    ("", "(omit .context \"proxy\" | values | first)", ""),
    ("", "(toJson .context | fromJson).token", ""),
    (
        "",
        "(get (toJson . | fromJson | dig \"context\" (dict)) \"token\")",
        "",
    ),
    ("", "(deepCopy .context).token", ""),
    ("", "(merge (dict) .context).token", ""),
    ("", "(dict \"a\" .context.token).a", ""),
    ("", "(set (dict) \"a\" .context.token).a", ""),
    ("", "(list .context.token | first)", ""),
    ("", "(coalesce \"\" .context.token)", ""),
    ("", "(default \"\" .context.token)", ""),
    ("", "(ternary .context.token \"\" true)", ""),
    ("", "(printf \"%s\" .context.token)", ""),
    ("", "(.context.token | b64enc | b64dec)", ""),
    ("{{ with .context }}", ".token", "{{ end }}"),
    ("{{ $c := .context }}", "$c.token", ""),
    (
        "{{ $t := \"\" }}{{ range $k, $v := .context }}{{ if ne $k \"proxy\" }}{{ $t = $v }}{{ end }}{{ end }}",
        "$t",
        "",
    ),
    (
        "{{ range .context }}{{ if kindIs \"string\" . }}",
        ".",
        "{{ end }}{{ end }}",
    ),
    (
        "{{ define \"t\" }}",
        ".",
        "{{ end }}{{ template \"t\" .context.token }}",
    ),
    ("{{ block \"t\" .context }}", ".token", "{{ end }}"),
];

/// Ways to fail with a token `X`. Most quote it, in one form or another, or what was found out about it.
const FAILURES: [&str; 34] = [
    "{{ fail X }}",
    "{{ fail (X | b64enc) }}",
    "{{ fail (X | upper) }}",
    "{{ fail (X | sha256sum) }}",
    "{{ fail (printf \"%q\" X) }}",
    "{{ fail (printf \"%x\" X) }}",
    "{{ fail (X | splitList \"\" | reverse | join \"\") }}",
    "{{ fail (printf \"%d\" (len X)) }}",
    "{{ fail (substr 0 3 X) }}",
    "{{ (X).x }}",
    "{{ index X \"a\" }}",
    "{{ index X 99 }}",
    "{{ index (list 1) X }}",
    "{{ index (list 1) (len X) }}",
    "{{ b64dec X }}",
    "{{ b32dec X }}",
    "{{ mustFromJson X }}",
    "{{ mustRegexMatch X \"a\" }}",
    "{{ regexFind X \"a\" }}",
    "{{ dateInZone \"2006\" now X }}",
    "{{ mustDateModify X now }}",
    "{{ urlParse (printf \"%%zz%s\" X) }}",
    "{{ until X }}",
    "{{ get X \"a\" }}",
    "{{ range X }}{{ end }}",
    "{{ if eq X 3 }}{{ end }}",
    "{{ slice X 0 99 }}",
    "{{ $x := repeat (int (mul 100000 (len X))) \"x\" }}",
    "{{ if contains \"k\" X }}{{ fail \"k\" }}{{ end }}",
    "{{ if eq (len X) 6 }}{{ fail \"six\" }}{{ end }}",
    "{{ range until (len X) }}\n{{ end }}{{ $.connector.spec.user }}",
    "{{ X }}{{ if contains \"k\" X }}\n{{ end }}{{ $.connector.spec.user }}",
    "{{ if contains \"k\" X }}{{ $.connector.spec.user }}{{ end }}",
    "{{ printf \"%s\" (index (dict) X) }}",
];

/// None is the beginning of another, and none stands in a template.
const TOKENS: [&str; 4] = ["t0k3n(", "head.claims-1_2.signature", "987654", "z%zq"];

fn of(text: &str, token: Option<&'static str>) -> Result<FileSet, FilesError> {
    let mut volume = Volume::with(&one_file("a", "f", text), "a");
    volume.token = token;
    volume.files()
}

#[test]
fn every_way_leads_to_the_token_and_no_file_that_depends_on_it_is_made_without_one() {
    let mut without_token = 0;
    for (before, way, after) in WAYS {
        for print in [
            "{{ X }}",
            "{{ X | b64enc }}",
            "{{ len X }}",
            "{{ if X }}y{{ else }}n{{ end }}",
            "{{ kindOf X }}",
            "{{ X | default \"none\" }}",
            "{{ X | quote }}",
            "{{ X | trunc 3 }}",
            "{{ eq (print X) \"a\" }}{{ X | print | sha256sum }}",
        ] {
            let text = format!("{before}{}{after}", print.replace('X', way));
            let with_token = TOKENS.map(|token| {
                let files = of(&text, Some(token)).unwrap();
                let file = files.get("f").unwrap().to_owned();
                assert!(print != "{{ X }}" || file == token, "{text}");
                file
            });
            match of(&text, None) {
                // What is in the place of the token is a text or true, as the token is.
                Ok(files) => {
                    let mut each = with_token.iter();
                    assert!(each.all(|it| files.get("f") == Some(it)), "{text}");
                    without_token += 1;
                }
                Err(FilesError::Configuration { .. }) => {}
                Err(other) => panic!("{text}: {other}"),
            }
        }
    }
    assert!((1..20).contains(&without_token), "{without_token}");
}

/// An error is shown in an event. One that is the same whatever the token is has nothing of it.
#[test]
fn no_error_tells_two_tokens_apart_however_a_template_reaches_them_and_fails() {
    let mut failed: BTreeMap<&str, usize> = BTreeMap::new();
    for (before, way, after) in WAYS {
        for failure in FAILURES {
            // The way has its own dot.
            let text = format!("{before}{}{after}", failure.replace('X', way));
            let mut told = BTreeSet::new();
            for token in TOKENS {
                let Err(error) = of(&text, Some(token)) else {
                    continue;
                };
                for printed in [error.to_string(), format!("{error:?}")] {
                    assert!(!printed.contains(token), "{text}: {printed}");
                }
                told.insert(format!("{error} {error:?}"));
            }
            *failed.entry(failure).or_default() += told.len();
            assert!(told.len() <= 1, "{text}: {told:#?}");
        }
    }
    for (failure, ways) in failed {
        assert_eq!(ways, WAYS.len(), "{failure}");
    }
}

/// It would fail with a token, so what it gives without one is not the file that its author meant.
#[test]
fn a_template_that_fails_with_a_token_alone_gives_no_file_without_one() {
    for text in [
        "{{ with .context.token }}{{ fail . }}{{ end }}",
        "{{ if .context.token }}{{ fail \"x\" }}{{ else }}none{{ end }}",
        "{{ range values .context }}{{ if kindIs \"string\" . }}{{ .x }}{{ end }}{{ end }}",
    ] {
        let refused = FilesError::Configuration {
            class: "oci".to_owned(),
            configuration: "a".to_owned(),
            error: FileTemplateError::NoToken("f".to_owned()),
        };
        assert_eq!(of(text, None), Err(refused), "{text}");
    }
}

/// What does not depend on the token is told as it is.
#[test]
fn an_error_that_has_nothing_to_do_with_the_token_is_told_with_its_place() {
    for (text, told) in [
        (
            "{{ fail \"no registry\" }}",
            "f:1:4: at <fail \\\"no registry\\\">: error calling fail: no registry",
        ),
        (
            "{{ .context.token }}\n{{ fail .configurations.p }}",
            "error calling fail: value of p",
        ),
        ("\n{{ .connector.spec.address.x }}", "f:2:"),
        (
            "{{ fail (print .context.token) }}",
            "error calling fail: (token)",
        ),
    ] {
        let configuration = json!({
            "name": "a", "data": {"f": text}, "params": [{"name": "p", "default": "value of p"}],
        });
        let error = Volume::with(&configuration, "a")
            .files()
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("class oci, configuration `a`: f:"),
            "{error}"
        );
        assert!(error.contains(told), "{text}: {error}");
    }
}

#[test]
fn the_causes_of_an_error_have_no_token_either() {
    for failure in FAILURES {
        for token in TOKENS {
            let Err(error) = of(&failure.replace('X', ".context.token"), Some(token)) else {
                continue;
            };
            let mut cause: Option<&dyn std::error::Error> = Some(&error);
            while let Some(it) = cause {
                assert!(!format!("{it} {it:?}").contains(token), "{failure}: {it}");
                cause = it.source();
            }
        }
    }
}

#[test]
fn errors_about_other_things_than_templates_have_no_token() {
    let token = Some("s3cr3t");
    let proxy = |url| (connector("a", "oci", Some(url)), None);
    let mut volumes = vec![
        Volume::of(vec![proxy("nonsense")]),
        Volume::of(vec![proxy("http://one"), proxy("http://two")]),
        Volume::with(&one_file("a", "..", "{{ .context.token }}"), "a"),
        Volume::with(
            &one_file("a", "f", "{{ .context.token }}{{ repeat 262143 \"x\" }}"),
            "a",
        ),
        Volume::with(&one_file("a", "f", "{{ .context.token }}"), "b"),
        Volume::with(&one_file("a", "f", "{{ .context.token }}"), "a,!g"),
        two_classes(),
    ];
    for volume in &mut volumes {
        volume.token = token;
        let error = volume.files().unwrap_err();
        let printed = format!("{error} {error:?}");
        assert!(!printed.contains("s3cr3t"), "{printed}");
    }
}

/// A type, and the text that it prints for a developer.
struct Printed<T>(PhantomData<T>);

/// The answer for a type that has no such text.
trait NotPrinted {
    const IS_PRINTED: bool = false;
}

impl<T> NotPrinted for Printed<T> {}

impl<T: fmt::Debug> Printed<T> {
    const IS_PRINTED: bool = true;
}

#[test]
fn the_inputs_with_the_token_are_not_printed() {
    let of_others = [
        Printed::<Tool<'_>>::IS_PRINTED,
        Printed::<FileSet>::IS_PRINTED,
    ];
    assert_eq!(of_others, [true; 2]);
    // It would be with its token.
    let of_context = [Printed::<FileContext<'_>>::IS_PRINTED];
    assert_eq!(of_context, [false]);
}
