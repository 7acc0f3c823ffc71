//! The ways to ask one question: the service over TLS, over its socket, and the API server.

use evaluation_api::client::Client as Evaluation;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::Api;
use kube::api::PostParams;

use crate::grants::Question;

/// A way to ask. Clones share a connection.
#[derive(Clone)]
pub(crate) enum Way {
    Service(Evaluation),
    Review(Api<SubjectAccessReview>),
}

impl Way {
    /// Asks, and fails when the answer is not what it is to be: a wrong answer has no speed.
    pub(crate) async fn ask(&self, question: &Question) {
        let is_allowed = match self {
            Self::Service(client) => {
                let answer = client.check_access(question.asked.clone()).await;
                answer.unwrap().is_allowed()
            }
            Self::Review(reviews) => {
                let review = reviews
                    .create(&PostParams::default(), &question.review)
                    .await;
                review.unwrap().status.unwrap().allowed
            }
        };
        assert_eq!(is_allowed, question.is_allowed, "{:?}", question.asked);
    }
}
