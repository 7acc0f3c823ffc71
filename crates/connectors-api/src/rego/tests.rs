use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::check_state::{CheckOutcome, ObjectState};
use crate::testing::json_values;

const LIMIT: Duration = Duration::from_secs(20);

fn parse(source: &str) -> Result<CheckModule, ModuleError> {
    CheckModule::parse(source, LIMIT)
}

fn output(expression: &str) -> CheckModule {
    parse(&format!("package approval\noutput := {expression}")).unwrap()
}

fn ask(module: &CheckModule, object: &serde_json::Value) -> Result<ModuleOutput, EvaluationError> {
    module.evaluate(object, &json!({}))
}

#[allow(clippy::unnecessary_wraps, reason = "compared with results")]
fn said(state: &str, message: Option<&str>) -> Result<ModuleOutput, EvaluationError> {
    Ok(ModuleOutput {
        state: ObjectState::from_word(state).unwrap(),
        message: message.map(str::to_owned),
    })
}

/// The module of the source document, in version 0 of the language.
const SOURCE_DOCUMENT: &str = r#"
package approval

output = {
  "state": state
} {
  state := input.status.state
} else = {
  "state": "pending"
}
"#;

const CONFIG_MAP: &str = r#"
package approval
import rego.v1

default output := {"state": "pending"}
output := {"state": "approved", "message": sprintf("by %s", [input.data.by])} if {
    input.data.decision == "yes"
    input.data.pod == data.context.metadata.name
}
output := {"state": "rejected"} if input.data.decision == "no"
"#;

#[test]
fn a_module_tells_whether_it_looks_at_the_object() {
    for (body, reads) in [
        ("output := {\"state\": input.status.state}", true),
        (
            "output := {\"state\": x} if { x := object.get(input, \"a\", \"\") }",
            true,
        ),
        ("output := {\"state\": \"approved\"}", false),
        (
            "# input.status\noutput := {\"state\": \"approved\", \"message\": \"input.x\"}",
            false,
        ),
        ("output := {\"state\": data.context.metadata.name}", false),
    ] {
        let module = parse(&format!("package approval\n{body}")).unwrap();
        assert_eq!(module.reads_object(), reads, "{body}");
    }
}

#[test]
fn the_module_of_the_source_document_reads_the_duck_type() {
    let module = parse(SOURCE_DOCUMENT).unwrap();
    for (object, state) in [
        (json!({"status": {"state": "approved"}}), "approved"),
        (json!({"status": {"state": "rejected"}}), "rejected"),
        (json!({"status": {"state": "expired"}}), "expired"),
        (json!({"status": {"state": ""}}), "pending"),
        (json!({"status": {"state": null}}), "pending"),
        (json!({"status": {}}), "pending"),
        (json!({}), "pending"),
    ] {
        assert_eq!(ask(&module, &object), said(state, None), "{object}");
    }
    let error = ask(&module, &json!({"status": {"state": true}}));
    assert_eq!(error, Err(ModuleOutputError::State.into()));
}

#[test]
fn a_module_sees_both_objects_and_nothing_of_the_last_evaluation() {
    let module = parse(CONFIG_MAP).unwrap();
    let object = json!({"data": {"decision": "yes", "by": "ana", "pod": "web-1"}});
    let ask = |name: &str| module.evaluate(&object, &json!({"metadata": {"name": name}}));
    assert_eq!(ask("web-1"), said("approved", Some("by ana")));
    assert_eq!(ask("web-2"), said("pending", None));
    assert_eq!(ask("web-1"), said("approved", Some("by ana")));
}

#[test]
fn only_the_exact_form_is_an_answer() {
    use ModuleOutputError::{Message, NotAnObject, State, TooLong, UnknownField};
    for (expression, error) in [
        ("\"approved\"", NotAnObject),
        ("true", NotAnObject),
        ("[\"approved\"]", NotAnObject),
        ("{\"approved\"}", NotAnObject),
        ("{\"state\": true}", State),
        ("{\"state\": [\"approved\"]}", State),
        ("{\"state\": \"approved\", \"message\": 1}", Message),
        ("{\"state\": \"approved\", \"mesage\": \"x\"}", UnknownField),
        ("{\"sate\": \"approved\"}", UnknownField),
        ("{\"state\": \"approved\", \"mesage\": null}", UnknownField),
        ("{1: \"approved\"}", UnknownField),
        ("{\"state\": sprintf(\"%064d\", [1])}", TooLong),
        (
            "{\"state\": concat(\"\", [\"a\" | numbers.range(1, 64)[_]])}",
            TooLong,
        ),
        (
            "{sprintf(\"%d\", [n]): n | n := numbers.range(1, 500)[_]}",
            UnknownField,
        ),
    ] {
        assert_eq!(
            ask(&output(expression), &json!({})),
            Err(error.into()),
            "{expression}"
        );
    }
    for (expression, state) in [
        ("{}", "pending"),
        ("{\"state\": null, \"message\": null}", "pending"),
        ("{\"state\": \"passed\"}", "passed"),
        ("{\"state\": \"Approved\"}", "Approved"),
    ] {
        assert_eq!(
            ask(&output(expression), &json!({})),
            said(state, None),
            "{expression}"
        );
    }
    let undefined =
        parse("package approval\noutput := {\"state\": \"approved\"} if input.yes").unwrap();
    assert_eq!(
        ask(&undefined, &json!({})),
        Err(ModuleOutputError::Undefined.into())
    );
    assert_eq!(
        ask(&undefined, &json!({"yes": true})),
        said("approved", None)
    );
}

#[test]
fn a_long_message_is_shortened() {
    let module = output("{\"state\": \"pending\", \"message\": input.text}");
    let answer = ask(&module, &json!({"text": "ä".repeat(1000)})).unwrap();
    let message = answer.message.unwrap();
    assert!(
        message.len() <= 1024 && message.len() > 1000,
        "{}",
        message.len()
    );
    assert!(message.ends_with("ä…"));
    let fits = "x".repeat(1024);
    assert_eq!(
        ask(&module, &json!({"text": fits})),
        said("pending", Some(&fits))
    );
}

#[test]
fn what_could_never_decide_is_refused_when_it_is_written() {
    use ModuleError::{Empty, Function, NoOutput, Package, TooLong};
    let function = |name: &str| Function(name.to_owned());
    let long = format!("{SOURCE_DOCUMENT}#{}", "x".repeat(16 * 1024));
    for (source, error) in [
        ("", Empty),
        (" \n", Empty),
        (&long, TooLong),
        ("package other\noutput := {}", Package("other".to_owned())),
        (
            "package approval.more\noutput := {}",
            Package("approval.more".to_owned()),
        ),
        ("package approval", NoOutput),
        ("package approval\nout := {}", NoOutput),
        (
            "package approval\noutput := http.send({})",
            function("http.send"),
        ),
        // In a branch that an evaluation of empty objects does not reach.
        (
            "package approval\noutput := {\"state\": \"passed\"} if { input.x; http.send({\"url\": input.x}) }",
            function("http.send"),
        ),
        (
            "package approval\noutput := {\"state\": \"passed\"} if { input.x; rand.intn(\"a\", 2) == 1 }",
            function("rand.intn"),
        ),
        (
            "package approval\noutput := {\"state\": \"passed\"} if { input.x; abs(rand.intn(\"a\", 2)) == 1 }",
            function("rand.intn"),
        ),
        (
            "package approval\noutput := {\"state\": \"passed\"} if { input.x; count([1 | x := [abs(time.now_ns())]]) == 1 }",
            function("time.now_ns"),
        ),
        (
            "package approval\noutput := {\"at\": time.now_ns()}",
            function("time.now_ns"),
        ),
        ("package approval\noutput := f(1)", function("f")),
    ] {
        assert_eq!(parse(source).unwrap_err(), error, "{source}");
    }
    for broken in [
        "output := {}",
        "package approval\noutput := {",
        "package approval\noutput :=",
        "{}",
        "\u{0}",
    ] {
        assert!(
            matches!(parse(broken), Err(ModuleError::Syntax { .. })),
            "{broken}"
        );
    }
    for refused in [
        "package approval\noutput := x",
        "package approval\noutput := {\"state\": output.state}",
        "package approval\noutput := {} \noutput := {\"state\": \"passed\"}",
    ] {
        let error = parse(refused).unwrap_err();
        assert!(
            matches!(
                error,
                ModuleError::Evaluation(EvaluationError::Engine(_)) | ModuleError::Syntax { .. }
            ),
            "{refused}: {error}"
        );
    }
}

#[test]
fn a_module_of_the_greatest_length_is_accepted() {
    let lines = "\n".repeat(LONGEST_MODULE - SOURCE_DOCUMENT.len());
    assert!(parse(&format!("{SOURCE_DOCUMENT}{lines}")).is_ok());
}

#[test]
fn a_text_of_the_engine_is_told_up_to_its_limit() {
    let most = "x".repeat(LONGEST_DETAIL);
    for (text, told) in [
        ("", ""),
        (" why \n", "why"),
        (&most, &most),
        (&format!("\n{most}x"), &most),
        (&format!("{}ü", &most[1..]), &most[1..]),
    ] {
        assert_eq!(shortened(text), told);
    }
}

#[test]
fn own_functions_can_be_called_by_both_their_names() {
    let module = parse(
        "package approval\nf(x) := x\noutput := {\"state\": f(\"pass\"), \"message\": data.approval.f(\"m\")}",
    )
    .unwrap();
    assert_eq!(ask(&module, &json!({})), said("pass", Some("m")));
}

/// If an error were ignored, `not` would turn it into a yes.
#[test]
fn an_error_of_a_function_is_no_answer() {
    let module = parse(
        "package approval\noutput := {\"state\": \"approved\"} if not startswith(input.owner, \"evil\")",
    )
    .unwrap();
    assert_eq!(
        ask(&module, &json!({"owner": "ana"})),
        said("approved", None)
    );
    let error = ask(&module, &json!({"owner": 7}));
    assert!(
        matches!(error, Err(EvaluationError::Engine(_))),
        "{error:?}"
    );
}

/// The engine would write it to standard error, which ends up in the logs.
#[test]
fn what_a_module_prints_is_not_written_anywhere() {
    let source = "package approval\noutput := {\"state\": \"passed\"} if print(\"secret\")";
    // Parsing evaluated it once.
    let mut engine = parse(source).unwrap().engine;
    assert_eq!(engine.take_prints().unwrap().len(), 1);
}

#[test]
fn an_evaluation_without_end_is_stopped() {
    let endless = "package approval\noutput := {\"state\": \"passed\"} if { \
        input.go; some i in numbers.range(1, 3000); some j in numbers.range(1, 3000); i * j == -1 }";
    let module = CheckModule::parse(endless, Duration::from_millis(200)).unwrap();
    assert_eq!(
        ask(&module, &json!({"go": true})),
        Err(EvaluationError::Timeout)
    );
    let at_once = endless.replace("input.go;", "");
    let error = CheckModule::parse(&at_once, Duration::from_millis(200)).unwrap_err();
    assert_eq!(error, ModuleError::Evaluation(EvaluationError::Timeout));
}

/// The engine would treat such an object as an unreadable number, and that as no object at all: then `not` is
/// true of everything.
#[test]
fn an_object_that_cannot_be_read_is_no_answer() {
    let module =
        parse("package approval\noutput := {\"state\": \"approved\"} if not input.data.blocked")
            .unwrap();
    let object = json!({"data": {"$serde_json::private::Number": "x", "blocked": true}});
    assert_eq!(Value::from(object.clone()), Value::Undefined);
    let text = object.to_string();
    for error in [ask(&module, &object), module.evaluate_json(&text, "{}")] {
        assert!(
            matches!(error, Err(EvaluationError::Object(_))),
            "{error:?}"
        );
    }
    for broken in ["", "{", "{} {}"] {
        let error = module.evaluate_json(broken, "{}");
        assert!(
            matches!(error, Err(EvaluationError::Object(_))),
            "{broken}: {error:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_a_module_does_not_look_at_changes_no_answer(
        object in json_values(),
        context in json_values(),
        status in json_values(),
    ) {
        let mut object = object;
        if let Some(object) = object.as_object_mut() {
            object.insert("status".to_owned(), status);
        }
        for source in [SOURCE_DOCUMENT, CONFIG_MAP] {
            let module = parse(source).unwrap();
            let whole = CheckModule { input: Reads::All, ..module.clone() };
            let said = module.evaluate(&object, &context);
            prop_assert_eq!(&whole.evaluate(&object, &context), &said);
            let (object, context) = (object.to_string(), context.to_string());
            prop_assert_eq!(&whole.evaluate_json(&object, &context), &said);
            prop_assert_eq!(&module.evaluate_json(&object, &context), &said);
        }
    }

    #[test]
    fn nothing_but_the_words_passes(object in json_values(), context in json_values()) {
        let module = parse(SOURCE_DOCUMENT).unwrap();
        if let Ok(answer) = module.evaluate(&object, &context) {
            let word = object["status"]["state"].as_str();
            let passes = answer.state.outcome() == CheckOutcome::Passed;
            prop_assert_eq!(passes, matches!(word, Some("approved" | "passed")));
        }
    }

    /// Short, because parsing time depends on the author of the module.
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,40}", rest in "[a-z{}\\[\\]():=\". \n]{0,16}") {
        let _ = parse(&text);
        let _ = parse(&format!("package approval\noutput := {rest}"));
    }
}

#[test]
fn a_module_sees_the_pod_however_it_writes_that() {
    let pod = json!({"metadata": {"name": "web-1"}});
    for context in [
        "data.context.metadata.name",
        "data[\"context\"].metadata.name",
        "data[`context`][\"metadata\"].name",
        "data[key].metadata.name",
        "all.context.metadata.name",
        "object.get(data, [\"context\", \"metadata\", \"name\"], \"\")",
        "data\n  .context.metadata.name",
    ] {
        let module = format!(
            "package approval\nkey := \"context\"\nall := data\noutput := {{\"state\": \"approved\", \"message\": {context}}}"
        );
        match parse(&module) {
            Ok(module) => assert_eq!(
                module.evaluate(&json!({}), &pod),
                said("approved", Some("web-1")),
                "{context}"
            ),
            // A module that is refused sees nothing either.
            Err(error) => println!("{context}: {error}"),
        }
    }
}
