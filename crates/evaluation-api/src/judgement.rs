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

#[cfg(test)]
mod tests {
    use connectors_api::{judge::JudgeReason, reason::AccessCheckReady};

    use super::*;

    mod whole;

    fn reference(name: &str) -> ObjectRef {
        ObjectRef {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: format!("{name}-uid"),
            api_version: "tekton.dev/v1".to_owned(),
            kind: "PipelineRun".to_owned(),
            resource_version: "7".to_owned(),
        }
    }

    #[test]
    fn an_object_is_sent_whole_with_the_objects_that_prove_its_run() {
        let judged = ObjectJudgement {
            object: reference("approval"),
            state: "approved".to_owned(),
            verdict: AccessCheckReady::AccessCheckPassed,
            reason: JudgeReason::Approved.into(),
            message: "Ann approved".to_owned(),
            approved_by: vec!["ann".to_owned()],
            approvals: vec![Approval {
                user: "ann".to_owned(),
                group: Some("owners".to_owned()),
                message: None,
            }],
            lineage: vec![reference("run")],
            run_creator: Some("bob".to_owned()),
        };
        let text = str::to_owned;
        let expected = v1::ObjectResult {
            api_version: text("tekton.dev/v1"),
            kind: text("PipelineRun"),
            namespace: text("shop"),
            name: text("approval"),
            uid: text("approval-uid"),
            resource_version: text("7"),
            state: text("approved"),
            verdict: v1::CheckVerdict::Passed.into(),
            reason: text("Approved"),
            message: text("Ann approved"),
            approved_by: vec![text("ann")],
            lineage: vec![v1::LineageObject {
                api_version: text("tekton.dev/v1"),
                kind: text("PipelineRun"),
                namespace: text("shop"),
                name: text("run"),
                uid: text("run-uid"),
                resource_version: text("7"),
            }],
            approvals: vec![v1::Approval {
                user: text("ann"),
                group: text("owners"),
                message: String::new(),
            }],
            run_creator: text("bob"),
        };
        assert_eq!(object(judged), expected);
    }
}
