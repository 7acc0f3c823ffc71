//! Events on requests, pods and policies. A lost event changes no decision.

use connectors_api::{AccessRequest, names, reason::Ready};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, Resource};
use service_kit::events::{
    News, Publisher,
    queue::{EventQueue, EventSender, queue},
};
use tracing::info;

use crate::{
    api::Name,
    plan::{Told, gate::GateTold, tell::EventObject},
};

/// The action of an event without a reason.
const UNSAID: &str = "Decide";

/// Publishes events.
#[derive(Clone)]
pub struct Events(EventQueue);

impl Events {
    /// Events of this controller, and the task that sends them.
    #[must_use]
    pub fn new(client: Client, instance: &str) -> (Self, EventSender) {
        let (queue, sender) = queue(Publisher::new(client, "request-controller", instance));
        (Self(queue), sender)
    }

    /// Publishes events about a request.
    pub async fn tell(&self, request: &AccessRequest, events: Vec<Told>) {
        for told in events {
            let about = reference(request, &told.about);
            let action = told.why.map_or(UNSAID, Ready::as_str);
            info!(
                event = told.kind.as_str(),
                reason = action,
                kind = about.kind.as_deref(),
                "told"
            );
            let news = News {
                is_warning: told.kind.is_warning(),
                reason: told.kind.as_str().to_owned(),
                action: action.to_owned(),
                note: told.note,
            };
            self.0.publish(news, about).await;
        }
    }

    /// Publishes an event about the scheduling gate of a pod.
    pub async fn gate(&self, pod: &Name, uid: &str, told: GateTold) {
        let about = pod_reference(pod, Some(uid.to_owned()));
        let action = match told {
            GateTold::Removed(end) => end.as_str(),
            GateTold::Kept => UNSAID,
        };
        let news = News {
            is_warning: told.is_warning(),
            reason: told.as_str().to_owned(),
            action: action.to_owned(),
            note: told.note(),
        };
        self.0.publish(news, about).await;
    }
}

fn pod_reference(pod: &Name, uid: Option<String>) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.clone()),
        name: Some(pod.name.clone()),
        uid,
        ..ObjectReference::default()
    }
}

fn reference(request: &AccessRequest, about: &EventObject) -> ObjectReference {
    let namespace = request.metadata.namespace.clone();
    match about {
        EventObject::Request => request.object_ref(&()),
        EventObject::Pod => {
            let pod = &request.spec.context.object_ref;
            pod_reference(&Name::new(&pod.namespace, &pod.name), pod.uid.clone())
        }
        EventObject::Policy { name, uid } => ObjectReference {
            api_version: Some(names::API_VERSION.to_owned()),
            kind: Some("AccessPolicy".to_owned()),
            namespace,
            name: Some(name.clone()),
            uid: Some(uid.clone()),
            ..ObjectReference::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_event_names_the_request_the_pod_or_the_policy_that_it_is_about() {
        let request = json!({
            "metadata": {"name": "r", "namespace": "tools", "uid": "r-uid", "resourceVersion": "7"},
            "spec": {
                "subject": {"kind": "ServiceAccount", "name": "builder"},
                "connectorRef": {"name": "harbor"},
                "context": {"objectRef": {
                    "apiVersion": "v1", "kind": "Pod", "namespace": "apps", "name": "p", "uid": "p-uid",
                }},
            },
        });
        let request: AccessRequest = serde_json::from_value(request).unwrap();
        let policy = EventObject::Policy {
            name: "q".to_owned(),
            uid: "q-uid".to_owned(),
        };
        let ours = "connectors.alauda.io/v1alpha1";
        let object = |api_version: &str, kind: &str, namespace: &str, name: &str| {
            json!({
                "apiVersion": api_version, "kind": kind, "namespace": namespace, "name": name,
                "uid": format!("{name}-uid"),
            })
        };
        for (about, expected) in [
            (
                EventObject::Request,
                object(ours, "AccessRequest", "tools", "r"),
            ),
            (EventObject::Pod, object("v1", "Pod", "apps", "p")),
            (policy, object(ours, "AccessPolicy", "tools", "q")),
        ] {
            let mut found: Value = serde_json::to_value(reference(&request, &about)).unwrap();
            found.as_object_mut().unwrap().remove("resourceVersion");
            assert_eq!(found, expected);
        }
    }
}
