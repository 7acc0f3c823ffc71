//! The ApprovalTask: its match with its CustomRun's parameters, and the quorum of its approvers.
//!
//! The gate adopts an object that was created under its name before, as it is, and writes `status.state` only when the
//! approvers change. So approvers and number are compared with the CustomRun, and `status` is believed only where the
//! approvers' own inputs say the same: the gate's webhook lets each approver write only the own one.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::object::{ControllerRef, LinkObject, is_set, text};
use super::results::Values;
use super::{Absent, LineageReason, LineageStep, MissingLink, ProofStop, RunKind, refused};
use crate::access_request::Approval;
use crate::approver_record::is_unambiguous;

/// Group and version of the kind.
pub(super) const API_VERSION: &str = "openshift-pipelines.org/v1alpha1";
/// The kind.
pub(super) const KIND: &str = "ApprovalTask";
/// The prefix of a group in the parameters of a CustomRun.
const GROUP: &str = "group:";
/// The most approvers, and members of a group.
const MOST_APPROVERS: usize = 1_000;

/// An approver as the gate knows it: whether it is a group, and its name.
type ApproverKey<'a> = (bool, &'a str);

pub(super) fn is_of_the_gate(approval: &LinkObject<'_>) -> LineageStep {
    if approval.is_kind(API_VERSION, KIND) {
        return Ok(());
    }
    refused(
        LineageReason::Unreadable,
        format!("{approval} is no {KIND} of {API_VERSION}"),
    )
}

/// Approval and pod are in one namespace.
pub(super) fn is_beside(approval: &LinkObject<'_>, pod: &LinkObject<'_>) -> LineageStep {
    if approval.namespace != pod.namespace {
        let message = format!("{approval} is in another namespace than the pod");
        return refused(LineageReason::OtherNamespace, message);
    }
    Ok(())
}

/// The CustomRun that controls the approval. The gate gives both one name.
pub(super) fn owner<'a>(approval: &LinkObject<'a>) -> LineageStep<ControllerRef<'a>> {
    let Some(owner) = approval.controller(RunKind::CustomRun) else {
        let message = format!("no CustomRun controls {approval}");
        return refused(LineageReason::ApprovalWithoutCustomRun, message);
    };
    if approval.name != owner.name {
        let message = format!(
            "{approval} does not have the name of CustomRun {}",
            owner.name
        );
        return refused(LineageReason::ApprovalName, message);
    }
    Ok(owner)
}

/// The approval is the one that the CustomRun asks for.
pub(super) fn check(approval: &LinkObject<'_>, custom_run: &LinkObject<'_>) -> LineageStep {
    approval.is_not_going()?;
    asks_for_approval(custom_run)?;
    is_not_older(approval, custom_run)?;
    is_open(approval, custom_run)?;
    has_approvers(approval, custom_run)?;
    has_count(approval, custom_run)
}

/// The gate makes ApprovalTasks for no other custom tasks.
fn asks_for_approval(custom_run: &LinkObject<'_>) -> LineageStep {
    let reference = (
        custom_run.text("/spec/customRef/apiVersion"),
        custom_run.text("/spec/customRef/kind"),
    );
    if reference != (API_VERSION, KIND) {
        let message = format!("{custom_run} does not ask for an approval");
        return refused(LineageReason::NoApprovalAsked, message);
    }
    Ok(())
}

fn is_not_older(approval: &LinkObject<'_>, custom_run: &LinkObject<'_>) -> LineageStep {
    if approval.is_older_than(custom_run) {
        let message = format!("{approval} was created before {custom_run}");
        return refused(LineageReason::ApprovalOlderThanCustomRun, message);
    }
    Ok(())
}

/// The gate lets approvers decide after the CustomRun was cancelled. A CustomRun fails for a rejection and for a timeout;
/// an approval that says otherwise was changed afterwards.
fn is_open(approval: &LinkObject<'_>, custom_run: &LinkObject<'_>) -> LineageStep {
    let has_failed =
        custom_run.succeeded() == Some(false) && approval.text("/status/state") != "rejected";
    if is_set(custom_run.value, "/spec/status") || has_failed {
        let message = format!("{custom_run} was cancelled or failed");
        return refused(LineageReason::CustomRunEnded, message);
    }
    Ok(())
}

fn has_approvers(approval: &LinkObject<'_>, custom_run: &LinkObject<'_>) -> LineageStep {
    let wanted = wanted_approvers(custom_run);
    let listed = listed_approvers(approval);
    if wanted.is_none() || wanted != listed {
        let message = format!("{approval} has other approvers than the parameters of {custom_run}");
        return refused(LineageReason::OtherApprovers, message);
    }
    Ok(())
}

/// The approvers of the parameters, in the gate's reading: the first of two equal names counts, whether it is a user's
/// or a group's. The gate keeps their order; its webhook compares entries by their place.
fn wanted_approvers<'a>(custom_run: &LinkObject<'a>) -> Option<Vec<ApproverKey<'a>>> {
    let names = parameter(custom_run, "approvers")?.as_array()?;
    if !(1..=MOST_APPROVERS).contains(&names.len()) {
        return None;
    }
    let mut seen = BTreeSet::new();
    let mut wanted = Vec::new();
    for name in names {
        let text = name.as_str()?;
        if seen.contains(text) {
            continue;
        }
        let listed = match text.strip_prefix(GROUP) {
            Some(group) => (true, group),
            None => (false, text),
        };
        if seen.insert(listed.1) {
            wanted.push(listed);
        }
    }
    Some(wanted)
}

/// The approvers of the object; none when an entry cannot be read. One that comes twice is none of the parameters.
fn listed_approvers<'a>(approval: &LinkObject<'a>) -> Option<Vec<ApproverKey<'a>>> {
    let entries = approval.list("/spec/approvers");
    if entries.len() > MOST_APPROVERS {
        return None;
    }
    let approver = |entry| {
        let name = text(entry, "/name");
        (!name.is_empty()).then_some((is_group(entry)?, name))
    };
    entries.iter().map(approver).collect()
}

/// Objects from before groups existed have no type.
fn is_group(entry: &Value) -> Option<bool> {
    match entry.get("type") {
        None | Some(Value::Null) => Some(false),
        Some(Value::String(word)) => match word.as_str() {
            "" | "User" => Some(false),
            "Group" => Some(true),
            _ => None,
        },
        Some(_) => None,
    }
}

fn has_count(approval: &LinkObject<'_>, custom_run: &LinkObject<'_>) -> LineageStep {
    let wanted = match parameter(custom_run, "numberOfApprovalsRequired") {
        None => Some(1),
        Some(value) => value.as_str().and_then(|it| it.parse::<u64>().ok()),
    };
    let wanted = wanted.filter(|it| *it > 0);
    if wanted.is_none() || wanted != count(approval) {
        let message = format!("{approval} wants another number of approvals than {custom_run}");
        return refused(LineageReason::OtherApprovalCount, message);
    }
    Ok(())
}

fn count(approval: &LinkObject<'_>) -> Option<u64> {
    let count = approval.value.pointer("/spec/numberOfApprovalsRequired");
    count.and_then(Value::as_u64)
}

/// The only parameter of a name.
fn parameter<'a>(custom_run: &LinkObject<'a>, name: &str) -> Option<&'a Value> {
    let values = Values::of_list(custom_run.list("/spec/params"))?;
    values.get(name)
}

/// The decision of the approvers.
pub(super) fn decision(approval: &LinkObject<'_>) -> LineageStep<Vec<Approval>> {
    if !is_unambiguous(approval.value) {
        let message = format!("{approval} has fields that differ in nothing but case");
        return refused(LineageReason::AmbiguousFields, message);
    }
    match approval.text("/status/state") {
        "approved" => quorum(approval),
        "rejected" => rejection(approval),
        "" | "pending" if is_text_or_absent(approval) => {
            Err(ProofStop::Waiting(vec![MissingLink {
                api_version: API_VERSION,
                kind: KIND,
                namespace: approval.namespace.to_owned(),
                name: approval.name.to_owned(),
                uid: Some(approval.uid.to_owned()),
                what: Absent::Decision,
            }]))
        }
        _ => {
            let message = format!("{approval} is in a state that the gate does not write");
            refused(LineageReason::StateUnknown, message)
        }
    }
}

fn is_text_or_absent(approval: &LinkObject<'_>) -> bool {
    let state = approval.value.pointer("/status/state");
    state.is_none_or(|it| it.is_string() || it.is_null())
}

/// A rejection that no approver gave is the gate's timeout.
fn rejection<T>(approval: &LinkObject<'_>) -> LineageStep<T> {
    // The gate records the approvals that came before the timeout.
    let mut responses = approval.list("/status/approversResponse").iter();
    let was_refused = responses.any(|it| {
        let mut members = super::object::list(it, "/groupMembers").iter();
        responds_no(it) || members.any(responds_no)
    });
    if says_no(approval) == 0 && !was_refused {
        let message = format!("{approval} timed out: its approvers did not decide in time");
        return refused(LineageReason::TimedOut, message);
    }
    refused(LineageReason::Rejected, format!("{approval} is rejected"))
}

/// Enough different users approved, and none rejected. The count uses each approver's own input. A group
/// counts through its members alone, each once.
fn quorum(approval: &LinkObject<'_>) -> LineageStep<Vec<Approval>> {
    let approvers = approving(approval);
    let have = u64::try_from(approvers.len()).unwrap_or(0);
    let need = count(approval).unwrap_or(u64::MAX).max(1);
    let noes = says_no(approval);
    if have < need || noes > 0 {
        let message = format!(
            "{approval} says approved, but its approvers gave {have} of {need} approvals and {noes} rejections"
        );
        return refused(LineageReason::QuorumNotMet, message);
    }
    Ok(approvers.into_values().collect())
}

fn responds_no(response: &Value) -> bool {
    text(response, "/response") == "rejected"
}

fn says(entry: &Value, word: &str) -> bool {
    text(entry, "/input") == word
}

/// The entries with an input, each with the group that it belongs to.
fn inputs<'a>(approval: &LinkObject<'a>) -> impl Iterator<Item = (&'a Value, Option<&'a str>)> {
    let entries = approval.list("/spec/approvers").iter();
    entries.flat_map(|entry| {
        let members = super::object::list(entry, "/users").iter();
        let is_group = is_group(entry) == Some(true);
        let group = text(entry, "/name");
        let members = members.map(move |it| (it, Some(group)));
        let members = is_group.then_some(members).into_iter().flatten();
        std::iter::once((entry, None)).chain(members)
    })
}

fn says_no(approval: &LinkObject<'_>) -> usize {
    inputs(approval)
        .filter(|(it, _)| says(it, "reject"))
        .count()
}

/// The approving users. The members of a group count when the group's own entry says yes, as in the gate.
fn approving(approval: &LinkObject<'_>) -> BTreeMap<String, Approval> {
    let mut approving = BTreeMap::new();
    let mut add = |entry: &Value, group: Option<&str>| {
        let name = text(entry, "/name");
        if name.is_empty() {
            return;
        }
        let message = text(entry, "/message");
        let approver = Approval {
            user: name.to_owned(),
            group: group.map(str::to_owned),
            message: (!message.is_empty()).then(|| message.to_owned()),
        };
        // An own entry precedes membership in a group.
        let known = approving
            .entry(name.to_owned())
            .or_insert_with(|| approver.clone());
        if known.group.is_some() && group.is_none() {
            *known = approver;
        }
    };
    for entry in approval
        .list("/spec/approvers")
        .iter()
        .filter(|it| says(it, "approve"))
    {
        if is_group(entry) == Some(true) {
            let members = super::object::list(entry, "/users").iter();
            for member in members
                .take(MOST_APPROVERS)
                .filter(|it| says(it, "approve"))
            {
                add(member, Some(text(entry, "/name")));
            }
        } else {
            add(entry, None);
        }
    }
    approving
}
