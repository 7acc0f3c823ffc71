//! What people may do with connectors, policies and requests by the roles that the chart adds to those of the cluster:
//! asked of the API server, and done through the webhook.

use serde_json::{Value, json};

use crate::support::{Approval, CONNECTOR, Gate, policy, wait_until};

const GROUP: &str = "connectors.alauda.io";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Developers hold `edit`, namespace administrators `admin`, auditors `view`, in the namespace; guests may ask there,
/// as the developers of a project's namespaces do in the project's own.
const PEOPLE: [(&str, &str); 5] = [
    ("administrator", "admin"),
    ("developer", "edit"),
    ("auditor", "view"),
    ("guest", "connectors-accessrequests-edit"),
    ("author", "connectors-accesspolicies-admin"),
];

const CLASSES: &str = "connectorclasses";
const CONNECTORS: &str = "connectors";
const POLICIES: &str = "accesspolicies";
const REQUESTS: &str = "accessrequests";

const READ: &[&str] = &["get", "list", "watch"];
const ASK: &[&str] = &["get", "list", "watch", "create", "update", "patch"];
const VERBS: &[&str] = &[
    "get", "list", "watch", "create", "update", "patch", "delete",
];

/// Who may do what; whatever is not here is refused.
const MAY: [(&str, &str, &[&str]); 11] = [
    ("administrator", CONNECTORS, VERBS),
    ("administrator", POLICIES, VERBS),
    ("administrator", REQUESTS, VERBS),
    ("developer", CONNECTORS, READ),
    ("developer", POLICIES, READ),
    ("developer", REQUESTS, ASK),
    ("auditor", CONNECTORS, READ),
    ("auditor", POLICIES, READ),
    ("auditor", REQUESTS, READ),
    ("guest", REQUESTS, ASK),
    ("author", POLICIES, VERBS),
];

/// A namespace in which each of these people holds a role; the test's own names keep them apart from others.
fn people(test: &str) -> Gate {
    let gate = Gate::new(test);
    for (who, role) in PEOPLE {
        bind(&gate, who, role, &subject(&gate, who));
    }
    // The API server's authorizer sees a binding a moment after it was written.
    for (who, _) in PEOPLE {
        let sees = |plural| may(&gate, gate.namespace(), who, "get", plural);
        wait_until(&format!("the role of the {who}"), || {
            sees(POLICIES) || sees(REQUESTS)
        });
    }
    gate
}

fn bind(gate: &Gate, name: &str, role: &str, subject: &Value) {
    let binding = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    });
    gate.scene().apply(&binding.to_string()).unwrap();
}

/// An administrator holds the role by a group, as most do; the others by their names.
fn subject(gate: &Gate, who: &str) -> Value {
    let kind = if who == "administrator" {
        "Group"
    } else {
        "User"
    };
    json!({"kind": kind, "apiGroup": RBAC, "name": format!("{who}-of-{}", gate.namespace())})
}

/// The words that make kubectl act as one of them.
fn as_whom(gate: &Gate, who: &str) -> String {
    let name = format!("{who}-of-{}", gate.namespace());
    if who == "administrator" {
        format!("--as=somebody --as-group={name}")
    } else {
        format!("--as={name}")
    }
}

/// What the API server says of a right.
fn may(gate: &Gate, namespace: &str, who: &str, verb: &str, resource: &str) -> bool {
    let who = as_whom(gate, who);
    let words = format!("--namespace {namespace} auth can-i {verb} {resource} {who}");
    // A no is an exit code, too.
    let answer = gate.scene().kubectl().run(&words);
    answer.is_ok_and(|it| it.trim() == "yes")
}

#[test]
fn people_may_do_what_their_role_says_and_nobody_writes_a_status() {
    let gate = people("roles");
    let own = gate.namespace();
    for (who, _) in PEOPLE {
        for plural in [CONNECTORS, POLICIES, REQUESTS] {
            let resource = format!("{plural}.{GROUP}");
            let given = MAY.iter().find(|(it, of, _)| *it == who && *of == plural);
            let given = given.map_or(&[] as &[_], |(.., verbs)| verbs);
            for verb in VERBS {
                assert_eq!(
                    may(&gate, own, who, verb, &resource),
                    given.contains(verb),
                    "{who} {verb} {resource}"
                );
            }
            for verb in ["update", "patch"] {
                let status = format!("{resource} --subresource=status");
                assert!(
                    !may(&gate, own, who, verb, &status),
                    "{who} {verb} {status}"
                );
            }
            assert!(
                !may(&gate, "default", who, "get", &resource),
                "{who} elsewhere"
            );
        }
        for verb in VERBS {
            let resource = format!("{CLASSES}.{GROUP}");
            let reads = READ.contains(verb);
            assert_eq!(
                may(&gate, own, who, verb, &resource),
                reads,
                "{who} {verb} classes"
            );
        }
    }
}

/// What a person does with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Create,
    Read,
    Update,
    Delete,
}

const DEEDS: [Deed; 4] = [Deed::Create, Deed::Read, Deed::Update, Deed::Delete];

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    /// By the rights that the person does not hold.
    Forbidden,
    /// By the webhook: the person may write policies and not the connectors that they hand out.
    Refused,
}

use End::{Done, Forbidden, Refused};

/// The source document's table: whoever creates, updates, reads and deletes connectors does so with policies, too, and
/// nobody else does. In the order of [`DEEDS`].
const DONE: [(&str, &str, [End; 4]); 15] = [
    ("administrator", CONNECTORS, [Done, Done, Done, Done]),
    ("administrator", POLICIES, [Done, Done, Done, Done]),
    ("administrator", REQUESTS, [Done, Done, Done, Done]),
    (
        "developer",
        CONNECTORS,
        [Forbidden, Done, Forbidden, Forbidden],
    ),
    (
        "developer",
        POLICIES,
        [Forbidden, Done, Forbidden, Forbidden],
    ),
    ("developer", REQUESTS, [Done, Done, Done, Forbidden]),
    (
        "auditor",
        CONNECTORS,
        [Forbidden, Done, Forbidden, Forbidden],
    ),
    ("auditor", POLICIES, [Forbidden, Done, Forbidden, Forbidden]),
    ("auditor", REQUESTS, [Forbidden, Done, Forbidden, Forbidden]),
    ("guest", CONNECTORS, [Forbidden; 4]),
    ("guest", POLICIES, [Forbidden; 4]),
    ("guest", REQUESTS, [Done, Done, Done, Forbidden]),
    ("author", CONNECTORS, [Forbidden; 4]),
    ("author", POLICIES, [Refused, Done, Refused, Done]),
    ("author", REQUESTS, [Forbidden; 4]),
];

/// An object of the kind, and a change of it that the webhook judges where it judges any.
fn object(gate: &Gate, plural: &str, name: &str) -> (Value, Value) {
    match plural {
        CONNECTORS => (
            json!({
                "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Connector", "metadata": {"name": name},
                "spec": {"connectorClassName": "e2e", "address": "https://one.example.com"},
            }),
            json!({"spec": {"address": "https://two.example.com"}}),
        ),
        POLICIES => (
            policy(name, Approval::SignOff),
            json!({"spec": {"checkGrantedPermission": {"spec": {"limits": {"maxDuration": "1h"}}}}}),
        ),
        REQUESTS => (
            gate.hand_made(name, name),
            json!({"metadata": {"labels": {"seen": "yes"}}}),
        ),
        other => panic!("{other}"),
    }
}

/// Pods that no node takes, so that they cost nothing: each request speaks of a pod of its own.
fn create_pods(gate: &Gate) {
    let pods: Vec<Value> = PEOPLE
        .iter()
        .flat_map(|(who, _)| [format!("by-{who}"), format!("for-{who}")])
        .map(|name| {
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {
                    "nodeSelector": {"e2e.example.com/none": "such"},
                    "containers": [{"name": "main", "image": gate.scene().workload_image()}],
                },
            })
        })
        .collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": pods});
    gate.scene().apply(&list.to_string()).unwrap();
}

fn done(gate: &Gate, who: &str, plural: &str, deed: Deed) -> Result<(), String> {
    let who_flags = as_whom(gate, who);
    let (theirs, existing) = (format!("by-{who}"), format!("for-{who}"));
    let of_kind = format!("{plural}.{GROUP}");
    let run = |words: &str| {
        let answer = gate.scene().run(&format!("{words} {who_flags}"));
        answer.map(drop).map_err(|error| error.to_string())
    };
    match deed {
        Deed::Create => {
            let (object, _) = object(gate, plural, &theirs);
            gate.create(&who_flags, &object).map(drop)
        }
        Deed::Read => {
            run(&format!("get {of_kind} {existing}")).and_then(|()| run(&format!("get {of_kind}")))
        }
        Deed::Update => {
            let (_, change) = object(gate, plural, &existing);
            run(&format!(
                "patch {of_kind} {existing} --type=merge --patch {change}"
            ))
        }
        Deed::Delete => run(&format!("delete {of_kind} {existing} --wait=false")),
    }
}

fn ended(answer: Result<(), String>) -> (End, String) {
    match answer {
        Ok(()) => (End::Done, String::new()),
        Err(why) if why.contains("admission webhook") => (End::Refused, why),
        Err(why) if why.contains("(Forbidden)") => (End::Forbidden, why),
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn people_create_read_update_and_delete_what_their_role_says_through_the_webhook() {
    let gate = people("roles-done");
    create_pods(&gate);
    // Who asks for a pod must be allowed to see it; a guest is a developer where the pod is.
    for words in [
        "create role pods --verb=get --resource=pods".to_owned(),
        format!(
            "create rolebinding pods --role=pods --user=guest-of-{}",
            gate.namespace()
        ),
    ] {
        gate.scene().run(&words).unwrap();
    }
    for (who, plural, ends) in DONE {
        let (existing, _) = object(&gate, plural, &format!("for-{who}"));
        gate.create("", &existing).unwrap();
        for (deed, expected) in DEEDS.into_iter().zip(ends) {
            let (end, why) = ended(done(&gate, who, plural, deed));
            assert_eq!(end, expected, "{who} {deed:?} {plural}: {why}");
            if end == End::Refused {
                let words = format!("you may not update {CONNECTOR}");
                assert!(why.contains(&words), "{who} {deed:?} {plural}: {why}");
            }
        }
    }
}
