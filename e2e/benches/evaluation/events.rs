//! The processor time of the service for an event of a Role or `RoleBinding` of ours, beside open questions.

use std::time::Duration;

use evaluation_api::client::{Event, Subscription};
use futures::future::join_all;
use kube::Client;

use crate::grants::{self, Question};
use crate::service::{Program, Running};
use crate::support::load::Times;

/// Grants that are made and ended in a round. Each is four events: its Role and its `RoleBinding`, twice.
const GRANTS: usize = 100;
const EVENTS: usize = 4 * GRANTS;
/// The look at all questions of a stream every thirty seconds is in few of them.
const ROUNDS: usize = 7;

/// The processor time for one event, with so many questions of one account on one stream.
pub(crate) async fn processor_time(
    admin: &Client,
    namespace: &str,
    service: &Running,
    open: usize,
) -> Duration {
    let client = Program::over_socket(service);
    let asked = grants::questions(namespace, open, open);
    let watch = |it: Question| client.watcher().watch(it.asked);
    let mut questions: Vec<Subscription> = asked.into_iter().map(watch).collect();
    let first = join_all(questions.iter_mut().map(Subscription::next)).await;
    let is_answer = |event: &Option<Event>| matches!(event, Some(Event::Answer(_)));
    assert!(first.iter().all(is_answer), "a question is refused");
    let mut times = Times::default();
    for round in 0..ROUNDS {
        let before = service.process.worked();
        for number in 0..GRANTS {
            // Each event concerns one of the questions.
            let number = (round * GRANTS + number) % (open / 2);
            grants::make_and_end(admin, namespace, grants::WITHOUT + number).await;
        }
        let worked = service.process.worked().saturating_sub(before);
        times.add(worked / u32::try_from(EVENTS).unwrap());
    }
    Duration::from_secs_f64(times.median() / 1e6)
}
