//! The owner of a token in a caller's question. It is reviewed each time: only the API server knows whether the
//! token's pod still exists under its UID.

use crate::clock;
use connectors_api::names::{is_dns_label, is_dns_subdomain};
use evaluation_api::POD_TOKEN_AUDIENCE;
use evaluation_api::access::{PodRef, ServiceAccountName};
use k8s_openapi::api::authentication::v1::UserInfo;
use service_kit::reviews::{POD_NAME, POD_UID, account_of, only_claim};

use super::token::{Looks, looks};
use super::{Caller, CallerReviews};
use crate::error::Refused;

/// Longer than any service account token.
pub(super) const LONGEST: usize = 16 * 1024;

/// A pod, and its service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenOwner {
    pub(crate) subject: ServiceAccountName,
    pub(crate) pod: PodRef,
}

impl CallerReviews {
    /// The token's pod, and all data of the API server about its user.
    pub(crate) async fn owner_of(
        &self,
        caller: &Caller,
        token: &str,
    ) -> Result<(TokenOwner, UserInfo), Refused> {
        if token.len() > LONGEST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Refused::SubjectToken);
        }
        let inner = &self.0;
        let audience = audience(token, inner.proxy_audience.as_deref())?;
        let _asked = caller.quotas.question().await?;
        let user = inner
            .review_token(token, audience, &inner.subject_reviews)
            .await?;
        let result = if user.is_ok() { "yes" } else { "no" };
        inner.metrics.review("subject_token", result);
        let user = user.map_err(|_| Refused::SubjectToken)?;
        Ok((bound(&user)?, user))
    }
}

/// The audience that a token is reviewed for.
fn audience<'a>(token: &str, proxy: Option<&'a str>) -> Result<&'a str, Refused> {
    let now = clock::now();
    match looks(token, POD_TOKEN_AUDIENCE, now) {
        Looks::Good => Ok(POD_TOKEN_AUDIENCE),
        Looks::Bad => Err(Refused::SubjectToken),
        Looks::WrongAudience => proxy
            .filter(|proxy| looks(token, proxy, now) == Looks::Good)
            .ok_or(Refused::SubjectAudience),
    }
}

/// The pod behind a user.
fn bound(user: &UserInfo) -> Result<TokenOwner, Refused> {
    let account = user.username.as_deref().and_then(account_of);
    let (namespace, name) = account
        .filter(|(namespace, name)| is_dns_label(namespace) && is_dns_subdomain(name))
        .ok_or(Refused::SubjectNoPod)?;
    let claim = |key| only_claim(user, key).ok_or(Refused::SubjectNoPod);
    Ok(TokenOwner {
        subject: ServiceAccountName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        },
        pod: PodRef {
            name: claim(POD_NAME)?.to_owned(),
            uid: claim(POD_UID)?.to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::{Value, json};

    use super::*;

    fn user(name: &str, extra: &Value) -> Result<TokenOwner, Refused> {
        bound(&serde_json::from_value(json!({"username": name, "extra": extra})).unwrap())
    }

    #[test]
    fn a_token_is_reviewed_for_the_audience_that_it_names_if_that_is_ours_or_the_proxys() {
        let token = |audiences: &[&str]| {
            let claims = json!({"aud": audiences, "exp": clock::now().as_second() + 60});
            format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
        };
        let ours = POD_TOKEN_AUDIENCE;
        for (audiences, proxy, expected) in [
            (&[ours][..], None, Some(ours)),
            (&[ours], Some("proxy"), Some(ours)),
            (&["proxy"], Some("proxy"), Some("proxy")),
            (&["proxy", ours], Some("proxy"), Some(ours)),
            (&["proxy"], None, None),
            (&["proxy"], Some("other"), None),
            (&["kubernetes"], Some("proxy"), None),
            (&[], Some("proxy"), None),
        ] {
            let found = audience(&token(audiences), proxy);
            assert_eq!(found.ok(), expected, "{audiences:?} {proxy:?}");
        }
        assert!(matches!(
            audience("a.b.c", Some("proxy")),
            Err(Refused::SubjectToken)
        ));
    }

    #[test]
    fn the_owner_is_the_pod_that_the_api_server_names() {
        let extra = json!({POD_NAME: ["deploy"], POD_UID: ["u"], "other": ["a", "b"]});
        let owner = user("system:serviceaccount:devops:builder", &extra).unwrap();
        let subject = ServiceAccountName {
            namespace: "devops".to_owned(),
            name: "builder".to_owned(),
        };
        let pod = PodRef {
            name: "deploy".to_owned(),
            uid: "u".to_owned(),
        };
        assert_eq!(owner, TokenOwner { subject, pod });
    }

    #[test]
    fn who_is_no_service_account_or_has_no_single_pod_is_refused() {
        let account = "system:serviceaccount:devops:builder";
        let good = json!({POD_NAME: ["deploy"], POD_UID: ["u"]});
        for (name, extra) in [
            ("alice", &good),
            ("", &good),
            ("system:serviceaccount:devops", &good),
            ("system:serviceaccount::builder", &good),
            ("system:serviceaccount:devops:a:b", &good),
            (account, &json!({})),
            (account, &json!({POD_NAME: ["deploy"]})),
            (account, &json!({POD_UID: ["u"]})),
            (account, &json!({POD_NAME: ["deploy"], POD_UID: [""]})),
            (
                account,
                &json!({POD_NAME: ["deploy", "other"], POD_UID: ["u"]}),
            ),
            (account, &json!({POD_NAME: [], POD_UID: ["u"]})),
        ] {
            let refused = user(name, extra);
            assert!(
                matches!(refused, Err(Refused::SubjectNoPod)),
                "{name} {extra}"
            );
        }
    }
}
