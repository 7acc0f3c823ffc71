//! How Prometheus and Grafana come to the metrics, and what they do with them.

use std::{collections::BTreeSet, fs};

use e2e::{Progress, Tool, cluster};
use serde_json::{Value, json};

use crate::{
    pods::{lets_in, pods, services},
    rendered::{defaults, items, name, of_kind, with},
};

/// The objects of the Prometheus operator, as `kind`.
fn of_operator(objects: &[Value]) -> Vec<&str> {
    let of_operator = objects
        .iter()
        .filter(|it| it["apiVersion"] == "monitoring.coreos.com/v1");
    of_operator.filter_map(|it| it["kind"].as_str()).collect()
}

/// The annotations for Prometheus of each pod.
fn annotations(objects: &[Value]) -> BTreeSet<String> {
    let annotations = pods(objects).into_iter().flat_map(|(_, pod)| {
        let annotations = pod["metadata"]["annotations"].as_object().unwrap().clone();
        annotations.into_iter()
    });
    annotations
        .filter(|(key, _)| key.starts_with("prometheus.io/"))
        .map(|(key, value)| format!("{key}: {value}"))
        .collect()
}

#[test]
fn every_pod_is_found_in_one_way_and_by_default_by_its_annotations() {
    let discovery = |way: &str| with(json!({"metrics": {"discovery": way}}));
    let wanted = [("path", "/metrics"), ("port", "9090"), ("scrape", "true")];
    let wanted = wanted.map(|(key, value)| format!("prometheus.io/{key}: \"{value}\""));
    assert_eq!(annotations(&defaults()), BTreeSet::from(wanted));
    for (_, pod) in pods(&defaults()) {
        assert_eq!(pod["metadata"]["annotations"]["prometheus.io/port"], "9090");
        let ports = items(&pod["spec"]["containers"][0]["ports"]);
        assert!(ports.contains(&json!({"name": "admin", "containerPort": 9090})));
    }
    for (way, operator) in [
        ("PodMonitor", vec!["PodMonitor"]),
        ("ServiceMonitor", vec!["ServiceMonitor"]),
        ("None", vec![]),
        ("Annotations", vec![]),
    ] {
        let objects = discovery(way);
        assert_eq!(of_operator(&objects), operator, "{way}");
        assert_eq!(
            annotations(&objects).is_empty(),
            way != "Annotations",
            "{way}"
        );
    }
    // The annotations of the values win.
    let own = json!({"podAnnotations": {"prometheus.io/scrape": "false", "a": "b"}});
    for (_, pod) in pods(&with(own)) {
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!(annotations["prometheus.io/scrape"], "false");
        assert_eq!(annotations["a"], "b");
    }
}

#[test]
fn the_admin_port_of_each_workload_has_a_headless_service_and_is_let_in() {
    let objects = defaults();
    let mut found = Vec::new();
    for service in of_kind(&objects, "Service") {
        let Some(workload) = name(service).strip_suffix("-admin") else {
            continue;
        };
        found.push(workload);
        let spec = &service["spec"];
        assert_eq!(spec["clusterIP"], "None");
        assert_eq!(spec["publishNotReadyAddresses"], true);
        let port = json!([{"name": "admin", "port": 9090, "targetPort": "admin"}]);
        assert_eq!(spec["ports"], port);
        assert_eq!(spec["selector"]["app.kubernetes.io/component"], workload);
        assert_eq!(lets_in(&objects, workload, "admin"), None, "{workload}");
    }
    assert_eq!(found, services());
}

#[test]
fn a_monitor_chooses_every_pod_by_what_all_have() {
    let all = json!({"app.kubernetes.io/name": "connectors-approval"});
    let monitor = |kind: &str, more: Value| {
        let mut values = json!({"discovery": kind});
        e2e::install::merge(&mut values, &more);
        let objects = with(json!({"metrics": values}));
        let monitors = of_kind(&objects, kind);
        assert_eq!(monitors.len(), 1, "{kind}");
        assert_eq!(monitors[0]["spec"]["selector"], json!({"matchLabels": all}));
        let chosen = match kind {
            "PodMonitor" => pods(&objects)
                .into_iter()
                .map(|(_, pod)| pod.clone())
                .collect(),
            _ => of_kind(&objects, "Service")
                .into_iter()
                .cloned()
                .collect::<Vec<_>>(),
        };
        for object in chosen {
            let label = &object["metadata"]["labels"]["app.kubernetes.io/name"];
            assert_eq!(*label, "connectors-approval");
        }
        monitors[0].clone()
    };
    for (kind, endpoints) in [
        ("PodMonitor", "podMetricsEndpoints"),
        ("ServiceMonitor", "endpoints"),
    ] {
        let plain = monitor(kind, json!({}));
        let endpoint = json!({"port": "admin", "path": "/metrics"});
        assert_eq!(plain["spec"][endpoints], json!([endpoint]));
        let more = json!({"labels": {"release": "prometheus"}, "interval": "15s"});
        let more = monitor(kind, more);
        assert_eq!(more["metadata"]["labels"]["release"], "prometheus");
        assert_eq!(more["spec"][endpoints][0]["interval"], "15s");
    }
}

#[test]
fn alerts_and_dashboards_come_by_value_and_are_those_of_deploy() {
    let repository = e2e::repository();
    let read = |path: &str| fs::read_to_string(repository.join(path)).unwrap();
    assert_eq!(of_operator(&defaults()), Vec::<&str>::new());
    let base = "https://git.example.com/connectors/";
    let objects = with(json!({"metrics": {
        "labels": {"release": "prometheus"},
        "alerts": {"enabled": true, "documentation": base},
        "dashboards": {"enabled": true, "annotations": {"grafana_folder": "Connectors"}},
    }}));
    let rules = of_kind(&objects, "PrometheusRule");
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0]["metadata"]["labels"]["release"], "prometheus");
    let deployed = read("deploy/alerts/connectors-approval.yaml");
    let mut wanted: Value = serde_yaml::from_str(&deployed).unwrap();
    for rule in wanted["groups"][0]["rules"].as_array_mut().unwrap() {
        let link = &mut rule["annotations"]["runbook_url"];
        *link = json!(format!("{base}{}", link.as_str().unwrap()));
    }
    assert_eq!(rules[0]["spec"], wanted);

    let maps = of_kind(&objects, "ConfigMap").into_iter();
    let mut maps = maps.filter(|it| name(it) == "connectors-approval-dashboards");
    let dashboards = maps.next().unwrap();
    let metadata = &dashboards["metadata"];
    assert_eq!(metadata["labels"]["grafana_dashboard"], "1");
    assert_eq!(metadata["annotations"]["grafana_folder"], "Connectors");
    let file = "connectors-approval.json";
    let deployed = read(&format!("deploy/dashboards/{file}"));
    assert_eq!(dashboards["data"], json!({file: deployed}));
}

#[test]
fn the_alerts_fire_in_the_cases_that_want_it_and_in_no_other() {
    let promtool = cluster::prometheus(&Progress::default()).unwrap();
    let run = |words: [&str; 3]| {
        let promtool = Tool::new(promtool.join("promtool")).args(words);
        let said = promtool
            .dir(e2e::repository().join("deploy/alerts"))
            .output();
        said.unwrap_or_else(|error| panic!("{error}"))
    };
    run(["check", "rules", "connectors-approval.yaml"]);
    run(["test", "rules", "connectors-approval.test.yaml"]);
}
