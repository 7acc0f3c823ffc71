//! Events for people. A lost event has no other effect.
//!
//! Invariant: a repeated event with the same note is counted, and one with another note is a new event.

pub mod queue;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::time::timeout;
use tracing::warn;

use crate::report;

/// The longest time that a caller waits for an event to be sent.
const LIMIT: Duration = Duration::from_secs(5);
/// The longest note that the API server takes.
const LONGEST: usize = 1024;
/// The number of remembered notes. A forgotten note is sent as a new event.
const NOTES: usize = 256;
/// The number of objects whose events a recorder remembers. It keeps each event whole for minutes, and looks through all
/// of them with each new one.
const OBJECTS: usize = 32;

/// Something to tell about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Whether it needs attention.
    pub is_warning: bool,
    /// Why it happened, as one word.
    pub reason: String,
    /// The action, as one word.
    pub action: String,
    /// The sentence.
    pub note: String,
}

/// Tells people.
#[derive(Clone)]
pub struct Publisher {
    client: Client,
    reporter: Reporter,
    // A recorder treats all events of one object and reason as the same, even with other notes. So each note
    // has a recorder of its own.
    recorders: Arc<Mutex<VecDeque<NoteRecorder>>>,
}

/// The recorder of one note.
struct NoteRecorder {
    note: String,
    recorder: Recorder,
    /// The objects that it was told about.
    objects: Vec<ObjectReference>,
}

impl Publisher {
    /// Events by this controller, from this instance of it.
    #[must_use]
    pub fn new(client: Client, controller: &str, instance: &str) -> Self {
        Self {
            client,
            reporter: Reporter {
                controller: controller.to_owned(),
                instance: Some(instance.to_owned()),
            },
            recorders: Arc::default(),
        }
    }

    /// Publishes an event about an object.
    pub async fn publish(&self, news: News, about: &ObjectReference) {
        let News {
            is_warning,
            reason,
            action,
            mut note,
        } = news;
        note.truncate(note.floor_char_boundary(LONGEST));
        let recorder = self.recorder(&note, about);
        let event = Event {
            type_: if is_warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason,
            note: Some(note),
            action,
            secondary: None,
        };
        match timeout(LIMIT, recorder.publish(&event, about)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(error = report(&error), "event not published"),
            Err(_) => warn!("event not published in time"),
        }
    }

    /// The recorder of a note. A full one is replaced: then an event that was told is told anew, not counted.
    fn recorder(&self, note: &str, about: &ObjectReference) -> Recorder {
        let mut recorders = self
            .recorders
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = recorders.iter().position(|it| it.note == note);
        let known = known.and_then(|it| recorders.remove(it));
        let has_room = |it: &NoteRecorder| it.objects.len() < OBJECTS || it.objects.contains(about);
        let mut of_note = known.filter(has_room).unwrap_or_else(|| NoteRecorder {
            note: note.to_owned(),
            recorder: Recorder::new(self.client.clone(), self.reporter.clone()),
            objects: Vec::new(),
        });
        if !of_note.objects.contains(about) {
            of_note.objects.push(about.clone());
        }
        let recorder = of_note.recorder.clone();
        recorders.truncate(NOTES - 1);
        recorders.push_front(of_note);
        recorder
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::Value;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;
    use crate::fake_api::{answer, body, client};

    /// A publisher, and the events that it sends: the method, the note, and the count.
    pub(super) fn publisher() -> (Publisher, UnboundedReceiver<(String, String, u64)>) {
        let (sender, sent) = unbounded_channel();
        let client = client(move |request| {
            let sender = sender.clone();
            async move {
                let method = request.method().to_string();
                let bytes = body(request).await;
                let event: Value = serde_json::from_slice(&bytes).unwrap();
                let count = event["series"]["count"].as_u64().unwrap_or(1);
                let note = event["note"].as_str().unwrap().to_owned();
                sender.send((method, note, count)).unwrap();
                answer(StatusCode::CREATED, bytes)
            }
        });
        (Publisher::new(client, "door-keeper", "one"), sent)
    }

    pub(super) fn news(note: &str) -> News {
        News {
            is_warning: false,
            reason: "Opened".to_owned(),
            action: "Open".to_owned(),
            note: note.to_owned(),
        }
    }

    pub(super) fn door() -> ObjectReference {
        ObjectReference {
            namespace: Some("house".to_owned()),
            name: Some("door".to_owned()),
            ..ObjectReference::default()
        }
    }

    #[tokio::test]
    async fn equal_notes_are_counted_and_others_are_told() {
        let (publisher, mut sent) = publisher();
        for note in ["to ann", "to bob", "to ann", ""] {
            publisher.publish(news(note), &door()).await;
        }
        for (method, note, count) in [
            ("POST", "to ann", 1),
            ("POST", "to bob", 1),
            ("PATCH", "to ann", 2),
            ("POST", "", 1),
        ] {
            let sent = sent.recv().await.unwrap();
            assert_eq!(sent, (method.to_owned(), note.to_owned(), count));
        }
    }

    #[tokio::test]
    async fn a_note_that_is_too_long_is_cut_between_letters() {
        let (publisher, mut sent) = publisher();
        publisher.publish(news(&"é".repeat(600)), &door()).await;
        publisher.publish(news(&"x".repeat(1025)), &door()).await;
        assert_eq!(sent.recv().await.unwrap().1.len(), 1024);
        assert_eq!(sent.recv().await.unwrap().1.len(), 1024);
    }

    #[tokio::test]
    async fn only_so_many_notes_are_remembered_and_those_in_use_longest() {
        let (publisher, mut sent) = publisher();
        let mut told = async |note: &str| {
            publisher.publish(news(note), &door()).await;
            sent.recv().await.unwrap().0
        };
        assert_eq!(told("often").await, "POST");
        assert_eq!(told("once").await, "POST");
        for number in 0..NOTES - 1 {
            told(&number.to_string()).await;
            assert_eq!(told("often").await, "PATCH");
        }
        assert_eq!(told("once").await, "POST", "it was forgotten");
    }

    #[tokio::test]
    async fn a_note_about_any_number_of_objects_is_remembered_for_a_few() {
        let (publisher, mut sent) = publisher();
        let mut told = async |number: usize| {
            let about = ObjectReference {
                uid: Some(number.to_string()),
                ..door()
            };
            publisher.publish(news("to all"), &about).await;
            let kept: Vec<_> = {
                let recorders = publisher.recorders.lock().unwrap();
                recorders.iter().map(|it| it.objects.len()).collect()
            };
            (sent.recv().await.unwrap().0, kept)
        };
        for number in 1..=OBJECTS {
            assert_eq!(told(number).await, ("POST".to_owned(), vec![number]));
        }
        // One that is told again takes no further room.
        assert_eq!(told(1).await, ("PATCH".to_owned(), vec![OBJECTS]));
        assert_eq!(told(0).await, ("POST".to_owned(), vec![1]));
        assert_eq!(told(0).await, ("PATCH".to_owned(), vec![1]));
        assert_eq!(
            told(1).await,
            ("POST".to_owned(), vec![2]),
            "it was forgotten"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_nobody_takes_holds_nobody_up() {
        let publisher = Publisher::new(client(|_| std::future::pending()), "door-keeper", "one");
        let began = tokio::time::Instant::now();
        publisher.publish(news("to ann"), &door()).await;
        assert_eq!(began.elapsed(), LIMIT);
    }
}
