//! Everything around the controllers: people, pods, the node plugin, time and faults.

use super::{
    Protocol,
    doing::Doing,
    objects,
    state::State,
    world::{
        Check, Connector, INCARNATIONS, Late, Life, NAMES_OF_SLOT, POLICIES, Pod, PolicyLife,
        RequestId, Stored,
    },
};

/// An event outside of the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Happening {
    /// The node plugin creates a request for a pod without one.
    PluginAsks(u8),
    /// A user creates a request with a name.
    SomebodyAsks(u8),
    /// A check object changes, or is deleted: pod name, policy.
    Says(u8, u8, Check),
    /// A policy grants other rules from now on.
    EditsPolicy(u8),
    /// A policy is deleted.
    DeletesPolicy(u8),
    /// A request is deleted.
    DeletesRequest(u8),
    /// A RoleBinding is deleted manually.
    DeletesBinding(RequestId, u8),
    /// The connector is deleted.
    DeletesConnector,
    /// Another connector with its name is created.
    MakesConnector,
    /// The account of the pods gets a standing permission.
    GivesStanding,
    /// The account loses its standing permission.
    TakesStanding,
    /// A pod terminates.
    PodFinishes(u8),
    /// A pod is deleted.
    PodGoes(u8),
    /// Another pod with its name is created.
    PodIsReplaced(u8),
    /// The minute of a request that makes way is over.
    MinutePasses,
    /// The time of every grant, every waiting period and every retention is over.
    TimePasses,
}

impl Happening {
    /// True when it creates or deletes a request, or changes a check.
    const fn is_about_requests(self) -> bool {
        match self {
            Self::PluginAsks(_)
            | Self::SomebodyAsks(_)
            | Self::DeletesRequest(_)
            | Self::Says(_, _, Check::Approved | Check::Rejected) => true,
            Self::Says(_, _, Check::Pending | Check::Deleted)
            | Self::EditsPolicy(_)
            | Self::DeletesPolicy(_)
            | Self::DeletesBinding(..)
            | Self::DeletesConnector
            | Self::MakesConnector
            | Self::GivesStanding
            | Self::TakesStanding
            | Self::PodFinishes(_)
            | Self::PodGoes(_)
            | Self::PodIsReplaced(_)
            | Self::MinutePasses
            | Self::TimePasses => false,
        }
    }

    /// True when it changes a standing permission or an object that it affects.
    const fn is_about_standing(self) -> bool {
        match self {
            Self::PluginAsks(_)
            | Self::Says(_, _, Check::Approved | Check::Rejected)
            | Self::GivesStanding
            | Self::TakesStanding
            | Self::PodFinishes(_)
            | Self::MinutePasses => true,
            Self::SomebodyAsks(_)
            | Self::Says(_, _, Check::Pending | Check::Deleted)
            | Self::EditsPolicy(_)
            | Self::DeletesPolicy(_)
            | Self::DeletesRequest(_)
            | Self::DeletesBinding(..)
            | Self::DeletesConnector
            | Self::MakesConnector
            | Self::PodGoes(_)
            | Self::PodIsReplaced(_)
            | Self::TimePasses => false,
        }
    }

    /// The pod name of the event, if it has one and counts as an event.
    fn slot(self) -> Option<usize> {
        match self {
            Self::Says(slot, ..)
            | Self::PodFinishes(slot)
            | Self::PodGoes(slot)
            | Self::PodIsReplaced(slot) => Some(usize::from(slot)),
            Self::SomebodyAsks(name) | Self::DeletesRequest(name) => {
                Some(usize::from(name) / NAMES_OF_SLOT)
            }
            Self::DeletesBinding(id, _) => Some(id.slot()),
            Self::PluginAsks(_)
            | Self::EditsPolicy(_)
            | Self::DeletesPolicy(_)
            | Self::DeletesConnector
            | Self::MakesConnector
            | Self::GivesStanding
            | Self::TakesStanding
            | Self::MinutePasses
            | Self::TimePasses => None,
        }
    }
}

impl Protocol {
    /// The possible events. Before the first event two pods are identical, so it happens to the first of
    /// them.
    pub(super) fn happenings(&self, state: &State) -> Vec<Happening> {
        let mut all = Vec::new();
        self.all_happenings(state, &mut all);
        let is_first = state.left.happenings == self.settings.happenings;
        all.retain(|it| !is_first || it.slot().is_none_or(|slot| slot == 0));
        all.retain(|it| !self.settings.only_requests || it.is_about_requests());
        all.retain(|it| !self.settings.standing || it.is_about_standing());
        all
    }

    fn all_happenings(&self, state: &State, all: &mut Vec<Happening>) {
        let world = &state.world;
        let slots = || (0_u8..).zip(&world.pods).take(self.settings.pods);
        for (slot, pod) in slots() {
            let name = own_name(slot, *pod);
            let nobody = world
                .all_requests()
                .all(|(id, _)| (id.slot(), id.generation()) != (usize::from(slot), pod.generation));
            // No request is created where none is needed.
            let asks = pod.life == Life::Running && nobody && !world.standing;
            if asks && may_be_born(state, name) {
                all.push(Happening::PluginAsks(slot));
            }
        }
        if state.left.happenings > 0 {
            self.people(state, all);
            for (slot, pod) in slots() {
                match pod.life {
                    Life::Running => {
                        all.extend([Happening::PodFinishes(slot), Happening::PodGoes(slot)]);
                    }
                    Life::Finished => all.push(Happening::PodGoes(slot)),
                    Life::Gone if pod.generation == 0 => all.push(Happening::PodIsReplaced(slot)),
                    Life::Gone => {}
                }
            }
            if self.settings.standing {
                all.push(if world.standing {
                    Happening::TakesStanding
                } else {
                    Happening::GivesStanding
                });
                if state.late == Late::No {
                    all.push(Happening::MinutePasses);
                }
            }
            if state.late != Late::Days {
                all.push(Happening::TimePasses);
            }
        }
    }

    fn people(&self, state: &State, all: &mut Vec<Happening>) {
        let world = &state.world;
        for (slot, pod) in (0_u8..).zip(&world.pods).take(self.settings.pods) {
            let names = [own_name(slot, *pod), first_name(slot) + 2];
            // The second name is for the first pod.
            let names = names
                .into_iter()
                .take(if pod.generation == 0 { 2 } else { 1 });
            let free = |name: &u8| {
                world.requests[usize::from(*name)].is_none() && may_be_born(state, *name)
            };
            if pod.life == Life::Running && self.settings.twins {
                all.extend(names.filter(free).map(Happening::SomebodyAsks));
            }
            for policy in (0..).take(self.settings.policies) {
                let now = world.checks[usize::from(slot)][usize::from(policy)];
                let says = [
                    Check::Pending,
                    Check::Approved,
                    Check::Rejected,
                    Check::Deleted,
                ];
                let says = says.into_iter().filter(|it| *it != now);
                let is_there = world.policies[usize::from(policy)] != PolicyLife::Deleted;
                if pod.life != Life::Gone && is_there {
                    all.extend(says.map(|it| Happening::Says(slot, policy, it)));
                }
            }
        }
        for policy in (0..).take(self.settings.policies) {
            let now = world.policies[usize::from(policy)];
            if now == PolicyLife::There {
                all.push(Happening::EditsPolicy(policy));
            }
            if now != PolicyLife::Deleted {
                all.push(Happening::DeletesPolicy(policy));
            }
        }
        all.extend(
            world
                .all_requests()
                .map(|(id, _)| Happening::DeletesRequest(id.name)),
        );
        let bindings = world.all_grants().filter(|(_, _, there)| there.binding);
        all.extend(bindings.map(|(id, policy, _)| Happening::DeletesBinding(id, policy)));
        match world.connector {
            Connector::First => all.push(Happening::DeletesConnector),
            Connector::Gone => all.push(Happening::MakesConnector),
            Connector::Second => {}
        }
    }

    /// Applies an event.
    pub(super) fn happens(state: &mut State, what: Happening) -> Option<()> {
        // The node plugin creates a request whenever there is a pod without one, so this does not count as an
        // event.
        if !matches!(what, Happening::PluginAsks(_)) {
            state.left.happenings = state.left.happenings.checked_sub(1)?;
        }
        let world = &mut state.world;
        match what {
            Happening::PluginAsks(slot) => {
                let name = own_name(slot, world.pods[usize::from(slot)]);
                bear(state, usize::from(name));
            }
            Happening::SomebodyAsks(name) => bear(state, usize::from(name)),
            Happening::Says(slot, policy, check) => {
                world.checks[usize::from(slot)][usize::from(policy)] = check;
            }
            Happening::EditsPolicy(policy) => {
                world.policies[usize::from(policy)] = PolicyLife::Edited;
            }
            Happening::DeletesPolicy(policy) => {
                world.policies[usize::from(policy)] = PolicyLife::Deleted;
            }
            Happening::DeletesRequest(name) => {
                let incarnation = world.requests[usize::from(name)]?.incarnation;
                state.delete_request(RequestId { name, incarnation });
            }
            Happening::DeletesBinding(id, policy) => {
                state.delete(id, policy, super::world::Kind::Binding);
            }
            Happening::DeletesConnector => world.connector = Connector::Gone,
            Happening::MakesConnector => world.connector = Connector::Second,
            Happening::GivesStanding => world.standing = true,
            Happening::TakesStanding => world.standing = false,
            Happening::PodFinishes(slot) => world.pods[usize::from(slot)].life = Life::Finished,
            Happening::PodGoes(slot) => world.pods[usize::from(slot)].life = Life::Gone,
            Happening::PodIsReplaced(slot) => {
                world.pods[usize::from(slot)] = Pod {
                    generation: 1,
                    life: Life::Running,
                };
            }
            Happening::MinutePasses => pass(state, Late::Minute),
            Happening::TimePasses => pass(state, Late::Days),
        }
        Some(())
    }
}

/// Time passes. No read takes that long, so all reads are too old afterwards.
fn pass(state: &mut State, late: Late) {
    state.late = late;
    for controller in &mut state.controllers {
        age(&mut controller.doing);
    }
}

/// Makes reads too old to grant on. Returns whether that makes any difference.
pub(super) fn age(doing: &mut Doing) -> bool {
    match doing {
        Doing::Reading(work) if !work.stale => {
            work.stale = true;
            true
        }
        Doing::Applying(work) if !work.stale && work.proof != 0 => {
            work.stale = true;
            true
        }
        Doing::Idle
        | Doing::Sweeping(_)
        | Doing::Reading(_)
        | Doing::Applying(_)
        | Doing::Enforcing(_) => false,
    }
}

/// The first name of the requests of one pod name.
const fn first_name(slot: u8) -> u8 {
    slot * 3
}

const _: () = assert!(NAMES_OF_SLOT == 3, "first_name counts in threes");

fn own_name(slot: u8, pod: Pod) -> u8 {
    first_name(slot) + pod.generation
}

/// A new request must be younger than the existing ones. Creation times of one pod's requests are derived
/// from name and incarnation, so a request that would be too old is not created.
fn may_be_born(state: &State, name: u8) -> bool {
    let incarnation = state.world.born[usize::from(name)];
    let id = RequestId { name, incarnation };
    let mut there = state.world.all_requests().map(|(it, _)| it);
    usize::from(incarnation) < INCARNATIONS
        && there.all(|it| {
            (it.slot(), it.generation()) != (id.slot(), id.generation())
                || objects::made(it) < objects::made(id)
        })
}

/// Creates a request with a name.
pub(super) fn bear(state: &mut State, name: usize) {
    let born = &mut state.world.born[name];
    let stored = Stored {
        incarnation: *born,
        status: 0,
    };
    *born += 1;
    state.world.requests[name] = Some(stored);
}

impl State {
    /// Deletes a request, regardless of its grants.
    pub(super) fn delete_request(&mut self, id: RequestId) {
        if self.world.request(id).is_some() {
            self.world.requests[usize::from(id.name)] = None;
            self.touch(id, None);
        }
    }

    /// Deletes an object of a grant, by any actor: other controllers have read an object that no longer
    /// exists.
    pub(super) fn delete(&mut self, id: RequestId, policy: u8, kind: super::world::Kind) {
        let there = &mut self.world.grants[id.index()][usize::from(policy)];
        match kind {
            super::world::Kind::Binding => there.binding = false,
            super::world::Kind::Role => there.role = 0,
        }
        let bit = kind.bit(policy);
        for controller in &mut self.controllers {
            match &mut controller.doing {
                Doing::Reading(work) if work.seen.id == id => work.theirs &= !bit,
                Doing::Applying(work) if work.id == id => work.theirs &= !bit,
                Doing::Idle
                | Doing::Sweeping(_)
                | Doing::Reading(_)
                | Doing::Applying(_)
                | Doing::Enforcing(_) => {}
            }
        }
    }

    /// A request was written: the version that other controllers have read is outdated.
    pub(super) fn touch(&mut self, id: RequestId, by: Option<usize>) {
        for (c, controller) in self.controllers.iter_mut().enumerate() {
            match &mut controller.doing {
                Doing::Reading(work) if work.seen.id == id => work.same = false,
                Doing::Applying(work) if work.id == id && by != Some(c) => work.same = false,
                Doing::Idle
                | Doing::Sweeping(_)
                | Doing::Reading(_)
                | Doing::Applying(_)
                | Doing::Enforcing(_) => {}
            }
        }
    }

    /// Sorts the controllers where it does not matter which is which.
    pub(super) fn in_order(mut self) -> Self {
        self.controllers.sort();
        self
    }
}

/// All pods and policies of a configuration, and the initial state of checks.
#[must_use]
pub(super) fn world(settings: &super::Settings, approved: usize) -> super::world::World {
    let check = |slot: usize| {
        if slot < approved {
            Check::Approved
        } else {
            Check::Pending
        }
    };
    let there = |n: usize, of: usize| n < of;
    super::world::World {
        pods: std::array::from_fn(|slot| Pod {
            generation: 0,
            life: if there(slot, settings.pods) {
                Life::Running
            } else {
                Life::Gone
            },
        }),
        policies: std::array::from_fn(|policy| {
            if there(policy, settings.policies) {
                PolicyLife::There
            } else {
                PolicyLife::Deleted
            }
        }),
        connector: Connector::First,
        standing: false,
        checks: std::array::from_fn(|slot| [check(slot); POLICIES]),
        requests: Default::default(),
        born: Default::default(),
        grants: Default::default(),
    }
}
