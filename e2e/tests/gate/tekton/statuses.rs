//! The status of an approval's `CustomRun`, which the proof believes.
//!
//! Tekton's webhook lets every account that may update a `CustomRun` change its custom task.
//! `tekton.admission` leaves the status of other custom tasks to their own controllers. So it has to prevent
//! a `CustomRun` from being one for a while.

use std::time::Duration;

use e2e::{
    ApiClient, ApiError,
    api::kinds::{ACCESS_POLICY, CUSTOM_RUN},
};
use serde_json::{Value, json};

use super::forged::custom_run;
use super::live::Live;
use super::pipelines::{GATE, honest, with};
use crate::support::condition;

/// The rule of `tekton.admission` about later changes.
const RULE: &str = "tekton-links.connectors.alauda.io";

/// Rights are looked at after a minute.
const SLOW: Duration = Duration::from_mins(3);

fn refers_to(api_version: &str, kind: &str) -> Value {
    json!({"spec": {"customRef": {"apiVersion": api_version, "kind": kind}}})
}

fn elsewhere() -> Value {
    refers_to("example.com/v1", "Ask")
}

fn to_the_gate() -> Value {
    refers_to(GATE, "ApprovalTask")
}

fn say_something(tenant: &ApiClient, run: &str) -> Result<(), ApiError> {
    let status = json!({"results": [{"name": "said", "value": "by mallory"}]});
    tenant.patch_status(CUSTOM_RUN, run, &status).map(drop)
}

/// The run's own `CustomRun` refers to something else for a while.
fn there_and_back(tenant: &ApiClient) -> Result<(), ApiError> {
    tenant.patch(CUSTOM_RUN, "run-wait", &elsewhere())?;
    say_something(tenant, "run-wait")?;
    tenant
        .patch(CUSTOM_RUN, "run-wait", &to_the_gate())
        .map(drop)
}

/// A `CustomRun` of no run becomes one of an approval once it has its status.
fn afterwards(tenant: &ApiClient) -> Result<(), ApiError> {
    let own = with(custom_run("own", &json!([])), elsewhere());
    let own = with(own, json!({"metadata": {"labels": null}}));
    tenant.create(&own)?;
    say_something(tenant, "own")?;
    tenant.patch(CUSTOM_RUN, "own", &to_the_gate()).map(drop)
}

/// Where no rule forbids it, rights do, or the policy says that an account has one that forges approvals.
#[test]
fn nobody_writes_the_status_of_an_approval_while_its_custom_run_refers_to_something_else() {
    let live = Live::new("tk-walk-around");
    let tenant = live.tenant();
    live.create(&honest());
    live.wait_for_both();
    let has_rule = live.has_rule(RULE);
    for walk_around in [there_and_back, afterwards] {
        if let Err(refusal) = walk_around(&tenant) {
            let text = refusal.to_string();
            assert!(text.contains("forbidden"), "{text}");
            assert!(!has_rule || text.contains("spec.customRef"), "{text}");
            continue;
        }
        assert!(!has_rule, "the rules of tekton.admission let it through");
        let is_named = |policy: &Value| {
            condition(policy, "ChecksValid").is_some_and(|(_, it)| it == "ChecksForgeable")
        };
        let what = "the policy to say that approvals can be forged";
        let api = live.gate.api();
        api.wait_for(what, (ACCESS_POLICY, "release"), SLOW, is_named)
            .unwrap();
    }
    let result = &live.gate.object(CUSTOM_RUN, "run-wait")["status"]["results"];
    assert!(!has_rule || result.is_null(), "{result}");
}
