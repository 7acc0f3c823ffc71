//! The controller's last calls: grants are confirmed or revoked, and ended grants are verified to be gone.

use super::{
    Mutation, Protocol,
    carry::Call,
    doing::{Applying, Step},
    state::State,
    tables::Planned,
    world::{Kind, POLICIES, RequestId, Stored},
};

/// The number of deletions of an object that does not stay deleted.
const DELETED: u8 = 2;

impl Protocol {
    pub(super) fn make_sure(
        &self,
        state: &mut State,
        work: &mut Applying,
        plan: &Planned,
        (i, tried): (u8, u8),
        call: Call,
    ) -> Option<Step> {
        // An end that cannot be recorded is carried out as if it had been recorded.
        let status = if work.unrecorded {
            plan.status?
        } else {
            work.current
        };
        let decided = self.tables.status(status).decided;
        let policies = (0_u8..).take(POLICIES);
        let places = policies.flat_map(|policy| Kind::ALL.map(|kind| (policy, kind)));
        let wanted = |(n, (policy, _)): &(u8, (u8, Kind))| *n >= i && decided & 1 << policy != 0;
        let mut left = (0_u8..).zip(places).filter(wanted);
        if let Some((n, (policy, kind))) = left.next() {
            let tried = if n == i { tried } else { 0 };
            let there = state.world.grants[work.id.index()][usize::from(policy)].has(kind);
            if there && call != Call::Refused && tried < DELETED {
                state.delete(work.id, policy, kind);
                if call == Call::Done {
                    // It is read again: only an object that is not found counts as gone.
                    return Some(Step::Gone(n, tried + 1));
                }
            }
            work.failed |= there || call != Call::Done;
            if let Some((next, _)) = left.next() {
                return Some(Step::Gone(next, 0));
            }
        }
        match (work.failed, work.unrecorded) {
            (true, _) => None,
            (false, true) => Some(Step::Status),
            (false, false) => Some(Step::Finished),
        }
    }

    /// The first confirmation names the version that was decided on. It reads nothing, and takes nothing back.
    pub(super) fn confirm_unread(&self, state: &State, work: &Applying) -> Step {
        let decided = Some(Stored {
            incarnation: work.id.incarnation,
            status: work.current,
        });
        match self
            .tables
            .confirmed(decided, work.id, work.current, work.plan, state.late)
        {
            Ok(status) => Step::ConfirmWrite(0, status),
            Err(_) => Step::Confirm(1),
        }
    }

    pub(super) fn confirm(
        &self,
        state: &State,
        work: &mut Applying,
        asked: u8,
        call: Call,
    ) -> Option<Step> {
        if call != Call::Done {
            return None;
        }
        let careless = self.settings.mutation == Some(Mutation::SkipsConfirm);
        let live = if careless {
            Some(Stored {
                incarnation: work.id.incarnation,
                status: work.current,
            })
        } else {
            state.world.requests[usize::from(work.id.name)]
        };
        match self
            .tables
            .confirmed(live, work.id, work.current, work.plan, state.late)
        {
            Ok(status) => {
                work.same = true;
                Some(Step::ConfirmWrite(asked, status))
            }
            Err(_) => Some(Step::Enforce(0, live)),
        }
    }

    pub(super) fn take_back(
        &self,
        state: &mut State,
        work: &Applying,
        plan: &Planned,
        (i, live): (u8, Option<Stored>),
        call: Call,
    ) -> Option<Step> {
        let (policy, _) = plan.grants[usize::from(i) / Kind::ALL.len()];
        let kind = Kind::ALL[usize::from(i) % Kind::ALL.len()];
        if call != Call::Refused {
            self.enforce(state, work.id, policy, kind, live);
        }
        let all = plan.grants.len() * Kind::ALL.len();
        (usize::from(i) + 1 < all).then_some(Step::Enforce(i + 1, live))
    }

    /// The rule about managed objects, for one of them.
    pub(super) fn enforce(
        &self,
        state: &mut State,
        id: RequestId,
        policy: u8,
        kind: Kind,
        request: Option<Stored>,
    ) {
        let there = state.world.grants[id.index()][usize::from(policy)];
        let form = if kind == Kind::Role { there.role } else { 1 };
        if there.has(kind)
            && !self
                .tables
                .keeps(id, policy, (kind, form), request, state.late)
        {
            state.delete(id, policy, kind);
        }
    }
}
