//! Finds waiting pods that have a standing permission: once a minute the evaluation service is asked about all
//! waiting requests.
//!
//! One question for many requests costs less than one in each reconciliation. The answer ends nothing: it only causes
//! a live read, in which the question is asked again.

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use connectors_api::AccessRequest;
use evaluation_api::{
    MOST_QUESTIONS,
    access::{AccessQuestion, ConnectorName, ServiceAccountName},
};
use service_kit::{report, shutdown::Stop};
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::{
    api::Name,
    cache::{RequestHead, Wakes, World},
    dynamic::Sink,
    evaluator::{Evaluator, Unanswered},
    seen::StandingSeen,
    shards::LeadsNamespace,
};

/// The interval of the questions.
const PERIOD: Duration = Duration::from_mins(1);
/// The timeout of one call. A later answer would leave no time to use the reads before it.
pub(crate) const LIMIT: Duration = Duration::from_secs(2);

/// Asks about standing permissions.
pub(crate) struct StandingReviews {
    pub(crate) world: Arc<World>,
    pub(crate) evaluator: Arc<dyn Evaluator>,
    /// Which namespaces it asks about.
    pub(crate) leads: LeadsNamespace,
    /// Wakes requests.
    pub(crate) sink: Sink,
    /// The number of requests in one line that are considered.
    pub(crate) most_waiting: usize,
}

impl StandingReviews {
    /// Asks in intervals until the process stops.
    pub(crate) async fn run(self, stop: Stop) {
        loop {
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                () = sleep(PERIOD) => {}
            }
            tokio::select! {
                biased;
                () = stop.stopped() => return,
                wakes = self.ask() => (self.sink)(wakes),
            }
        }
    }

    /// Asks once about all waiting requests of the shards that this process leads. After a failed call the remaining
    /// requests of the round count as not covered.
    async fn ask(&self) -> Wakes {
        let mut waiting = self.world.read().requests.first_in_line(self.most_waiting);
        waiting.retain(|(name, _)| (self.leads)(&name.namespace));
        let mut covered = BTreeSet::new();
        for requests in waiting.chunks(MOST_QUESTIONS) {
            let questions = requests.iter();
            let questions = questions
                .map(|(name, head)| question_of(name, head))
                .collect();
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
            covered
                .extend(there.filter_map(|((_, head), _)| head.uid.as_deref().map(str::to_owned)));
        }
        self.world.write().stands(covered)
    }
}

fn question_of(name: &Name, head: &RequestHead) -> AccessQuestion {
    AccessQuestion::standing(
        ServiceAccountName {
            namespace: head.subject_namespace().to_owned(),
            name: head.account.as_ref().to_owned(),
        },
        ConnectorName {
            namespace: name.namespace.clone(),
            name: head.connector.as_ref().to_owned(),
        },
        head.permission,
    )
}

/// The question whether a standing permission covers a request.
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
