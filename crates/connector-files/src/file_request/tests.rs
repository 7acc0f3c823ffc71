use super::*;

mod list;

fn names(text: &str) -> Result<FileRequest, FileRequestError> {
    FileRequest::parse(Some(text), None)
}

#[test]
fn nothing_and_empty_words_ask_for_what_is_built_in() {
    let none = FileRequest::default();
    for (listed, params) in [
        (None, None),
        (Some(""), None),
        (Some("  "), Some("{}")),
        (None, Some(" {} ")),
    ] {
        assert_eq!(FileRequest::parse(listed, params), Ok(none.clone()));
    }
}

#[test]
fn configurations_keep_their_order_beside_files_that_are_left_out() {
    let request = names("settings , docker,!.env, !oci/config.json").unwrap();
    assert_eq!(request.configurations, ["settings", "docker"]);
    assert!(request.left_out.contains(".env"));
    let pair = ("oci".to_owned(), "config.json".to_owned());
    assert!(request.left_out_of_class.contains(&pair));
}

#[test]
fn names_that_mean_nothing_are_refused_with_what_was_written() {
    for bad in [
        "a,",
        ",",
        "a,,b",
        "a b",
        "!",
        "!a/b/c",
        "!/f",
        "!A_/f",
        "!../f",
        "a/b",
        "!.connector",
        "!oci/",
    ] {
        let error = names(bad).unwrap_err();
        assert!(matches!(error, FileRequestError::Name(_)), "{bad}: {error}");
    }
    for bad in ["a,a", "!f,!f", "!c/f,!c/f"] {
        let error = names(bad).unwrap_err();
        assert!(
            matches!(error, FileRequestError::Twice(_)),
            "{bad}: {error}"
        );
    }
    let many = |count: usize| {
        let all: Vec<_> = (0..count).map(|it| format!("x{it}")).collect();
        names(&all.join(","))
    };
    assert_eq!(many(MOST_NAMES).unwrap().configurations.len(), MOST_NAMES);
    let error = many(MOST_NAMES + 1).unwrap_err().to_string();
    assert!(error.contains("it lists 65, use at most 64"), "{error}");
}

#[test]
fn values_are_texts_of_configurations_that_are_listed() {
    let parse = |params: &str| FileRequest::parse(Some("docker"), Some(params));
    let request = parse(r#"{"docker": {"registry": "eu", "empty": ""}}"#).unwrap();
    assert_eq!(request.value("docker", "registry"), Some("eu"));
    assert_eq!(request.value("docker", "empty"), Some(""));
    assert_eq!(request.value("docker", "other"), None);
    for (bad, told) in [
        ("", "line 1, column 0"),
        ("{\n \"docker\": x}", "line 2, column 12"),
        ("[]", "it must be an object of configurations"),
        (r#"{"docker": []}"#, "`docker` must be an object of values"),
        (r#"{"docker": {"a": 1}}"#, "`docker`.`a` must be a text"),
        (
            r#"{"other": {}}"#,
            "`other`, which `configuration.names` does not list: it lists docker",
        ),
    ] {
        let error = parse(bad).unwrap_err().to_string();
        assert!(error.contains(told), "{bad}: {error}");
    }
}

/// The values are read whatever the names are: a mistake in them is never passed over.
#[test]
fn values_are_read_and_compared_with_the_names_whatever_these_are() {
    const NAMES: [Option<&str>; 8] = [
        None,
        Some(""),
        Some(" \n"),
        Some("!f"),
        Some("!docker/f"),
        Some("docker"),
        Some("Docker"),
        Some("docker,git"),
    ];
    let texts: [(Option<&str>, Option<&[&str]>); 26] = [
        (None, Some(&[])),
        (Some("{}"), Some(&[])),
        (Some(" {\n} "), Some(&[])),
        (Some(r#"{"docker": {}}"#), Some(&["docker"])),
        (Some(r#"{"docker": {"a": ""}}"#), Some(&["docker"])),
        (Some(r#"{"git": {"a": "b"}}"#), Some(&["git"])),
        (
            Some(r#"{"docker": {}, "git": {"": "\u0000"}}"#),
            Some(&["docker", "git"]),
        ),
        (Some(r#"{"Docker": {}}"#), Some(&["Docker"])),
        (Some(r#"{"dock": {}}"#), Some(&["dock"])),
        (Some(r#"{"docker ": {}}"#), Some(&["docker "])),
        (Some(r#"{"": {}}"#), Some(&[""])),
        (Some(r#"{"!f": {}}"#), Some(&["!f"])),
        (Some(""), None),
        (Some(" "), None),
        (Some("null"), None),
        (Some("true"), None),
        (Some("1"), None),
        (Some("\"\""), None),
        (Some("[]"), None),
        (Some("{}{}"), None),
        (Some("{} x"), None),
        (Some("\u{feff}{}"), None),
        (Some(r#"{"docker": null}"#), None),
        (Some(r#"{"docker": "a"}"#), None),
        (Some(r#"{"docker": {"a": null}}"#), None),
        (Some(r#"{"docker": {"a": true}}"#), None),
    ];
    for listed in NAMES {
        let words = || listed.unwrap_or_default().split(',');
        let of = |name: &str| !name.is_empty() && words().any(|it| it == name);
        for (params, configurations) in texts {
            let found = FileRequest::parse(listed, params);
            let Some(configurations) = configurations else {
                let is_told = matches!(
                    found,
                    Err(FileRequestError::NotJson { .. } | FileRequestError::Form { .. })
                );
                assert!(is_told, "{listed:?} {params:?}: {found:?}");
                continue;
            };
            let unlisted = configurations
                .iter()
                .find(|it| !of(it) || it.starts_with('!'));
            match unlisted {
                Some(unlisted) => assert!(
                    matches!(&found, Err(FileRequestError::NotListed { name, .. }) if name == unlisted),
                    "{listed:?} {params:?}: {found:?}"
                ),
                None => assert!(
                    found.as_ref().unwrap().params.keys().eq(configurations),
                    "{listed:?} {params:?}: {found:?}"
                ),
            }
        }
    }
}

#[test]
fn a_value_is_kept_letter_by_letter_and_belongs_to_its_names_alone() {
    let values = [
        "",
        " ",
        " a ",
        "a\nb",
        "ä€🦀",
        "\"\\",
        "{}",
        "null",
        "<no value>",
        "\u{0}",
    ];
    for value in values {
        let params = serde_json::json!({"a": {"p": value}, "b": {"P": "other", "": "empty"}});
        let request = FileRequest::parse(Some("a,b"), Some(&params.to_string())).unwrap();
        for (configuration, param, expected) in [
            ("a", "p", Some(value)),
            ("a", "P", None),
            ("a", "", None),
            ("A", "p", None),
            ("b", "p", None),
            ("b", "P", Some("other")),
            ("b", "", Some("empty")),
            ("", "p", None),
            ("c", "p", None),
        ] {
            assert_eq!(
                request.value(configuration, param),
                expected,
                "{configuration} {param}"
            );
        }
    }
}

#[test]
fn each_attribute_is_read_under_its_own_name() {
    let given = [
        ("configuration.names", "docker,!f"),
        ("configuration.params", r#"{"docker": {"a": "b"}}"#),
        ("configuration", "x"),
        ("Configuration.names", "x"),
        ("names", "x"),
        ("params", "x"),
    ];
    let find = |name: &str| given.iter().find(|it| it.0 == name).map(|it| it.1);
    let expected = FileRequest::parse(Some(given[0].1), Some(given[1].1)).unwrap();
    assert_eq!(FileRequest::of_attributes(find), Ok(expected));
    assert_eq!(
        FileRequest::of_attributes(|_| None),
        Ok(FileRequest::default())
    );
    let broken = |name: &str| (name == "configuration.params").then_some("x");
    assert!(FileRequest::of_attributes(broken).is_err());
    let broken = |name: &str| (name == "configuration.names").then_some("a b");
    assert!(FileRequest::of_attributes(broken).is_err());
}

#[test]
fn classes_are_needed_for_their_configurations_and_for_their_exclusions() {
    for (list, needed) in [
        ("", false),
        ("!f", false),
        ("!.env,!ca.crt", false),
        ("a", true),
        ("a,!f", true),
        ("!c/f", true),
        ("!f,!c/f", true),
    ] {
        assert_eq!(names(list).unwrap().needs_classes(), needed, "{list}");
    }
}

#[test]
fn a_file_is_left_out_by_its_whole_name_of_the_class_that_is_named_or_of_all() {
    const CLASSES: [&str; 4] = ["c", "cc", "c.c", "d"];
    const FILES: [&str; 5] = ["f", "F", "ff", "f.f", ".f"];
    for left_out in FILES {
        for of in [None, Some("c"), Some("c.c")] {
            let list = of.map_or_else(|| format!("!{left_out}"), |of| format!("!{of}/{left_out}"));
            let request = names(&list).unwrap();
            for class in CLASSES {
                for file in FILES {
                    let expected = file == left_out && of.is_none_or(|of| of == class);
                    assert_eq!(
                        request.leaves_out(class, file),
                        expected,
                        "{list} {class}/{file}"
                    );
                }
            }
        }
    }
    let request = names("!c/f,!d/g,!h").unwrap();
    for (class, file, expected) in [
        ("c", "f", true),
        ("d", "g", true),
        ("c", "g", false),
        ("d", "f", false),
        ("c", "h", true),
        ("d", "h", true),
    ] {
        assert_eq!(request.leaves_out(class, file), expected, "{class}/{file}");
    }
}

/// A volume is left as it is while its request is an equal one.
#[test]
fn requests_are_equal_only_where_each_set_of_files_is() {
    let docker = |params| FileRequest::parse(Some("docker"), Some(params)).unwrap();
    let requests = [
        names("").unwrap(),
        names("a,b").unwrap(),
        names("b,a").unwrap(),
        names("a,b,!f").unwrap(),
        names("a,b,!c/f").unwrap(),
        names("!f").unwrap(),
        names("!F").unwrap(),
        names("!c/f").unwrap(),
        docker("{}"),
        docker(r#"{"docker": {"a": ""}}"#),
        docker(r#"{"docker": {"a": "1"}}"#),
        docker(r#"{"docker": {"b": "1"}}"#),
    ];
    for (first, one) in requests.iter().enumerate() {
        for (second, other) in requests.iter().enumerate() {
            assert_eq!(one == other, first == second, "{one:?} {other:?}");
        }
    }
    assert_eq!(names("!f,!g, a").unwrap(), names("a,!g ,!f").unwrap());
}

#[test]
fn what_is_quoted_of_an_attribute_is_short_and_in_one_line() {
    let long = "a\n\u{7}".repeat(1_000);
    let many = (0..64)
        .map(|it| format!("x{it}"))
        .collect::<Vec<_>>()
        .join(",");
    let key = serde_json::json!({&long: {}}).to_string();
    let place = serde_json::json!({&long: {&long: [&long]}}).to_string();
    let form = serde_json::json!({&long: &long}).to_string();
    for (listed, params) in [
        (&*long, "{}"),
        (&format!("!{long}"), "{}"),
        (&format!("!c/{long}"), "{}"),
        (&format!("!{long}/c"), "{}"),
        (&",\n".repeat(1_000), "{}"),
        ("", &*long),
        ("", &key),
        (&many, &key),
        ("", &place),
        ("", &form),
        ("", &serde_json::json!([long]).to_string()),
    ] {
        let error = FileRequest::parse(Some(listed), Some(params)).unwrap_err();
        let text = error.to_string();
        assert!(text.chars().count() < 600, "{} {text}", text.len());
        assert!(!text.contains(char::is_control), "{text:?}");
        assert!(text.contains("configuration."), "{text}");
    }
}

#[test]
fn an_error_says_what_is_written_where_and_what_would_be_right() {
    let parse = FileRequest::parse;
    let example = r#"use an object of objects of texts, as in {"docker": {"registry": "eu"}}"#;
    for (listed, params, told) in [
        ("a b", "{}", "`configuration.names` cannot list `a b`: use the name of a configuration, `!file`, or `!class/file`".to_owned()),
        ("a,a", "{}", "`configuration.names` lists `a` twice: list it once".to_owned()),
        ("a", "{\n x", format!("`configuration.params` cannot be `{{? x`: line 2, column 2 is no JSON; {example}")),
        ("a", "[1]", format!("`configuration.params`: it must be an object of configurations and not `[1]`; {example}")),
        ("a", r#"{"a": {}, "b": "c"}"#, format!("`configuration.params`: `b` must be an object of values and not `\"c\"`; {example}")),
        ("a", r#"{"a": {"p": "", "q": 1.5}}"#, format!("`configuration.params`: `a`.`q` must be a text and not `1.5`; {example}")),
        ("a,b,!c", r#"{"a": {}, "c": {}}"#, "`configuration.params` has values for `c`, which `configuration.names` does not list: it lists a, b".to_owned()),
        ("", r#"{"c": {}}"#, "`configuration.params` has values for `c`, which `configuration.names` does not list: it lists none".to_owned()),
    ] {
        let error = parse(Some(listed), Some(params)).unwrap_err().to_string();
        assert_eq!(error, format!("volume attribute {told}"));
    }
}
