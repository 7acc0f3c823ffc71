//! Programs that are processes of their own.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, Config, api::ListParams};
use serde_json::json;
use testkit::{Caller, What};

use crate::support::{map, server};

#[tokio::test]
async fn a_client_of_a_port_is_the_caller_that_it_was_opened_for() {
    let server = server();
    server.create(map("one", &json!({})));
    let caller = Caller {
        process: "another".to_owned(),
        ..Caller::admin()
    };
    let port = server.listen(&caller).await.unwrap();
    let client = Client::try_from(Config::new(port.url().parse().unwrap())).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let listed = maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items.len(), 1);
    let calls = server.log();
    let calls = calls.iter().filter_map(|entry| match &entry.what {
        What::Call(call) => Some(call.point.process.as_str()),
        What::Change(_) | What::Sent(_) | What::Killed(_) => None,
    });
    assert_eq!(calls.collect::<Vec<_>>(), ["another"]);
    drop(port);
    assert!(maps.list(&ListParams::default()).await.is_err());
}
