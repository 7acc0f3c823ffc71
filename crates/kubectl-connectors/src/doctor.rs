//! `doctor`: the faults of the installation and of its grants, and the command that mends each.

mod clocks;
mod commands;
mod installation;
mod narrow;
mod network;
mod objects;
pub mod plan;
mod policies;
mod read;
mod rights;
mod rules;
mod webhooks;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::exit::ExitWord;
use crate::explained_words::explained_words;
use crate::output::{Colours, Tone};
use crate::reads::ClusterReads;
use crate::terms::NamespacedName;
use crate::unread::MissedRead;

pub use read::{ClocksRead, DoctorRead};
pub use rules::{OPTIONAL_RULES, RULES};

/// The findings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// The worst first.
    pub findings: Vec<DoctorFinding>,
}

/// Something to mend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoctorFinding {
    /// How bad it is.
    pub severity: DoctorSeverity,
    /// The finding, as one word.
    pub word: DoctorWord,
    /// The object: kind, namespace and name.
    pub object: String,
    /// The fault of the object.
    pub message: String,
    /// The remedy.
    pub fix: String,
    /// The command that mends it, where one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The fields that mend it when they are applied, where such do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<FixObject>,
}

/// The fields of an object that mend a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FixObject {
    /// Group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// Name and labels.
    pub metadata: FixMetadata,
    /// The fields beside the metadata.
    #[serde(flatten)]
    pub fields: BTreeMap<String, Value>,
}

/// The metadata of an object that mends a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FixMetadata {
    /// Namespace and name. The namespace is empty for an object of the cluster.
    #[serde(flatten)]
    pub name: NamespacedName,
    /// The labels.
    pub labels: BTreeMap<String, String>,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum DoctorSeverity {
    /// Access is wrong, or cannot be given or taken back.
    Error,
    /// It works, and is not safe or not what was meant.
    Warning,
    /// Good to know.
    Hint,
}

explained_words! {
    /// The possible findings.
    DoctorWord {
        /// The namespace holds no installation.
        NotInstalled,
        /// ConfigMap `connectors-config` is missing.
        SettingsMissing,
        /// A setting of ConfigMap `connectors-config` is invalid, and changes nothing.
        SettingInvalid,
        /// The switch is off: every mount is let through, and nothing is granted.
        ApprovalsOff,
        /// A policy without requesters lets pods of every namespace ask.
        RequestersOpen,
        /// A workload of the installation is missing.
        ServiceMissing,
        /// Pods of a workload are not ready.
        ServiceNotReady,
        /// The workloads are of more than one version, or the plugin is of another one.
        VersionsApart,
        /// No replica of a controller leads.
        LeaderGone,
        /// The clocks of this machine, of the API server and of the controllers differ.
        ClocksApart,
        /// An admission policy of the chart is missing, or refuses nothing.
        RuleNotInForce,
        /// Policies wait for ApprovalTasks, and no admission policy protects pipelines.
        PipelinesUnguarded,
        /// The webhook is not registered.
        WebhookMissing,
        /// The API server cannot verify the webhook, so that policies and requests cannot be written.
        WebhookUntrusted,
        /// The certificate authority of the webhook is old: the webhook does not replace it, or it is over.
        CertificateOld,
        /// A NetworkPolicy of the installation is missing, or nothing is known to enforce it.
        NetworkOpen,
        /// The CSIDriver object is missing, or lets pods name other pods.
        DriverWrong,
        /// A policy cannot be read, and grants nothing.
        PolicyUnreadable,
        /// No controller has looked at a policy in its current form.
        PolicyNotLookedAt,
        /// A policy is not in force as it is written.
        PolicyNotInForce,
        /// A policy is in force and not safe: an account of the requesters' side could write or delete an approval.
        PolicyQuestionable,
        /// A request cannot be read, and is ignored.
        RequestUnreadable,
        /// The request-controller has not looked at a request.
        RequestNotLookedAt,
        /// The grant of a revoked request is still there.
        GrantNotRemoved,
        /// A grant is recorded, and its RoleBinding is not there.
        GrantNotInForce,
        /// A grant is over its time, and still in force.
        GrantOverdue,
        /// A RoleBinding of a grant or of a standing permission belongs to nothing.
        GrantOrphaned,
        /// A connector does not have the labels of its class.
        ConnectorUnlabelled,
        /// A subject may use every connector, of the cluster or of a namespace, without an approval.
        RightsTooWide,
    }
}

impl DoctorSeverity {
    /// The word as it is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Hint => "hint",
        }
    }

    const fn tone(self) -> Tone {
        match self {
            Self::Error => Tone::Bad,
            Self::Warning => Tone::Open,
            Self::Hint => Tone::Dim,
        }
    }
}

impl FixObject {
    fn new(api_version: &str, kind: &str, name: NamespacedName) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            metadata: FixMetadata {
                name,
                labels: BTreeMap::new(),
            },
            fields: BTreeMap::new(),
        }
    }

    /// An object without a namespace.
    fn of_cluster(api_version: &str, kind: &str, name: impl Into<String>) -> Self {
        Self::new(api_version, kind, NamespacedName::new("", name))
    }

    fn with_labels(mut self, labels: impl IntoIterator<Item = (String, String)>) -> Self {
        self.metadata.labels.extend(labels);
        self
    }

    fn with_field(mut self, name: &str, value: Value) -> Self {
        self.fields.insert(name.to_owned(), value);
        self
    }
}

impl DoctorFinding {
    fn new(
        severity: DoctorSeverity,
        word: DoctorWord,
        object: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            severity,
            word,
            object: object.into(),
            message: message.into(),
            fix: fix.into(),
            command: None,
            manifest: None,
        }
    }

    /// The place among other findings: all but the object, which has no order.
    fn order(&self) -> impl Ord {
        (
            self.severity,
            self.word,
            &self.object,
            &self.message,
            &self.fix,
            &self.command,
        )
    }

    fn with_command(self, command: String) -> Self {
        Self {
            command: Some(command),
            ..self
        }
    }

    fn with_object(self, manifest: FixObject) -> Self {
        Self {
            manifest: Some(manifest),
            ..self
        }
    }
}

/// Examines the installation, and the connectors of a namespace, or of all if it is empty.
pub async fn doctor(
    reads: &ClusterReads,
    namespace: &str,
    system_namespace: &str,
    now: Timestamp,
) -> (Diagnosis, Vec<MissedRead>) {
    let (read, unread) = Box::pin(read::read(reads, namespace, system_namespace, now)).await;
    (examine(&read, now), unread)
}

/// The faults of what was read. Unread objects are not judged.
#[must_use]
pub fn examine(read: &DoctorRead, now: Timestamp) -> Diagnosis {
    // Leases and grants have times of the cluster. A clock of this machine that is wrong would accuse the controllers.
    let now = clocks::of_cluster(read, now);
    let mut findings = installation::examine(read, now.cluster);
    findings.extend(clocks::examine(&now));
    findings.extend(network::examine(read));
    findings.extend(rules::examine(read));
    findings.extend(objects::examine(read, now.cluster));
    findings.extend(rights::examine(read));
    findings.sort_by(|one, other| one.order().cmp(&other.order()));
    findings.dedup();
    Diagnosis { findings }
}

/// No if there is something to mend.
#[must_use]
pub fn exit(diagnosis: &Diagnosis, is_whole: bool) -> ExitWord {
    exit_of(diagnosis.findings.iter(), is_whole)
}

fn exit_of<'a>(mut findings: impl Iterator<Item = &'a DoctorFinding>, is_whole: bool) -> ExitWord {
    if findings.any(|it| it.severity < DoctorSeverity::Hint) {
        ExitWord::No
    } else if is_whole {
        ExitWord::Yes
    } else {
        ExitWord::Unknown
    }
}

/// The findings for people.
#[must_use]
pub fn text(diagnosis: &Diagnosis, is_whole: bool, colours: Colours) -> String {
    let mut text = String::new();
    for finding in &diagnosis.findings {
        let DoctorFinding {
            severity,
            word,
            object,
            message,
            fix,
            command,
            manifest: _,
        } = finding;
        let head = colours.paint(severity.tone(), severity.as_str());
        let object = colours.paint(Tone::Plain, object);
        let message = colours.paint(Tone::Plain, message);
        let fix = colours.paint(Tone::Plain, fix);
        let _ = writeln!(
            text,
            "{head}: {object}  {}\n  {message}\n  {fix}",
            word.as_str()
        );
        if let Some(command) = command {
            let _ = writeln!(text, "  $ {}", colours.paint(Tone::Command, command));
        }
    }
    let number = |of: DoctorSeverity| {
        let all = diagnosis.findings.iter();
        all.filter(|it| it.severity == of).count()
    };
    let summary = match (diagnosis.findings.is_empty(), is_whole) {
        (true, true) => "nothing to mend".to_owned(),
        (true, false) => "nothing to mend in what you may read".to_owned(),
        (false, _) => format!(
            "{} errors, {} warnings, {} hints",
            number(DoctorSeverity::Error),
            number(DoctorSeverity::Warning),
            number(DoctorSeverity::Hint)
        ),
    };
    text + &summary + "\n"
}
