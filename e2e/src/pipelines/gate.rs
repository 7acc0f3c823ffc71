//! The controller of the approval gate.
//!
//! It remembers the approvers of an `ApprovalTask` as it made it, by a digest. As long as they are the same, a status stays as
//! it is, also one that another account wrote. A cancelled `CustomRun` changes nothing for it.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use jiff::SignedDuration;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::objects::{
    conditions, duration, elements, is_over, labels_of, name, named, owned_by, set_or, started,
    succeeded, text,
};
use super::{GATE, Pipelines, Round};
use crate::{
    api::{
        ApiError,
        kinds::{APPROVAL_TASK, CUSTOM_RUN},
    },
    hex::hex,
};

/// Has the digest of the approvers, as they were at the beginning.
const DIGEST: &str = "tekton.dev/last-applied-hash";
/// The prefix of a group among the approvers of a pipeline.
const GROUP: &str = "group:";

impl Pipelines {
    pub(super) fn custom_run(&self, run: &Value, round: Round) -> Result<(), ApiError> {
        let reference = &run["spec"]["customRef"];
        let is_of_the_gate = reference["apiVersion"] == GATE && reference["kind"] == "ApprovalTask";
        if !is_of_the_gate || succeeded(run).is_some() {
            return Ok(());
        }
        let status_with =
            |conditions| json!({"startTime": started(run, round.now), "conditions": conditions});
        if let Err(message) = validated(run) {
            let status = status_with(conditions("False", "ApprovalTaskValidationFailed", message));
            return self.write_status(CUSTOM_RUN, run, &status);
        }
        let task = match self.api.get(APPROVAL_TASK, name(run))? {
            // An object of that name is taken for the approval, regardless of its content.
            Some(task) => task,
            None => self.create_approval(run)?,
        };
        let limit = duration(&run["spec"]["timeout"])
            .or_else(|| duration(param(run, "timeout").unwrap_or_default()))
            .unwrap_or(SignedDuration::from_hours(1));
        let since = set_or(
            &task["status"]["startTime"],
            &task["metadata"]["creationTimestamp"],
        );
        if is_over(since, Some(limit), round.now) {
            let status = json!({"state": "rejected", "startTime": since});
            self.write_status(APPROVAL_TASK, &task, &status)?;
            let message = format!("Approval task {} is failed because of timeout", name(&task));
            let status = status_with(conditions("False", "Failed", &message));
            return self.write_status(CUSTOM_RUN, run, &status);
        }
        let mut state = "pending";
        let answered;
        if task["metadata"]["annotations"][DIGEST] != digest(&task["spec"]["approvers"]) {
            answered = answers(&task);
            if let Some(mut status) = answered.clone() {
                status["startTime"] = since.clone();
                self.write_status(APPROVAL_TASK, &task, &status)?;
            }
            state = text(answered.as_ref().unwrap_or(&task["status"]), "/state");
        }
        let result = match state {
            "approved" => conditions("True", "Succeeded", "TaskRun succeeded"),
            "rejected" => conditions("False", "Failed", "Approval Task denied"),
            _ => conditions("Unknown", "Running", ""),
        };
        self.write_status(CUSTOM_RUN, run, &status_with(result))
    }

    /// The status that the gate writes after the answers so far. None without an answer.
    pub fn counted(&self, approval: &str) -> Result<Option<Value>, ApiError> {
        let task = self.api.get(APPROVAL_TASK, approval)?;
        Ok(task.as_ref().and_then(answers))
    }

    fn create_approval(&self, run: &Value) -> Result<Value, ApiError> {
        let task = self.create(&approval(run))?;
        let approvers = elements(&task["spec"]["approvers"]).iter();
        let approvers: Vec<_> = approvers.map(|it| it["name"].clone()).collect();
        let status = json!({
            "state": "pending", "approvers": approvers,
            "approvalsRequired": task["spec"]["numberOfApprovalsRequired"],
        });
        self.write_status(APPROVAL_TASK, &task, &status)?;
        let mut task = task;
        task["status"] = status;
        Ok(task)
    }
}

fn param<'a>(run: &'a Value, name: &str) -> Option<&'a Value> {
    named(&run["spec"]["params"], name).map(|it| &it["value"])
}

/// What is wrong with the parameters of a `CustomRun`.
fn validated(run: &Value) -> Result<(), &'static str> {
    if let Some(needed) = param(run, "numberOfApprovalsRequired") {
        let needed = needed.as_str().and_then(|it| it.parse::<i64>().ok());
        if needed.is_none_or(|it| it <= 0) {
            return Err(
                "ApprovalTask validation failed: invalid numberOfApprovalsRequired parameter",
            );
        }
    }
    let approvers = param(run, "approvers").map_or(&[][..], elements);
    let is_valid = |it: &Value| {
        let name = it.as_str().unwrap_or_default();
        match name.strip_prefix(GROUP) {
            Some(group) => !group.is_empty() && !group.contains([':', ' ']),
            None => !name.trim().is_empty(),
        }
    };
    if approvers.is_empty() || !approvers.iter().all(is_valid) {
        return Err("ApprovalTask validation failed: invalid approvers parameter");
    }
    Ok(())
}

/// The approval that a `CustomRun` asks for.
#[must_use]
pub fn approval(run: &Value) -> Value {
    let mut seen = BTreeSet::new();
    let mut approvers = Vec::new();
    for approver in param(run, "approvers").map_or(&[][..], elements) {
        let given = approver.as_str().unwrap_or_default();
        let (name, kind) = match given.strip_prefix(GROUP) {
            Some(group) => (group, "Group"),
            None => (given, "User"),
        };
        // The first of two equal names counts.
        if !seen.contains(given) && seen.insert(name) {
            approvers.push(json!({"name": name, "type": kind, "input": "pending"}));
        }
    }
    let needed = param(run, "numberOfApprovalsRequired").and_then(Value::as_str);
    let needed = needed.and_then(|it| it.parse::<u64>().ok()).unwrap_or(1);
    let mut labels = labels_of(run);
    labels.insert(
        "tekton.dev/customRun".to_owned(),
        run["metadata"]["name"].clone(),
    );
    let approvers = Value::from(approvers);
    let mut task = json!({
        "apiVersion": GATE, "kind": "ApprovalTask",
        "metadata": {
            "name": run["metadata"]["name"], "ownerReferences": owned_by(run), "labels": labels,
            "annotations": {DIGEST: digest(&approvers)},
        },
        "spec": {"approvers": approvers, "numberOfApprovalsRequired": needed},
    });
    if let Some(description) = param(run, "description") {
        task["spec"]["description"] = description.clone();
    }
    task
}

/// An approver with the fields and in the order of the gate.
#[derive(Serialize)]
struct GateApprover<'a> {
    name: &'a str,
    input: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
    r#type: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    users: Vec<GateMember<'a>>,
}

#[derive(Serialize)]
struct GateMember<'a> {
    name: &'a str,
    input: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    message: &'a str,
}

fn digest(approvers: &Value) -> String {
    let member = |it| GateMember {
        name: text(it, "/name"),
        input: text(it, "/input"),
        message: text(it, "/message"),
    };
    let approver = |it| GateApprover {
        name: text(it, "/name"),
        input: text(it, "/input"),
        message: text(it, "/message"),
        r#type: text(it, "/type"),
        users: elements(&it["users"]).iter().map(member).collect(),
    };
    let all: Vec<_> = elements(approvers).iter().map(approver).collect();
    // Texts alone can always be written.
    let written = serde_json::to_vec(&all).unwrap_or_default();
    hex(&Sha256::digest(written))
}

/// The different users who approved. Those of a group count with the entry of the group.
fn approving(spec: &Value) -> BTreeSet<&str> {
    let says_yes = |it: &&Value| it["input"] == "approve";
    let entries = elements(&spec["approvers"]).iter().filter(says_yes);
    entries
        .flat_map(|entry| {
            let members = if entry["type"] == "Group" {
                elements(&entry["users"])
            } else {
                std::slice::from_ref(entry)
            };
            members.iter().filter(says_yes).map(|it| text(it, "/name"))
        })
        .collect()
}

fn needed(spec: &Value) -> u64 {
    spec["numberOfApprovalsRequired"].as_u64().unwrap_or(1)
}

fn has_enough(spec: &Value) -> bool {
    u64::try_from(approving(spec).len()).is_ok_and(|it| it >= needed(spec))
}

/// The gate's webhook takes answers to this approval. A state that is final is believed.
#[must_use]
pub fn is_open(task: &Value) -> bool {
    let is_final = ["approved", "rejected"].contains(&text(task, "/status/state"));
    !is_final && !has_enough(&task["spec"])
}

/// The word of a response.
fn response(input: &Value) -> Option<&'static str> {
    match input.as_str() {
        Some("approve") => Some("approved"),
        Some("reject") => Some("rejected"),
        _ => None,
    }
}

/// The status after the answers so far; none without an answer. Where they do not decide, the state stays as it was.
fn answers(task: &Value) -> Option<Value> {
    let spec = &task["spec"];
    let entries = elements(&spec["approvers"]);
    let responses: Vec<_> = entries
        .iter()
        .filter_map(|it| response_of(it, entries))
        .collect();
    if responses.is_empty() {
        return None;
    }
    let state = if entries.iter().any(|it| it["input"] == "reject") {
        "rejected".into()
    } else if has_enough(spec) {
        "approved".into()
    } else {
        task["status"]["state"].clone()
    };
    Some(json!({
        "state": state, "approversResponse": responses, "approvalsRequired": needed(spec),
        "approvalsReceived": approving(spec).len(),
    }))
}

/// A member of a group who is listed as a user too counts as that user alone.
fn response_of(entry: &Value, all: &[Value]) -> Option<Value> {
    let own = response(&entry["input"])?;
    if entry["type"] != "Group" {
        return Some(json!({"name": entry["name"], "type": "User", "response": own}));
    }
    let is_user = |name: &Value| {
        let mut users = all.iter().filter(|it| it["type"] != "Group");
        users.any(|it| it["name"] == *name && response(&it["input"]).is_some())
    };
    let members = elements(&entry["users"])
        .iter()
        .filter(|it| !is_user(&it["name"]));
    let members: Vec<_> = members
        .filter_map(|it| Some(json!({"name": it["name"], "response": response(&it["input"])?})))
        .collect();
    let no = members.iter().any(|it| it["response"] == "rejected");
    let word = if no { "rejected" } else { "approved" };
    (!members.is_empty()).then(|| {
        json!({"name": entry["name"], "type": "Group", "response": word, "groupMembers": members})
    })
}
