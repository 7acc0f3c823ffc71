//! The steps and the memory that a template pays for: no work goes uncounted.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use jiff::Timestamp;
use serde_json::{Value, json};
use text_template::{
    TemplateLimit, TemplateLimits, TemplateParseError, TemplateParseProblem, TemplateRenderProblem,
    TextTemplate,
};

fn parsed(text: &str) -> Result<TextTemplate, TemplateParseError> {
    TextTemplate::parse("cost", text, &TemplateLimits::default())
}

/// Whether the limits let it be rendered, without data.
fn renders(text: &str) -> bool {
    let limits = TemplateLimits::default();
    let rendered = parsed(text)
        .unwrap()
        .render(&json!({}), &limits, Timestamp::UNIX_EPOCH);
    rendered.is_ok()
}

/// The states of an expression and the places of its groups are memory too, while it is kept.
#[test]
fn regular_expressions_count_as_memory_while_they_are_kept() {
    let limited = |text: &str, memory| {
        let limits = TemplateLimits {
            memory,
            ..TemplateLimits::default()
        };
        let rendered = parsed(text)
            .unwrap()
            .render(&json!({}), &limits, Timestamp::UNIX_EPOCH);
        rendered.map_err(|it| it.problem)
    };
    // 900 elements and 31 groups.
    let large = r#"{{ regexMatch (print (repeat 30 "(.)") "(" (repeat 28 ".{30}") ")") "x" }}"#;
    assert_eq!(
        limited(large, 8 << 20),
        Err(TemplateRenderProblem::Limit(TemplateLimit::Memory(8 << 20)))
    );
    assert_eq!(limited(large, 16 << 20), Ok("false".to_owned()));
    // Of 300 expressions two are kept, and the others no longer count.
    let many =
        r#"{{ range until 300 }}{{ regexMatch (printf "^(.)(.)%d$" .) "x" | not }}{{ end }}"#;
    assert_eq!(limited(many, 1 << 20), Ok("true".repeat(300)));
}

/// How many steps a template takes: with fewer it is stopped.
fn steps(text: &str, data: &Value) -> u64 {
    let template = parsed(text).unwrap();
    let is_enough = |steps: u64| {
        let limits = TemplateLimits {
            steps,
            ..TemplateLimits::default()
        };
        match template.render(data, &limits, Timestamp::UNIX_EPOCH) {
            Ok(_) => true,
            Err(error) => {
                let stop = TemplateRenderProblem::Limit(TemplateLimit::Steps(steps));
                assert_eq!(error.problem, stop, "{text}");
                false
            }
        }
    };
    let (mut few, mut enough) = (0, 1 << 20);
    while enough - few > 1 {
        let middle = u64::midpoint(few, enough);
        if is_enough(middle) {
            enough = middle;
        } else {
            few = middle;
        }
    }
    enough
}

/// Each 64 bytes of a text and each 64 elements of an argument are a step, regardless of the function's work.
#[test]
fn every_function_pays_for_what_it_is_given() {
    let small = json!({"s": "", "list": [], "dict": {}});
    let entries: serde_json::Map<_, _> = (0..640).map(|it| (it.to_string(), json!(1))).collect();
    let large = json!({"s": "x".repeat(6_400), "list": vec![1; 640], "dict": entries});
    let more = |text: &str| steps(text, &large) - steps(text, &small);
    let data = more("");
    for (call, least) in [
        ("nospace .s | empty", 100),
        ("hasPrefix .s .s", 200),
        ("hasSuffix .s .s", 200),
        ("trim .s | empty", 100),
        ("base .s | empty", 100),
        ("clean .s | empty", 100),
        ("dir .s", 100),
        ("isAbs .s", 100),
        ("int .s", 100),
        ("int64 .s", 100),
        ("atoi .s", 100),
        ("float64 .s", 100),
        ("typeIs .s 1", 100),
        ("eq .s .s", 200),
        ("plural .s .s 1 | empty", 200),
        ("len .list", 10),
        ("len .dict", 10),
        ("empty .dict", 10),
        ("hasKey .dict \"no\"", 10),
    ] {
        let took = more(&format!("{{{{ $x := {call} }}}}")) - data;
        assert!(took >= least, "{call}: {took} steps");
    }
}

/// An expression may go to the end of the text for each of its matches.
#[test]
fn each_match_pays_for_a_search_of_the_rest() {
    let of = |text: &str, length: usize| steps(text, &json!({"s": "a".repeat(length)}));
    for text in [
        r#"{{ regexFindAll "a" .s -1 | len }}"#,
        r#"{{ regexSplit "a" .s -1 | len }}"#,
        r#"{{ regexReplaceAll "a" .s "" }}"#,
        r#"{{ regexReplaceAllLiteral "a" .s "" }}"#,
    ] {
        let (short, long) = (of(text, 4_000), of(text, 8_000));
        assert!(long > 3 * short, "{text}: {short} and {long}");
    }
}

/// A text twice as long takes twice as many steps, for all line widths.
#[test]
fn lines_are_broken_in_linear_time() {
    let of = |text: &str, length: usize| steps(text, &json!({"s": "x".repeat(length)}));
    for text in [
        r#"{{ wrapWith 1 "\n" .s }}"#,
        r#"{{ wrapWith 9 "\n" .s }}"#,
        "{{ wrap 1 .s }}",
        "{{ wrap 1 (print .s ` ` .s) }}",
    ] {
        let (short, long) = (of(text, 8_000), of(text, 16_000));
        assert!(long < 2 * short + 100, "{text}: {short} and {long}");
    }
}

/// A range pays for its elements before it copies them, also when it ends at once.
#[test]
fn a_range_pays_for_what_it_copies() {
    let entries: serde_json::Map<_, _> = (0..1_000).map(|it| (it.to_string(), json!(1))).collect();
    let data = json!({"dict": entries, "list": vec![1; 1_000]});
    let without = steps("", &data);
    let broken = |what: &str| {
        steps(
            &format!("{{{{ range {what} }}}}{{{{ break }}}}{{{{ end }}}}"),
            &data,
        )
    };
    assert!(broken(".dict") - without > 1_000);
    // A list is not copied.
    assert!(broken(".list") - without < 10);
}

/// As in Go, an element is read when its turn comes.
#[test]
fn a_range_sees_a_list_that_is_sorted_meanwhile() {
    let text = r#"{{ $l := splitList "," "c,b,a" }}{{ range $l }}{{ . }}{{ $_ := sortAlpha $l }}{{ end }}"#;
    let rendered = parsed(text).unwrap().render(
        &json!({}),
        &TemplateLimits::default(),
        Timestamp::UNIX_EPOCH,
    );
    assert_eq!(rendered.unwrap(), "cbc");
}

/// Variables are looked for one by one.
#[test]
fn a_template_has_a_limited_number_of_variables() {
    let many = |count: usize| "{{ $a := 1 }}".repeat(count);
    let names: Vec<_> = (0..1_000)
        .map(|it| format!("{{{{ $a{it} := 1 }}}}"))
        .collect();
    let limit = TemplateLimit::Variables(1_000);
    // The first one is $.
    assert!(renders(&many(999)));
    for text in [
        many(1_000),
        many(50_000),
        names.concat(),
        format!("{{{{ if 1 }}}}{}{{{{ end }}}}", many(1_000)),
        format!("{}{{{{ range $i, $v := . }}}}{{{{ end }}}}", many(998)),
    ] {
        let problem = parsed(&text).unwrap_err().problem;
        assert_eq!(problem, TemplateParseProblem::Limit(limit));
    }
    // Variables out of scope do not count, nor do later assignments to a variable.
    for text in [
        "{{ if 1 }}{{ $a := 1 }}{{ $b := 1 }}{{ end }}".repeat(2_000),
        format!("{{{{ $a := 1 }}}}{}", "{{ $a = 2 }}".repeat(2_000)),
        format!(
            "{}{{{{ define `t` }}}}{}{{{{ end }}}}{{{{ template `t` }}}}",
            many(900),
            many(900)
        ),
    ] {
        assert!(renders(&text));
    }
    // A look at many names takes steps.
    let looks = |count: usize| {
        steps(
            &format!("{}{}", many(count), "{{ if $ }}{{ end }}".repeat(100)),
            &json!({}),
        )
    };
    let declared = |count: usize| steps(&many(count), &json!({}));
    assert!(looks(900) - declared(900) > looks(1) - declared(1) + 1_000);
}
