//! The calls of the gRPC API.

use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use authz::Learning;
use evaluation_api::LONGEST_MESSAGE;
use evaluation_api::access::{
    AccessAnswer, AccessQuestion, AccessTarget, TokenAnswer, TokenQuestion,
};
use evaluation_api::v1::evaluation_server::{Evaluation, EvaluationServer};
use evaluation_api::v1::{
    self, BatchCheckAccessRequest, BatchCheckAccessResponse, CheckAccessRequest,
    CheckAccessResponse, EvaluateChecksRequest, EvaluateChecksResponse, ExplainRequest,
    ExplainResponse, ReviewTokenRequest, ReviewTokenResponse, ValidatePolicyRequest,
    ValidatePolicyResponse, WatchAccessRequest, WhoCanRequest, WhoCanResponse,
};
use jiff::Timestamp;
use service_kit::readiness::{Readiness, Status as Ready};
use service_kit::shutdown::Stop;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::auth::{Caller, CallerReviews, Right, TokenOwner};
use crate::batch::Batch;
use crate::caller_quotas::OpenCall;
use crate::error::Refused;
use crate::evaluate::JudgedQuestion;
use crate::evaluate::answer_cache::AnswerCache;
use crate::evaluate::policies::ParsedPolicies;
use crate::evaluate::programs::NativePrograms;
use crate::json_memory::JsonMemory;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::slots::Slots;
use crate::stream::{StreamContext, StreamMessage, UNSENT};
use crate::world::{Shared, World};
use crate::{
    access_decision, batch, evaluate, explain, requestable, stream, validate, waiting, who_can,
};
use rego_workers::WorkerPool;

/// Answers calls. Clones share everything.
#[derive(Clone)]
pub struct Service {
    /// The shared world, from which decisions are made.
    pub shared: Arc<Shared>,
    /// The reviews of callers.
    pub callers: CallerReviews,
    /// The live reads.
    pub live: Live,
    /// The turns of evaluations.
    pub slots: Slots,
    /// The workers for Rego.
    pub rego: WorkerPool,
    /// Earlier answers about checks.
    pub answers: Arc<AnswerCache>,
    /// Policies that were read before.
    pub policies: Arc<ParsedPolicies>,
    /// Modules that need no worker.
    pub programs: Arc<NativePrograms>,
    /// The memory of questions.
    pub memory: Arc<JsonMemory>,
    /// Whether the caches are complete.
    pub readiness: Readiness,
    /// The metrics.
    pub metrics: Metrics,
    /// The maximum time since the caches heard from the API server.
    pub max_staleness: Duration,
    /// The signal that ends streams.
    pub stop: Stop,
}

impl Service {
    /// The gRPC service for a connection, for messages of so many bytes.
    #[must_use]
    pub fn into_server(self, longest: usize) -> EvaluationServer<Self> {
        EvaluationServer::new(self)
            .max_decoding_message_size(longest)
            .max_encoding_message_size(LONGEST_MESSAGE)
    }

    /// Whether calls are answered at all.
    pub(crate) fn check_ready(&self) -> Result<(), Refused> {
        match self.readiness.status() {
            Ready::Ready => Ok(()),
            Ready::Missing(_) | Ready::Stopping => Err(Refused::NotReady),
        }
    }

    /// Whether access questions are answered now.
    pub(crate) fn answers(&self) -> bool {
        self.check_ready()
            .and_then(|()| self.look(|_, _| ()))
            .is_ok()
    }

    async fn answer_access(
        &self,
        request: Request<CheckAccessRequest>,
    ) -> Result<AccessAnswer, Refused> {
        let caller = caller(&request)?;
        let question = request.into_inner().question.unwrap_or_default();
        let question: AccessQuestion = question.try_into()?;
        let namespace = &question.connector.namespace;
        self.callers
            .authorize(&caller, Right::Mount, namespace)
            .await?;
        self.look_learning(|world, now, learning| {
            let answer = access_decision::answer_learning(world, &question, None, now, learning);
            requestable::add(answer, world, &question, now, self.max_staleness)
        })
        .await
    }

    /// One look at the world, if it is fresh enough.
    fn look<A>(&self, answer: impl FnOnce(&World, Timestamp) -> A) -> Result<A, Refused> {
        let (world, now) = (self.shared.read(), clock::now());
        world.fresh_for(now, self.max_staleness)?;
        Ok(answer(&world, now))
    }

    /// The same. If authorizers need lookups first, a second look follows these.
    async fn look_learning<A>(
        &self,
        answer: impl Fn(&World, Timestamp, Option<&mut Vec<Learning>>) -> A,
    ) -> Result<A, Refused> {
        waiting::look(|learning| self.look(|world, now| answer(world, now, learning))).await
    }

    /// The answer to the bytes of a `BatchCheckAccessRequest`.
    pub(crate) async fn answer_batch(
        &self,
        caller: &Caller,
        message: &[u8],
    ) -> Result<BatchCheckAccessResponse, Refused> {
        let mut batch = Batch::read(message)?;
        batch.authorize(&self.callers, caller).await;
        let look = self.look_learning(|world, now, learning| {
            batch.answer(world, now, self.max_staleness, learning)
        });
        let response = look.await?;
        batch::count(&response, &self.metrics);
        Ok(response)
    }

    async fn list_who_can(
        &self,
        request: Request<WhoCanRequest>,
    ) -> Result<WhoCanResponse, Refused> {
        let caller = caller(&request)?;
        let target = AccessTarget::try_from(request.into_inner())?;
        let namespace = &target.connector.namespace;
        self.callers
            .authorize(&caller, Right::Everything, namespace)
            .await?;
        let who = self.look(|world, now| who_can::who_can(world, &target, now))?;
        Ok(who.into())
    }

    async fn answer_token(
        &self,
        request: Request<ReviewTokenRequest>,
    ) -> Result<TokenAnswer, Refused> {
        let caller = caller(&request)?;
        let TokenQuestion { token, target } = request.into_inner().try_into()?;
        let namespace = &target.connector.namespace;
        self.callers
            .authorize(&caller, Right::Everything, namespace)
            .await?;
        let (owner, user) = self.callers.owner_of(&caller, &token).await?;
        let TokenOwner { subject, pod } = owner;
        let question = target.asked_by(subject, Some(pod.clone()));
        let look = self.look_learning(|world, now, learning| {
            access_decision::answer_learning(world, &question, Some(&user), now, learning)
        });
        let answer = look.await?;
        Ok(TokenAnswer {
            subject: question.subject,
            pod,
            answer,
        })
    }

    async fn judge_checks(
        &self,
        request: Request<EvaluateChecksRequest>,
    ) -> Result<EvaluateChecksResponse, Refused> {
        let caller = caller(&request)?;
        let asked = Arc::new(request.into_inner());
        let key = self.answers.key(&asked);
        if let Some(known) = key.as_ref().and_then(|key| self.answers.recall(key)) {
            self.callers
                .authorize(&caller, Right::Everything, &known.namespace)
                .await?;
            self.metrics.checks("remembered");
            return Ok(known.answer.clone());
        }
        let stage = evaluate::stage(&asked)?;
        let policy = self.policies.find(&asked.policy)?;
        let namespace = policy.namespace();
        self.callers
            .authorize(&caller, Right::Everything, &namespace)
            .await?;
        let is_new = policy.is_new();
        let slot = self.slots.take(&namespace, stage.into()).await?;
        let (programs, rego, memory) = (&self.programs, &self.rego, &self.memory);
        let judged = evaluate::judge(policy, &asked, programs, rego, &slot, memory).await?;
        let JudgedQuestion {
            policy,
            answer,
            is_certain,
            native,
        } = judged;
        self.metrics.checks("judged");
        self.metrics.native_rego(native);
        if is_new {
            self.policies.keep(&asked.policy, policy);
        }
        if let Some(key) = key.filter(|_| is_certain) {
            self.answers.remember(key, namespace, answer.clone());
        }
        Ok(answer)
    }

    async fn look_at_policy(
        &self,
        request: Request<ValidatePolicyRequest>,
    ) -> Result<ValidatePolicyResponse, Refused> {
        let caller = caller(&request)?;
        let policy = validate::read(request.into_inner())?;
        self.callers
            .authorize(&caller, Right::Everything, &policy.namespace)
            .await?;
        validate::validate(policy, &self.rego, &self.slots, &self.memory).await
    }

    async fn explain_access(
        &self,
        request: Request<ExplainRequest>,
    ) -> Result<ExplainResponse, Refused> {
        let caller = caller(&request)?;
        let question = question_of(request.into_inner())?;
        let namespace = &question.connector.namespace;
        self.callers
            .authorize(&caller, Right::Everything, namespace)
            .await?;
        let mut learning = Vec::new();
        let (needs_account, deciding) = {
            let (world, now) = (self.shared.read(), clock::now());
            access_decision::answer_learning(&world, &question, None, now, Some(&mut learning));
            let needs_account = explain::needs_account(&world, namespace);
            (needs_account, explain::request(&world, &question))
        };
        waiting::learn(learning).await;
        let _asked = caller.quotas.question().await?;
        let mut read = explain::ExplainReads::default();
        if needs_account {
            let subject = &question.subject;
            let labels = self.live.account_labels(&subject.namespace, &subject.name);
            read.account = labels.await?;
        }
        if let Some((name, uid)) = deciding {
            let request = self.live.request(namespace, &name).await?;
            read.request = explain::same(request, &uid);
        }
        let (world, now) = (self.shared.read(), clock::now());
        world.all_fresh_for(now, self.max_staleness)?;
        Ok(explain::explain(&world, &question, &read, now))
    }

    async fn counted<T>(
        &self,
        call: &str,
        answer: impl Future<Output = Result<T, Refused>>,
    ) -> Result<Response<T>, Status> {
        let since = Instant::now();
        let answer = answer.await;
        let code = answer.as_ref().map_or_else(Refused::code, |_| Code::Ok);
        self.metrics.call(call, code, since.elapsed());
        Ok(Response::new(answer?))
    }
}

/// The question that a mount would ask.
fn question_of(request: ExplainRequest) -> Result<AccessQuestion, Refused> {
    let ExplainRequest {
        subject,
        connector,
        permission,
        pod,
    } = request;
    let question = v1::AccessQuestion {
        subject,
        connector,
        permission,
        verb: "*".to_owned(),
        pod,
    };
    Ok(question.try_into()?)
}

/// The caller that the gate admitted.
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
        let answer = async {
            let answer = self.answer_access(request).await?;
            self.metrics.decision(&answer);
            Ok(CheckAccessResponse {
                answer: Some(answer.into()),
            })
        };
        self.counted("CheckAccess", answer).await
    }

    async fn batch_check_access(
        &self,
        _: Request<BatchCheckAccessRequest>,
    ) -> Result<Response<BatchCheckAccessResponse>, Status> {
        // Connections never call this: the gate answers these calls from their bytes, which take less memory.
        Err(Refused::Internal.into())
    }

    async fn who_can(
        &self,
        request: Request<WhoCanRequest>,
    ) -> Result<Response<WhoCanResponse>, Status> {
        self.counted("WhoCan", self.list_who_can(request)).await
    }

    async fn validate_policy(
        &self,
        request: Request<ValidatePolicyRequest>,
    ) -> Result<Response<ValidatePolicyResponse>, Status> {
        self.counted("ValidatePolicy", self.look_at_policy(request))
            .await
    }

    async fn explain(
        &self,
        request: Request<ExplainRequest>,
    ) -> Result<Response<ExplainResponse>, Status> {
        self.counted("Explain", self.explain_access(request)).await
    }

    async fn review_token(
        &self,
        request: Request<ReviewTokenRequest>,
    ) -> Result<Response<ReviewTokenResponse>, Status> {
        let answer = async {
            let answer = self.answer_token(request).await?;
            self.metrics.decision(&answer.answer);
            Ok(answer.into())
        };
        self.counted("ReviewToken", answer).await
    }

    type WatchAccessStream = ReceiverStream<StreamMessage>;

    async fn watch_access(
        &self,
        request: Request<Streaming<WatchAccessRequest>>,
    ) -> Result<Response<Self::WatchAccessStream>, Status> {
        let begin = async {
            let caller = caller(&request)?;
            let open: Option<OpenCall> = request.extensions().get().cloned();
            let open = open.ok_or(Refused::Internal)?;
            self.look(|_, _| ())?;
            let context = StreamContext {
                shared: Arc::clone(&self.shared),
                callers: self.callers.clone(),
                caller,
                metrics: self.metrics.clone(),
                max_staleness: self.max_staleness,
                stop: self.stop.clone(),
            };
            let (said, unsent) = mpsc::channel(UNSENT);
            let run = stream::run(context, request.into_inner(), said);
            tokio::spawn(async move {
                run.await;
                // For the caller it ends with its answer, for the service now.
                drop(open);
            });
            Ok(ReceiverStream::new(unsent))
        };
        self.counted("WatchAccess", begin).await
    }

    async fn evaluate_checks(
        &self,
        request: Request<EvaluateChecksRequest>,
    ) -> Result<Response<EvaluateChecksResponse>, Status> {
        self.counted("EvaluateChecks", self.judge_checks(request))
            .await
    }
}
