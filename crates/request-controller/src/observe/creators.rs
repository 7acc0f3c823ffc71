//! The admission rule that keeps the creators of pipeline runs true, for checks that exclude them from the approvers.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use connectors_api::check_selector::CompiledPolicy;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{ObserveError, Observer, Via};

/// Before a grant the rule is read from the API server, so a remembered rule only saves calls while requests wait.
const REMEMBERED: Duration = Duration::from_mins(1);

/// The rule as it was last read.
#[derive(Debug, Default)]
pub(super) struct CreatorRule(Mutex<Option<Remembered>>);

#[derive(Clone, Copy, Debug)]
struct Remembered {
    until: Instant,
    /// Since when the rule is in force, if it is.
    since: Option<Timestamp>,
}

impl CreatorRule {
    fn get(&self, now: Instant) -> Option<Remembered> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.filter(|it| now < it.until)
    }

    fn put(&self, now: Instant, since: Option<Timestamp>) {
        let until = now + REMEMBERED;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known = Some(Remembered { until, since });
    }
}

impl Observer {
    /// Since when the rule is in force. Nothing is read for a policy that excludes no creator.
    pub(super) async fn creators_since(
        &self,
        compiled: &CompiledPolicy,
        via: Via,
    ) -> Result<Option<Timestamp>, ObserveError> {
        let mut approvers = compiled
            .checks()
            .filter_map(|(it, _)| it.approvers.as_ref());
        if !approvers.any(|it| it.not_requester) {
            return Ok(None);
        }
        let now = (self.clock)().mono;
        if via == Via::Caches
            && let Some(known) = self.creator_rule.get(now)
        {
            return Ok(known.since);
        }
        let since = self.live.creators_since().await?;
        self.creator_rule.put(now, since);
        Ok(since)
    }
}
