//! The controller's looks: first from the caches, then with live reads, one after the other; and its sweep.

use connectors_api::access_request::Phase;

use super::{
    Mutation, Protocol,
    carry::Call,
    doing::{Applying, Doing, Enforcing, Heard, Read, Reading, Seen, Step, Sweep},
    look::unseen,
    state::{Left, State},
    tables::{Age, exists},
    world::{Check, Covered, Kind, Life, POLICIES, RequestId, Stored, World},
};

/// The result of a look at the caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Everything must be read live.
    Live,
    /// This plan is executed.
    Plan(Seen, u32),
}

impl Protocol {
    /// The contents of a controller's caches.
    fn view(&self, state: &State, c: usize) -> World {
        match state.controllers[c].behind {
            None => state.world.clone(),
            Some(view) => self.views.get(view),
        }
    }

    /// The action of a controller for a request after a look at its caches; none if there is nothing to do.
    pub(super) fn look(&self, state: &State, c: usize, id: RequestId) -> Option<Look> {
        let behind = state.controllers[c].behind.map(|view| self.views.get(view));
        let view = behind.as_ref().unwrap_or(&state.world);
        let stored = view.request(id)?;
        let mut seen = unseen(id, stored.status);
        // Only the API server can report that a pod is gone.
        seen.pod = match view.pod_of(id) {
            Life::Gone => state.world.pod_of(id),
            life @ (Life::Running | Life::Finished) => life,
        };
        seen.objects = view.grants[id.index()];
        seen.tuple = self.tuple(view, None, (id, stored.status));
        seen.connector = view.connector;
        seen.policies = view.policies;
        for policy in (0..).take(POLICIES) {
            self.hear(view, &mut seen, policy, false);
        }
        if view.standing && !self.tables.is_decided_by_itself(&seen) {
            // The service was asked about all waiting requests a while ago. A cached negative answer has no
            // effect.
            seen.standing = Covered::Yes;
        }
        let hearsay = self.settings.mutation == Some(Mutation::EndsOnHearsay);
        let careless = self.settings.mutation == Some(Mutation::GrantsFromCaches);
        let careless = careless || hearsay && seen.standing == Covered::Yes;
        let age = if careless { Age::Fresh } else { Age::Cached };
        let number = self.tables.decide(&seen, age, state.late);
        let plan = self.tables.plan(number);
        if plan.look_live {
            return Some(Look::Live);
        }
        (!plan.is_idle()).then_some(Look::Plan(seen, number))
    }

    /// The other requests of a pod from the caches; the deciding one is also checked against the API server.
    fn tuple(
        &self,
        view: &World,
        live: Option<&World>,
        (id, status): (RequestId, u16),
    ) -> (Option<u8>, bool) {
        let of_pod = |it: RequestId| (it.slot(), it.generation());
        // Requests are looked up by name, so the one that caches show under the own name is never another
        // one.
        let others: Vec<_> = view
            .all_requests()
            .filter(|(it, _)| it.name != id.name && of_pod(*it) == of_pod(id))
            .filter(|(_, it)| !self.is_invalid(*it))
            .collect();
        if others.is_empty() || view.requests[usize::from(id.name)].is_none() {
            return (None, false);
        }
        let real = |(id, stored): &(RequestId, Stored)| self.tables.request(*id, stored.status);
        let own = self.tables.request(id, status);
        let candidates: Vec<_> = others.iter().filter_map(real).chain(own).collect();
        let decides = connectors_api::request_order::deciding(&candidates);
        let decides = decides.and_then(|it| it.metadata.uid.clone());
        let other = others
            .iter()
            .find(|(it, _)| Some(super::objects::request_uid(*it)) == decides);
        let Some((other, _)) = other else {
            return (None, true);
        };
        let is_there = live.is_none_or(|live| {
            live.request(*other)
                .is_some_and(|stored| !self.is_invalid(stored))
        });
        if is_there {
            (Some(other.name), true)
        } else {
            (None, others.len() > 1)
        }
    }

    fn is_invalid(&self, stored: Stored) -> bool {
        let phase = self.tables.status(stored.status).phase;
        phase == Some(Phase::Invalid)
    }

    fn hear(&self, world: &World, seen: &mut Seen, policy: u8, silent: bool) {
        if self.tables.asks(seen, policy) && !self.tables.is_decided_by_itself(seen) {
            let slot = if self.settings.mutation == Some(Mutation::BelievesOthers) {
                0
            } else {
                seen.id.slot()
            };
            let check = world.checks[slot][usize::from(policy)];
            seen.checks[usize::from(policy)] = Heard { check, silent };
        }
    }

    /// Starts work on a request.
    pub(super) fn start(&self, state: &mut State, c: usize, id: RequestId) -> Option<()> {
        let look = self.look(state, c, id)?;
        state.controllers[c].doing = match look {
            Look::Live => {
                // The first live read is that of the request, by its name.
                let stored = state.world.requests[usize::from(id.name)]?;
                let id = RequestId {
                    incarnation: stored.incarnation,
                    ..id
                };
                Doing::Reading(nothing_read(unseen(id, stored.status)))
            }
            Look::Plan(seen, plan) => {
                let same = state
                    .world
                    .request(id)
                    .is_some_and(|it| it.status == seen.status);
                self.applying(
                    &Reading {
                        same,
                        theirs: still_there(state, &seen),
                        ..nothing_read(seen)
                    },
                    plan,
                    false,
                )
            }
        };
        if let Doing::Reading(work) = &state.controllers[c].doing
            && state.left == Left::NOTHING
        {
            let work = work.clone();
            self.read_one(state, c, &work, false);
        }
        Some(())
    }

    /// One live read; after the last one the controller decides. When no more events can happen, reads of
    /// objects that only people and pods change are merged with the previous read, because their order makes
    /// no difference.
    pub(super) fn read(&self, state: &mut State, c: usize, work: &Reading, silent: bool) {
        self.read_one(state, c, work, silent);
        while let Doing::Reading(work) = &state.controllers[c].doing
            && state.left == Left::NOTHING
            && work.next != Read::Rest
        {
            let work = work.clone();
            self.read_one(state, c, &work, false);
        }
    }

    fn read_one(&self, state: &mut State, c: usize, work: &Reading, silent: bool) {
        let mut work = work.clone();
        let id = work.seen.id;
        let next = match work.next {
            Read::Pod => {
                work.seen.pod = if self.settings.mutation == Some(Mutation::ComparesNames) {
                    state.world.pods[id.slot()].life
                } else {
                    state.world.pod_of(id)
                };
                work.there = state.world.pod_of(id) == Life::Running;
                Some(Read::Rest)
            }
            // Caches that know another request with this name do not know of requests created before this
            // one.
            Read::Rest if self.view(state, c).request(id).is_none() => {
                state.controllers[c].doing = Doing::Idle;
                return;
            }
            Read::Rest => {
                self.read_rest(state, c, &mut work);
                let checks = self.next_check(&work.seen, 0);
                if self.asks_for_standing(&work.seen) {
                    Some(Read::Standing)
                } else {
                    checks
                }
            }
            Read::Standing => {
                work.seen.standing = match state.world.standing {
                    _ if silent => Covered::Unheard,
                    true => Covered::Yes,
                    false => Covered::No,
                };
                self.next_check(&work.seen, 0)
            }
            Read::Check(policy) => {
                self.hear(&state.world, &mut work.seen, policy, silent);
                self.next_check(&work.seen, policy + 1)
            }
        };
        if let Some(next) = next {
            work.next = next;
            state.controllers[c].doing = Doing::Reading(work);
            return;
        }
        let age = if work.stale { Age::Stale } else { Age::Fresh };
        let plan = self.tables.decide(&work.seen, age, state.late);
        state.controllers[c].doing = self.applying(&work, plan, true);
    }

    fn read_rest(&self, state: &State, c: usize, work: &mut Reading) {
        let id = work.seen.id;
        let view = self.view(state, c);
        let decided = self.tables.status(work.seen.status).decided;
        for policy in (0..).take(POLICIES) {
            let place = (id.index(), usize::from(policy));
            let shown = view.grants[place.0][place.1];
            // The objects that the status names and those that the caches show are read.
            let named = decided & 1 << policy != 0;
            let live = state.world.grants[place.0][place.1];
            let objects = &mut work.seen.objects[place.1];
            if named || shown.binding {
                objects.binding = live.binding;
            }
            if named || shown.role != 0 {
                objects.role = live.role;
            }
            for kind in Kind::ALL.into_iter().filter(|kind| objects.has(*kind)) {
                work.theirs |= kind.bit(policy);
            }
        }
        work.seen.tuple = self.tuple(&view, Some(&state.world), (id, work.seen.status));
        if !self.tables.is_decided_by_itself(&work.seen) {
            work.seen.connector = state.world.connector;
            work.seen.policies = state.world.policies;
        }
    }

    /// True when a live look asks about a standing permission.
    fn asks_for_standing(&self, seen: &Seen) -> bool {
        self.settings.standing
            && !self.tables.is_decided_by_itself(seen)
            && super::objects::connector_uid(seen.connector).is_some()
    }

    fn next_check(&self, seen: &Seen, from: u8) -> Option<Read> {
        if self.tables.is_decided_by_itself(seen)
            || super::objects::connector_uid(seen.connector).is_none()
        {
            return None;
        }
        let mut policies = (from..).take(POLICIES - usize::from(from));
        policies
            .find(|policy| self.tables.asks(seen, *policy))
            .map(Read::Check)
    }

    fn applying(&self, read: &Reading, number: u32, is_live: bool) -> Doing {
        let seen = &read.seen;
        let plan = self.tables.plan(number);
        let Some(step) = Self::first_step(&plan) else {
            // Nothing to do, or too old: the next look starts over.
            return Doing::Idle;
        };
        let proves = |policy: &u8| {
            let heard = seen.checks[usize::from(*policy)];
            read.there
                && exists(seen.policies[usize::from(*policy)])
                && heard
                    == Heard {
                        check: Check::Approved,
                        silent: false,
                    }
        };
        let proof = (0..)
            .take(POLICIES)
            .filter(proves)
            .fold(0, |all, policy| all | 1 << policy);
        let needed = plan
            .grants
            .iter()
            .fold(0, |all, (policy, _)| all | 1 << policy);
        let removed = plan
            .removes
            .iter()
            .fold(0, |all, (kind, policy)| all | kind.bit(*policy));
        let phase = plan.status.and_then(|it| self.tables.status(it).phase);
        let known = self.tables.status(seen.status);
        let covered = seen.standing == Covered::Yes && known.decided == 0;
        let over = is_live && phase == Some(Phase::Ended) && (!read.there || covered);
        Doing::Applying(Applying {
            id: seen.id,
            decided: seen.status,
            current: seen.status,
            same: read.same,
            stale: read.stale && needed != 0,
            plan: number,
            proof: if is_live { proof & needed } else { 0 },
            over,
            theirs: read.theirs & removed,
            failed: false,
            unrecorded: false,
            step,
        })
    }

    /// Names with objects that the rule about managed objects does not keep.
    pub(super) fn strays<'a>(
        &'a self,
        state: &'a State,
    ) -> impl Iterator<Item = (RequestId, u8)> + 'a {
        let blind = self.settings.mutation == Some(Mutation::NeverEnforces);
        let world = &state.world;
        let strays = world.all_grants().filter(move |(id, policy, there)| {
            let request = world.requests[usize::from(id.name)];
            let is_stray = |kind: &Kind| {
                let form = if *kind == Kind::Role { there.role } else { 1 };
                !self
                    .tables
                    .keeps(*id, *policy, (*kind, form), request, state.late)
            };
            !blind
                && Kind::ALL
                    .iter()
                    .filter(|kind| there.has(**kind))
                    .any(is_stray)
        });
        strays.map(|(id, policy, _)| (id, policy))
    }

    /// Starts the check of the objects with one name: their request is read.
    pub(super) fn start_enforcing(state: &State, id: RequestId, policy: u8) -> Enforcing {
        let request = state.world.requests[usize::from(id.name)];
        Enforcing {
            id,
            policy,
            request,
            next: Kind::Binding,
        }
    }

    /// Checks the next of the two objects. None after the last one.
    pub(super) fn go_on_enforcing(
        &self,
        state: &mut State,
        work: &Enforcing,
        call: Call,
    ) -> Option<Enforcing> {
        if call != Call::Refused {
            self.enforce(state, work.id, work.policy, work.next, work.request);
        }
        match work.next {
            Kind::Binding => Some(Enforcing {
                next: Kind::Role,
                ..work.clone()
            }),
            Kind::Role => None,
        }
    }

    /// One step of the initial sweep.
    pub(super) fn sweep(&self, state: &mut State, c: usize, sweep: &Sweep, call: Call) {
        let places: Vec<_> = state.world.all_grants().collect();
        let bits = |is: &dyn Fn(RequestId, u8) -> bool| {
            let all = (0_u32..)
                .zip(&places)
                .filter(|(_, (id, policy, _))| is(*id, *policy));
            all.fold(0_u32, |bits, (n, _)| bits | 1 << n)
        };
        let next = match sweep {
            // A failed list is repeated.
            Sweep::Started | Sweep::Listed(_) if call != Call::Done => Some(sweep.clone()),
            Sweep::Started => {
                let there = bits(&|id, policy| {
                    let it = state.world.grants[id.index()][usize::from(policy)];
                    it.binding || it.role != 0
                });
                (there != 0).then_some(Sweep::Listed(there))
            }
            Sweep::Listed(listed) => {
                let strays: Vec<_> = self.strays(state).collect();
                let left = listed & bits(&|id, policy| strays.contains(&(id, policy)));
                (left != 0).then_some(Sweep::Strays(left))
            }
            Sweep::Strays(left) => {
                let (id, policy, _) = places[left.trailing_zeros() as usize];
                let work = Self::start_enforcing(state, id, policy);
                Some(Sweep::Enforcing(*left, work))
            }
            Sweep::Enforcing(left, work) => {
                if let Some(work) = self.go_on_enforcing(state, work, call) {
                    Some(Sweep::Enforcing(*left, work))
                } else {
                    let left = left & (left - 1);
                    (left != 0).then_some(Sweep::Strays(left))
                }
            }
        };
        state.controllers[c].doing = next.map_or(Doing::Idle, Doing::Sweeping);
    }

    /// True when a controller has written a Role and not yet its RoleBinding.
    pub(super) fn is_half_way(state: &State, doing: &Doing) -> bool {
        let Doing::Applying(work) = doing else {
            return false;
        };
        matches!(work.step, Step::Create(_, Kind::Binding))
            && state.world.grants[work.id.index()]
                .iter()
                .any(|it| it.role != 0 && !it.binding)
    }
}

/// The objects that caches show and that still exist: a bit for each.
fn still_there(state: &State, seen: &Seen) -> u8 {
    let live = state.world.grants[seen.id.index()];
    let mut there = 0;
    for (policy, (shown, live)) in (0..).zip(seen.objects.iter().zip(live)) {
        for kind in Kind::ALL {
            if shown.has(kind) && live.has(kind) {
                there |= kind.bit(policy);
            }
        }
    }
    there
}

fn nothing_read(seen: Seen) -> Reading {
    Reading {
        seen,
        next: Read::Pod,
        same: true,
        stale: false,
        there: false,
        theirs: 0,
    }
}
