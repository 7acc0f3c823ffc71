//! Pods that use a connector of another namespace.

use e2e::api::kinds::{ACCESS_REQUEST, POD};
use serde_json::{Value, json};

use crate::support::{Approval, Gate, name, policy, uid, wait_until};

#[test]
fn a_pod_of_another_namespace_gets_in_when_a_policy_names_it_and_learns_nothing_before() {
    let owner = Gate::new("tenant-owner");
    let guest = owner.another("tenant-guest");
    owner.create_policy("own", Approval::SignOff);
    // The guest approves his own way, in his own namespace.
    guest.set_approval("yes", "job", Approval::SignOff, "approved");
    guest.start_pod_of("job", &format!("{}/prod", owner.namespace()));
    guest.start_pod_of("lost", &format!("{}/no-such-connector", owner.namespace()));
    let refused = guest.wait_for_event("Pod", "job", "AccessPending");
    let missing = guest.wait_for_event("Pod", "lost", "AccessPending");
    assert_eq!(
        refused.replace("prod", "X"),
        missing.replace("no-such-connector", "X"),
        "the texts tell which connectors exist"
    );
    guest.assert_held("job");
    // No policy could accept them, so that they cost the owner nothing.
    for pod in ["job", "lost"] {
        let found = owner.requests_of(&guest.pod_uid(pod));
        assert!(found.is_empty(), "{found:?}");
    }

    let mut named = policy("named", Approval::SignOff);
    named["spec"]["checkGrantedPermission"]["requesters"] =
        json!([{"kind": "ServiceAccount", "name": "default", "namespace": guest.namespace()}]);
    owner.scene().apply(&named).unwrap();
    // In the call that is held already.
    guest.wait_for_output("job");
    guest.assert_held("lost");
    let uid = uid(&owner.requests_of(&guest.pod_uid("job"))[0]);
    assert_eq!(owner.grants(&uid).len(), 2);

    guest.delete(POD, "job");
    guest.delete(POD, "lost");
    wait_until("the grant to be gone", || owner.grants(&uid).is_empty());
}

#[test]
fn what_approvals_say_is_told_in_their_own_namespace_and_not_to_the_author_of_another() {
    let owner = Gate::new("told-owner");
    let guest = owner.another("told-guest");
    let mut named = policy("named", Approval::SignOff);
    named["spec"]["checkGrantedPermission"]["requesters"] =
        json!([{"kind": "ServiceAccount", "name": "default", "namespace": guest.namespace()}]);
    owner.scene().apply(&named).unwrap();
    guest.start_pod_of("job", &format!("{}/prod", owner.namespace()));
    let told = |says: &str| guest.wait_for_note("Pod", "job", "AccessPending", says);
    told("checks look only in the pod's namespace");
    let name = name(&owner.requests_of(&guest.pod_uid("job"))[0]);
    let message = |request: &Value| {
        let conditions = request["status"]["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|it| it["type"] == "Ready");
        ready.unwrap()["message"].as_str().unwrap().to_owned()
    };
    let refs = |request: &Value| request["status"]["policies"][0]["checkRefs"].clone();
    let waits = owner.wait_for_request(&name, "to wait", |request| {
        request["status"]["policies"][0].is_object()
    });
    assert_eq!(
        message(&waits),
        "policy named: its checks do not pass yet; what they found is told at the pod, in its namespace"
    );
    assert_eq!(refs(&waits), Value::Null);

    guest.set_approval("yes", "job", Approval::SignOff, "pending");
    told("/yes is pending");
    // The request is not even written again: the time of the change cannot be seen either.
    let version = |it: &Value| it["metadata"]["resourceVersion"].clone();
    let request = owner.object(ACCESS_REQUEST, &name);
    assert_eq!(version(&request), version(&waits));

    guest.set_approval("yes", "job", Approval::SignOff, "approved");
    guest.wait_for_output("job");
    let granted = owner.object(ACCESS_REQUEST, &name);
    assert_eq!(refs(&granted)[0]["ref"]["name"], "yes");
}
