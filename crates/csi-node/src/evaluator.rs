//! The part of the evaluation service that a mount needs.

use connectors_api::ConnectorKey;
use evaluation_api::{
    access::{AccessAnswer, AccessQuestion},
    client::{Client, Event, Subscription},
};
use service_kit::report;
use tracing::warn;

use crate::volume::Wish;

/// The service that answers questions about access.
pub(crate) trait Evaluator: Send + Sync + 'static {
    /// The stream of answers to one question.
    type Watch: AnswerStream;

    /// The present answer. None when there is none.
    fn ask(&self, question: AccessQuestion) -> impl Future<Output = Option<AccessAnswer>> + Send;

    /// The present answer, and every later one.
    fn follow(&self, question: AccessQuestion) -> Self::Watch;
}

/// The answers to one question.
pub(crate) trait AnswerStream: Send + 'static {
    /// The next answer, or none when the earlier ones do not hold any more. Nothing is lost when the future is
    /// dropped.
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

impl AnswerStream for Subscription {
    async fn next(&mut self) -> Option<AccessAnswer> {
        match Self::next(self).await {
            Some(Event::Answer(answer)) => Some(*answer),
            Some(Event::Refused(refusal)) => {
                warn!(code = ?refusal.code, message = refusal.message, "question about access refused");
                None
            }
            Some(Event::Disconnected) => None,
            // The client's task has ended, which `Disconnected` told before: no other answer will come.
            None => std::future::pending().await,
        }
    }
}

/// The question for one connector of a volume.
pub(crate) fn question(wish: &Wish, connector: &ConnectorKey) -> AccessQuestion {
    AccessQuestion::of_pod(&wish.pod, connector, wish.permission)
}

#[cfg(test)]
mod tests {
    use connectors_api::{AccessResource, Permission};

    use super::*;
    use crate::{kubernetes::review, testing::wish};

    /// The questions to both services, for one wish.
    fn asked(wish: &Wish) -> (AccessQuestion, String, String) {
        let Wish {
            pod,
            connectors,
            permission,
            options: _,
        } = wish;
        let reviewed = |resource| {
            let review = review(pod, &connectors[0], &resource);
            serde_json::to_string(&review).unwrap()
        };
        (
            question(wish, &connectors[0]),
            reviewed(AccessResource::standing(*permission)),
            reviewed(AccessResource::pod(*permission, &pod.namespace, &pod.name)),
        )
    }

    #[test]
    fn asks_about_the_whole_of_a_pod_and_of_its_connector() {
        type Change = fn(&mut Wish);
        let changes: [(&str, Change, [bool; 3]); 7] = [
            ("namespace", |it| it.pod.namespace.push_str("-2"), [true; 3]),
            (
                "account",
                |it| it.pod.service_account.push_str("-2"),
                [true; 3],
            ),
            (
                "permission",
                |it| it.permission = Permission::Proxy,
                [true; 3],
            ),
            (
                "connector",
                |it| it.connectors[0].name.push_str("-2"),
                [true; 3],
            ),
            (
                "namespace of the connector",
                |it| it.connectors[0].namespace.push_str("-2"),
                [true; 3],
            ),
            ("name", |it| it.pod.name.push('0'), [true, false, true]),
            // Reviews have no UIDs.
            ("uid", |it| it.pod.uid.push('0'), [true, false, false]),
        ];
        let usual = asked(&wish(&["tools/harbor"]));
        for (what, change, expected) in changes {
            let mut other = wish(&["tools/harbor"]);
            change(&mut other);
            let other = asked(&other);
            let differs = [usual.0 != other.0, usual.1 != other.1, usual.2 != other.2];
            assert_eq!(differs, expected, "{what}");
        }
    }
}
