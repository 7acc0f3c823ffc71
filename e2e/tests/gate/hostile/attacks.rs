//! The attacks of a tenant that has all rights in one namespace, and of a client that can reach the webhook.
//!
//! Each is paced: they show the costs of an attack for others in our services, not the capacity of one API
//! server.

use std::time::Duration;

use e2e::{
    api::kinds::{
        ACCESS_REQUEST, CONFIG_MAP, CONNECTOR, POD, ResourceKind, SERVICE_ACCOUNT, SIGN_OFF,
    },
    install::NAMESPACE,
};
use serde_json::{Value, json};

use crate::support::{Approval, Gate, check_of, policy};

/// One way to be a nuisance, repeated until the test is over.
pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) pace: Duration,
    /// One round. A refusal is reported, and may be correct.
    pub(super) strike: fn(&Gate, usize) -> Result<(), String>,
}

const fn attack(
    name: &'static str,
    milliseconds: u64,
    strike: fn(&Gate, usize) -> Result<(), String>,
) -> Attack {
    let pace = Duration::from_millis(milliseconds);
    Attack { name, pace, strike }
}

/// Pods with as many requests as one may have.
const LARGE_PODS: usize = 4;
const REQUESTS: usize = 16;
/// More than count for one connector.
const POLICIES: usize = 70;
/// With those above, not more than a namespace may have.
const LONG_POLICIES: usize = 150;
/// Together more than is kept of a namespace.
const LARGE_OBJECTS: usize = 60;
/// Beside one pod, more than evidence may name.
const MANY_OBJECTS: usize = 600;
const KIB: usize = 1024;

pub(super) const ATTACKS: [Attack; 19] = [
    attack("policies with the longest templates", 4_000, |gate, _| {
        let mut long = policy("long-templates", Approval::SignOff);
        let path = format!("{{.object{}}}", ".a".repeat(490));
        let labels = (0..16).map(|number| (format!("l{number}"), path.clone().into()));
        check_of(&mut long)["selector"]["labels"] = Value::Object(labels.collect());
        apply(gate, &long)
    }),
    attack(
        "policies with as many steps as they may have",
        1_000,
        |gate, round| {
            let mut changed = dear_policy(round % POLICIES);
            check_of(&mut changed)["name"] = format!("n{round}").into();
            apply(gate, &changed)
        },
    ),
    attack("large pods that change", 1_000, |gate, round| {
        let name = format!("large-{}", round % LARGE_PODS);
        let changed = json!({"metadata": {"annotations": {"round": round.to_string()}}});
        patch(gate, POD, &name, &changed)
    }),
    attack(
        "more requests than one pod may have",
        1_000,
        |gate, round| {
            let mut request = gate.hand_made(&format!("more-{round}"), "large-0");
            request["spec"]["connectorRef"]["name"] = format!("c{}", round % REQUESTS).into();
            request["spec"]["permission"] = "proxy".into();
            create(gate, &request)
        },
    ),
    attack("requests that come and go", 1_000, |gate, round| {
        let name = format!("large-1-{}", round % REQUESTS);
        let deleted = gate.api().delete(ACCESS_REQUEST, &name);
        deleted.map_err(|it| it.to_string())?;
        create(gate, &request_of(gate, "large-1", round % REQUESTS))
    }),
    attack("large check objects that change", 1_000, |gate, round| {
        let name = format!("padding-{}", round % LARGE_OBJECTS);
        let changed = json!({"metadata": {"annotations": {"round": round.to_string()}}});
        patch(gate, CONFIG_MAP, &name, &changed)
    }),
    attack("states that change", 400, |gate, round| {
        let name = format!("large-{}", round % LARGE_PODS);
        let state = if round.is_multiple_of(2) {
            "waiting"
        } else {
            "pending"
        };
        state_of(gate, &name, state)
    }),
    attack("approvals that come and go", 600, |gate, round| {
        let state = if round.is_multiple_of(2) {
            "approved"
        } else {
            "pending"
        };
        state_of(gate, "flapping", state)
    }),
    attack("modules that run to their limit", 2_000, |gate, round| {
        let mut slow = policy("slow", Approval::ConfigMap);
        slow["spec"]["connector"] = json!({});
        check_of(&mut slow)["name"] = format!("n{round}").into();
        check_of(&mut slow)["state"]["rego"] = ENDLESS.into();
        apply(gate, &slow)
    }),
    attack("selectors of everybody", 4_000, |gate, _| {
        apply(
            gate,
            &selecting(
                "everybody",
                &[json!({
                    "kind": "ServiceAccount",
                    "nameSelector": {"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]},
                    "namespaceSelector": {"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]},
                })],
            ),
        )
    }),
    attack("a thousand selectors", 4_000, |gate, _| {
        let subject = |number| {
            json!({
                "kind": "ServiceAccount",
                "nameSelector": {"matchLabels": {"team": format!("t{number}")}},
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": format!("n{number}")}},
            })
        };
        apply(
            gate,
            &selecting("thousand", &(0..1_000).map(subject).collect::<Vec<_>>()),
        )
    }),
    attack("policies as long as they may be", 500, |gate, round| {
        apply(gate, &longest_policy(round % LONG_POLICIES))
    }),
    attack("service accounts with long labels", 300, |gate, round| {
        // Some have more than is read.
        let bytes = if round.is_multiple_of(10) { 40 } else { 7 } * KIB;
        let labels = (0..bytes / 63).map(|number| (format!("l{number}"), "x".repeat(57).into()));
        let name = format!("labelled-{}", round % LONG_POLICIES);
        apply(
            gate,
            &json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": name, "labels": Value::Object(labels.collect())},
            }),
        )
    }),
    attack("service accounts that come and go", 600, |gate, round| {
        let name = format!("account-{}", round % 10);
        if round % 20 >= 10 {
            let deleted = gate.api().delete(SERVICE_ACCOUNT, &name);
            return deleted.map_err(|it| it.to_string());
        }
        create(
            gate,
            &json!({
                "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "labels": {"team": "t1"}},
            }),
        )
    }),
    attack("bindings that change", 600, |gate, round| {
        let subjects: Vec<_> = (0..200)
            .map(|number| json!({"kind": "User", "apiGroup": RBAC, "name": format!("user-{round}-{number}")}))
            .collect();
        apply(
            gate,
            &json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": {"name": "crowd"},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}, "subjects": subjects,
            }),
        )
    }),
    attack("connectors that change", 600, |gate, round| {
        patch(
            gate,
            CONNECTOR,
            &format!("c{}", round % REQUESTS),
            &json!({
                "spec": {"address": format!("https://{round}.example.com")},
            }),
        )
    }),
    attack("nested objects", 1_000, |gate, round| {
        let nested = format!("{}{}", "[".repeat(4 * KIB), "]".repeat(4 * KIB));
        apply(
            gate,
            &json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "nested", "labels": {"app": "large-0"}},
                "data": {"verdict": nested, "round": round.to_string()},
            }),
        )
    }),
    attack("reviews with half a million groups", 10_000, |gate, _| {
        let groups = vec![""; 500_000];
        review(
            gate,
            "accessrequests",
            &groups,
            &gate.hand_made("posted", "large-0"),
        )
    }),
    attack(
        "reviews of somebody who says he is an administrator",
        4_000,
        |gate, round| {
            let mut slow = policy(&format!("posted-{round}"), Approval::ConfigMap);
            slow["metadata"]["namespace"] = gate.namespace().into();
            check_of(&mut slow)["state"]["rego"] = ENDLESS.into();
            review(gate, "accesspolicies", &["system:masters"], &slow)
        },
    ),
];

const RBAC: &str = "rbac.authorization.k8s.io";

/// Rego that counts until it is stopped.
const ENDLESS: &str = "package approval\n\
    output := {\"state\": \"approved\"} if \
    count([1 | some a in numbers.range(1, 2000); some b in numbers.range(1, 2000); a * b < 0]) == 1\n";

/// A pod that is not scheduled.
pub(super) fn create_pod(gate: &Gate, name: &str, annotation: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}, "annotations": {"padding": annotation}},
        "spec": {
            "schedulingGates": [{"name": "e2e.example.com/never"}],
            "containers": [{"name": "main", "image": "none.example.com/none"}],
        },
    });
    gate.create(&pod).unwrap();
}

/// More policies than count, large pods with as many requests as they may have, and more objects than are kept.
pub(super) fn prepare(gate: &Gate) {
    for number in 0..REQUESTS {
        gate.create_connector(&format!("c{number}"));
    }
    let padding = "x".repeat(200 * KIB);
    let object = |number| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("padding-{number}"), "labels": {"app": "large-0"}},
            "data": {"verdict": padding},
        })
    };
    let sign_off = |number| {
        json!({
            "apiVersion": "e2e.example.com/v1", "kind": "SignOff",
            "metadata": {"name": format!("many-{number}"), "labels": {"app": "large-3"}},
        })
    };
    // The oldest policies count: these have to.
    gate.create_policy("flapping", Approval::SignOff);
    let mut of_objects = policy("objects", Approval::ConfigMap);
    of_objects["spec"]["connector"] = json!({});
    gate.scene().apply(&of_objects).unwrap();
    let mut objects: Vec<_> = (0..POLICIES).map(dear_policy).collect();
    objects.extend((0..LARGE_OBJECTS).map(object));
    objects.extend((0..MANY_OBJECTS).map(sign_off));
    gate.api().apply_all(&objects).unwrap();
    for pod in 0..LARGE_PODS {
        let name = format!("large-{pod}");
        create_pod(gate, &name, &padding);
        gate.set_approval(&name, &name, Approval::SignOff, "pending");
        for number in 0..REQUESTS {
            gate.create(&request_of(gate, &name, number)).unwrap();
        }
    }
    create_pod(gate, "flapping", "");
    gate.set_approval("flapping", "flapping", Approval::SignOff, "pending");
    gate.request_by_hand("flapping", "flapping").unwrap();
}

fn request_of(gate: &Gate, pod: &str, number: usize) -> Value {
    let mut request = gate.hand_made(&format!("{pod}-{number}"), pod);
    request["spec"]["connectorRef"]["name"] = format!("c{number}").into();
    request
}

/// A policy for all connectors whose templates have nearly as many steps as a policy may have.
fn dear_policy(number: usize) -> Value {
    let mut policy = policy(&format!("dear-{number}"), Approval::SignOff);
    policy["spec"]["connector"] = json!({});
    let long = format!("{{.object.metadata{}}}", ".a".repeat(28));
    let check = check_of(&mut policy).clone();
    let checks = (0..15).map(|number| {
        let mut check = check.clone();
        check["name"] = format!("c{number}").into();
        if number > 0 {
            check["selector"]["labels"]["run"] = long.clone().into();
        }
        check
    });
    policy["spec"]["checkGrantedPermission"]["spec"]["checks"] = checks.collect();
    policy
}

/// A policy with nearly as many bytes as one may have, in as many requesters.
fn longest_policy(number: usize) -> Value {
    let mut policy = policy(&format!("long-{number}"), Approval::SignOff);
    policy["spec"]["connector"] = json!({});
    let padding = "x".repeat(60);
    let requester = |number| {
        json!({
            "kind": "ServiceAccount", "name": format!("{padding}-{number}"), "namespace": format!("n{number}"),
        })
    };
    policy["spec"]["checkGrantedPermission"]["requesters"] = (0..500).map(requester).collect();
    policy
}

/// A policy that gives these subjects a standing permission.
fn selecting(name: &str, subjects: &[Value]) -> Value {
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy", "metadata": {"name": name},
        "spec": {"connector": {}, "defaultPermission": {
            "roleTemplate": {"rules": [{
                "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"], "verbs": ["*"],
            }]},
            "bindingTemplate": {"subjects": subjects},
        }},
    })
}

/// Sends a review to the webhook like any client that reaches its port, with the given user.
fn review(gate: &Gate, page: &str, groups: &[&str], object: &Value) -> Result<(), String> {
    let kind = ResourceKind::of(object).map_err(|it| it.to_string())?;
    let mut object = object.clone();
    object["metadata"]["namespace"] = gate.namespace().into();
    let path =
        format!("/api/v1/namespaces/{NAMESPACE}/services/https:webhook:443/proxy/validate/{page}");
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "posted", "operation": "CREATE", "namespace": gate.namespace(), "name": object["metadata"]["name"],
            "kind": {"group": "connectors.alauda.io", "version": "v1alpha1", "kind": kind.to_string()},
            "resource": {"group": "connectors.alauda.io", "version": "v1alpha1", "resource": kind.plural()},
            "userInfo": {"username": "somebody", "groups": groups},
            "object": object,
        },
    });
    let answer = gate
        .api()
        .post(&path, &review)
        .map_err(|it| it.to_string())?;
    match answer["response"]["allowed"].as_bool() {
        Some(true) => Ok(()),
        _ => Err(answer["response"].to_string()),
    }
}

fn create(gate: &Gate, object: &Value) -> Result<(), String> {
    gate.create(object).map(drop).map_err(|it| it.to_string())
}

fn apply(gate: &Gate, object: &Value) -> Result<(), String> {
    gate.api()
        .apply_over(object)
        .map(drop)
        .map_err(|it| it.to_string())
}

fn patch(gate: &Gate, kind: ResourceKind, name: &str, fields: &Value) -> Result<(), String> {
    gate.api()
        .patch(kind, name, fields)
        .map(drop)
        .map_err(|it| it.to_string())
}

fn state_of(gate: &Gate, name: &str, state: &str) -> Result<(), String> {
    let status = json!({"state": state});
    let patched = gate.api().patch_status(SIGN_OFF, name, &status);
    patched.map(drop).map_err(|it| it.to_string())
}
