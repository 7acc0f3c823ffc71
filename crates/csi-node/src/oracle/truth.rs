//! What is true in the cluster at one moment, and what follows from it for one pod and connector. Written from
//! the design, without the driver's words.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::{AccessRequest, Permission, access_request::Phase, reason::Ready};

/// A pod that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodFacts {
    pub(super) namespace: &'static str,
    pub(super) name: &'static str,
    pub(super) account: &'static str,
    pub(super) uid: String,
}

/// One right that may be held: an account's on a connector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Right {
    pub(super) namespace: String,
    pub(super) account: String,
    pub(super) connector: String,
    pub(super) permission: Permission,
}

/// A connector that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) address: Option<String>,
    pub(super) being_deleted: bool,
}

/// A request that exists.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RequestFacts {
    pub(super) uid: String,
    pub(super) right: Right,
    pub(super) pod_name: String,
    pub(super) pod_uid: String,
    pub(super) phase: Option<Phase>,
    pub(super) reason: Option<Ready>,
    pub(super) being_deleted: bool,
    /// Another request that has only the name.
    pub(super) squats: bool,
    /// As the API server gives it.
    pub(super) object: AccessRequest,
}

impl RequestFacts {
    pub(super) fn is_granted(&self) -> bool {
        self.phase == Some(Phase::Granted) && !self.being_deleted && !self.squats
    }

    /// It is decided, and gives nothing.
    pub(super) fn is_over(&self) -> bool {
        match self.phase {
            None | Some(Phase::Pending) => false,
            Some(Phase::Ended) => self.reason != Some(Ready::StandingPermission),
            Some(Phase::Granted | Phase::Rejected | Phase::Revoked | Phase::Invalid) => true,
        }
    }

    /// No request of the same pod gives access any more while this one is there. One that went with its pod is no answer.
    pub(super) fn is_no_for_good(&self) -> bool {
        matches!(self.phase, Some(Phase::Rejected | Phase::Revoked)) && !self.is_with_its_pod()
    }

    /// It is over, or will be, because its pod is.
    pub(super) fn is_with_its_pod(&self) -> bool {
        matches!(
            self.reason,
            Some(Ready::PodFinished | Ready::PodGone | Ready::PodTerminating)
        )
    }
}

/// Whose access is in question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    pub(super) right: Right,
    pub(super) pod_name: String,
    pub(super) pod_uid: String,
}

/// A call to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verb {
    ReviewToken,
    ReviewAccess,
    Create,
    GetRequest,
    GetConnector,
    GetClass,
}

impl Verb {
    pub(super) const ALL: [Self; 6] = [
        Self::ReviewToken,
        Self::ReviewAccess,
        Self::Create,
        Self::GetRequest,
        Self::GetConnector,
        Self::GetClass,
    ];
}

/// What becomes of a request that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Creation {
    Works,
    NoNamespace,
    QuotaFull,
    Refused,
}

/// Everything that the driver may hear of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Truth {
    pub(super) pods: BTreeMap<String, PodFacts>,
    pub(super) connectors: BTreeMap<String, Facts>,
    pub(super) class_address: Option<String>,
    /// Rights that both the evaluation service and the API server know of.
    pub(super) standing: BTreeSet<Right>,
    /// Rights from an authorizer that only the API server asks.
    pub(super) elsewhere: BTreeSet<Right>,
    /// By namespace and name.
    pub(super) requests: BTreeMap<(String, String), RequestFacts>,
    pub(super) creation: Creation,
    /// Whether a policy could accept a request.
    pub(super) a_policy_accepts: bool,
    /// Calls that the API server does not answer.
    pub(super) failing: BTreeSet<Verb>,
    /// Whether reviews see the permissions of pods by now.
    pub(super) reviews_see_grants: bool,
    pub(super) evaluator_answers: bool,
    /// How often the evaluator's streams broke.
    pub(super) breaks: usize,
}

/// The evaluation service's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Says {
    Nothing,
    Standing,
    /// By this request.
    Granted(String),
    /// And the request of the asker, if there is one.
    No(Option<String>),
}

impl Truth {
    pub(super) fn new() -> Self {
        let connector = |name: &&str| {
            let facts = Facts {
                address: Some(format!("https://{name}/1")),
                being_deleted: false,
            };
            ((*name).to_owned(), facts)
        };
        Self {
            pods: BTreeMap::new(),
            connectors: super::CONNECTORS.iter().map(connector).collect(),
            class_address: None,
            standing: BTreeSet::new(),
            elsewhere: BTreeSet::new(),
            requests: BTreeMap::new(),
            creation: Creation::Works,
            a_policy_accepts: true,
            failing: BTreeSet::new(),
            reviews_see_grants: true,
            evaluator_answers: true,
            breaks: 0,
        }
    }

    /// The request of this very asker.
    pub(super) fn request_of(&self, asker: &Asker) -> Option<(&str, &RequestFacts)> {
        let found = self.requests.iter().find(|((namespace, _), request)| {
            let (home, _) = asker.right.connector.split_once('/').unwrap();
            namespace == home
                && !request.squats
                && !request.being_deleted
                && request.right == asker.right
                && request.pod_name == asker.pod_name
                && request.pod_uid == asker.pod_uid
        });
        found.map(|((_, name), request)| (name.as_str(), request))
    }

    /// What the evaluation service says, which knows UIDs.
    pub(super) fn says(&self, asker: &Asker) -> Says {
        if !self.evaluator_answers {
            return Says::Nothing;
        }
        if self.standing.contains(&asker.right) {
            return Says::Standing;
        }
        match self.request_of(asker) {
            Some((name, request)) if request.is_granted() => Says::Granted(name.to_owned()),
            found => Says::No(found.map(|(name, _)| name.to_owned())),
        }
    }

    /// What a review of the API server says about a right that is held at any time.
    pub(super) fn reviews_standing(&self, right: &Right) -> bool {
        self.standing.contains(right) || self.elsewhere.contains(right)
    }

    /// What a review says about the right of a pod, which it knows by its name alone.
    pub(super) fn reviews_pod(&self, right: &Right, pod_name: &str) -> bool {
        let grants =
            |it: &RequestFacts| it.is_granted() && it.right == *right && it.pod_name == pod_name;
        self.reviews_see_grants && self.requests.values().any(grants)
    }

    /// Both say yes at this moment, or other authorizers do where the service says no.
    pub(super) fn allows(&self, asker: &Asker) -> bool {
        if self.failing.contains(&Verb::ReviewAccess) {
            return false;
        }
        match self.says(asker) {
            Says::Nothing => false,
            Says::Standing | Says::No(_) => self.reviews_standing(&asker.right),
            Says::Granted(_) => self.reviews_pod(&asker.right, &asker.pod_name),
        }
    }

    /// The address that a volume with this connector has to hold.
    pub(super) fn address(&self, connector: &str) -> Option<&str> {
        let facts = self.connectors.get(connector)?;
        let given = facts.address.as_deref().or(self.class_address.as_deref());
        given.filter(|_| !facts.being_deleted)
    }

    /// Nothing is in the way of a call.
    pub(super) fn is_whole(&self) -> bool {
        self.failing.is_empty() && self.evaluator_answers
    }
}
