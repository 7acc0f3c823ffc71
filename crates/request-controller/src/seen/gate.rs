//! The observed values of one pod with the scheduling gate: the only input of decisions about it.

use std::sync::Arc;

use connectors_api::{
    AccessRequest, ConnectorKey, pod_wish::VolumeTextError, request_creation::Created,
};
use service_kit::name::Name;

/// All values that one gate is decided on.
#[derive(Clone, Debug)]
pub struct GateSeen {
    /// The pod.
    pub pod: Name,
    /// Its UID.
    pub uid: String,
    /// Whether pods wait with the gate in this installation. None as long as that is not known.
    pub gates_pods: Option<bool>,
    /// Too many pods of the namespace were waiting with the gate before this one.
    pub over_limit: bool,
    /// The wishes of its volumes.
    pub volumes: GatedVolumes,
}

/// The wishes of the volumes of a gated pod.
#[derive(Clone, Debug)]
pub enum GatedVolumes {
    /// They were not read, because other values decide.
    NotRead,
    /// They cannot be read.
    Unreadable,
    /// One cannot be mounted as it is written.
    Mistaken(VolumeTextError),
    /// These connectors.
    Want(Vec<WantSeen>),
}

/// A connector that a gated pod wants to mount.
#[derive(Clone, Debug)]
pub struct WantSeen {
    /// The connector.
    pub connector: ConnectorKey,
    /// The request as every maker makes it.
    pub ours: AccessRequest,
    /// Whether the pod lives in the namespace of the connector.
    pub at_home: bool,
    /// The known requests of that tuple, under any name: from the caches, the one that decides.
    pub requests: Vec<Arc<AccessRequest>>,
    /// As many requests of the pod's namespace are stored for connectors of that one, without being granted, as may.
    pub line_is_full: bool,
    /// The result of the question whether the pod may mount the connector now.
    pub access: MountAccess,
}

/// Which questions about mounts are asked. Answers cost calls, and the plan decides which it needs.
#[derive(Clone, Copy, Debug)]
pub struct GateQuestions {
    /// True when the answer about a connector can change the plan.
    pub is_needed: fn(&WantSeen) -> bool,
    /// True when the gate goes, whatever the answers about further connectors are.
    pub are_enough: fn(&[&WantSeen]) -> bool,
}

/// Whether a pod may mount a connector now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountAccess {
    /// There was no answer, or none that can be used.
    Unknown,
    /// It may.
    Allowed,
    /// It may not, and a request of the tuple is there.
    Requested,
    /// It may not, and there is no request. As far as is known, one could be accepted.
    Denied,
    /// It may not, and no policy could accept a request now.
    Unaccepted,
}

/// The result of making a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestMade {
    /// It is there.
    There,
    /// An earlier one of that name is being deleted.
    Going,
    /// Another object has its name.
    Squatted,
    /// The API server did not accept it.
    NotAccepted(Created),
}
