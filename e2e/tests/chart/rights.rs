//! The rights after an installation, computed from the rendered chart: least power, and a planted violation
//! of each rule.

use connectors_api::names::{ANSWER_RULE, CREATOR_RULE};
use serde_json::{Value, json};

use crate::{
    pods::services,
    rendered::{defaults, items, name, of_kind, texts, with},
};

const OUR_GROUP: &str = "connectors.alauda.io";

/// The services that hand out rights.
const CONTROLLERS: [&str; 2] = ["policy-controller", "request-controller"];

/// One rule that a service account holds.
#[derive(Debug)]
struct Right<'a> {
    account: String,
    /// The namespace that it is limited to.
    namespace: Option<&'a str>,
    rule: &'a Value,
}

/// Every right that the chart gives; a binding that gives something the chart does not show is an error.
fn rights(objects: &[Value]) -> Result<Vec<Right<'_>>, Vec<String>> {
    let mut rights = Vec::new();
    let mut wrong = Vec::new();
    for binding in objects {
        let namespace = match binding["kind"].as_str() {
            Some("ClusterRoleBinding") => None,
            Some("RoleBinding") => binding["metadata"]["namespace"].as_str(),
            Some(_) | None => continue,
        };
        let rules = rules(objects, &binding["roleRef"], namespace);
        if rules.is_empty() {
            wrong.push(format!(
                "{} binds a role that the chart does not show",
                name(binding)
            ));
        }
        for subject in items(&binding["subjects"]) {
            if is_everybody(subject) {
                let others = rules.iter().filter(|rule| !reads_classes(rule));
                wrong
                    .extend(others.map(|rule| format!("{}: for everybody: {rule}", name(binding))));
                continue;
            }
            if subject["kind"] != "ServiceAccount"
                || subject["namespace"] != e2e::install::NAMESPACE
            {
                wrong.push(format!(
                    "{} is for somebody who is no service of ours: {subject}",
                    name(binding)
                ));
            }
            let account = subject["name"].as_str().unwrap_or_default().to_owned();
            rights.extend(rules.iter().map(|rule| Right {
                account: account.clone(),
                namespace,
                rule,
            }));
        }
    }
    if wrong.is_empty() {
        Ok(rights)
    } else {
        Err(wrong)
    }
}

fn is_everybody(subject: &Value) -> bool {
    subject["kind"] == "Group" && subject["name"] == "system:authenticated"
}

/// All that every account of a cluster gets of the chart.
fn reads_classes(rule: &Value) -> bool {
    *rule
        == json!({"apiGroups": [OUR_GROUP], "resources": ["connectorclasses"], "verbs": ["get", "list", "watch"]})
}

/// The rules of a role, those that are aggregated into it included.
fn rules<'a>(objects: &'a [Value], role: &Value, namespace: Option<&str>) -> Vec<&'a Value> {
    let is_of_namespace = |object: &Value| {
        object["kind"] != "Role" || object["metadata"]["namespace"].as_str() == namespace
    };
    let found = objects.iter().filter(|object| {
        object["kind"] == role["kind"]
            && object["metadata"]["name"] == role["name"]
            && is_of_namespace(object)
    });
    found
        .flat_map(|found| {
            let selectors = items(&found["aggregationRule"]["clusterRoleSelectors"]);
            let aggregated = of_kind(objects, "ClusterRole").into_iter().filter(|other| {
                selectors
                    .iter()
                    .any(|selector| selects(selector, &other["metadata"]["labels"]))
            });
            let aggregated = aggregated.flat_map(|other| items(&other["rules"]));
            items(&found["rules"])
                .iter()
                .chain(aggregated)
                .collect::<Vec<_>>()
        })
        .collect()
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector["matchLabels"].as_object().unwrap();
    !wanted.is_empty() && wanted.iter().all(|(key, value)| labels[key] == *value)
}

/// The faults in the rights that the chart gives.
fn violations(objects: &[Value]) -> Vec<String> {
    match rights(objects) {
        Ok(rights) => rights.iter().filter_map(violation).collect(),
        Err(wrong) => wrong,
    }
}

/// Resources that are as good as the rights of another one.
const TAKE_OVER: [&str; 9] = [
    "pods/exec",
    "pods/attach",
    "pods/portforward",
    "pods/proxy",
    "pods/ephemeralcontainers",
    "nodes/proxy",
    "services/proxy",
    "serviceaccounts/token",
    "certificatesigningrequests/approval",
];

fn violation(right: &Right<'_>) -> Option<String> {
    let rule = right.rule;
    let [groups, resources, verbs, names] =
        ["apiGroups", "resources", "verbs", "resourceNames"].map(|field| texts(&rule[field]));
    let has = |list: &[&str], words: &[&str]| words.iter().any(|word| list.contains(word));
    let writes = || {
        !verbs
            .iter()
            .all(|verb| ["get", "list", "watch"].contains(verb))
    };
    let only =
        |allowed: &[&str]| !names.is_empty() && names.iter().all(|name| allowed.contains(name));
    let what = if groups.is_empty() || !rule["nonResourceURLs"].is_null() {
        "is about something that is no object"
    } else if has(&verbs, &["escalate", "bind", "impersonate"]) {
        "may hand out or borrow what it does not hold"
    } else if groups != [OUR_GROUP]
        && (has(&groups, &["*"]) || has(&resources, &["*"]) || has(&verbs, &["*"]))
    {
        "holds everything outside our own group"
    } else if groups == [OUR_GROUP]
        && has(&verbs, &["*"])
        && !CONTROLLERS.contains(&right.account.as_str())
    {
        "holds everything in our group and hands nothing out"
    } else if has(&resources, &TAKE_OVER) {
        "may take over pods or accounts"
    } else if has(&resources, &["secrets"])
        && !(right.account == "webhook"
            && right.namespace.is_some()
            && only(&["connectors-ca", "webhook-tls", "evaluation-service-tls"]))
    {
        "reaches secrets other than its own"
    } else if has(&groups, &["rbac.authorization.k8s.io"])
        && writes()
        && !(CONTROLLERS.contains(&right.account.as_str())
            && resources == ["roles", "rolebindings"]
            && !has(&verbs, &["update", "deletecollection"])
            // A grant is never changed; a standing permission is applied.
            && (right.account == "policy-controller" || !has(&verbs, &["patch"])))
    {
        "writes RBAC in another way than its permissions are written"
    } else if has(&groups, &["admissionregistration.k8s.io"])
        && !only(&["connectors-approval"])
        && !(CONTROLLERS.contains(&right.account.as_str())
            && verbs == ["get"]
            && only(&[ANSWER_RULE, CREATOR_RULE]))
    {
        "reaches the webhooks of others"
    } else if has(
        &resources,
        &[
            "pods",
            "nodes",
            "namespaces",
            "serviceaccounts",
            "deployments",
            "daemonsets",
        ],
    ) && writes()
    {
        "changes what runs"
    } else {
        return None;
    };
    Some(format!("{}: {what}: {rule}", right.account))
}

#[test]
fn no_service_holds_more_than_it_needs() {
    for objects in [defaults(), with(json!({"checks": {"configMaps": true}}))] {
        assert_eq!(violations(&objects), Vec::<String>::new());
        let accounts: Vec<&str> = of_kind(&objects, "ServiceAccount")
            .into_iter()
            .map(name)
            .collect();
        let rights = rights(&objects).unwrap();
        for account in services() {
            assert!(accounts.contains(&account));
            assert!(
                rights.iter().any(|right| right.account == account),
                "{account} may do nothing"
            );
        }
        assert_eq!(accounts.len(), services().len(), "{accounts:?}");
    }
}

/// The admission policies that limit it are in every installation.
#[test]
fn binding_roles_is_one_right_more_of_one_service() {
    let bind = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["bind"]});
    let chosen = with(json!({"requestController": {"bindRoles": true}}));
    assert_eq!(
        violations(&chosen),
        [format!(
            "request-controller: may hand out or borrow what it does not hold: {bind}"
        )]
    );
    let all = |objects: &[Value]| -> Vec<String> {
        let rights = rights(objects).unwrap();
        let rights = rights.iter();
        rights
            .map(|right| format!("{} {:?} {}", right.account, right.namespace, right.rule))
            .collect()
    };
    let before = all(&defaults());
    let added: Vec<_> = all(&chosen)
        .into_iter()
        .filter(|it| !before.contains(it))
        .collect();
    assert_eq!(added, [format!("request-controller None {bind}")]);
}

/// An admission policy of the same installation limits the patch to the removal of one scheduling gate.
#[test]
fn the_scheduling_gate_is_two_rights_more_of_one_service_and_none_where_it_is_absent() {
    let all = |objects: &[Value]| -> Vec<String> {
        let rights = rights(objects).unwrap();
        let rights = rights.iter();
        rights
            .map(|right| format!("{} {:?} {}", right.account, right.namespace, right.rule))
            .collect()
    };
    let patch = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]});
    let review = json!({
        "apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"],
    });
    let before = all(&defaults());
    for (gate, expected) in [
        ("Absent", vec![]),
        ("Release", vec![&patch]),
        ("Set", vec![&patch, &review]),
    ] {
        let chosen = with(json!({"approval": {"schedulingGate": gate}}));
        let added = all(&chosen).into_iter().filter(|it| !before.contains(it));
        let expected = expected.iter();
        let expected = expected.map(|it| format!("request-controller None {it}"));
        assert_eq!(
            added.collect::<Vec<_>>(),
            expected.collect::<Vec<_>>(),
            "{gate}"
        );
        let policies = of_kind(&chosen, "ValidatingAdmissionPolicy");
        let is_limited = policies.iter().any(|it| name(it).starts_with("pod-gates."));
        assert_eq!(is_limited, gate != "Absent");
        let found = violations(&chosen);
        let may_patch = format!("request-controller: changes what runs: {patch}");
        assert_eq!(found.contains(&may_patch), is_limited, "{found:?}");
    }
}

/// The write rights of each service, which an intruder would have.
#[test]
fn every_service_writes_what_the_design_says_and_nothing_else() {
    let objects = defaults();
    let written = |account: &str| {
        let rights = rights(&objects).unwrap();
        let mut written: Vec<String> = rights
            .iter()
            .filter(|right| right.account == account)
            .flat_map(|right| {
                let verbs = texts(&right.rule["verbs"]).into_iter();
                let verbs: Vec<&str> = verbs
                    .filter(|verb| !["get", "list", "watch"].contains(verb))
                    .collect();
                let resources = texts(&right.rule["resources"]);
                let lines = resources.iter().filter(|_| !verbs.is_empty());
                lines
                    .map(|resource| format!("{resource}: {}", verbs.join(" ")))
                    .collect::<Vec<_>>()
            })
            .collect();
        written.sort();
        written
    };
    assert_eq!(
        written("evaluation-service"),
        ["subjectaccessreviews: create", "tokenreviews: create"]
    );
    assert_eq!(
        written("request-controller"),
        [
            "*: *",
            "events: create patch",
            "leases: create",
            "leases: update",
            "rolebindings: create delete",
            "roles: create delete"
        ]
    );
    assert_eq!(
        written("policy-controller"),
        [
            "*: *",
            "events: create patch",
            "leases: create",
            "leases: update",
            "rolebindings: create patch delete",
            "roles: create patch delete",
            "subjectaccessreviews: create"
        ]
    );
    assert_eq!(
        written("webhook"),
        [
            "configmaps: create patch",
            "evaluations: create",
            "mutatingwebhookconfigurations: patch",
            "secrets: create patch",
            "subjectaccessreviews: create",
            "validatingwebhookconfigurations: patch",
        ]
    );
    assert_eq!(
        written("csi-node"),
        [
            "accessrequests: create",
            "evaluations/mount: create",
            "events: create patch",
            "subjectaccessreviews: create",
            "tokenreviews: create",
        ]
    );
}

/// It knows the names of its requests: an intruder on a node sees no others.
#[test]
fn the_node_plugin_lists_nothing_but_its_configuration() {
    let objects = defaults();
    let rights = rights(&objects).unwrap();
    let listing = rights.iter().filter(|right| {
        let verbs = texts(&right.rule["verbs"]);
        right.account == "csi-node" && (verbs.contains(&"list") || verbs.contains(&"watch"))
    });
    let listing: Vec<&Value> = listing.map(|right| right.rule).collect();
    assert_eq!(listing.len(), 1, "{listing:?}");
    assert_eq!(listing[0]["resources"], json!(["configmaps"]));
    assert_eq!(listing[0]["resourceNames"], json!(["connectors-config"]));
}

#[test]
fn a_planted_violation_of_each_rule_is_found() {
    let rule = |group: &str, resource: &str, verb: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": [verb]});
    let rbac = "rbac.authorization.k8s.io";
    let admission = "admissionregistration.k8s.io";
    let planted = [
        (
            json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}),
            "no object",
        ),
        (rule(rbac, "roles", "escalate"), "hand out or borrow"),
        (rule(rbac, "clusterroles", "bind"), "hand out or borrow"),
        (rule("", "users", "impersonate"), "hand out or borrow"),
        (rule("*", "pods", "get"), "holds everything outside"),
        (rule("apps", "*", "get"), "holds everything outside"),
        (rule("", "pods", "*"), "holds everything outside"),
        (
            json!({"apiGroups": [OUR_GROUP, "apps"], "resources": ["*"], "verbs": ["get"]}),
            "holds everything outside",
        ),
        (rule("", "pods/exec", "create"), "take over"),
        (rule("", "nodes/proxy", "get"), "take over"),
        (rule("", "serviceaccounts/token", "create"), "take over"),
        (rule("", "secrets", "get"), "reaches secrets"),
        (
            json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["webhook-tls"], "verbs": ["get"]}),
            "reaches secrets",
        ),
        (rule(rbac, "rolebindings", "update"), "writes RBAC"),
        (rule(rbac, "clusterroles", "create"), "writes RBAC"),
        (
            rule(admission, "mutatingwebhookconfigurations", "patch"),
            "webhooks of others",
        ),
        (rule("", "pods", "delete"), "changes what runs"),
    ];
    for (planted, expected) in planted {
        assert_found(
            |objects| {
                role(objects, "connectors-request-controller")["rules"]
                    .as_array_mut()
                    .unwrap()
                    .push(planted.clone());
            },
            expected,
        );
    }
    assert_found(
        |objects| role(objects, "connectors-csi-node")["rules"][0]["verbs"] = json!(["*"]),
        "hands nothing out",
    );
    // Through the label of the aggregated role, too.
    assert_found(
        |objects| {
            role(objects, "connectors-check-reader-chart")["rules"][0] =
                rule("", "secrets", "list");
        },
        "reaches secrets",
    );
}

#[test]
fn a_binding_that_shows_nothing_or_reaches_others_is_found() {
    let binding = |objects: &mut Vec<Value>, field: &str, value: Value| {
        let of_a_service = |object: &&mut Value| {
            object["kind"] == "ClusterRoleBinding"
                && object["subjects"][0]["kind"] == "ServiceAccount"
        };
        let found = objects.iter_mut().find(of_a_service).unwrap();
        *found.pointer_mut(field).unwrap() = value;
    };
    assert_found(
        |objects| binding(objects, "/roleRef/name", json!("cluster-admin")),
        "does not show",
    );
    assert_found(
        |objects| binding(objects, "/subjects/0/kind", json!("Group")),
        "no service of ours",
    );
    assert_found(
        |objects| binding(objects, "/subjects/0/namespace", json!("default")),
        "no service of ours",
    );
    for (field, value) in [("verbs", "create"), ("resources", "connectors")] {
        assert_found(
            |objects| {
                role(objects, "connectors-connectorclasses-view")["rules"][0][field] =
                    json!([value]);
            },
            "for everybody",
        );
    }
}

fn role<'a>(objects: &'a mut [Value], role: &str) -> &'a mut Value {
    let mut roles = objects.iter_mut();
    roles
        .find(|object| object["kind"] == "ClusterRole" && object["metadata"]["name"] == role)
        .unwrap()
}

fn assert_found(plant: impl Fn(&mut Vec<Value>), expected: &str) {
    let mut objects = defaults();
    plant(&mut objects);
    let found = violations(&objects);
    assert!(
        found.iter().any(|line| line.contains(expected)),
        "{expected}: {found:?}"
    );
}
