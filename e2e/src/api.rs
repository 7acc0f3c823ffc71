//! The API server as tests use it: one connection for many calls, and no kubectl process for each of them.
//!
//! Calls block, because most tests are threads that wait. They run on a runtime of their own, so that
//! asynchronous tests can use them too. Commands and output of users stay with [`Kubectl`](crate::Kubectl).

mod call;
pub mod kinds;
#[cfg(test)]
pub(crate) mod tests;
mod user;

use std::{collections::BTreeSet, fmt, path::Path, time::Duration};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use crate::wait::{Deadline, TimedOut, poll};
use call::{ApiAnswer, ApiCall, blocking, exchange, exchange_all};
use kinds::ResourceKind;

pub use call::ApiError;
pub use user::ApiUser;

/// Bounds the API server's own work after a call: it serves a new kind, it fills a new namespace.
const SERVED: Duration = Duration::from_mins(1);

/// The parameters of every write. Unknown fields are refused, as kubectl does.
const WRITE: &str = "fieldManager=e2e&fieldValidation=Strict";

/// A connection to an API server, for calls in one namespace as one user.
#[derive(Clone)]
pub struct ApiClient {
    client: Client,
    config: Config,
    namespace: String,
    user: Option<ApiUser>,
}

impl fmt::Debug for ApiClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiClient")
            .field("namespace", &self.namespace)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

impl ApiClient {
    /// Connects as the user of a kubeconfig, for calls in a namespace.
    pub fn connect(kubeconfig: &Path, namespace: &str) -> Result<Self, ApiError> {
        let unusable = |source| ApiError::Kubeconfig {
            file: kubeconfig.to_path_buf(),
            source: Box::new(source),
        };
        let read = Kubeconfig::read_from(kubeconfig).map_err(|error| unusable(error.into()))?;
        let connected = blocking(async move {
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(read, &options)
                .await
                .map_err(kube::Error::from)?;
            Ok((Client::try_from(config.clone())?, config))
        })?;
        let (client, config) = connected.map_err(unusable)?;
        Ok(Self {
            client,
            config,
            namespace: namespace.to_owned(),
            user: None,
        })
    }

    /// The same connection for calls in another namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..self.clone()
        }
    }

    /// The same connection for calls as another user, by impersonation.
    #[must_use]
    pub fn acting_as(&self, user: &ApiUser) -> Self {
        Self {
            user: Some(user.clone()),
            ..self.clone()
        }
    }

    /// An asynchronous client for the caller's runtime, which acts as the user of the kubeconfig.
    ///
    /// It has connections of its own. One that is shared would stand still while its runtime is blocked, and the calls of
    /// this client would wait for it.
    pub fn asynchronous(&self) -> Result<Client, ApiError> {
        Client::try_from(self.config.clone()).map_err(|error| ApiError::NoClient(Box::new(error)))
    }

    /// An object; nothing when there is none, or no such kind.
    pub fn get(&self, kind: ResourceKind, name: &str) -> Result<Option<Value>, ApiError> {
        match self.object(ApiCall::get(self.path_to(kind, name)?)) {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The objects of a kind that a label selector chooses; an empty one chooses all.
    pub fn list(&self, kind: ResourceKind, labels: &str) -> Result<Vec<Value>, ApiError> {
        let path = kind.path(Some(&self.namespace));
        let list = self.object(ApiCall::get(selecting(path, labels)))?;
        Ok(kind.items(list))
    }

    /// The objects of a kind in all namespaces.
    pub fn list_everywhere(&self, kind: ResourceKind) -> Result<Vec<Value>, ApiError> {
        let list = self.object(ApiCall::get(kind.path(None)))?;
        Ok(kind.items(list))
    }

    /// A mark for each object of these kinds in these namespaces. No write was made between two equal answers.
    pub fn versions(
        &self,
        kinds: &[ResourceKind],
        namespaces: &[String],
    ) -> Result<BTreeSet<String>, ApiError> {
        let paths = kinds.iter().flat_map(|kind| {
            let path = |namespace: &String| kind.path(Some(namespace));
            namespaces.iter().map(path)
        });
        let lists = self.objects(paths.map(ApiCall::get).collect())?;
        let objects = lists
            .iter()
            .flat_map(|list| list["items"].as_array().into_iter().flatten());
        let mark = |object: &Value| {
            let metadata = &object["metadata"];
            format!("{} {}", metadata["uid"], metadata["resourceVersion"])
        };
        Ok(objects.map(mark).collect())
    }

    /// Creates an object, and returns the stored one.
    pub fn create(&self, object: &Value) -> Result<Value, ApiError> {
        let path = format!("{}?{WRITE}", self.path_of(object)?);
        self.object(ApiCall::post(path, object))
    }

    /// Asks whether an object could be created, and gives the warnings. Nothing is stored.
    pub fn try_create(&self, object: &Value) -> Result<Vec<String>, ApiError> {
        let path = format!("{}?{WRITE}&dryRun=All", self.path_of(object)?);
        Ok(self.send(ApiCall::post(path, object))?.warnings)
    }

    /// Creates an object or changes it to this content, by server-side apply.
    pub fn apply(&self, object: &Value) -> Result<Value, ApiError> {
        self.object(self.apply_call(object, WRITE)?)
    }

    /// The same for an object with fields that another client set.
    pub fn apply_over(&self, object: &Value) -> Result<Value, ApiError> {
        self.object(self.apply_call(object, &format!("{WRITE}&force=true"))?)
    }

    /// Applies several objects in no order.
    pub fn apply_all(&self, objects: &[Value]) -> Result<(), ApiError> {
        let calls = objects.iter().map(|object| self.apply_call(object, WRITE));
        self.objects(calls.collect::<Result<_, _>>()?).map(drop)
    }

    fn apply_call(&self, object: &Value, query: &str) -> Result<ApiCall, ApiError> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = below(&self.path_of(object)?, name)?;
        Ok(ApiCall::apply(format!("{path}?{query}"), object))
    }

    /// Changes fields of an object by a merge patch.
    pub fn patch(&self, kind: ResourceKind, name: &str, fields: &Value) -> Result<Value, ApiError> {
        let path = self.path_to(kind, name)?;
        self.object(ApiCall::merge(format!("{path}?{WRITE}"), fields))
    }

    /// Changes fields of an object's status by a merge patch.
    pub fn patch_status(
        &self,
        kind: ResourceKind,
        name: &str,
        fields: &Value,
    ) -> Result<Value, ApiError> {
        let path = self.path_to(kind, name)?;
        let fields = json!({"status": fields});
        self.object(ApiCall::merge(format!("{path}/status?{WRITE}"), &fields))
    }

    /// Deletes an object, which may take its time to end.
    pub fn delete(&self, kind: ResourceKind, name: &str) -> Result<(), ApiError> {
        let path = self.path_to(kind, name)?;
        self.send(ApiCall::delete(path)).map(drop)
    }

    /// Deletes an object without time to end.
    pub fn delete_now(&self, kind: ResourceKind, name: &str) -> Result<(), ApiError> {
        let path = self.path_to(kind, name)?;
        self.send(ApiCall::delete_now(path)).map(drop)
    }

    /// Deletes all objects of a kind in the namespace.
    pub fn delete_all(&self, kind: ResourceKind) -> Result<(), ApiError> {
        let path = kind.path(Some(&self.namespace));
        self.send(ApiCall::delete(path)).map(drop)
    }

    /// Deletes the objects that a label selector chooses without time to end.
    pub fn delete_selected_now(&self, kind: ResourceKind, labels: &str) -> Result<(), ApiError> {
        let path = kind.path(Some(&self.namespace));
        self.send(ApiCall::delete_now(selecting(path, labels)))
            .map(drop)
    }

    /// Waits until an object is there that the test accepts, and gives it.
    pub fn wait_for(
        &self,
        what: &str,
        (kind, name): (ResourceKind, &str),
        limit: Duration,
        accepts: impl Fn(&Value) -> bool,
    ) -> Result<Value, TimedOut> {
        let look = || match self.get(kind, name) {
            Ok(Some(object)) if accepts(&object) => Ok(object),
            Ok(Some(object)) => Err(object.to_string()),
            Ok(None) => Err(format!("no {kind} {name}")),
            Err(error) => Err(error.to_string()),
        };
        poll(what, Deadline::after(limit), look)
    }

    /// Waits until a label selector chooses objects that the test accepts, and gives them.
    pub fn wait_for_list(
        &self,
        what: &str,
        (kind, labels): (ResourceKind, &str),
        limit: Duration,
        accepts: impl Fn(&[Value]) -> bool,
    ) -> Result<Vec<Value>, TimedOut> {
        let look = || match self.list(kind, labels) {
            Ok(objects) if accepts(&objects) => Ok(objects),
            Ok(objects) => Err(Value::from(objects).to_string()),
            Err(error) => Err(error.to_string()),
        };
        poll(what, Deadline::after(limit), look)
    }

    /// Waits until an object is gone.
    pub fn wait_until_gone(
        &self,
        kind: ResourceKind,
        name: &str,
        limit: Duration,
    ) -> Result<(), TimedOut> {
        let what = format!("the end of {kind} {name}");
        poll(&what, Deadline::after(limit), || {
            match self.get(kind, name) {
                Ok(None) => Ok(()),
                Ok(Some(object)) => Err(object.to_string()),
                Err(error) => Err(error.to_string()),
            }
        })
    }

    /// The output of a pod's container.
    pub fn logs(&self, pod: &str) -> Result<String, ApiError> {
        let path = self.path_to(kinds::POD, pod)?;
        self.text(&format!("{path}/log"))
    }

    /// The text at a path.
    pub fn text(&self, path: &str) -> Result<String, ApiError> {
        let answer = self.send(ApiCall::get(path.to_owned()))?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// Posts to a path, such as one of a service behind the API server.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.object(ApiCall::post(path.to_owned(), body))
    }

    /// Whether a user has the right of these `resourceAttributes`.
    pub fn allows(&self, user: &ApiUser, attributes: &Value) -> Result<bool, ApiError> {
        let review = self.object(review(user, attributes))?;
        Ok(is_allowed(&review))
    }

    /// Many such questions side by side; the answers have their order.
    pub fn allows_each<'a>(
        &self,
        questions: impl IntoIterator<Item = (&'a ApiUser, &'a Value)>,
    ) -> Result<Vec<bool>, ApiError> {
        let calls = questions
            .into_iter()
            .map(|(user, attributes)| review(user, attributes));
        let reviews = self.objects(calls.collect())?;
        Ok(reviews.iter().map(is_allowed).collect())
    }

    /// Creates a namespace, and waits until pods can be created in it.
    pub fn create_namespace(&self, name: &str) -> Result<(), ApiError> {
        self.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))?;
        // Pods are refused until the namespace's default service account is there.
        let account = (kinds::SERVICE_ACCOUNT, "default");
        let what = format!("the default service account of {name}");
        self.in_namespace(name)
            .wait_for(&what, account, SERVED, |_| true)?;
        Ok(())
    }

    /// Applies the definition of a kind, and waits until its objects are served.
    pub fn define(&self, definition: &Value) -> Result<(), ApiError> {
        let defined = self.apply_over(definition)?;
        let name = defined["metadata"]["name"].as_str().unwrap_or_default();
        let is_served = |definition: &Value| {
            let conditions = definition["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|it| it["type"] == "Established" && it["status"] == "True")
        };
        let definition = (kinds::DEFINITION, name);
        self.wait_for(
            &format!("{name} to be served"),
            definition,
            SERVED,
            is_served,
        )?;
        Ok(())
    }

    fn path_to(&self, kind: ResourceKind, name: &str) -> Result<String, ApiError> {
        below(&kind.path(Some(&self.namespace)), name)
    }

    /// Where an object and those of its kind are.
    fn path_of(&self, object: &Value) -> Result<String, ApiError> {
        let namespace = object["metadata"]["namespace"].as_str();
        Ok(ResourceKind::of(object)?.path(Some(namespace.unwrap_or(&self.namespace))))
    }

    fn object(&self, call: ApiCall) -> Result<Value, ApiError> {
        self.send(call)?.object()
    }

    fn send(&self, call: ApiCall) -> Result<ApiAnswer, ApiError> {
        blocking(exchange(self.client.clone(), self.user.clone(), call))?
    }

    fn objects(&self, calls: Vec<ApiCall>) -> Result<Vec<Value>, ApiError> {
        let (client, user) = (self.client.clone(), self.user.clone());
        let answers = blocking(exchange_all(client, user, calls))?;
        answers.into_iter().map(|it| it?.object()).collect()
    }
}

/// The path of one object; an empty name would lead to all of them.
fn below(path: &str, name: &str) -> Result<String, ApiError> {
    if name.is_empty() {
        return Err(ApiError::Unnamed(path.to_owned()));
    }
    Ok(format!("{path}/{name}"))
}

/// The path of the objects that a label selector chooses.
fn selecting(path: String, labels: &str) -> String {
    if labels.is_empty() {
        return path;
    }
    // No letter of a label needs to be escaped, and a request with any other is refused.
    format!("{path}?labelSelector={labels}")
}

fn review(user: &ApiUser, attributes: &Value) -> ApiCall {
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews".to_owned();
    ApiCall::post(path, &user.review(attributes))
}

fn is_allowed(review: &Value) -> bool {
    review["status"]["allowed"] == true
}
