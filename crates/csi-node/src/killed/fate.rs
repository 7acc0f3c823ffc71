//! The fate of a pod: the cluster's decision about its wish, and what its volume may hold because of it. The driver knows
//! nothing of a fate.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use connectors_api::access_request::Phase;

use super::cluster::{Cluster, Decided};

/// The decision about a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// A standing permission covers the pod from the start.
    Granted,
    /// The pod's request is pending, and is granted at some time.
    GrantedLater,
    /// The pod's request is pending for as long as the pod exists.
    NeverGranted,
    /// The pod's request is invalid. The denial is not for good, because another request may decide beside it.
    Denied,
    /// The pod's request is rejected for good.
    Rejected,
}

impl Fate {
    /// What is met when the process is killed in a first call without access.
    pub(super) const fn killed(self) -> &'static str {
        match self {
            Self::Denied | Self::Rejected => "killed before a refusal",
            Self::Granted | Self::GrantedLater | Self::NeverGranted => "killed while a pod waits",
        }
    }

    /// What is met when the driver says that there is no access.
    pub(super) const fn told(self) -> &'static str {
        match self {
            Self::Denied => "was denied",
            Self::Rejected => "was rejected",
            Self::Granted | Self::GrantedLater | Self::NeverGranted => "waited in vain",
        }
    }
}

/// The fates of pods one after the other, each with whether the pod wants an error in place of its content. Only a rejection
/// makes one. The first pods of three lives have all of them, and each life has a pod with access from the start.
const FATES: [(Fate, bool); 9] = [
    (Fate::Granted, false),
    (Fate::GrantedLater, false),
    (Fate::Rejected, false),
    (Fate::Granted, false),
    (Fate::Denied, true),
    (Fate::Rejected, true),
    (Fate::Granted, true),
    (Fate::NeverGranted, true),
    (Fate::GrantedLater, true),
];

/// The most that a volume may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing. There is neither a mount nor a folder, and the pod does not start.
    Nothing,
    /// An error alone.
    Error,
    /// The content of the pod.
    Content,
}

/// A pod. Its UID and its connector have its name.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) fate: Fate,
    /// It wants an error in place of its content.
    pub(super) wants_error: bool,
    /// It may be granted from now on. All volumes of the pod share this.
    is_granted: Arc<AtomicBool>,
}

impl Pod {
    /// A new pod, with the fate of this number. The cluster decides about it at once.
    pub(super) fn new(name: String, number: usize, cluster: &Cluster) -> Self {
        let (fate, wants_error) = FATES[number % FATES.len()];
        let pod = Self {
            name,
            fate,
            wants_error,
            is_granted: Arc::default(),
        };
        cluster.decide(
            &pod.name,
            match pod.fate {
                Fate::Granted => Decided::Standing,
                Fate::GrantedLater | Fate::NeverGranted => Decided::Request(Phase::Pending),
                Fate::Denied => Decided::Request(Phase::Invalid),
                Fate::Rejected => Decided::Request(Phase::Rejected),
            },
        );
        pod
    }

    /// Its request is pending, and will be granted.
    pub(super) fn awaits_grant(&self) -> bool {
        self.fate == Fate::GrantedLater && !self.is_granted.load(Ordering::SeqCst)
    }

    /// The cluster grants its request. The test knows it first, so that no content comes too early for the test.
    pub(super) fn grant(&self, cluster: &Cluster) {
        self.is_granted.store(true, Ordering::SeqCst);
        cluster.decide(&self.name, Decided::Request(Phase::Granted));
    }

    /// The most that its volumes may hold now.
    pub(super) fn due(&self) -> Due {
        match self.fate {
            Fate::Granted => Due::Content,
            Fate::GrantedLater if !self.awaits_grant() => Due::Content,
            Fate::Rejected if self.wants_error => Due::Error,
            Fate::GrantedLater | Fate::NeverGranted | Fate::Denied | Fate::Rejected => Due::Nothing,
        }
    }
}
