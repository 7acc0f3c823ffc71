//! What a template sees, the values of parameters, and a value that is missing.

use super::*;

/// A connector with everything that an object can have.
fn full_connector(name: &str) -> Connector {
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "tools", "uid": "u-1", "resourceVersion": "7", "generation": 2,
            "creationTimestamp": "2026-01-02T03:04:05Z", "finalizers": ["a/b"],
            "labels": {"team": "a"}, "annotations": {"note": "<b>"},
        },
        "spec": {
            "connectorClassName": "oci", "address": "https://own.example.com",
            "addressExtensions": [{"name": "api", "value": "https://api"}],
            "params": [{"name": "project", "value": "shop"}],
            "auth": {"name": "basic", "secretRef": {"name": "s", "namespace": "n"}, "more": 1},
            "caCertSecretRef": {"name": "ca"}, "extra": {"deep": [1, 2.5, true, null]},
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}], "secret": "hidden",
            "proxy": {"httpAddress": {"url": "http://proxy", "CACerts": PEM, "more": "hidden"}},
        },
    }))
    .unwrap()
}

fn full_class(configuration: &Value) -> ConnectorClass {
    serde_json::from_value(json!({
        "metadata": {"name": "oci", "uid": "u-2", "labels": {"kind": "registry"}},
        "spec": {
            "address": {"name": "address", "default": "https://default.example.com"},
            "params": [{"name": "project"}], "configurations": [configuration], "extra": [1],
        },
        "status": {"proxy": {"httpAddress": {"url": "http://of-class", "CACerts": "hidden"}}, "secret": "hidden"},
    }))
    .unwrap()
}

#[test]
fn a_template_sees_what_is_documented_and_nothing_else() {
    let configuration = json!({
        "name": "all", "data": {"f": "{{ toJson . }}"},
        "params": [{"name": "given"}, {"name": "blank", "default": "x"}, {"name": "left", "default": "d"}],
    });
    let class = full_class(&configuration);
    let full = full_connector("harbor");
    // Without labels, annotations, status and an address of its own.
    let plain: Connector = serde_json::from_value(json!({
        "metadata": {"name": "plain", "namespace": "other"}, "spec": {"connectorClassName": "oci"},
    }))
    .unwrap();
    let tool = |connector, address| Tool {
        connector,
        class: Some(&class),
        address,
    };
    let tools = [
        tool(&full, "https://filled-in"),
        tool(&plain, "https://of-the-class"),
    ];
    let params = r#"{"all": {"given": "v", "blank": ""}}"#;
    let request = FileRequest::parse(Some("all"), Some(params)).unwrap();
    let mut context = FileContext {
        token: Some("t0k3n"),
        now: NOW,
        conflict: FileConflict::Refuse,
    };
    let found = |tools: &[Tool<'_>], context: &FileContext<'_>| -> Value {
        let files = render(&request, tools, context).unwrap();
        serde_json::from_str(files.get("f").unwrap()).unwrap()
    };
    let connectors = json!([
        {
            "metadata": {"name": "harbor", "namespace": "tools", "labels": {"team": "a"}, "annotations": {"note": "<b>"}},
            "spec": {
                "connectorClassName": "oci", "address": "https://filled-in",
                "addressExtensions": [{"name": "api", "value": "https://api"}],
                "params": [{"name": "project", "value": "shop"}],
                "auth": {"name": "basic", "secretRef": {"name": "s", "namespace": "n"}, "more": 1},
                "caCertSecretRef": {"name": "ca"}, "extra": {"deep": [1, 2.5, true, null]},
            },
            "status": {"proxyAddress": "http://proxy"},
        },
        {
            "metadata": {"name": "plain", "namespace": "other", "labels": {}, "annotations": {}},
            "spec": {"connectorClassName": "oci", "address": "https://of-the-class"},
            "status": {"proxyAddress": ""},
        },
    ]);
    let expected = json!({
        "connector": connectors[0],
        "connectors": connectors,
        "connectorclass": {
            "metadata": {"name": "oci"},
            "spec": {
                "address": {"name": "address", "default": "https://default.example.com"},
                "params": [{"name": "project"}], "configurations": [configuration], "extra": [1],
            },
            "proxyAddress": "http://of-class",
        },
        "configurations": {"given": "v", "blank": "", "left": "d"},
        "context": {"token": "t0k3n", "proxy": {"caCert": PEM}},
    });
    assert_eq!(found(&tools, &context), expected);
    let [first, second] = tools;
    // The first connector is that of the list, and the certificates are those of the first that has some.
    let turned = found(&[second, first], &context);
    assert_eq!(turned["connector"], connectors[1]);
    assert_eq!(turned["connectors"], json!([connectors[1], connectors[0]]));
    assert_eq!(turned["context"]["proxy"]["caCert"], PEM);
    let alone = found(&[second], &context);
    assert_eq!(
        alone["context"],
        json!({"token": "t0k3n", "proxy": {"caCert": ""}})
    );
    // Without a token its key is missing, and such a file is refused.
    context.token = None;
    assert!(render(&request, &[second], &context).is_err());
}

#[test]
fn a_class_sees_its_own_connectors_and_its_own_certificates() {
    let text = "{{ range .connectors }}{{ .metadata.name }};{{ end }}{{ .connectorclass.metadata.name }} \
        {{ .context.proxy.caCert }}";
    let each = ["a", "b", "a"].iter().enumerate().map(|(number, name)| {
        let class = class(name, &one_file("x", &format!("f-{name}"), text));
        let mut connector = connector(&format!("c{number}"), name, Some("http://one"));
        let proxy = &mut connector.status.as_mut().unwrap().0["proxy"]["httpAddress"];
        proxy["CACerts"] = format!("{PEM}{number}").into();
        (connector, Some(class))
    });
    let mut volume = Volume::of(each.collect());
    volume.names = "x";
    let files = volume.files().unwrap();
    assert_eq!(files.get("f-a"), Some(&*format!("c0;c2;a {PEM}0")));
    assert_eq!(files.get("f-b"), Some(&*format!("c1;b {PEM}1")));
}

#[test]
fn the_time_is_that_of_the_context_in_every_file() {
    let class = class(
        "oci",
        &json!({"name": "a", "data": {
            "f": "{{ now | unixEpoch }}", "g": "{{ now | date \"2006-01-02T15:04:05\" }}",
        }}),
    );
    let connector = connector("harbor", "oci", None);
    let request = FileRequest::parse(Some("a"), None).unwrap();
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00"),
        (1_700_000_001, "2023-11-14T22:13:21"),
    ] {
        let context = FileContext {
            token: None,
            now: Timestamp::from_second(seconds).unwrap(),
            conflict: FileConflict::Refuse,
        };
        let tool = Tool {
            connector: &connector,
            class: Some(&class),
            address: "x",
        };
        let files = render(&request, &[tool], &context).unwrap();
        assert_eq!(files.get("f"), Some(&*seconds.to_string()));
        assert_eq!(files.get("g"), Some(text));
    }
}

/// What the pod gives counts, whatever it is; an absent value is the default, whatever that is.
#[test]
fn a_value_is_that_of_the_pod_else_the_default_else_refused() {
    let texts = [
        None,
        Some(""),
        Some(" "),
        Some("a"),
        Some("null"),
        Some("ä\n\""),
    ];
    for default in texts {
        for given in texts {
            let mut param = json!({"name": "p", "type": "string"});
            if let Some(default) = default {
                param["default"] = default.into();
            }
            // Neither of these is the value: names in other case, longer names, and a name of another configuration.
            let others =
                json!([param, {"name": "P", "default": "no"}, {"name": "pp", "default": "no"}]);
            let other =
                json!({"name": "other", "data": {}, "params": [{"name": "p", "default": "no"}]});
            let own = json!({"name": "own", "data": {"f": "[{{ .configurations.p }}]"}, "params": others});
            let mut class = class("oci", &own);
            class.spec.configurations = serde_json::from_value(json!([other, own])).unwrap();
            let mut volume = Volume::of(vec![(connector("harbor", "oci", None), Some(class))]);
            let mut values = json!({"P": "no", "pp": ""});
            if let Some(given) = given {
                values["p"] = given.into();
            }
            let params = json!({"own": values, "other": {"p": "no"}}).to_string();
            (volume.names, volume.params) = ("other,own", params.leak());
            let found = volume.files();
            match given.or(default) {
                Some(value) => {
                    let expected = format!("[{value}]");
                    let found = found.unwrap();
                    assert_eq!(found.get("f"), Some(&*expected), "{default:?} {given:?}");
                }
                None => assert_eq!(
                    found.unwrap_err(),
                    FilesError::NoValue {
                        class: "oci".to_owned(),
                        configuration: "own".to_owned(),
                        param: "p".to_owned(),
                    }
                ),
            }
        }
    }
}

#[test]
fn every_parameter_needs_a_value_whether_or_not_a_template_reads_it() {
    let params = |without: usize| {
        let each = (0..5).map(|number| {
            let name = format!("p{number}");
            if number == without {
                json!({"name": name})
            } else {
                json!({"name": name, "default": ""})
            }
        });
        each.collect::<Value>()
    };
    for without in 0..6 {
        for data in [json!({}), json!({"f": "x"})] {
            let configuration = json!({"name": "a", "data": data, "params": params(without)});
            let found = Volume::with(&configuration, "a").files();
            let missing = match &found {
                Err(FilesError::NoValue { param, .. }) => Some(param.clone()),
                Ok(_) => None,
                Err(other) => panic!("{other}"),
            };
            assert_eq!(missing, (without < 5).then(|| format!("p{without}")));
            // No pod asks for the configuration.
            assert!(Volume::with(&configuration, "").files().is_ok());
        }
    }
}

/// A value may be for the configuration of one class although another class has one of the same name.
#[test]
fn a_value_is_declared_if_one_of_the_classes_declares_it() {
    let of = |class_name: &str, param: &str| {
        let text = format!("{{{{ .configurations.{param} }}}}");
        let configuration = json!({
            "name": "x", "data": {format!("f-{class_name}"): text}, "params": [{"name": param, "default": "d"}],
        });
        (
            connector(class_name, class_name, None),
            Some(class(class_name, &configuration)),
        )
    };
    let mut volume = Volume::of(vec![of("a", "p"), of("b", "q"), of("c", "p")]);
    volume.names = "x";
    for (params, expected) in [
        (r#"{"x": {"p": "v"}}"#, ["v", "d", "v"]),
        (r#"{"x": {"q": "v"}}"#, ["d", "v", "d"]),
        (r#"{"x": {"p": "1", "q": "2"}}"#, ["1", "2", "1"]),
    ] {
        volume.params = params;
        let files = volume.files().unwrap();
        let found = ["f-a", "f-b", "f-c"].map(|it| files.get(it).unwrap());
        assert_eq!(found, expected, "{params}");
    }
    for misspelt in ["P", "pq", "", "p "] {
        volume.params = json!({"x": {"p": "v", misspelt: ""}}).to_string().leak();
        let error = volume.files().unwrap_err();
        let expected = FilesError::NoParam {
            configuration: "x".to_owned(),
            param: misspelt.to_owned(),
            known: "p, q, p".to_owned(),
        };
        assert_eq!(error, expected);
    }
}

/// Each function that prints a value prints a missing one in its own way.
#[test]
fn a_missing_value_is_refused_however_it_is_printed() {
    for missing in [
        ".connector.spec.user",
        ".connector.spec.auth.user",
        ".configurations.user",
        ".connector.metadata.labels.user",
        ".nosuch",
        "(index .connector.metadata.annotations \"user\")",
    ] {
        for print in [
            "{{ X }}",
            "{{ X | print }}",
            "{{ print \"a\" X }}",
            "{{ println X }}",
            "{{ printf \"%s\" X }}",
            "{{ printf \"%v\" X }}",
            "{{ printf \"%d-%q\" 1 X }}",
            "{{ printf \"%s:%s\" \"a\" X }}",
            "{{ X | toString }}",
            "{{ html X }}",
            "{{ printf \"%s\" X | html }}",
            "{{ print X | html }}",
            "{{ urlquery X }}",
            "{{ js X }}",
            "{{ with $x := \"a\" }}{{ $x }}{{ end }}{{ X }}",
            "{{ define \"t\" }}{{ . }}{{ end }}{{ template \"t\" X }}",
            "{{ list X | first }}",
        ] {
            for (before, after, line) in [("", "", 1), ("a\n\n", "\nb", 3), ("a\r\n", "", 2)] {
                let text = format!("{before}{}{after}", print.replace('X', missing));
                let found = Volume::with(&one_file("a", "f", &text), "a").files();
                let refused = FilesError::Configuration {
                    class: "oci".to_owned(),
                    configuration: "a".to_owned(),
                    error: FileTemplateError::MissingValue {
                        file: "f".to_owned(),
                        line,
                    },
                };
                assert_eq!(found, Err(refused), "{text}");
            }
        }
    }
}

#[test]
fn a_value_that_is_asked_for_first_is_none_that_is_missing() {
    for (text, expected) in [
        ("{{ if .connector.spec.user }}a{{ else }}b{{ end }}", "b"),
        ("{{ with .connector.spec.user }}a{{ end }}", ""),
        ("{{ .connector.spec.user | default \"d\" }}", "d"),
        ("{{ range .connector.spec.users }}a{{ end }}", ""),
        ("{{ if and .nosuch .nosuch }}a{{ end }}x", "x"),
        ("{{ coalesce .nosuch \"c\" }}", "c"),
        ("{{ .connector.spec.user | quote }}", ""),
        (
            "no value, nil, <nil/>, <novalue>",
            "no value, nil, <nil/>, <novalue>",
        ),
    ] {
        let files = Volume::with(&one_file("a", "f", text), "a").files();
        assert_eq!(files.unwrap().get("f"), Some(expected), "{text}");
    }
}

/// The first of them is told.
#[test]
fn the_line_of_a_missing_value_is_one_of_the_file_and_not_of_the_template() {
    let text = "{{ range until 4 }}x\n{{ end }}{{/*\n\n*/}}{{ .nosuch }}\n{{ .nosuch }}";
    let error = Volume::with(&one_file("a", "f", text), "a")
        .files()
        .unwrap_err();
    assert!(
        error.to_string().ends_with("(<no value> or <nil>, line 5)"),
        "{error}"
    );
}

/// Names are those of the author of a class.
#[test]
fn names_of_a_class_are_told_by_their_beginning_in_one_line() {
    let long = "n\n".repeat(200);
    for text in [
        "{{ .a",
        "{{ fail \"x\" }}",
        "{{ .nosuch }}",
        "{{ .context.token.x }}",
        "x",
    ] {
        for token in [None, Some("t0k3n")] {
            let mut volume = Volume::with(&one_file("a", &long, text), "a");
            volume.token = token;
            let error = volume.files().unwrap_err().to_string();
            assert!(
                error.len() < 300 && !error.contains('\n'),
                "{text}: {error:?}"
            );
        }
    }
    let known = json!({"name": "a", "data": {&long: ""}, "params": [{"name": long}]});
    for (names, params) in [
        ("a", "{}"),
        ("a", r#"{"a": {"x": ""}}"#),
        ("a,!x", r#"{"a": {}}"#),
        ("a,!oci/x", "{}"),
    ] {
        let mut volume = Volume::with(&known, names);
        volume.params = params;
        let error = volume.files().unwrap_err().to_string();
        assert!(
            error.len() < 600 && !error.contains('\n'),
            "{names} {params}: {error:?}"
        );
    }
}
