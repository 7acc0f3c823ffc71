//! The rules that must hold, derived from the design: they do not use the controller's code as a reference.

use connectors_api::access_request::Phase;
use jiff::SignedDuration;

use super::{
    Protocol,
    doing::{Applying, Doing, Step, Sweep},
    objects,
    state::{Rule, State},
    world::{Check, Kind, Life, Objects, POLICIES, RequestId, SLOTS, Stored},
};

impl Protocol {
    /// A final status never changes, and an end for one policy is final. A request that held nothing ends
    /// only on live reads.
    pub(super) fn judge_status(&self, state: &mut State, work: &Applying, old: u16, new: u16) {
        let (old, new) = (self.tables.status(old), self.tables.status(new));
        let changed = old.is_terminal() && old.phase != new.phase;
        if changed || old.ended & !new.ended != 0 {
            state.breaks(Rule::Returned);
        }
        if new.phase == Some(Phase::Ended) && !old.is_terminal() && !work.over {
            state.breaks(Rule::EndedEarly);
        }
    }

    /// When all is quiet, no request waits unnecessarily, and no request remains that should have made way.
    pub(super) fn nothing_waits_in_vain(&self, state: &State) -> bool {
        let world = &state.world;
        let minute = SignedDuration::from_mins(1);
        !self.is_quiet(state)
            || world.all_requests().all(|(id, stored)| {
                let known = self.tables.status(stored.status);
                let waits = known.phase == Some(Phase::Pending)
                    && known.decided == 0
                    && world.pod_of(id) == Life::Running
                    && objects::connector_uid(world.connector).is_some();
                let stays = known
                    .makes_way
                    .is_some_and(|ended| objects::wall(state.late) >= ended + minute);
                !(stays || waits && world.standing)
            })
    }

    /// A standing permission ended a request.
    pub(super) fn makes_way(&self, state: &State) -> bool {
        let mut all = state.world.all_requests();
        all.any(|(_, it)| self.tables.status(it.status).makes_way.is_some())
    }

    /// A request is granted that was created after another one with its name was deleted.
    pub(super) fn grants_anew(&self, state: &State) -> bool {
        let mut all = state.world.all_requests();
        all.any(|(id, _)| id.incarnation > 0 && self.phase(state, id) == Some(Phase::Granted))
    }

    /// Judges a new binding by the actual live reads of this controller.
    pub(super) fn judge_binding(&self, state: &mut State, work: &Applying, policy: u8) {
        if work.proof & 1 << policy == 0 || work.stale {
            state.breaks(Rule::GrantedUnproven);
        }
        let grant = self.tables.grant(work.id, work.current, policy);
        let is_narrow = grant.is_some_and(|grant| {
            let subjects = grant.binding.subjects.unwrap_or_default();
            let is_pods = |it: &k8s_openapi::api::rbac::v1::Subject| {
                it.kind == "ServiceAccount"
                    && it.name == objects::ACCOUNT
                    && it.namespace.as_deref() == Some(objects::HOME)
            };
            let resource = format!(
                "connectors/apis/v1/pod/{}/{}",
                objects::HOME,
                objects::pod_name(work.id.slot())
            );
            let rules = grant.role.rules.unwrap_or_default();
            subjects.len() == 1
                && subjects.iter().all(is_pods)
                && grant.binding.metadata.namespace.as_deref() == Some(objects::NAMESPACE)
                && grant.role.metadata.namespace.as_deref() == Some(objects::NAMESPACE)
                && !rules.is_empty()
                && rules.iter().all(|rule| {
                    rule.resources.as_ref() == Some(&vec![resource.clone()])
                        && rule.resource_names.as_ref()
                            == Some(&vec![objects::CONNECTOR.to_owned()])
                })
        });
        if !is_narrow {
            state.breaks(Rule::GrantedTooMuch);
        }
    }

    /// No work is in progress, and no controller finds anything to do.
    pub(super) fn is_quiet(&self, state: &State) -> bool {
        let idle = |it: &super::state::Controller| it.doing == Doing::Idle && it.behind.is_none();
        state.controllers.iter().all(idle)
            && !state
                .world
                .all_requests()
                .any(|(id, _)| self.look(state, 0, id).is_some())
            && !self.strays(state).any(|_| true)
    }

    /// When all is quiet, every justified grant exists.
    pub(super) fn is_settled(&self, state: &State) -> bool {
        !self.is_quiet(state)
            || state.world.all_grants().all(|(id, policy, there)| {
                let full = there.binding && there.role != 0;
                let none = !there.binding && there.role == 0;
                let prepared = self.is_prepared(state, id, policy, there);
                match self.wanted(state, id, policy) {
                    Some(true) => full && self.phase(state, id) == Some(Phase::Granted),
                    Some(false) => none || prepared,
                    None => full || none || prepared,
                }
            })
    }

    /// When all is quiet, no unjustified grant exists.
    pub(super) fn is_clean(&self, state: &State) -> bool {
        !self.is_quiet(state)
            || state.world.all_grants().all(|(id, policy, there)| {
                !there.binding && there.role == 0
                    || self.wanted(state, id, policy) != Some(false)
                    || self.is_prepared(state, id, policy, there)
            })
    }

    /// A Role without a binding may stay while its request waits for that policy, with the policy's present rules.
    fn is_prepared(&self, state: &State, id: RequestId, policy: u8, there: Objects) -> bool {
        let world = &state.world;
        let is_open = |stored: Stored| {
            let known = self.tables.status(stored.status);
            !known.is_terminal() && known.prepared & 1 << policy != 0
        };
        !there.binding
            && world.request(id).is_some_and(is_open)
            && world.pod_of(id) == Life::Running
            && objects::connector_uid(world.connector).is_some()
            && objects::form_of(world.policies[usize::from(policy)]) == Some(there.role)
    }

    /// A Role that was written in advance is bound.
    pub(super) fn binds_a_prepared_role(&self, state: &State) -> bool {
        let binds = |doing: &Doing| {
            let Doing::Applying(work) = doing else {
                return false;
            };
            let Step::Create(i, Kind::Binding) = work.step else {
                return false;
            };
            let plan = self.tables.plan(work.plan);
            let (policy, _) = plan.grants[usize::from(i)];
            let decided = self.tables.status(work.decided);
            plan.has_role & decided.prepared & 1 << policy != 0
        };
        state.controllers.iter().any(|it| binds(&it.doing))
    }

    fn phase(&self, state: &State, id: RequestId) -> Option<Phase> {
        self.tables.status(state.world.request(id)?.status).phase
    }

    /// Whether a grant should exist. None if both are correct: an existing grant may stay.
    fn wanted(&self, state: &State, id: RequestId, policy: u8) -> Option<bool> {
        let world = &state.world;
        let Some(stored) = world.request(id) else {
            return Some(false);
        };
        let known = self.tables.status(stored.status);
        let pinned = known.connector.as_deref();
        let connector = objects::connector_uid(world.connector);
        let connector_is_there =
            connector.is_some() && pinned.is_none_or(|pinned| Some(pinned) == connector);
        let over = known.is_terminal()
            || known.ended & 1 << policy != 0
            || world.pod_of(id) != Life::Running
            || !connector_is_there
            || !super::tables::exists(world.policies[usize::from(policy)]);
        if over {
            return Some(false);
        }
        // Of several requests of one pod one decides; this rule does not say which.
        let twin = world.all_requests().any(|(other, stored)| {
            other.name != id.name
                && (other.slot(), other.generation()) == (id.slot(), id.generation())
                && self.tables.status(stored.status).phase != Some(Phase::Invalid)
        });
        let in_force = known.granted & 1 << policy != 0;
        match world.checks[id.slot()][usize::from(policy)] {
            Check::Approved if twin => None,
            Check::Approved => Some(true),
            // The first policy allows the deletion of an approval.
            Check::Deleted if policy == 0 && in_force => None,
            Check::Deleted | Check::Pending | Check::Rejected => Some(false),
        }
    }

    /// Every admitted pod is the pod of a granted request.
    pub(super) fn mounts_are_granted(&self, state: &State) -> bool {
        (0..SLOTS).all(|slot| {
            let pod = state.world.pods[slot];
            pod.life == Life::Gone
                || !self.tables.may_mount(&state.world, slot, state.late)
                || state.world.all_requests().any(|(id, stored)| {
                    let known = self.tables.status(stored.status);
                    id.slot() == slot
                        && id.generation() == pod.generation
                        && known.phase == Some(Phase::Granted)
                        && (0_u8..).take(POLICIES).any(|policy| {
                            let there = state.world.grants[id.index()][usize::from(policy)];
                            there.binding && there.role != 0 && known.granted & 1 << policy != 0
                        })
                })
        })
    }

    /// At most one request of a pod holds a grant. When all is quiet, none holds one beside a rejected or
    /// revoked request.
    pub(super) fn one_decides(&self, state: &State) -> bool {
        let phase = |stored: &Stored| self.tables.status(stored.status).phase;
        let pod = |id: &RequestId| (id.slot(), id.generation());
        let all = || state.world.all_requests();
        all()
            .filter(|(_, it)| phase(it) == Some(Phase::Granted))
            .all(|(id, _)| {
                let mut others = all().filter(|(other, _)| *other != id && pod(other) == pod(&id));
                others.all(|(_, stored)| match phase(&stored) {
                    Some(Phase::Granted) => false,
                    Some(Phase::Rejected | Phase::Revoked | Phase::Ended) => !self.is_quiet(state),
                    Some(Phase::Pending | Phase::Invalid) | None => true,
                })
            })
    }

    /// A pod is admitted.
    pub(super) fn mounts(&self, state: &State) -> bool {
        (0..SLOTS).any(|slot| {
            state.world.pods[slot].life == Life::Running
                && self.tables.may_mount(&state.world, slot, state.late)
        })
    }

    /// A request was granted and ended, and none of its objects is left.
    pub(super) fn revokes(&self, state: &State) -> bool {
        state.world.all_requests().any(|(id, stored)| {
            self.tables.status(stored.status).revoked
                && state.world.grants[id.index()]
                    .iter()
                    .all(|it| !it.binding && it.role == 0)
        })
    }

    /// A controller is about to revoke a grant that it has just written.
    pub(super) fn loses_a_race(state: &State) -> bool {
        state.controllers.iter().any(|it| {
            matches!(&it.doing, Doing::Applying(work)
                if matches!(work.step, Step::Enforce(0, _))
                    && state.world.grants[work.id.index()].iter().any(|it| it.has(Kind::Binding)))
        })
    }

    /// A sweep removes something.
    pub(super) fn sweeps(state: &State) -> bool {
        let removes = |it: &Doing| matches!(it, Doing::Sweeping(Sweep::Enforcing(..)));
        state.controllers.iter().any(|it| removes(&it.doing))
    }

    /// A grant that a crash left incomplete was completed.
    pub(super) fn recovers(&self, state: &State) -> bool {
        state.halved
            && state.world.all_requests().any(|(id, stored)| {
                self.tables.status(stored.status).phase == Some(Phase::Granted)
                    && state.world.grants[id.index()]
                        .iter()
                        .any(|it| it.binding && it.role != 0)
            })
            && self.is_quiet(state)
    }

    /// A request for a pod with another request is refused.
    pub(super) fn refuses_a_twin(&self, state: &State) -> bool {
        state.world.all_requests().any(|(_, stored)| {
            let known = self.tables.status(stored.status);
            let conditions = known.status.iter().flat_map(|it| &it.conditions);
            let duplicate = connectors_api::reason::Ready::DuplicateRequest.to_string();
            conditions.into_iter().any(|it| it.reason == duplicate)
        })
    }
}
