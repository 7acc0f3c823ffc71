//! The rights of people on connectors, policies and requests by the roles that the chart adds to those of the
//! cluster: reviewed by the API server, and used through the webhook.

use e2e::{
    ApiError, ApiUser,
    api::kinds::{ACCESS_POLICY, ACCESS_REQUEST, CONNECTOR, CONNECTOR_CLASS, ResourceKind},
};
use serde_json::{Value, json};

use crate::support::{
    Approval, CONNECTOR as OWN, Gate, policy,
    rights::{self, RightHolder, RightRule},
    wait_until,
};

const GROUP: &str = "connectors.alauda.io";

/// Developers hold `edit`, namespace administrators `admin`, auditors `view`, in the namespace; guests may ask there,
/// as the developers of a project's namespaces do in the project's own.
const PEOPLE: [(&str, &str); 5] = [
    ("administrator", "admin"),
    ("developer", "edit"),
    ("auditor", "view"),
    ("guest", "connectors-accessrequests-edit"),
    ("author", "connectors-accesspolicies-admin"),
];

const READ: &[&str] = &["get", "list", "watch"];
const ASK: &[&str] = &["get", "list", "watch", "create", "update", "patch"];
const VERBS: &[&str] = &[
    "get", "list", "watch", "create", "update", "patch", "delete",
];

/// The rights of each user; all others are refused.
const MAY: [(&str, ResourceKind, &[&str]); 11] = [
    ("administrator", CONNECTOR, VERBS),
    ("administrator", ACCESS_POLICY, VERBS),
    ("administrator", ACCESS_REQUEST, VERBS),
    ("developer", CONNECTOR, READ),
    ("developer", ACCESS_POLICY, READ),
    ("developer", ACCESS_REQUEST, ASK),
    ("auditor", CONNECTOR, READ),
    ("auditor", ACCESS_POLICY, READ),
    ("auditor", ACCESS_REQUEST, READ),
    ("guest", ACCESS_REQUEST, ASK),
    ("author", ACCESS_POLICY, VERBS),
];

/// A namespace in which each of these people holds a role; the test's own names keep them apart from others.
fn people(test: &str) -> Gate {
    let gate = Gate::new(test);
    for (who, role) in PEOPLE {
        // An administrator holds the role by a group, as most do; the others by their names.
        let name = name_of(&gate, who);
        let holder = match who {
            "administrator" => RightHolder::Group(&name),
            _ => RightHolder::User(&name),
        };
        rights::bind(&gate, who, ("ClusterRole", role), holder);
    }
    // The API server's authorizer sees a binding a moment after it was written.
    for (who, _) in PEOPLE {
        let person = person(&gate, who);
        let sees = |kind| {
            let right = right(gate.namespace(), "get", kind, "");
            gate.api().allows(&person, &right).unwrap()
        };
        wait_until(&format!("the role of the {who}"), || {
            sees(ACCESS_POLICY) || sees(ACCESS_REQUEST)
        });
    }
    gate
}

fn name_of(gate: &Gate, who: &str) -> String {
    format!("{who}-of-{}", gate.namespace())
}

/// One of these people, as the API server knows them.
fn person(gate: &Gate, who: &str) -> ApiUser {
    let name = name_of(gate, who);
    match who {
        "administrator" => ApiUser::named("somebody").in_group(&name),
        _ => ApiUser::named(&name),
    }
}

/// A right as a review asks about it; without a subresource it is about the object itself.
fn right(namespace: &str, verb: &str, kind: ResourceKind, subresource: &str) -> Value {
    json!({
        "namespace": namespace, "verb": verb, "group": GROUP, "resource": kind.plural(),
        "subresource": subresource,
    })
}

#[test]
fn people_may_do_what_their_role_says_and_nobody_writes_a_status() {
    let gate = people("roles");
    let own = gate.namespace();
    let mut rights = Vec::new();
    for (who, _) in PEOPLE {
        for kind in [CONNECTOR, ACCESS_POLICY, ACCESS_REQUEST] {
            let given = MAY.iter().find(|(it, of, _)| *it == who && *of == kind);
            let given = given.map_or(&[] as &[_], |(.., verbs)| verbs);
            for verb in VERBS {
                let right = right(own, verb, kind, "");
                rights.push((who, right, given.contains(verb)));
            }
            for verb in ["update", "patch"] {
                rights.push((who, right(own, verb, kind, "status"), false));
            }
            rights.push((who, right("default", "get", kind, ""), false));
        }
        for verb in VERBS {
            let right = right(own, verb, CONNECTOR_CLASS, "");
            rights.push((who, right, READ.contains(verb)));
        }
    }
    let people = PEOPLE.map(|(who, _)| (who, person(&gate, who)));
    let person = |who| &people.iter().find(|(it, _)| *it == who).unwrap().1;
    let questions = rights.iter().map(|(who, right, _)| (person(*who), right));
    let answers = gate.api().allows_each(questions).unwrap();
    for ((who, right, expected), answer) in rights.iter().zip(answers) {
        assert_eq!(answer, *expected, "{who} {right}");
    }
}

/// A write or read of an object by a user.
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

/// The source document's table: users that create, update, read and delete connectors may do the same with
/// policies, and no other users may. In the order of [`DEEDS`].
const DONE: [(&str, ResourceKind, [End; 4]); 15] = [
    ("administrator", CONNECTOR, [Done, Done, Done, Done]),
    ("administrator", ACCESS_POLICY, [Done, Done, Done, Done]),
    ("administrator", ACCESS_REQUEST, [Done, Done, Done, Done]),
    (
        "developer",
        CONNECTOR,
        [Forbidden, Done, Forbidden, Forbidden],
    ),
    (
        "developer",
        ACCESS_POLICY,
        [Forbidden, Done, Forbidden, Forbidden],
    ),
    ("developer", ACCESS_REQUEST, [Done, Done, Done, Forbidden]),
    (
        "auditor",
        CONNECTOR,
        [Forbidden, Done, Forbidden, Forbidden],
    ),
    (
        "auditor",
        ACCESS_POLICY,
        [Forbidden, Done, Forbidden, Forbidden],
    ),
    (
        "auditor",
        ACCESS_REQUEST,
        [Forbidden, Done, Forbidden, Forbidden],
    ),
    ("guest", CONNECTOR, [Forbidden; 4]),
    ("guest", ACCESS_POLICY, [Forbidden; 4]),
    ("guest", ACCESS_REQUEST, [Done, Done, Done, Forbidden]),
    ("author", CONNECTOR, [Forbidden; 4]),
    ("author", ACCESS_POLICY, [Refused, Done, Refused, Done]),
    ("author", ACCESS_REQUEST, [Forbidden; 4]),
];

/// An object of the kind, and a change of it that the webhook judges where it judges any.
fn object(gate: &Gate, kind: ResourceKind, name: &str) -> (Value, Value) {
    match kind {
        CONNECTOR => (
            json!({
                "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "Connector", "metadata": {"name": name},
                "spec": {"connectorClassName": "e2e", "address": "https://one.example.com"},
            }),
            json!({"spec": {"address": "https://two.example.com"}}),
        ),
        ACCESS_POLICY => (
            policy(name, Approval::SignOff),
            json!({"spec": {"checkGrantedPermission": {"spec": {"limits": {"maxDuration": "1h"}}}}}),
        ),
        ACCESS_REQUEST => (
            gate.hand_made(name, name),
            json!({"metadata": {"labels": {"seen": "yes"}}}),
        ),
        other => panic!("people do nothing with a {other}"),
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
    gate.api().apply_all(&pods).unwrap();
}

fn done(gate: &Gate, who: &str, kind: ResourceKind, deed: Deed) -> Result<(), ApiError> {
    let person = gate.api().acting_as(&person(gate, who));
    let (theirs, existing) = (format!("by-{who}"), format!("for-{who}"));
    match deed {
        Deed::Create => {
            let (object, _) = object(gate, kind, &theirs);
            person.create(&object).map(drop)
        }
        Deed::Read => {
            person.get(kind, &existing)?.expect("the object is there");
            person.list(kind, "").map(drop)
        }
        Deed::Update => {
            let (_, change) = object(gate, kind, &existing);
            person.patch(kind, &existing, &change).map(drop)
        }
        Deed::Delete => person.delete(kind, &existing),
    }
}

fn ended(answer: Result<(), ApiError>) -> (End, String) {
    match answer.map_err(|error| error.to_string()) {
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
    // A user that makes a request for a pod must be allowed to see it; a guest is a developer where the pod
    // is.
    let pods = RightRule {
        group: "",
        resource: "pods",
        name: None,
        verbs: &["get"],
    };
    let guest = name_of(&gate, "guest");
    rights::give(&gate, "pods", &[pods], RightHolder::User(&guest));
    for (who, kind, ends) in DONE {
        let (existing, _) = object(&gate, kind, &format!("for-{who}"));
        gate.create(&existing).unwrap();
        for (deed, expected) in DEEDS.into_iter().zip(ends) {
            let (end, why) = ended(done(&gate, who, kind, deed));
            assert_eq!(end, expected, "{who} {deed:?} {kind}: {why}");
            if end == End::Refused {
                let words = format!("you may not update {OWN}");
                assert!(why.contains(&words), "{who} {deed:?} {kind}: {why}");
            }
        }
    }
}
