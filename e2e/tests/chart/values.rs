//! Values: undocumented ones are refused, and given ones take effect.

use connectors_api::{NamespaceKeys, config::OnEnable, shared_fields::SharedFields};
use serde_json::{Value, json};

use crate::rendered::{KUBERNETES, defaults, name, of_kind, texts, with};

#[test]
fn what_makes_no_sense_is_refused_with_its_path() {
    refuse(&[
        (
            json!({"image": {"registry": "r"}, "surprise": 1}),
            "'surprise' not allowed",
        ),
        (json!({"image": {"registry": "r", "name": "x"}}), "/image"),
        (
            json!({"image": {"digests": {"webhook": "sha256:1"}}}),
            "/image/digests/webhook",
        ),
        (
            json!({"image": {"registry": "r", "digests": {"webhook": format!("sha256:{}", "0".repeat(64))}}}),
            "image.digests: say those of csi-node, evaluation-service, policy-controller, request-controller too",
        ),
        (json!({}), "image.registry: say where the images are"),
        (
            json!({"checks": {"secrets": true}}),
            "'secrets' not allowed",
        ),
        (json!({"approval": {"enabled": "yes"}}), "/approval/enabled"),
        (
            json!({"approval": {"defaultRequesters": "any"}}),
            "/approval/defaultRequesters",
        ),
        (
            json!({"checks": {"sharedFields": [{"apiVersion": "v1", "kind": "A", "fields": ["a..b"]}]}}),
            "/checks/sharedFields/0/fields/0",
        ),
        (
            json!({"policies": {"namespaceSelectorKeys": ["a b"]}}),
            "/policies/namespaceSelectorKeys/0",
        ),
        (
            json!({"approval": {"onEnable": "keep"}}),
            "/approval/onEnable",
        ),
        (
            json!({"approval": {"schedulingGate": true}}),
            "/approval/schedulingGate",
        ),
        (json!({"kubeletDir": "var/lib/kubelet"}), "/kubeletDir"),
        (json!({"kubeletDir": "/var/lib/kubelet/"}), "/kubeletDir"),
        (json!({"webhook": {"replicas": 0}}), "/webhook/replicas"),
        (
            json!({"metrics": {"discovery": "podMonitor"}}),
            "/metrics/discovery",
        ),
        (
            json!({"metrics": {"interval": "often"}}),
            "/metrics/interval",
        ),
        (
            json!({"metrics": {"alerts": {"documentation": "git.example.com"}}}),
            "/metrics/alerts/documentation",
        ),
        (
            json!({"webhook": {"clientCA": {"configMap": "a", "key": "../b"}}}),
            "/webhook/clientCA/key",
        ),
        (
            json!({"webhook": {"clientNames": [""]}}),
            "/webhook/clientNames/0",
        ),
        (
            json!({"image": {"registry": "r"}, "webhook": {"clientNames": ["a"]}}),
            "webhook.clientNames: say in webhook.clientCA.configMap",
        ),
    ]);
}

#[test]
fn a_kind_of_checks_that_could_be_anything_is_refused_with_its_path() {
    let kind = |group: &str, resource: &str| json!({"checks": {"kinds": [{"apiGroup": group, "resources": [resource]}]}});
    refuse(&[
        (kind("", "secrets"), "/checks/kinds/0/apiGroup"),
        (kind("", "pods"), "/checks/kinds/0/apiGroup"),
        (kind("*", "jobs"), "/checks/kinds/0/apiGroup"),
        (
            kind("example.com", "secrets"),
            "/checks/kinds/0/resources/0",
        ),
        (kind("example.com", "*"), "/checks/kinds/0/resources/0"),
        (
            kind("example.com", "jobs/status"),
            "/checks/kinds/0/resources/0",
        ),
        (kind("example.com", ""), "/checks/kinds/0/resources/0"),
        (
            json!({"checks": {"kinds": [{"apiGroup": "a.b", "resources": []}]}}),
            "/checks/kinds/0/resources",
        ),
        (
            json!({"checks": {"kinds": [{"resources": ["jobs"]}]}}),
            "/checks/kinds/0",
        ),
    ]);
}

#[test]
fn an_address_that_could_be_anybody_is_refused_with_its_path() {
    let cidr = |cidr: &str| json!({"networkPolicy": {"apiServerCIDRs": [cidr]}});
    let peer = |peer: Value| json!({"networkPolicy": {"evaluationClients": [peer]}});
    refuse(&[
        (
            json!({"networkPolicy": {"apiServerPorts": []}}),
            "/networkPolicy/apiServerPorts",
        ),
        (cidr("10.0.0.1"), "/networkPolicy/apiServerCIDRs/0"),
        (cidr("10.0.0.0/33"), "/networkPolicy/apiServerCIDRs/0"),
        (cidr("fd00::/129"), "/networkPolicy/apiServerCIDRs/0"),
        (cidr(""), "/networkPolicy/apiServerCIDRs/0"),
        // The API server would refuse an empty peer, or worse: take it for all peers.
        (peer(json!({})), "/networkPolicy/evaluationClients/0"),
        (
            peer(json!({"labels": {"app": "proxy"}})),
            "/networkPolicy/evaluationClients/0",
        ),
        (
            peer(json!({"podSelector": {"app": "proxy"}})),
            "/networkPolicy/evaluationClients/0/podSelector",
        ),
        (
            peer(json!({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}})),
            "/networkPolicy/evaluationClients/0/podSelector/matchExpressions/0/operator",
        ),
        (
            peer(json!({"ipBlock": {"except": []}})),
            "/networkPolicy/evaluationClients/0/ipBlock",
        ),
        (
            peer(json!({"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}})),
            "/networkPolicy/evaluationClients/0",
        ),
    ]);
}

/// Values that the chart refuses, and a part of the error of each.
fn refuse(table: &[(Value, &str)]) {
    for (values, expected) in table {
        match e2e::install::render(values, &[KUBERNETES]) {
            Ok(_) => panic!("{values} was rendered ({expected})"),
            Err(error) => {
                let text = e2e::report(&error);
                assert!(text.contains(expected), "{values}: {text}");
            }
        }
    }
}

#[test]
fn the_switch_is_always_there_and_off_unless_it_is_turned_on() {
    let data = |objects: &[Value]| {
        let configs = of_kind(objects, "ConfigMap");
        assert_eq!(configs.len(), 1);
        assert_eq!(name(configs[0]), connectors_api::config::CONFIG_MAP);
        serde_json::from_value(configs[0]["data"].clone()).unwrap()
    };
    let learn = |objects: &[Value]| {
        let mut knowledge = connectors_api::config::Knowledge::default();
        assert_eq!(knowledge.learn(&data(objects)), []);
        knowledge.config().unwrap()
    };
    assert!(!learn(&defaults()).enabled);
    assert_eq!(learn(&defaults()).on_enable, OnEnable::Keep);
    let approval = json!({"enabled": true, "defaultRequesters": "Any", "onEnable": "Request"});
    let on = with(json!({"approval": approval}));
    assert!(learn(&on).enabled);
    assert_eq!(learn(&on).on_enable, OnEnable::Request);
    for (gate, gates_pods) in [("Absent", false), ("Set", true), ("Release", false)] {
        let approval = json!({"enabled": true, "schedulingGate": gate});
        let learned = learn(&with(json!({ "approval": approval })));
        assert_eq!(learned.gates_pods(), gates_pods, "{gate}");
    }
    let any = connectors_api::config::DefaultRequesters::Any;
    assert_eq!(learn(&on).default_requesters, any);
    let shared = |values: &[Value]| {
        let mut knowledge = connectors_api::config::Knowledge::default();
        assert_eq!(knowledge.learn(&data(values)), []);
        knowledge.shared().as_ref().clone()
    };
    assert_eq!(shared(&defaults()), SharedFields::default());
    let list = json!([{"apiVersion": "v1", "kind": "ConfigMap", "fields": ["data.verdict"]}]);
    let expected = SharedFields::parse(&list.to_string()).unwrap();
    assert_eq!(
        shared(&with(json!({"checks": {"sharedFields": list}}))),
        expected
    );
    let keys = |values: &[Value]| {
        let mut knowledge = connectors_api::config::Knowledge::default();
        assert_eq!(knowledge.learn(&data(values)), []);
        knowledge.namespace_keys().as_ref().clone()
    };
    assert_eq!(keys(&defaults()), NamespaceKeys::default());
    let list = json!(["project", "example.com/team"]);
    let expected = NamespaceKeys::parse(&list.to_string()).unwrap();
    assert_eq!(
        keys(&with(json!({"policies": {"namespaceSelectorKeys": list}}))),
        expected
    );
}

#[test]
fn the_driver_proves_pods_and_only_new_clusters_get_new_fields() {
    let driver = |version: &str| {
        let values = json!({"image": {"registry": "r"}});
        let objects =
            e2e::install::render(&values, &[&format!("--kube-version={version}")]).unwrap();
        of_kind(&objects, "CSIDriver")[0].clone()
    };
    let new = driver("1.35.0");
    assert_eq!(name(&new), "connectors-csi");
    assert_eq!(
        new["spec"],
        json!({
            "attachRequired": false,
            "podInfoOnMount": true,
            "volumeLifecycleModes": ["Ephemeral"],
            "fsGroupPolicy": "None",
            "requiresRepublish": true,
            "tokenRequests": [
                {"audience": "connectors.alauda.io", "expirationSeconds": 600},
                {"audience": "connectors-proxy", "expirationSeconds": 3600},
            ],
            "serviceAccountTokenInSecrets": true,
        })
    );
    assert!(driver("1.34.9")["spec"]["serviceAccountTokenInSecrets"].is_null());
    assert_eq!(driver("1.36.1-gke.1")["spec"], new["spec"]);
}

#[test]
fn the_driver_runs_on_nodes_with_linux_whatever_its_values_select() {
    let selector = |selector: Value| {
        let objects = with(json!({"csiNode": {"nodeSelector": selector}}));
        let node = of_kind(&objects, "DaemonSet")[0].clone();
        node["spec"]["template"]["spec"]["nodeSelector"].clone()
    };
    let linux = json!({"kubernetes.io/os": "linux"});
    assert_eq!(selector(json!({})), linux);
    for other in [Value::Null, json!("windows")] {
        assert_eq!(selector(json!({"kubernetes.io/os": other})), linux);
    }
    let both = json!({"kubernetes.io/os": "linux", "pool": "builds"});
    assert_eq!(selector(json!({"pool": "builds"})), both);
}

#[test]
fn a_cluster_that_is_too_old_is_refused_with_the_version_that_is_needed() {
    let values = json!({"image": {"registry": "r"}});
    let error = e2e::install::render(&values, &["--kube-version=1.29.9"]).unwrap_err();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        text.push_str(&error.to_string());
        cause = error.source();
    }
    assert!(text.contains("requires kubeVersion: >=1.30.0-0"), "{text}");
}

#[test]
fn checks_read_what_the_values_say_and_nothing_when_they_say_nothing() {
    let readable = |values: Value| {
        let objects = with(values);
        let roles = of_kind(&objects, "ClusterRole");
        let role = roles
            .into_iter()
            .find(|role| name(role) == "connectors-check-reader-chart")
            .unwrap();
        let given = role["rules"].as_array().unwrap().iter();
        given
            .flat_map(|rule| {
                assert_eq!(texts(&rule["verbs"]), ["get", "list", "watch"]);
                let group = rule["apiGroups"][0].as_str().unwrap();
                let resources = texts(&rule["resources"]);
                resources
                    .iter()
                    .map(|resource| format!("{resource}.{group}"))
                    .collect::<Vec<_>>()
            })
            .collect::<Vec<_>>()
    };
    let tekton = [
        "pipelineruns.tekton.dev",
        "taskruns.tekton.dev",
        "customruns.tekton.dev",
    ];
    let approvals = [
        "approvaltasks.openshift-pipelines.org",
        "approvalrequests.openshift-pipelines.org",
    ];
    assert_eq!(readable(json!({})), [&approvals[..], &tekton].concat());
    assert_eq!(
        readable(json!({"checks": {"kinds": []}})),
        Vec::<String>::new()
    );
    assert_eq!(
        readable(json!({"checks": {"kinds": [], "configMaps": true}})),
        ["configmaps."]
    );
}

/// The roles for people: the cluster's own roles that include them, and the bound subjects.
#[test]
fn people_get_roles_for_connectors_unless_the_values_say_otherwise() {
    let roles = |values: Value| {
        let objects = with(json!({ "roles": values }));
        let for_people = |object: &&Value| {
            let name = name(object);
            let kinds = [
                "connectors",
                "connectorclasses",
                "accesspolicies",
                "accessrequests",
            ];
            kinds
                .iter()
                .any(|kind| name.starts_with(&format!("connectors-{kind}-")))
        };
        let described = |object: &Value| {
            let labels = object["metadata"]["labels"].as_object().unwrap();
            let to = labels
                .keys()
                .find_map(|key| key.strip_prefix("rbac.authorization.k8s.io/aggregate-to-"));
            format!("{} → {}", name(object), to.unwrap_or("-"))
        };
        let mut found: Vec<String> = of_kind(&objects, "ClusterRole")
            .into_iter()
            .filter(for_people)
            .map(described)
            .collect();
        found.sort();
        let bound = of_kind(&objects, "ClusterRoleBinding").into_iter();
        let bound: Vec<Value> = bound
            .filter(for_people)
            .map(|binding| binding["subjects"].clone())
            .collect();
        (found, bound)
    };
    let everybody = json!([
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"},
    ]);
    let others = [
        "connectors-accesspolicies-admin → admin",
        "connectors-accesspolicies-view → view",
        "connectors-accessrequests-admin → admin",
        "connectors-accessrequests-edit → edit",
        "connectors-accessrequests-view → view",
    ];
    let of_connectors = [
        "connectors-connectorclasses-view → -",
        "connectors-connectors-admin → admin",
        "connectors-connectors-view → view",
    ];
    let all: Vec<&str> = others.into_iter().chain(of_connectors).collect();
    let (found, bound) = roles(json!({}));
    assert_eq!(found, all);
    assert_eq!(bound, [everybody]);
    let (found, bound) = roles(json!({"connectors": false}));
    assert_eq!(found, others);
    assert_eq!(bound, Vec::<Value>::new());
    let (found, bound) = roles(json!({"aggregate": false}));
    assert_eq!(found.len(), all.len());
    assert!(found.iter().all(|role| role.ends_with("→ -")), "{found:?}");
    assert_eq!(bound, Vec::<Value>::new());
}

#[test]
fn an_uninstallation_keeps_the_custom_resources_and_an_upgrade_brings_new_ones() {
    let objects = defaults();
    let crds = of_kind(&objects, "CustomResourceDefinition");
    let found: Vec<&str> = crds.iter().map(|crd| name(crd)).collect();
    let mut wanted: Vec<String> = connectors_api::crd::all()
        .into_iter()
        .filter_map(|crd| crd.metadata.name)
        .collect();
    wanted.sort();
    assert_eq!(found, wanted);
    for crd in crds {
        assert_eq!(
            crd["metadata"]["annotations"]["helm.sh/resource-policy"],
            "keep"
        );
    }
    // The folder `crds` of a chart is installed once and never upgraded.
    assert!(!e2e::install::chart().join("crds").exists());
}
