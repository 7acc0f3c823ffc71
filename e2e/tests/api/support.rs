//! The API server under test, and a namespace for each test.

use std::fs;
use std::path::PathBuf;

use e2e::api::kinds::APPROVAL_TASK;
use e2e::harness::{self, PATIENCE};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, Request, Resource, TypeMeta};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::{Duration, Instant, sleep};

use crate::cases::Case;

/// A namespace of its own for one test, on an API server with our CRDs and policies.
pub(crate) struct Scene {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// Removes the namespace at the end; none for work outside a test's own namespace.
    _home: Option<harness::Scene>,
}

/// The API server said no.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) message: String,
}

/// Installs the tested objects, once, and makes a namespace.
pub(crate) async fn scene(test: &str) -> Scene {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let home = harness::Scene::new(test);
    let client = home.api().asynchronous().unwrap();
    INSTALLED.get_or_init(|| install(&client)).await;
    Scene {
        client,
        namespace: home.namespace().to_owned(),
        _home: Some(home),
    }
}

impl Scene {
    /// Creates an object in the test's namespace, under a generated name if it has none.
    pub(crate) async fn create(&self, object: &Value) -> Result<Value, Refusal> {
        let object = named(object);
        let request = self
            .path(&object)
            .create(&PostParams::default(), bytes(&object));
        outcome(self.client.request(request.unwrap()).await)
    }

    /// Asks whether an object could be created, given as text beside its apiVersion and kind.
    pub(crate) async fn try_create(&self, types: &Value, text: String) -> Result<(), Refusal> {
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let request = self.path(types).create(&dry_run, text.into_bytes());
        outcome(self.client.request_text(request.unwrap()).await).map(drop)
    }

    /// Replaces an object.
    pub(crate) async fn update(&self, object: &Value) -> Result<Value, Refusal> {
        let request =
            self.path(object)
                .replace(name(object), &PostParams::default(), bytes(object));
        outcome(self.client.request(request.unwrap()).await)
    }

    /// Replaces the status of an object that exists.
    pub(crate) async fn update_status(&self, object: &Value) -> Result<Value, Refusal> {
        let path = self.path(object);
        let request = path.replace_subresource(
            "status",
            name(object),
            &PostParams::default(),
            bytes(object),
        );
        outcome(self.client.request(request.unwrap()).await)
    }

    /// An object in which every field has a value, about the test's namespace and without a name.
    pub(crate) fn full(&self, kind: &str) -> Value {
        let text = match kind {
            "AccessPolicy" => {
                include_str!("../../../crates/connectors-api/tests/full/access-policy.yaml")
            }
            "AccessRequest" => {
                include_str!("../../../crates/connectors-api/tests/full/access-request.yaml")
            }
            other => panic!("there is no full {other}"),
        };
        let mut object = documents(&text.replace("devops-ns1", &self.namespace)).remove(0);
        object["metadata"] = json!({});
        object
    }

    fn path(&self, object: &Value) -> Request {
        let types: TypeMeta = serde_json::from_value(object.clone()).unwrap();
        let gvk = GroupVersionKind::try_from(types).unwrap();
        let global =
            ["Namespace", "SubjectAccessReview", "ConnectorClass"].contains(&gvk.kind.as_str());
        let namespace = if global {
            None
        } else {
            Some(self.namespace.as_str())
        };
        Request::new(DynamicObject::url_path(
            &ApiResource::from_gvk(&gvk),
            namespace,
        ))
    }
}

/// Waits until `probe` has an answer.
pub(crate) async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = probe().await {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} for {what}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Installs a CRD and waits until its objects can be created.
pub(crate) async fn install_crd(client: &Client, crd: &CustomResourceDefinition) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = crd.metadata.name.as_deref().unwrap();
    crds.patch(
        name,
        &PatchParams::apply("api-tests").force(),
        &Patch::Apply(crd),
    )
    .await
    .unwrap();
    // The condition Established comes a moment before the handler: only an answer proves that it is there.
    let version = &crd.spec.versions[0].name;
    let gvk = GroupVersionKind::gvk(&crd.spec.group, version, &crd.spec.names.kind);
    let kind = ApiResource::from_gvk_with_plural(&gvk, &crd.spec.names.plural);
    let objects: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    eventually(&format!("{name} to be served"), async || {
        objects
            .list_metadata(&ListParams::default().limit(1))
            .await
            .ok()
    })
    .await;
}

/// The YAML files of a folder of the repository, in order of their names.
pub(crate) fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(e2e::repository().join(folder)).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| {
        file.extension()
            .is_some_and(|extension| extension == "yaml")
    });
    files.sort();
    files
}

/// The admission policy that belongs to the API itself; the chart's others depend on the writer.
pub(crate) fn policies() -> Vec<Value> {
    let file = "charts/connectors-approval/templates/admission/connector-namespace.yaml";
    documents(&fs::read_to_string(e2e::repository().join(file)).unwrap())
}

/// The documents of a YAML text.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    serde_yaml::Deserializer::from_str(text)
        .map(|document| Value::deserialize(document).unwrap())
        .collect()
}

async fn install(client: &Client) {
    for crd in connectors_api::crd::all() {
        install_crd(client, &crd).await;
    }
    let approval_task = serde_json::from_value(APPROVAL_TASK.definition()).unwrap();
    install_crd(client, &approval_task).await;
    for document in policies() {
        let object: DynamicObject = serde_json::from_value(document).unwrap();
        let gvk = GroupVersionKind::try_from(object.types.clone().unwrap()).unwrap();
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&gvk));
        let name = object.metadata.name.clone().unwrap();
        api.patch(
            &name,
            &PatchParams::apply("api-tests").force(),
            &Patch::Apply(object),
        )
        .await
        .unwrap();
    }
    // The API server learns of admission policies through a watch of its own.
    let case = crate::cases::all().into_iter().find(Case::is_vap).unwrap();
    let scene = Scene {
        client: client.clone(),
        namespace: "default".to_owned(),
        _home: None,
    };
    let refused = named(&case.refused());
    eventually("the admission policies to be in force", async || {
        let answer = scene.try_create(&refused, refused.to_string()).await;
        answer
            .err()
            .filter(|refusal| refusal.message.contains(&case.message))
    })
    .await;
}

/// The object with a generated name if it has none and is of a kind that has names.
fn named(object: &Value) -> Value {
    let mut object = object.clone();
    let is_stored = object["kind"] != "SubjectAccessReview";
    if is_stored && name(&object).is_empty() && object["metadata"]["generateName"].is_null() {
        json_patch::merge(&mut object, &json!({"metadata": {"generateName": "test-"}}));
    }
    object
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

fn bytes(object: &Value) -> Vec<u8> {
    serde_json::to_vec(object).unwrap()
}

fn outcome<T>(answer: Result<T, kube::Error>) -> Result<T, Refusal> {
    answer.map_err(|error| {
        let kube::Error::Api(status) = error else {
            panic!("the API server did not answer: {error}");
        };
        Refusal {
            code: status.code,
            message: status.message,
        }
    })
}
