//! Rego: a module, then perhaps the check object, then perhaps the pod.

use std::collections::BTreeMap;
use std::time::Duration;

use connectors_api::check_state::CheckOutcome;
use connectors_api::judge::{PolicyQuestion, RegoAnswer, RegoFailure, Stage, prepare};
use connectors_api::reason::AccessCheckReady;
use connectors_api::rego::{CheckModule, EvaluationError, ModuleOutput};
use serde_json::{Value, json};

use crate::{config_map, object, parts, pod, policy};

/// The time limit of an evaluation.
const LIMIT: Duration = Duration::from_millis(200);
/// As much of a message as a status can show.
const LONGEST_MESSAGE: usize = 1024;
/// Brackets in brackets take a time exponential in their depth: workers are killed over them, and here
/// they would keep everything else from its turn.
const DEEPEST: usize = 10;

/// The same answer each time, in the exact form; and only a yes lets in.
///
/// Inputs that take too long or too much memory are ended from outside, as workers are.
pub fn check(data: &[u8]) {
    let Some(mut parts) = parts(data) else { return };
    let source = parts.next().unwrap_or_default();
    if depth(source) > DEEPEST {
        return;
    }
    let Some(object) = object(parts.next(), config_map) else {
        return;
    };
    let Some(pod) = crate::object(parts.next(), pod) else {
        return;
    };
    let said = match CheckModule::parse(source, LIMIT) {
        Ok(module) => {
            let said = module.evaluate(&object, &pod);
            let again = module.evaluate(&object, &pod);
            let timed_out = [&said, &again].contains(&&Err(EvaluationError::Timeout));
            assert!(said == again || timed_out, "{said:?} and then {again:?}");
            said.map_err(|error| RegoFailure::Failed(error.to_string()))
        }
        Err(error) => Err(RegoFailure::Failed(error.to_string())),
    };
    if let Ok(ModuleOutput {
        message: Some(message),
        ..
    }) = &said
    {
        assert!(message.len() <= LONGEST_MESSAGE);
    }
    if said
        .as_ref()
        .is_ok_and(|it| it.state.outcome() == CheckOutcome::Passed)
    {
        says_so_itself(source, &object, &pod);
    }
    let answer = said.map(|ModuleOutput { state, message }| RegoAnswer { state, message });
    lets_in_only_by_a_yes(source, answer);
}

/// The engine itself, called without our code, finds the yes.
fn says_so_itself(source: &str, object: &Value, pod: &Value) {
    let load = |is_version_0| {
        let mut engine = regorus::Engine::new();
        engine.set_rego_v0(is_version_0);
        engine.set_strict_builtin_errors(true);
        engine.set_gather_prints(true);
        let loaded = engine.add_policy("check.rego".to_owned(), source.to_owned());
        loaded.map(|_| engine)
    };
    let mut engine = load(false).or_else(|_| load(true)).expect("a module");
    let input = object.to_string();
    engine.set_input_json(&input).expect("an object");
    let data = json!({"context": pod}).to_string();
    engine.add_data_json(&data).expect("an object");
    let output = engine.eval_rule("data.approval.output".to_owned());
    let output = output.expect("an answer");
    let state = output["state"].as_string().expect("a word");
    assert!(matches!(&**state, "approved" | "passed"), "{output}");
}

/// The result of the check for this output of its module.
fn lets_in_only_by_a_yes(source: &str, answer: Result<RegoAnswer, RegoFailure>) {
    let yes = answer
        .as_ref()
        .is_ok_and(|answer| answer.state.outcome() == CheckOutcome::Passed);
    let mut policy = policy();
    policy["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["state"] =
        Value::from_iter([("rego", source)]);
    let question = PolicyQuestion {
        policy,
        context: pod(),
        connector: "harbor".to_owned(),
        candidates: BTreeMap::from([("gate".to_owned(), vec![config_map()])]),
        shared: BTreeMap::new(),
        lineage: Vec::new(),
        creators_since: None,
        stage: Stage::BeforeGrant,
    };
    // A policy holds no module that is longer than a module may be.
    let Ok(prepared) = question.read().and_then(prepare) else {
        return;
    };
    // An empty text is no module: then the state of the object itself counts.
    if prepared.rego_jobs().count() == 1 {
        let judgement = prepared.finish([answer]);
        assert_eq!(
            judgement.verdict == AccessCheckReady::AccessCheckPassed,
            yes
        );
        assert_eq!(judgement.rules.is_some(), yes);
    }
}

/// How deep brackets are in brackets, at most.
fn depth(source: &str) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for letter in source.bytes() {
        match letter {
            b'(' | b'[' | b'{' => now += 1,
            b')' | b']' | b'}' => now = now.saturating_sub(1),
            _ => {}
        }
        most = most.max(now);
    }
    most
}
