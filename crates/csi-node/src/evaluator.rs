//! The evaluation service, as far as a mount needs it.

use evaluation_api::{
    access::{AccessAnswer, AccessQuestion, ConnectorName, PodRef, ServiceAccountName},
    client::{Client, Event, Subscription},
};
use service_kit::report;
use tracing::warn;

use crate::volume::{ConnectorKey, Wish};

/// Who answers questions about access.
pub(crate) trait Evaluator: Send + Sync + 'static {
    /// What follows one question.
    type Watch: Answers;

    /// The answer of this moment; none when there is none.
    fn ask(&self, question: AccessQuestion) -> impl Future<Output = Option<AccessAnswer>> + Send;

    /// Every answer from this moment on, the present one included.
    fn follow(&self, question: AccessQuestion) -> Self::Watch;
}

/// The answers to one question.
pub(crate) trait Answers: Send + 'static {
    /// The next answer, or none when the earlier ones do not hold any more. Nothing is lost when the
    /// future is dropped.
    fn next(&mut self) -> impl Future<Output = Option<AccessAnswer>> + Send;
}

impl Evaluator for Client {
    type Watch = Subscription;

    async fn ask(&self, question: AccessQuestion) -> Option<AccessAnswer> {
        match self.check_access(question).await {
            Ok(answer) => Some(answer),
            Err(error) => {
                warn!(error = report(&error), "no answer about access");
                None
            }
        }
    }

    fn follow(&self, question: AccessQuestion) -> Subscription {
        self.watcher().watch(question)
    }
}

impl Answers for Subscription {
    async fn next(&mut self) -> Option<AccessAnswer> {
        match Self::next(self).await {
            Some(Event::Answer(answer)) => Some(*answer),
            Some(Event::Refused(refusal)) => {
                warn!(code = ?refusal.code, message = refusal.message, "question about access refused");
                None
            }
            Some(Event::Disconnected) => None,
            // The client's task is gone, and the process with it: no answer will come.
            None => std::future::pending().await,
        }
    }
}

/// What is asked for one connector of a volume.
pub(crate) fn question(wish: &Wish, connector: &ConnectorKey) -> AccessQuestion {
    let Wish {
        pod, permission, ..
    } = wish;
    AccessQuestion::mount(
        ServiceAccountName {
            namespace: pod.namespace.clone(),
            name: pod.service_account.clone(),
        },
        ConnectorName {
            namespace: connector.namespace.clone(),
            name: connector.name.clone(),
        },
        *permission,
        PodRef {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        },
    )
}
