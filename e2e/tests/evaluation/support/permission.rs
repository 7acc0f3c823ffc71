//! The permission of every scenario: given and removed by writes to the API server itself, past the service
//! and the proxy before it.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::judge::Judge;
use super::truth::Truth;

/// The connector of every scenario. It need not exist.
pub(super) const CONNECTOR: &str = "harbor";
/// The account that has the permission.
pub(super) const ACCOUNT: &str = "builder";

/// A role and its binding: without either nothing is held.
pub(super) struct Permission {
    namespace: String,
    roles: Api<Role>,
    bindings: Api<RoleBinding>,
    judge: Arc<Judge>,
    /// The binding and the role are taken in turn.
    turn: Cell<bool>,
}

impl Permission {
    pub(super) async fn new(client: &Client, namespace: &str, judge: &Arc<Judge>) -> Self {
        let this = Self {
            namespace: namespace.to_owned(),
            roles: Api::namespaced(client.clone(), namespace),
            bindings: Api::namespaced(client.clone(), namespace),
            judge: Arc::clone(judge),
            turn: Cell::new(false),
        };
        this.roles
            .create(&PostParams::default(), &role())
            .await
            .unwrap();
        this
    }

    pub(super) async fn give(&self) {
        self.judge.write(|truth| truth.send(true));
        let create = PostParams::default();
        let binding = binding(&self.namespace);
        insist(async || {
            if self.turn.get() {
                created(self.roles.create(&create, &role()).await)
            } else {
                created(self.bindings.create(&create, &binding).await)
            }
        })
        .await;
        self.judge.write(Truth::done);
    }

    pub(super) async fn take(&self) {
        self.turn.set(!self.turn.get());
        self.judge.write(|truth| truth.send(false));
        let delete = DeleteParams::default();
        insist(async || {
            if self.turn.get() {
                deleted(self.roles.delete("user", &delete).await.map(drop))
            } else {
                deleted(self.bindings.delete("user", &delete).await.map(drop))
            }
        })
        .await;
        self.judge.write(Truth::done);
    }
}

/// Writes until it is written: the API server may just have been killed.
async fn insist(mut write: impl AsyncFnMut() -> Result<(), kube::Error>) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while let Err(error) = write().await {
        assert!(Instant::now() < deadline, "{error}");
        sleep(Duration::from_millis(100)).await;
    }
}

/// A write whose answer was lost was written all the same.
fn created<T>(answer: Result<T, kube::Error>) -> Result<(), kube::Error> {
    unless(409, answer.map(drop))
}

fn deleted(answer: Result<(), kube::Error>) -> Result<(), kube::Error> {
    unless(404, answer)
}

fn unless(code: u16, answer: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Err(kube::Error::Api(status)) if status.code == code => Ok(()),
        other => other,
    }
}

fn role() -> Role {
    serde_json::from_value(json!({
        "metadata": {"name": "user"},
        "rules": [{"apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"], "resourceNames": [CONNECTOR], "verbs": ["*"]}],
    }))
    .unwrap()
}

fn binding(namespace: &str) -> RoleBinding {
    serde_json::from_value(json!({
        "metadata": {"name": "user"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "user"},
        "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": ACCOUNT}],
    }))
    .unwrap()
}
