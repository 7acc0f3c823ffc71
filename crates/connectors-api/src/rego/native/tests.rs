use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use serde_json::json;

use super::super::{CheckModule, EvaluationError};
use super::*;

mod differential;
mod modules;

const LIMIT: Duration = Duration::from_secs(20);

fn parse(source: &str) -> CheckModule {
    CheckModule::parse(source, LIMIT).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn program(body: &str) -> Option<NativeProgram> {
    let source = format!("package approval\nimport rego.v1\n{body}");
    parse(&source).program().cloned()
}

/// The answer of the engine, as a worker gives it.
fn engine(module: &CheckModule, object: &Value) -> Result<ModuleOutput, EvaluationError> {
    module.evaluate_json(&object.to_string(), "{}")
}

/// A program as a worker sends it.
fn received(rules: &Value) -> Result<NativeProgram, String> {
    serde_json::from_str(&rules.to_string()).map_err(|error| error.to_string())
}

/// A value in as many arrays and objects.
fn nested(levels: usize) -> Value {
    let deeper = |value: Value, level: usize| {
        if level.is_multiple_of(2) {
            json!([value])
        } else {
            json!({"a": value})
        }
    };
    (0..levels).fold(json!("approved"), deeper)
}

fn rules(steps: &Value, state: &Value) -> Value {
    json!({
        "rules": [[{"steps": steps, "output": {"state": state, "message": null}}]],
        "default": null,
    })
}

#[test]
fn a_received_program_keeps_the_bounds() {
    let path = |fields: usize| json!({"path": vec!["a"; fields]});
    let holds = |count: usize| json!(vec![json!({"holds": {"truth": true}}); count]);
    let text = |length: usize| json!({"text": "x".repeat(length)});
    // A rule, a body and a state, and two parts for each step.
    for (steps, state, fits) in [
        (holds(1), text(1), true),
        (holds(126), text(1), true),
        (holds(127), text(1), false),
        (json!([]), path(253), true),
        (json!([]), path(254), false),
        (json!([]), path(0), false),
        (json!([]), text(4096), true),
        (json!([]), text(4097), false),
        (json!([]), json!({"path": ["x".repeat(4097)]}), false),
        (json!([]), json!({"whole": 1_i64 << 53}), true),
        (json!([]), json!({"whole": -(1_i64 << 53)}), true),
        (json!([]), json!({"whole": (1_i64 << 53) + 1}), false),
        (json!([]), json!({"whole": i64::MIN}), false),
        (json!([]), json!({"whole": 1.5}), false),
        (json!([]), json!("null"), true),
    ] {
        let received = received(&rules(&steps, &state));
        assert_eq!(received.is_ok(), fits, "{state}: {received:?}");
    }
    for odd in [
        json!({}),
        json!({"rules": [], "default": null, "more": 1}),
        json!({"rules": [[{"steps": [], "output": {"state": null, "message": null, "x": 1}}]], "default": null}),
        rules(&json!([{"call": "http.send"}]), &text(1)),
    ] {
        assert!(received(&odd).is_err(), "{odd}");
    }
}

#[test]
fn a_program_comes_back_as_it_was_sent() {
    let body = r#"
default output := {"state": "pending", "message": null}
output := {"state": input.a["b c"]} if { input.x == 5; input.y != true } else := {"state": "x"} if input.z
"#;
    let program = program(body).unwrap();
    let text = serde_json::to_string(&program).unwrap();
    assert_eq!(
        serde_json::from_str::<NativeProgram>(&text).unwrap(),
        program
    );
    assert!(program.weight() > text.len() / 4, "{}", program.weight());
}

#[test]
fn what_a_program_weighs_grows_with_each_of_its_parts() {
    let weight = |steps: Value, state: Value| received(&rules(&steps, &state)).unwrap().weight();
    let least = weight(json!([]), json!({"text": "x"}));
    assert_eq!(
        weight(json!([]), json!({"text": "x".repeat(1001)})),
        least + 1000
    );
    let of_field = size_of::<String>() + ALLOCATED + 1;
    let path = |fields: usize| weight(json!([]), json!({"path": vec!["x"; fields]}));
    assert_eq!(path(100), path(1) + 99 * of_field);
    let text = |text: &str| weight(json!([]), json!({"text": text}));
    assert_eq!(text(""), weight(json!([]), json!("null")) + ALLOCATED);
    let steps = json!(vec![json!({"holds": "null"}); 100]);
    assert!(weight(steps, json!({"text": "x"})) >= least + 100 * size_of::<NativeStep>());
}

#[test]
fn a_program_gives_no_answer_where_only_the_engine_is_certain() {
    let equal = program(r#"output := {"state": "x"} if input.a == input.b"#).unwrap();
    let number = program(r#"output := {"state": "x"} if input.a == 1"#).unwrap();
    let both = program("output := {\"state\": input.a}\noutput := {\"state\": input.b}").unwrap();
    for (program, object) in [
        (&equal, json!({"a": 1.5, "b": 1.5})),
        (&equal, json!({"a": [], "b": []})),
        (&equal, json!({"a": {}, "b": []})),
        (&equal, json!({"a": 1, "b": 1e3})),
        (&number, json!({"a": 1.0})),
        (&number, json!({"a": f64::MAX})),
        (&both, json!({"a": "x", "b": "y"})),
        (&both, json!({"a": [1], "b": [1]})),
        (&number, json!({"a": {"b": [{NUMBER_FIELD: "1"}]}})),
        (&number, json!({"a": nested(MOST_LEVELS + 1)})),
        (&number, json!({"a": nested(150)})),
        (&number, json!([])),
        (&number, json!("a")),
    ] {
        assert_eq!(program.run(&object), None, "{program:?} {object}");
    }
    // Elsewhere the field is not read.
    let elsewhere = json!({"a": 1, "b": {NUMBER_FIELD: "1"}, "c": nested(150)});
    assert!(matches!(number.run(&elsewhere), Some(Ok(_))));
    let deep = json!({"a": nested(MOST_LEVELS)});
    assert!(matches!(number.run(&deep), Some(Err(_))));
}
