//! Pods reach services and each other, by name and by address.

use e2e::harness::Scene;

#[test]
fn a_pod_resolves_the_api_servers_service() {
    let scene = Scene::new("dns");
    let name = "kubernetes.default.svc.cluster.local";
    scene.start_pod("resolver", &["resolve", name]).unwrap();
    assert_eq!(scene.wait_for_end("resolver"), "Succeeded");
    let service = scene
        .kubectl()
        .run("get service kubernetes -o jsonpath={.spec.clusterIP}")
        .unwrap();
    assert!(
        scene
            .run("logs resolver")
            .unwrap()
            .lines()
            .any(|line| line == service)
    );
}

#[test]
fn a_pod_reaches_another_through_a_service_by_its_short_name() {
    let scene = Scene::new("service");
    scene
        .start_pod("web", &["serve", "8080", "served"])
        .unwrap();
    scene
        .run("create service clusterip web --tcp=80:8080")
        .unwrap();
    wait_for_endpoint(&scene);
    scene.start_pod("client", &["connect", "web:80"]).unwrap();
    assert_eq!(scene.wait_for_end("client"), "Succeeded");
    assert_eq!(scene.run("logs client").unwrap().trim(), "served");
}

#[test]
fn a_pod_reaches_itself_through_its_service() {
    let scene = Scene::new("hairpin");
    scene
        .start_pod("web", &["serve", "8080", "to myself"])
        .unwrap();
    scene
        .run("create service clusterip web --tcp=80:8080")
        .unwrap();
    wait_for_endpoint(&scene);
    // By its full name, since the short one is the pod's own host name.
    let words = format!(
        "exec web -- /workload connect web.{}.svc:80",
        scene.namespace()
    );
    assert_eq!(scene.run(&words).unwrap().trim(), "to myself");
}

fn wait_for_endpoint(scene: &Scene) {
    let ready = "{.items[*].endpoints[*].conditions.ready}";
    let words = format!("get endpointslices -l kubernetes.io/service-name=web -o jsonpath={ready}");
    scene.wait_for("the service's endpoint", &words, |answer| answer == "true");
}
