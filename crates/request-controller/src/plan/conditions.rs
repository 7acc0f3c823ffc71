//! The conditions of a request: each is set once, and its transition time changes only with its value.

use connectors_api::{
    AccessRequestCondition, Condition, ConditionStatus,
    reason::{self, ConditionReason},
};
use jiff::Timestamp;

use crate::evidence::shortened;

/// The new conditions, beside the old ones.
///
/// A condition that is not set becomes Unknown.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    old: Vec<Condition<AccessRequestCondition>>,
    new: Vec<Condition<AccessRequestCondition>>,
    generation: Option<i64>,
    now: Timestamp,
}

impl Conditions {
    pub(super) fn after(
        old: &[Condition<AccessRequestCondition>],
        generation: Option<i64>,
        now: Timestamp,
    ) -> Self {
        Self {
            old: old.to_vec(),
            new: Vec::new(),
            generation,
            now,
        }
    }

    pub(super) fn is_true<R: ConditionReason>(&mut self, reason: R, message: impl Into<String>) {
        self.set(ConditionStatus::True, reason, message.into());
    }

    pub(super) fn is_false<R: ConditionReason>(&mut self, reason: R, message: impl Into<String>) {
        self.set(ConditionStatus::False, reason, message.into());
    }

    fn set<R: ConditionReason>(&mut self, status: ConditionStatus, reason: R, message: String) {
        self.write(R::CONDITION, status, reason.as_str(), message);
    }

    fn write(
        &mut self,
        type_: AccessRequestCondition,
        status: ConditionStatus,
        reason: &str,
        message: String,
    ) {
        let was = find(&self.old, type_);
        let since = was
            .filter(|was| was.status == status)
            .map_or(self.now, |was| was.last_transition_time);
        self.put(Condition {
            type_,
            status,
            reason: reason.to_owned(),
            message: shortened(message),
            observed_generation: self.generation,
            last_transition_time: since,
        });
    }

    /// Keeps the old condition: it is no longer judged.
    pub(super) fn keep(&mut self, type_: AccessRequestCondition) {
        if let Some(was) = self.old.iter().find(|it| it.type_ == type_).cloned() {
            self.put(was);
        }
    }

    /// Sets a condition to Unknown, with the reason.
    pub(super) fn is_unknown(&mut self, type_: AccessRequestCondition, message: &str) {
        self.write(
            type_,
            ConditionStatus::Unknown,
            reason::NOT_JUDGED,
            message.to_owned(),
        );
    }

    /// Keeps all old conditions that were not set.
    pub(super) fn keep_the_rest(&mut self) {
        for type_ in AccessRequestCondition::ALL {
            if find(&self.new, *type_).is_none() {
                self.keep(*type_);
            }
        }
    }

    fn put(&mut self, condition: Condition<AccessRequestCondition>) {
        self.new.retain(|it| it.type_ != condition.type_);
        self.new.push(condition);
    }

    /// All conditions in a fixed order, independent of the order in which they were set.
    pub(super) fn finish(mut self) -> Vec<Condition<AccessRequestCondition>> {
        for type_ in AccessRequestCondition::ALL {
            if find(&self.new, *type_).is_none() {
                self.is_unknown(*type_, "");
            }
        }
        self.new.sort_by_key(|it| it.type_);
        self.new
    }
}

/// The reason of Ready in a status, if it is a known one.
pub(super) fn ready(conditions: &[Condition<AccessRequestCondition>]) -> Option<reason::Ready> {
    let ready = find(conditions, AccessRequestCondition::Ready)?;
    reason::Ready::ALL
        .iter()
        .copied()
        .find(|word| word.as_str() == ready.reason)
}

pub(super) fn find(
    conditions: &[Condition<AccessRequestCondition>],
    type_: AccessRequestCondition,
) -> Option<&Condition<AccessRequestCondition>> {
    conditions.iter().find(|it| it.type_ == type_)
}
