//! Whether a standing permission covers what a request asks for.

use connectors_api::AccessRequest;
use service_kit::report;
use tokio::time::timeout;
use tracing::warn;

use super::{Observer, Via};
use crate::{
    evaluator::Unanswered,
    seen::StandingSeen,
    standing::{LIMIT, question},
};

impl Observer {
    /// From the caches, what was heard of all that wait. Otherwise the evaluation service is asked anew, but only
    /// where something was heard: no other look waits for it.
    pub(super) async fn standing(&self, request: &AccessRequest, via: Via) -> StandingSeen {
        let uid = request.metadata.uid.as_deref().unwrap_or_default();
        if !self.world.read().standing.has(uid) {
            return StandingSeen::Unknown;
        }
        if via == Via::Caches {
            return StandingSeen::There;
        }
        let said = timeout(LIMIT, self.evaluator.standing(vec![question(request)])).await;
        let seen = match said.unwrap_or(Err(Unanswered::Late(LIMIT))) {
            Ok(answers) => answers.first().copied().unwrap_or_default(),
            Err(error) => {
                warn!(
                    error = report(&error),
                    "a standing permission is not confirmed"
                );
                StandingSeen::Unknown
            }
        };
        if seen != StandingSeen::There {
            // Until it is heard again, no further look is made for it.
            self.world.write().standing.forget(uid);
        }
        seen
    }
}
