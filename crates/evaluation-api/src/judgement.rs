//! A judgement of checks as it is sent.

use connectors_api::{
    access_request::Approval,
    judge::{CheckJudgement, Judgement, ObjectJudgement, RenderedRule},
    object_ref::ObjectRef,
};

use crate::{v1, verdict};

/// The answer to `EvaluateChecks`.
#[must_use]
pub fn to_wire(judgement: Judgement) -> v1::EvaluateChecksResponse {
    let Judgement {
        verdict,
        checks,
        rules,
    } = judgement;
    let (rules, reason, message) = match rules {
        None => (Vec::new(), String::new(), String::new()),
        Some(Ok(rules)) => {
            let rules = rules.into_iter().map(rule).collect();
            (rules, String::new(), String::new())
        }
        Some(Err(error)) => (
            Vec::new(),
            error.reason().as_str().to_owned(),
            error.to_string(),
        ),
    };
    v1::EvaluateChecksResponse {
        verdict: verdict::to_wire(verdict).into(),
        checks: checks.into_iter().map(check).collect(),
        rules,
        rules_reason: reason,
        rules_message: message,
    }
}

fn rule(RenderedRule { verbs, resources }: RenderedRule) -> v1::GrantedRule {
    v1::GrantedRule {
        verbs,
        resources: resources.iter().map(ToString::to_string).collect(),
    }
}

fn check(judgement: CheckJudgement) -> v1::CheckResult {
    let CheckJudgement {
        check,
        verdict,
        reason,
        message,
        objects,
    } = judgement;
    v1::CheckResult {
        check,
        verdict: verdict::to_wire(verdict).into(),
        reason: reason.as_str().to_owned(),
        message,
        objects: objects.into_iter().map(object).collect(),
    }
}

fn object(judgement: ObjectJudgement) -> v1::ObjectResult {
    let ObjectJudgement {
        object,
        state,
        verdict,
        reason,
        message,
        approved_by,
        approvals,
        lineage,
        run_creator,
    } = judgement;
    v1::ObjectResult {
        api_version: object.api_version,
        kind: object.kind,
        namespace: object.namespace,
        name: object.name,
        uid: object.uid,
        resource_version: object.resource_version,
        state,
        verdict: verdict::to_wire(verdict).into(),
        reason: reason.as_str().to_owned(),
        message,
        approved_by,
        lineage: lineage.into_iter().map(link).collect(),
        approvals: approvals.into_iter().map(approval).collect(),
        run_creator: run_creator.unwrap_or_default(),
    }
}

/// An approval as it is sent.
#[must_use]
pub fn approval(approval: Approval) -> v1::Approval {
    let Approval {
        user,
        group,
        message,
    } = approval;
    v1::Approval {
        user,
        group: group.unwrap_or_default(),
        message: message.unwrap_or_default(),
    }
}

fn link(object: ObjectRef) -> v1::LineageObject {
    v1::LineageObject {
        api_version: object.api_version,
        kind: object.kind,
        namespace: object.namespace,
        name: object.name,
        uid: object.uid,
        resource_version: object.resource_version,
    }
}
