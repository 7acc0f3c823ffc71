//! What the author of a pod writes under `volumeAttributes` about files. What he writes about connectors is read by
//! `connectors_api::pod_wish`.

use std::{collections::HashMap, time::Duration};

use connector_files::{FileRequest, FileRequestError};
use connectors_api::{
    PositiveDuration,
    pod_wish::{EXPIRATION, FILES, PARAMS, WishError},
    quoted,
};
use thiserror::Error;

use super::ProxyTokens;

/// How long the pod's token may have to live.
const SHORTEST: Duration = Duration::from_mins(10);
const LONGEST: Duration = Duration::from_hours(24);

/// What is wrong with the attributes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum AttributeError {
    /// The connectors.
    #[error(transparent)]
    Wish(#[from] WishError),
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

fn expiration(text: &str) -> Result<Duration, AttributeError> {
    let duration: Option<PositiveDuration> = text.trim().parse().ok();
    let duration = duration.map(|it| it.get().unsigned_abs());
    duration
        .filter(|it| (SHORTEST..=LONGEST).contains(it))
        .ok_or_else(|| AttributeError::Expiration(quoted(text)))
}
