//! `doctor --fix-plan`: its objects mend, and where none can, a command is named.

use std::collections::BTreeSet;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kubectl_connectors::doctor::DoctorWord;
use serde::Deserialize as _;
use serde_json::{Value, json};
use testkit::Caller;

use super::{DOCTOR, LABELS, SYSTEM, config, in_order, long_ago, troubles};
use crate::cluster::Cluster;

/// The words of which a finding may be mended by an object. The gate's test of the plugin has `PolicyNotInForce`, because
/// the policy-controller looks at the policy again.
const MENDED_BY_OBJECTS: [DoctorWord; 5] = [
    DoctorWord::ConnectorUnlabelled,
    DoctorWord::DriverWrong,
    DoctorWord::NetworkOpen,
    DoctorWord::RequestersOpen,
    DoctorWord::RightsTooWide,
];

impl Cluster {
    /// The plan, and the objects in it.
    async fn planned(&self) -> (Value, Vec<Value>) {
        let args: Vec<_> = DOCTOR.into_iter().chain(["--fix-plan"]).collect();
        let plan = self.json(&args).await;
        let text = self.run(&args).await.output;
        let documents = serde_yaml::Deserializer::from_str(&text);
        let documents = documents.map(|it| Value::deserialize(it).unwrap());
        (plan, documents.filter(|it| !it.is_null()).collect())
    }

    /// What `kubectl apply --server-side --force-conflicts` does.
    async fn apply(&self, object: &Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let version = text("/apiVersion").unwrap();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = GroupVersionKind::gvk(group, version, text("/kind").unwrap());
        let mut resource = ApiResource::from_gvk(&kind);
        resource.plural = resource.plural.replace("policys", "policies");
        let client = self.server.client(&Caller::admin());
        let api: Api<DynamicObject> = match text("/metadata/namespace") {
            Some(namespace) => Api::namespaced_with(client, namespace, &resource),
            None => Api::all_with(client, &resource),
        };
        let params = PatchParams::apply("kubectl").force();
        let name = text("/metadata/name").unwrap();
        let applied = api.patch(name, &params, &Patch::Apply(object)).await;
        applied.unwrap_or_else(|error| panic!("{object:#}: {error}"));
    }
}

/// The words and objects of the findings of a plan, with an object that mends them or without.
fn found(plan: &Value, by_object: bool) -> BTreeSet<(String, String)> {
    let steps = plan["steps"].as_array().unwrap().iter();
    let findings = steps.map(|it| &it["finding"]);
    let wanted = findings.filter(|it| it["manifest"].is_object() == by_object);
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    wanted
        .map(|it| (text(&it["word"]), text(&it["object"])))
        .collect()
}

#[tokio::test]
async fn every_finding_has_an_object_that_mends_it_or_names_a_command() {
    let mut mended = BTreeSet::new();
    for trouble in troubles() {
        let cluster = in_order();
        (trouble.plant)(&cluster);
        let (plan, objects) = cluster.planned().await;
        for step in plan["steps"].as_array().unwrap() {
            let finding = &step["finding"];
            assert!(finding["command"].is_string(), "{finding}");
            let remedy = if finding["manifest"].is_object() {
                step["remedy"] == "Apply"
            } else {
                step["remedy"] != "Apply"
            };
            assert!(remedy, "{step}");
        }
        let by_objects = found(&plan, true);
        assert_eq!(objects.is_empty(), by_objects.is_empty(), "{plan}");
        for object in &objects {
            cluster.apply(object).await;
        }
        let (after, _) = cluster.planned().await;
        let left = &found(&after, true) | &found(&after, false);
        assert!(left.is_disjoint(&by_objects), "{objects:#?}: {after:#}");
        assert!(left.is_subset(&found(&plan, false)), "{after:#}");
        mended.extend(by_objects.into_iter().map(|(word, _)| word));
    }
    let expected = MENDED_BY_OBJECTS.map(|it| it.as_str().to_owned());
    assert_eq!(mended, expected.into());
}

/// A role, its binding in `payments`, and who is bound.
fn bound(cluster: &Cluster, rules: &Value, subjects: &Value) {
    let rbac = "rbac.authorization.k8s.io";
    cluster.put(json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": {"name": "tools", "namespace": "payments"},
        "rules": rules,
    }));
    cluster.put(json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding",
        "metadata": {"name": "tools", "namespace": "payments"},
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "tools"}, "subjects": subjects,
    }));
}

fn account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "namespace": "ci", "name": name})
}

fn use_of(resources: &[&str]) -> Value {
    json!({"apiGroups": ["connectors.alauda.io"], "resources": resources, "verbs": ["*"]})
}

/// An object takes the use of every connector from those who should not have it, and nothing else from anybody.
#[tokio::test]
async fn rights_that_are_too_wide_are_taken_alone_or_left_to_a_person() {
    let users = json!({"kind": "Group", "name": "owners", "apiGroup": "rbac.authorization.k8s.io"});
    let pods = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
    let connectors = json!({
        "apiGroups": ["connectors.alauda.io"], "resources": ["connectors", "connectors/apis"], "verbs": ["*"],
    });
    let only_names = json!({
        "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/proxy"], "verbs": ["*"],
        "resourceNames": ["prod-harbor"],
    });
    let everything = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let use_alone = use_of(&["connectors/apis", "connectors/proxy"]);
    let (deployer, builder) = (account("deployer"), account("builder"));
    let role = |rules: Value| Some(("Role", "rules", rules));
    let binding = |subjects: Value| Some(("RoleBinding", "subjects", subjects));
    for (rules, subjects, expected) in [
        // The role gives nothing else: the outsiders leave the binding, owners stay.
        (
            json!([use_alone]),
            json!([deployer, users, builder]),
            binding(json!([users])),
        ),
        (json!([use_alone]), json!([deployer]), binding(json!([]))),
        // The role gives more, and to these alone: it loses the right.
        (
            json!([pods, connectors, only_names, use_alone]),
            json!([deployer, builder]),
            role(json!([
                pods,
                {"apiGroups": ["connectors.alauda.io"], "resources": ["connectors"], "verbs": ["*"]},
                only_names,
            ])),
        ),
        // Owners have the role too.
        (json!([pods, use_alone]), json!([deployer, users]), None),
        // The right has no words of its own.
        (json!([everything]), json!([deployer]), None),
    ] {
        let cluster = in_order();
        bound(&cluster, &rules, &subjects);
        let (plan, objects) = cluster.planned().await;
        let objects: BTreeSet<String> = objects.iter().map(Value::to_string).collect();
        let objects: Vec<Value> = objects
            .iter()
            .map(|it| serde_json::from_str(it).unwrap())
            .collect();
        let is_told = found(&plan, true).len() + found(&plan, false).len() > 0;
        assert!(is_told, "{plan}");
        let Some((kind, field, value)) = expected else {
            assert_eq!(objects, Vec::<Value>::new());
            continue;
        };
        let [object] = &objects[..] else {
            panic!("{objects:#?}");
        };
        assert_eq!(
            (&object["kind"], &object["metadata"]["name"]),
            (&kind.into(), &"tools".into())
        );
        assert_eq!(object[field], value, "{object:#}");
        cluster.apply(object).await;
        let (after, _) = cluster.planned().await;
        let steps = after["steps"].as_array().unwrap();
        assert!(
            steps.iter().all(|it| it["finding"]["severity"] == "Hint"),
            "{after:#}"
        );
    }
}

/// Another binding gives the same role to others.
#[tokio::test]
async fn a_role_that_others_are_bound_to_is_left_as_it_is() {
    let cluster = in_order();
    let rules = json!([use_of(&["connectors", "connectors/apis"])]);
    bound(&cluster, &rules, &json!([account("deployer")]));
    cluster.put(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "owners", "namespace": "payments"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tools"},
        "subjects": [{"kind": "Group", "name": "owners"}],
    }));
    let (_, objects) = cluster.planned().await;
    assert_eq!(objects, Vec::<Value>::new());
}

/// A `NetworkPolicy` of another name guards as well as the chart's.
#[tokio::test]
async fn a_network_policy_of_any_name_guards_the_pods_that_it_selects() {
    let cluster = in_order();
    for name in ["webhook", "evaluation-service"] {
        cluster.server.delete("networkpolicies", SYSTEM, name);
    }
    cluster.put(json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "of-the-operators", "namespace": SYSTEM}, "spec": {"podSelector": {}},
    }));
    assert_eq!(cluster.run(&DOCTOR).await.output, "nothing to mend\n");
}

/// The values of other keys stay.
#[tokio::test]
async fn an_object_changes_the_field_that_it_mends_alone() {
    let cluster = in_order();
    config(&cluster, "default-requesters", "Any");
    config(&cluster, "on-enable", "Empty");
    let (_, objects) = cluster.planned().await;
    let [object] = &objects[..] else {
        panic!("{objects:#?}");
    };
    cluster.apply(object).await;
    let kept = cluster
        .server
        .get("configmaps", SYSTEM, "connectors-config")
        .unwrap();
    let expected = json!({
        "enable-connectors-approval": "true", "on-enable": "Empty", "default-requesters": "Namespace",
    });
    assert_eq!(kept["data"], expected);
}

/// The plan is a YAML stream: its objects mend, and everything else is a comment.
#[tokio::test]
async fn a_fix_plan_has_the_objects_and_commands_that_mend() {
    let cluster = in_order();
    for label in LABELS {
        cluster
            .server
            .change("connectors", "payments", "prod-harbor", |it| {
                it["metadata"]["labels"]
                    .as_object_mut()
                    .unwrap()
                    .remove(label);
            });
    }
    long_ago(&cluster, |it| {
        it.bind(
            "build-9",
            "build-9",
            "uid-of-no-request",
            "uid-approved-changes",
        );
    });
    let args = ["doctor", "-n", "payments", "--fix-plan"];
    let outcome = cluster.run(&args).await;
    assert_eq!(outcome.exit.code(), 1, "{outcome:?}");
    let documents = serde_yaml::Deserializer::from_str(&outcome.output);
    let documents = documents.map(|it| Value::deserialize(it).unwrap());
    let objects: Vec<_> = documents.filter(|it| !it.is_null()).collect();
    let labels: serde_json::Map<String, Value> = LABELS
        .iter()
        .map(|it| ((*it).to_owned(), "oci".into()))
        .collect();
    assert_eq!(
        objects,
        [json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector",
            "metadata": {"namespace": "payments", "name": "prod-harbor", "labels": labels},
        })],
        "{}",
        outcome.output
    );
    let command = "# $ kubectl -n payments delete rolebinding car-build-9";
    assert!(outcome.output.contains(command), "{}", outcome.output);
    let in_json = cluster.json(&args).await;
    assert_eq!(in_json["kind"], "FixPlan");
    let remedies: Vec<_> = in_json["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["remedy"])
        .collect();
    assert_eq!(remedies, ["Run", "Apply"]);
    let mended = in_order().run(&args).await;
    assert_eq!(mended.output, "# nothing to mend\n");
}
