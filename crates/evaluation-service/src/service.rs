//! The calls of the gRPC API.

use std::sync::Arc;

use evaluation_api::LONGEST_MESSAGE;
use evaluation_api::access::{AccessAnswer, AccessQuestion};
use evaluation_api::v1::evaluation_server::{Evaluation, EvaluationServer};
use evaluation_api::v1::{
    CheckAccessRequest, CheckAccessResponse, EvaluateChecksRequest, EvaluateChecksResponse,
    WatchAccessRequest,
};
use service_kit::clock;
use service_kit::readiness::{Readiness, Status as Ready};
use service_kit::shutdown::Stop;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::auth::{Caller, Callers};
use crate::error::Refused;
use crate::metrics::Metrics;
use crate::places::Places;
use crate::rego::Pool;
use crate::stream::{Context, Said, UNSENT};
use crate::world::Shared;
use crate::{check, evaluate, stream};

/// Answers calls. Clones share everything.
#[derive(Clone)]
pub struct Service {
    /// What decisions are made from.
    pub shared: Arc<Shared>,
    /// Who calls.
    pub callers: Callers,
    /// Whose turn it is.
    pub places: Places,
    /// Who runs Rego.
    pub rego: Pool,
    /// Whether the caches are complete.
    pub readiness: Readiness,
    /// What is counted.
    pub metrics: Metrics,
    /// When streams end.
    pub stop: Stop,
}

impl Service {
    /// As something that a connection can be served with.
    #[must_use]
    pub fn into_server(self) -> EvaluationServer<Self> {
        EvaluationServer::new(self)
            .max_decoding_message_size(LONGEST_MESSAGE)
            .max_encoding_message_size(LONGEST_MESSAGE)
    }

    /// Whether there are answers at all.
    pub(crate) fn check_ready(&self) -> Result<(), Refused> {
        match self.readiness.status() {
            Ready::Ready => Ok(()),
            Ready::Missing(_) | Ready::Stopping => Err(Refused::NotReady),
        }
    }

    async fn answer_access(
        &self,
        request: Request<CheckAccessRequest>,
    ) -> Result<AccessAnswer, Refused> {
        let caller = caller(&request)?;
        let question = request.into_inner().question.unwrap_or_default();
        let question = AccessQuestion::try_from(question)?;
        let namespace = &question.connector.namespace;
        self.callers.authorize(&caller, namespace).await?;
        Ok(check::answer(&self.shared.read(), &question, clock::now()))
    }

    async fn judge_checks(
        &self,
        request: Request<EvaluateChecksRequest>,
    ) -> Result<EvaluateChecksResponse, Refused> {
        let caller = caller(&request)?;
        let (namespace, question) = evaluate::read(request.into_inner())?;
        self.callers.authorize(&caller, &namespace).await?;
        let place = self.places.take(&namespace, question.stage).await?;
        evaluate::judge(question, &self.rego, &place).await
    }

    fn counted<T>(
        &self,
        call: &str,
        since: Instant,
        answer: Result<T, Refused>,
    ) -> Result<Response<T>, Status> {
        let code = answer.as_ref().map_or_else(Refused::code, |_| Code::Ok);
        self.metrics.call(call, code, since.elapsed());
        Ok(Response::new(answer?))
    }
}

/// Whom the gate let in.
fn caller<T>(request: &Request<T>) -> Result<Caller, Refused> {
    let caller = request.extensions().get().cloned();
    caller.ok_or(Refused::NoToken)
}

#[tonic::async_trait]
impl Evaluation for Service {
    async fn check_access(
        &self,
        request: Request<CheckAccessRequest>,
    ) -> Result<Response<CheckAccessResponse>, Status> {
        let since = Instant::now();
        let answer = self.answer_access(request).await;
        if let Ok(answer) = &answer {
            self.metrics.decision(answer);
        }
        let answer = answer.map(|answer| CheckAccessResponse {
            answer: Some(answer.into()),
        });
        self.counted("CheckAccess", since, answer)
    }

    type WatchAccessStream = ReceiverStream<Said>;

    async fn watch_access(
        &self,
        request: Request<Streaming<WatchAccessRequest>>,
    ) -> Result<Response<Self::WatchAccessStream>, Status> {
        let since = Instant::now();
        let begin = || {
            let caller = caller(&request)?;
            let context = Context {
                shared: Arc::clone(&self.shared),
                callers: self.callers.clone(),
                caller,
                metrics: self.metrics.clone(),
                stop: self.stop.clone(),
            };
            let (said, unsent) = mpsc::channel(UNSENT);
            tokio::spawn(stream::run(context, request.into_inner(), said));
            Ok(ReceiverStream::new(unsent))
        };
        self.counted("WatchAccess", since, begin())
    }

    async fn evaluate_checks(
        &self,
        request: Request<EvaluateChecksRequest>,
    ) -> Result<Response<EvaluateChecksResponse>, Status> {
        let since = Instant::now();
        let answer = self.judge_checks(request).await;
        self.counted("EvaluateChecks", since, answer)
    }
}
