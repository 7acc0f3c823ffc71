//! The workspaces of a child: each is the run's binding under the name that the task gives it.
//!
//! A workspace can bring the scripts that a step runs, so a child with another binding runs something else.

use std::collections::BTreeSet;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::object::{LinkObject, is_set, list, text};
use super::proof::Proof;
use super::{LineageReason, LineageStep, content, refused};
use crate::hex;

/// The parts of a digest that name a claim.
const DIGEST: usize = 10;
/// The longest text that a value is filled into, with it: no path or name is longer.
const LONGEST: usize = 4_096;
/// The fields of a binding into which Tekton fills variables, beside its path.
const FILLED: [&str; 5] = [
    "configMap",
    "csi",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
/// The fields below them that stay as they are written.
const LEFT: [&str; 5] = [
    "clusterTrustBundle",
    "downwardAPI",
    "fsType",
    "serviceAccountToken",
    "volumeAttributes",
];

/// The child has the workspaces that run and pipeline task give it.
pub(super) fn check(
    proof: &mut Proof<'_>,
    child: &LinkObject<'_>,
    task: &Value,
    depth: u32,
) -> LineageStep {
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
        let binding = WorkspaceBinding {
            given: binding,
            path: entry.map(|it| text(it, "/subPath")).unwrap_or_default(),
        };
        if !binding.is_bound(proof, task, name, workspace, depth)? {
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

fn other<T>(child: &LinkObject<'_>) -> LineageStep<T> {
    let message = format!("{child} has other workspaces than run and pipeline task give it");
    refused(LineageReason::OtherWorkspaces, message)
}

/// The name of the run's workspace that is bound: the same name when the task says no other.
fn bound<'a>(entry: Option<&'a Value>, name: &'a str) -> &'a str {
    let other = entry.map(|it| text(it, "/workspace")).unwrap_or_default();
    if other.is_empty() { name } else { other }
}

/// A binding of the run, and the path that the pipeline task adds to it.
#[derive(Clone, Copy)]
struct WorkspaceBinding<'a> {
    given: &'a Value,
    path: &'a str,
}

impl WorkspaceBinding<'_> {
    /// True when a child's workspace is the binding under the task's name. A template of a claim is replaced by the claim
    /// that Tekton makes of it.
    fn is_bound(
        self,
        proof: &mut Proof<'_>,
        task: &Value,
        name: &str,
        found: &Value,
        depth: u32,
    ) -> LineageStep<bool> {
        let mut found = found.as_object().cloned().unwrap_or_default();
        let path = match found.remove("subPath") {
            Some(Value::String(path)) => clean(&path),
            _ => String::new(),
        };
        let mut wanted = self.given.as_object().cloned().unwrap_or_default();
        wanted.remove("subPath");
        wanted.insert("name".to_owned(), name.into());
        if !self.is_path(proof, task, &path, depth)? {
            return Ok(false);
        }
        let template = wanted
            .remove("volumeClaimTemplate")
            .filter(|it| !it.is_null());
        if let Some(template) = template {
            let claim = claim(
                text(&template, "/metadata/name"),
                text(self.given, "/name"),
                proof.run.uid,
            );
            let found_claim = found.remove("persistentVolumeClaim").unwrap_or_default();
            if !is_claim(&claim, text(&found_claim, "/claimName")) {
                return Ok(false);
            }
        }
        for field in FILLED {
            if let Some(value) = wanted.get_mut(field) {
                fill(proof, value)?;
            }
        }
        let (wanted, found) = (Value::Object(wanted), Value::Object(found));
        content::is_same(proof, task, (&wanted, &found), (depth, 0))
    }

    /// True when a child's path is that of the binding and that of the pipeline task. The latter is part of
    /// `status.pipelineSpec`, with parameters filled in. Tekton leaves a result in it as it is written unless another
    /// field of the pipeline task refers to it too, and a result in the former while its task has not ended.
    fn is_path(
        self,
        proof: &mut Proof<'_>,
        task: &Value,
        found: &str,
        depth: u32,
    ) -> LineageStep<bool> {
        let mut given = Value::from(text(self.given, "/subPath"));
        fill(proof, &mut given)?;
        let run = proof.run;
        let parts = [given.as_str().unwrap_or_default(), self.path].map(|it| {
            it.replace("$(context.pipelineRun.name)", run.name)
                .replace("$(context.pipelineRun.namespace)", run.namespace)
                .replace("$(context.pipelineRun.uid)", run.uid)
        });
        let [given, own] = &parts;
        for (is_given_left, is_own_left) in
            [(true, true), (false, true), (true, false), (false, false)]
        {
            let mut part = |text: &str, is_left: bool| {
                if is_left {
                    return Ok(text.to_owned());
                }
                proof.resolved_text(task, text, depth)
            };
            let joined = format!(
                "{}/{}",
                part(given, is_given_left)?,
                part(own, is_own_left)?
            );
            if clean(&joined) == found {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Puts the run's parameters into the texts of a binding where Tekton does. Those that the run does not give, but the
/// pipeline has a default for, stay as they are written.
fn fill(proof: &mut Proof<'_>, value: &mut Value) -> LineageStep {
    match value {
        Value::String(text) if text.contains("$(params") => {
            *text = filled(proof, text)?;
        }
        Value::Array(items) => {
            for item in items {
                fill(proof, item)?;
            }
        }
        Value::Object(fields) => {
            let fields = fields.iter_mut();
            for (_, value) in fields.filter(|(name, _)| !LEFT.contains(&name.as_str())) {
                fill(proof, value)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

/// A text with the parameters that the run gives, by each of the ways to write them.
fn filled(proof: &mut Proof<'_>, written: &str) -> LineageStep<String> {
    let given = list(proof.run.value, "/spec/params");
    let names = given.iter().map(|param| match param.get("value") {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Object(fields)) => fields.len(),
        _ => 1,
    });
    // Each name is looked for in the whole text.
    let names = names.sum::<usize>();
    proof.spend(names.saturating_mul(written.len() / 64 + 1))?;
    let mut filled = written.to_owned();
    let mut put = |variable: String, value: &str| replace(&mut filled, &variable, value);
    for param in given {
        let name = text(param, "/name");
        match param.get("value") {
            Some(Value::String(value)) => {
                for variable in written_as(name) {
                    put(format!("$({variable})"), value);
                }
            }
            Some(Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    for variable in written_as(name) {
                        put(
                            format!("$({variable}[{index}])"),
                            item.as_str().unwrap_or_default(),
                        );
                    }
                }
            }
            Some(Value::Object(fields)) => {
                for (key, value) in fields {
                    put(
                        format!("$(params.{name}.{key})"),
                        value.as_str().unwrap_or_default(),
                    );
                }
            }
            _ => {}
        }
    }
    Ok(filled)
}

/// Puts a value where a text names a variable. A short text may name a long value hundreds of times, and a binding has
/// many texts.
fn replace(text: &mut String, variable: &str, value: &str) {
    let added = text.matches(variable).count().saturating_mul(value.len());
    if text.len().saturating_add(added) <= LONGEST {
        *text = text.replace(variable, value);
    }
}

fn written_as(name: &str) -> [String; 3] {
    [
        format!("params.{name}"),
        format!("params['{name}']"),
        format!("params[\"{name}\"]"),
    ]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_claim_of_an_affinity_assistant_ends_in_ten_digits_of_a_digest() {
        let of_assistant = |digits: &str| format!("pvc-1-affinity-assistant-{digits}-0");
        for (found, expected) in [
            ("pvc-1".to_owned(), true),
            (of_assistant("0123456abc"), true),
            (of_assistant("0123456abcd"), false),
            (of_assistant("0123456ab"), false),
            (of_assistant("0123456abx"), false),
            (of_assistant(""), false),
            (format!("{}1", of_assistant("0123456abc")), false),
            ("pvc-1-0123456abc-0".to_owned(), false),
            ("pvc-2".to_owned(), false),
        ] {
            assert_eq!(is_claim("pvc-1", &found), expected, "{found}");
        }
    }

    #[test]
    fn a_text_does_not_grow_beyond_what_a_path_has() {
        let filled = |count: usize, value: usize| {
            let mut text = "$(params.a)".repeat(count);
            replace(&mut text, "$(params.a)", &"x".repeat(value));
            text
        };
        assert_eq!(filled(1, 100), "x".repeat(100));
        assert_eq!(filled(2, 0), "");
        for (count, value) in [(1, LONGEST), (372, 4_095), (372, LONGEST), (10, 500)] {
            let text = filled(count, value);
            assert!(text.len() <= LONGEST, "{count} {value}");
            assert!(text.starts_with("$("), "{count} {value}");
        }
    }
}
