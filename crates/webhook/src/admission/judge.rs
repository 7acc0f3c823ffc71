//! Whether an access request may be created: pure, from what it says and what was found.

use connectors_api::{AccessRequestSpec, access_request::MOST_OF_A_POD, names};
use k8s_openapi::api::authentication::v1::UserInfo;
use thiserror::Error;

use crate::review::{AdmissionRefusal, RefusalStatus};

/// The extra field that the API server adds to a user with a token that is bound to a pod: the pod's node.
pub(crate) const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// The creator of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestCreator {
    /// The node plugin, on this node, if its token says so.
    NodePlugin(Option<String>),
    /// Anybody else.
    Other,
}

impl RequestCreator {
    /// Tells them apart by the account of the node plugin.
    pub(crate) fn of(user: &UserInfo, node_plugin: &str) -> Self {
        if user.username.as_deref() != Some(node_plugin) {
            return Self::Other;
        }
        let nodes = user.extra.as_ref().and_then(|extra| extra.get(NODE_NAME));
        // More than one name is no name.
        match nodes.map(Vec::as_slice) {
            Some([node]) if !node.is_empty() => Self::NodePlugin(Some(node.clone())),
            Some(_) | None => Self::NodePlugin(None),
        }
    }
}

/// The facts about a pod that a decision needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReviewedPod {
    pub(crate) uid: String,
    pub(crate) account: String,
    pub(crate) node: Option<String>,
    pub(crate) finished: bool,
    pub(crate) deleting: bool,
}

/// The pod that a request names, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nothing: the creator may not look at it, so it was not looked at for him.
    Hidden,
    /// It is not known.
    NoAnswer,
    /// There is none of that name.
    Missing,
    Found(ReviewedPod),
}

/// A defect of a request.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum RequestProblem {
    /// It cannot be read as a request.
    #[error("{0}")]
    Unreadable(String),
    /// No object can be called so.
    #[error("{0}: not the name of an object")]
    Name(&'static str),
    /// A request is about a connector of its own namespace.
    #[error(
        "spec.connectorRef.namespace: must be {own:?}, the request's own namespace, or left out"
    )]
    ConnectorNamespace {
        /// The request's namespace.
        own: String,
    },
    /// A pod runs as an account of its own namespace.
    #[error("spec.subject.namespace: must be {pod:?}, the pod's namespace, or left out")]
    SubjectNamespace {
        /// The pod's namespace.
        pod: String,
    },
    /// The only answer to a user who may not get the pod, whether it exists or not.
    #[error("spec.context.objectRef: there is no such pod, or you may not get it")]
    Hidden,
    /// The user may get the pod, and it does not exist.
    #[error("spec.context.objectRef: there is no pod {0}")]
    Missing(String),
    /// Nothing was filled in, as it is for every request that passes the first webhook.
    #[error("spec.context.objectRef.uid: required")]
    NoUid,
    /// The pod was replaced.
    #[error("spec.context.objectRef.uid: the pod {0} has another UID")]
    OtherUid(String),
    /// The pod runs as another account.
    #[error("spec.subject.name: the pod {pod} runs as {account:?}")]
    OtherAccount {
        /// The pod.
        pod: String,
        /// Its account.
        account: String,
    },
    /// The pod needs nothing any more.
    #[error("spec.context.objectRef: the pod {0} has finished")]
    Finished(String),
    /// The pod is about to end.
    #[error("spec.context.objectRef: the pod {0} is being deleted")]
    Deleting(String),
    /// The node plugin's token is bound to no pod, so that its node is not known.
    #[error("the node plugin does not prove which node it is on")]
    NoNode,
    /// A node plugin speaks for the pods of its node only.
    #[error("the pod {0} is not on the node of this node plugin")]
    OtherNode(String),
    /// The API server did not answer, or not in time.
    #[error("spec.context.objectRef: the pod cannot be looked up now; try again")]
    Unanswered,
    /// A pod has a share of the requests of a namespace.
    #[error(
        "spec.context.objectRef: the pod {0} has {MOST_OF_A_POD} requests in this namespace, as many as a pod may have; delete those that it does not need"
    )]
    TooMany(String),
    /// The requests of the pod could not be counted.
    #[error("spec.context.objectRef: the requests of the pod cannot be counted now; try again")]
    Uncounted,
}

impl RequestProblem {
    /// The table of what each problem is on the wire.
    const fn status(&self) -> RefusalStatus {
        match self {
            Self::Unreadable(_)
            | Self::Name(_)
            | Self::ConnectorNamespace { .. }
            | Self::SubjectNamespace { .. } => RefusalStatus::Invalid,
            Self::Hidden
            | Self::Missing(_)
            | Self::NoUid
            | Self::OtherUid(_)
            | Self::OtherAccount { .. }
            | Self::Finished(_)
            | Self::Deleting(_)
            | Self::NoNode
            | Self::OtherNode(_)
            | Self::TooMany(_) => RefusalStatus::Forbidden,
            Self::Unanswered | Self::Uncounted => RefusalStatus::Unavailable,
        }
    }
}

/// All problems in one refusal, or nothing if there is none.
pub(crate) fn refusal(problems: &[RequestProblem]) -> Option<AdmissionRefusal> {
    // What will not change outweighs what may: a creator who tries again should be able to succeed.
    let status = problems.iter().map(RequestProblem::status).max()?;
    let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
    Some(AdmissionRefusal {
        status,
        message: lines.join("; "),
    })
}

/// The defects that depend on the request alone.
pub(crate) fn of_itself(spec: &AccessRequestSpec, namespace: &str) -> Vec<RequestProblem> {
    let mut problems = Vec::new();
    let pod = &spec.context.object_ref;
    if !names::is_dns_label(&pod.namespace) {
        problems.push(RequestProblem::Name("spec.context.objectRef.namespace"));
    }
    if !names::is_dns_subdomain(&pod.name) {
        problems.push(RequestProblem::Name("spec.context.objectRef.name"));
    }
    if !names::is_dns_subdomain(&spec.subject.name) {
        problems.push(RequestProblem::Name("spec.subject.name"));
    }
    if !names::is_dns_subdomain(&spec.connector_ref.name) {
        problems.push(RequestProblem::Name("spec.connectorRef.name"));
    }
    let connector_namespace = spec.connector_ref.namespace.as_deref();
    if connector_namespace.is_some_and(|given| given != namespace) {
        problems.push(RequestProblem::ConnectorNamespace {
            own: namespace.to_owned(),
        });
    }
    if spec.subject_namespace() != pod.namespace {
        problems.push(RequestProblem::SubjectNamespace {
            pod: pod.namespace.clone(),
        });
    }
    problems
}

/// The defects that depend on the pod.
pub(crate) fn of_the_pod(
    spec: &AccessRequestSpec,
    creator: &RequestCreator,
    seen: &Seen,
) -> Vec<RequestProblem> {
    let asked = &spec.context.object_ref;
    let name = || format!("{}/{}", asked.namespace, asked.name);
    let mut problems = Vec::new();
    if *creator == RequestCreator::NodePlugin(None) {
        problems.push(RequestProblem::NoNode);
    }
    let pod = match seen {
        Seen::Hidden => {
            problems.push(RequestProblem::Hidden);
            return problems;
        }
        Seen::NoAnswer => {
            problems.push(RequestProblem::Unanswered);
            return problems;
        }
        Seen::Missing => {
            problems.push(RequestProblem::Missing(name()));
            return problems;
        }
        Seen::Found(pod) => pod,
    };
    match asked.uid.as_deref() {
        None | Some("") => problems.push(RequestProblem::NoUid),
        Some(uid) if uid != pod.uid => problems.push(RequestProblem::OtherUid(name())),
        Some(_) => {}
    }
    if spec.subject.name != pod.account {
        problems.push(RequestProblem::OtherAccount {
            pod: name(),
            account: pod.account.clone(),
        });
    }
    if pod.finished {
        problems.push(RequestProblem::Finished(name()));
    }
    if pod.deleting {
        problems.push(RequestProblem::Deleting(name()));
    }
    if let RequestCreator::NodePlugin(Some(node)) = creator
        && pod.node.as_deref() != Some(node)
    {
        problems.push(RequestProblem::OtherNode(name()));
    }
    problems
}

/// Whether the pod has room for one more request beside those of this number; none where they could not be counted.
///
/// A node plugin counts what it makes itself, and all mounts of the cluster depend on it: a look that fails does not
/// stop them. No mount waits for requests that users write by hand.
pub(crate) fn of_the_share(
    spec: &AccessRequestSpec,
    creator: &RequestCreator,
    count: Option<usize>,
) -> Option<RequestProblem> {
    let pod = &spec.context.object_ref;
    match (count, creator) {
        (Some(count), _) if count < MOST_OF_A_POD => None,
        (Some(_), _) => Some(RequestProblem::TooMany(format!(
            "{}/{}",
            pod.namespace, pod.name
        ))),
        (None, RequestCreator::NodePlugin(_)) => None,
        (None, RequestCreator::Other) => Some(RequestProblem::Uncounted),
    }
}

#[cfg(test)]
mod tests;
