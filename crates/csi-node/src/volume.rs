//! The kubelet's call, parsed once: all code behind this module works on types.
//!
//! Messages quote the text of the pod's author, because the author reads them in the pod's events. They never quote
//! the kubelet's additions, one of which is the pod's token.

mod attributes;
mod path;
mod token;

#[cfg(test)]
mod tests;

use std::{collections::HashMap, time::Duration};

use connector_files::FileRequest;
use connectors_api::{
    AccessRequest, ConnectorKey, Permission, PodIdentity,
    pod_wish::{self, LONGEST_ATTRIBUTES, VolumeAttributes, attributes::VolumeOptions},
    shortened,
};
use jiff::Timestamp;
use thiserror::Error;

pub(crate) use attributes::AttributeError;
pub(crate) use path::{PodsDir, VolumePath, VolumePathError};
pub(crate) use token::{AUDIENCE, PodTokenError, Token};

use crate::proto::csi::{
    NodePublishVolumeRequest, VolumeCapability, volume_capability::AccessType,
};

/// The wish of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// The pod, as the kubelet names it. Not proven yet.
    pub(crate) pod: PodIdentity,
    /// The connectors: at least one, none twice, in the order in which they were written.
    pub(crate) connectors: Vec<ConnectorKey>,
    /// The capability of all of them.
    pub(crate) permission: Permission,
    /// The other choices of the pod's author.
    pub(crate) options: VolumeOptions,
}

impl Wish {
    /// The request for one of the connectors, under the name that every retry gives it.
    pub(crate) fn request(&self, connector: &ConnectorKey) -> AccessRequest {
        pod_wish::request(&self.pod, connector, self.permission)
    }
}

/// The pods' tokens for the proxy in front of the tools, as the driver object asks for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyTokens {
    /// Their audience. None if there are no tokens.
    pub(crate) audience: Option<String>,
    /// The lifetime of a new token.
    pub(crate) lifetime: Duration,
}

impl ProxyTokens {
    /// The tokens for an audience. An empty one is none.
    pub(crate) fn new(audience: String, lifetime: Duration) -> Self {
        Self {
            audience: (!audience.is_empty()).then_some(audience),
            lifetime,
        }
    }

    /// Whether a new token lives as long as a pod wants. The text is that of the attribute.
    fn live(&self, wanted: Duration, written: &str) -> Result<(), AttributeError> {
        if self.audience.is_none() {
            return Err(AttributeError::NoTokens(shortened(written)));
        }
        if wanted > self.lifetime {
            return Err(AttributeError::TokensLive {
                wanted: shortened(written),
                minutes: self.lifetime.as_secs() / 60,
            });
        }
        Ok(())
    }
}

/// The parts of a publish call beside its place.
#[derive(Debug)]
pub(crate) struct Publish {
    /// The wish.
    pub(crate) wish: Wish,
    /// The proof of the pod. An existing volume needs none.
    pub(crate) token: Result<Token, PodTokenError>,
    /// The files beside the facts, and the pod's token for the proxy. Their errors never keep a volume from being
    /// emptied.
    pub(crate) files: Result<FileWish, VolumeError>,
}

/// The files that a pod wants, with the kubelet's inputs for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileWish {
    /// The files.
    pub(crate) request: FileRequest,
    /// The pod's token for the proxy, if the kubelet sends one.
    pub(crate) token: Option<Token>,
}

impl FileWish {
    /// How long the token still lives, if there is one and the kubelet says so.
    pub(crate) fn token_remaining(&self, now: Timestamp) -> Option<Duration> {
        self.token.as_ref()?.remaining(now)
    }
}

/// Why a call is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum VolumeError {
    /// The place is invalid.
    #[error(transparent)]
    VolumePath(#[from] VolumePathError),
    /// The wished content is invalid.
    #[error(transparent)]
    Attribute(#[from] AttributeError),
    /// The call does not say how the volume is used.
    #[error("volume capability is missing")]
    NoCapability,
    /// The volume is not used as a file system.
    #[error("only mounted volumes are served, no block devices")]
    Block,
    /// These would change nothing in the volume.
    #[error("fsType, mount flags and mount groups are not supported")]
    MountOptions,
    /// The pod could write.
    #[error("the volume must be readOnly: true")]
    Writable,
    /// A persistent volume.
    #[error("only ephemeral inline volumes are served: name the driver in the pod's spec.volumes")]
    NotEphemeral,
    /// The volume belongs to another pod than the call names.
    #[error("the pod's UID is not that of the target path")]
    OtherPod,
    /// The kubelet's data about the pod are missing or are no names.
    #[error("the call does not name the pod: {0}")]
    PodInfo(&'static str),
    /// The attributes are too long.
    #[error("the volume's attributes are longer than 64 KiB")]
    TooLong,
}

impl Publish {
    /// Parses a call whose place was found valid.
    pub(crate) fn parse(
        place: &VolumePath,
        request: &NodePublishVolumeRequest,
        proxy: &ProxyTokens,
    ) -> Result<Self, VolumeError> {
        let context = &request.volume_context;
        let length: usize = context
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        if length > LONGEST_ATTRIBUTES {
            return Err(VolumeError::TooLong);
        }
        plain_mount(request.volume_capability.as_ref())?;
        if context.get(EPHEMERAL).map(String::as_str) != Some("true") {
            return Err(VolumeError::NotEphemeral);
        }
        if !request.readonly {
            return Err(VolumeError::Writable);
        }
        let pod = pod(context)?;
        if pod.uid != place.pod_uid() {
            return Err(VolumeError::OtherPod);
        }
        let VolumeAttributes {
            connectors,
            permission,
            options,
        } = VolumeAttributes::parse(&pod.namespace, context).map_err(AttributeError::from)?;
        let token = |audience: &str| Token::find(&request.secrets, context, audience);
        let files = attributes::parse_files(context, proxy).map_err(VolumeError::from);
        let files = files.map(|request| FileWish {
            request,
            // Without a token request in the cluster's driver object there is no token.
            token: proxy.audience.as_ref().and_then(|it| token(it).ok()),
        });
        Ok(Self {
            wish: Wish {
                pod,
                connectors,
                permission,
                options,
            },
            token: token(AUDIENCE),
            files,
        })
    }
}

const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";

fn pod(context: &HashMap<String, String>) -> Result<PodIdentity, VolumeError> {
    use connectors_api::names::{is_dns_label, is_dns_subdomain};
    let field = |key: &'static str, valid: fn(&str) -> bool| {
        let value = context.get(key).filter(|value| valid(value));
        value.cloned().ok_or(VolumeError::PodInfo(key))
    };
    Ok(PodIdentity {
        namespace: field("csi.storage.k8s.io/pod.namespace", is_dns_label)?,
        name: field("csi.storage.k8s.io/pod.name", is_dns_subdomain)?,
        uid: field("csi.storage.k8s.io/pod.uid", path::is_uid)?,
        service_account: field("csi.storage.k8s.io/serviceAccount.name", is_dns_subdomain)?,
    })
}

fn plain_mount(capability: Option<&VolumeCapability>) -> Result<(), VolumeError> {
    let access = capability.and_then(|capability| capability.access_type.as_ref());
    match access {
        None => Err(VolumeError::NoCapability),
        Some(AccessType::Block(_)) => Err(VolumeError::Block),
        Some(AccessType::Mount(mount)) => {
            let plain = mount.fs_type.is_empty()
                && mount.mount_flags.is_empty()
                && mount.volume_mount_group.is_empty();
            plain.then_some(()).ok_or(VolumeError::MountOptions)
        }
    }
}
