//! Modules of the set, and modules beside it.

use super::*;

const SOURCE_DOCUMENT: &str =
    include_str!("../../../../../../e2e/examples/source/07-check-rule.yaml");

/// The module of the example, as the policy has it.
fn source_document() -> String {
    let policy: Value = serde_yaml::from_str(SOURCE_DOCUMENT).unwrap();
    let module = policy.pointer("/spec/checkGrantedPermission/spec/checks/0/state/rego");
    module.unwrap().as_str().unwrap().to_owned()
}

/// The answers of program and engine, which are the same, for an object.
fn answer(module: &CheckModule, object: &Value) -> Result<ModuleOutput, EvaluationError> {
    let program = module.program().unwrap();
    let said = program.run(object).unwrap().map_err(EvaluationError::from);
    assert_eq!(said, engine(module, object), "{object}");
    said
}

#[test]
fn the_module_of_the_source_document_is_a_program() {
    let module = parse(&source_document());
    for (object, state) in [
        (json!({"status": {"state": "approved"}}), Some("approved")),
        (json!({"status": {"state": "rejected"}}), Some("rejected")),
        (json!({"status": {"state": "Approved"}}), Some("Approved")),
        (json!({"status": {"state": ""}}), Some("pending")),
        (json!({"status": {"state": null}}), Some("pending")),
        (json!({"status": {}}), Some("pending")),
        (json!({"status": []}), Some("pending")),
        (json!({"status": "approved"}), Some("pending")),
        (json!({}), Some("pending")),
        (json!({"status": {"state": true}}), None),
        (json!({"status": {"state": false}}), None),
        (json!({"status": {"state": 0}}), None),
        (json!({"status": {"state": 1.5}}), None),
        (json!({"status": {"state": ["approved"]}}), None),
        (
            json!({"status": {"state": "x".repeat(63)}}),
            Some(&*"x".repeat(63)),
        ),
        (json!({"status": {"state": "x".repeat(64)}}), None),
    ] {
        let said = answer(&module, &object).ok();
        let said = said.as_ref().map(|it| it.state.as_str());
        assert_eq!(said, state, "{object}");
    }
}

#[test]
fn modules_of_the_set_are_programs() {
    let objects = [
        json!({}),
        json!({"data": {"released": "yes"}}),
        json!({"data": {"released": "no"}}),
        json!({"data": {"released": true}}),
        json!({"data": {"released": null}}),
        json!({"data": {"released": 5}}),
        json!({"data": {"released": {"by": "ana"}}}),
    ];
    for body in [
        r#"output := {"state": "approved"}"#,
        "output := {}",
        r#"output := {"state": null, "message": `raw\n"text"`}"#,
        r#"output := {"state": "a\u0062c\n\"é𝄞"}"#,
        r#"default output := {"state": "pending", "message": "not decided yet"}
           output := {"state": "approved", "message": "released"} if input.data.released == "yes""#,
        r#"output := {"state": "approved"} if input.data.released"#,
        r#"output := {"state": "approved"} if "yes" == input["data"].released"#,
        r#"output := {"state": "approved"} if { x := input.data; y := x.released; y != null }"#,
        r#"output := {"state": input.data.released} if { true; input.data.released != "no" }
           else := {"state": "rejected"} if input.data else := {"state": "pending"}"#,
        r#"output := {"state": "approved"} if input.data.released == 5
           output := {"state": "approved"} if input.data.released == true
           default output := {"message": 7}"#,
        r#"output := {"message": input.data.released, "state": input.data.released}"#,
        r#"output := {"state": "x", "message": input.data.released.by} if { x := false; x == false }"#,
    ] {
        let source = format!("package approval\nimport rego.v1\n{body}");
        let module = parse(&source);
        assert!(module.program().is_some(), "{body}");
        for object in &objects {
            let _ = answer(&module, object);
        }
    }
    for version_0 in [
        "output = {\"state\": \"x\"} { input.a == \"b\" } else = {\"state\": input.c} { true }",
        "import future.keywords\noutput := {\"state\": \"x\"} if input.a == \"b\"",
        "import future.keywords.if\noutput := {\"state\": \"x\"} if input.a == \"b\"",
    ] {
        let module = parse(&format!("package approval\n{version_0}"));
        assert!(module.program().is_some(), "{version_0}");
        let _ = answer(&module, &json!({"a": "b"}));
    }
}

/// Values of one type in several forms, and of several types in one form.
#[test]
fn each_value_is_compared_with_each_as_the_engine_does() {
    let constants = [
        "null",
        "true",
        "false",
        "0",
        "1",
        "9007199254740992",
        "\"\"",
        "\"0\"",
        "\"1\"",
        "\"true\"",
        "\"null\"",
    ];
    let more = [
        "-0",
        "0.0",
        "1.0",
        "1e0",
        "9007199254740992.0",
        "9007199254740993",
        "18446744073709551616",
        "[]",
        "[1]",
        "{}",
        "{\"b\": 1}",
    ];
    let mut certain = 0;
    for sign in ["==", "!="] {
        for constant in constants {
            let body = format!("output := {{\"state\": \"x\"}} if input.a {sign} {constant}");
            let module = parse(&format!("package approval\nimport rego.v1\n{body}"));
            let program = module.program().unwrap();
            for value in constants.iter().chain(&more) {
                let object: Value = serde_json::from_str(&format!("{{\"a\": {value}}}")).unwrap();
                let Some(said) = program.run(&object) else {
                    continue;
                };
                certain += 1;
                let said = said.map_err(EvaluationError::from);
                assert_eq!(said, engine(&module, &object), "{body} {object}");
            }
        }
    }
    assert!(certain > 400, "{certain}");
}

/// A module with a program would have to be added to the set on purpose. Some of these are no modules at all.
#[test]
fn a_module_beside_the_set_has_no_program() {
    let mut modules = 0;
    for body in [
        // Other roots than the object, and other values than paths and constants.
        r#"output := {"state": data.context.metadata.name}"#,
        r#"output := {"state": input.list[0]}"#,
        r#"output := {"state": input.list[_]}"#,
        r#"output := {"state": input[x]} if { x := "status" }"#,
        r#"output := {"state": input[`status`]}"#,
        r#"output := {"state": input[input.name]}"#,
        r#"output := {"state": x.state} if { x := input }"#,
        r#"output := {"state": "x"} if { x := "y"; x.z == 1 }"#,
        "output := input.verdict",
        r#"output := "approved""#,
        r#"output := {"state": ["x"]}"#,
        r#"output := {"state": {"state": "x"}}"#,
        r#"output := {"state": sprintf("%s", [input.state])}"#,
        r#"output := {"state": concat("", ["a"])}"#,
        r#"output := {"state": state} if { [state] := [input.state] }"#,
        r#"output := {"state": "x"} if input.a == ["x"]"#,
        r#"output := {"state": "x"} if input.a == {"x"}"#,
        r#"output := {"state": "x"} if input.a == 1 + 1"#,
        // Numbers that are not exact.
        r#"output := {"state": "x"} if input.a == 1.5"#,
        r#"output := {"state": "x"} if input.a == 9007199254740993"#,
        r#"output := {"state": "x"} if input.a == 18446744073709551616"#,
        // Other fields.
        r#"output := {"state": "x", "mesage": "y"}"#,
        r#"output := {"state": "x", "state": "y"}"#,
        r#"output := {1: "x"}"#,
        r#"output := {input.a: "x"}"#,
        r#"output := {"state": input["$serde_json::private::Number"]}"#,
        // Other comparisons and other statements.
        r#"output := {"state": "x"} if input.a < 1"#,
        r#"output := {"state": "x"} if input.a >= "b""#,
        r#"output := {"state": "x"} if not input.a"#,
        r#"output := {"state": "x"} if input.a in ["x"]"#,
        r#"output := {"state": "x"} if { some x in input.a; x == 1 }"#,
        r#"output := {"state": "x"} if { some x; input.a[x] == 1 }"#,
        r#"output := {"state": "x"} if every x in input.a { x == 1 }"#,
        r#"output := {"state": x} if { x = input.a }"#,
        r#"output := {"state": "x"} if input.a = 1"#,
        r#"output := {"state": "x"} if input.a == "b" with input as {"a": "b"}"#,
        r#"output := {"state": "x"} if count(input.a) == 1"#,
        r#"output := {"state": "x"} if contains(input.a, "b")"#,
        r#"output := {"state": x} if { x == "y"; x := input.a }"#,
        r#"output := {"state": "x"} if { x := input.a == 1 }"#,
        r#"output := {"state": "x"} if { _ := input.a }"#,
        // Other rules.
        "yes := \"approved\"\noutput := {\"state\": yes}",
        "f(x) := x\noutput := {\"state\": f(input.a)}",
        "output := {\"state\": \"x\"} if data.approval.yes\nyes := true",
        "other := 1\noutput := {\"state\": \"x\"}",
        "other := {\"state\": \"x\"}\noutput := {\"state\": \"x\"}",
        "output.state := input.a",
        "output[\"state\"] := \"x\"",
        "output.state := \"x\" if input.a",
        "import input.status as status\noutput := {\"state\": status.state}",
        "import data.context\noutput := {\"state\": \"x\"}",
        r#"output := {"state": x} if { x := [y | y := input.a[_]][0] }"#,
        r#"output := {"state": "x"} if { print("y"); input.a }"#,
    ] {
        let source = format!("package approval\nimport rego.v1\n{body}");
        let parsed = CheckModule::parse(&source, LIMIT);
        modules += usize::from(parsed.is_ok());
        let program = parsed.ok().and_then(|it| it.program().cloned());
        assert_eq!(program, None, "{body}");
    }
    assert!(modules >= 45, "{modules}");
    for version_0 in [
        "output = {\"state\": \"x\"} { input.a == \"b\" } { input.c }",
        "output = {\"state\": state} { state = input.a }",
    ] {
        let module = parse(&format!("package approval\n{version_0}"));
        assert_eq!(module.program(), None, "{version_0}");
    }
}

#[test]
fn a_module_of_too_many_parts_or_bytes_has_no_program() {
    let parts = |count: usize| {
        let steps = vec!["input.a != \"b\""; count].join("\n");
        format!("output := {{\"state\": \"x\"}} if {{\n{steps}\n}}")
    };
    // Four parts a step, and three around them.
    for (count, is_program) in [(63, true), (64, false)] {
        assert_eq!(program(&parts(count)).is_some(), is_program, "{count}");
    }
    // Lines of a raw text, because the engine refuses long ones.
    let text = |letter: &str, count: usize| {
        let line = format!("{}\n", letter.repeat(63));
        let text = line.repeat(count / line.len());
        format!("output := {{\"message\": `{text}`}}")
    };
    for (body, is_program) in [
        (text("x", 4096), true),
        (text("x", 4160), false),
        // As JSON each of these letters takes six bytes.
        (text("\u{1}", 1024), true),
        (text("\u{1}", 2048), false),
    ] {
        assert_eq!(program(&body).is_some(), is_program, "{}", body.len());
    }
}
