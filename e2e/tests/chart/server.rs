//! The API server as different people see it, and policies that apply to marked objects only.

use std::collections::{BTreeMap, BTreeSet};

use e2e::api::kinds::CONFIG_MAP;
use kube::{
    Client, Config,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Request},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::{
    cases::{Attempt, Case, Verb, Who, write_out},
    rendered::{items, name},
};

/// The label of objects that a variant of the policies is about.
const MARK: &str = "chart-test";

/// The header for the node name, which the API server adds to a user whose token is bound to a pod.
const NODE_NAME: http::HeaderName =
    http::HeaderName::from_static("impersonate-extra-authentication.kubernetes.io%2fnode-name");

/// A server and a namespace on it.
pub(crate) struct Server {
    namespace: String,
    owner_uid: String,
    admin: Client,
    clients: BTreeMap<Who, Client>,
}

/// Policies of the chart, one of their rules taken out, for marked objects only: many of them live side by side.
pub(crate) struct Variant<'a> {
    mark: String,
    /// The policies and their bindings.
    objects: Vec<Value>,
    /// The cases of the rules of these policies.
    pub(crate) cases: Vec<&'a Case>,
    /// The rule that is out.
    pub(crate) without: Option<String>,
}

impl Server {
    pub(crate) async fn new(scene: &e2e::harness::Scene) -> Self {
        let kubeconfig = scene.kubectl().kubeconfig();
        let connect = async |user: Option<&str>| {
            let mut kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
            for info in kubeconfig
                .auth_infos
                .iter_mut()
                .filter_map(|info| info.auth_info.as_mut())
            {
                info.impersonate = user.map(str::to_owned);
                // Only admission can refuse a write of this user.
                info.impersonate_groups = user.map(|_| vec!["system:masters".to_owned()]);
            }
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .unwrap();
            Client::try_from(config).unwrap()
        };
        let mut clients = BTreeMap::new();
        for who in Who::ALL {
            clients.insert(who, connect(Some(who.user())).await);
        }
        let roots = scene.api().get(CONFIG_MAP, "kube-root-ca.crt");
        let uid = &roots.unwrap().unwrap()["metadata"]["uid"];
        Self {
            namespace: scene.namespace().to_owned(),
            owner_uid: uid.as_str().unwrap().to_owned(),
            admin: connect(None).await,
            clients,
        }
    }

    /// Makes the objects that must exist before the variant's policies, then the policies.
    pub(crate) async fn prepare(&self, variant: &Variant<'_>) {
        for case in &variant.cases {
            if let Some(patch) = &case.existing {
                let object = self.object(case, variant, patch);
                let request = self
                    .path(&object)
                    .create(&PostParams::default(), bytes(&object));
                answer(&self.admin, request.unwrap())
                    .await
                    .unwrap_or_else(|error| panic!("{}: {error}", case.file));
            }
        }
        for object in &variant.objects {
            let patch = self.path(object).patch(
                name(object),
                &PatchParams::apply("chart-tests").force(),
                &Patch::Apply(object),
            );
            answer(&self.admin, patch.unwrap())
                .await
                .unwrap_or_else(|error| panic!("{object}: {error}"));
        }
    }

    /// Removes the objects of [`Self::prepare`].
    pub(crate) async fn clean(&self, variant: &Variant<'_>) {
        for object in &variant.objects {
            let request = self
                .path(object)
                .delete(name(object), &DeleteParams::default());
            answer(&self.admin, request.unwrap()).await.unwrap();
        }
        let existing = variant.cases.iter().filter(|it| it.existing.is_some());
        for case in existing {
            // Policies still apply for a moment, but they always allow the removal of finalizers.
            let object = self.object(case, variant, &json!({}));
            let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            let request = self
                .path(&object)
                .patch(name(&object), &PatchParams::default(), &patch);
            let _ = answer(&self.admin, request.unwrap()).await;
        }
    }

    /// The API server's answer to an attempt, as a dry run.
    pub(crate) async fn attempt(
        &self,
        variant: &Variant<'_>,
        case: &Case,
        attempt: &Attempt,
    ) -> Result<(), String> {
        let client = &self.clients[&attempt.who];
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let mut object = self.object(case, variant, &attempt.patch);
        let path = self.path(&object);
        if attempt.verb != Verb::Create {
            let request = path
                .get(name(&object), &kube::api::GetParams::default())
                .unwrap();
            object = answer(&self.admin, request).await?;
            json_patch::merge(&mut object, &attempt.patch);
            write_out(&mut object);
        }
        let options = DeleteParams::default().dry_run();
        let request = match attempt.verb {
            Verb::Create => path.create(&dry_run, bytes(&object)),
            Verb::Update => path.replace(name(&object), &dry_run, bytes(&object)),
            Verb::Status => {
                path.replace_subresource("status", name(&object), &dry_run, bytes(&object))
            }
            Verb::EphemeralContainers => path.replace_subresource(
                "ephemeralcontainers",
                name(&object),
                &dry_run,
                bytes(&object),
            ),
            Verb::ApplyStatus => {
                let fields = ["apiVersion", "kind", "status"];
                let fields = fields.map(|field| (field.to_owned(), object[field].clone()));
                let applied = Patch::Apply(Value::Object(fields.into_iter().collect()));
                let params = PatchParams::apply("somebody").force().dry_run();
                path.patch_subresource("status", name(&object), &params, &applied)
            }
            Verb::Delete => path.delete(name(&object), &options),
            Verb::DeleteCollection => {
                let this =
                    ListParams::default().fields(&format!("metadata.name={}", name(&object)));
                path.delete_collection(&options, &this)
            }
        };
        let mut request = request.unwrap();
        if attempt.options != json!({}) {
            let mut body = serde_json::from_slice(request.body()).unwrap();
            json_patch::merge(&mut body, &attempt.options);
            *request.body_mut() = bytes(&body);
        }
        if let Some(node) = attempt.who.node() {
            let value = http::HeaderValue::from_static(node);
            request.headers_mut().insert(NODE_NAME, value);
        }
        answer(client, request).await.map(drop)
    }

    /// The base of a case with a patch, marked as the variant's. `NAME` in it is the case's own name, which
    /// is also the whole name of objects without one.
    fn object(&self, case: &Case, variant: &Variant<'_>, patch: &Value) -> Value {
        let name = format!("{}-{}", variant.mark, case.file);
        let mut object = case.object(patch);
        json_patch::merge(
            &mut object,
            &json!({"metadata": {"labels": {MARK: variant.mark}}}),
        );
        if object["metadata"]["name"].is_null() {
            object["metadata"]["name"] = json!("NAME");
        }
        let text = object.to_string().replace("NAMESPACE", &self.namespace);
        let text = text.replace("NAME", &name);
        object = serde_json::from_str(&text.replace("OWNER_UID", &self.owner_uid)).unwrap();
        write_out(&mut object);
        object
    }

    fn path(&self, object: &Value) -> Request {
        let resource = resource_of(object);
        let cluster = [
            "ClusterRole",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
        ];
        let namespace =
            (!cluster.contains(&resource.kind.as_str())).then_some(self.namespace.as_str());
        Request::new(<DynamicObject as kube::Resource>::url_path(
            &resource, namespace,
        ))
    }
}

impl<'a> Variant<'a> {
    pub(crate) fn whole(cases: &'a [Case], policies: &[Value]) -> Self {
        let mark = "whole".to_owned();
        Self {
            objects: policies.iter().map(|it| marked(it, &mark, None)).collect(),
            mark,
            cases: cases.iter().collect(),
            without: None,
        }
    }

    /// The policies that see the objects of a rule's cases, without the rule.
    pub(crate) fn without(
        number: usize,
        message: &str,
        cases: &'a [Case],
        policies: &[Value],
    ) -> Self {
        let of_rule = cases.iter().filter(|it| it.message == message);
        let resources: Vec<_> = of_rule
            .map(|it| resource_of(&it.object(&json!({}))))
            .collect();
        let seeing = policies
            .iter()
            .filter(|it| resources.iter().any(|resource| sees(it, resource)));
        let names: BTreeSet<_> = seeing.clone().map(name).collect();
        let messages: BTreeSet<_> = seeing.flat_map(messages).collect();
        let is_chosen = |it: &&Value| {
            names.contains(
                it["spec"]["policyName"]
                    .as_str()
                    .unwrap_or_else(|| name(it)),
            )
        };
        let mark = format!("m{number:02}");
        let objects = policies.iter().filter(is_chosen);
        Self {
            objects: objects.map(|it| marked(it, &mark, Some(message))).collect(),
            mark,
            cases: cases
                .iter()
                .filter(|it| messages.contains(it.message.as_str()))
                .collect(),
            without: Some(message.to_owned()),
        }
    }
}

/// A policy or a binding of the chart as a variant's own.
fn marked(object: &Value, mark: &str, without: Option<&str>) -> Value {
    let mut object = object.clone();
    let rename = |name: &Value| json!(format!("{mark}.{}", name.as_str().unwrap()));
    object["metadata"] = json!({"name": rename(&object["metadata"]["name"])});
    let spec = &mut object["spec"];
    if spec["policyName"].is_string() {
        spec["policyName"] = rename(&spec["policyName"]);
        spec["matchResources"] = json!({"objectSelector": {"matchLabels": {MARK: mark}}});
    }
    let validations = spec.get_mut("validations").and_then(Value::as_array_mut);
    for validation in validations.into_iter().flatten() {
        if validation["message"].as_str() == without {
            validation["expression"] = json!("true");
        }
    }
    object
}

/// The messages of a policy's rules.
pub(crate) fn messages(policy: &Value) -> impl Iterator<Item = &str> {
    let validations = items(&policy["spec"]["validations"]).iter();
    validations.map(|validation| validation["message"].as_str().unwrap())
}

/// The resource of an object, by its types.
fn resource_of(object: &Value) -> ApiResource {
    let types = serde_json::from_value::<kube::core::TypeMeta>(object.clone()).unwrap();
    ApiResource::from_gvk(&GroupVersionKind::try_from(types).unwrap())
}

/// Whether a policy is about a resource or a subresource of it.
fn sees(policy: &Value, resource: &ApiResource) -> bool {
    let rules = items(&policy["spec"]["matchConstraints"]["resourceRules"]);
    let has = |list: &Value, wanted: &str| {
        items(list).iter().any(|it| {
            let it = it.as_str().unwrap();
            let (it, _) = it.split_once('/').unwrap_or((it, ""));
            it == "*" || it == wanted
        })
    };
    rules
        .iter()
        .any(|it| has(&it["apiGroups"], &resource.group) && has(&it["resources"], &resource.plural))
}

async fn answer(client: &Client, request: http::Request<Vec<u8>>) -> Result<Value, String> {
    client.request(request).await.map_err(|error| {
        let kube::Error::Api(status) = error else {
            panic!("the API server did not answer: {error}");
        };
        status.message
    })
}

fn bytes(object: &Value) -> Vec<u8> {
    serde_json::to_vec(object).unwrap()
}
