//! The reason and the message of a check, from those of its objects.

use super::{JudgeReason, ObjectJudgement, ResultReason};
use crate::access_policy::Check;
use crate::reason::AccessCheckReady;

/// The reason and the message of the decisive object; of several, the first by name.
pub(super) fn of_check(
    check: &Check,
    verdict: AccessCheckReady,
    objects: &[ObjectJudgement],
) -> (ResultReason, String) {
    // If an object does not match the check, the check fails although all others may have passed. That object
    // is the one to report.
    let misled =
        |object: &&ObjectJudgement| object.reason == ResultReason::Judge(JudgeReason::NotSelected);
    let decisive = |object: &&ObjectJudgement| object.verdict == verdict;
    let first = objects.iter().find(misled);
    let first = first.or_else(|| objects.iter().find(decisive));
    let Some(first) = first.or(objects.first()) else {
        let kind = &check.selector.object_ref.kind;
        let message =
            format!("no {kind} that the check selects was found in the pod's namespace yet");
        return (JudgeReason::NoObjects.into(), message);
    };
    let others = objects.iter().filter(decisive).count().saturating_sub(1);
    let message = if others == 0 || misled(&first) {
        first.message.clone()
    } else {
        format!("{} (and {others} more like it)", first.message)
    };
    (first.reason, message)
}
