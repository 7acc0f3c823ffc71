//! A tenant that comes when the faults of a plan are over. What the evaluation service said before must not matter to it.

use std::time::Duration;

use crate::neighbour::{granted, pod, policy, tenant};
use crate::stage::Stage;

/// The namespace of its connector, policy, pod and request.
pub const LATE: &str = "late";
const NAME: &str = "late-0";
/// The time until its approved pod has access.
pub const SOON: Duration = Duration::from_mins(1);

/// Creates everything, approved.
pub fn comes(stage: &Stage) {
    tenant(stage, LATE);
    stage.put(policy(LATE, NAME));
    pod(stage, LATE, NAME, "approved");
}

/// Whether its request is granted.
#[must_use]
pub fn is_granted(stage: &Stage) -> bool {
    granted(stage, LATE) > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::{run, scenario};

    #[test]
    fn without_a_controller_nothing_is_granted() {
        let stage = Stage::new();
        comes(&stage);
        assert!(!is_granted(&stage));
    }

    /// The tenant is no part of what is judged.
    #[test]
    fn a_tenant_that_comes_after_a_lie_has_access_and_changes_nothing_else() {
        let withdrawn = scenario::named("withdrawn").unwrap();
        let plan = "withdrawn+evaluator/only-yes/1/1";
        let plan: Plan = plan.parse().unwrap();
        let outcome = run::run(&withdrawn, &plan).unwrap();
        assert_eq!(outcome.violations, []);
        assert!(!outcome.log.is_empty());
    }
}
