//! The pod's token, as the kubelet sends it.

use std::{collections::HashMap, fmt, time::Duration};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

/// The audience of the tokens that prove a pod to this driver.
pub(crate) const AUDIENCE: &str = "connectors.alauda.io";

/// The key in `secrets`, or with older clusters in the volume's context.
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// A token. It has no printed form.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token {
    text: String,
    /// The end of its life, as the kubelet says. It is measured and decides nothing.
    expires: Option<Timestamp>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// Why there is no token. The errors quote nothing of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum PodTokenError {
    /// The kubelet sent none, as an old one does.
    #[error(
        "the kubelet sent no token of the pod, neither in secrets nor in the volume context: the node needs \
         Kubernetes 1.22 or newer, and tokenRequests of the CSIDriver object must name audience {AUDIENCE}"
    )]
    Missing,
    /// The kubelet sent something else.
    #[error("the kubelet's tokens of the pod cannot be read")]
    Unreadable,
    /// The kubelet sent only tokens for other audiences.
    #[error("the kubelet sent no token of the pod for audience {AUDIENCE}")]
    Audience,
}

#[derive(Deserialize)]
struct TokenEntry {
    token: String,
    /// An odd value must not cost the pod its token.
    #[serde(rename = "expirationTimestamp", default)]
    expires: Value,
}

impl Token {
    /// Searches the kubelet's places for tokens: the secrets first.
    pub(super) fn find(
        secrets: &HashMap<String, String>,
        context: &HashMap<String, String>,
        audience: &str,
    ) -> Result<Self, PodTokenError> {
        let json = secrets
            .get(TOKENS)
            .or_else(|| context.get(TOKENS))
            .ok_or(PodTokenError::Missing)?;
        // The parser's own error may quote the token.
        let mut tokens: HashMap<String, TokenEntry> =
            serde_json::from_str(json).map_err(|_| PodTokenError::Unreadable)?;
        let TokenEntry { token, expires } =
            tokens.remove(audience).ok_or(PodTokenError::Audience)?;
        if token.is_empty() {
            return Err(PodTokenError::Unreadable);
        }
        Ok(Self {
            text: token,
            expires: expires.as_str().and_then(|it| it.parse().ok()),
        })
    }

    /// How long the token still lives. Zero after its end, and none if the kubelet did not say when it ends.
    pub(crate) fn remaining(&self, now: Timestamp) -> Option<Duration> {
        let left = self.expires?.duration_since(now);
        Some(Duration::try_from(left).unwrap_or(Duration::ZERO))
    }

    /// The token itself, for the one call that checks it.
    pub(crate) fn expose(&self) -> &str {
        &self.text
    }

    /// A token for tests.
    #[cfg(test)]
    pub(crate) fn of(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            expires: None,
        }
    }
}
