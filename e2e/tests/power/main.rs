//! Least power, from real calls: the audit log of a cluster that ran all tests is compared with the rights of
//! our accounts there.
//!
//! Owns: the comparison of rights with calls. Refuses to know: the purpose of a service's right. Invariant:
//! an unused right fails the test, and so does a refused call.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "tests fail by panicking, and most of this crate is helpers of tests"
)]

mod calls;
mod rights;

use std::{collections::BTreeSet, fs::File, io::BufReader};

use e2e::{harness::Scene, images::Image};

use rights::Right;

/// Calls that may be refused because of a test: account, call, and reason.
const REFUSED: [(&str, &str, &str); 2] = [
    (
        "request-controller",
        "list jobs.batch",
        "a policy names a kind that the installation may not read, and whether it may is found out by asking",
    ),
    (
        "request-controller",
        "list changerequests.demo.example.com",
        "the demo writes its policy a moment after the role that lets checks read the kind",
    ),
];

/// The shards that the values of this part ask for.
const SHARDS: usize = 2;

/// Rights that may go unused while all goes well: account, right, and reason. A `#` stands for the
/// number of a shard that the values do not ask for.
const UNUSED: [(&str, &str, &str); 18] = [
    (
        "csi-node",
        "create evaluations/mount.connectors.alauda.io",
        "the evaluation service reads the right from its index, and asks for no review",
    ),
    (
        "webhook",
        "create evaluations.connectors.alauda.io",
        "the evaluation service reads the right from its index, and asks for no review",
    ),
    (
        "csi-node",
        "get accessrequests.connectors.alauda.io",
        "a request of the pod is there already: another look made it",
    ),
    (
        "csi-node",
        "get connectorclasses.connectors.alauda.io",
        "a connector has no address of its own",
    ),
    (
        "csi-node",
        "patch events.events.k8s.io",
        "an event that comes again is counted",
    ),
    (
        "evaluation-service",
        "create subjectaccessreviews.authorization.k8s.io",
        "RBAC lets each caller ask, as the service itself knows",
    ),
    (
        "evaluation-service",
        "get accessrequests.connectors.alauda.io",
        "somebody asks why a request is as it is",
    ),
    (
        "evaluation-service",
        "get serviceaccounts",
        "somebody asks why a policy does not apply",
    ),
    (
        "policy-controller",
        "get roles.rbac.authorization.k8s.io",
        "the name of a Role is taken",
    ),
    (
        "policy-controller",
        "get rolebindings.rbac.authorization.k8s.io",
        "the name of a RoleBinding is taken",
    ),
    (
        "policy-controller",
        "patch events.events.k8s.io",
        "an event that comes again is counted",
    ),
    (
        "request-controller",
        "get leases.coordination.k8s.io request-controller-#",
        "the values may ask for more shards",
    ),
    (
        "request-controller",
        "update leases.coordination.k8s.io request-controller-#",
        "the values may ask for more shards",
    ),
    (
        "request-controller",
        "update leases.coordination.k8s.io request-controller-next",
        "no process led two shards more than another",
    ),
    (
        "request-controller",
        "get namespaces",
        "a policy's requesters are selected by label",
    ),
    (
        "request-controller",
        "get serviceaccounts",
        "a policy's requesters are selected by label",
    ),
    (
        "request-controller",
        "get approvaltasks.openshift-pipelines.org",
        "access was granted on one, which needs a proof that cannot be given yet",
    ),
    (
        "request-controller",
        "get latecomers.e2e.example.com",
        "access was granted on one, which no test does",
    ),
];

#[test]
fn every_right_was_used_and_no_call_was_refused() {
    let scene = Scene::new("power");
    let Some(log) = scene.audit_log() else {
        return; // an existing cluster keeps its log to itself
    };
    let rights = rights::held(&scene);
    let accounts: BTreeSet<&str> = rights.iter().map(|it| it.account.as_str()).collect();
    assert_eq!(accounts.len(), Image::SERVICES.len(), "{accounts:?}");
    let calls = calls::read(BufReader::new(File::open(log).unwrap()));
    assert!(calls.len() > 50, "the log tells of {} calls", calls.len());

    let is_used = |right: &&Right| calls.iter().any(|call| call.allowed && right.covers(call));
    let unused = rights.iter().filter(|right| !is_used(right));
    let unused = unused.map(|it| (it.account.clone(), it.to_string()));
    let refused = calls.iter().filter(|call| !call.allowed);
    let refused = refused.map(|it| (it.account.clone(), it.to_string()));
    let wrong = [
        surprises("was never used", unused, &UNUSED),
        surprises("was refused", refused, &REFUSED),
    ]
    .concat();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A lost right needs no reason any more.
#[test]
fn every_reason_is_about_a_right_that_is_held() {
    let scene = Scene::new("power-reasons");
    if scene.audit_log().is_none() {
        return; // an existing cluster has values of its own
    }
    let rights = rights::held(&scene);
    for (account, right, _) in UNUSED {
        let mut held = rights.iter().filter(|it| it.account == account);
        let is_held = held.any(|it| is_named(right, &it.to_string()));
        assert!(is_held, "{account}: {right}");
    }
}

fn is_named(expected: &str, call: &str) -> bool {
    let Some(start) = expected.strip_suffix('#') else {
        return call == expected;
    };
    let shard = call.strip_prefix(start).and_then(|it| it.parse().ok());
    shard.is_some_and(|it: usize| it >= SHARDS)
}

/// The unexpected findings.
fn surprises(
    what: &str,
    found: impl Iterator<Item = (String, String)>,
    expected: &[(&str, &str, &str)],
) -> Vec<String> {
    let is_expected = |account: &str, call: &str| {
        let mut expected = expected.iter();
        expected.any(|it| it.0 == account && is_named(it.1, call))
    };
    let found: BTreeSet<(String, String)> = found.collect();
    let surprises = found.iter().filter(|it| !is_expected(&it.0, &it.1));
    surprises
        .map(|(account, call)| format!("{account}: {call} {what}"))
        .collect()
}
