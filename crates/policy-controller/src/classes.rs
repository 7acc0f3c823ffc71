//! Tells the authors of classes which templates of their files cannot be parsed.
//!
//! A class has no status of ours, so an event is all. Each state of a class costs one event, however many templates are
//! broken. Events leave one by one with a pause, and the states that a class had in the meantime are not told.

pub mod notes;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use connector_files::UnreadableTemplates;
use connectors_api::ConnectorClass;
use kube::{Api, Client, Resource as _, runtime::watcher::Config};
use service_kit::{
    controller::{Leads, feeds::Feeds},
    shutdown::Stop,
    watches::{Change, Guarded, WatchMetrics},
};
use tokio::time::{MissedTickBehavior, interval};

use crate::events::Events;
use notes::ClassNotes;

/// The pause between two events about classes.
pub const PAUSE: Duration = Duration::from_secs(1);

/// The parts that tell about classes.
pub struct ClassTeller {
    /// The Kubernetes API.
    pub client: Client,
    /// Publishes events.
    pub events: Events,
    /// Only the leader tells.
    pub leads: Leads,
    /// The watch's own troubles.
    pub metrics: WatchMetrics,
}

/// The notes, which the watch and the events share.
type SharedNotes = Arc<Mutex<ClassNotes>>;

impl ClassTeller {
    /// Follows classes until it is time to end. No other task waits for it.
    pub async fn run(self, stop: Stop) {
        let notes = SharedNotes::default();
        let mut feeds = Feeds::new(Arc::clone(&notes), |_, ()| {}, &[], &self.metrics);
        let classes = Api::all(self.client.clone());
        feeds.follow("connectorclasses", classes, Config::default(), take);
        feeds.beside(self.tell(notes));
        feeds.run(stop).await;
    }

    fn tell(&self, notes: SharedNotes) -> impl Future<Output = ()> + use<> {
        let (events, leads) = (self.events.clone(), Arc::clone(&self.leads));
        async move {
            let mut turns = interval(PAUSE);
            turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                turns.tick().await;
                if !leads() {
                    continue;
                }
                let due = locked(&notes).next_due();
                if let Some((class, told)) = due {
                    events.tell_class(&class, told).await;
                }
            }
        }
    }
}

fn take(notes: &SharedNotes, change: Change<Guarded<ConnectorClass>>) {
    match change {
        Change::There(name, class) => {
            let uid = class.meta().uid.clone().unwrap_or_default();
            let Ok(class) = class.object else {
                // Nothing is known about its templates, and no pod gets files from it.
                return locked(notes).gone(&name.name);
            };
            let found = UnreadableTemplates::of(&class.spec);
            let problem = (!found.is_empty()).then(|| found.to_string());
            locked(notes).there(&name.name, &uid, problem);
        }
        Change::Gone(name) => locked(notes).gone(&name.name),
    }
}

fn locked(notes: &SharedNotes) -> MutexGuard<'_, ClassNotes> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}
