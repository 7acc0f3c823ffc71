//! How the pods run: with as little of the node as their work needs.

use std::collections::BTreeSet;

use e2e::images::Image;
use serde_json::{Value, json};

use crate::rendered::{defaults, items, name, of_kind, texts, with};

/// The names of the services, sorted.
pub(crate) fn services() -> [&'static str; Image::SERVICES.len()] {
    let mut names = Image::SERVICES.map(Image::name);
    names.sort_unstable();
    names
}

/// The pod templates by the name of their controller.
pub(crate) fn pods(objects: &[Value]) -> Vec<(&str, &Value)> {
    let makers = objects
        .iter()
        .filter(|object| !object["spec"]["template"]["spec"].is_null());
    makers
        .map(|object| (name(object), &object["spec"]["template"]))
        .collect()
}

#[test]
fn there_is_a_pod_for_each_service_with_its_own_account_and_image() {
    let objects = with(json!({"image": {"tag": "v9"}, "podAnnotations": {"a": "b"}}));
    let mut pods = pods(&objects);
    pods.sort_by_key(|(service, _)| *service);
    assert_eq!(
        pods.iter().map(|(service, _)| *service).collect::<Vec<_>>(),
        services()
    );
    for (service, pod) in pods {
        assert_eq!(pod["spec"]["serviceAccountName"], service);
        assert_eq!(
            pod["metadata"]["labels"]["app.kubernetes.io/component"],
            service
        );
        assert_eq!(pod["metadata"]["annotations"]["a"], "b");
        let containers = items(&pod["spec"]["containers"]);
        assert_eq!(containers.len(), 1, "{service}");
        assert!(pod["spec"]["initContainers"].is_null());
        let container = &containers[0];
        assert_eq!(
            container["image"],
            format!("registry.example.com/connectors/{service}:v9")
        );
        assert_eq!(container["command"], json!([format!("/{service}")]));
        assert!(
            !container["resources"]["limits"]["memory"].is_null(),
            "{service}"
        );
        assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
        assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/healthz");
    }
}

#[test]
fn images_are_named_by_digest_where_the_digests_are_given() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let digests: serde_json::Map<_, _> = services()
        .map(|it| (it.to_owned(), json!(digest)))
        .into_iter()
        .collect();
    let objects = with(json!({"image": {"tag": "v9", "digests": digests}}));
    for (service, pod) in pods(&objects) {
        assert_eq!(
            pod["spec"]["containers"][0]["image"],
            format!("registry.example.com/connectors/{service}@{digest}")
        );
    }
}

#[test]
fn only_the_node_plugin_has_power_over_its_node() {
    let objects = defaults();
    for (service, pod) in pods(&objects) {
        let spec = &pod["spec"];
        for namespace in ["hostNetwork", "hostPID", "hostIPC"] {
            assert!(spec[namespace].is_null(), "{service}: {namespace}");
        }
        let security = &spec["containers"][0]["securityContext"];
        assert_eq!(security["readOnlyRootFilesystem"], true, "{service}");
        if service == "csi-node" {
            assert_eq!(security["privileged"], true);
            continue;
        }
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true, "{service}");
        assert_eq!(spec["securityContext"]["runAsUser"], 65532, "{service}");
        assert_eq!(
            spec["securityContext"]["seccompProfile"]["type"],
            "RuntimeDefault"
        );
        assert_eq!(security["allowPrivilegeEscalation"], false, "{service}");
        assert_eq!(
            security["capabilities"],
            json!({"drop": ["ALL"]}),
            "{service}"
        );
        assert!(security["privileged"].is_null(), "{service}");
        let host_paths = items(&spec["volumes"])
            .iter()
            .filter(|volume| !volume["hostPath"].is_null());
        assert_eq!(host_paths.count(), 0, "{service}");
    }
}

#[test]
fn the_node_plugin_sees_three_directories_of_its_node_at_their_own_places() {
    let objects = with(json!({"kubeletDir": "/data/kubelet"}));
    let pods = pods(&objects);
    let (_, pod) = pods
        .iter()
        .find(|(service, _)| *service == "csi-node")
        .unwrap();
    let mut seen = Vec::new();
    for volume in items(&pod["spec"]["volumes"]) {
        let Some(path) = volume["hostPath"]["path"].as_str() else {
            continue;
        };
        let mounts = items(&pod["spec"]["containers"][0]["volumeMounts"]).iter();
        let mounts: Vec<&Value> = mounts
            .filter(|mount| mount["name"] == volume["name"])
            .collect();
        assert_eq!(mounts.len(), 1);
        assert_eq!(mounts[0]["mountPath"], path);
        seen.push((path, mounts[0]["mountPropagation"].as_str()));
    }
    assert_eq!(
        seen,
        [
            ("/data/kubelet/plugins/connectors-csi", None),
            ("/data/kubelet/plugins_registry", None),
            ("/data/kubelet/pods", Some("Bidirectional")),
        ]
    );
    let args = texts(&pod["spec"]["containers"][0]["args"]);
    assert!(args.contains(&"--kubelet-dir=/data/kubelet"), "{args:?}");
}

/// A pod must wait for its certificate, its CA and its token rather than start without.
#[test]
fn what_a_pod_needs_is_never_optional() {
    let objects = defaults();
    for (service, pod) in pods(&objects) {
        for volume in items(&pod["spec"]["volumes"]) {
            assert!(
                !volume.to_string().contains("optional"),
                "{service}: {volume}"
            );
        }
        // The webhook makes its own key, so it reads the key through the API.
        let secrets = items(&pod["spec"]["volumes"])
            .iter()
            .filter_map(|volume| volume["secret"]["secretName"].as_str());
        let secrets: Vec<&str> = secrets.collect();
        let expected: &[&str] = if service == "evaluation-service" {
            &["evaluation-service-tls"]
        } else {
            &[]
        };
        assert_eq!(secrets, expected, "{service}");
    }
}

#[test]
fn services_are_found_by_their_pods_labels() {
    let objects = defaults();
    for object in &objects {
        let selector = match object["kind"].as_str().unwrap() {
            "Service" => &object["spec"]["selector"],
            "Deployment" | "DaemonSet" | "PodDisruptionBudget" => {
                &object["spec"]["selector"]["matchLabels"]
            }
            "NetworkPolicy" => &object["spec"]["podSelector"]["matchLabels"],
            _ => continue,
        };
        let pods = pods(&objects);
        let workload = name(object).trim_end_matches("-admin");
        let (_, pod) = pods
            .iter()
            .find(|(service, _)| *service == workload)
            .unwrap();
        for (key, value) in selector.as_object().unwrap() {
            assert_eq!(pod["metadata"]["labels"][key], *value, "{}", name(object));
        }
        assert_eq!(selector["app.kubernetes.io/component"], workload);
    }
}

/// A held call gets up to 20 s to end when its process is to end.
/// Under pressure the tenants' pods go first, and a tenant's lists do not delay revocations.
#[test]
fn services_go_before_tenants_on_nodes_and_in_the_api_server() {
    let objects = defaults();
    for (service, pod) in pods(&objects) {
        let expected = match service {
            "csi-node" => "system-node-critical",
            _ => "system-cluster-critical",
        };
        assert_eq!(pod["spec"]["priorityClassName"], expected, "{service}");
    }
    let schemas = of_kind(&objects, "FlowSchema");
    assert_eq!(schemas.len(), 1);
    let subjects = &schemas[0]["spec"]["rules"][0]["subjects"];
    let accounts: BTreeSet<_> = subjects
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["serviceAccount"]["name"].as_str())
        .collect();
    let services: BTreeSet<_> = pods(&objects)
        .iter()
        .map(|(service, _)| Some(*service))
        .collect();
    assert_eq!(accounts, services);
    let level = &of_kind(&objects, "PriorityLevelConfiguration")[0]["metadata"]["name"];
    assert_eq!(
        schemas[0]["spec"]["priorityLevelConfiguration"]["name"],
        *level
    );

    let none = with(json!({"flowControl": {"enabled": false}, "priorityClassName": ""}));
    assert!(of_kind(&none, "FlowSchema").is_empty());
    assert!(of_kind(&none, "PriorityLevelConfiguration").is_empty());
    let first = pods(&none)
        .into_iter()
        .find(|(service, _)| *service == "webhook")
        .unwrap();
    assert_eq!(first.1["spec"].get("priorityClassName"), None);
}

#[test]
fn the_node_plugin_has_time_to_end_its_calls() {
    let objects = defaults();
    let pods = pods(&objects);
    let (_, pod) = pods
        .iter()
        .find(|(service, _)| *service == "csi-node")
        .unwrap();
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 30);
}

#[test]
fn network_policies_come_and_go_with_their_value() {
    let count = |objects: &[Value]| crate::rendered::of_kind(objects, "NetworkPolicy").len();
    assert_eq!(count(&defaults()), services().len());
    assert_eq!(
        count(&with(json!({"networkPolicy": {"enabled": false}}))),
        0
    );
}

/// The peers that a service's `NetworkPolicy` allows at one of its ports; none if it allows all.
pub(crate) fn lets_in(objects: &[Value], service: &str, port: &str) -> Option<Vec<Value>> {
    let policies = crate::rendered::of_kind(objects, "NetworkPolicy");
    let policy = policies
        .into_iter()
        .find(|policy| name(policy) == service)
        .unwrap();
    let rules = items(&policy["spec"]["ingress"]).iter();
    let of_port = rules.filter(|rule| items(&rule["ports"]).iter().any(|it| it["port"] == port));
    let of_port: Vec<&Value> = of_port.collect();
    assert_eq!(of_port.len(), 1, "{service} {port}");
    assert_eq!(items(&of_port[0]["ports"]).len(), 1, "{service} {port}");
    // An empty list allows all peers, too.
    assert_ne!(of_port[0]["from"], json!([]), "{service} {port}");
    of_port[0]["from"].as_array().cloned()
}

#[test]
fn the_evaluation_service_is_reached_by_this_charts_pods_and_by_whom_the_values_name() {
    let ours =
        json!({"podSelector": {"matchLabels": {"app.kubernetes.io/name": "connectors-approval"}}});
    let objects = defaults();
    assert_eq!(
        lets_in(&objects, "evaluation-service", "grpc"),
        Some(vec![ours.clone()])
    );
    assert_eq!(lets_in(&objects, "evaluation-service", "admin"), None);
    for (service, pod) in pods(&objects) {
        let label = &pod["metadata"]["labels"]["app.kubernetes.io/name"];
        assert_eq!(label, "connectors-approval", "{service}");
    }

    let others = [
        json!({
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "connectors"}},
            "podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["proxy"]}]},
        }),
        json!({"ipBlock": {"cidr": "10.1.0.0/16", "except": ["10.1.2.0/24"]}}),
    ];
    let objects = with(json!({"networkPolicy": {"evaluationClients": others}}));
    let all = std::iter::once(ours).chain(others).collect();
    assert_eq!(lets_in(&objects, "evaluation-service", "grpc"), Some(all));
    assert_eq!(lets_in(&objects, "evaluation-service", "admin"), None);
}

#[test]
fn the_webhook_is_reached_from_anywhere_unless_the_values_say_from_where() {
    let objects = defaults();
    assert_eq!(lets_in(&objects, "webhook", "https"), None);
    assert_eq!(lets_in(&objects, "webhook", "admin"), None);
    let cidrs = ["10.0.0.0/28", "fd00::1/128"];
    let objects = with(json!({"networkPolicy": {"apiServerCIDRs": cidrs}}));
    let blocks = cidrs.map(|cidr| json!({"ipBlock": {"cidr": cidr}}));
    assert_eq!(lets_in(&objects, "webhook", "https"), Some(blocks.to_vec()));
    assert_eq!(lets_in(&objects, "webhook", "admin"), None);
}

#[test]
fn the_webhook_asks_for_client_certificates_where_the_values_name_an_authority() {
    let webhook = |objects: &[Value]| {
        let pods = pods(objects);
        let (_, pod) = pods.iter().find(|(name, _)| *name == "webhook").unwrap();
        pod["spec"].clone()
    };
    let about_clients = |pod: &Value| {
        let args = texts(&pod["containers"][0]["args"]);
        let ours = args.into_iter().filter(|it| it.starts_with("--client-"));
        ours.map(str::to_owned).collect::<Vec<_>>()
    };
    let volumes = |pod: &Value| {
        let is_ours = |it: &&Value| it["name"] == "client-ca";
        items(&pod["volumes"]).iter().find(is_ours).cloned()
    };
    for nothing in [
        json!({}),
        json!({"clientCA": {"configMap": ""}, "clientNames": []}),
    ] {
        let pod = webhook(&with(json!({"webhook": nothing})));
        assert_eq!((about_clients(&pod), volumes(&pod)), (Vec::new(), None));
    }
    let authority = json!({"configMap": "callers", "key": "roots.pem"});
    let pod = webhook(&with(json!({"webhook": {"clientCA": authority}})));
    let file = "--client-ca-file=/etc/connectors-client-ca/roots.pem";
    assert_eq!(about_clients(&pod), [file]);
    let item = json!({"key": "roots.pem", "path": "roots.pem"});
    let volume = json!({"name": "client-ca", "configMap": {"name": "callers", "items": [item]}});
    assert_eq!(volumes(&pod), Some(volume));
    let mounts = items(&pod["containers"][0]["volumeMounts"]);
    let mount =
        json!({"name": "client-ca", "mountPath": "/etc/connectors-client-ca", "readOnly": true});
    assert!(mounts.contains(&mount));
    let names = json!({"clientCA": authority, "clientNames": ["kube-apiserver", "a b"]});
    let pod = webhook(&with(json!({"webhook": names})));
    let expected = [file, "--client-name=kube-apiserver", "--client-name=a b"];
    assert_eq!(about_clients(&pod), expected);
}
