//! Everything that happens around the controllers: people, pods, the node plugin, time and faults.

use super::{
    Protocol,
    doing::Doing,
    objects,
    state::{
        Check, Connector, INCARNATIONS, Late, Life, NAMES_OF_SLOT, POLICIES, Pod, PolicyLife,
        RequestId, SLOTS, State, Stored,
    },
};

/// What happens around the controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Happening {
    /// The node plugin asks for a pod that nobody asked for.
    PluginAsks(u8),
    /// Somebody makes a request under a name.
    SomebodyAsks(u8),
    /// A check object says something else, or goes: pod name, policy.
    Says(u8, u8, Check),
    /// A policy grants other rules from now on.
    EditsPolicy(u8),
    /// A policy goes.
    DeletesPolicy(u8),
    /// A request goes.
    DeletesRequest(u8),
    /// A RoleBinding is deleted by hand.
    DeletesBinding(RequestId, u8),
    /// The connector goes.
    DeletesConnector,
    /// Another connector takes its name.
    MakesConnector,
    /// The account of the pods gets a standing permission.
    GivesStanding,
    /// It loses it.
    TakesStanding,
    /// A pod runs to its end.
    PodFinishes(u8),
    /// A pod goes.
    PodGoes(u8),
    /// Another pod takes its name.
    PodIsReplaced(u8),
    /// A request that makes way reaches the end of its time.
    MinutePasses,
    /// Every grant, all waiting and the retention of requests reach their end.
    TimePasses,
}

impl Happening {
    /// Whether somebody makes or deletes a request, or decides.
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

    /// Whether it is about a standing permission and what it meets.
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

    /// The pod name that it is about, if it is about one and counted.
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
    /// What may happen now. Nothing distinguishes two pods before the first thing happens, so that happens
    /// to the first of them.
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
            // Where nothing is needed nothing is asked for.
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

    /// What comes of it.
    pub(super) fn happens(state: &mut State, what: Happening) -> Option<()> {
        // The plugin asks whenever there is a pod to ask for.
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
                state.delete(id, policy, super::state::Kind::Binding);
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

/// Time passes. No read takes that long: whatever was read is old by now.
fn pass(state: &mut State, late: Late) {
    state.late = late;
    for controller in &mut state.controllers {
        age(&mut controller.doing);
    }
}

/// What was read gets too old to grant on. Whether that makes any difference.
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

/// The names of the requests of one pod name begin here.
const fn first_name(slot: u8) -> u8 {
    slot * 3
}

const _: () = assert!(NAMES_OF_SLOT == 3, "first_name counts in threes");

fn own_name(slot: u8, pod: Pod) -> u8 {
    first_name(slot) + pod.generation
}

/// A request is younger than those that are there. Those of one pod get their ages by name and number, so
/// one that would be too old is not made.
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

/// A request is made under a name.
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
    /// A request goes, whatever it holds.
    pub(super) fn delete_request(&mut self, id: RequestId) {
        if self.world.request(id).is_some() {
            self.world.requests[usize::from(id.name)] = None;
            self.touch(id, None);
        }
    }

    /// An object of a grant goes, whoever deletes it: it is not the one that others have seen any more.
    pub(super) fn delete(&mut self, id: RequestId, policy: u8, kind: super::state::Kind) {
        let there = &mut self.world.grants[id.index()][usize::from(policy)];
        match kind {
            super::state::Kind::Binding => there.binding = false,
            super::state::Kind::Role => there.role = 0,
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

    /// A request was written: the version that others have read is an old one.
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

    /// Where it does not matter which controller is which, they are in one order.
    pub(super) fn in_order(mut self) -> Self {
        self.controllers.sort();
        self
    }
}

/// All pods and policies of a configuration, and what is approved from the start.
#[must_use]
pub(super) fn world(settings: &super::Settings, approved: bool) -> super::state::World {
    let check = if approved {
        Check::Approved
    } else {
        Check::Pending
    };
    let there = |n: usize, of: usize| n < of;
    super::state::World {
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
        checks: [[check; POLICIES]; SLOTS],
        requests: Default::default(),
        born: Default::default(),
        grants: Default::default(),
    }
}
