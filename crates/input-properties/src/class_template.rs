//! Templates of classes: a text in Go's language, then perhaps the data that it is filled from.

use jiff::Timestamp;
use serde_json::{Value, json};
use text_template::{MissingKey, TemplateLimits, TextTemplate};

use crate::{object, parts};

/// The limits of a file of a volume, and a step for what a fuzzer's input can need.
const LIMITS: TemplateLimits = TemplateLimits {
    text: 256 << 10,
    depth: 64,
    steps: 50_000,
    output: 256 << 10,
    value: 256 << 10,
    memory: 16 << 20,
    regex: 1_000,
};
/// Limits that many inputs reach.
const TIGHT: TemplateLimits = TemplateLimits {
    text: 1_000,
    depth: 8,
    steps: 500,
    output: 100,
    value: 100,
    memory: 4_000,
    regex: 20,
};
/// The most characters of an error: a message of 300, a word of 60 whose characters may be escaped, and the fixed text
/// around both.
const LONGEST_ERROR: usize = 2_000;

/// Parsing and rendering end within their limits, and a limit never changes what is rendered.
pub fn check(data: &[u8]) {
    let Some(mut parts) = parts(data) else { return };
    let text = parts.next().unwrap_or_default();
    let Some(data) = object(parts.next(), variables) else {
        return;
    };
    let generous = rendered(text, &data, &LIMITS);
    let tight = rendered(text, &data, &TIGHT);
    if let (Some(generous), Some(tight)) = (&generous, &tight) {
        assert_eq!(generous, tight, "{text}");
    }
    assert!(generous.is_some() || tight.is_none(), "{text}");
    if let Some(output) = generous
        && let Some(less) = output.len().checked_sub(1)
    {
        let short = TemplateLimits {
            output: less,
            ..LIMITS
        };
        assert_eq!(rendered(text, &data, &short), None, "{text}");
        let exact = TemplateLimits {
            output: output.len(),
            ..LIMITS
        };
        assert_eq!(rendered(text, &data, &exact), Some(output), "{text}");
    }
}

/// The output; none when it is refused. Two renderings are alike, and an error has its place in the text.
fn rendered(text: &str, data: &Value, limits: &TemplateLimits) -> Option<String> {
    let lines = text.matches('\n').count() + 1;
    let is_placed = |line: usize, error: &str| {
        assert!((1..=lines).contains(&line), "{error}: {text}");
        assert!(error.chars().count() <= LONGEST_ERROR, "{error}");
    };
    let template = match TextTemplate::parse("file", text, limits) {
        Ok(template) => template,
        Err(error) => {
            is_placed(error.place.line, &error.to_string());
            return None;
        }
    };
    assert!(text.len() <= limits.text);
    let template = template.with_missing_key(MissingKey::NoValue);
    let render = || template.render(data, limits, Timestamp::UNIX_EPOCH);
    let first = render();
    assert_eq!(first, render(), "{text}");
    match first {
        Ok(output) => {
            assert!(output.len() <= limits.output, "{text}");
            Some(output)
        }
        Err(error) => {
            is_placed(error.place.line, &error.to_string());
            None
        }
    }
}

/// The variables of a file, with something of every type.
fn variables() -> Value {
    let connector = json!({
        "metadata": {"name": "one", "namespace": "tools", "labels": {"team": "a"}, "annotations": {}},
        "spec": {"address": "https://one.example.com:8443/x", "params": [{"name": "n", "value": "v"}]},
        "status": {"proxyAddress": ""},
    });
    json!({
        "connector": connector,
        "connectors": [connector, connector],
        "connectorclass": {"metadata": {"name": "c"}, "spec": {}, "proxyAddress": ""},
        "configurations": {"user": "ann", "number": "7"},
        "context": {"token": "head.claims.signature", "proxy": {"caCert": ""}},
        "values": [null, true, 1, -2.5, "é", [], {}],
    })
}
