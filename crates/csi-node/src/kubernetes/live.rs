//! The real API server.

use std::{fmt, time::Duration};

use connectors_api::{
    AccessRequest, Connector, ConnectorClass, PodIdentity, parse, request_creation::refusal,
};
use k8s_openapi::api::{
    authentication::v1::TokenReviewStatus, authorization::v1::SubjectAccessReviewSpec,
    core::v1::ObjectReference, storage::v1::CSIDriver,
};
use kube::{Api, Client, Resource, api::PostParams};
use serde_json::Value;
use service_kit::{
    events::{News, Publisher},
    gets, report,
    retry::{Backoff, CallError, RetryPolicy},
    reviews,
    watches::{Guarded, Parse, Plain},
};
use tracing::warn;

use super::{Created, EventWord, Kubernetes, Lookup, NoAnswer};
use crate::{
    metrics::Metrics,
    volume::{AUDIENCE, Token},
};

#[cfg(test)]
mod tests;

/// The source of events of the node plugin: their field `reportingController`.
const REPORTER: &str = "connectors.alauda.io/csi-node";

/// The kubelet waits. So an attempt that hangs is soon given up, and the waiting call tries again itself.
const CALLS: RetryPolicy = RetryPolicy {
    attempts: 3,
    attempt: Duration::from_secs(5),
    total: Duration::from_secs(10),
    pauses: Backoff::new(Duration::from_millis(100), Duration::from_secs(1)),
};
static POST: PostParams = PostParams {
    dry_run: false,
    field_manager: None,
};

/// A client for one purpose.
#[derive(Clone)]
pub(crate) struct Live {
    client: Client,
    events: Publisher,
    metrics: Metrics,
}

/// Requests are read strictly: one with an unknown field is not ours.
#[derive(Clone, Copy, Debug)]
enum Strict {}

impl Parse<AccessRequest> for Strict {
    fn parse(json: &str) -> Result<AccessRequest, String> {
        let value: Value =
            serde_json::from_str(json).map_err(|_| "cannot be read as JSON".to_owned())?;
        // The error quotes values; its path does not.
        parse::object(&value).map_err(|error| format!("{}: cannot be read", error.path))
    }
}

impl Live {
    /// Events name the driver and its node.
    pub(crate) fn new(client: Client, node: &str, metrics: Metrics) -> Self {
        Self {
            events: Publisher::new(client.clone(), REPORTER, node),
            client,
            metrics,
        }
    }

    async fn lookup<K, P>(
        &self,
        api: Api<Guarded<K, P>>,
        what: &str,
        name: &str,
    ) -> Result<Lookup<K>, NoAnswer>
    where
        K: Resource + Clone + fmt::Debug,
        P: Parse<K>,
    {
        let found = CALLS
            .call(format!("get {what} {name}"), || gets::find(&api, name))
            .await
            .map_err(|error| no_answer(&error))?;
        let Some(found) = found else {
            return Ok(Lookup::Absent);
        };
        Ok(match found.object {
            Ok(object) => Lookup::Found(Box::new(object)),
            Err(unreadable) => {
                warn!(
                    what,
                    name,
                    problem = unreadable.problem,
                    "object cannot be read"
                );
                Lookup::Unreadable
            }
        })
    }
}

fn no_answer(error: &CallError) -> NoAnswer {
    warn!(error = report(error), "the Kubernetes API gave no answer");
    NoAnswer
}

impl Kubernetes for Live {
    async fn review_token(&self, token: &Token) -> Result<TokenReviewStatus, NoAnswer> {
        let review = reviews::review_token(&self.client, &CALLS, token.expose(), AUDIENCE);
        review.await.map_err(|error| no_answer(&error))
    }

    async fn review_access(&self, question: SubjectAccessReviewSpec) -> Result<bool, NoAnswer> {
        let attributes = question.resource_attributes.clone().unwrap_or_default();
        let review = reviews::may(&self.client, &CALLS, (&question).into(), &attributes);
        review.await.map_err(|error| no_answer(&error))
    }

    async fn create_request(
        &self,
        namespace: &str,
        request: &AccessRequest,
    ) -> Result<Created, NoAnswer> {
        let api: Api<AccessRequest> = Api::namespaced(self.client.clone(), namespace);
        let made = CALLS
            .call(format!("create an AccessRequest in {namespace}"), || {
                api.create(&POST, request)
            })
            .await;
        let created = match made {
            Ok(_) => Ok(Created::Made),
            Err(error) => match error.answer().and_then(refusal) {
                Some(Created::Exists) => Ok(Created::Exists),
                Some(refused) => {
                    warn!(error = report(&error), "access request refused");
                    Ok(refused)
                }
                None => Err(no_answer(&error)),
            },
        };
        self.metrics
            .asked(created.map_or("no_answer", Created::as_str));
        created
    }

    async fn request(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Lookup<AccessRequest>, NoAnswer> {
        let api: Api<Guarded<AccessRequest, Strict>> =
            Api::namespaced(self.client.clone(), namespace);
        self.lookup(api, "AccessRequest", name).await
    }

    async fn connector(&self, namespace: &str, name: &str) -> Result<Lookup<Connector>, NoAnswer> {
        let api: Api<Guarded<Connector, Plain>> = Api::namespaced(self.client.clone(), namespace);
        self.lookup(api, "Connector", name).await
    }

    async fn class(&self, name: &str) -> Result<Lookup<ConnectorClass>, NoAnswer> {
        let api: Api<Guarded<ConnectorClass, Plain>> = Api::all(self.client.clone());
        self.lookup(api, "ConnectorClass", name).await
    }

    async fn driver(&self, name: &str) -> Result<Lookup<CSIDriver>, NoAnswer> {
        let api: Api<Guarded<CSIDriver, Plain>> = Api::all(self.client.clone());
        self.lookup(api, "CSIDriver", name).await
    }

    fn tell(&self, pod: &PodIdentity, word: EventWord, note: String) {
        let events = self.events.clone();
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(pod.namespace.clone()),
            name: Some(pod.name.clone()),
            uid: Some(pod.uid.clone()),
            ..ObjectReference::default()
        };
        let news = News {
            is_warning: word.is_warning(),
            reason: word.as_str().to_owned(),
            action: "MountVolume".to_owned(),
            note,
        };
        tokio::spawn(async move { events.publish(news, &regarding).await });
    }
}
