//! The names of the calls, as the protocol and the metrics have them.

use evaluation_api::v1::CALLS;

pub(crate) const CHECK_ACCESS: &str = "CheckAccess";
pub(crate) const EVALUATE_CHECKS: &str = "EvaluateChecks";
pub(crate) const BATCH_CHECK_ACCESS: &str = "BatchCheckAccess";
pub(crate) const VALIDATE_POLICY: &str = "ValidatePolicy";
pub(crate) const WATCH_ACCESS: &str = "WatchAccess";
/// Every other path in the metrics, so that no caller chooses a label.
pub(crate) const OTHER: &str = "other";
/// The calls that metrics tell apart: those of the protocol, and the rest as one.
pub(crate) const COUNTED_CALLS: [&str; CALLS.len() + 1] = {
    let mut all = [OTHER; CALLS.len() + 1];
    let (of_protocol, _) = all.split_at_mut(CALLS.len());
    of_protocol.copy_from_slice(&CALLS);
    all
};
