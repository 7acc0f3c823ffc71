//! Events on policies. That one is lost changes no decision.

use std::time::Duration;

use connectors_api::names;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use service_kit::report;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::{plan::tell::Told, seen::Owner};

/// Nobody waits longer for an event.
const LIMIT: Duration = Duration::from_secs(5);
/// What this controller does.
const ACTION: &str = "Synchronize";
/// The longest note that the API server takes.
const LONGEST: usize = 1024;

/// Tells people.
#[derive(Clone)]
pub struct Events {
    client: Client,
    reporter: Reporter,
}

impl Events {
    /// Events of this controller.
    #[must_use]
    pub fn new(client: Client, instance: &str) -> Self {
        let reporter = Reporter {
            controller: "policy-controller".to_owned(),
            instance: Some(instance.to_owned()),
        };
        Self { client, reporter }
    }

    /// Publishes events about a policy.
    pub async fn tell(&self, policy: &Owner, events: Vec<Told>) {
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
            let event = Event {
                type_: if event.is_warning() {
                    EventType::Warning
                } else {
                    EventType::Normal
                },
                reason: event.as_str().to_owned(),
                note: Some(fitting(note)),
                action: ACTION.to_owned(),
                secondary: None,
            };
            // A recorder that has told something of a policy tells the next as the same once more, whatever
            // its words; and who got or lost what is in the words alone.
            let recorder = Recorder::new(self.client.clone(), self.reporter.clone());
            match timeout(LIMIT, recorder.publish(&event, &about)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => warn!(error = report(&error), "event not published"),
                Err(_) => warn!("event not published in time"),
            }
        }
    }
}

fn fitting(mut note: String) -> String {
    note.truncate(note.floor_char_boundary(LONGEST));
    note
}
