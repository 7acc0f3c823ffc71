//! The ways to have an object judged, and the input of each.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use connectors_api::check_state::{CheckOutcome, ObjectState};
use connectors_api::judge::{self, RegoAnswer, RegoFailure, needed_parts};
use connectors_api::rego::{CheckModule, EvaluationError, ModuleOutput, NativeProgram};
use evaluation_api::client::{Client, Code};
use evaluation_api::judgement;
use evaluation_api::v1::{
    CheckVerdict, EvaluateChecksRequest, EvaluateChecksResponse, ObjectResult,
};
use evaluation_service::evaluate;
use evaluation_service::evaluate::policies::{FoundPolicy, ParsedPolicies};
use hyper::body::Bytes;

use crate::check::Check;
use crate::opa::{Opa, Questions};
use crate::service::{Program, Running};

/// Longer than any evaluation takes.
const LIMIT: Duration = Duration::from_secs(1);
const CONTEXT: &str = "{}";
/// The service, OPA over either kind of connection, the evaluator alone, and the service's code without the
/// connections in between.
pub(crate) const WAYS: usize = 5;

/// Where an object is judged.
pub(crate) enum Way {
    /// By the evaluator alone.
    Process(CheckModule),
    /// The same code as in the service, without a connection: input and output are the same.
    Whole(CheckModule, ParsedPolicies),
    /// By the service, whole: policy, pod and object go in, checks and rules come out.
    Service(Client),
    /// By the server of Open Policy Agent.
    Opa(Questions),
}

/// One object, as each of them is given it. Made before the clock runs.
#[derive(Debug)]
pub(crate) struct Question {
    object: String,
    asked: EvaluateChecksRequest,
    posted: Bytes,
}

impl Question {
    pub(crate) fn new(check: &Check, number: usize, object: String) -> Self {
        Self {
            asked: check.question(number, object.as_bytes()),
            posted: Questions::question(&object),
            object,
        }
    }
}

/// Several objects of one pod, in one question and in one question for each.
#[derive(Debug)]
pub(crate) struct ObjectBatch {
    asked: EvaluateChecksRequest,
    posted: Vec<Bytes>,
    verdicts: Vec<CheckVerdict>,
}

impl ObjectBatch {
    pub(crate) fn new(check: &Check, numbers: RangeInclusive<usize>) -> Self {
        let first = *numbers.start();
        let objects: Vec<_> = numbers.map(|it| check.object_for(first, it)).collect();
        let state = |object| ObjectState::of(object).unwrap();
        let texts: Vec<_> = objects.iter().map(ToString::to_string).collect();
        let bytes = texts.iter().map(|it| it.clone().into_bytes()).collect();
        Self {
            asked: check.question_of_all(first, bytes),
            posted: texts.iter().map(|it| Questions::question(it)).collect(),
            verdicts: objects.iter().map(|it| verdict(&state(it))).collect(),
        }
    }
}

impl Way {
    /// All of them, each with its name.
    pub(crate) async fn all(
        check: &Check,
        service: &Running,
        opa: &Opa,
    ) -> [(&'static str, Self); WAYS] {
        let module = CheckModule::parse(check.module(), LIMIT).unwrap();
        let whole = Self::Whole(module.clone(), ParsedPolicies::default());
        [
            (
                "EvaluateChecks over the Unix socket",
                Self::Service(Program::over_socket(service)),
            ),
            ("OPA over its REST API", Self::Opa(opa.connect().await)),
            (
                "OPA over its REST API on a Unix socket",
                Self::Opa(opa.connect_to_socket().await),
            ),
            ("in the process", Self::Process(module)),
            ("whole, in the process", whole),
        ]
    }

    /// Asks. The service remembers repeated questions.
    pub(crate) async fn ask(&mut self, question: &Question) -> (CheckVerdict, Duration) {
        let Question {
            object,
            asked,
            posted,
        } = question;
        match self {
            Self::Process(module) => {
                let began = Instant::now();
                let answer = module.evaluate_json(object, CONTEXT);
                let said = answer.map_or(CheckVerdict::Failed, |it| verdict(&it.state));
                (said, began.elapsed())
            }
            Self::Whole(module, policies) => {
                let began = Instant::now();
                let said = whole(module, policies, asked);
                let said = said.map_or(CheckVerdict::Failed, |it| it.verdict());
                (said, began.elapsed())
            }
            Self::Service(client) => {
                let asked = asked.clone();
                let began = Instant::now();
                let said = match client.evaluate_checks(asked).await {
                    Ok(answer) => answer.verdict(),
                    Err(error) if error.code() == Some(Code::InvalidArgument) => {
                        CheckVerdict::Failed
                    }
                    Err(error) => panic!("{error}"),
                };
                (said, began.elapsed())
            }
            Self::Opa(connection) => {
                let posted = posted.clone();
                let began = Instant::now();
                let said = connection.ask(posted).await;
                (said, began.elapsed())
            }
        }
    }
}

impl Way {
    /// Asks about all objects. The time until the last answer.
    pub(crate) async fn ask_all(&mut self, batch: &ObjectBatch) -> Duration {
        let ObjectBatch {
            asked,
            posted,
            verdicts,
        } = batch;
        let mut said = Vec::new();
        let took = match self {
            Self::Service(client) => {
                let asked = asked.clone();
                let began = Instant::now();
                let answer = client.evaluate_checks(asked).await.unwrap();
                let took = began.elapsed();
                said.extend(answer.checks[0].objects.iter().map(ObjectResult::verdict));
                took
            }
            Self::Opa(connection) => {
                let posted = posted.clone();
                let began = Instant::now();
                for posted in posted {
                    said.push(connection.ask(posted).await);
                }
                began.elapsed()
            }
            Self::Process(_) | Self::Whole(..) => panic!("they have no wire"),
        };
        assert_eq!(said, *verdicts);
        took
    }
}

/// The work of the service for a question, with a compiled module.
fn whole(
    module: &CheckModule,
    policies: &ParsedPolicies,
    asked: &EvaluateChecksRequest,
) -> Option<EvaluateChecksResponse> {
    let found = policies.find(&asked.policy).ok()?;
    let is_new = matches!(found, FoundPolicy::New(_));
    let policy = found.read(&asked.policy).ok()?;
    if is_new {
        policies.keep(&asked.policy, Arc::clone(&policy));
    }
    let paths = |_| module.program().map(NativeProgram::paths);
    let needed = needed_parts(&policy, paths);
    let question = evaluate::read(asked, &needed).ok()?;
    let question = question.about(Arc::clone(&policy));
    let prepared = judge::prepare(question).ok()?;
    let jobs = prepared.rego_jobs().map(|job| {
        let native = module.program().and_then(|it| it.run(job.input));
        let said = match native {
            Some(said) => said.map_err(EvaluationError::from),
            None => module.evaluate(job.input, job.context),
        };
        let ModuleOutput { state, message } =
            said.map_err(|error| RegoFailure::Failed(error.to_string()))?;
        Ok(RegoAnswer { state, message })
    });
    let answers: Vec<_> = jobs.collect();
    Some(judgement::to_wire(prepared.finish(answers)))
}

/// The verdict on a state before a grant.
pub(crate) fn verdict(state: &ObjectState) -> CheckVerdict {
    match state.outcome() {
        CheckOutcome::Passed => CheckVerdict::Passed,
        CheckOutcome::Pending | CheckOutcome::NotHolding => CheckVerdict::Pending,
        CheckOutcome::Rejected => CheckVerdict::Rejected,
    }
}
