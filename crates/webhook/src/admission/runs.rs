//! The creator of a pipeline run as an annotation, by which a check can exclude the creator's own approval: pure.

use connectors_api::names::{CREATOR, LONGEST_USER};
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, jsonptr::PointerBuf};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::json;

/// The most that is made of a run: its creator's name, in a few copies.
pub(crate) const WEIGHT: usize = 8 * LONGEST_USER;

/// The fields of a run that are read, however large the rest is.
#[derive(Deserialize)]
struct RunReview {
    metadata: RunMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RunMetadata {
    /// Null is absent.
    #[serde(default)]
    annotations: Option<Annotations>,
    #[serde(default)]
    owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(default, rename = "connectors.alauda.io/creator")]
    creator: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
}

impl RunMetadata {
    /// Tekton creates the child of a run, and copies the annotations of that run. A child that loses its owner later must
    /// not look like a run of Tekton.
    fn is_of_a_run(&self) -> bool {
        let mut owners = self.owner_references.iter().flatten();
        owners.any(|it| it.kind == "PipelineRun" && it.api_version.starts_with("tekton.dev/"))
    }
}

/// The patch that makes a run name its creator, and replaces another name. The child of a run names none. Nothing for an object that
/// cannot be read, and for a name that no policy could hold.
pub(crate) fn stamped(run: &str, creator: &str) -> Option<Patch> {
    if creator.is_empty() || creator.len() > LONGEST_USER {
        return None;
    }
    let RunReview { metadata } = serde_json::from_str(run).ok()?;
    if metadata.is_of_a_run() {
        metadata.annotations?.creator?;
        let path = PointerBuf::from_tokens(["metadata", "annotations", CREATOR]);
        let remove = PatchOperation::Remove(RemoveOperation { path });
        return Some(Patch(vec![remove]));
    }
    let mut path = vec!["metadata", "annotations"];
    let value = if metadata.annotations.is_some() {
        path.push(CREATOR);
        json!(creator)
    } else {
        json!({CREATOR: creator})
    };
    let path = PointerBuf::from_tokens(path);
    let add = PatchOperation::Add(AddOperation { path, value });
    Some(Patch(vec![add]))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// The annotations of a run after the patch.
    fn annotations(metadata: &Value) -> Value {
        let mut run = json!({"kind": "PipelineRun", "metadata": metadata, "spec": {"x": 1}});
        let patch = stamped(&run.to_string(), "alice").unwrap();
        json_patch::patch(&mut run, &patch).unwrap();
        assert_eq!(run["spec"], json!({"x": 1}));
        run["metadata"]["annotations"].clone()
    }

    #[test]
    fn a_run_names_its_creator_whatever_it_said_before() {
        let alone = json!({CREATOR: "alice"});
        assert_eq!(annotations(&json!({"name": "run"})), alone);
        assert_eq!(annotations(&json!({"annotations": null})), alone);
        assert_eq!(annotations(&json!({"annotations": {}})), alone);
        let forged = json!({"annotations": {CREATOR: "bob", "note": "x"}});
        assert_eq!(annotations(&forged), json!({CREATOR: "alice", "note": "x"}));
    }

    /// Its creator is Tekton, and an owner can be taken away later.
    #[test]
    fn the_child_of_a_run_names_nobody() {
        let child = |annotations: Value| {
            let owner = json!({"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "name": "parent", "uid": "1"});
            json!({"metadata": {"annotations": annotations, "ownerReferences": [owner]}})
        };
        let mut copied = child(json!({CREATOR: "bob", "note": "x"}));
        let patch = stamped(&copied.to_string(), "tekton").unwrap();
        json_patch::patch(&mut copied, &patch).unwrap();
        assert_eq!(copied, child(json!({"note": "x"})));
        for annotations in [json!(null), json!({}), json!({"note": "x"})] {
            assert_eq!(stamped(&child(annotations).to_string(), "tekton"), None);
        }
        let mut of_a_trigger = child(json!({}));
        of_a_trigger["metadata"]["ownerReferences"][0]["kind"] = "EventListener".into();
        assert!(stamped(&of_a_trigger.to_string(), "alice").is_some());
    }

    #[test]
    fn a_name_that_no_policy_could_hold_is_not_written() {
        let run = r#"{"metadata": {}}"#;
        assert!(stamped(run, &"x".repeat(LONGEST_USER)).is_some());
        assert_eq!(stamped(run, &"x".repeat(LONGEST_USER + 1)), None);
        assert_eq!(stamped(run, ""), None);
    }

    #[test]
    fn what_is_no_object_with_metadata_stays_as_it_is() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"metadata": null}"#,
            r#"{"metadata": 7}"#,
        ] {
            assert_eq!(stamped(text, "alice"), None, "{text}");
        }
    }
}
