//! Fixed texts for errors whose own text could quote a secret of the kubeconfig.

use std::error::Error;

use kube::client::AuthError;
use kube::config::KubeconfigError;
use service_kit::report;

/// The cause of an error whose text is not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HiddenCause {
    /// The credentials. The text may hold arguments, variables and output of a plugin.
    Credentials,
    /// The proxy. The text may hold its password.
    Proxy,
}

/// The error with its causes. An error that could quote a secret has a fixed text that names the user entry.
#[must_use]
pub fn told(error: &(dyn Error + 'static), user: Option<&str>) -> String {
    match hidden(error) {
        Some(cause) => cause.text(user),
        None => report(error),
    }
}

/// The first cause that could quote a secret.
fn hidden(error: &(dyn Error + 'static)) -> Option<HiddenCause> {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.is::<AuthError>() {
            return Some(HiddenCause::Credentials);
        }
        match error.downcast_ref() {
            Some(kube::Error::Auth(_)) => return Some(HiddenCause::Credentials),
            Some(
                kube::Error::ProxyProtocolUnsupported { .. }
                | kube::Error::ProxyProtocolDisabled { .. },
            ) => return Some(HiddenCause::Proxy),
            _ => {}
        }
        if let Some(KubeconfigError::ParseProxyUrl(_)) = error.downcast_ref() {
            return Some(HiddenCause::Proxy);
        }
        next = error.source();
    }
    None
}

impl HiddenCause {
    fn text(self, user: Option<&str>) -> String {
        match self {
            Self::Credentials => {
                let whose = match user {
                    Some(user) => format!("user entry `{user}` of the kubeconfig"),
                    None => "this pod".to_owned(),
                };
                format!(
                    "{whose} gives no credentials. The reason is not shown, because it may hold a secret: `kubectl get ns` \
                     shows it"
                )
            }
            Self::Proxy => {
                "the proxy of the kubeconfig, of HTTPS_PROXY or of HTTP_PROXY cannot be used: in the kubeconfig its address must \
                 begin with http:// or https://. It is not shown, because it may hold a password: `kubectl get ns` uses the same"
                    .to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth() -> kube::Error {
        kube::Error::Auth(AuthError::AuthExec("hunter2".to_owned()))
    }

    #[test]
    fn an_error_of_credentials_or_of_a_proxy_is_not_quoted_wherever_it_is_in_the_chain() {
        let url = "socks9://me:hunter2@proxy:1".parse().unwrap();
        let proxy = kube::Error::ProxyProtocolUnsupported {
            proxy_url: Box::new(url),
        };
        let bare = AuthError::AuthExec("hunter2".to_owned());
        for (error, part) in [
            (auth(), "user entry `dev` of the kubeconfig"),
            (kube::Error::Service(Box::new(auth())), "kubectl get ns"),
            (kube::Error::Service(Box::new(bare)), "kubectl get ns"),
            (proxy, "kubectl get ns"),
        ] {
            let text = told(&error, Some("dev"));
            assert!(text.contains(part) && !text.contains("hunter2"), "{text}");
        }
        let other = kube::Error::Service("no route".into());
        assert!(told(&other, None).contains("no route"));
    }

    /// The address of a proxy may hold its password, also one that is no address.
    #[test]
    fn no_address_of_a_proxy_is_quoted_and_a_pod_has_no_user_entry() {
        let wrong = "http://me:hunter2@[proxy".parse::<http::Uri>().unwrap_err();
        let disabled = kube::Error::ProxyProtocolDisabled {
            proxy_url: Box::new("http://me:hunter2@proxy:1".parse().unwrap()),
            protocol_feature: "kube/http-proxy",
        };
        let errors: [Box<dyn Error + 'static>; 2] = [
            Box::new(KubeconfigError::ParseProxyUrl(wrong)),
            Box::new(disabled),
        ];
        for error in errors {
            let text = told(error.as_ref(), Some("dev"));
            assert!(
                text.contains("HTTPS_PROXY") && !text.contains("hunter2"),
                "{text}"
            );
        }
        let text = told(&auth(), None);
        assert!(text.starts_with("this pod gives no credentials"), "{text}");
    }
}
