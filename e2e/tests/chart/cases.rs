//! Cases as files: an attempt that a policy refuses, its user, the message, and the accepted attempts.

use std::fs;

use serde::Deserialize;
use serde_json::{Value, json};

/// One file under `e2e/cases/admission`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    #[serde(skip)]
    pub(crate) file: String,
    /// The object that the patches change, a file in `e2e/cases/bases`.
    base: String,
    /// The message of the rule that refuses; it is the rule's identity.
    pub(crate) message: String,
    /// Merge patch for an object that is there before.
    #[serde(default)]
    pub(crate) existing: Option<Value>,
    /// The refused attempt.
    pub(crate) refused: Attempt,
    /// The accepted attempts.
    pub(crate) accepted: Vec<Attempt>,
}

/// An attempt of a user.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Attempt {
    /// The user.
    #[serde(rename = "as")]
    pub(crate) who: Who,
    /// The verb.
    #[serde(rename = "do")]
    pub(crate) verb: Verb,
    /// Merge patch for the base, or for the object that is there.
    #[serde(default = "nothing")]
    pub(crate) patch: Value,
    /// How something is deleted.
    #[serde(default = "nothing")]
    pub(crate) options: Value,
}

/// RBAC allows all of these users everything: only a policy can refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Who {
    /// The request-controller.
    Controller,
    PolicyController,
    /// A person.
    Admin,
    /// Removes objects without an owner.
    GarbageCollector,
    /// Empties namespaces.
    NamespaceController,
    /// The node plugin of node-1, as its token says.
    NodePlugin,
    /// Tekton's controller.
    Tekton,
    /// The controller of its approval gate.
    Gate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verb {
    Create,
    Update,
    Status,
    ApplyStatus,
    EphemeralContainers,
    Delete,
    DeleteCollection,
}

impl Who {
    pub(crate) const ALL: [Self; 8] = [
        Self::Controller,
        Self::PolicyController,
        Self::Admin,
        Self::GarbageCollector,
        Self::NamespaceController,
        Self::NodePlugin,
        Self::Tekton,
        Self::Gate,
    ];

    /// The user's name.
    pub(crate) fn user(self) -> &'static str {
        match self {
            Self::Controller => "system:serviceaccount:connectors-system:request-controller",
            Self::PolicyController => "system:serviceaccount:connectors-system:policy-controller",
            Self::Admin => "alice",
            Self::GarbageCollector => "system:serviceaccount:kube-system:generic-garbage-collector",
            Self::NamespaceController => "system:serviceaccount:kube-system:namespace-controller",
            Self::NodePlugin => "system:serviceaccount:connectors-system:csi-node",
            Self::Tekton => "system:serviceaccount:tekton-pipelines:tekton-pipelines-controller",
            Self::Gate => "system:serviceaccount:tekton-pipelines:manual-approval-gate-controller",
        }
    }

    /// The node that the user's token is bound to.
    pub(crate) const fn node(self) -> Option<&'static str> {
        match self {
            Self::NodePlugin => Some("node-1"),
            Self::Controller
            | Self::PolicyController
            | Self::Admin
            | Self::GarbageCollector
            | Self::NamespaceController
            | Self::Tekton
            | Self::Gate => None,
        }
    }
}

/// Every case.
pub(crate) fn all() -> Vec<Case> {
    let folder = e2e::repository().join("e2e/cases/admission");
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut cases: Vec<Case> = entries
        .map(|file| {
            let text = fs::read_to_string(&file).unwrap();
            let case = serde_yaml::from_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            Case { file: name, ..case }
        })
        .collect();
    cases.sort_by(|one, other| one.file.cmp(&other.file));
    cases
}

impl Case {
    /// The base with a patch.
    pub(crate) fn object(&self, patch: &Value) -> Value {
        let base = e2e::repository().join(format!("e2e/cases/bases/{}.yaml", self.base));
        let mut object: Value = serde_yaml::from_str(&fs::read_to_string(base).unwrap()).unwrap();
        json_patch::merge(&mut object, patch);
        object
    }
}

/// Writes out `TEXT_OF_<number>`, which stands for a text of so many characters, and `{times: <number>, of: <item>}` in a
/// list, which stands for so many items, each with its number in place of `NUMBER`.
pub(crate) fn write_out(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(length) = text.strip_prefix("TEXT_OF_") {
                *text = "x".repeat(length.parse().unwrap());
            }
        }
        Value::Array(items) => {
            *items = items.drain(..).flat_map(repeated).collect();
            items.iter_mut().for_each(write_out);
        }
        Value::Object(fields) => fields.values_mut().for_each(write_out),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn repeated(item: Value) -> Vec<Value> {
    let Some(times) = item["times"].as_u64() else {
        return vec![item];
    };
    let text = item["of"].to_string();
    let numbered = (1..=times).map(|number| text.replace("NUMBER", &number.to_string()));
    let parsed = numbered.map(|text| serde_json::from_str(&text).unwrap());
    parsed.collect()
}

fn nothing() -> Value {
    json!({})
}
