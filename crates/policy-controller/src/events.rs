//! Events on policies and classes. A lost event changes no decision.

use connectors_api::names;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use service_kit::events::{News, Publisher};
use tracing::info;

use crate::{
    classes::notes::{ClassRef, ToldOfClass},
    plan::tell::Told,
    seen::OwnerPolicy,
};

/// The action of this controller.
const ACTION: &str = "Synchronize";
/// The action about classes.
const CLASS_ACTION: &str = "Read";

/// Publishes events.
#[derive(Clone)]
pub struct Events(Publisher);

impl Events {
    /// Events of this controller.
    #[must_use]
    pub fn new(client: Client, instance: &str) -> Self {
        Self(Publisher::new(client, "policy-controller", instance))
    }

    /// Publishes events about a policy.
    pub async fn tell(&self, policy: &OwnerPolicy, events: Vec<Told>) {
        let about = ObjectReference {
            api_version: Some(names::API_VERSION.to_owned()),
            kind: Some("AccessPolicy".to_owned()),
            namespace: Some(policy.name.namespace.clone()),
            name: Some(policy.name.name.clone()),
            uid: Some(policy.uid.clone()),
            ..ObjectReference::default()
        };
        for Told { event, note } in events {
            info!(event = event.as_str(), policy = %policy.name, note, "told");
            let news = News {
                is_warning: event.is_warning(),
                reason: event.as_str().to_owned(),
                action: ACTION.to_owned(),
                note,
            };
            self.0.publish(news, &about).await;
        }
    }

    /// Publishes an event about a class.
    pub async fn tell_class(&self, class: &ClassRef, told: ToldOfClass) {
        let about = ObjectReference {
            api_version: Some(names::API_VERSION.to_owned()),
            kind: Some("ConnectorClass".to_owned()),
            name: Some(class.name.clone()),
            uid: Some(class.uid.clone()),
            ..ObjectReference::default()
        };
        let ToldOfClass { event, note } = told;
        info!(event = event.as_str(), class = class.name, note, "told");
        let news = News {
            is_warning: event.is_warning(),
            reason: event.as_str().to_owned(),
            action: CLASS_ACTION.to_owned(),
            note,
        };
        self.0.publish(news, &about).await;
    }
}
