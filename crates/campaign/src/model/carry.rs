//! The controller's writes, one call at a time: the awaits of `apply` become steps between which anything may
//! happen.

use super::{
    Mutation, Protocol,
    doing::{Applying, Doing, Step},
    state::State,
    tables::Planned,
    world::{Kind, Stored},
};

/// The number of reads of the request that confirm that the grant is still wanted.
const ASKED: u8 = 3;

/// The outcome of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Call {
    /// It is executed and answered.
    Done,
    /// It is not executed.
    Refused,
    /// It is executed, but the answer is lost.
    Unheard,
}

/// The result of a write, for the writer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrote {
    Yes,
    Conflict,
    Failed,
}

impl Protocol {
    /// One call of a controller that executes a plan.
    pub(super) fn carry(&self, state: &mut State, c: usize, work: &Applying, call: Call) {
        let plan = self.tables.plan(work.plan);
        let mut work = work.clone();
        let next = match work.step.clone() {
            Step::Status => self.write_plan(state, c, &mut work, &plan, call),
            Step::Remove(i) => {
                remove_one(state, &mut work, plan.removes[usize::from(i)], call);
                Self::after_removal(&mut work, &plan, i + 1)
            }
            Step::Create(i, kind) => self.create(state, &work, &plan, (i, kind), call),
            Step::Prepare(i) => prepare(state, &work, &plan, i, call),
            Step::Adopt(i, kind) => self.adopt(state, &work, &plan, (i, kind), call),
            Step::Clear(i, kind) => {
                let policy = plan.grants[usize::from(i)].0;
                if call != Call::Refused {
                    state.delete(work.id, policy, kind);
                }
                Some(match kind {
                    Kind::Binding => Step::Clear(i, Kind::Role),
                    Kind::Role => Step::NotWritten,
                })
            }
            Step::NotWritten => {
                let id = work.id;
                if let Some(status) = self.tables.not_written(id, work.current, state.late) {
                    self.write(state, c, &mut work, status, call);
                }
                None
            }
            Step::Gone(i, tried) => self.make_sure(state, &mut work, &plan, (i, tried), call),
            Step::Finished => {
                let id = work.id;
                if let Some(status) = self.tables.finished(id, work.current, state.late) {
                    match self.write(state, c, &mut work, status, call) {
                        Wrote::Yes => Self::after_end(&plan),
                        Wrote::Conflict | Wrote::Failed => None,
                    }
                } else {
                    Self::after_end(&plan)
                }
            }
            Step::DeleteRequest => {
                if work.same && call != Call::Refused {
                    state.delete_request(work.id);
                }
                None
            }
            Step::Confirm(asked) => self.confirm(state, &mut work, asked, call),
            Step::ConfirmWrite(asked, status) => {
                match self.write(state, c, &mut work, status, call) {
                    Wrote::Conflict if asked < ASKED => Some(Step::Confirm(asked + 1)),
                    Wrote::Yes | Wrote::Conflict | Wrote::Failed => None,
                }
            }
            Step::Enforce(i, live) => self.take_back(state, &work, &plan, (i, live), call),
        };
        // State that no later step uses is dropped.
        state.controllers[c].doing = match next {
            Some(step) => {
                work.step = step;
                Doing::Applying(work)
            }
            None => Doing::Idle,
        };
    }

    /// The first step of a plan.
    pub(super) fn first_step(plan: &Planned) -> Option<Step> {
        if plan.status.is_some() {
            Some(Step::Status)
        } else {
            Self::after_status(plan)
        }
    }

    fn after_status(plan: &Planned) -> Option<Step> {
        if plan.removes.is_empty() {
            Self::after_all_removed(plan)
        } else {
            Some(Step::Remove(0))
        }
    }

    fn after_all_removed(plan: &Planned) -> Option<Step> {
        if !plan.grants.is_empty() {
            Some(first_create(plan, 0))
        } else if !plan.prepares.is_empty() {
            Some(Step::Prepare(0))
        } else if plan.finish {
            Some(Step::Gone(0, 0))
        } else if plan.delete {
            Some(Step::DeleteRequest)
        } else {
            None
        }
    }

    fn after_end(plan: &Planned) -> Option<Step> {
        debug_assert!(
            plan.grants.is_empty(),
            "{plan:?}: nothing is granted by what ends everything"
        );
        plan.delete.then_some(Step::DeleteRequest)
    }

    fn write_plan(
        &self,
        state: &mut State,
        c: usize,
        work: &mut Applying,
        plan: &Planned,
        call: Call,
    ) -> Option<Step> {
        let status = plan.status?;
        match self.write(state, c, work, status, call) {
            Wrote::Yes => {
                work.unrecorded = false;
                Self::after_status(plan)
            }
            Wrote::Conflict | Wrote::Failed if !plan.ends => None,
            Wrote::Conflict if is_as_decided(state, work) => {
                // Only irrelevant fields changed: write once more, on the newest version.
                work.same = true;
                Some(Step::Status)
            }
            // The end was already carried out without being recorded, and cannot be recorded now either.
            Wrote::Conflict | Wrote::Failed if work.unrecorded => None,
            Wrote::Conflict | Wrote::Failed => {
                work.unrecorded = true;
                if plan.removes.is_empty() {
                    Self::after_removal(work, plan, 0)
                } else {
                    Some(Step::Remove(0))
                }
            }
        }
    }

    fn after_removal(work: &mut Applying, plan: &Planned, next: u8) -> Option<Step> {
        if usize::from(next) < plan.removes.len() {
            return Some(Step::Remove(next));
        }
        match (work.unrecorded, work.failed) {
            (true, _) if plan.finish => Some(Step::Gone(0, 0)),
            (_, true) => None,
            (true, false) => Some(Step::Status),
            (false, false) => Self::after_all_removed(plan),
        }
    }

    /// Writes the status on the version that this controller knows.
    fn write(
        &self,
        state: &mut State,
        c: usize,
        work: &mut Applying,
        status: u16,
        call: Call,
    ) -> Wrote {
        if call == Call::Refused {
            return Wrote::Failed;
        }
        let careless = self.settings.mutation == Some(Mutation::SkipsConfirm)
            && matches!(work.step, Step::ConfirmWrite(..));
        let there = state.world.request(work.id);
        let Some(old) = there.filter(|_| work.same || careless) else {
            return Wrote::Conflict;
        };
        self.judge_status(state, work, old.status, status);
        let stored = Stored {
            incarnation: work.id.incarnation,
            status,
        };
        state.world.requests[usize::from(work.id.name)] = Some(stored);
        state.touch(work.id, Some(c));
        if call == Call::Unheard {
            work.same = false;
            return Wrote::Failed;
        }
        work.current = status;
        Wrote::Yes
    }

    fn create(
        &self,
        state: &mut State,
        work: &Applying,
        plan: &Planned,
        (i, kind): (u8, Kind),
        call: Call,
    ) -> Option<Step> {
        if work.stale && self.settings.mutation != Some(Mutation::ForgetsAge) {
            return None;
        }
        if call == Call::Refused {
            return Some(Step::NotWritten);
        }
        let (policy, form) = plan.grants[usize::from(i)];
        let objects = &mut state.world.grants[work.id.index()][usize::from(policy)];
        if objects.has(kind) {
            return Some(match call {
                Call::Done | Call::Refused => Step::Adopt(i, kind),
                Call::Unheard => Step::NotWritten,
            });
        }
        match kind {
            Kind::Role => objects.role = form,
            Kind::Binding => {
                objects.binding = true;
                self.judge_binding(state, work, policy);
            }
        }
        if call == Call::Unheard {
            Some(Step::NotWritten)
        } else {
            Some(self.after_create(state, work, plan, (i, kind)))
        }
    }

    fn after_create(
        &self,
        state: &State,
        work: &Applying,
        plan: &Planned,
        (i, kind): (u8, Kind),
    ) -> Step {
        match kind {
            Kind::Role => Step::Create(i, Kind::Binding),
            Kind::Binding if usize::from(i) + 1 < plan.grants.len() => first_create(plan, i + 1),
            Kind::Binding => self.confirm_unread(state, work),
        }
    }

    fn adopt(
        &self,
        state: &State,
        work: &Applying,
        plan: &Planned,
        (i, kind): (u8, Kind),
        call: Call,
    ) -> Option<Step> {
        if call != Call::Done {
            return Some(Step::NotWritten);
        }
        let (policy, _) = plan.grants[usize::from(i)];
        if !state.world.grants[work.id.index()][usize::from(policy)].has(kind) {
            // The object was deleted meanwhile: the next look starts over.
            return None;
        }
        if self.is_as_granted(state, work, policy, kind) {
            Some(self.after_create(state, work, plan, (i, kind)))
        } else {
            Some(Step::Clear(i, Kind::Binding))
        }
    }

    /// True when the object with this name is exactly the decided one.
    fn is_as_granted(&self, state: &State, work: &Applying, policy: u8, kind: Kind) -> bool {
        let there = state.world.grants[work.id.index()][usize::from(policy)];
        let form = if kind == Kind::Role { there.role } else { 1 };
        there.has(kind)
            && self
                .tables
                .is_exactly(work.id, work.current, policy, kind, form)
    }
}

/// The first write of a grant: a Role that was seen as decided is not written again.
fn first_create(plan: &Planned, i: u8) -> Step {
    let (policy, _) = plan.grants[usize::from(i)];
    let kind = if plan.has_role & 1 << policy == 0 {
        Kind::Role
    } else {
        Kind::Binding
    };
    Step::Create(i, kind)
}

/// Writes a Role to which no RoleBinding refers. A failure has no consequence.
fn prepare(state: &mut State, work: &Applying, plan: &Planned, i: u8, call: Call) -> Option<Step> {
    let (policy, form) = plan.prepares[usize::from(i)];
    let objects = &mut state.world.grants[work.id.index()][usize::from(policy)];
    if call != Call::Refused && !objects.has(Kind::Role) {
        objects.role = form;
    }
    let next = i + 1;
    (usize::from(next) < plan.prepares.len()).then_some(Step::Prepare(next))
}

fn is_as_decided(state: &State, work: &Applying) -> bool {
    state
        .world
        .request(work.id)
        .is_some_and(|it| it.status == work.decided)
}

fn remove_one(state: &mut State, work: &mut Applying, (kind, policy): (Kind, u8), call: Call) {
    let bit = kind.bit(policy);
    let there = state.world.grants[work.id.index()][usize::from(policy)].has(kind);
    match call {
        Call::Refused => work.failed = true,
        // Another object has its name now: it is left for the next look.
        Call::Done | Call::Unheard if there && work.theirs & bit == 0 => work.failed = true,
        Call::Done | Call::Unheard => {
            if there {
                state.delete(work.id, policy, kind);
            }
            work.failed |= call == Call::Unheard;
        }
    }
    work.theirs &= !bit;
}
