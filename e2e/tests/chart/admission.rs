//! The chart's admission policies on a real API server: each rule refuses its cases and lets their neighbours
//! through, and without it the cases go through.

use std::{collections::BTreeSet, time::Duration};

use connectors_api::names::CREATOR_RULE;
use e2e::api::kinds::{APPROVAL_TASK, CUSTOM_RUN, PIPELINE_RUN, TASK_RUN};
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    cases::{self, Case},
    rendered::{defaults, items, name, of_kind, with},
    server::{self, Server, Variant},
};

/// Belongs to the API itself: its cases are among those of `e2e/tests/api`.
const OF_THE_API: &str = "accessrequest-connector-namespace.connectors.alauda.io";

/// How long the API server may take to see policies and compile them.
const PATIENCE: Duration = Duration::from_mins(1);

/// The policies and their bindings.
fn policies() -> Vec<Value> {
    let objects = with(json!({
        "approval": {"schedulingGate": "Set"},
        "tekton": {"admission": {"enabled": true}, "creators": {"enabled": true}},
    }));
    let kinds = [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ];
    let found = kinds.iter().flat_map(|kind| of_kind(&objects, kind));
    found
        .filter(|object| name(object) != OF_THE_API)
        .cloned()
        .collect()
}

fn messages() -> BTreeSet<String> {
    let policies = policies();
    let messages = policies.iter().flat_map(server::messages);
    messages.map(str::to_owned).collect()
}

#[test]
fn every_rule_has_a_case() {
    let cased: BTreeSet<String> = cases::all().into_iter().map(|case| case.message).collect();
    assert_eq!(cased, messages());
}

/// A wrong account name in them would stop every pipeline of the cluster.
#[test]
fn the_rules_about_tekton_are_off_unless_the_values_say_so() {
    let objects = defaults();
    let all = of_kind(&objects, "ValidatingAdmissionPolicy");
    let mut names = all.iter().map(|it| name(it));
    let prefixes = ["tekton-", "pipelinerun", "approval-"];
    assert!(!names.any(|it| prefixes.iter().any(|prefix| it.starts_with(prefix))));
}

/// A wrong account name is found by warnings before it stops a pipeline.
#[test]
fn the_rules_about_tekton_may_only_warn() {
    let values = json!({"tekton": {"admission": {"enabled": true, "actions": ["Warn", "Audit"]}}});
    let objects = with(values);
    let bindings = of_kind(&objects, "ValidatingAdmissionPolicyBinding");
    let warning: BTreeSet<&str> = bindings
        .into_iter()
        .filter(|it| it["spec"]["validationActions"] == json!(["Warn", "Audit"]))
        .map(name)
        .collect();
    let expected = [
        "approval-answers.connectors.alauda.io",
        "tekton-children.connectors.alauda.io",
        "tekton-links.connectors.alauda.io",
    ];
    assert_eq!(warning, BTreeSet::from(expected));
}

/// The webhook and the rule that keeps its work true come together. Without an answer pipelines go on.
#[test]
fn the_creation_of_runs_is_seen_only_where_the_values_say_so() {
    let hook = |objects: &[Value]| {
        let configurations = of_kind(objects, "MutatingWebhookConfiguration");
        let hooks = configurations.iter().flat_map(|it| items(&it["webhooks"]));
        let mut hooks =
            hooks.filter(|it| it["clientConfig"]["service"]["path"] == "/mutate/pipelineruns");
        hooks.next().cloned()
    };
    assert_eq!(hook(&defaults()), None);
    let on = with(json!({"tekton": {"creators": {"enabled": true}}}));
    let hook = hook(&on).unwrap();
    assert_eq!(hook["failurePolicy"], "Ignore");
    assert_eq!(hook["rules"][0]["operations"], json!(["CREATE"]));
    let rules = of_kind(&on, "ValidatingAdmissionPolicy");
    let rule = rules.iter().find(|it| name(it) == CREATOR_RULE);
    assert!(
        rule.is_some(),
        "the request-controller reads it by this name"
    );
}

/// Pods go on without us. The API server asks about pods that mount a connector alone, where the values say so.
#[test]
fn the_creation_of_pods_is_seen_only_where_they_get_the_gate() {
    let hook = |objects: &[Value]| {
        let configurations = of_kind(objects, "MutatingWebhookConfiguration");
        let hooks = configurations.iter().flat_map(|it| items(&it["webhooks"]));
        let mut hooks = hooks.filter(|it| it["clientConfig"]["service"]["path"] == "/mutate/pods");
        hooks.next().cloned()
    };
    for gate in ["Absent", "Release"] {
        let objects = with(json!({"approval": {"schedulingGate": gate}}));
        assert_eq!(hook(&objects), None, "{gate}");
    }
    let hook = hook(&with(json!({"approval": {"schedulingGate": "Set"}}))).unwrap();
    assert_eq!(hook["failurePolicy"], "Ignore");
    assert_eq!(hook["rules"][0]["operations"], json!(["CREATE"]));
    assert_eq!(hook["rules"][0]["resources"], json!(["pods"]));
    let conditions = hook["matchConditions"].to_string();
    assert!(conditions.contains(connectors_api::names::CSI_DRIVER));
}

/// A request of a gated pod comes from the request-controller, and no request where no pod gets the gate.
#[test]
fn the_controller_makes_requests_only_where_pods_get_the_gate() {
    let expression = |gate: &str| {
        let objects = with(json!({"approval": {"schedulingGate": gate}}));
        let policies = of_kind(&objects, "ValidatingAdmissionPolicy");
        let mut found = policies
            .into_iter()
            .filter(|it| name(it) == "writes-by-controllers.connectors.alauda.io");
        found.next().unwrap()["spec"]["validations"][0]["expression"].to_string()
    };
    for gate in ["Absent", "Release"] {
        assert!(!expression(gate).contains("CREATE"), "{gate}");
    }
    assert!(expression("Set").contains("'CREATE' && variables.what == 'accessrequests'"));
}

#[test]
fn every_policy_is_in_force_and_fails_closed() {
    let policies = policies();
    let of_kind = |kind| of_kind(&policies, kind);
    let in_force: BTreeSet<&str> = of_kind("ValidatingAdmissionPolicyBinding")
        .into_iter()
        .filter(|binding| binding["spec"]["validationActions"] == serde_json::json!(["Deny"]))
        .filter(|binding| binding["spec"]["matchResources"].is_null())
        .map(|binding| binding["spec"]["policyName"].as_str().unwrap())
        .collect();
    let all: BTreeSet<&str> = of_kind("ValidatingAdmissionPolicy")
        .into_iter()
        .map(name)
        .collect();
    assert_eq!(in_force, all);
    assert!(
        of_kind("ValidatingAdmissionPolicy")
            .iter()
            .all(|policy| policy["spec"]["failurePolicy"] == "Fail")
    );
}

#[tokio::test(flavor = "multi_thread")]
#[allow(
    clippy::await_holding_lock,
    reason = "whoever waits for the lock is a test on a thread of its own"
)]
async fn every_case_is_refused_by_its_rule_alone() {
    let _alone = crate::releases::alone();
    let scene = e2e::harness::Scene::new("admission");
    let installed = scene
        .kubectl()
        .run("get validatingadmissionpolicies -o name")
        .unwrap();
    assert!(
        !installed.contains("/grants-by-others."),
        "the chart is installed on this cluster: its own policies would answer for these"
    );
    let crds = e2e::install::crds();
    scene
        .kubectl()
        .run_on_file("apply --server-side --force-conflicts", &crds)
        .unwrap();
    scene
        .kubectl()
        .run_on_file("wait --for=condition=Established --timeout=60s", &crds)
        .unwrap();

    for kind in [PIPELINE_RUN, TASK_RUN, CUSTOM_RUN, APPROVAL_TASK] {
        scene.api().define(&kind.definition()).unwrap();
    }

    let server = Server::new(&scene).await;
    let (cases, policies) = (cases::all(), policies());
    let mutants = messages()
        .into_iter()
        .enumerate()
        .map(|(number, message)| Variant::without(number, &message, &cases, &policies));
    let whole = Variant::whole(&cases, &policies);
    let variants: Vec<Variant<'_>> = std::iter::once(whole).chain(mutants).collect();
    join_all(variants.iter().map(|variant| server.prepare(variant))).await;

    let mut wrong = Vec::new();
    for variant in &variants {
        wrong.extend(survivors(&server, variant).await);
    }
    wrong.extend(neighbours(&server, &variants[0]).await);
    join_all(variants.iter().map(|variant| server.clean(variant))).await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The faults of a variant: accepted cases, and refused cases of the removed rule.
async fn survivors(server: &Server, variant: &Variant<'_>) -> Vec<String> {
    let is_out = |case: &&&Case| variant.without.as_ref() == Some(&case.message);
    let deadline = Instant::now() + PATIENCE;
    let mut wrong = loop {
        let kept = variant.cases.iter().filter(|case| !is_out(case));
        let answers = join_all(kept.map(|case| refusal(server, variant, case))).await;
        let wrong: Vec<String> = answers.into_iter().flatten().collect();
        // Policies come into force one after the other, a moment after they were made.
        if wrong.is_empty() || Instant::now() > deadline {
            break wrong;
        }
        sleep(Duration::from_millis(100)).await;
    };
    for case in variant.cases.iter().filter(is_out) {
        if let Err(message) = server.attempt(variant, case, &case.refused).await {
            wrong.push(format!("{} without its rule: {message}", case.file));
        }
    }
    wrong
}

/// The fault in the refusal of a case.
async fn refusal(server: &Server, variant: &Variant<'_>, case: &Case) -> Option<String> {
    match server.attempt(variant, case, &case.refused).await {
        Err(message) if message.contains(&case.message) => None,
        Err(message) => Some(format!("{}: {message}", case.file)),
        Ok(()) => Some(format!(
            "{}: was not refused ({:?} without)",
            case.file, variant.without
        )),
    }
}

async fn neighbours(server: &Server, variant: &Variant<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for case in &variant.cases {
        for (number, attempt) in case.accepted.iter().enumerate() {
            if let Err(message) = server.attempt(variant, case, attempt).await {
                wrong.push(format!(
                    "{}: neighbour {number} was refused: {message}",
                    case.file
                ));
            }
        }
    }
    wrong
}
