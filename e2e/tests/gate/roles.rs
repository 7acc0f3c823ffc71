//! What people may do with policies and requests, by the roles that the chart adds to those of the cluster.

use serde_json::json;

use crate::support::Gate;

/// Developers hold `edit`, namespace administrators `admin`, auditors `view`, in the namespace; guests may ask there,
/// as the developers of a project's namespaces do in the project's own.
const PEOPLE: [(&str, &str); 4] = [
    ("developer", "edit"),
    ("administrator", "admin"),
    ("auditor", "view"),
    ("guest", "connectors-accessrequests-edit"),
];

const REQUESTS: &str = "accessrequests.connectors.alauda.io";
const POLICIES: &str = "accesspolicies.connectors.alauda.io";

/// Who may do what; whatever is not here is refused.
const MAY: [(&str, &str, &[&str]); 7] = [
    (
        "developer",
        REQUESTS,
        &["get", "list", "watch", "create", "update", "patch"],
    ),
    ("developer", POLICIES, &["get", "list", "watch"]),
    (
        "administrator",
        REQUESTS,
        &[
            "get", "list", "watch", "create", "update", "patch", "delete",
        ],
    ),
    (
        "administrator",
        POLICIES,
        &[
            "get", "list", "watch", "create", "update", "patch", "delete",
        ],
    ),
    ("auditor", REQUESTS, &["get", "list", "watch"]),
    ("auditor", POLICIES, &["get", "list", "watch"]),
    (
        "guest",
        REQUESTS,
        &["get", "list", "watch", "create", "update", "patch"],
    ),
];

const VERBS: [&str; 7] = [
    "get", "list", "watch", "create", "update", "patch", "delete",
];

#[test]
fn people_may_do_what_their_role_says_and_nobody_writes_a_status() {
    let gate = Gate::new("roles");
    let user = |who: &str| format!("{who}-of-{}", gate.namespace());
    for (who, role) in PEOPLE {
        let rbac = "rbac.authorization.k8s.io";
        let binding = json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": {"name": who},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "apiGroup": rbac, "name": user(who)}],
        });
        gate.scene().apply(&binding.to_string()).unwrap();
    }
    let may = |namespace: &str, who: &str, verb: &str, resource: &str| {
        let words = format!(
            "--namespace {namespace} auth can-i {verb} {resource} --as={}",
            user(who)
        );
        // A no is an exit code, too.
        gate.scene()
            .kubectl()
            .run(&words)
            .is_ok_and(|it| it.trim() == "yes")
    };
    let own = gate.namespace();
    for (who, _) in PEOPLE {
        for resource in [REQUESTS, POLICIES] {
            let given = MAY.iter().find(|(it, of, _)| *it == who && *of == resource);
            let given = given.map_or(&[] as &[_], |(.., verbs)| verbs);
            for verb in VERBS {
                assert_eq!(
                    may(own, who, verb, resource),
                    given.contains(&verb),
                    "{who} {verb} {resource}"
                );
            }
            for verb in ["update", "patch"] {
                let status = format!("{resource} --subresource=status");
                assert!(!may(own, who, verb, &status), "{who} {verb} {status}");
            }
            assert!(!may("default", who, "get", resource), "{who} elsewhere");
        }
    }
}
