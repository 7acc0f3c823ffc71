//! `EvaluateChecks`: from the wire to the judge, and back.

pub mod answer_cache;
pub mod policies;
pub mod programs;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use connectors_api::judge::{
    self, GatedPolicy, PolicyQuestion, Prepared, RegoAnswer, RegoFailure, RegoJob, Stage,
};
use connectors_api::rego::{ModuleOutput, NativeProgram};
use connectors_api::shared_fields::FieldPath;
use evaluation_api::access::read_time;
use evaluation_api::judgement;
use evaluation_api::v1::{self, EvaluateChecksRequest, EvaluateChecksResponse, EvaluationStage};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use prost::Message;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use service_kit::json_weight::weigh;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use crate::error::Refused;
use crate::json_memory::JsonMemory;
use crate::slots::Slot;
use policies::FoundPolicy;
use programs::NativePrograms;
use rego_workers::{ModuleOutcome, NoReply, WorkerPool};

/// Rego evaluations of one call. A policy has at most 32 checks, and a request at most 512 objects.
const MOST_REGO: usize = 512;
/// The time for all evaluations of one call. The caller waits no longer than 15 seconds.
pub(crate) const ALL_REGO: Duration = Duration::from_secs(10);

/// A question of at most so many bytes is prepared on the same task, because a handover takes longer.
const SHORT: usize = 64 * 1024;

/// An answer, its policy, and whether the same question would get it again.
pub(crate) struct JudgedQuestion {
    pub(crate) policy: Arc<GatedPolicy>,
    pub(crate) answer: EvaluateChecksResponse,
    /// Every module gave an answer of its own: no limit and no accident affected it.
    pub(crate) is_certain: bool,
    /// Modules that were evaluated without a worker.
    pub(crate) native: usize,
}

/// A question, as it is read.
struct PreparedChecks {
    policy: Arc<GatedPolicy>,
    prepared: Prepared,
    /// One for each evaluation of a module. None if it needs a worker.
    answered: Vec<Option<ModuleOutcome>>,
}

/// The stage: before or after the grant.
pub(crate) fn stage(request: &EvaluateChecksRequest) -> Result<Stage, Refused> {
    match EvaluationStage::try_from(request.stage) {
        Ok(EvaluationStage::BeforeGrant) => Ok(Stage::BeforeGrant),
        Ok(EvaluationStage::AfterGrant) => Ok(Stage::AfterGrant),
        Ok(EvaluationStage::Unspecified) | Err(_) => Err(Refused::Stage),
    }
}

/// Reads the question about a policy.
pub fn read(request: &EvaluateChecksRequest) -> Result<PolicyQuestion<()>, Refused> {
    let EvaluateChecksRequest {
        policy: _,
        context_object,
        connector,
        candidates,
        stage: _,
        lineage,
        creators_since,
    } = request;
    let mut found = BTreeMap::new();
    let mut shared = BTreeMap::new();
    for v1::Candidates {
        check,
        objects,
        shared_fields,
    } in candidates
    {
        let paths = shared_fields.iter().map(|it| FieldPath::parse(it));
        let paths = paths.collect::<Result<Vec<_>, _>>();
        shared.insert(check.clone(), paths.map_err(Refused::SharedFields)?);
        let read = |object: &Vec<u8>| json(&format!("candidates of check {check:?}"), object);
        let objects = objects.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if found.insert(check.clone(), objects).is_some() {
            return Err(Refused::CheckTwice(check.clone()));
        }
    }
    let lineage = lineage.iter().map(|object| json("lineage", object));
    let read_time = |time| read_time(time).ok_or(Refused::CreatorsSince);
    Ok(PolicyQuestion {
        policy: (),
        context: json("context_object", context_object)?,
        connector: connector.clone(),
        candidates: found,
        shared,
        lineage: lineage.collect::<Result<_, _>>()?,
        creators_since: creators_since.as_ref().map(read_time).transpose()?,
        stage: stage(request)?,
    })
}

/// The namespace of a policy, before any part of the policy takes memory. The caller needs a permission there,
/// because any client may send a policy. Its faults are found when it is read.
pub(crate) fn namespace_in(policy: &[u8]) -> Result<String, Refused> {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        metadata: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct EvaluatedMetadata<'a> {
        #[serde(borrow)]
        namespace: Option<&'a RawValue>,
    }
    let text = str::from_utf8(policy).map_err(|_| Refused::Json("policy".to_owned()))?;
    serde_json::from_str::<IgnoredAny>(text).map_err(|_| Refused::Json("policy".to_owned()))?;
    let metadata = serde_json::from_str(text)
        .ok()
        .and_then(|Object { metadata }| metadata);
    let namespace = metadata
        .and_then(|metadata| serde_json::from_str(metadata.get()).ok())
        .and_then(|EvaluatedMetadata { namespace }| namespace);
    let namespace = namespace.and_then(|namespace| serde_json::from_str(namespace.get()).ok());
    Ok(namespace.unwrap_or_default())
}

/// The policy of this namespace. If a text has two namespaces, a reader of the whole text might use the other one.
pub(crate) fn policy_in(namespace: &str, policy: &[u8]) -> Result<Value, Refused> {
    let policy = json("policy", policy)?;
    if namespace_of(&policy) == namespace {
        Ok(policy)
    } else {
        Err(Refused::Json("policy".to_owned()))
    }
}

fn namespace_of(policy: &Value) -> String {
    let namespace = policy.pointer("/metadata/namespace");
    let namespace = namespace.and_then(Value::as_str);
    namespace.unwrap_or_default().to_owned()
}

/// The error names the field and quotes nothing of its content.
pub(crate) fn json(field: &str, bytes: &[u8]) -> Result<Value, Refused> {
    serde_json::from_slice(bytes).map_err(|_| Refused::Json(field.to_owned()))
}

/// The results of the checks, with the help of workers where a module has no program yet.
pub(crate) async fn judge(
    policy: FoundPolicy,
    asked: &Arc<EvaluateChecksRequest>,
    programs: &Arc<NativePrograms>,
    pool: &WorkerPool,
    slot: &Slot<'_>,
    memory: &JsonMemory,
) -> Result<JudgedQuestion, Refused> {
    let is_short = asked.encoded_len() <= SHORT;
    let (question, _memory) = if is_short {
        // There are so few of them at a time that their total is small.
        (prepare(policy, asked, programs)?, None)
    } else {
        // Reading large objects, and evaluating paths and selectors on them, would delay other calls.
        let (heavy, is_new) = (Arc::clone(asked), policy.is_new());
        let weight = spawn_blocking(move || weight(&heavy, is_new)).await;
        let weight = weight.map_err(|_| Refused::Internal)?;
        let taken = memory.take(weight, stage(asked)?.into()).await?;
        let (asked, programs) = (Arc::clone(asked), Arc::clone(programs));
        let prepare = move || prepare(policy, &asked, &programs).map(|it| (it, taken));
        let question = spawn_blocking(prepare).await;
        let (question, taken) = question.map_err(|_| Refused::Internal)??;
        (question, Some(taken))
    };
    let PreparedChecks {
        policy,
        prepared,
        answered,
    } = question;
    let jobs = answered.len();
    let native = answered.iter().flatten().count();
    let answers = ask(&policy, &prepared, answered, programs, pool, slot).await?;
    let is_certain = answers.len() == jobs && answers.iter().all(Result::is_ok);
    Ok(JudgedQuestion {
        policy,
        answer: judgement::to_wire(prepared.finish(answers)),
        is_certain,
        native,
    })
}

fn prepare(
    policy: FoundPolicy,
    asked: &EvaluateChecksRequest,
    programs: &NativePrograms,
) -> Result<PreparedChecks, Refused> {
    let policy = policy.read(&asked.policy)?;
    let question = read(asked)?.about(Arc::clone(&policy));
    let prepared = judge::prepare(question)?;
    let jobs = prepared.rego_jobs().count();
    if jobs > MOST_REGO {
        return Err(Refused::TooMuchRego(jobs));
    }
    let answered = run_programs(&policy, &prepared, programs);
    Ok(PreparedChecks {
        policy,
        prepared,
        answered,
    })
}

/// The answers of the modules that have a program.
fn run_programs<'a>(
    policy: &GatedPolicy,
    prepared: &'a Prepared,
    programs: &NativePrograms,
) -> Vec<Option<ModuleOutcome>> {
    // The objects of a check follow each other.
    let mut last: Option<(&'a str, Option<Arc<NativeProgram>>)> = None;
    let find = |module: &str| programs.find(policy.namespace(), module).flatten();
    let run = |job: RegoJob<'a>| {
        let program = match &last {
            Some((module, program)) if std::ptr::eq(*module, job.module) => program,
            _ => &last.insert((job.module, find(job.module))).1,
        };
        let said = program.as_ref()?.run(job.input)?;
        Some(match said {
            Ok(ModuleOutput { state, message }) => Ok(RegoAnswer { state, message }),
            // As a worker says it.
            Err(error) => Err(RegoFailure::Failed(error.to_string())),
        })
    };
    prepared.rego_jobs().map(run).collect()
}

/// The memory that a question takes when it is read.
fn weight(asked: &EvaluateChecksRequest, is_new: bool) -> usize {
    let EvaluateChecksRequest {
        policy,
        context_object,
        candidates,
        lineage,
        ..
    } = asked;
    let policy = is_new.then_some(policy);
    let objects = candidates.iter().flat_map(|found| &found.objects);
    let texts = policy.into_iter().chain([context_object]);
    let texts = texts.chain(objects).chain(lineage);
    texts.map(|text| weigh(text)).sum()
}

/// The answers that come in time, in the order of the questions. The judge counts missing ones as failures. A lack of
/// free workers says nothing about the check.
async fn ask(
    policy: &GatedPolicy,
    prepared: &Prepared,
    answered: Vec<Option<ModuleOutcome>>,
    programs: &NativePrograms,
    pool: &WorkerPool,
    slot: &Slot<'_>,
) -> Result<Vec<ModuleOutcome>, Refused> {
    if answered.iter().all(Option::is_some) {
        return Ok(answered.into_iter().flatten().collect());
    }
    let deadline = Instant::now() + ALL_REGO;
    let mut jobs: Vec<BoxFuture<'_, _>> = Vec::new();
    for (job, answered) in prepared.rego_jobs().zip(answered) {
        let answer = async move {
            if let Some(outcome) = answered {
                return Ok(outcome);
            }
            let _worker = slot.worker().await;
            let namespace = policy.namespace();
            // A program needs a new worker, so it is wanted once. Another object may have asked meanwhile.
            if programs.find(namespace, job.module).is_some() {
                return pool.evaluate(job).await;
            }
            let (outcome, program) = pool.evaluate_and_compile(job).await?;
            if outcome.is_ok() {
                programs.keep(namespace, job.module, program);
            }
            Ok(outcome)
        };
        jobs.push(answer.boxed());
    }
    let mut answers = stream::iter(jobs).buffered(pool.workers());
    let mut said = Vec::new();
    while let Ok(Some(answer)) = timeout_at(deadline, answers.next()).await {
        said.push(answer.map_err(|no_reply: NoReply| {
            debug!(?no_reply, "a check was not evaluated");
            Refused::TooBusy
        })?);
    }
    Ok(said)
}

#[cfg(test)]
mod tests;
