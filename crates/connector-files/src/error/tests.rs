use super::*;

#[test]
fn a_list_of_names_is_told_in_ten_words_and_a_number() {
    let list = |count: usize| {
        let names: Vec<_> = (0..count).map(|it| format!("n{it}")).collect();
        listed(names.iter().map(String::as_str))
    };
    let ten = "n0, n1, n2, n3, n4, n5, n6, n7, n8, n9";
    for (count, told) in [
        (0, "none".to_owned()),
        (1, "n0".to_owned()),
        (2, "n0, n1".to_owned()),
        (10, ten.to_owned()),
        (11, format!("{ten} and 1 more")),
        (1_000, format!("{ten} and 990 more")),
    ] {
        assert_eq!(list(count), told);
    }
    let long = "a\n".repeat(100);
    assert_eq!(
        listed([&*long, ""].into_iter()),
        format!("{}, ", "a?".repeat(32))
    );
}

#[test]
fn the_attributes_are_at_fault_for_names_that_no_class_has_and_for_nothing_else() {
    let text = || "x".to_owned();
    let no_configuration = || FilesError::NoConfiguration {
        name: text(),
        known: text(),
    };
    for of_attributes in [
        no_configuration(),
        FilesError::NoParam {
            configuration: text(),
            param: text(),
            known: text(),
        },
        FilesError::NothingLeftOut {
            name: text(),
            known: text(),
        },
    ] {
        assert!(of_attributes.is_of_attributes(), "{of_attributes}");
    }
    for other in [
        FilesError::ClassMissing {
            unknown: Box::new(no_configuration()),
            connector: text(),
        },
        FilesError::NoValue {
            class: text(),
            configuration: text(),
            param: text(),
        },
        FilesError::FileName(text()),
        FilesError::Conflict {
            file: text(),
            first: text(),
            second: text(),
        },
        FilesError::Repeated {
            file: text(),
            class: text(),
            first: text(),
            second: text(),
        },
        FilesError::ProxyAddress(text()),
        FilesError::Proxies {
            first: text(),
            second: text(),
            left_out: text(),
        },
        FilesError::Configuration {
            class: text(),
            configuration: text(),
            error: FileTemplateError::NoToken(text()),
        },
        FilesError::TooMuch,
    ] {
        assert!(!other.is_of_attributes(), "{other}");
    }
}

#[test]
fn the_limits_are_those_of_the_documentation() {
    assert_eq!((MOST_FILES, MOST_BYTES), (64, 256 * 1_024));
    let told = "a volume takes 64 files of 262144 bytes in all, and these are more";
    assert_eq!(FilesError::TooMuch.to_string(), told);
    let steps = (crate::limits::MOST_STEPS, crate::limits::MOST_STEPS_OF_ONE);
    assert_eq!(steps, (200_000, 50_000));
}

#[test]
fn what_would_be_written_twice_is_refused_unless_somebody_chose_otherwise() {
    assert_eq!(crate::FileConflict::default(), crate::FileConflict::Refuse);
}

/// What would help is told where only the author of the pod can know it.
#[test]
fn each_error_names_what_it_is_about() {
    let text = |it: &str| it.to_owned();
    for (error, told) in [
        (
            FilesError::Conflict {
                file: text("f"),
                first: text("a"),
                second: text("b"),
            },
            "`f` is written by class a and again by class b: leave one out with `!a/f` or `!b/f` in the volume attribute `configuration.names`",
        ),
        (
            FilesError::Proxies {
                first: text("n/a"),
                second: text("n/b"),
                left_out: text("!f,!g"),
            },
            "connectors n/a and n/b have different proxies: use a volume for each, or add `!f,!g` to the volume attribute `configuration.names`",
        ),
        (
            FilesError::ProxyAddress(text("n/a")),
            "connector n/a: `status.proxy.httpAddress.url` is no address of a proxy: use http://host:port",
        ),
        (
            FilesError::Configuration {
                class: text("c"),
                configuration: text("x"),
                error: FileTemplateError::MissingValue {
                    file: text("f"),
                    line: 3,
                },
            },
            "class c, configuration `x`: `f` prints a value that is missing (<no value> or <nil>, line 3)",
        ),
        (
            FilesError::Configuration {
                class: text("c"),
                configuration: text("x"),
                error: FileTemplateError::NoToken(text("f")),
            },
            "class c, configuration `x`: `f` depends on the pod's token, and the kubelet handed none (chart value csiNode.proxyToken.audience)",
        ),
        (
            FilesError::Configuration {
                class: text("c"),
                configuration: text("x"),
                error: FileTemplateError::WithThisToken(text("f")),
            },
            "class c, configuration `x`: `f` cannot be made with the token of this pod",
        ),
    ] {
        assert_eq!(error.to_string(), told);
    }
}
