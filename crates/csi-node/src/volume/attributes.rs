//! What the author of a pod writes under `volumeAttributes`.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use connector_files::{FileRequest, FileRequestError};
use connectors_api::{
    Permission, PositiveDuration,
    names::{is_dns_label, is_dns_subdomain},
    quoted,
};
use thiserror::Error;

use super::{ConnectorKey, KUBELET, OnRejected, ProxyTokens};

/// A volume of more would hold its pod for the slowest of too many approvals.
pub(super) const MAX_CONNECTORS: usize = 16;
/// Two words of this likeness are probably the same word.
const LIKELY: f64 = 0.75;

const CONNECTORS: &str = "connectors";
const PERMISSION: &str = "permission";
/// The older way to name one connector.
const NAME: &str = "connector.name";
const NAMESPACE: &str = "connector.namespace";
const FILES: &str = "configuration.names";
const PARAMS: &str = "configuration.params";
const EXPIRATION: &str = "token.expiration";
const ON_REJECTED: &str = "onRejected";
const KNOWN: [&str; 8] = [
    CONNECTORS,
    PERMISSION,
    FILES,
    PARAMS,
    EXPIRATION,
    ON_REJECTED,
    NAME,
    NAMESPACE,
];

/// How long the pod's token may have to live.
const SHORTEST: Duration = Duration::from_mins(10);
const LONGEST: Duration = Duration::from_hours(24);

/// What the author of a pod wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VolumeAttributes {
    pub(super) connectors: Vec<ConnectorKey>,
    pub(super) permission: Permission,
    pub(super) on_rejected: OnRejected,
}

/// What is wrong with the attributes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum AttributeError {
    /// An attribute that does nothing here.
    #[error("volume attribute `{name}` is unknown: {hint}")]
    Unknown {
        /// As it was written.
        name: String,
        /// What was probably meant.
        hint: String,
    },
    /// No connector.
    #[error(
        "volume attribute `connectors` is missing: list connectors as `namespace/name` or `name`"
    )]
    NoConnectors,
    /// No name.
    #[error(
        "`{0}` is not a connector: use `namespace/name`, or `name` for one of the pod's namespace"
    )]
    Connector(String),
    /// Once is enough.
    #[error("connector {0} is listed twice")]
    Twice(String),
    /// Too many.
    #[error("more than {MAX_CONNECTORS} connectors in one volume: use several volumes")]
    TooMany,
    /// No permission.
    #[error("volume attribute `permission` cannot be `{0}`: use apis or proxy")]
    Permission(String),
    /// Neither of both.
    #[error("volume attribute `onRejected` cannot be `{0}`: use Fail or ErrorFile")]
    OnRejected(String),
    /// Both ways at once.
    #[error(
        "volume attributes `connectors` and `{0}` exclude each other: `connectors` is the newer one"
    )]
    BothWays(&'static str),
    /// A namespace of no name.
    #[error(
        "volume attribute `connector.namespace` needs `connector.name` beside it; or use `connectors`"
    )]
    NamespaceAlone,
    /// No time.
    #[error("volume attribute `token.expiration` cannot be `{0}`: use a duration from 10m to 24h")]
    Expiration(String),
    /// There are no tokens.
    #[error(
        "volume attribute `token.expiration`: pods get no token for a proxy here (chart value csiNode.proxyToken.audience)"
    )]
    NoTokens,
    /// Tokens that do not live so long.
    #[error(
        "volume attribute `token.expiration`: tokens live {0}m here (chart value csiNode.proxyToken.expirationSeconds), and are renewed before they end; ask for at most that"
    )]
    TokensLive(u64),
    /// The files.
    #[error(transparent)]
    Files(#[from] FileRequestError),
}

/// Reads the attributes of a pod in this namespace.
pub(super) fn parse(
    namespace: &str,
    context: &HashMap<String, String>,
) -> Result<VolumeAttributes, AttributeError> {
    // Sorted, so that the same pod always gets the same message.
    let names: BTreeSet<&String> = context.keys().collect();
    let unknown = names
        .into_iter()
        .find(|name| !KNOWN.contains(&name.as_str()) && !name.starts_with(KUBELET));
    if let Some(name) = unknown {
        return Err(AttributeError::Unknown {
            name: quoted(name),
            hint: hint(name),
        });
    }
    let permission = match context.get(PERMISSION) {
        None => Permission::default(),
        Some(word) => Permission::from_segment(word)
            .ok_or_else(|| AttributeError::Permission(quoted(word)))?,
    };
    let on_rejected = match context.get(ON_REJECTED) {
        None => OnRejected::default(),
        Some(word) => {
            OnRejected::from_word(word).ok_or_else(|| AttributeError::OnRejected(quoted(word)))?
        }
    };
    Ok(VolumeAttributes {
        connectors: wanted(namespace, context)?,
        permission,
        on_rejected,
    })
}

/// Reads the attributes about files. What they may be depends on the settings of the installation, which change while pods
/// run, so nothing else depends on them.
pub(super) fn parse_files(
    context: &HashMap<String, String>,
    proxy: &ProxyTokens,
) -> Result<FileRequest, AttributeError> {
    let text = |name: &str| context.get(name).map(String::as_str);
    if let Some(wanted) = text(EXPIRATION).map(expiration).transpose()? {
        proxy.live(wanted)?;
    }
    Ok(FileRequest::parse(text(FILES), text(PARAMS))?)
}

/// The connectors, named in the newer or in the older way.
fn wanted(
    namespace: &str,
    context: &HashMap<String, String>,
) -> Result<Vec<ConnectorKey>, AttributeError> {
    let older = [NAME, NAMESPACE]
        .into_iter()
        .find(|name| context.contains_key(*name));
    match (context.get(CONNECTORS), older) {
        (Some(_), Some(older)) => Err(AttributeError::BothWays(older)),
        (Some(list), None) => connectors(namespace, list),
        (None, None) => Err(AttributeError::NoConnectors),
        (None, Some(_)) => {
            let name = context.get(NAME).ok_or(AttributeError::NamespaceAlone)?;
            let namespace = context.get(NAMESPACE).map_or(namespace, String::as_str);
            if name.contains('/') {
                return Err(AttributeError::Connector(quoted(name)));
            }
            Ok(vec![connector(namespace, name.trim())?])
        }
    }
}

fn expiration(text: &str) -> Result<Duration, AttributeError> {
    let duration: Option<PositiveDuration> = text.trim().parse().ok();
    let duration = duration.map(|it| it.get().unsigned_abs());
    duration
        .filter(|it| (SHORTEST..=LONGEST).contains(it))
        .ok_or_else(|| AttributeError::Expiration(quoted(text)))
}

fn connectors(namespace: &str, list: &str) -> Result<Vec<ConnectorKey>, AttributeError> {
    if list.trim().is_empty() {
        return Err(AttributeError::NoConnectors);
    }
    let mut connectors: Vec<ConnectorKey> = Vec::new();
    for item in list.split(',') {
        let connector = connector(namespace, item.trim())?;
        if connectors.contains(&connector) {
            return Err(AttributeError::Twice(connector.to_string()));
        }
        if connectors.len() == MAX_CONNECTORS {
            return Err(AttributeError::TooMany);
        }
        connectors.push(connector);
    }
    Ok(connectors)
}

fn connector(namespace: &str, item: &str) -> Result<ConnectorKey, AttributeError> {
    let (namespace, name) = item.split_once('/').unwrap_or((namespace, item));
    if !is_dns_label(namespace) || !is_dns_subdomain(name) {
        return Err(AttributeError::Connector(quoted(item)));
    }
    Ok(ConnectorKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

fn hint(name: &str) -> String {
    let likeness = |known: &&str| strsim::jaro_winkler(known, name);
    let likely = KNOWN
        .into_iter()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .filter(|known| likeness(known) >= LIKELY);
    match likely {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("known here: {}", KNOWN.join(", ")),
    }
}
