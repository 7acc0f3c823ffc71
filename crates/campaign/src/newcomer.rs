//! A tenant that comes when the faults of a plan are over. What the evaluation service said before must not matter to it.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::neighbour::{pod, policy, tenant};
use crate::stage::Stage;

/// The namespace of its connector, policy, pod and request.
pub const LATE: &str = "late";
const NAME: &str = "late-0";
/// The time until its approved pod has access.
pub const SOON: Duration = Duration::from_mins(1);
const GLANCE: Duration = Duration::from_millis(50);

/// Creates everything, approved. False if the request is not granted soon.
pub async fn is_granted(stage: &Stage) -> bool {
    tenant(stage, LATE);
    stage.put(policy(LATE, NAME));
    pod(stage, LATE, NAME, "approved");
    let deadline = Instant::now() + SOON;
    while Instant::now() < deadline {
        let requests = stage.server.list("accessrequests");
        let mut own = requests
            .iter()
            .filter(|it| it["metadata"]["namespace"] == LATE);
        if own.any(|it| it["status"]["phase"] == "Granted") {
            return true;
        }
        sleep(GLANCE).await;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::{run, scenario};

    #[tokio::test(start_paused = true)]
    async fn without_a_controller_nothing_is_granted() {
        assert!(!is_granted(&Stage::new()).await);
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
