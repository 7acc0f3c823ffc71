//! A model of the grant and its end, which uses the real decisions.
//!
//! Owns: the API server's objects as small values, two controllers that both believe forever that they lead,
//! the node plugin, people, pods, the evaluation service, and the rules. Every order of their steps is tried;
//! each call to the API server is one step. The decisions are not modelled: `plan`, `keep`, `is_exactly`,
//! `held`, `granted`, `finished` and the evaluation service's `check::answer` are the production functions.
//! They are called with real objects, and their results are memoized, because they are pure.
//!
//! Simplifications, and why they are sound:
//! - A controller works on one thing at a time, and both controllers work at once only on the same pod name.
//!   Work on different pods shares no object that a controller writes, so a result for each pair holds for
//!   all.
//! - A controller may look at anything whenever its caches show something to do. The event that triggers this
//!   is not modelled; the campaign uses the real queue.
//! - Its caches are up to date, or all of them stop at one time and catch up at another.
//! - An object's UID and a request's version are represented only as "still the one that was read". A live
//!   read followed by a deletion with a precondition on the UID that was read is one step: any change in
//!   between makes the deletion fail, which is a step of its own. Connector, policies and grants are read
//!   together.
//! - A controller that only reads does not crash, because it has changed nothing. Two controllers in the same
//!   state behave alike. The first event of a pod happens to the first pod. When no more events can happen,
//!   reads of objects that no controller writes are merged with the previous read, and one pod name is
//!   completed before the other.
//! - With shards, each pod name is in one. A new leader does not sweep it first, and an old one may go on with
//!   the work that it has begun.
//! - Several requests of one pod are created in the order of their creation times.
//! - The garbage collector never helps. Every write takes effect when it is sent. The feature is enabled, no
//!   pod is terminating, and no request is over the limit.
//! - Admitting a pod changes nothing that is read, so it is not a step. Instead, the rule of the evaluation
//!   service is evaluated in every state, with the grants of the requests.
//! - The caches hold the last answer about a standing permission. Each live look asks again.
//!
//! Knows nothing of how a decision is made. Invariant: each step of a controller is the work of its process
//! between two answers of the API server.

#![allow(
    clippy::doc_markdown,
    reason = "the kinds of Kubernetes are plain words here"
)]
#![allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about what was read, written or planned"
)]

mod access;
mod carry;
mod doing;
mod ends;
mod look;
mod objects;
mod reads;
mod rules;
mod settings;
mod settle;
mod state;
mod surroundings;
mod tables;
mod tell;
mod world;

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use stateright::{Checker, Expectation, HasDiscoveries, Model, Property};

pub use settings::{Mutation, Settings, Start};
pub use settle::Settled;
pub use tell::{Outcome, Report};

use carry::Call;
use doing::{Doing, Read, Sweep};
use state::{Controller, Left, Rule, State, Who};
use surroundings::Happening;
use tables::Tables;
use world::{RequestId, World};

/// The model.
struct Protocol {
    settings: Settings,
    tables: Tables,
    views: Views,
    stop: AtomicBool,
    found: [AtomicBool; 18],
}

/// The contents of caches at the time when they stopped.
#[derive(Default)]
struct Views {
    all: RwLock<(Vec<World>, HashMap<World, u32>)>,
}

impl Views {
    fn get(&self, number: u32) -> World {
        self.all.read().unwrap_or_else(PoisonError::into_inner).0[number as usize].clone()
    }

    fn number(&self, world: &World) -> u32 {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let (views, numbers) = &mut *all;
        *numbers.entry(world.clone()).or_insert_with(|| {
            views.push(world.clone());
            u32::try_from(views.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    /// An event outside of the controllers.
    Happens(Happening),
    /// A controller starts work on a request.
    Look(usize, RequestId),
    /// A controller checks the objects of a policy for a request against the rule about managed objects.
    Enforce(usize, RequestId, u8),
    /// A controller makes its next call.
    Goes(usize, Call),
    /// A controller reads a check or a standing permission, and the evaluation service does not answer.
    Silence(usize),
    /// A controller crashes, and restarts with a sweep.
    Crash(usize),
    /// The reads of a controller become too old to grant on.
    Ages(usize),
    /// A controller hands the shard of a pod name over to the other one.
    HandsOver(usize, usize),
    /// A controller drops work in a shard that it does not lead any more.
    Drops(usize),
    /// The watches of a controller stop.
    FallsBehind(usize),
    /// The watches show everything again.
    CatchesUp(usize),
}

impl Protocol {
    /// A model of this size.
    fn new(settings: Settings) -> Self {
        Self {
            settings,
            tables: Tables::new(),
            views: Views::default(),
            stop: AtomicBool::new(false),
            found: Default::default(),
        }
    }

    /// True when a condition is met for the first time. Otherwise the checker would keep the last and longest
    /// path.
    fn first(&self, n: usize, is: impl FnOnce() -> bool) -> bool {
        !self.found[n].load(Ordering::Relaxed)
            && is()
            && !self.found[n].swap(true, Ordering::Relaxed)
    }

    fn holds(&self, n: usize, state: &State) -> bool {
        match n {
            0 => state.broken != Some(Rule::GrantedUnproven),
            1 => self.is_clean(state),
            2 => state.broken != Some(Rule::GrantedTooMuch),
            3 => state.broken != Some(Rule::Returned),
            4 => self.one_decides(state),
            5 => self.mounts_are_granted(state),
            6 => self.is_settled(state),
            7 => self.mounts(state),
            8 => self.revokes(state),
            9 => Self::loses_a_race(state),
            10 => Self::sweeps(state),
            11 => self.recovers(state),
            12 => self.refuses_a_twin(state),
            13 => state.broken != Some(Rule::EndedEarly),
            14 => self.nothing_waits_in_vain(state),
            15 => self.makes_way(state),
            16 => self.grants_anew(state),
            _ => self.binds_a_prepared_role(state),
        }
    }

    /// When no more events can happen, one pod name is processed after the other: work on one changes nothing
    /// that is read for the other.
    fn is_turn_of(&self, state: &State, slot: usize) -> bool {
        let busy = || {
            let mut requests = state.world.all_requests();
            state
                .controllers
                .iter()
                .any(|it| it.doing.slot() == Some(0))
                || requests.any(|(id, _)| id.slot() == 0 && self.look(state, 0, id).is_some())
                || self.strays(state).any(|(id, _)| id.slot() == 0)
        };
        let keep_up = state.controllers.iter().all(|it| it.behind.is_none());
        slot == 0 || state.left != Left::NOTHING || !keep_up || !busy()
    }

    fn controller_actions(&self, state: &State, c: usize, actions: &mut Vec<Action>) {
        let controller = &state.controllers[c];
        let faulty = state.left.faults > 0;
        let other = state.controllers[1 - c].doing.slot();
        let is_free =
            |slot: usize| other.is_none_or(|other| other == slot) && self.is_turn_of(state, slot);
        match &controller.doing {
            Doing::Idle => {
                let view = controller.behind.map(|it| self.views.get(it));
                let requests = view.as_ref().unwrap_or(&state.world).all_requests();
                let wanted = requests.map(|(id, _)| id).filter(|id| is_free(id.slot()));
                let wanted = wanted.filter(|id| controller.leads(id.slot()));
                let wanted = wanted.filter(|id| self.look(state, c, *id).is_some());
                actions.extend(wanted.map(|id| Action::Look(c, id)));
                let strays = self.strays(state).filter(|(id, _)| is_free(id.slot()));
                let strays = strays.filter(|(id, _)| controller.leads(id.slot()));
                actions.extend(strays.map(|(id, policy)| Action::Enforce(c, id, policy)));
            }
            Doing::Reading(work) => {
                actions.push(Action::Goes(c, Call::Done));
                if faulty && matches!(work.next, Read::Check(_) | Read::Standing) {
                    actions.push(Action::Silence(c));
                }
            }
            Doing::Sweeping(_) | Doing::Enforcing(_) => actions.push(Action::Goes(c, Call::Done)),
            Doing::Applying(_) => {
                actions.push(Action::Goes(c, Call::Done));
                if faulty {
                    actions.push(Action::Goes(c, Call::Refused));
                    actions.push(Action::Goes(c, Call::Unheard));
                }
            }
        }
        // Its writes may go on: those that were sent, and all if it does not know yet.
        if controller
            .doing
            .slot()
            .is_some_and(|it| !controller.leads(it))
        {
            actions.push(Action::Drops(c));
        }
        if faulty && self.settings.shards {
            let slots = (0..self.settings.pods).filter(|it| controller.leads(*it));
            actions.extend(slots.map(|it| Action::HandsOver(c, it)));
        }
        if faulty {
            // A crash before the first write has no effect.
            if !matches!(controller.doing, Doing::Idle | Doing::Reading(_)) {
                actions.push(Action::Crash(c));
            }
            if surroundings::age(&mut controller.doing.clone()) {
                actions.push(Action::Ages(c));
            }
            if self.settings.lag && controller.behind.is_none() {
                actions.push(Action::FallsBehind(c));
            }
        }
        if controller.behind.is_some() {
            actions.push(Action::CatchesUp(c));
        }
    }

    fn goes(&self, state: &mut State, c: usize, call: Call, silent: bool) {
        match state.controllers[c].doing.clone() {
            Doing::Idle => {}
            Doing::Sweeping(sweep) => self.sweep(state, c, &sweep, call),
            Doing::Reading(work) => self.read(state, c, &work, silent),
            Doing::Applying(work) => self.carry(state, c, &work, call),
            Doing::Enforcing(work) => {
                let next = self.go_on_enforcing(state, &work, call);
                state.controllers[c].doing = next.map_or(Doing::Idle, Doing::Enforcing);
            }
        }
    }

    fn act(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let fault = match action {
            Action::Goes(_, call) => call != Call::Done,
            Action::Silence(_)
            | Action::Crash(_)
            | Action::Ages(_)
            | Action::HandsOver(..)
            | Action::FallsBehind(_) => true,
            Action::Happens(_)
            | Action::Look(..)
            | Action::Enforce(..)
            | Action::Drops(_)
            | Action::CatchesUp(_) => false,
        };
        if fault {
            state.left.faults = state.left.faults.checked_sub(1)?;
        }
        match action {
            Action::Happens(what) => Self::happens(&mut state, what)?,
            Action::Look(c, id) => self.start(&mut state, c, id)?,
            Action::Enforce(c, id, policy) => {
                let work = Self::start_enforcing(&state, id, policy);
                state.controllers[c].doing = Doing::Enforcing(work);
            }
            Action::Goes(c, call) => self.goes(&mut state, c, call, false),
            Action::Silence(c) => self.goes(&mut state, c, Call::Done, true),
            Action::Crash(c) => {
                state.halved |= Self::is_half_way(&state, &state.controllers[c].doing);
                state.controllers[c].doing = Doing::Sweeping(Sweep::Started);
                // A restarted process lists everything again.
                state.controllers[c].behind = None;
            }
            Action::Ages(c) => {
                surroundings::age(&mut state.controllers[c].doing);
            }
            Action::HandsOver(c, slot) => {
                state.controllers[c].leads &= !(1 << slot);
                state.controllers[1 - c].leads |= 1 << slot;
            }
            Action::Drops(c) => {
                state.halved |= Self::is_half_way(&state, &state.controllers[c].doing);
                state.controllers[c].doing = Doing::Idle;
            }
            Action::FallsBehind(c) => {
                state.controllers[c].behind = Some(self.views.number(&state.world));
            }
            Action::CatchesUp(c) => state.controllers[c].behind = None,
        }
        Some(state.in_order())
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let start = |start: &Start| {
            let mut state = State {
                world: surroundings::world(&self.settings, start.approved),
                late: world::Late::No,
                controllers: [0, 1].map(|who| Controller {
                    doing: Doing::Idle,
                    behind: None,
                    leads: if self.settings.shards {
                        1 << who
                    } else {
                        u8::MAX
                    },
                    who: Who(who),
                }),
                left: Left {
                    happenings: self.settings.happenings,
                    faults: self.settings.faults,
                },
                halved: false,
                broken: None,
            };
            for slot in 0..if start.asked { self.settings.pods } else { 0 } {
                surroundings::bear(&mut state, slot * world::NAMES_OF_SLOT);
            }
            state
        };
        self.settings.starts.iter().map(start).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // The consequences of a broken rule give no new information.
        if state.broken.is_some() || self.stop.load(Ordering::Relaxed) {
            return;
        }
        for c in 0..state.controllers.len() {
            // Two controllers in the same state behave alike.
            if c == 0 || state.controllers[0] != state.controllers[c] {
                self.controller_actions(state, c, actions);
            }
        }
        actions.extend(self.happenings(state).into_iter().map(Action::Happens));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        self.act(last, action).filter(|next| next != last)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let Settings {
            happenings,
            faults,
            twins,
            standing,
            starts,
            ..
        } = self.settings;
        let mut all = vec![
            rule::<0>("I1: a binding is written on live proof for that pod alone"),
            rule::<1>("I2: nothing unjustified is left when all is quiet"),
            rule::<2>("I3: a grant is about the pod's own use of the connector"),
            rule::<3>("I5: what ended never comes back"),
            rule::<4>("I5: one request of a pod decides"),
            rule::<5>("a pod is let in only by its own grant"),
            rule::<6>("when all is quiet the grants are those wanted"),
            rule::<13>("I5: what held nothing ends with its pod or by a standing permission"),
            seen::<7>("a pod is let in"),
        ];
        // Situations that cannot occur with so few events are not expected.
        if happenings > 0 {
            all.push(seen::<8>("a grant is taken back to the last object"));
        }
        if happenings + faults > 0 {
            all.push(seen::<9>("a grant loses a race and is removed"));
        }
        if happenings > 0 && faults > 0 {
            all.push(seen::<10>("a sweep removes something"));
        }
        // The approval that may be given is that of the first pod.
        let first_waits = starts.iter().any(|it| it.asked && it.approved == 0);
        if happenings > 0 && first_waits {
            all.push(seen::<17>("a Role that was written in advance is bound"));
        }
        if faults > 0 {
            all.push(seen::<11>(
                "a crash between Role and RoleBinding is made up for",
            ));
        }
        if standing {
            all.push(rule::<14>("when all is quiet nothing waits in vain"));
            all.push(seen::<15>("a request makes way"));
        }
        if standing && happenings > 3 {
            all.push(seen::<16>("a request that is made anew is granted"));
        }
        if twins {
            all.push(seen::<12>("a second request of a pod is refused"));
        }
        all
    }
}

fn rule<const N: usize>(name: &'static str) -> Property<Protocol> {
    Property::always(name, |model, state| {
        !model.first(N, || !model.holds(N, state))
    })
}

fn seen<const N: usize>(name: &'static str) -> Property<Protocol> {
    Property::sometimes(name, |model, state| {
        model.first(N, || model.holds(N, state))
    })
}

/// Explores all states within the settings, or stops at the limit of states or at the first broken rule.
#[must_use]
pub fn run(settings: Settings) -> Report {
    const PAUSE: Duration = Duration::from_millis(50);
    let started = Instant::now();
    let protocol = Protocol::new(settings);
    let checker = protocol
        .checker()
        .threads(settings.threads)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs();
    while !checker.is_done() && checker.unique_state_count() < settings.most {
        std::thread::sleep(PAUSE);
    }
    // The rules are still checked for the states found so far, but no states are added.
    let exhausted = checker.is_done();
    checker.model().stop.store(true, Ordering::Relaxed);
    let checker = checker.join();
    // Paths are reported by following them again.
    checker.model().stop.store(false, Ordering::Relaxed);
    Report::of(&checker, exhausted, started.elapsed())
}

/// Checks that the model settles, within the settings. All states are kept, so there must be few of them.
#[must_use]
pub fn settle(settings: Settings) -> Settled {
    Protocol::new(settings).settles()
}

/// True when a rule is broken, given whether the checker found an example for its property.
fn is_broken(expectation: &Expectation, found: bool) -> bool {
    match expectation {
        Expectation::Always | Expectation::Eventually => found,
        Expectation::Sometimes => !found,
    }
}
