//! The workspaces of a child: each is the run's binding under the name that the task gives it.
//!
//! A workspace can bring the scripts that a step runs, so a child with another binding runs something else.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::object::{Object, is_set, list, text};
use super::proof::Proof;
use super::{LineageReason, Step, content, refused};
use crate::hex;

/// The parts of a digest that name a claim.
const DIGEST: usize = 10;

/// The child has the workspaces that run and pipeline task give it.
pub(super) fn check(proof: &mut Proof<'_>, child: &Object<'_>, task: &Value, depth: u32) -> Step {
    let run = proof.run;
    let found = child.list("/spec/workspaces");
    let declared = list(task, "/workspaces");
    let bindings = list(run.value, "/spec/workspaces");
    proof.spend(found.len() + declared.len() + bindings.len())?;
    let mut seen = BTreeSet::new();
    for workspace in found {
        let name = text(workspace, "/name");
        let entry = declared.iter().find(|it| text(it, "/name") == name);
        // An embedded task may use a workspace of the run without saying so.
        let is_used = entry.is_some() || is_set(task, "/taskSpec");
        let binding = bindings
            .iter()
            .find(|it| text(it, "/name") == bound(entry, name));
        let (true, Some(binding), true) = (is_used, binding, seen.insert(name)) else {
            return other(child);
        };
        let wanted = wanted(proof, task, entry, binding, depth)?;
        if !is_binding(proof, task, wanted, workspace, (binding, depth))? {
            return other(child);
        }
    }
    // A workspace without a binding is optional.
    let is_bound = |entry: &&Value| {
        let name = bound(Some(entry), text(entry, "/name"));
        bindings.iter().any(|it| text(it, "/name") == name)
    };
    let lacks = |entry: &Value| !seen.contains(text(entry, "/name"));
    if declared.iter().filter(is_bound).any(lacks) {
        return other(child);
    }
    Ok(())
}

fn other<T>(child: &Object<'_>) -> Step<T> {
    let message = format!("{child} has other workspaces than run and pipeline task give it");
    refused(LineageReason::OtherWorkspaces, message)
}

/// The name of the run's workspace that is bound: the same name when the task says no other.
fn bound<'a>(entry: Option<&'a Value>, name: &'a str) -> &'a str {
    let other = entry.map(|it| text(it, "/workspace")).unwrap_or_default();
    if other.is_empty() { name } else { other }
}

/// The binding as the child has it: under the task's name, with both parts of the path.
fn wanted(
    proof: &mut Proof<'_>,
    task: &Value,
    entry: Option<&Value>,
    binding: &Value,
    depth: u32,
) -> Step<Map<String, Value>> {
    let mut wanted = binding.as_object().cloned().unwrap_or_default();
    if let Some(entry) = entry {
        wanted.insert(
            "name".to_owned(),
            entry.get("name").cloned().unwrap_or_default(),
        );
    }
    let paths =
        [Some(binding), entry].map(|it| it.map(|it| text(it, "/subPath")).unwrap_or_default());
    let joined = paths
        .into_iter()
        .filter(|it| !it.is_empty())
        .collect::<Vec<_>>()
        .join("/");
    let path = filled(proof, &joined)?;
    let path = proof.resolved_text(task, &path, depth)?;
    wanted.remove("subPath");
    if !path.is_empty() {
        wanted.insert("subPath".to_owned(), Value::String(path));
    }
    Ok(wanted)
}

/// A path with the run's context and text parameters.
fn filled(proof: &mut Proof<'_>, path: &str) -> Step<String> {
    let run = proof.run;
    let mut filled = path
        .replace("$(context.pipelineRun.name)", run.name)
        .replace("$(context.pipelineRun.namespace)", run.namespace)
        .replace("$(context.pipelineRun.uid)", run.uid);
    if !filled.contains("$(params.") {
        return Ok(filled);
    }
    let given = list(run.value, "/spec/params");
    let defaults = list(run.value, "/status/pipelineSpec/params");
    // Each name is looked for in the whole path.
    let names = given.len() + defaults.len();
    proof.spend(names.saturating_mul(filled.len() / 64 + 1))?;
    let mut values: BTreeMap<&str, &str> = BTreeMap::new();
    let given = given.iter().map(|it| (it, "value"));
    for (param, field) in given.chain(defaults.iter().map(|it| (it, "default"))) {
        if let Some(value) = param.get(field).and_then(Value::as_str) {
            values.entry(text(param, "/name")).or_insert(value);
        }
    }
    for (name, value) in values {
        if filled.len() < 4_096 {
            filled = filled.replace(&format!("$(params.{name})"), value);
        }
    }
    Ok(filled)
}

/// True when a child's workspace is the binding. A template of a claim is replaced by the claim that Tekton makes of it.
fn is_binding(
    proof: &mut Proof<'_>,
    task: &Value,
    mut wanted: Map<String, Value>,
    found: &Value,
    (binding, depth): (&Value, u32),
) -> Step<bool> {
    let mut found = found.as_object().cloned().unwrap_or_default();
    let path = |fields: &mut Map<String, Value>| match fields.remove("subPath") {
        Some(Value::String(path)) => clean(&path),
        _ => String::new(),
    };
    if path(&mut wanted) != path(&mut found) {
        return Ok(false);
    }
    let template = wanted
        .remove("volumeClaimTemplate")
        .filter(|it| !it.is_null());
    if let Some(template) = template {
        let claim = claim(
            text(&template, "/metadata/name"),
            text(binding, "/name"),
            proof.run.uid,
        );
        let found_claim = found.remove("persistentVolumeClaim").unwrap_or_default();
        if !is_claim(&claim, text(&found_claim, "/claimName")) {
            return Ok(false);
        }
    }
    let (wanted, found) = (Value::Object(wanted), Value::Object(found));
    content::is_same(proof, task, (&wanted, &found), (depth, 0))
}

/// Tekton joins paths as Go does, which removes empty parts and single dots.
fn clean(path: &str) -> String {
    let parts = path.split('/').filter(|it| !it.is_empty() && *it != ".");
    parts.collect::<Vec<_>>().join("/")
}

/// The claim that Tekton makes of a template: the template's name or `pvc`, and ten digits of the SHA-256 digest of
/// the workspace's name and the run's UID.
fn claim(template: &str, workspace: &str, uid: &str) -> String {
    let mut digest = hex(&Sha256::digest(format!("{workspace}{uid}").as_bytes()));
    digest.truncate(DIGEST);
    let template = if template.is_empty() { "pvc" } else { template };
    format!("{template}-{digest}")
}

/// An affinity assistant that works for a whole run has a claim of its own, named after both.
fn is_claim(claim: &str, found: &str) -> bool {
    let assistant = found
        .strip_prefix(claim)
        .and_then(|it| it.strip_prefix("-affinity-assistant-"));
    let digits = assistant.and_then(|it| it.strip_suffix("-0"));
    let is_digest =
        |it: &str| it.len() == DIGEST && it.bytes().all(|byte| byte.is_ascii_hexdigit());
    found == claim || digits.is_some_and(is_digest)
}
