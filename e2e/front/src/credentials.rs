//! The credentials that each tool wants, read from the headers of a request.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, header};

/// A tool, by the class of its connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StandIn {
    /// A registry.
    Docker,
    /// A git host.
    Git,
    /// An HTTP API.
    Http,
    /// Another cluster.
    Kubernetes,
    /// A Maven repository.
    Maven,
}

/// The user name with the token as password, where a tool wants Basic credentials.
const USER: &str = "pod";

impl StandIn {
    const ALL: [Self; 5] = [
        Self::Docker,
        Self::Git,
        Self::Http,
        Self::Kubernetes,
        Self::Maven,
    ];

    /// The tool whose name is the first label of the host.
    pub(crate) fn of_host(host: &str) -> Option<Self> {
        let label = host.split(['.', ':']).next()?;
        Self::ALL.into_iter().find(|it| it.name() == label)
    }

    /// The name of the tool, and of its connector.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Git => "git",
            Self::Http => "http",
            Self::Kubernetes => "kubernetes",
            Self::Maven => "maven",
        }
    }

    /// What a client without credentials is told to send.
    pub(crate) fn challenge(self) -> &'static str {
        match self {
            Self::Docker | Self::Git | Self::Maven => "Basic realm=\"tool\"",
            Self::Http | Self::Kubernetes => "Bearer",
        }
    }

    /// The token of a request, sent in the one way that this tool accepts.
    pub(crate) fn token(self, headers: &HeaderMap) -> Option<String> {
        match self {
            Self::Docker | Self::Git | Self::Maven => {
                let (user, token) = basic(headers, &header::AUTHORIZATION)?;
                (user == USER).then_some(token)
            }
            Self::Http | Self::Kubernetes => {
                let token = of_scheme(headers, &header::AUTHORIZATION, "Bearer")?;
                (!token.is_empty()).then(|| token.to_owned())
            }
        }
    }

    /// The token that a client shows to the proxy. The user name lists the connectors, as `namespace/name`.
    pub(crate) fn proxy_token(self, headers: &HeaderMap, namespace: &str) -> Option<String> {
        let (user, token) = basic(headers, &header::PROXY_AUTHORIZATION)?;
        let own = format!("{namespace}/{}", self.name());
        user.split(',').any(|it| it == own).then_some(token)
    }
}

fn of_scheme<'a>(headers: &'a HeaderMap, name: &HeaderName, scheme: &str) -> Option<&'a str> {
    let (sent, value) = headers.get(name)?.to_str().ok()?.split_once(' ')?;
    sent.eq_ignore_ascii_case(scheme).then_some(value)
}

fn basic(headers: &HeaderMap, name: &HeaderName) -> Option<(String, String)> {
    let value = of_scheme(headers, name, "Basic")?;
    let text = String::from_utf8(STANDARD.decode(value).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    let pair = (user.to_owned(), password.to_owned());
    (!password.is_empty()).then_some(pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    fn sent(scheme: &str, value: &str) -> HeaderMap {
        headers(header::AUTHORIZATION, &format!("{scheme} {value}"))
    }

    #[test]
    fn a_tool_is_known_by_the_first_label_of_its_host() {
        let found = ["git.example.com:443", "maven", "gitea.example.com", ""].map(StandIn::of_host);
        assert_eq!(
            found,
            [Some(StandIn::Git), Some(StandIn::Maven), None, None]
        );
    }

    #[test]
    fn a_token_counts_only_in_the_way_of_its_tool() {
        let good = sent("Basic", &STANDARD.encode("pod:t"));
        let bearer = sent("Bearer", "t");
        for tool in StandIn::ALL {
            let wants_basic = tool.challenge().starts_with("Basic");
            let expected = |is_right: bool| is_right.then(|| "t".to_owned());
            assert_eq!(tool.token(&good), expected(wants_basic), "{tool:?}");
            assert_eq!(tool.token(&bearer), expected(!wants_basic), "{tool:?}");
        }
    }

    #[test]
    fn other_users_and_broken_headers_are_no_credentials() {
        for value in ["ann:t", "pod:", "pod", "t"] {
            let sent = sent("Basic", &STANDARD.encode(value));
            assert_eq!(StandIn::Git.token(&sent), None, "{value}");
        }
        for headers in [
            HeaderMap::new(),
            sent("Basic", "%"),
            sent("Digest", "cG9kOnQ="),
            headers(header::AUTHORIZATION, "Basic"),
            headers(header::PROXY_AUTHORIZATION, "Basic cG9kOnQ="),
        ] {
            assert_eq!(StandIn::Git.token(&headers), None, "{headers:?}");
        }
        assert_eq!(StandIn::Http.token(&sent("Bearer", "")), None);
    }

    #[test]
    fn the_proxy_wants_the_connector_among_the_user_names() {
        let shown = |user: &str| {
            let value = format!("Basic {}", STANDARD.encode(format!("{user}:t")));
            let headers = headers(header::PROXY_AUTHORIZATION, &value);
            StandIn::Git.proxy_token(&headers, "tools").is_some()
        };
        assert!(shown("tools/git") && shown("tools/http,tools/git"));
        for other in ["tools/http", "other/git", "git", "tools%2Fgit", ""] {
            assert!(!shown(other), "{other}");
        }
    }
}
