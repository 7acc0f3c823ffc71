//! Finds the pods that need no request any more: once a minute the evaluation service is asked about all that wait.
//!
//! One question for many requests costs less than one with each look at a request. What is heard here ends nothing: it
//! leads to a live look, in which the question is asked again.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use connectors_api::AccessRequest;
use evaluation_api::{
    MOST_QUESTIONS,
    access::{AccessQuestion, ConnectorName, ServiceAccountName},
};
use service_kit::{controller::Leads, report, shutdown::Stop};
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::{
    cache::{Wakes, World},
    dynamic::Sink,
    evaluator::{Evaluator, Unanswered},
    seen::StandingSeen,
};

/// How often all requests that wait are asked about.
const PERIOD: Duration = Duration::from_mins(1);
/// How long one call may take. An answer that comes later leaves no time to act on what was read before it.
pub(crate) const LIMIT: Duration = Duration::from_secs(2);

/// What asks.
pub(crate) struct Asker {
    pub(crate) world: Arc<World>,
    pub(crate) evaluator: Arc<dyn Evaluator>,
    /// Whether this process leads.
    pub(crate) leads: Leads,
    /// Has requests looked at.
    pub(crate) sink: Sink,
    /// How many requests of one line are looked at.
    pub(crate) most_waiting: usize,
}

impl Asker {
    /// Asks again and again while this process leads, until it is time to end.
    pub(crate) async fn run(self, stop: Stop) {
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                () = sleep(PERIOD) => {}
            }
            if (self.leads)() {
                tokio::select! {
                    biased;
                    () = stop.stopped() => return,
                    wakes = self.ask() => (self.sink)(wakes),
                }
            }
        }
    }

    /// Asks once about everything that waits. A call without an answer ends the round, and what it was about counts
    /// as not covered.
    async fn ask(&self) -> Wakes {
        let waiting = self.world.read().requests.first_in_line(self.most_waiting);
        let mut covered = BTreeSet::new();
        for requests in waiting.chunks(MOST_QUESTIONS) {
            let questions = requests.iter().map(|it| question(it)).collect();
            let answers = timeout(LIMIT, self.evaluator.standing(questions)).await;
            let answers = match answers.unwrap_or(Err(Unanswered::Late(LIMIT))) {
                Ok(answers) => answers,
                Err(error) => {
                    warn!(error = report(&error), "standing permissions are not known");
                    break;
                }
            };
            let pairs = requests.iter().zip(answers);
            let there = pairs.filter(|(_, answer)| *answer == StandingSeen::There);
            covered.extend(there.filter_map(|(request, _)| request.metadata.uid.clone()));
        }
        self.world.write().stands(covered)
    }
}

/// Whether what a request asks for is allowed at any time.
pub(crate) fn question(request: &AccessRequest) -> AccessQuestion {
    let spec = &request.spec;
    AccessQuestion::standing(
        ServiceAccountName {
            namespace: spec.subject_namespace().to_owned(),
            name: spec.subject.name.clone(),
        },
        ConnectorName {
            namespace: request.metadata.namespace.clone().unwrap_or_default(),
            name: spec.connector_ref.name.clone(),
        },
        spec.permission,
    )
}
