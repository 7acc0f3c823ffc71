//! Policies at admission: the refused ones with their messages, the accepted ones with warnings, and the
//! rules that hold without the webhook.

use std::{collections::BTreeMap, time::Duration};

use e2e::{
    ApiUser, Deadline,
    api::kinds::{ACCESS_POLICY, CONNECTOR},
    poll,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    requests::Table,
    support::{
        Approval, Gate, Installation, policy,
        rights::{self, RightHolder, RightRule},
        wait_until,
    },
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    /// Specs.
    bases: BTreeMap<String, Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Case {
    name: String,
    base: String,
    /// The author; the administrator without one.
    #[serde(default, rename = "as")]
    author: Option<String>,
    /// Fields of the spec, by their paths.
    set: BTreeMap<String, Value>,
    message: String,
    held_by: HeldBy,
    /// The same for the accepted policy.
    neighbour: BTreeMap<String, Value>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum HeldBy {
    Webhook,
    Schema,
}

impl Cases {
    fn read() -> Self {
        serde_yaml::from_str(include_str!("../../cases/webhook/policies.yaml")).unwrap()
    }

    fn spec(&self, case: &Case, set: &BTreeMap<String, Value>) -> Value {
        let mut spec = self.bases[&case.base].clone();
        for (path, value) in set {
            let (parent, field) = path.rsplit_once('/').unwrap();
            spec.pointer_mut(parent).unwrap()[field] = value.clone();
        }
        spec
    }
}

/// A namespace in which `author` may write policies, and change connector `prod` alone.
fn with_author(test: &str, make: fn(&str) -> Gate) -> Gate {
    let gate = make(test);
    gate.create_connector("test");
    let group = "connectors.alauda.io";
    let rules = [
        RightRule {
            group,
            resource: "accesspolicies",
            name: None,
            verbs: &["create", "get", "update"],
        },
        RightRule {
            group,
            resource: "connectors",
            name: Some("prod"),
            verbs: &["update"],
        },
    ];
    let author = author(&gate);
    rights::give(&gate, "author", &rules, RightHolder::User(&author));
    gate
}

fn author(gate: &Gate) -> String {
    format!("author-of-{}", gate.namespace())
}

/// The API server's answer to a policy of this spec, as a dry run.
fn attempt(gate: &Gate, case: &Case, spec: &Value) -> Result<(), String> {
    let object = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": "tried"}, "spec": spec,
    });
    let mut api = gate.api().clone();
    if case.author.is_some() {
        api = api.acting_as(&ApiUser::named(&author(gate)));
    }
    let answer = api.try_create(&object);
    answer.map(drop).map_err(|error| error.to_string())
}

#[test]
fn every_mistake_is_refused_with_its_field_and_its_neighbour_is_let_through() {
    let gate = with_author("policies", Gate::new);
    let cases = Cases::read();
    for case in &cases.cases {
        let answer = attempt(&gate, case, &cases.spec(case, &case.set));
        let refusal = answer.expect_err(&case.name);
        assert!(refusal.contains(&case.message), "{}: {refusal}", case.name);
        let by_webhook = refusal.contains("admission webhook");
        assert_eq!(
            by_webhook,
            case.held_by == HeldBy::Webhook,
            "{}: {refusal}",
            case.name
        );
        let neighbour = attempt(&gate, case, &cases.spec(case, &case.neighbour));
        neighbour.unwrap_or_else(|refusal| panic!("{}: {refusal}", case.name));
    }
    let stored = gate.api().list(ACCESS_POLICY, "").unwrap();
    assert_eq!(stored, Vec::<Value>::new());
}

#[test]
fn all_mistakes_of_a_policy_are_told_at_once() {
    let gate = with_author("policies-all", Gate::new);
    let cases = Cases::read();
    let case = cases.cases.iter().find(|it| it.author.is_some()).unwrap();
    let mut spec = cases.bases["checked"].clone();
    spec["connector"] = json!({});
    let check = &mut spec["checkGrantedPermission"]["spec"]["checks"][0];
    check["selector"]["labels"]["app"] = json!("{.object.metadata");
    check["state"] = json!({"rego": "package approval\noutput := "});
    let tells = |case: &Case, all: [&str; 2]| {
        let refusal = attempt(&gate, case, &spec).unwrap_err();
        for words in all {
            assert!(refusal.contains(words), "{words}: {refusal}");
        }
        refusal
    };
    let all = ["selector.labels", "you may not update every connector"];
    let refusal = tells(case, all);
    // The Rego of an author that may not hand out the policy's permissions is never evaluated.
    assert!(!refusal.contains("state.rego"), "{refusal}");
    let by_admin = cases.cases.iter().find(|it| it.author.is_none()).unwrap();
    tells(by_admin, ["selector.labels", "state.rego"]);
}

#[test]
fn what_is_legal_and_surely_not_meant_is_let_through_with_a_warning() {
    let gate = Gate::new("policies-warned");
    let mut mounts_nothing = policy("mounts-nothing", Approval::SignOff);
    let rule = &mut mounts_nothing["spec"]["checkGrantedPermission"]["spec"]["permissions"]["roleTemplate"]
        ["rules"][0];
    rule["verbs"] = json!(["get"]);
    let mut alias = policy("alias", Approval::SignOff);
    let labels =
        &mut alias["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["selector"]["labels"];
    labels["app"] = json!("{.object.pod.metadata.labels.app}");
    let with = |name: &str, at: &str, value: Value| {
        let mut policy = policy(name, Approval::SignOff);
        policy["spec"]["checkGrantedPermission"][at] = value;
        policy
    };
    let person =
        json!([{"kind": "ServiceAccount", "name": "default"}, {"kind": "User", "name": "ada"}]);
    let of_check = |name: &str, field: &str, value: Value| {
        let mut policy = policy(name, Approval::SignOff);
        policy["spec"]["checkGrantedPermission"]["spec"]["checks"][0][field] = value;
        policy
    };
    let blind = json!({"rego": "package approval\noutput := {\"state\": \"approved\"}"});
    let mut tekton = policy("tekton", Approval::SignOff);
    tekton["spec"]["checkGrantedPermission"]["spec"]["checks"][0]["selector"]["objectRef"] =
        json!({"apiVersion": "tekton.dev/v1", "kind": "PipelineRun"});
    for (policy, words) in [
        (mounts_nothing, "mount"),
        (alias, "{.object.metadata.labels.app}"),
        (
            with("person", "requesters", person),
            "no pod runs as the User ada",
        ),
        (of_check("blind", "state", blind), "never looks at input"),
        (tekton, "provenance: None"),
    ] {
        let warnings = gate.api().try_create(&policy).unwrap();
        assert!(warnings.iter().any(|it| it.contains(words)), "{warnings:?}");
    }
    let plain = policy("plain", Approval::SignOff);
    let warnings = gate.api().try_create(&plain).unwrap();
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn without_the_webhook_only_what_the_custom_resource_holds_is_held() {
    let gate = with_author("policies-alone", Gate::alone_without_mounts);
    let installation = Installation::of(&gate);
    let cases = Cases::read();
    let requests = Table::set(&gate);
    gate.create(&policy("kept", Approval::SignOff)).unwrap();
    {
        let _away = installation.away("webhook");
        let plain = policy("plain", Approval::SignOff);
        let refusal = gate.api().try_create(&plain).unwrap_err().to_string();
        assert!(
            refusal.contains("failed calling webhook \"validate.accesspolicies."),
            "{refusal}"
        );
        let refusal = gate.request_by_hand("mine", "plain");
        let refusal = refusal.unwrap_err().to_string();
        assert!(
            refusal.contains("failed calling webhook \"mutate.accessrequests."),
            "{refusal}"
        );
        // Connectors are other software's, which goes on.
        gate.create_connector("meanwhile");
        // So do changes of a policy's metadata, and objects that wait for a finalizer.
        let label = json!({"metadata": {"labels": {"seen": "yes"}}});
        gate.api().patch(ACCESS_POLICY, "kept", &label).unwrap();
        let change = json!({"spec": {"connector": {"names": ["other"]}}});
        let refusal = gate.api().patch(ACCESS_POLICY, "kept", &change);
        let refusal = refusal.unwrap_err().to_string();
        assert!(refusal.contains("failed calling webhook"), "{refusal}");
    }
    let _gone = installation.without_webhook_configurations();
    // The API server notices the deletion a moment later, and calls the webhook until then.
    let mut by_webhook = cases
        .cases
        .iter()
        .filter(|it| it.held_by == HeldBy::Webhook);
    let first = by_webhook.next().unwrap();
    let let_through = || attempt(&gate, first, &cases.spec(first, &first.set));
    let deadline = Deadline::after(Duration::from_secs(20));
    poll("the webhook to be out of the way", deadline, let_through).unwrap();
    for case in &cases.cases {
        let answer = attempt(&gate, case, &cases.spec(case, &case.set));
        assert_eq!(
            answer.is_err(),
            case.held_by == HeldBy::Schema,
            "{}",
            case.name
        );
    }
    requests.holds_without_the_webhook();
    a_class_selects_a_connector_that_was_never_labelled(&gate);
}

fn a_class_selects_a_connector_that_was_never_labelled(gate: &Gate) {
    let older = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector", "metadata": {"name": "older"},
        "spec": {"connectorClassName": "of-old", "address": "https://example.com"},
    });
    let stored = gate.create(&older).unwrap();
    assert_eq!(stored["metadata"]["labels"], Value::Null);
    let class = json!({"connectors.cpaas.io/connectorclass": "of-old"});
    let by_class = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy", "metadata": {"name": "by-class"},
        "spec": {"connector": {"selector": {"matchLabels": class}}, "defaultPermission": {
            "roleTemplate": {"rules": [{
                "apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"], "verbs": ["*"],
            }]},
            "bindingTemplate": {"subjects": [{"kind": "ServiceAccount", "name": "builder"}]},
        }},
    });
    gate.create(&by_class).unwrap();
    let what = "the connector of the class to be selected";
    gate.scene()
        .wait_for_object(what, ACCESS_POLICY, "by-class", |policy| {
            policy["status"]["matchedConnectors"] == json!([{"name": "older"}])
        });
    let account = ApiUser::service_account(gate.namespace(), "builder");
    let may = |connector: &str| {
        let attributes = json!({
            "namespace": gate.namespace(), "verb": "*", "group": "connectors.alauda.io",
            "resource": "connectors", "subresource": "apis", "name": connector,
        });
        gate.api().allows(&account, &attributes).unwrap()
    };
    wait_until("the account holds it", || may("older"));
    assert!(!may("prod"));
}

#[test]
fn a_connector_is_labelled_with_its_class() {
    let gate = Gate::new("connector-labels");
    let keys = [
        "connectors.cpaas.io/connectorclass",
        "connectors.alauda.io/connectorclass",
    ];
    let classes = || {
        let connector = gate.object(CONNECTOR, "prod");
        keys.map(|key| connector["metadata"]["labels"][key].clone())
    };
    assert_eq!(classes(), ["e2e", "e2e"]);
    let label = json!({"metadata": {"labels": {"connectors.cpaas.io/connectorclass": "other"}}});
    gate.api().patch(CONNECTOR, "prod", &label).unwrap();
    assert_eq!(classes(), ["e2e", "e2e"]);
    let class = json!({"spec": {"connectorClassName": "oci"}});
    gate.api().patch(CONNECTOR, "prod", &class).unwrap();
    assert_eq!(classes(), ["oci", "oci"]);
    let of_no_class = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector", "metadata": {"name": "odd"},
        "spec": {"connectorClassName": "no-such-class", "address": "https://example.com"},
    });
    // A machine that is busy may take longer to look for the class than a writer of connectors waits for a warning.
    let words = "there is no ConnectorClass \"no-such-class\"";
    wait_until("the warning about the class", || {
        let warnings = gate.api().try_create(&of_no_class).unwrap();
        warnings.iter().any(|it| it.contains(words))
    });
    gate.create(&of_no_class).unwrap();
}
