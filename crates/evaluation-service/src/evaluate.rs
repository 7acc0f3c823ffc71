//! `EvaluateChecks`: from the wire to the judge, and back.

pub mod remembered;

use std::collections::BTreeMap;
use std::time::Duration;

use connectors_api::judge::{
    self, CheckJudgement, GrantedRule, Judgement, ObjectJudgement, Prepared, Question, RegoAnswer,
    RegoFailure, Stage,
};
use evaluation_api::v1::{self, EvaluateChecksRequest, EvaluateChecksResponse, EvaluationStage};
use evaluation_api::verdict::to_wire;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::error::Refused;
use crate::places::Place;
use crate::rego::Pool;

/// Rego evaluations of one call. A policy has at most 32 checks, and a request at most 512 objects.
const MOST_REGO: usize = 512;
/// All evaluations of one call together: the caller waits no longer than 15 seconds.
pub(crate) const ALL_REGO: Duration = Duration::from_secs(10);

/// A question of so many bytes is prepared at once: to hand it over takes longer.
const SHORT: usize = 64 * 1024;

/// An answer, and whether the same question would get it again.
pub(crate) struct Judged {
    pub(crate) answer: EvaluateChecksResponse,
    /// Every module gave an answer of its own: no limit and no accident was in play.
    pub(crate) is_certain: bool,
}

/// What is asked, and the namespace whose permission it needs.
pub fn read(request: &EvaluateChecksRequest) -> Result<(String, Question), Refused> {
    let EvaluateChecksRequest {
        policy,
        context_object,
        connector,
        candidates,
        stage,
    } = request;
    let stage = match EvaluationStage::try_from(*stage) {
        Ok(EvaluationStage::BeforeGrant) => Stage::BeforeGrant,
        Ok(EvaluationStage::AfterGrant) => Stage::AfterGrant,
        Ok(EvaluationStage::Unspecified) | Err(_) => return Err(Refused::Stage),
    };
    let policy = json("policy", policy)?;
    let namespace = namespace_of(&policy);
    let mut found = BTreeMap::new();
    for v1::Candidates { check, objects } in candidates {
        let read = |object: &Vec<u8>| json(&format!("candidates of check {check:?}"), object);
        let objects = objects.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if found.insert(check.clone(), objects).is_some() {
            return Err(Refused::CheckTwice(check.clone()));
        }
    }
    let question = Question {
        policy,
        context: json("context_object", context_object)?,
        connector: connector.clone(),
        candidates: found,
        stage,
    };
    Ok((namespace, question))
}

/// The namespace of a policy, whose permission is needed to ask about it.
pub(crate) fn namespace_of(policy: &Value) -> String {
    let namespace = policy.pointer("/metadata/namespace");
    let namespace = namespace.and_then(Value::as_str);
    namespace.unwrap_or_default().to_owned()
}

/// Names the field and nothing of what it holds.
pub(crate) fn json(field: &str, bytes: &[u8]) -> Result<Value, Refused> {
    serde_json::from_slice(bytes).map_err(|_| Refused::Json(field.to_owned()))
}

/// What the checks say, with the help of workers where there is Rego.
pub(crate) async fn judge(
    question: Question,
    length: usize,
    pool: &Pool,
    place: &Place<'_>,
) -> Result<Judged, Refused> {
    let prepared = if length <= SHORT {
        judge::prepare(question)
    } else {
        // Paths and selectors over large objects would keep other calls from their turn.
        let prepared = tokio::task::spawn_blocking(|| judge::prepare(question)).await;
        prepared.map_err(|_| Refused::Internal)?
    }?;
    let jobs = prepared.rego_jobs().count();
    if jobs > MOST_REGO {
        return Err(Refused::TooMuchRego(jobs));
    }
    let answers = ask(&prepared, pool, place).await;
    let is_certain = answers.len() == jobs && answers.iter().all(Result::is_ok);
    Ok(Judged {
        answer: told(prepared.finish(answers)),
        is_certain,
    })
}

/// The answers that come in time, in the order of the questions. The judge takes missing ones for
/// failures.
async fn ask(
    prepared: &Prepared,
    pool: &Pool,
    place: &Place<'_>,
) -> Vec<Result<RegoAnswer, RegoFailure>> {
    let deadline = Instant::now() + ALL_REGO;
    let mut jobs: Vec<BoxFuture<'_, _>> = Vec::new();
    for job in prepared.rego_jobs() {
        let answer = async move {
            let _worker = place.worker().await;
            pool.evaluate(job).await
        };
        jobs.push(answer.boxed());
    }
    let mut answers = stream::iter(jobs).buffered(pool.workers());
    let mut said = Vec::new();
    while let Ok(Some(answer)) = timeout_at(deadline, answers.next()).await {
        said.push(answer);
    }
    said
}

/// The answer, as it goes over the wire.
#[must_use]
pub fn told(judgement: Judgement) -> EvaluateChecksResponse {
    let Judgement {
        verdict,
        checks,
        rules,
    } = judgement;
    let (rules, reason, message) = match rules {
        None => (Vec::new(), String::new(), String::new()),
        Some(Ok(rules)) => {
            let rules = rules.into_iter().map(told_rule).collect();
            (rules, String::new(), String::new())
        }
        Some(Err(error)) => (
            Vec::new(),
            error.reason().as_str().to_owned(),
            error.to_string(),
        ),
    };
    EvaluateChecksResponse {
        verdict: to_wire(verdict).into(),
        checks: checks.into_iter().map(told_check).collect(),
        rules,
        rules_reason: reason,
        rules_message: message,
    }
}

fn told_rule(GrantedRule { verbs, resources }: GrantedRule) -> v1::GrantedRule {
    v1::GrantedRule {
        verbs,
        resources: resources.iter().map(ToString::to_string).collect(),
    }
}

fn told_check(check: CheckJudgement) -> v1::CheckResult {
    let CheckJudgement {
        check,
        verdict,
        reason,
        message,
        objects,
    } = check;
    v1::CheckResult {
        check,
        verdict: to_wire(verdict).into(),
        reason: reason.as_str().to_owned(),
        message,
        objects: objects.into_iter().map(told_object).collect(),
    }
}

fn told_object(object: ObjectJudgement) -> v1::ObjectResult {
    let ObjectJudgement {
        api_version,
        kind,
        namespace,
        name,
        uid,
        resource_version,
        state,
        verdict,
        reason,
        message,
        approved_by,
    } = object;
    v1::ObjectResult {
        api_version,
        kind,
        namespace,
        name,
        uid,
        resource_version,
        state,
        verdict: to_wire(verdict).into(),
        reason: reason.as_str().to_owned(),
        message,
        approved_by,
    }
}
