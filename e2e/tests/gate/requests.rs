//! Requests made by hand: what the admission of a request adds, and whom it turns away.

use serde_json::json;

use crate::support::{Approval, CONNECTOR, Gate, wait_until};

#[test]
fn a_request_made_by_hand_is_filled_in_and_used_by_the_mount() {
    let gate = Gate::new("request-by-hand");
    gate.scene().start_pod("plain", &["wait"]).unwrap();
    gate.scene().wait_for_running("plain");
    let stored = gate.create("", &gate.hand_made("mine", "plain")).unwrap();
    assert_eq!(
        stored["spec"]["context"]["objectRef"]["uid"],
        gate.pod_uid("plain")
    );
    let labels = &stored["metadata"]["labels"];
    assert_eq!(
        labels["connectors.cpaas.io/contextObjectUID"],
        gate.pod_uid("plain")
    );
    assert_eq!(labels["connectors.cpaas.io/contextObjectName"], "plain");
    assert_eq!(labels["connectors.cpaas.io/connector"], CONNECTOR);
    // It follows its policies like any other.
    gate.create_policy("release", Approval::SignOff);
    gate.set_approval("yes", "plain", Approval::SignOff, "approved");
    gate.wait_for_phase("plain", "Granted");
    gate.wait_for_access("plain");
}

#[test]
fn a_request_that_is_not_the_pods_is_refused_with_the_reason() {
    let gate = Gate::new("request-refused");
    gate.scene().start_pod("plain", &["wait"]).unwrap();
    gate.scene().start_pod("over", &["say", "done"]).unwrap();
    assert_eq!(gate.scene().wait_for_end("over"), "Succeeded");
    let changed = |pod: &str, pointer: &str, value: &str| {
        let mut changed = gate.hand_made("mine", pod);
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        changed.pointer_mut(parent).unwrap()[field] = json!(value);
        changed
    };
    for (what, request) in [
        ("no such pod", gate.hand_made("mine", "nobody")),
        (
            "another account",
            changed("plain", "/spec/subject/name", "builder"),
        ),
        (
            "another UID",
            changed(
                "plain",
                "/spec/context/objectRef/uid",
                "00000000-0000-0000-0000-000000000000",
            ),
        ),
        ("a finished pod", gate.hand_made("mine", "over")),
        (
            "an unknown field",
            changed("plain", "/spec/permision", "apis"),
        ),
    ] {
        let refused = gate.create("", &request).unwrap_err();
        assert!(refused.contains("denied the request"), "{what}: {refused}");
    }
    let misspelt = gate
        .create("", &changed("plain", "/spec/permision", "apis"))
        .unwrap_err();
    assert!(misspelt.contains("permission"), "{misspelt}");
    gate.create("--dry-run=server", &gate.hand_made("mine", "plain"))
        .unwrap();
    assert_eq!(gate.scene().run("get accessrequests -o name").unwrap(), "");
}

#[test]
fn who_may_not_see_a_pod_learns_nothing_about_it() {
    let gate = Gate::new("request-stranger");
    gate.scene().start_pod("plain", &["wait"]).unwrap();
    gate.scene()
        .run("create role requests --verb=create --resource=accessrequests.connectors.alauda.io")
        .unwrap();
    gate.scene()
        .run("create rolebinding requests --role=requests --user=stranger")
        .unwrap();
    wait_until("the stranger's right", || {
        gate.scene()
            .run("--as stranger auth can-i create accessrequests.connectors.alauda.io")
            .is_ok()
    });
    let there = gate
        .create("--as stranger", &gate.hand_made("mine", "plain"))
        .unwrap_err();
    let not_there = gate
        .create("--as stranger", &gate.hand_made("mine", "nobody"))
        .unwrap_err();
    assert!(there.contains("denied the request"), "{there}");
    assert_eq!(there.replace("plain", "nobody"), not_there);
}

#[test]
fn the_node_plugin_speaks_only_for_pods_of_its_node() {
    let gate = Gate::new("request-node");
    gate.scene().start_pod("plain", &["wait"]).unwrap();
    gate.scene().wait_for_running("plain");
    // Its account without the claim of a node, as a token that was taken elsewhere would have it.
    let plugin = "--as system:serviceaccount:connectors-system:csi-node";
    let refused = gate
        .create(plugin, &gate.hand_made("mine", "plain"))
        .unwrap_err();
    assert!(refused.contains("denied the request"), "{refused}");
    let other =
        format!("{plugin} --as-user-extra authentication.kubernetes.io/node-name=other-node");
    let refused = gate
        .create(&other, &gate.hand_made("mine", "plain"))
        .unwrap_err();
    assert!(refused.contains("denied the request"), "{refused}");
    let node = gate
        .scene()
        .run("get pod plain -o jsonpath={.spec.nodeName}")
        .unwrap();
    let own = format!("{plugin} --as-user-extra authentication.kubernetes.io/node-name={node}");
    gate.create(&own, &gate.hand_made("mine", "plain")).unwrap();
}
