//! The attributes about files that the author of a pod writes under `volumeAttributes`. `connectors_api::pod_wish`
//! reads the attributes about connectors.

use std::{collections::HashMap, time::Duration};

use connector_files::{FileRequest, FileRequestError};
use connectors_api::{
    PositiveDuration,
    pod_wish::{WishError, attributes::EXPIRATION},
    shortened,
};
use thiserror::Error;

use super::ProxyTokens;

/// The shortest lifetime of the pod's token.
const SHORTEST: Duration = Duration::from_mins(10);
const LONGEST: Duration = Duration::from_hours(24);

/// The fault of the attributes. Each message names the attribute, what is written there, and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum AttributeError {
    /// The connectors.
    #[error(transparent)]
    Wish(#[from] WishError),
    /// The time is invalid.
    #[error("volume attribute `token.expiration` cannot be `{0}`: use a duration from 10m to 24h")]
    Expiration(String),
    /// There are no tokens.
    #[error(
        "volume attribute `token.expiration` cannot be `{0}`: pods get no token for a proxy here (chart value csiNode.proxyToken.audience); leave it out"
    )]
    NoTokens(String),
    /// The tokens do not live so long.
    #[error(
        "volume attribute `token.expiration` cannot be `{wanted}`: tokens live {minutes}m here (chart value csiNode.proxyToken.expirationSeconds), and are renewed before they end; use at most {minutes}m"
    )]
    TokensLive {
        /// The attribute.
        wanted: String,
        /// The life of a new token.
        minutes: u64,
    },
    /// The files.
    #[error(transparent)]
    Files(#[from] FileRequestError),
}

/// Reads the attributes about files. Their valid values depend on settings of the installation that change while pods
/// run, so nothing else depends on them.
pub(super) fn parse_files(
    context: &HashMap<String, String>,
    proxy: &ProxyTokens,
) -> Result<FileRequest, AttributeError> {
    let text = |name: &str| context.get(name).map(String::as_str);
    if let Some(written) = text(EXPIRATION) {
        proxy.live(expiration(written)?, written)?;
    }
    Ok(FileRequest::of_attributes(text)?)
}

fn expiration(text: &str) -> Result<Duration, AttributeError> {
    let duration: Option<PositiveDuration> = text.trim().parse().ok();
    let duration = duration.map(|it| it.get().unsigned_abs());
    duration
        .filter(|it| (SHORTEST..=LONGEST).contains(it))
        .ok_or_else(|| AttributeError::Expiration(shortened(text)))
}
