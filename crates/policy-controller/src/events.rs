//! Events on policies and classes. A lost event changes no decision.

use connectors_api::names;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use service_kit::events::{
    News, Publisher,
    queue::{EventQueue, EventSender, queue},
};
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
pub struct Events(EventQueue);

impl Events {
    /// Events of this controller, and the task that sends them.
    #[must_use]
    pub fn new(client: Client, instance: &str) -> (Self, EventSender) {
        let (queue, sender) = queue(Publisher::new(client, "policy-controller", instance));
        (Self(queue), sender)
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
            self.0.publish(news, about.clone()).await;
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
        self.0.publish(news, about).await;
    }
}

#[cfg(test)]
mod tests {
    use connectors_api::{class_reason::ClassEvent, policy_reason::Event};
    use serde_json::{Value, json};
    use testkit::{ApiServer, Caller};

    use super::*;
    use crate::testing::{api_server, owner};

    fn events(server: &ApiServer) -> Events {
        Events::new(server.client(&Caller::admin()), "test").0
    }

    /// The object that the only event is about.
    fn regarding(server: &ApiServer) -> Value {
        let [event] = server.list("events").try_into().unwrap();
        event["regarding"].clone()
    }

    #[tokio::test]
    async fn an_event_names_its_policy_by_kind_name_and_uid() {
        let server = api_server();
        let told = Told {
            event: Event::PermissionRestored,
            note: "note".to_owned(),
        };
        events(&server).tell(&owner(), vec![told]).await;
        let expected = json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
            "namespace": "tools", "name": "p", "uid": "uid-p",
        });
        assert_eq!(regarding(&server), expected);
    }

    #[tokio::test]
    async fn an_event_names_its_class_by_kind_name_and_uid() {
        let server = api_server();
        let class = ClassRef {
            name: "harbor".to_owned(),
            uid: "uid-c".to_owned(),
        };
        let told = ToldOfClass {
            event: ClassEvent::TemplatesUnreadable,
            note: "note".to_owned(),
        };
        events(&server).tell_class(&class, told).await;
        let expected = json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "ConnectorClass",
            "name": "harbor", "uid": "uid-c",
        });
        assert_eq!(regarding(&server), expected);
    }
}
