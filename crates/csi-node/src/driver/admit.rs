//! All connectors of a volume: every one must be allowed at the same time.

use std::time::Duration;

use futures::future::{join_all, try_join_all};
use tokio::time::{Instant, sleep, timeout_at};

use super::Driver;
use crate::{
    access::{Admitted, Case, CaseMemory},
    error::PublishError,
    evaluator::Evaluator,
    kubernetes::Kubernetes,
    mounter::{Mounter, Passage},
    volume::Wish,
};

/// The pause between two rounds, if the answers of one moment and those of the stream ever disagree.
const ROUND: Duration = Duration::from_millis(100);

impl<E: Evaluator, K: Kubernetes, M: Mounter> Driver<E, K, M> {
    /// The memory that the calls share.
    pub(super) const fn memory(&self) -> CaseMemory<'_> {
        CaseMemory {
            events: &self.events,
            asked: &self.asked,
            refused: &self.refused,
        }
    }

    /// Waits until the pod may use every wished connector, or until the caller is gone.
    pub(super) async fn admit(
        &self,
        wish: &Wish,
        deadline: Instant,
    ) -> Result<(Vec<Admitted>, Passage), PublishError> {
        let mut switch = self.switch.clone();
        let known = async { switch.wait_for(Option::is_some).await.is_ok() };
        if timeout_at(deadline, known).await != Ok(true) {
            return Err(PublishError::Starting);
        }
        tokio::select! {
            biased;
            // A sender that is gone switches nothing off.
            Ok(_) = switch.wait_for(|known| known.is_some_and(|config| !config.enabled)) => {
                Ok((ungated(wish), Passage::WhileOff))
            }
            admitted = self.admit_all(wish, deadline) => Ok((admitted?, Passage::Gated)),
        }
    }

    async fn admit_all(
        &self,
        wish: &Wish,
        deadline: Instant,
    ) -> Result<Vec<Admitted>, PublishError> {
        let case = |connector| {
            let (evaluator, kubernetes) = (&self.evaluator, &self.kubernetes);
            Case::new(evaluator, kubernetes, self.memory(), wish, connector)
        };
        let mut cases: Vec<_> = wish.connectors.iter().map(case).collect();
        let mut held = None;
        loop {
            let asked = join_all(cases.iter_mut().map(|case| case.ask(deadline))).await;
            let asked = together(asked)?;
            if let Some(admitted) = asked.iter().cloned().collect() {
                return Ok(admitted);
            }
            // Before anything is made. A call without room to wait costs no namespace a request.
            if held.is_none() {
                let place = self.holds.take(&wish.pod)?;
                held = Some((place, self.metrics.hold()));
            }
            let waiting = cases.iter_mut().zip(&asked);
            let waiting = waiting.filter(|(_, admitted)| admitted.is_none());
            let arrived = try_join_all(waiting.map(|(case, _)| case.hold(deadline))).await?;
            // With several connectors, access to the first may end during the wait for the last.
            if cases.len() == 1 {
                return Ok(arrived);
            }
            if let Some(case) = cases.first().filter(|_| Instant::now() >= deadline) {
                return Err(case.too_late());
            }
            sleep(ROUND).await;
        }
    }
}

/// The result of the looks at all connectors. Of several errors, the end of the pod comes first, and a final refusal
/// second. So one refusal is enough, whatever the order of the answers.
fn together(
    asked: Vec<Result<Option<Admitted>, PublishError>>,
) -> Result<Vec<Option<Admitted>>, PublishError> {
    let weight = |error: &PublishError| {
        if *error == PublishError::PodEnding {
            0
        } else if matches!(error, PublishError::Denied(refusal) if refusal.is_for_good()) {
            1
        } else {
            2
        }
    };
    let errors = asked.iter().filter_map(|it| it.as_ref().err());
    match errors.min_by_key(|error| weight(error)).cloned() {
        Some(error) => Err(error),
        None => asked.into_iter().collect(),
    }
}

/// The feature is off: every pod is admitted.
pub(super) fn ungated(wish: &Wish) -> Vec<Admitted> {
    let now = Instant::now();
    let free = |_| Admitted {
        request: String::new(),
        since: now,
    };
    wish.connectors.iter().map(free).collect()
}
