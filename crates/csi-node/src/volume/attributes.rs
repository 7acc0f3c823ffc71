//! What the author of a pod writes under `volumeAttributes`.

use std::collections::{BTreeSet, HashMap};

use connectors_api::{
    Permission,
    names::{is_dns_label, is_dns_subdomain},
};
use thiserror::Error;

use super::{ConnectorKey, KUBELET};

/// A volume of more would hold its pod for the slowest of too many approvals.
pub(super) const MAX_CONNECTORS: usize = 16;
/// Two words of this likeness are probably the same word.
const LIKELY: f64 = 0.75;
/// What is quoted of somebody's words.
const QUOTED: usize = 64;

const CONNECTORS: &str = "connectors";
const PERMISSION: &str = "permission";
const KNOWN: [&str; 2] = [CONNECTORS, PERMISSION];

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
}

/// Reads the attributes of a pod in this namespace.
pub(super) fn parse(
    namespace: &str,
    context: &HashMap<String, String>,
) -> Result<(Vec<ConnectorKey>, Permission), AttributeError> {
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
    let list = context
        .get(CONNECTORS)
        .ok_or(AttributeError::NoConnectors)?;
    Ok((connectors(namespace, list)?, permission))
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

/// The beginning of what somebody wrote, fit for an event.
fn quoted(text: &str) -> String {
    text.chars()
        .take(QUOTED)
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}
