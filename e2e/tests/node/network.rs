//! Pods reach services and each other, by name and by address.

use e2e::{
    api::kinds::{ENDPOINT_SLICE, SERVICE},
    harness::Scene,
};
use serde_json::json;

#[test]
fn a_pod_resolves_the_api_servers_service() {
    let scene = Scene::new("dns");
    let name = "kubernetes.default.svc.cluster.local";
    scene.start_pod("resolver", &["resolve", name]).unwrap();
    assert_eq!(scene.wait_for_end("resolver"), "Succeeded");
    let services = scene.api().in_namespace("default");
    let service = services.get(SERVICE, "kubernetes").unwrap().unwrap();
    let address = service["spec"]["clusterIP"].as_str();
    let output = scene.api().logs("resolver").unwrap();
    assert!(output.lines().any(|line| Some(line) == address), "{output}");
}

#[test]
fn a_pod_reaches_another_through_a_service_by_its_short_name() {
    let scene = Scene::new("service");
    scene
        .start_pod("web", &["serve", "8080", "served"])
        .unwrap();
    create_service(&scene);
    scene.start_pod("client", &["connect", "web:80"]).unwrap();
    assert_eq!(scene.wait_for_end("client"), "Succeeded");
    assert_eq!(scene.api().logs("client").unwrap().trim(), "served");
}

#[test]
fn a_pod_reaches_itself_through_its_service() {
    let scene = Scene::new("hairpin");
    scene
        .start_pod("web", &["serve", "8080", "to myself"])
        .unwrap();
    create_service(&scene);
    // By its full name, since the short one is the pod's own host name.
    let words = format!(
        "exec web -- /workload connect web.{}.svc:80",
        scene.namespace()
    );
    assert_eq!(scene.run(&words).unwrap().trim(), "to myself");
}

/// A service of the pod `web`, with its endpoint.
fn create_service(scene: &Scene) {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    });
    scene.apply(&service).unwrap();
    let what = "the service's endpoint";
    let labels = "kubernetes.io/service-name=web";
    scene.wait_for_list(what, ENDPOINT_SLICE, labels, |slices| {
        let endpoints = slices.iter().filter_map(|it| it["endpoints"].as_array());
        let mut endpoints = endpoints.flatten();
        endpoints.any(|it| it["conditions"]["ready"] == true)
    });
}
