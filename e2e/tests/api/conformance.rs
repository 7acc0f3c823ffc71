//! The script to which the fake API server of `crates/testkit` is held, on the real one.
//!
//! Both are compared with one file, so that a difference of either is a failed test. After a change of the
//! script, `UPDATE_TRANSCRIPT=1 cargo xtask test api conformance` writes the file again.

use std::fs;

use e2e::harness;
use http::Request;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind, Resource as _};
use kube::{Client, Config};
use serde_json::{Value, json};
use testkit::conformance::{self, Resource, Server, TokenWish, Who};

use crate::support::{eventually, install_crd};

/// The real API server, with a client for each user.
struct Real {
    config: Config,
    admin: Client,
}

impl Real {
    async fn new(config: Config) -> Self {
        let admin = Client::try_from(config.clone()).unwrap();
        for kind in conformance::test_kinds() {
            let definition: CustomResourceDefinition =
                serde_json::from_value(kind.definition()).unwrap();
            install_crd(&admin, &definition).await;
        }
        for definition in connectors_api::crd::all() {
            install_crd(&admin, &definition).await;
        }
        Self { config, admin }
    }

    async fn code(&self, path: &str) -> u16 {
        let request = Request::get(path).body(Vec::new()).unwrap();
        match self.admin.request_text(request).await {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("the API server did not answer: {error}"),
        }
    }

    async fn await_code(&self, path: &str, code: u16) {
        eventually(&format!("{path} to be answered with {code}"), async || {
            (self.code(path).await == code).then_some(())
        })
        .await;
    }
}

impl Server for Real {
    fn client(&self, who: &Who) -> Client {
        let mut config = self.config.clone();
        // Every answer counts, and so does the first one.
        config.default_retry = false;
        if let Who::User { name, groups } = who {
            config.auth_info.impersonate = Some(name.clone());
            config.auth_info.impersonate_groups = Some(groups.clone());
        }
        Client::try_from(config).unwrap()
    }

    async fn await_namespace(&self, name: &str) {
        let home = format!("/api/v1/namespaces/{name}");
        for object in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
            self.await_code(&format!("{home}/{object}"), 200).await;
        }
    }

    async fn issue_token(&self, wish: &TokenWish) -> String {
        let path = format!(
            "/api/v1/namespaces/{}/serviceaccounts/{}/token",
            wish.namespace, wish.account
        );
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {
                "audiences": wish.audiences,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": wish.pod, "uid": wish.pod_uid},
            },
        });
        let request = Request::post(path)
            .header("content-type", "application/json")
            .body(body.to_string().into_bytes())
            .unwrap();
        let answer: Value = self.admin.request(request).await.unwrap();
        answer["status"]["token"].as_str().unwrap().to_owned()
    }

    async fn remove_kind(&self, kind: &Resource) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.admin.clone());
        let name = format!("{}.{}", kind.plural, kind.group);
        definitions
            .delete(&name, &DeleteParams::default())
            .await
            .unwrap();
        let gvk = GroupVersionKind::gvk(kind.group, kind.version, kind.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, kind.plural);
        let path = DynamicObject::url_path(&resource, None);
        self.await_code(&path, 404).await;
    }

    fn forget_history(&self) {
        // A watch on a custom resource knows nothing older than the resource, so version 1 is forgotten.
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_server_answers_as_it_did() {
    let home = harness::Scene::new("conformance");
    let kubeconfig = Kubeconfig::read_from(home.kubectl().kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let real = Real::new(config.unwrap()).await;
    let script = conformance::script();
    let found = conformance::run(&real, &script, home.namespace()).await;
    remove_namespaces(&real, home.namespace()).await;

    if std::env::var_os("UPDATE_TRANSCRIPT").is_some() {
        let file = e2e::repository().join(conformance::REAL_FILE);
        fs::write(file, found.to_string()).unwrap();
        return;
    }
    let differences = conformance::real().differences(&found);
    assert!(
        differences.is_empty(),
        "{} of {} steps differ\n\n{}",
        differences.len(),
        found.len(),
        conformance::report(&differences)
    );
}

/// The test kinds stay, as those of the other tests do; their objects go with the namespaces.
async fn remove_namespaces(real: &Real, run: &str) {
    let namespaces: Api<Namespace> = Api::all(real.admin.clone());
    let all = namespaces.list(&ListParams::default()).await.unwrap();
    let names = all
        .items
        .into_iter()
        .filter_map(|namespace| namespace.metadata.name);
    for name in names.filter(|name| name.starts_with(&format!("{run}-"))) {
        // One that is being deleted already is as good.
        let _ = namespaces.delete(&name, &DeleteParams::default()).await;
    }
}
