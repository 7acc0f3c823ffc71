//! The next steps for the `ApprovalTask` of a pipeline run. Few of them have a command: only its approvers answer it, and
//! Tekton alone makes the objects of its proof.

use connectors_api::judge::JudgeReason;
use connectors_api::lineage::LineageReason;

use super::report::{ApproverWord, CandidateShown, LinkShown, LinkWord, NextShown};
use super::steps::{approve, none};

/// An `ApprovalTask` that does not pass.
pub(super) fn of_approval_task(candidate: &CandidateShown) -> NextShown {
    let CandidateShown {
        reason, message, ..
    } = candidate;
    let is = |word: JudgeReason| reason == word.as_str();
    if is(JudgeReason::Pending) {
        return answer(candidate);
    }
    if is(JudgeReason::LineageIncomplete) {
        let mut links = candidate.links.iter();
        let gone = links.find(|it| it.state == LinkWord::Missing);
        return none(match gone {
            Some(LinkShown { kind, name, .. }) => {
                format!("start a new run: {kind} {name} is gone, and Tekton does not make it again")
            }
            None => format!("nothing: Tekton's controllers write what is missing. {message}"),
        });
    }
    if is(JudgeReason::OtherApprovalMissing) {
        return none(format!(
            "have an approver put its labels back, or start a new run. {message}"
        ));
    }
    let of_lineage = LineageReason::ALL.iter().find(|it| it.as_str() == reason);
    let is_proven = candidate
        .links
        .iter()
        .all(|it| it.state == LinkWord::Proven);
    // The messages of the judge have their remedy. Both know a quorum; that of the judge is counted after a proof.
    none(match of_lineage {
        Some(LineageReason::QuorumNotMet) if is_proven => message.clone(),
        Some(reason) => format!("{}. {message}", reason.way_out()),
        None => message.clone(),
    })
}

/// The command of the approvers that may still answer.
fn answer(candidate: &CandidateShown) -> NextShown {
    let awaited: Vec<_> = candidate
        .approvers
        .iter()
        .filter(|it| it.answer == ApproverWord::Awaited && it.counts)
        .map(|it| {
            if it.group {
                format!("a member of group {}", it.name)
            } else {
                it.name.clone()
            }
        })
        .collect();
    if awaited.is_empty() && !candidate.approvers.is_empty() {
        return none(
            "no approver who still may answer counts for the policy: cancel the run, and start one that asks the policy's \
             approvers",
        );
    }
    let who = if awaited.is_empty() {
        "its approvers".to_owned()
    } else {
        awaited.join(", ")
    };
    approve(who, "approvaltask", "ApprovalTask", &candidate.name)
}
