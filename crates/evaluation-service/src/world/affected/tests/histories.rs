//! Random histories of the cluster: after each event, the last answer to each open question is the one that a full check
//! of the same question gives.

use std::collections::BTreeMap;

use connectors_api::{AccessRequest, Permission};
use evaluation_api::access::{AccessAnswer, ConnectorName, PodRef, ServiceAccountName};
use jiff::Timestamp;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const NAMESPACES: [&str; 2] = ["tools", "devops"];
const NAMES: [&str; 2] = ["x", "y"];
const PODS: [&str; 2] = ["deploy", "other"];
/// Roles for one target are few enough that the search for the first binding depends on no other objects.
const BINDINGS: [&str; 2] = ["x", "y"];

/// An object appears or changes, or is gone. The values are those of `metadata` and the rest.
#[derive(Clone, Debug)]
enum Event {
    Role(bool, Value),
    ClusterRole(bool, Value),
    RoleBinding(bool, Value),
    ClusterRoleBinding(bool, Value),
    Request(bool, Value),
}

fn words(words: &'static [&'static str]) -> impl Strategy<Value = Value> {
    select(words).prop_map(Value::from)
}

fn metadata() -> impl Strategy<Value = Value> {
    let ours = json!({
        "app.kubernetes.io/managed-by": "connectors-approval",
        "connectors.alauda.io/accessRequestUid": "uid-deploy",
        "connectors.alauda.io/accessPolicyUid": "policy-uid",
    });
    let labels = prop_oneof![3 => Just(ours), 1 => Just(json!({}))];
    (
        select(&NAMESPACES),
        select(&NAMES),
        labels,
        prop::bool::weighted(0.1),
    )
        .prop_map(|(namespace, name, labels, is_going)| {
            let mut metadata =
                json!({"namespace": namespace, "name": name, "uid": name, "labels": labels});
            if is_going {
                metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            metadata
        })
}

/// One resource of each rule, so that the search stays in one order.
fn rule() -> impl Strategy<Value = Value> {
    let group = words(&["connectors.alauda.io", "connectors.alauda.io", "*", ""]);
    let resource = words(&[
        POD_FORM,
        POD_FORM,
        "connectors/apis/v1/pod/devops/other",
        "*/apis/v1/pod/devops/deploy",
        "connectors/apis",
        "connectors/apis",
        "*/apis",
        "*",
        "connectors",
        "pods",
    ]);
    let many: Value = (0..65)
        .map(|at| format!("c{at}"))
        .chain(["harbor".to_owned()])
        .collect();
    let names = prop_oneof![
        6 => Just(json!(["harbor"])),
        2 => Just(json!(["harbor", "gitlab"])),
        2 => Just(json!(["gitlab"])),
        1 => Just(json!([])),
        1 => Just(json!(["*"])),
        1 => Just(many),
    ];
    let verb = words(&["*", "*", "get"]);
    (group, resource, names, verb).prop_map(|(group, resource, names, verb)| {
        json!({"apiGroups": [group], "resources": [resource], "resourceNames": names, "verbs": [verb]})
    })
}

fn subject() -> impl Strategy<Value = Value> {
    let account = |namespace: &str, name: &str| json!({"kind": "ServiceAccount", "namespace": namespace, "name": name});
    let users = words(&[BUILDER, "system:serviceaccount:tools:builder", "ada"]);
    let groups = words(&[
        "system:serviceaccounts",
        "system:serviceaccounts:devops",
        "system:authenticated",
        "others",
    ]);
    prop_oneof![
        6 => Just(account("devops", "builder")),
        2 => Just(account("tools", "builder")),
        1 => Just(account("devops", "nobody")),
        // The namespace of its binding.
        1 => Just(account("", "builder")),
        2 => users.prop_map(|name| json!({"kind": "User", "name": name})),
        1 => groups.prop_map(|name| json!({"kind": "Group", "name": name})),
    ]
}

fn role_event() -> impl Strategy<Value = (bool, Value)> {
    (prop::bool::weighted(0.75), metadata(), vec(rule(), 0..3)).prop_map(
        |(is_there, metadata, rules)| (is_there, json!({"metadata": metadata, "rules": rules})),
    )
}

fn binding_event() -> impl Strategy<Value = (bool, Value)> {
    let kind = words(&["Role", "Role", "ClusterRole", "Odd"]);
    let binding = (metadata(), kind, select(&BINDINGS), vec(subject(), 0..3));
    (prop::bool::weighted(0.75), binding).prop_map(
        |(is_there, (metadata, kind, role, subjects))| {
            let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role});
            let binding = json!({"metadata": metadata, "roleRef": role, "subjects": subjects});
            (is_there, binding)
        },
    )
}

fn request_event() -> impl Strategy<Value = (bool, Value)> {
    let phase = select(&["Pending", "Granted", "Revoked"][..]);
    (any::<bool>(), select(&PODS), phase).prop_map(|(is_there, pod, phase)| {
        let mut it = serde_json::to_value(request(pod, phase)).unwrap();
        it["spec"]["context"]["objectRef"]["name"] = pod.into();
        it["spec"]["context"]["objectRef"]["uid"] = format!("pod-{pod}").into();
        (is_there, it)
    })
}

fn of_cluster((is_there, mut object): (bool, Value)) -> (bool, Value) {
    object["metadata"]["namespace"] = Value::Null;
    (is_there, object)
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => role_event().prop_map(|(is_there, it)| Event::Role(is_there, it)),
        5 => binding_event().prop_map(|(is_there, it)| Event::RoleBinding(is_there, it)),
        1 => role_event().prop_map(of_cluster).prop_map(|(is_there, it)| Event::ClusterRole(is_there, it)),
        1 => binding_event().prop_map(of_cluster)
            .prop_map(|(is_there, it)| Event::ClusterRoleBinding(is_there, it)),
        2 => request_event().prop_map(|(is_there, it)| Event::Request(is_there, it)),
    ]
}

fn happen<K: Source>(world: &mut World, is_there: bool, object: Value) -> Vec<WorldChange> {
    let mut object: K = serde_json::from_value(object).unwrap();
    if is_there {
        K::apply(world, object)
    } else {
        K::delete(world, object.meta_mut().clone())
    }
}

fn happens(world: &mut World, event: Event) -> Vec<WorldChange> {
    match event {
        Event::Role(is_there, it) => happen::<Role>(world, is_there, it),
        Event::ClusterRole(is_there, it) => happen::<ClusterRole>(world, is_there, it),
        Event::RoleBinding(is_there, it) => happen::<RoleBinding>(world, is_there, it),
        Event::ClusterRoleBinding(is_there, it) => {
            happen::<ClusterRoleBinding>(world, is_there, it)
        }
        Event::Request(is_there, it) => happen::<AccessRequest>(world, is_there, it),
    }
}

/// Every account, connector, pod and verb.
fn all_questions() -> Vec<AccessQuestion> {
    let mut all = Vec::new();
    for account in NAMESPACES {
        for namespace in NAMESPACES {
            for connector in ["harbor", "gitlab"] {
                for pod in [None, Some(PODS[0]), Some(PODS[1])] {
                    for verb in ["*", "get"] {
                        let subject = ServiceAccountName {
                            namespace: account.to_owned(),
                            name: "builder".to_owned(),
                        };
                        all.push(AccessQuestion {
                            subject,
                            connector: ConnectorName {
                                namespace: namespace.to_owned(),
                                name: connector.to_owned(),
                            },
                            permission: Permission::Apis,
                            verb: verb.to_owned(),
                            pod: pod.map(|pod| PodRef {
                                name: pod.to_owned(),
                                uid: format!("pod-{pod}"),
                            }),
                        });
                    }
                }
            }
        }
    }
    all
}

proptest! {
    #[test]
    fn after_each_event_each_answer_is_the_one_of_a_full_check(events in vec(event(), 1..30)) {
        let mut world = World::default();
        let now = Timestamp::UNIX_EPOCH;
        let all = all_questions();
        let mut questions = questions_of(&world.question_keys, all.iter().cloned());
        let mut said = BTreeMap::<u64, AccessAnswer>::new();
        let mut changes = Vec::new();
        for event in events {
            changes.extend(happens(&mut world, event.clone()));
            changes.drain(..).for_each(|change| questions.touch(&change));
            while questions.is_dirty() {
                said.extend(questions.news(64, |asked| {
                    Some(access_decision::answer(&world, asked, now))
                }));
            }
            for (id, asked) in (0..).zip(&all) {
                let full = access_decision::answer(&world, asked, now);
                prop_assert_eq!(&said[&id], &full, "{:?} after {:?}", asked, event);
            }
        }
    }
}
