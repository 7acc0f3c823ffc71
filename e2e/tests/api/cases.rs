//! Cases as files: an object that a rule refuses, the message, and the nearest object that it accepts.

use std::collections::BTreeSet;
use std::fs;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::schemas::cel_messages;
use crate::support::{Scene, files, policies, scene};

/// One file under `e2e/cases`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    #[serde(skip)]
    pub(crate) file: String,
    /// The object that the patches change, a file in `e2e/cases/bases`.
    base: String,
    /// The refusing rule.
    rule: Rule,
    /// A part of the refusal; for a CEL rule and for a policy its message.
    pub(crate) message: String,
    /// Merge patch for an object that is there before; the others are then updates of it.
    #[serde(default)]
    existing: Option<Value>,
    /// Merge patch for the refused object.
    refused: Value,
    /// Merge patch for the accepted object.
    accepted: Value,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Rule {
    /// A rule of a CRD.
    Cel,
    /// The schema of a CRD without its rules.
    Schema,
    /// An admission policy.
    Vap,
}

/// Every case.
pub(crate) fn all() -> Vec<Case> {
    ["access-policy", "access-request"]
        .iter()
        .flat_map(|kind| files(&format!("e2e/cases/{kind}")))
        .map(|file| {
            let text = fs::read_to_string(&file).unwrap();
            let case = serde_yaml::from_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            Case {
                file: file.file_stem().unwrap().to_string_lossy().into_owned(),
                ..case
            }
        })
        .collect()
}

impl Case {
    pub(crate) fn is_cel(&self) -> bool {
        self.rule == Rule::Cel
    }

    pub(crate) fn is_vap(&self) -> bool {
        self.rule == Rule::Vap
    }

    /// The kind that the case is about.
    pub(crate) fn kind(&self) -> String {
        self.object(&json!({}))["kind"].as_str().unwrap().to_owned()
    }

    /// The refused object.
    pub(crate) fn refused(&self) -> Value {
        self.object(&self.refused)
    }

    /// The accepted object.
    pub(crate) fn accepted(&self) -> Value {
        self.object(&self.accepted)
    }

    /// The object before, if the case is about an update.
    pub(crate) fn existing(&self) -> Option<Value> {
        self.existing.as_ref().map(|patch| self.object(patch))
    }

    fn object(&self, patch: &Value) -> Value {
        let base = e2e::repository().join(format!("e2e/cases/bases/{}.yaml", self.base));
        let mut object: Value = serde_yaml::from_str(&fs::read_to_string(base).unwrap()).unwrap();
        json_patch::merge(&mut object, patch);
        object
    }
}

/// Creates `object`, or changes `existing` into it.
pub(crate) async fn attempt(
    scene: &Scene,
    existing: Option<&Value>,
    object: &Value,
) -> Result<Value, crate::support::Refusal> {
    let Some(existing) = existing else {
        return scene.create(object).await;
    };
    let created = scene.create(existing).await.unwrap();
    let mut changed = object.clone();
    let fields = changed
        .as_object_mut()
        .unwrap()
        .entry("metadata")
        .or_insert(json!({}));
    fields["name"] = created["metadata"]["name"].clone();
    fields["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    scene.update(&changed).await
}

#[tokio::test]
async fn every_case_is_refused_and_its_neighbour_is_not() {
    let scene = scene("cases").await;
    let mut wrong = Vec::new();
    for case in all() {
        let existing = case.existing();
        match attempt(&scene, existing.as_ref(), &case.refused()).await {
            Ok(_) => wrong.push(format!("{}: was not refused", case.file)),
            Err(refusal) if !refusal.message.contains(&case.message) || refusal.code != 422 => {
                wrong.push(format!(
                    "{}: {} {}",
                    case.file, refusal.code, refusal.message
                ));
            }
            Err(_) => {}
        }
        if let Err(refusal) = attempt(&scene, existing.as_ref(), &case.accepted()).await {
            wrong.push(format!(
                "{}: the neighbour was refused: {}",
                case.file, refusal.message
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_has_a_case() {
    let cased = |with: fn(&Case) -> bool| -> BTreeSet<String> {
        all()
            .into_iter()
            .filter(with)
            .map(|case| case.message)
            .collect()
    };
    assert_eq!(cased(Case::is_cel), cel_messages());

    let messages = policies()
        .into_iter()
        .flat_map(|policy| {
            policy["spec"]["validations"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        })
        .map(|validation| validation["message"].as_str().unwrap().to_owned());
    assert_eq!(cased(Case::is_vap), messages.collect());
}
