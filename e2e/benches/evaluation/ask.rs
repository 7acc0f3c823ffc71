//! The ways to ask one question: the service over TLS, over its socket, and the API server.

use std::sync::Arc;

use evaluation_api::client::Client as Evaluation;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::grants::Question;
use crate::support::connection::Connection;
use crate::support::echo::EchoConnection;
use crate::support::load::Caller;

/// A way to ask.
#[derive(Clone)]
pub(crate) enum Way {
    Service(Box<Evaluation>),
    Review(Arc<Mutex<Connection>>),
    /// Bytes for bytes: the floor of every way.
    Echo(Arc<Mutex<EchoConnection>>),
}

/// A caller with questions, and a way to ask them.
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
            Way::Review(connection) => {
                let mut connection = connection.lock().await;
                review(&mut connection, question.review.clone()).await
            }
            Way::Echo(connection) => return connection.lock().await.call().await,
        };
        assert_eq!(is_allowed, question.is_allowed, "{:?}", question.asked);
    }
}

/// The parsed part of a review.
#[derive(Deserialize)]
struct Review {
    status: ReviewStatus,
}

#[derive(Deserialize)]
struct ReviewStatus {
    allowed: bool,
}

/// Asks the API server in the cheapest way there is for a caller: ready bytes on a connection of its own.
async fn review(connection: &mut Connection, review: Bytes) -> bool {
    let request = Request::post("/apis/authorization.k8s.io/v1/subjectaccessreviews")
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json")
        .body(Full::new(review))
        .unwrap();
    let (status, answer) = connection.send(request).await;
    assert_eq!(status, StatusCode::CREATED, "{answer:?}");
    let answer: Review = serde_json::from_slice(&answer).unwrap();
    answer.status.allowed
}
