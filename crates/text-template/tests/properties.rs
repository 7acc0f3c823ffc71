//! Properties of every text, every data and every limit.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[path = "common/grammar.rs"]
mod grammar;

use grammar::templates;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use text_template::{
    MissingKey, TemplateLimit, TemplateLimits, TemplateRenderProblem, TextTemplate,
};

fn data() -> Value {
    json!({
        "s": "hello world", "u": "héllo ß", "e": "", "quote": "a\"b'<&>\n", "json": "{\"a\":[1]}", "n": 3, "neg": -7, "zero": 0,
        "big": 9_007_199_254_740_993_i64, "f": 1.5, "fbig": 1e21, "fsmall": 0.000_001, "t": true, "no": false, "nil": null,
        "list": ["b", "a", "c"], "ints": [3, 1, 2], "mixed": [1, "a", null, [2], {"k": "v"}], "nested": [[1, 2], [3]], "empty": [],
        "dict": {"a": 1, "b": 2, "c": {"d": "deep"}}, "none": {}, "connectors": [{"name": "one"}],
        "connector": {"metadata": {"name": "harbor"}},
    })
}

/// Renders, if it can be parsed, and checks the limit of the output.
fn try_out(text: &str, data: &Value, limits: &TemplateLimits) {
    let Ok(template) = TextTemplate::parse("random", text, limits) else {
        return;
    };
    for missing in [MissingKey::Error, MissingKey::Zero, MissingKey::NoValue] {
        let template = TextTemplate::parse("random", text, limits).unwrap();
        let template = template.with_missing_key(missing);
        if let Ok(text) = template.render(data, limits, Timestamp::UNIX_EPOCH) {
            assert!(text.len() <= limits.output);
        }
    }
    drop(template);
}

/// Characters that mean something, so that texts are sometimes right.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "{{",
        "}}",
        "{{-",
        "-}}",
        "{{ ",
        " }}",
        "(",
        ")",
        "|",
        ".",
        ".a",
        "$",
        "$x",
        ":=",
        "=",
        ",",
        " ",
        "\n",
        "\"",
        "`",
        "'",
        "\\",
        "/*",
        "*/",
        "1",
        "0x",
        "1e9",
        "-",
        "+",
        "i",
        "é",
        "\u{0}",
        "if",
        "else",
        "end",
        "range",
        "with",
        "define",
        "template",
        "block",
        "break",
        "continue",
        "nil",
        "true",
        "print",
        "printf",
        "\"%d\"",
        "index",
        "len",
        "list",
        "dict",
        "set",
        "repeat",
        "9999999",
        "until",
        "regexMatch",
        "\"(a*)*\"",
        "toJson",
        "{{end}}",
        "{{range .list}}",
        "\"x\"",
    ]);
    prop::collection::vec(pieces, 0..40).prop_map(|it| it.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, rng_seed: prop::test_runner::RngSeed::Fixed(1), ..Default::default() })]

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        try_out(&String::from_utf8_lossy(&bytes), &data(), &TemplateLimits::default());
    }

    #[test]
    fn no_pieces_of_the_language_make_it_panic(text in texts()) {
        try_out(&text, &data(), &TemplateLimits::default());
    }

    #[test]
    fn no_template_of_the_grammar_makes_it_panic(text in templates()) {
        try_out(&text, &data(), &TemplateLimits::default());
    }

    #[test]
    fn every_limit_is_kept(text in templates(), steps in 0_u64..500, bytes in 0_usize..300, depth in 0_usize..8) {
        let limits = TemplateLimits {
            depth, steps, output: bytes, value: bytes, memory: 20 * bytes, regex: bytes / 10, text: 10_000,
        };
        try_out(&text, &data(), &limits);
        try_out(&text, &Value::Null, &TemplateLimits { depth: usize::MAX, ..TemplateLimits::default() });
    }

    #[test]
    fn the_same_is_rendered_with_just_enough(text in templates()) {
        let limits = TemplateLimits::default();
        let render = |limits: &TemplateLimits| {
            let template = TextTemplate::parse("random", &text, limits).ok()?;
            Some(template.render(&data(), limits, Timestamp::UNIX_EPOCH))
        };
        if let Some(Ok(whole)) = render(&limits) {
            let exact = TemplateLimits { output: whole.len(), ..limits };
            prop_assert_eq!(render(&exact), Some(Ok(whole.clone())));
            if !whole.is_empty() {
                let less = TemplateLimits { output: whole.len() - 1, ..limits };
                let problem = render(&less).unwrap().unwrap_err().problem;
                prop_assert_eq!(problem, TemplateRenderProblem::Limit(TemplateLimit::Output(whole.len() - 1)));
            }
        }
    }
}
