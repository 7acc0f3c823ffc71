//! `EvaluateChecks`: from the wire to the judge, and back.

pub mod answer_cache;
pub mod policies;
pub mod programs;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use connectors_api::judge::{
    self, GatedPolicy, NeededParts, PolicyQuestion, Prepared, RegoAnswer, RegoFailure, RegoJob,
    Stage, needed_parts,
};
use connectors_api::needed_fields::NeededFields;
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
use tokio::sync::OwnedSemaphorePermit;
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

/// A long question whose weight is known.
enum WeighedChecks {
    Prepared(PreparedChecks, OwnedSemaphorePermit),
    /// There is not enough memory yet.
    Waiting(FoundPolicy, usize),
}

/// The stage: before or after the grant.
pub(crate) fn stage(request: &EvaluateChecksRequest) -> Result<Stage, Refused> {
    match EvaluationStage::try_from(request.stage) {
        Ok(EvaluationStage::BeforeGrant) => Ok(Stage::BeforeGrant),
        Ok(EvaluationStage::AfterGrant) => Ok(Stage::AfterGrant),
        Ok(EvaluationStage::Unspecified) | Err(_) => Err(Refused::Stage),
    }
}

/// Reads the needed parts of the question about a policy.
pub fn read(
    request: &EvaluateChecksRequest,
    needed: &NeededParts<'_>,
) -> Result<PolicyQuestion<()>, Refused> {
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
        let needed = needed.of_objects(check);
        let field = || format!("candidates of check {check:?}");
        let read = |object: &Vec<u8>| part(needed, field, object);
        let objects = objects.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if found.insert(check.clone(), objects).is_some() {
            return Err(Refused::CheckTwice(check.clone()));
        }
    }
    let lineage = lineage.iter().map(|object| json("lineage", object));
    let read_time = |time| read_time(time).ok_or(Refused::CreatorsSince);
    Ok(PolicyQuestion {
        policy: (),
        context: part(&needed.pod, || "context_object".to_owned(), context_object)?,
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

/// The needed part of an object, or all of it if its text is none that can be read in part.
fn part(
    needed: &NeededFields<'_>,
    field: impl FnOnce() -> String,
    bytes: &[u8],
) -> Result<Value, Refused> {
    let part = needed.read(bytes);
    part.map_or_else(|| json(&field(), bytes), Ok)
}

/// The results of the checks, with the help of workers where a module has no program yet.
pub(crate) async fn judge(
    policy: FoundPolicy,
    asked: &Arc<EvaluateChecksRequest>,
    programs: &Arc<NativePrograms>,
    pool: &WorkerPool,
    slot: &Slot<'_>,
    memory: &Arc<JsonMemory>,
) -> Result<JudgedQuestion, Refused> {
    let (question, _memory) = if asked.encoded_len() <= SHORT {
        // There are so few of them at a time that their total is small.
        (prepare(policy, asked, programs)?, None)
    } else {
        let (question, taken) = prepare_long(policy, asked, programs, memory).await?;
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

/// Reads a long question on another thread, within the memory for questions. Reading large objects, and evaluating paths and
/// selectors on them, would delay other calls.
async fn prepare_long(
    policy: FoundPolicy,
    asked: &Arc<EvaluateChecksRequest>,
    programs: &Arc<NativePrograms>,
    memory: &Arc<JsonMemory>,
) -> Result<(PreparedChecks, OwnedSemaphorePermit), Refused> {
    let purpose = stage(asked)?.into();
    let (heavy, known, room) = (Arc::clone(asked), Arc::clone(programs), Arc::clone(memory));
    // Usually there is enough memory at once, and the same thread goes on.
    let weighed = move || {
        let weight = weight(&heavy, policy.is_new());
        Ok::<_, Refused>(match room.try_take(weight, purpose)? {
            Some(taken) => WeighedChecks::Prepared(prepare(policy, &heavy, &known)?, taken),
            None => WeighedChecks::Waiting(policy, weight),
        })
    };
    let weighed = spawn_blocking(weighed).await;
    let (policy, weight) = match weighed.map_err(|_| Refused::Internal)?? {
        WeighedChecks::Prepared(checks, taken) => return Ok((checks, taken)),
        WeighedChecks::Waiting(policy, weight) => (policy, weight),
    };
    let taken = memory.take(weight, purpose).await?;
    let (heavy, known) = (Arc::clone(asked), Arc::clone(programs));
    let prepare = move || prepare(policy, &heavy, &known).map(|it| (it, taken));
    let question = spawn_blocking(prepare).await;
    question.map_err(|_| Refused::Internal)?
}

fn prepare(
    policy: FoundPolicy,
    asked: &EvaluateChecksRequest,
    programs: &NativePrograms,
) -> Result<PreparedChecks, Refused> {
    let policy = policy.read(&asked.policy)?;
    let programs = ModulePrograms::of(&policy, programs);
    let prepare = |needed: &NeededParts<'_>| -> Result<_, Refused> {
        let question = read(asked, needed)?.about(Arc::clone(&policy));
        let prepared = judge::prepare(question)?;
        let jobs = prepared.rego_jobs().count();
        if jobs > MOST_REGO {
            return Err(Refused::TooMuchRego(jobs));
        }
        let answered: Vec<_> = prepared.rego_jobs().map(|it| programs.run(&it)).collect();
        Ok((prepared, answered))
    };
    let needed = needed_parts(&policy, |module| {
        programs.of_module(module).map(NativeProgram::paths)
    });
    let (mut prepared, mut answered) = prepare(&needed)?;
    if needed.are_fewer() && (prepared.has_twins() || answered.contains(&None)) {
        // The parts that were read take no memory beside the whole.
        drop(prepared);
        (prepared, answered) = prepare(&NeededParts::ALL)?;
    }
    drop(programs);
    Ok(PreparedChecks {
        policy,
        prepared,
        answered,
    })
}

/// The programs of a policy's modules, as far as they have some.
struct ModulePrograms<'a>(Vec<(&'a str, Option<Arc<NativeProgram>>)>);

impl<'a> ModulePrograms<'a> {
    fn of(policy: &'a GatedPolicy, programs: &NativePrograms) -> Self {
        let find = |module| programs.find(policy.namespace(), module).flatten();
        Self(policy.modules().map(|it| (it, find(it))).collect())
    }

    /// The program of one of the policy's modules. Modules are compared by their place in the policy.
    fn of_module(&self, module: &str) -> Option<&NativeProgram> {
        let mut all = self.0.iter();
        let (_, program) = all.find(|(known, _)| std::ptr::eq(*known, module))?;
        program.as_deref()
    }

    /// The answer of a module that has a program.
    fn run(&self, job: &RegoJob<'_>) -> Option<ModuleOutcome> {
        let said = self.of_module(job.module)?.run(job.input)?;
        Some(match said {
            Ok(ModuleOutput { state, message }) => Ok(RegoAnswer { state, message }),
            // As a worker says it.
            Err(error) => Err(RegoFailure::Failed(error.to_string())),
        })
    }
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
