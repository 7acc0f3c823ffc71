//! The inputs of an explanation: facts that were read, and the judgement of the shared judge on them.

use std::collections::BTreeMap;

use connectors_api::access_policy::{CheckGrantedPermission, ObjectKind};
use connectors_api::config::Knowledge;
use connectors_api::judge::{JudgeError, Judgement};
use connectors_api::pod_wish::ConnectorKey;
use connectors_api::wanted_objects::{CheckTrouble, WantedObjects};
use connectors_api::{AccessPolicy, AccessRequest, Permission, names};
use jiff::Timestamp;
use serde_json::Value;
use service_kit::watches::Unreadable;

use super::force::GrantRead;
use super::report::{GatingWord, PodWord};
use crate::reads::Found;
use crate::terms::NamespacedName;
use crate::unread::{MissedRead, Presence};

/// Labels by key.
pub(super) type Labels = BTreeMap<String, String>;

/// Everything that was read for one explanation.
#[derive(Debug)]
pub(super) struct Observed {
    /// The pod. None for a question about a connector and an account.
    pub(super) pod: Option<PodRead>,
    /// The account that asks.
    pub(super) account: NamespacedName,
    /// The namespace of the installation.
    pub(super) system_namespace: String,
    /// The settings of the installation; none if they could not be read.
    pub(super) settings: Option<Knowledge>,
    /// The labels of the account; none if they are not known or not needed.
    pub(super) account_labels: Option<Labels>,
    /// The labels of the account's namespace; none if they are not known or not needed.
    pub(super) namespace_labels: Option<Labels>,
    /// The faults of the pod's volumes.
    pub(super) problems: Vec<String>,
    /// The connectors that are asked about.
    pub(super) accesses: Vec<AccessRead>,
    /// The kinds of check objects.
    pub(super) kinds: BTreeMap<ObjectKind, KindRead>,
    /// The failed reads.
    pub(super) unread: Vec<MissedRead>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodRead {
    /// Namespace and name.
    pub(super) name: NamespacedName,
    /// The UID that is asked about, if it is known.
    pub(super) uid: Option<String>,
    /// The whole pod; none if it is gone, or another pod has its name.
    pub(super) object: Option<Value>,
    /// Whether it could be read.
    pub(super) is_known: bool,
}

/// A connector that is asked about.
#[derive(Debug)]
pub(super) struct AccessRead {
    /// The connector.
    pub(super) connector: ConnectorKey,
    /// The permission.
    pub(super) permission: Permission,
    /// A volume with it asks for an error file in place of a mount that fails.
    pub(super) has_error_file: bool,
    /// The labels of the connector. It is absent while it is being deleted.
    pub(super) labels: Presence<Labels>,
    /// It is another one than when the request was made.
    pub(super) is_replaced: bool,
    /// Whether the account holds a standing permission, with the API server's reason; none if it could not be asked.
    pub(super) standing: Option<(bool, String)>,
    /// The request that decides.
    pub(super) request: Presence<Box<AccessRequest>>,
    /// The objects behind its grant; none unless it says that access was granted.
    pub(super) grant: Option<GrantRead>,
    /// The policies of the connector's namespace; none if they could not be read.
    pub(super) policies: Option<Vec<PolicyRead>>,
}

/// A policy.
#[derive(Debug)]
pub(super) struct PolicyRead {
    /// The name.
    pub(super) name: String,
    /// The UID.
    pub(super) uid: String,
    /// When it was created.
    pub(super) created: Option<Timestamp>,
    /// It is being deleted.
    pub(super) is_going: bool,
    /// The policy, or why it cannot be understood.
    pub(super) policy: Result<Box<AccessPolicy>, String>,
    /// The results of its checks now. None if they were not examined.
    pub(super) judged: Option<PolicyJudged>,
}

impl PolicyRead {
    /// The part about permissions under checks.
    pub(super) fn granted_part(&self) -> Option<&CheckGrantedPermission> {
        let policy = self.policy.as_ref().ok()?;
        policy.spec.check_granted_permission.as_ref()
    }

    /// From an object of a list.
    #[must_use]
    pub(super) fn of(found: Found<AccessPolicy>) -> Self {
        match found {
            Ok(policy) => {
                let metadata = &policy.metadata;
                Self {
                    name: metadata.name.clone().unwrap_or_default(),
                    uid: metadata.uid.clone().unwrap_or_default(),
                    created: metadata.creation_timestamp.as_ref().map(|it| it.0),
                    is_going: metadata.deletion_timestamp.is_some(),
                    policy: Ok(Box::new(policy)),
                    judged: None,
                }
            }
            Err(unreadable) => {
                let Unreadable { metadata, problem } = *unreadable;
                Self {
                    name: metadata.name.unwrap_or_default(),
                    uid: metadata.uid.unwrap_or_default(),
                    created: None,
                    is_going: metadata.deletion_timestamp.is_some(),
                    policy: Err(problem),
                    judged: None,
                }
            }
        }
    }
}

/// The results of the checks of a policy for a pod.
#[derive(Debug)]
pub(super) struct PolicyJudged {
    /// The objects of each check, in the policy's order.
    pub(super) checks: Vec<CheckRead>,
    /// The judgement.
    pub(super) judgement: Result<Judgement, JudgeError>,
    /// The objects between the pod and the approvals.
    pub(super) lineage: Vec<Value>,
    /// The time since which an admission rule protects the creators of runs.
    pub(super) creators_since: Option<Timestamp>,
    /// It is not known whether an admission rule keeps the creators of pipeline runs true.
    pub(super) lacks_creators: bool,
    /// Why the modules of the checks could not be run on this machine.
    pub(super) not_run: Option<String>,
}

/// The objects of one check.
#[derive(Debug)]
pub(super) struct CheckRead {
    /// The objects that it selects.
    pub(super) wanted: WantedObjects,
    /// A Rego module decides.
    pub(super) has_module: bool,
    /// The objects; an error if there can be none.
    pub(super) found: Result<Vec<CandidateRead>, CheckProblem>,
    /// Why some of them could not be read.
    pub(super) problem: Option<String>,
    /// An object that is being deleted, and does not count for that.
    pub(super) going: Option<String>,
}

/// Why the objects of a check are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CheckProblem {
    /// Nothing can be selected, in the words of the services.
    Trouble(CheckTrouble, String),
    /// The user may not read them, or they could not be read.
    Unread(MissedRead),
}

/// An object that a check found.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CandidateRead {
    /// The object.
    pub(super) object: Value,
    /// The objects between it and the pod, in the order in which they were looked for.
    pub(super) links: Vec<LinkRead>,
    /// The accounts, users and groups that may write its state; none if that is not known or not needed.
    pub(super) writers: Option<Vec<String>>,
}

/// An object of a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LinkRead {
    /// The kind.
    pub(super) kind: String,
    /// The name.
    pub(super) name: String,
    /// Whether it is there; none if it could not be read.
    pub(super) is_there: Option<bool>,
}

/// A kind of check objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KindRead {
    /// Plural, dot, group.
    pub(super) resource: String,
    /// Its status is written separately.
    pub(super) has_status: bool,
}

impl Observed {
    /// Whether mounts wait.
    #[must_use]
    pub(super) fn gating(&self) -> GatingWord {
        let config = self.settings.as_ref().and_then(Knowledge::config);
        match config {
            Some(config) if config.enabled => GatingWord::On,
            Some(_) => GatingWord::Off,
            None => GatingWord::Unknown,
        }
    }
}

impl PodRead {
    /// The state of the pod.
    #[must_use]
    pub(super) fn word(&self) -> PodWord {
        let Some(object) = &self.object else {
            return if self.is_known {
                PodWord::Gone
            } else {
                PodWord::Unknown
            };
        };
        match text(object, "/status/phase") {
            Some("Succeeded" | "Failed") => PodWord::Finished,
            _ if text(object, "/metadata/deletionTimestamp").is_some() => PodWord::Terminating,
            Some("Running") => PodWord::Running,
            Some(_) | None => PodWord::Pending,
        }
    }

    /// True when the pod waits with the scheduling gate of this product.
    #[must_use]
    pub(super) fn is_gated(&self) -> bool {
        let object = self.object.as_ref();
        let gates = object.and_then(|it| it.pointer("/spec/schedulingGates")?.as_array());
        let mut gates = gates.into_iter().flatten();
        gates.any(|it| text(it, "/name") == Some(names::SCHEDULING_GATE))
    }
}

/// A text of an object.
#[must_use]
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}
