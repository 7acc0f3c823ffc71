//! Pods that use a connector of another namespace.

use e2e::api::kinds::POD;
use serde_json::json;

use crate::support::{Approval, Gate, policy, uid, wait_until};

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
