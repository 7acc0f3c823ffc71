#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use serde_json::json;

use super::*;
use crate::{
    Refusal, TemplateLimits, TemplateParseProblem, TextTemplate, error::TemplateRenderError,
};

fn render(text: &str) -> std::result::Result<String, TemplateRenderError> {
    let limits = TemplateLimits::default();
    let now = Timestamp::from_second(1_772_636_767).unwrap();
    let template = TextTemplate::parse("test", text, &limits).unwrap();
    template.render(&json!({}), &limits, now)
}

fn text(text: &str) -> Value {
    Value::text(text)
}

/// Calls a function as a template does.
fn called(meter: &Meter, expressions: &Expressions, name: &str, values: &[Value]) -> Result {
    let function = find(name).unwrap();
    let How::Call(call) = function.how else {
        panic!("{name} is no call");
    };
    call(&Call {
        function: function.name,
        meter,
        now: Timestamp::UNIX_EPOCH,
        expressions,
        values: values.to_vec(),
    })
}

/// Whether a call takes that many steps, and no fewer.
fn takes(expressions: &Expressions, name: &str, values: &[Value], steps: u64) -> bool {
    let with = |steps: u64| {
        let limits = TemplateLimits {
            steps,
            ..TemplateLimits::default()
        };
        called(&Meter::new(&limits), expressions, name, values)
    };
    let stop = TemplateRenderProblem::Limit(TemplateLimit::Steps(steps - 1));
    with(steps).is_ok() && with(steps - 1).is_err_and(|it| it == stop)
}

/// Work that is more than to read the arguments and to write the result has its own price.
#[test]
fn each_kind_of_work_costs_its_steps() {
    let long = text(&"x".repeat(6_400));
    let meter = Meter::new(&TemplateLimits::default());
    let list = meter.texts(vec!["a"; 100]).unwrap();
    for (name, values, steps) in [
        // A step for each 64 bytes and one more, and one for the short result.
        ("adler32sum", vec![long.clone()], 101 + 1),
        // Eight times as much, and 64 or 128 digits.
        ("sha256sum", vec![long.clone()], 801 + 2),
        ("sha512sum", vec![long.clone()], 801 + 3),
        // Each of 64 characters is compared with each byte, 16 of them at a time; the result is as long.
        (
            "trimAll",
            vec![text(&"-".repeat(64)), long.clone()],
            401 + 101,
        ),
        (
            "replace",
            vec![text("y"), text(""), long.clone()],
            101 + 101,
        ),
        // The elements, a text of each, and 512 bytes of comparisons for each.
        ("sortAlpha", vec![list], 100 + 100 + 801),
        // The break, the 6399 bytes up to the end of the word, two pieces, and the result.
        ("wrap", vec![Value::Int(1), long], 1 + 99 + 101 + 1 + 101),
    ] {
        assert!(
            takes(&Expressions::default(), name, &values, steps),
            "{name}"
        );
    }
}

/// A search pays for what is left of the text, and not for what it has gone through.
#[test]
fn a_search_pays_for_the_rest_of_the_text() {
    let expressions = Expressions::default();
    let meter = Meter::new(&TemplateLimits::default());
    let found_first = text(&format!("x{}", "a".repeat(1_023)));
    let (expression, all) = (text("x"), Value::Int(-1));
    let find_all = [expression.clone(), found_first.clone(), all];
    let replace = [expression, found_first, text("")];
    // It is compiled here, and known from then on.
    called(&meter, &expressions, "regexFindAll", &find_all).unwrap();
    // A search of 1024 bytes and one of 1023, then the text, its place and the list.
    assert!(takes(&expressions, "regexFindAll", &find_all, 3 + 2 + 3));
    // The same searches, the empty pieces before the match and of the replacement, the rest, and the result.
    let steps = 3 + 2 + 2 + 16 + 16;
    assert!(takes(&expressions, "regexReplaceAll", &replace, steps));
}

#[test]
fn two_expressions_are_compiled_once() {
    let expressions = Expressions::default();
    let meter = Meter::new(&TemplateLimits::default());
    let arguments = |pattern: &str| [text(pattern), text("")];
    for pattern in ["a", "b"] {
        called(&meter, &expressions, "regexMatch", &arguments(pattern)).unwrap();
    }
    for pattern in ["a", "b"] {
        assert!(
            takes(&expressions, "regexMatch", &arguments(pattern), 1),
            "{pattern}"
        );
    }
    called(&meter, &expressions, "regexMatch", &arguments("c")).unwrap();
    assert_eq!(expressions.borrow().len(), 2);
    assert!(!takes(&expressions, "regexMatch", &arguments("a"), 1));
}

/// Before it is made, and by its true length.
#[test]
fn the_result_of_replace_has_the_limit_of_a_value() {
    for (old, new, whole, length) in [
        ("a", "bb", "aXa", 5),
        ("", "-", "ab", 5),
        ("aaa", "b", "aaaX", 2),
        ("x", "y", "xxxx", 4),
    ] {
        let with = |value: usize| {
            let limits = TemplateLimits {
                value,
                ..TemplateLimits::default()
            };
            let values = [old, new, whole].map(text);
            let expressions = Expressions::default();
            called(&Meter::new(&limits), &expressions, "replace", &values)
        };
        let made = with(length).unwrap();
        assert_eq!(made.size(), length, "{old} {new} {whole}");
        let beyond = TemplateRenderProblem::Limit(TemplateLimit::Value(length - 1));
        assert_eq!(with(length - 1).unwrap_err(), beyond, "{old} {new} {whole}");
    }
}

/// The recorded cases accept a refusal where Go renders. What is here has to be rendered, and is what Go's
/// text/template and sprig write.
fn renders(cases: &[(&str, &str)]) {
    for (template, wanted) in cases {
        assert_eq!(render(template).as_deref(), Ok(*wanted), "{template}");
    }
}

#[test]
fn values_are_compared_as_in_go() {
    renders(&[
        (
            r#"{{ eq true false }} {{ eq "a" "b" }} {{ eq 1.0 2.0 }} {{ ne true false }}"#,
            "false false false true",
        ),
        (
            r#"{{ lt "a" "a" }} {{ ge "a" "a" }} {{ lt 1.5 1.5 }}"#,
            "false true false",
        ),
        (r#"{{ index (list 1 2 3) 2 }} {{ index "abc" 2 }}"#, "3 99"),
        (
            r#"{{ if index "a" 0 }}yes{{ end }} {{ if index "\x00" 0 }}{{ else }}no{{ end }}"#,
            "yes no",
        ),
        (
            "{{ deepEqual true true }} {{ deepEqual true false }}",
            "true false",
        ),
        (
            "{{ deepEqual 1.5 1.5 }} {{ deepEqual 1.5 2.5 }}",
            "true false",
        ),
        (
            r#"{{ deepEqual (index "aba" 0) (index "aba" 2) }} {{ deepEqual (index "ab" 0) (index "ab" 1) }}"#,
            "true false",
        ),
        (
            r#"{{ deepEqual now now }} {{ deepEqual now (dateModify "1h" now) }}"#,
            "true false",
        ),
        (
            "{{ $l := list 1 2 1 }}{{ deepEqual (slice $l 0 2) (slice $l 1 3) }} {{ deepEqual (slice $l 0 2) (slice $l 0 2) }}",
            "false true",
        ),
        // A dictionary is equal to itself, whatever is in it.
        (
            r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ deepEqual $d $d }}"#,
            "true",
        ),
        (
            "{{ slice (list 1 2 3) 0 3 }} {{ slice (list 1 2 3) 3 }} {{ slice (list 1 2 3) 2 2 }}",
            "[1 2 3] [] []",
        ),
        (
            "{{ chunk -1 (list 1 2) }} {{ chunk -2 (list 1) }} {{ chunk -2 (list 1 2 3) }}",
            "[] [[1]] []",
        ),
    ]);
}

#[test]
fn numbers_are_read_and_computed_as_in_go() {
    renders(&[
        (
            "{{ maxf 1 2 }} {{ maxf 2 1 }} {{ minf 1 2 }} {{ minf 2 1 }}",
            "2 2 1 1",
        ),
        (
            "{{ maxf -0.0 0.0 }} {{ maxf 0.0 -0.0 }} {{ minf -0.0 0.0 }} {{ minf 0.0 -0.0 }}",
            "0 0 -0 -0",
        ),
        (
            r#"{{ maxf "NaN" 1 }} {{ maxf 1 "NaN" }} {{ maxf "-inf" "NaN" }}"#,
            "NaN NaN NaN",
        ),
        (
            r#"{{ maxf "inf" "NaN" }} {{ maxf "NaN" "inf" }} {{ maxf "inf" 1 }}"#,
            "+Inf +Inf +Inf",
        ),
        (
            r#"{{ minf "NaN" 1 }} {{ minf -1 "NaN" }} {{ minf "inf" "NaN" }}"#,
            "NaN NaN NaN",
        ),
        (
            r#"{{ minf "-inf" "NaN" }} {{ minf "NaN" "-inf" }} {{ minf "-inf" 1 }}"#,
            "-Inf -Inf -Inf",
        ),
        ("{{ seq 1 }} {{ seq 1 1 1 }} {{ seq 3 -1 1 }}", "1 1 3 2 1"),
        (
            "{{ seq 3 1 1 }}|{{ seq 3 0 1 }}|{{ seq 1 0 3 }}|{{ seq 1 0 1 }}|{{ seq 1 -1 3 }}|",
            "|||||",
        ),
        (
            r#"{{ int "5." }} {{ int "5.0" }} {{ int "5.00" }} {{ int "50" }} {{ int "5.10" }}"#,
            "0 5 5 50 0",
        ),
        (
            "{{ typeOf 0x1e }} {{ typeOf 0X1E }} {{ typeOf 0x1p4 }} {{ typeOf -0x1e }}",
            "int int float64 float64",
        ),
        (r#"{{ toJson (float64 "inf") }}|"#, "|"),
        (
            r#"{{ printf "%.d" 3 }} {{ printf "%.f" 1.5 }} {{ printf "%.1f" 1.55 }} {{ printf "%." 1 }}"#,
            "3 2 1.6 %!.(int=1)",
        ),
        (
            r#"{{ printf "%100000000d" 1 }}"#,
            "%!(NOVERB)%!(EXTRA int=1)",
        ),
        (
            r#"{{ printf "%0*d" -4 5 }}|{{ printf "%0*d" 0 5 }}"#,
            "5   |5",
        ),
    ]);
}

#[test]
fn texts_are_cut_and_replaced_as_in_go() {
    renders(&[
        (r#"{{ html "a\x00b" }}"#, "a\u{fffd}b"),
        (
            r#"{{ replace "a" "bb" "aXa" }} {{ replace "" "-" "ab" }} {{ replace "" "-" "é" }} {{ replace "aa" "b" "aaa" }}"#,
            "bbXbb -a-b- -é- ba",
        ),
        (
            r#"{{ abbrevboth 9 10 "hello world" }} {{ abbrevboth 5 7 "0123456789" }}"#,
            "hello w... ...5...",
        ),
        (
            r#"{{ abbrevboth 6 7 "0123456789" }} {{ abbrevboth 8 7 "0123456789" }}"#,
            "...6789 ...6789",
        ),
        (
            r#"{{ abbrevboth 7 10 "0123456789abcd" }} {{ abbrevboth 20 10 "0123456789abcde" }}"#,
            "...789abcd ...89abcde",
        ),
        (
            r#"{{ abbrevboth 5 10 "0123456789abcdefghijk" }} {{ abbrevboth 4 10 "0123456789abcde" }}"#,
            "...5678... 0123456...",
        ),
        (
            r#"{{ abbrevboth -3 10 "0123456789abcde" }} {{ abbrev 4 "hello" }}"#,
            "0123456... h...",
        ),
        (
            r#"{{ title "a—b" }} {{ title "a\u00a0b" }} {{ title "éa٣b" }} {{ title "a_b-c" }}"#,
            "A—b A\u{a0}B Éa٣b A_b-C",
        ),
        (r#"{{ wrap 5 "a longerword b" }}"#, "a\nlongerword\nb"),
        (r#"{{ wrap 3 "abcdef ghijkl mn" }}"#, "abcdef\nghijkl\nmn"),
        (r#"{{ dir "/a" }} {{ dir "a/b" }}"#, "/ a"),
        (
            r#"{{ regexReplaceAll "(a)(b)" "ab" "$0|$01|$2|${0}|$100000000|$9" }}"#,
            "ab||b|ab||",
        ),
        (
            "{{ date `2006-01-02` now }} {{ htmlDate now }} {{ date `2006-01-02` 86400 }} {{ htmlDate (int64 0) }}",
            "2026-03-04 2026-03-04 1970-01-02 1970-01-01",
        ),
        (
            "{{ now }}|{{ printf `%s` now }}",
            "2026-03-04 15:06:07 +0000 UTC|2026-03-04 15:06:07 +0000 UTC",
        ),
    ]);
}

#[test]
fn addresses_and_base32_are_read_as_in_go() {
    renders(&[
        (
            r#"{{ b32dec "MFRGGZDF" }} {{ b32dec "MFRGGZDFMFRGGZDF" }} {{ b32dec "MFRGGZDFMY======" }}"#,
            "abcde abcdeabcde abcdef",
        ),
        (
            r#"{{ b32dec "MFRGGZA=" }} {{ b32dec "MFRGG===" }} {{ b32dec "MFRA====" }} {{ b32dec "ME======" }}"#,
            "abcd abc ab a",
        ),
        (r#"{{ (urlParse "http://%E8%80%80/").host }}"#, "\u{8000}"),
        (
            r#"{{ (urlParse "http://[fe80::1%25e%20n]/").host }}"#,
            "[fe80::1%e n]",
        ),
        (
            r#"{{ (urlParse "http://[fe80::1%25%41]/").host }}"#,
            "[fe80::1%A]",
        ),
        (
            r#"{{ (urlParse "http://[fe80::1%25e%25]/").host }}"#,
            "[fe80::1%e%]",
        ),
        (
            r#"{{ (urlParse "http://[fe80::1%251]:80/").hostname }}"#,
            "fe80::1%1",
        ),
        (
            r#"{{ (urlParse "h2+x-y.z:rest").scheme }} {{ (urlParse "a0://h").host }}"#,
            "h2+x-y.z h",
        ),
        (r#"{{ (urlParse "http://h/a b").path }}"#, "/a b"),
    ]);
    for (template, message) in [
        (r#"{{ urlParse "http://[fe80::1%25]/" }}"#, "invalid host"),
        (r#"{{ urlParse "http://[fe80::zz]/" }}"#, "invalid host"),
        (
            r#"{{ urlParse "http://[fe80::1%25e%2F]/" }}"#,
            "invalid URL escape",
        ),
        (
            r#"{{ urlParse "2h://x" }}"#,
            "first path segment in URL cannot contain colon",
        ),
    ] {
        let problem = TemplateRenderProblem::Call {
            function: "urlParse",
            message: format!("unable to parse url: {message}"),
        };
        assert_eq!(render(template).unwrap_err().problem, problem, "{template}");
    }
}

/// Go writes the decoder's error, an address in memory, or the fields of a time into the output.
#[test]
fn what_go_renders_without_use_is_refused() {
    let merged = "a merge with what split makes";
    let verb = |verb, kind| Refusal::Verb { verb, kind };
    for (template, refusal) in [
        (r#"{{ b32dec "MFRGGZD" }}"#, Refusal::NotEncoded("b32dec")),
        (r#"{{ b32dec "MFR=====" }}"#, Refusal::NotEncoded("b32dec")),
        (r#"{{ b32dec "ME=====A" }}"#, Refusal::NotEncoded("b32dec")),
        (
            r#"{{ b32dec "ME======MFRGGZDF" }}"#,
            Refusal::NotEncoded("b32dec"),
        ),
        (
            r#"{{ printf "%p" (list 1) }}"#,
            verb('p', "a list or dictionary"),
        ),
        (r#"{{ printf "%d" now }}"#, verb('d', "a time")),
        (
            r#"{{ merge (dict "a" (split "," "x")) (dict "a" (dict "k" 1)) }}"#,
            Refusal::Change(merged),
        ),
        (
            r#"{{ merge (dict "a" (dict "k" 1)) (dict "a" (split "," "x")) }}"#,
            Refusal::Change(merged),
        ),
        ("{{ slice (list 1 2 3) 0 4 }}", Refusal::Beyond),
    ] {
        let problem = TemplateRenderProblem::Refused(refusal);
        assert_eq!(render(template).unwrap_err().problem, problem, "{template}");
    }
}

#[test]
fn a_usage_names_the_types_of_all_arguments() {
    let all = functions();
    for usage in [
        "now",
        "eq any any…",
        "ternary any any bool",
        "replace string string string",
        "untilStep int int int",
        "round any int float…",
        "keys dict…",
        "dateModify string time",
        "quote any…",
    ] {
        assert!(all.iter().any(|it| it.usage == usage), "{usage}");
    }
}

/// A function is there, or its reason is given, and a template that calls it is told the same.
#[test]
fn each_function_that_is_left_out_has_its_reason() {
    let left_out = functions_left_out();
    let outside = "a template sees nothing of the machine it is rendered on";
    assert!(left_out.contains(&("env", outside)));
    assert!(left_out.contains(&("sha1sum", "use sha256sum")));
    for (name, why) in left_out {
        assert!(find(name).is_none(), "{name}");
        let text = format!("{{{{ {name} }}}}");
        let error = TextTemplate::parse("test", &text, &TemplateLimits::default()).unwrap_err();
        let name = name.to_owned();
        assert_eq!(
            error.problem,
            TemplateParseProblem::FunctionLeftOut { name, why }
        );
    }
}
