//! The pod's token, as the kubelet sends it.

use std::{collections::HashMap, fmt};

use serde::Deserialize;
use thiserror::Error;

/// The audience of the tokens that prove a pod to this driver.
pub(crate) const AUDIENCE: &str = "connectors.alauda.io";

/// The key in `secrets`, or with older clusters in the volume's context.
const TOKENS: &str = "csi.storage.k8s.io/serviceAccount.tokens";

/// A token. It has no printed form.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

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
        let TokenEntry { token } = tokens.remove(audience).ok_or(PodTokenError::Audience)?;
        if token.is_empty() {
            return Err(PodTokenError::Unreadable);
        }
        Ok(Self(token))
    }

    /// The token itself, for the one call that checks it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// A token for tests.
    #[cfg(test)]
    pub(crate) fn of(text: &str) -> Self {
        Self(text.to_owned())
    }
}
