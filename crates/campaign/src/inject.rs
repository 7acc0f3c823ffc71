//! Injects a plan's faults at the API server, and records every point at which a fault could be injected.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use testkit::{CallFault, CallPoint, EventFault, EventKind, EventPoint, Faults, Verb};
use tokio::{sync::mpsc::UnboundedSender, time::Instant};

use crate::neighbour;
use crate::plan::{CallId, CallTrouble, EventId, EventTrouble, Fault, Plan, Undeletable};
use crate::stage::LOUD;

/// The delay of a late call.
const LATE_CALL: Duration = Duration::from_secs(4);
/// A limit far above the calls of any run. Further calls are not answered, so that the virtual time can
/// advance.
const MOST_CALLS: usize = 60_000;
const LATE_EVENT: Duration = Duration::from_secs(2);
const VERY_LATE_EVENT: Duration = Duration::from_mins(1);

/// The points that were met, and the faults that occurred.
#[derive(Clone, Debug, Default)]
pub struct Met {
    /// Calls in their order, each once.
    pub calls: Vec<CallId>,
    /// Lines of watches in their order, each once.
    pub events: Vec<EventId>,
    /// The number of faults that occurred.
    pub faults: usize,
    /// Their times, each with the index of the fault in the plan.
    pub incidents: Vec<(Instant, usize)>,
    /// The total number of calls.
    pub total: usize,
}

impl Met {
    /// True when a process repeats calls without a pause.
    #[must_use]
    pub const fn is_endless(&self) -> bool {
        self.total > MOST_CALLS
    }
}

#[derive(Debug, Default)]
struct State {
    met: Met,
    known_calls: BTreeSet<CallId>,
    /// The number of matching calls of each fault.
    spent: BTreeMap<usize, usize>,
    /// The status code with which every attempt to record something is refused from now on.
    unrecorded: Option<u16>,
    /// The objects whose deletion is refused from now on.
    kept: Option<Undeletable>,
}

impl State {
    /// The status code for a call that is always refused.
    fn refuses(&self, id: &CallId, point: &CallPoint) -> Option<u16> {
        // The plan is about the scenario's own objects.
        if point.namespace == LOUD {
            return None;
        }
        let recorded = id.resource == "accessrequests.status" && point.verb.writes();
        let deleted = point.verb == Verb::Delete;
        let kept = self.kept.filter(|it| deleted && it.as_str() == id.resource);
        let unrecorded = self.unrecorded.filter(|_| recorded);
        unrecorded.or(kept.map(|_| 403))
    }
}

/// Injects the faults of a plan.
pub struct Injector {
    faults: Vec<Fault>,
    /// The duration of every call.
    price: Option<Duration>,
    state: Mutex<State>,
    /// Receives every process that is killed.
    killed: UnboundedSender<String>,
}

impl Injector {
    /// The faults of this plan; `killed` receives the processes that are killed.
    #[must_use]
    pub fn new(plan: &Plan, killed: UnboundedSender<String>) -> Arc<Self> {
        Arc::new(Self {
            faults: plan.faults.clone(),
            price: plan.has_neighbour().then_some(neighbour::CALL),
            state: Mutex::default(),
            killed,
        })
    }

    /// The points met, and the faults that occurred so far.
    #[must_use]
    pub fn met(&self) -> Met {
        self.state().met.clone()
    }

    /// From now on, every attempt to record something in a request is refused.
    pub fn refuse_records(&self, forbidden: bool) {
        self.state().unrecorded = Some(if forbidden { 403 } else { 409 });
    }

    /// From now on, every deletion of these objects is refused.
    pub fn refuse_deletions(&self, what: Undeletable) {
        self.state().kept = Some(what);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, process: &str) {
        // After the end of a run there is no receiver.
        let _ = self.killed.send(process.to_owned());
    }
}

/// The identifier of a call; a subresource follows a dot.
#[must_use]
pub fn call_id(point: &CallPoint) -> CallId {
    let subresource = point.subresource.iter().map(|it| format!(".{it}"));
    CallId {
        verb: point.verb.as_str().to_owned(),
        // For a call that is not about an object, the path.
        resource: point.resource.replace('/', "~") + &subresource.collect::<String>(),
        namespace: point.namespace.clone(),
        name: name(&point.resource, &point.name),
        nth: point.nth,
    }
}

/// The name of an event ends with its time of creation, which is removed.
fn name(resource: &str, name: &str) -> String {
    match name.rsplit_once('.') {
        Some((about, _)) if resource == "events" => about.to_owned(),
        Some(_) | None => name.to_owned(),
    }
}

fn event_id(point: &EventPoint) -> EventId {
    EventId {
        kind: kind(point.kind).to_owned(),
        resource: point.resource.clone(),
        namespace: point.namespace.clone(),
        name: point.name.clone(),
        nth: point.nth,
    }
}

const fn kind(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Added => "added",
        EventKind::Modified => "modified",
        EventKind::Deleted => "deleted",
        EventKind::Bookmark => "bookmark",
        EventKind::InitialList => "listed",
    }
}

/// True when a call belongs to the row that begins with another one.
fn is_in_row(call: &CallId, first: &CallId) -> bool {
    call.nth >= first.nth
        && call.verb == first.verb
        && call.resource == first.resource
        && call.namespace == first.namespace
        && call.name == first.name
}

impl Faults for Injector {
    fn on_call(&self, point: &CallPoint) -> CallFault {
        let id = call_id(point);
        let mut state = self.state();
        state.met.total += 1;
        if state.met.is_endless() {
            return CallFault::HangBefore;
        }
        if state.known_calls.insert(id.clone()) {
            state.met.calls.push(id.clone());
        }
        if let Some(code) = state.refuses(&id, point) {
            return CallFault::Refuse {
                code,
                retry_after: None,
            };
        }
        for (index, fault) in self.faults.iter().enumerate() {
            let Fault::Call { at, what, times } = fault else {
                continue;
            };
            let spent = state.spent.entry(index).or_default();
            if *spent >= *times || !is_in_row(&id, at) {
                continue;
            }
            *spent += 1;
            state.met.faults += 1;
            state.met.incidents.push((Instant::now(), index));
            drop(state);
            let refuse = |code| CallFault::Refuse {
                code,
                retry_after: None,
            };
            return match what {
                CallTrouble::KillBefore => {
                    self.tell(&point.process);
                    CallFault::KillBefore
                }
                CallTrouble::KillAfter => {
                    self.tell(&point.process);
                    CallFault::KillAfter
                }
                CallTrouble::LoseRequest => CallFault::LoseRequest,
                CallTrouble::LoseAnswer => CallFault::LoseAnswer,
                CallTrouble::HangBefore => CallFault::HangBefore,
                CallTrouble::HangAfter => CallFault::HangAfter,
                CallTrouble::Late => CallFault::Delay(LATE_CALL),
                CallTrouble::Garbage => CallFault::Garbage,
                CallTrouble::Forbidden => refuse(403),
                CallTrouble::Conflict => refuse(409),
                CallTrouble::Expired => refuse(410),
                CallTrouble::TooMany => CallFault::Refuse {
                    code: 429,
                    retry_after: Some(1),
                },
                CallTrouble::Internal => refuse(500),
                CallTrouble::Unavailable => refuse(503),
                CallTrouble::GatewayTimeout => refuse(504),
            };
        }
        self.price.map_or(CallFault::None, CallFault::Delay)
    }

    fn on_event(&self, point: &EventPoint) -> EventFault {
        let id = event_id(point);
        let mut state = self.state();
        state.met.events.push(id.clone());
        let mut faults = self.faults.iter().enumerate();
        let found = faults.find_map(|(index, fault)| {
            let Fault::Event { at, what } = fault else {
                return None;
            };
            (*at == id).then_some((index, *what))
        });
        let Some((index, what)) = found else {
            return EventFault::None;
        };
        state.met.faults += 1;
        state.met.incidents.push((Instant::now(), index));
        match what {
            EventTrouble::Drop => EventFault::Drop,
            EventTrouble::Twice => EventFault::Twice,
            EventTrouble::Late => EventFault::Delay(LATE_EVENT),
            EventTrouble::VeryLate => EventFault::Delay(VERY_LATE_EVENT),
            EventTrouble::Gone => EventFault::Gone,
            EventTrouble::Close => EventFault::Close,
            EventTrouble::Silence => EventFault::Silence,
            EventTrouble::Kill => {
                self.tell(&point.process);
                EventFault::KillBefore
            }
        }
    }
}
