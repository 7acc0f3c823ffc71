//! Events on requests, pods and policies. That one is lost changes no decision.

use std::time::Duration;

use connectors_api::{AccessRequest, names};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use service_kit::report;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::plan::{Told, tell::About};

/// Nobody waits longer for an event.
const LIMIT: Duration = Duration::from_secs(5);
/// What was done, where why it was done is not told.
const UNSAID: &str = "Decide";
/// The longest note that the API server takes.
const LONGEST: usize = 1024;

/// Tells people.
#[derive(Clone)]
pub struct Events {
    recorder: Recorder,
}

impl Events {
    /// Events of this controller.
    #[must_use]
    pub fn new(client: Client, instance: &str) -> Self {
        let reporter = Reporter {
            controller: "request-controller".to_owned(),
            instance: Some(instance.to_owned()),
        };
        Self {
            recorder: Recorder::new(client, reporter),
        }
    }

    /// Publishes events about a request.
    pub async fn tell(&self, request: &AccessRequest, events: Vec<Told>) {
        for told in events {
            let about = reference(request, &told.about);
            let action = told
                .why
                .map_or(UNSAID, connectors_api::reason::Ready::as_str);
            info!(
                event = told.kind.as_str(),
                reason = action,
                kind = about.kind.as_deref(),
                "told"
            );
            let event = Event {
                type_: if told.kind.is_warning() {
                    EventType::Warning
                } else {
                    EventType::Normal
                },
                reason: told.kind.as_str().to_owned(),
                note: Some(fitting(told.note)),
                action: action.to_owned(),
                secondary: None,
            };
            match timeout(LIMIT, self.recorder.publish(&event, &about)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => warn!(error = report(&error), "event not published"),
                Err(_) => warn!("event not published in time"),
            }
        }
    }
}

fn fitting(mut note: String) -> String {
    while note.len() > LONGEST {
        note.pop();
    }
    note
}

fn reference(request: &AccessRequest, about: &About) -> ObjectReference {
    let namespace = request.metadata.namespace.clone();
    match about {
        About::Request => request.object_ref(&()),
        About::Pod => {
            let pod = &request.spec.context.object_ref;
            ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                namespace: Some(pod.namespace.clone()),
                name: Some(pod.name.clone()),
                uid: pod.uid.clone(),
                ..ObjectReference::default()
            }
        }
        About::Policy { name, uid } => ObjectReference {
            api_version: Some(names::API_VERSION.to_owned()),
            kind: Some("AccessPolicy".to_owned()),
            namespace,
            name: Some(name.clone()),
            uid: Some(uid.clone()),
            ..ObjectReference::default()
        },
    }
}
