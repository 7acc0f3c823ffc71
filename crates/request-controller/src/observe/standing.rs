//! Whether a standing permission covers a request.

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
    /// A cached observation uses the last answer about all waiting requests. A live one asks the evaluation service
    /// again, but only if that answer was positive: other reconciliations do not wait for it.
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
            // No further live read is made for it until the next positive answer.
            self.world.write().standing.forget(uid);
        }
        seen
    }
}
