//! The texts about mistakes in the attributes of a volume.

use super::*;

/// The text about a volume with these attributes alone, where pods have these tokens.
fn told(attributes: &[(&str, &str)], tokens: &ProxyTokens) -> String {
    let mut request = request();
    let context = &mut request.volume_context;
    context.remove("connectors");
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    context.extend(attributes.iter().map(owned));
    let place = pods().place(&request.volume_id, &request.target_path);
    let parsed = Publish::parse(&place.unwrap(), &request, tokens);
    parsed
        .and_then(|it| it.files)
        .map(drop)
        .unwrap_err()
        .to_string()
}

/// A value that is longer than a message quotes, and what it quotes of it.
const LONG: &str = "XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX";
const CUT: &str = "`XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX…`";
/// Seventeen connectors.
const CONNECTORS: &str = "c0,c1,c2,c3,c4,c5,c6,c7,c8,c9,c10,c11,c12,c13,c14,c15,c16";
/// Sixty-five names.
const NAMES: &str = "a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a";
const AS_LIST: &str = "use `namespace/name`, or `name`";
const AS_NAMES: &str = "use the name of a configuration, `!file`, or `!class/file`";
const AS_OBJECT: &str = r#"as in {"docker": {"registry": "eu"}}"#;
const WITHOUT: &str = "leave it out";

/// Attributes by key and value.
type Attributes = &'static [(&'static str, &'static str)];

/// Each mistake: the attributes, and from the text the key, the value, and what is accepted.
const MISTAKES: &[(Attributes, [&str; 3])] = &[
    (
        &[],
        ["`connectors`", "is missing", "`namespace/name` or `name`"],
    ),
    (&[("connectors", "")], ["`connectors`", "``", AS_LIST]),
    (
        &[("connectors", "a, b c")],
        ["`connectors`", "`b c`", AS_LIST],
    ),
    (&[("connectors", LONG)], ["`connectors`", CUT, AS_LIST]),
    (
        &[("connectors", "a,a")],
        ["`connectors`", "`shop/a`", "list it once"],
    ),
    (
        &[("connectors", CONNECTORS)],
        ["`connectors`", "`c0,c1,", "at most 16"],
    ),
    (
        &[("connectors", "a"), ("permission", "write")],
        ["`permission`", "`write`", "use apis or proxy"],
    ),
    (
        &[("connectors", "a"), ("onRejected", LONG)],
        ["`onRejected`", CUT, "use Fail or ErrorFile"],
    ),
    (
        &[("connectors", "a"), ("permissions", "proxy")],
        ["`permissions`", "is unknown", "did you mean `permission`?"],
    ),
    (
        &[("connector.name", "a/b")],
        ["`connector.name`", "`a/b`", "use the name of a connector"],
    ),
    (
        &[("connector.name", "a"), ("connector.namespace", "b/c")],
        [
            "`connector.namespace`",
            "`b/c`",
            "use the name of a namespace",
        ],
    ),
    (
        &[("connector.namespace", "tools")],
        [
            "`connector.namespace`",
            "`tools`",
            "write `connector.name` beside it",
        ],
    ),
    (
        &[("connectors", "a"), ("connector.name", "b")],
        [
            "`connectors: a`",
            "`connector.name: b`",
            "use `connectors` alone",
        ],
    ),
    (
        &[("connectors", "a"), ("configuration.names", "b c")],
        ["`configuration.names`", "`b c`", AS_NAMES],
    ),
    (
        &[("connectors", "a"), ("configuration.names", "!.error.json")],
        ["`configuration.names`", "`!.error.json`", AS_NAMES],
    ),
    (
        &[("connectors", "a"), ("configuration.names", "b,b")],
        ["`configuration.names`", "`b`", "list it once"],
    ),
    (
        &[("connectors", "a"), ("configuration.names", NAMES)],
        ["`configuration.names`", "`a,a,a,", "at most 64"],
    ),
    (
        &[("connectors", "a"), ("configuration.params", "{b: c}")],
        ["`configuration.params`", "`{b: c}`", AS_OBJECT],
    ),
    (
        &[("connectors", "a"), ("configuration.params", LONG)],
        ["`configuration.params`", CUT, AS_OBJECT],
    ),
    (
        &[("connectors", "a"), ("configuration.params", "[1]")],
        ["`configuration.params`", "`[1]`", AS_OBJECT],
    ),
    (
        &[
            ("connectors", "a"),
            ("configuration.params", r#"{"b": []}"#),
        ],
        [
            "`configuration.params`",
            "`b` must be an object of values and not `[]`",
            AS_OBJECT,
        ],
    ),
    (
        &[
            ("connectors", "a"),
            ("configuration.params", r#"{"b": {"c": 1}}"#),
        ],
        [
            "`configuration.params`",
            "`b`.`c` must be a text and not `1`",
            AS_OBJECT,
        ],
    ),
    (
        &[
            ("connectors", "a"),
            ("configuration.names", "b"),
            ("configuration.params", r#"{"c": {}}"#),
        ],
        [
            "`configuration.params`",
            "`c`",
            "`configuration.names` does not list: it lists b",
        ],
    ),
    (
        &[("connectors", "a"), ("token.expiration", "soon")],
        [
            "`token.expiration`",
            "`soon`",
            "use a duration from 10m to 24h",
        ],
    ),
    (
        &[("connectors", "a"), ("token.expiration", "2h")],
        ["`token.expiration`", "`2h`", "use at most 60m"],
    ),
    (
        &[("connectors", "a"), ("token.expiration", " 1h ")],
        ["`token.expiration`", "` 1h `", WITHOUT],
    ),
];

#[test]
fn what_is_told_about_an_attribute_is_its_key_its_value_and_what_is_accepted() {
    for (attributes, parts) in MISTAKES {
        let mut tokens = proxy_tokens();
        if parts.contains(&WITHOUT) {
            tokens.audience = None;
        }
        let text = told(attributes, &tokens);
        assert!(text.starts_with("volume attribute"), "{text}");
        for part in parts {
            assert!(text.contains(part), "{part} is not in: {text}");
        }
        assert!(!text.contains("the-token"), "{text}");
    }
}

/// A password that was meant for other software is no news for the readers of events.
#[test]
fn the_value_of_an_unknown_attribute_is_not_told() {
    let text = told(
        &[("connectors", "a"), ("password", "hunter2")],
        &proxy_tokens(),
    );
    assert!(
        text.contains("`password`") && !text.contains("hunter2"),
        "{text}"
    );
}
