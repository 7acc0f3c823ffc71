//! The names of the calls, as the protocol and the metrics have them.

pub(crate) const CHECK_ACCESS: &str = "CheckAccess";
pub(crate) const EVALUATE_CHECKS: &str = "EvaluateChecks";
pub(crate) const BATCH_CHECK_ACCESS: &str = "BatchCheckAccess";
pub(crate) const VALIDATE_POLICY: &str = "ValidatePolicy";
pub(crate) const WATCH_ACCESS: &str = "WatchAccess";
/// Every other path in the metrics, so that no caller chooses a label.
pub(crate) const OTHER: &str = "other";
/// The calls that metrics tell apart.
pub(crate) const COUNTED_CALLS: [&str; 9] = [
    CHECK_ACCESS,
    BATCH_CHECK_ACCESS,
    WATCH_ACCESS,
    EVALUATE_CHECKS,
    VALIDATE_POLICY,
    "WhoCan",
    "ReviewToken",
    "Explain",
    OTHER,
];
