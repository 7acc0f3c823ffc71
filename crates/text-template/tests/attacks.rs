//! Templates that exceed each limit, with the limit that stops them. Every author of a class of connectors
//! can write one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};
use text_template::{
    MissingKey, Refusal, TemplateLimit, TemplateLimits, TemplateParseError, TemplateParseProblem,
    TemplateRenderProblem, TextTemplate,
};

/// Even without optimisation, and beside other tests.
const SOON: Duration = Duration::from_secs(20);

fn data() -> Value {
    json!({"s": "x".repeat(1000), "list": (0..1000).collect::<Vec<_>>()})
}

fn parsed(text: &str) -> Result<TextTemplate, TemplateParseError> {
    TextTemplate::parse("attack", text, &TemplateLimits::default())
}

fn render(text: &str, data: &Value) -> Result<usize, TemplateRenderProblem> {
    let began = Instant::now();
    let rendered =
        parsed(text)
            .unwrap()
            .render(data, &TemplateLimits::default(), Timestamp::UNIX_EPOCH);
    assert!(began.elapsed() < SOON, "{text}: {:?}", began.elapsed());
    rendered.map(|it| it.len()).map_err(|it| it.problem)
}

#[derive(Debug, PartialEq)]
enum Stop {
    Steps,
    Depth,
    Output,
    Value,
    Memory,
    Regex,
    Groups,
}

fn stopped(text: &str) -> Stop {
    match render(text, &data()) {
        Err(TemplateRenderProblem::Limit(limit)) => match limit {
            TemplateLimit::Steps(_) => Stop::Steps,
            TemplateLimit::Depth(_) => Stop::Depth,
            TemplateLimit::Output(_) => Stop::Output,
            TemplateLimit::Value(_) => Stop::Value,
            TemplateLimit::Memory(_) => Stop::Memory,
            TemplateLimit::Regex(_) => Stop::Regex,
            TemplateLimit::Groups(_) => Stop::Groups,
            TemplateLimit::Text(_) | TemplateLimit::Variables(_) => panic!("{text}: {limit}"),
        },
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn what_would_be_too_large_is_not_made() {
    for (text, stop) in [
        (r#"{{ repeat 9223372036854775807 "ab" }}"#, Stop::Value),
        (
            r#"{{ repeat 1000 (repeat 1000 (repeat 1000 "ab")) }}"#,
            Stop::Value,
        ),
        (
            r#"{{ "a" | repeat 1000 | repeat 1000 | repeat 1000 }}"#,
            Stop::Value,
        ),
        (r#"{{ indent 1000000 "\n\n\n" }}"#, Stop::Value),
        (r#"{{ nindent 9223372036854775807 "" }}"#, Stop::Value),
        (r#"{{ replace "" .s .s | replace "" .s }}"#, Stop::Value),
        (r#"{{ printf "%9000000d" 1 }}"#, Stop::Value),
        // Go takes up to eight digits for a width, if the first seven are no more than a million.
        (r#"{{ printf "%10000000d" 1 }}"#, Stop::Value),
        (r#"{{ printf "%.9000000d" 1 }}"#, Stop::Value),
        (r#"{{ printf "%.9000000f" 1.5 }}"#, Stop::Value),
        (r#"{{ printf "%.9000000U" 1 }}"#, Stop::Value),
        (r#"{{ printf "%*s" 1000000 "" | repeat 3 }}"#, Stop::Value),
        (
            r#"{{ $s := "xxxxxxxx" }}{{ range until 30 }}{{ $s = print $s $s }}{{ end }}"#,
            Stop::Value,
        ),
        (
            r"{{ $l := .list }}{{ range until 30 }}{{ $l = concat $l $l }}{{ end }}",
            Stop::Steps,
        ),
        (
            r"{{ $l := list .s }}{{ range until 30 }}{{ $l = list $l $l }}{{ end }}{{ print $l }}",
            Stop::Value,
        ),
        (
            r"{{ $l := list .s }}{{ range until 30 }}{{ $l = list $l $l }}{{ end }}{{ $l }}",
            Stop::Output,
        ),
        (
            r"{{ $l := list .s }}{{ range until 30 }}{{ $l = list $l $l }}{{ end }}{{ toJson $l }}",
            Stop::Value,
        ),
        (r"{{ range until 9000 }}{{ $.s }}{{ end }}", Stop::Output),
        (
            r#"{{ $x := "" }}{{ range until 10000 }}{{ $x = upper $.s }}{{ end }}"#,
            Stop::Steps,
        ),
        (
            r"{{ range until 100 }}{{ $x := repeat 1000 $.s }}{{ end }}",
            Stop::Steps,
        ),
        (
            r"{{ $d := dict }}{{ range until 30000 }}{{ $_ := set $d (print .) . }}{{ end }}",
            Stop::Steps,
        ),
        (
            r"{{ $l := list }}{{ range until 9000 }}{{ $l = append $l . }}{{ end }}",
            Stop::Steps,
        ),
        (r#"{{ splitList "" (repeat 1000 .s) }}"#, Stop::Steps),
        (
            r#"{{ regexReplaceAll "x" .s .s | regexReplaceAll "x" .s }}"#,
            Stop::Value,
        ),
        (
            r"{{ join .s .list | join .s }}{{ join (repeat 10 .s) .list }}",
            Stop::Value,
        ),
        (r"{{ b64enc (repeat 900 .s) }}", Stop::Value),
    ] {
        assert_eq!(stopped(text), stop, "{text}");
    }
}

#[test]
fn what_would_take_too_long_is_stopped() {
    for (text, stop) in [
        (r"{{ until 9223372036854775807 }}", Stop::Steps),
        (r"{{ seq 9223372036854775807 }}", Stop::Steps),
        (
            r"{{ untilStep -9223372036854775807 9223372036854775807 1 }}",
            Stop::Steps,
        ),
        (r"{{ range 9223372036854775807 }}{{ end }}", Stop::Steps),
        (
            r"{{ range until 1000 }}{{ range until 1000 }}{{ range until 1000 }}{{ end }}{{ end }}{{ end }}",
            Stop::Steps,
        ),
        (
            r"{{ range .list }}{{ $x := uniq $.list }}{{ end }}",
            Stop::Steps,
        ),
        (
            r"{{ $l := list 1 }}{{ range until 40 }}{{ $l = list $l $l }}{{ end }}{{ deepEqual $l (deepCopy $l) }}",
            Stop::Steps,
        ),
        (
            r"{{ range .list }}{{ sortAlpha $.list | len }}{{ end }}",
            Stop::Steps,
        ),
        (
            r#"{{ range .list }}{{ regexMatch "(x+x+)+y" (repeat 100 $.s) }}{{ end }}"#,
            Stop::Steps,
        ),
        (
            r#"{{ regexFindAll "x*y|x" (repeat 100 .s) -1 | len }}"#,
            Stop::Steps,
        ),
        (
            r#"{{ regexReplaceAll "(x{1,20}){1,40}y" (repeat 1000 .s) "" }}"#,
            Stop::Steps,
        ),
        (
            r#"{{ range until 1000 }}{{ regexMatch (printf "[a-z]{400}%d" .) "x" }}{{ end }}"#,
            Stop::Steps,
        ),
        (r#"{{ regexMatch "((x{100}){100}){100}" .s }}"#, Stop::Regex),
        (r#"{{ regexMatch "(a|b|c|d|e|f){300}" .s }}"#, Stop::Regex),
        (
            r#"{{ regexReplaceAll (repeat 500 "(.)") (repeat 600 "x") "" }}"#,
            Stop::Groups,
        ),
        (
            r#"{{ regexMatch (repeat 33 "(?P<n>x)|(?:x)") "" }}"#,
            Stop::Groups,
        ),
        (
            r#"{{ regexMatch .s "x" }}{{ regexMatch (print .s .s) "x" }}"#,
            Stop::Regex,
        ),
        (
            r"{{ range until 1000 }}{{ sha512sum (repeat 100 $.s) | trunc 0 }}{{ end }}",
            Stop::Steps,
        ),
        (
            r"{{ $d := dict }}{{ range until 300 }}{{ $_ := set $d (print .) . }}{{ end }}{{ range until 9000 }}{{ keys $d | len }}{{ end }}",
            Stop::Steps,
        ),
        (r"{{ range until 9000000 }}{{ end }}", Stop::Steps),
    ] {
        assert_eq!(stopped(text), stop, "{text}");
    }
}

/// Texts that are freed count too: with fewer steps for each byte it would be this limit that is reached.
#[test]
fn all_values_together_have_a_limit() {
    let limits = TemplateLimits {
        memory: 4_000,
        ..TemplateLimits::default()
    };
    let template = parsed("{{ range until 9 }}{{ $x := repeat 500 `x` }}{{ end }}").unwrap();
    let problem = template
        .render(&json!({}), &limits, Timestamp::UNIX_EPOCH)
        .unwrap_err()
        .problem;
    assert_eq!(
        problem,
        TemplateRenderProblem::Limit(TemplateLimit::Memory(4_000))
    );
}

/// A template may put a whole value into a message, and messages are kept and shown elsewhere.
#[test]
fn messages_are_cut() {
    let long = "é".repeat(100_000);
    let data = json!({"s": long, "dict": {}});
    for text in [
        "{{ fail .s }}".to_owned(),
        "{{ dateInZone `2006` 1 .s }}".to_owned(),
        "{{ urlParse (print `http://[` .s) }}".to_owned(),
        "{{ printf .s now | fail }}".to_owned(),
        "{{ dateModify (print `1` .s) now | fail }}".to_owned(),
        "{{ regexMatch (print .s `(`) `` }}".to_owned(),
        format!("{{{{ template {long:?} }}}}"),
        format!("{{{{ .dict.{long} }}}}"),
        format!("{{{{ .s.{long} }}}}"),
        format!("{{{{ .none.{long} }}}}"),
        format!("{{{{ now.{long} }}}}"),
    ] {
        let error =
            parsed(&text)
                .unwrap()
                .render(&data, &TemplateLimits::default(), Timestamp::UNIX_EPOCH);
        let message = error.unwrap_err().to_string();
        assert!(message.chars().count() < 600, "{}", message.len());
    }
    for text in [format!("{{{{ {long} }}}}"), format!("{{{{ ${long} }}}}")] {
        let message = parsed(&text).unwrap_err().to_string();
        assert!(message.chars().count() < 600, "{}", message.len());
        assert!(message.contains('…'), "{message}");
    }
    let failed = render("{{ fail .s }}", &data).unwrap_err();
    let message = format!("{}…", "é".repeat(300));
    assert_eq!(
        failed,
        TemplateRenderProblem::Call {
            function: "fail",
            message
        }
    );
}

#[test]
fn what_is_nested_too_deeply_is_stopped() {
    for (text, stop) in [
        (
            r#"{{ define "r" }}{{ template "r" . }}{{ end }}{{ template "r" . }}"#,
            Stop::Depth,
        ),
        (
            r#"{{ define "a" }}{{ template "b" . }}{{ end }}{{ define "b" }}{{ template "a" . }}{{ end }}{{ template "a" . }}"#,
            Stop::Depth,
        ),
        (
            r#"{{ block "attack2" . }}{{ template "attack2" . }}{{ end }}"#,
            Stop::Depth,
        ),
        (
            r#"{{ define "r" }}{{ range .list }}{{ template "r" $ }}{{ end }}{{ end }}{{ template "r" . }}"#,
            Stop::Depth,
        ),
        (
            r"{{ $l := list }}{{ range until 9000 }}{{ $l = list $l }}{{ end }}{{ $l }}",
            Stop::Depth,
        ),
        (
            r"{{ $l := list }}{{ range until 9000 }}{{ $l = list $l }}{{ end }}{{ toJson $l }}",
            Stop::Depth,
        ),
        (
            r"{{ $l := list }}{{ range until 9000 }}{{ $l = list $l }}{{ end }}{{ toPrettyJson $l }}",
            Stop::Depth,
        ),
        (
            r"{{ $l := list }}{{ range until 9000 }}{{ $l = list $l }}{{ end }}{{ deepCopy $l }}",
            Stop::Depth,
        ),
        (
            r"{{ $l := list }}{{ range until 9000 }}{{ $l = list $l }}{{ end }}{{ has $l (list (list)) }}{{ quote $l }}",
            Stop::Depth,
        ),
        (
            r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ $d }}"#,
            Stop::Depth,
        ),
        (
            r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ toJson $d }}"#,
            Stop::Depth,
        ),
        (
            r#"{{ $d := dict }}{{ $_ := set $d "d" (list $d) }}{{ deepCopy $d }}"#,
            Stop::Depth,
        ),
        (
            r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ $e := dict }}{{ $_ := set $e "d" $e }}{{ deepEqual $d $e }}"#,
            Stop::Depth,
        ),
        (
            r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ $e := dict }}{{ $_ := set $e "d" $e }}{{ merge $d $e }}"#,
            Stop::Depth,
        ),
        (r#"{{ fromJson (repeat 5000 "[") }}"#, Stop::Depth),
        (r#"{{ fromJson (repeat 5000 "{\"a\":") }}"#, Stop::Depth),
        (r#"{{ regexMatch (repeat 500 "(") "x" }}"#, Stop::Depth),
    ] {
        assert_eq!(stopped(text), stop, "{text}");
    }
}

/// The limit is the depth that the innermost value may have, whether the template makes it or gets it.
#[test]
fn values_are_nested_as_deeply_as_the_limit_and_no_deeper() {
    let stop = TemplateRenderProblem::Limit(TemplateLimit::Depth(64));
    for inner in ["list $v", "dict `d` $v"] {
        for what in [
            "deepCopy $v",
            "deepEqual $v $w",
            "print $v",
            "merge (dict `d` $v) (dict `d` $w)",
        ] {
            // A merge looks at dictionaries only, and has one more here.
            let around = usize::from(what.starts_with("merge"));
            if around > 0 && inner.starts_with("list") {
                continue;
            }
            let nested = |depth: usize| {
                let other = inner.replace("$v", "$w");
                let empty = inner.split(' ').next().unwrap();
                let text = format!(
                    "{{{{ $v := {empty} }}}}{{{{ $w := {empty} }}}}{{{{ range until {depth} }}}}{{{{ $v = {inner} }}}}{{{{ $w = {other} }}}}{{{{ end }}}}{{{{ $x := {what} }}}}"
                );
                render(&text, &json!({}))
            };
            assert_eq!(nested(64 - around), Ok(0), "{what} {inner}");
            assert_eq!(nested(65 - around), Err(stop.clone()), "{what} {inner}");
        }
    }
    for around in [|it| json!([it]), |it| json!({"a": it})] {
        let nested = |depth: usize| (0..depth).fold(json!(1), |it, _| around(it));
        assert_eq!(render("", &nested(64)), Ok(0));
        assert_eq!(render("", &nested(65)), Err(stop.clone()));
    }
}

/// Nothing of it is freed by recursion.
#[test]
fn what_contains_itself_or_a_million_others_is_freed() {
    let limits = TemplateLimits {
        steps: 20_000_000,
        memory: 1 << 30,
        value: 1 << 30,
        ..TemplateLimits::default()
    };
    for text in [
        r"{{ $l := list }}{{ range until 1000000 }}{{ $l = list $l }}{{ end }}",
        r#"{{ $d := dict }}{{ range until 500000 }}{{ $d = dict "d" $d }}{{ end }}"#,
        r#"{{ $d := dict }}{{ $e := dict "d" $d }}{{ $_ := set $d "e" $e }}"#,
    ] {
        let rendered = parsed(text)
            .unwrap()
            .render(&json!({}), &limits, Timestamp::UNIX_EPOCH);
        assert_eq!(rendered.unwrap(), "", "{text}");
    }
}

#[test]
fn texts_that_are_nested_too_deeply_are_no_templates() {
    for text in [
        format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000)),
        format!(
            "{}{}",
            "{{ if .s }}".repeat(40_000),
            "{{ end }}".repeat(40_000)
        ),
        "{{ range .s }}".repeat(50_000),
        r#"{{ block "a" . }}"#.repeat(20_000),
    ] {
        let problem = parsed(&text).unwrap_err().problem;
        assert_eq!(
            problem,
            TemplateParseProblem::Limit(TemplateLimit::Depth(64))
        );
    }
    let long = "x".repeat((1 << 20) + 1);
    assert_eq!(
        parsed(&long).unwrap_err().problem,
        TemplateParseProblem::Limit(TemplateLimit::Text(1 << 20))
    );
}

#[test]
fn texts_are_as_long_and_nested_as_deeply_as_the_limits() {
    assert_eq!(render(&"x".repeat(1 << 20), &json!({})), Ok(1 << 20));
    // The pipeline as a whole is a level too.
    let parentheses = |depth: usize| {
        let (open, close) = ("(".repeat(depth), ")".repeat(depth));
        format!("{{{{ {open}1{close} }}}}")
    };
    let blocks = |depth: usize| "{{ if 1 }}".repeat(depth) + &"{{ end }}".repeat(depth);
    assert!(parsed(&parentheses(63)).is_ok());
    assert!(parsed(&blocks(64)).is_ok());
    for text in [parentheses(64), blocks(65)] {
        let problem = parsed(&text).unwrap_err().problem;
        let limit = TemplateLimit::Depth(64);
        assert_eq!(problem, TemplateParseProblem::Limit(limit), "{text}");
    }
}

/// A credential that is not there is never written as `<no value>`, unless the caller wants it.
#[test]
fn no_data_has_no_keys() {
    let text = "{{ .token }}";
    assert_eq!(
        render(text, &Value::Null),
        Err(TemplateRenderProblem::MissingKey("token".to_owned()))
    );
    for missing in [MissingKey::Zero, MissingKey::NoValue] {
        let rendered = parsed(text).unwrap().with_missing_key(missing).render(
            &Value::Null,
            &TemplateLimits::default(),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(rendered.unwrap(), "<no value>", "{missing:?}");
    }
}

/// As wide as they like: only depth costs stack.
#[test]
fn long_texts_are_templates() {
    let chain = format!(
        "{{{{ if 0 }}}}{}{{{{ else }}}}b{{{{ end }}}}",
        "{{ else if 0 }}a".repeat(10_000)
    );
    assert_eq!(render(&chain, &json!({})), Ok(1));
    let pipeline = format!("{{{{ 1 {} }}}}", "| add 1 ".repeat(10_000));
    assert_eq!(render(&pipeline, &json!({})), Ok(5));
    assert_eq!(render(&"{{ 1 }}".repeat(20_000), &json!({})), Ok(20_000));
}

/// With the largest nesting that a caller can ask for, on the stack of a thread of tests: 2 MiB.
#[test]
fn the_largest_nesting_fits_the_stack_of_a_thread() {
    let limits = TemplateLimits {
        depth: usize::MAX,
        ..TemplateLimits::default()
    };
    let most = text_template::MAX_DEPTH;
    let attempt = |text: &str| {
        let template = TextTemplate::parse("deep", text, &limits)?;
        let rendered = template.render(&data(), &limits, Timestamp::UNIX_EPOCH);
        Ok::<_, TemplateParseError>(rendered.map(|it| it.len()).map_err(|it| it.problem))
    };
    for depth in [most / 2, most - 3, most, most * 2] {
        let _ = attempt(&format!(
            "{{{{ {}1{} }}}}",
            "(".repeat(depth),
            ")".repeat(depth)
        ));
        let _ = attempt(&format!(
            "{{{{ {}1{} }}}}",
            "(print ".repeat(depth),
            ")".repeat(depth)
        ));
        let _ = attempt(&format!(
            "{}{}",
            "{{ if $ }}".repeat(depth),
            "{{ end }}".repeat(depth)
        ));
        let _ = attempt(&format!(
            "{}{}",
            "{{ range $.list }}".repeat(depth),
            "{{ end }}".repeat(depth)
        ));
        let _ = attempt(&format!(
            "{}{}",
            "{{ with $ }}".repeat(depth),
            "{{ end }}".repeat(depth)
        ));
    }
    for text in [
        r#"{{ define "r" }}{{ range $.list }}{{ if $ }}{{ template "r" (print (print (print $))) }}{{ end }}{{ end }}{{ end }}{{ template "r" $ }}"#,
        r#"{{ define "r" }}{{ template "r" $ }}{{ end }}{{ template "r" $ }}"#,
        r"{{ $l := list }}{{ range until 90 }}{{ $l = list $l }}{{ end }}{{ $l }}{{ toJson $l | fromJson | deepCopy | deepEqual $l }}",
    ] {
        let _ = attempt(text);
    }
    let deep = (0..90).fold(json!(1), |it, _| Value::Array(vec![it]));
    let template = TextTemplate::parse("deep", "{{ toPrettyJson . }}", &limits).unwrap();
    assert!(
        template
            .render(&deep, &limits, Timestamp::UNIX_EPOCH)
            .is_ok()
    );
    let deeper = (0..100_000).fold(json!(1), |it, _| Value::Array(vec![it]));
    let problem = template
        .render(&deeper, &limits, Timestamp::UNIX_EPOCH)
        .unwrap_err()
        .problem;
    assert_eq!(
        problem,
        TemplateRenderProblem::Limit(TemplateLimit::Depth(most))
    );
    // serde_json frees by recursion.
    std::mem::forget(deeper);
}

/// The message of a text that has no result.
fn says(text: &str) -> String {
    match parsed(text) {
        Err(error) => error.to_string(),
        Ok(template) => {
            let rendered =
                template.render(&data(), &TemplateLimits::default(), Timestamp::UNIX_EPOCH);
            rendered.unwrap_err().to_string()
        }
    }
}

#[test]
fn what_go_refuses_is_refused_with_its_reason() {
    for (text, wanted) in [
        (
            "{{ if 1 }}",
            "attack:1:11: at <>: unexpected end of the text in a list without its end",
        ),
        (
            "{{ 1 , 2 }}",
            "attack:1:6: at <,>: unexpected \",\" in operand",
        ),
        (
            "{{ range $i ; $v := .list }}{{ end }}",
            "attack:1:10: at <$i>: undefined variable \"$i\"",
        ),
        (
            "{{ upper (list 1) }}",
            "attack:1:10: at <(list 1)>: wrong type for value; expected string; got []interface {}",
        ),
    ] {
        assert_eq!(says(text), wanted, "{text}");
    }
    for (call, wanted) in [
        ("lt nil 1", "lt: invalid type for comparison"),
        ("lt 1 nil", "lt: invalid type for comparison"),
        ("lt true true", "lt: invalid type for comparison"),
        ("index (list 1 2 3) 3", "index: slice index out of range"),
        ("index `abc` 3", "index: string index out of range"),
        ("index `abc` -1", "index: index out of range: -1"),
        ("substr 3 1 `hello`", "substr: slice bounds out of range"),
        ("chunk 0 (list 1 2)", "chunk: makeslice: len out of range"),
        ("chunk -1 (list 1)", "chunk: makeslice: len out of range"),
        (
            "mustToJson (float64 `NaN`)",
            "mustToJson: json: unsupported value",
        ),
        (
            "toRawJson (float64 `inf`)",
            "toRawJson: json: unsupported value",
        ),
    ] {
        let text = format!("{{{{ {call} }}}}");
        let wanted = format!("attack:1:4: at <{call}>: error calling {wanted}");
        assert_eq!(says(&text), wanted);
    }
}

#[test]
fn what_is_refused_names_its_place_and_word() {
    for (text, wanted) in [
        (
            "a\n b {{ env \"HOME\" }}",
            "attack:2:7: at <env>: function \"env\" is not available: a template sees nothing of the machine it is rendered on",
        ),
        (
            "{{ nosuch }}",
            "attack:1:4: at <nosuch>: function \"nosuch\" not defined",
        ),
        (
            "\n{{ .context.tokn }}",
            "attack:2:4: at <.context.tokn>: map has no entry for key \"context\"",
        ),
        ("{{ $x }}", "attack:1:4: at <$x>: undefined variable \"$x\""),
        (
            "{{ 1i }}",
            "attack:1:4: at <1i>: complex numbers are not available",
        ),
        (
            "x {{ regexMatch \"\\\\pL\" .s }}",
            "attack:1:6: at <regexMatch \\\"\\\\\\\\pL\\\" .s>: regular expression \"\\\\pL\": an escape is not available",
        ),
        (
            "{{ date \"2006\" .s }}",
            "attack:1:4: at <date \\\"2006\\\" .s>: date of what is no time",
        ),
        ("{{ upper 3 }}", "attack:1:10: at <3>: expected string"),
        (
            "{{ fail \"because\" }}",
            "attack:1:4: at <fail \\\"because\\\">: error calling fail: because",
        ),
        ("{{ if }}", "attack:1:7: at <}}>: missing value for if"),
        ("{{ \"", "attack:1:4: at <\\\">: unterminated quoted string"),
        (
            "{{ template \"t\" }}",
            "attack:1:13: at <\\\"t\\\">: template \"t\" not defined",
        ),
    ] {
        assert_eq!(says(text), wanted, "{text}");
    }
    let refused = parsed(r#"{{ b64dec "!" }}"#).unwrap();
    let refused = refused.render(
        &json!({}),
        &TemplateLimits::default(),
        Timestamp::UNIX_EPOCH,
    );
    assert_eq!(
        refused.unwrap_err().problem,
        TemplateRenderProblem::Refused(Refusal::NotEncoded("b64dec"))
    );
}
