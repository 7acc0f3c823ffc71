//! Discovery of kinds.

use kube::core::GroupVersionKind;
use testkit::Kind;

use crate::support::{admin, get, server};

#[tokio::test(start_paused = true)]
async fn a_kind_is_discovered_from_its_coming_to_its_going() {
    let server = server();
    let client = admin(&server);
    let gvk = GroupVersionKind::gvk("tekton.dev", "v1", "PipelineRun");
    assert!(kube::discovery::pinned_kind(&client, &gvk).await.is_err());
    server.register(Kind {
        group: "tekton.dev".to_owned(),
        version: "v1".to_owned(),
        kind: "PipelineRun".to_owned(),
        plural: "pipelineruns".to_owned(),
        namespaced: true,
        status: true,
    });
    let (resource, capabilities) = kube::discovery::pinned_kind(&client, &gvk).await.unwrap();
    assert_eq!(resource.plural, "pipelineruns");
    assert!(capabilities.supports_operation("watch"));
    assert_eq!(
        get(&client, "/apis/tekton.dev").await.1["preferredVersion"]["version"],
        "v1"
    );
    server.unregister("pipelineruns", "tekton.dev");
    assert_eq!(get(&client, "/apis/tekton.dev/v1").await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn the_servers_own_documents_are_there() {
    let server = server();
    let client = admin(&server);
    assert_eq!(client.apiserver_version().await.unwrap().minor, "35");
    assert!(
        !client
            .list_core_api_versions()
            .await
            .unwrap()
            .versions
            .is_empty()
    );
    let groups = client.list_api_groups().await.unwrap();
    assert!(
        groups
            .groups
            .iter()
            .any(|it| it.name == "connectors.alauda.io")
    );
    for path in [
        "/api/v1/nothings",
        "/apis/none.example.com/v1/nothings",
        "/nothing",
    ] {
        assert_eq!(get(&client, path).await.0, 404, "{path}");
    }
}
