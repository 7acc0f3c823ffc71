//! What a template only looks at is not copied: a step pays for one element, and not for all that stand behind it.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use allocation_counter::measure;
use jiff::Timestamp;
use serde_json::{Value, json};
use text_template::{TemplateLimits, TextTemplate};

/// The bytes that a rendering takes, and what it writes.
fn rendered(text: &str, data: &Value) -> (u64, String) {
    let limits = TemplateLimits::default();
    let template = TextTemplate::parse("cost", text, &limits).unwrap();
    let mut written = String::new();
    let cost = measure(|| {
        written = template
            .render(data, &limits, Timestamp::UNIX_EPOCH)
            .unwrap();
    });
    (cost.bytes_total, written)
}

/// Two values that differ at the first place, compared a hundred times.
fn compares(one: &Value, other: &Value) {
    let data = json!({"one": one, "other": other});
    let build =
        "{{ $o := .other }}{{ $l := list }}{{ range until 100 }}{{ $l = append $l $o }}{{ end }}";
    let (without, _) = rendered(build, &data);
    let (with, written) = rendered(&format!("{build}{{{{ has .one $l }}}}"), &data);
    assert_eq!(written, "false");
    let took = with - without;
    // A copy of both values takes 48,000 bytes each time.
    assert!(took < 48_000, "{took} bytes");
}

#[test]
fn a_comparison_copies_no_list() {
    let list = |first: u64| json!((first..first + 1_000).collect::<Vec<_>>());
    compares(&list(0), &list(1));
}

#[test]
fn a_comparison_copies_no_dictionary() {
    let dict = |first: u64| {
        let entries = (first..first + 1_000).map(|it| (format!("{it:04}"), json!(it)));
        Value::Object(entries.collect())
    };
    compares(&dict(0), &dict(1));
    // Neither if only their lengths differ.
    let mut longer = dict(0);
    longer
        .as_object_mut()
        .unwrap()
        .insert("x".to_owned(), json!(1));
    compares(&dict(0), &longer);
}

#[test]
fn a_value_that_is_no_json_is_not_copied() {
    let data = json!({"rest": vec![0; 1_000]});
    let build = "{{ $l := prepend .rest (float64 `NaN`) }}";
    let (without, _) = rendered(build, &data);
    let (with, written) = rendered(&format!("{build}{}", "{{ toJson $l }}".repeat(100)), &data);
    assert_eq!(written, "");
    assert!(with - without < 48_000, "{} bytes", with - without);
}
