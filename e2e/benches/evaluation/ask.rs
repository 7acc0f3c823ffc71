//! The ways to ask one question: the service over TLS, over its socket, and the API server.

use std::sync::Arc;

use evaluation_api::client::Client as Evaluation;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::Api;
use kube::api::PostParams;

use crate::grants::Question;
use crate::support::load::Caller;

/// A way to ask.
#[derive(Clone)]
pub(crate) enum Way {
    Service(Evaluation),
    Review(Api<SubjectAccessReview>),
}

/// Somebody with questions, and a way to ask them.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) way: Way,
    pub(crate) questions: Arc<[Question]>,
}

impl Caller for Asker {
    async fn call(&self, number: usize) {
        let question = &self.questions[number % self.questions.len()];
        let is_allowed = match &self.way {
            Way::Service(client) => {
                let answer = client.check_access(question.asked.clone()).await;
                answer.unwrap().is_allowed()
            }
            Way::Review(reviews) => {
                let review = reviews
                    .create(&PostParams::default(), &question.review)
                    .await;
                review.unwrap().status.unwrap().allowed
            }
        };
        assert_eq!(is_allowed, question.is_allowed, "{:?}", question.asked);
    }
}
