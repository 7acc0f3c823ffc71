//! A `PolicyTest`, as it is written.

use std::collections::BTreeMap;

use connectors_api::Permission;
use connectors_api::config::{
    DEFAULT_REQUESTERS, DefaultRequesters, ENABLE, Knowledge, NAMESPACE_SELECTOR_KEYS,
    SHARED_CHECK_FIELDS,
};
use connectors_api::policy_words::PolicyWord;
use connectors_api::reason::AccessCheckReady;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::terms::API_VERSION;

/// The kind of a test.
pub const KIND: &str = "PolicyTest";

/// A test: questions about the objects of its directory, and their answers.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrittenTest {
    #[serde(rename = "apiVersion")]
    _api_version: Value,
    #[serde(rename = "kind")]
    _kind: Value,
    /// Its name.
    #[serde(default)]
    pub metadata: TestMetadata,
    /// The settings of the installation.
    #[serde(default)]
    pub settings: WrittenSettings,
    /// The questions.
    pub cases: Vec<WrittenCase>,
}

/// The name of a test.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestMetadata {
    /// The name; without it that of the file.
    #[serde(default)]
    pub name: Option<String>,
}

/// The settings of the installation, as the chart has them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrittenSettings {
    /// `approval.defaultRequesters`.
    #[serde(default)]
    pub default_requesters: Option<DefaultRequesters>,
    /// `policies.namespaceSelectorKeys`.
    #[serde(default)]
    pub namespace_selector_keys: Option<Vec<String>>,
    /// `checks.sharedFields`.
    #[serde(default)]
    pub shared_fields: Option<Vec<Value>>,
    /// The time since which `tekton.creators.enabled` is set.
    #[serde(default)]
    pub creators_since: Option<Timestamp>,
}

/// One question.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WrittenCase {
    /// A description of the case.
    pub name: String,
    /// The pod: `namespace/name` of a pod of the directory, or a whole pod.
    pub pod: Value,
    /// The connector, as `namespace/name`, or `name` for one of the pod's namespace.
    pub connector: String,
    /// The permission.
    #[serde(default)]
    pub permission: Permission,
    /// Objects of this case alone. They replace those of the directory with the same kind, namespace and name.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// Kinds, namespaces and names of objects that are missing in this case, as `Kind namespace/name`.
    #[serde(default)]
    pub without: Vec<String>,
    /// The answer.
    pub expect: Expectation,
}

/// The expected answer. Fields that are not written are not compared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expectation {
    /// The result for the access.
    #[serde(default)]
    pub access: Option<AccessExpected>,
    /// The result of each policy, by its name.
    #[serde(default)]
    pub policies: BTreeMap<String, PolicyExpected>,
}

/// The result for the access of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum AccessExpected {
    /// A standing permission of a policy covers the account.
    Standing,
    /// Every check of a policy passes.
    Granted,
    /// A policy applies, and its checks are not decided.
    Waits,
    /// A check of each policy that applies says no.
    Refused,
    /// No policy applies.
    NoPolicy,
}

impl AccessExpected {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Standing => "Standing",
            Self::Granted => "Granted",
            Self::Waits => "Waits",
            Self::Refused => "Refused",
            Self::NoPolicy => "NoPolicy",
        }
    }
}

/// The result of a policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicyExpected {
    /// Whether its checks apply.
    #[serde(default)]
    pub applies: Option<PolicyWord>,
    /// Whether the account holds its standing permission.
    #[serde(default)]
    pub standing: Option<PolicyWord>,
    /// The combined result of its checks.
    #[serde(default)]
    pub verdict: Option<AccessCheckReady>,
    /// The result of each check, by its name.
    #[serde(default)]
    pub checks: BTreeMap<String, CheckExpected>,
    /// The rules of the Role that the pod gets; all of them.
    #[serde(default)]
    pub rules: Option<Vec<RuleExpected>>,
}

/// The result of a check.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckExpected {
    /// Its verdict.
    #[serde(default)]
    pub verdict: Option<AccessCheckReady>,
    /// The reason, as one word.
    #[serde(default)]
    pub reason: Option<String>,
    /// A part of the message.
    #[serde(default)]
    pub message: Option<String>,
    /// The names of the objects that it finds; all of them.
    #[serde(default)]
    pub objects: Option<Vec<String>>,
    /// The users whose approval counts; all of them.
    #[serde(default)]
    pub approved_by: Option<Vec<String>>,
}

/// A rule of a Role.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleExpected {
    /// The resources that may be accessed.
    pub resources: Vec<String>,
    /// The verbs that are allowed.
    pub verbs: Vec<String>,
}

/// True for a document that is a test.
#[must_use]
pub fn is_test(document: &Value) -> bool {
    document.get("kind").and_then(Value::as_str) == Some(KIND)
}

/// Parses a test. The error names the field.
pub fn parse(document: &Value) -> Result<WrittenTest, (String, String)> {
    if document.get("apiVersion").and_then(Value::as_str) != Some(API_VERSION) {
        let message = format!("must be {API_VERSION}");
        return Err(("apiVersion".to_owned(), message));
    }
    serde_path_to_error::deserialize(document).map_err(|error| {
        let path = error.path().to_string();
        (path, error.into_inner().to_string())
    })
}

impl WrittenSettings {
    /// The settings as the services learn them; an error names what is wrong.
    pub fn knowledge(&self) -> Result<Knowledge, String> {
        let mut data = BTreeMap::from([(ENABLE.to_owned(), "true".to_owned())]);
        if let Some(default) = self.default_requesters {
            data.insert(DEFAULT_REQUESTERS.to_owned(), default.to_string());
        }
        if let Some(keys) = &self.namespace_selector_keys {
            data.insert(NAMESPACE_SELECTOR_KEYS.to_owned(), json!(keys).to_string());
        }
        if let Some(fields) = &self.shared_fields {
            data.insert(SHARED_CHECK_FIELDS.to_owned(), json!(fields).to_string());
        }
        let mut knowledge = Knowledge::default();
        match knowledge.learn(&data).first() {
            None => Ok(knowledge),
            Some(problem) => Err(problem.to_string()),
        }
    }
}
