//! Reviews of the API server: the owner of a token, and the rights of a user.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo},
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, Resource, api::PostParams, core::Request};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::retry::{CallError, RetryPolicy};

/// Where the API server says to which pod a service account token is bound: its name.
pub const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
/// The UID of the pod.
pub const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
/// The node of the pod.
pub const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// The user of a question. Groups may be many, so they are borrowed.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Reviewed<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<&'a BTreeMap<String, Vec<String>>>,
}

impl<'a> From<&'a UserInfo> for Reviewed<'a> {
    fn from(user: &'a UserInfo) -> Self {
        let UserInfo {
            username,
            uid,
            groups,
            extra,
        } = user;
        Self {
            user: username.as_deref(),
            uid: uid.as_deref(),
            groups: groups.as_deref(),
            extra: extra.as_ref(),
        }
    }
}

impl<'a> From<&'a SubjectAccessReviewSpec> for Reviewed<'a> {
    fn from(spec: &'a SubjectAccessReviewSpec) -> Self {
        Self {
            user: spec.user.as_deref(),
            uid: spec.uid.as_deref(),
            groups: spec.groups.as_deref(),
            extra: spec.extra.as_ref(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    api_version: &'a str,
    kind: &'a str,
    spec: ReviewSpec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReviewSpec<'a> {
    #[serde(flatten)]
    who: Reviewed<'a>,
    resource_attributes: &'a ResourceAttributes,
}

/// The answer repeats the question, which is not read again.
#[derive(Clone, Debug, Deserialize)]
struct AnsweredReview {
    #[serde(default)]
    status: Option<ReviewWords>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct ReviewWords {
    allowed: bool,
    denied: bool,
}

/// Whether a user may do something. Only an answer that allows it and does not deny it counts.
pub async fn may(
    client: &Client,
    policy: &RetryPolicy,
    who: Reviewed<'_>,
    what: &ResourceAttributes,
) -> Result<bool, CallError> {
    let review = Review {
        api_version: &SubjectAccessReview::api_version(&()),
        kind: &SubjectAccessReview::kind(&()),
        spec: ReviewSpec {
            who,
            resource_attributes: what,
        },
    };
    let path = SubjectAccessReview::url_path(&(), None);
    let answer: AnsweredReview = policy
        .call("review what somebody may do", || async {
            // Made for each attempt: it lives no longer than that.
            let body = serde_json::to_vec(&review).map_err(kube::Error::SerdeError)?;
            let request = Request::new(path.as_str()).create(&PostParams::default(), body);
            let request = request.map_err(kube::Error::BuildRequest)?;
            client.request(request).await
        })
        .await?;
    let ReviewWords { allowed, denied } = answer.status.unwrap_or_default();
    Ok(allowed && !denied)
}

/// The prefix of namespace and name in the user name of a service account.
const ACCOUNT: &str = "system:serviceaccount:";
/// The group of all service accounts.
pub const ACCOUNTS: &str = "system:serviceaccounts";

/// The user name of a service account.
#[must_use]
pub fn account_user(namespace: &str, name: &str) -> String {
    format!("{ACCOUNT}{namespace}:{name}")
}

/// Namespace and name of the service account with this user name, if it is that of one.
#[must_use]
pub fn account_of(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix(ACCOUNT)?.split_once(':')
}

/// The group of the service accounts of a namespace.
#[must_use]
pub fn account_group(namespace: &str) -> String {
    format!("{ACCOUNTS}:{namespace}")
}

/// The namespace whose service accounts are this group, if it is such a group.
#[must_use]
pub fn accounts_of(group: &str) -> Option<&str> {
    group.strip_prefix(ACCOUNTS)?.strip_prefix(':')
}

/// A service account, with the groups that it is in.
#[must_use]
pub fn service_account(namespace: &str, name: &str) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: Some(account_user(namespace, name)),
        groups: Some(vec![
            ACCOUNTS.to_owned(),
            account_group(namespace),
            "system:authenticated".to_owned(),
        ]),
        ..SubjectAccessReviewSpec::default()
    }
}

/// The answer of the API server about a token for an audience.
pub async fn review_token(
    client: &Client,
    policy: &RetryPolicy,
    token: &str,
    audience: &str,
) -> Result<TokenReviewStatus, CallError> {
    let review = TokenReview {
        spec: TokenReviewSpec {
            audiences: Some(vec![audience.to_owned()]),
            token: Some(token.to_owned()),
        },
        ..TokenReview::default()
    };
    let api: Api<TokenReview> = Api::all(client.clone());
    let post = PostParams::default();
    let answer = policy.call("review a token", || api.create(&post, &review));
    Ok(answer.await?.status.unwrap_or_default())
}

/// Why a token has no owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NoOwner {
    /// The API server does not know the token, or could not tell.
    #[error("the token is not valid")]
    NotAuthenticated,
    /// The token is for another audience.
    #[error("the token is for another audience")]
    Audience,
    /// The owner has no name.
    #[error("the owner of the token has no name")]
    Nameless,
}

/// The owner of a token, from the answer of the API server. A server that does not know about audiences
/// leaves them out, and would accept any token.
pub fn owner(review: TokenReviewStatus, audience: &str) -> Result<UserInfo, NoOwner> {
    let TokenReviewStatus {
        authenticated,
        audiences,
        error,
        user,
    } = review;
    if authenticated != Some(true) || error.is_some_and(|error| !error.is_empty()) {
        return Err(NoOwner::NotAuthenticated);
    }
    let audiences = audiences.unwrap_or_default();
    if !audiences.iter().any(|one| one == audience) {
        return Err(NoOwner::Audience);
    }
    let user = user.ok_or(NoOwner::NotAuthenticated)?;
    match user.username.as_deref() {
        None | Some("") => Err(NoOwner::Nameless),
        Some(_) => Ok(user),
    }
}

/// The value of a claim that has exactly one, and not an empty one.
#[must_use]
pub fn only_claim<'a>(user: &'a UserInfo, key: &str) -> Option<&'a str> {
    match user.extra.as_ref()?.get(key)?.as_slice() {
        [value] if !value.is_empty() => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use serde_json::json;

    use super::*;
    use crate::fake_api;

    #[test]
    fn a_question_names_what_is_known_of_a_user_and_nothing_else() {
        let asked = |user: &UserInfo| serde_json::to_value(Reviewed::from(user)).unwrap();
        assert_eq!(asked(&UserInfo::default()), json!({}));
        let user = json!({"username": "ada", "uid": "7", "groups": ["dev"], "extra": {"k": ["v"]}});
        let user: UserInfo = serde_json::from_value(user).unwrap();
        let known = json!({"user": "ada", "uid": "7", "groups": ["dev"], "extra": {"k": ["v"]}});
        assert_eq!(asked(&user), known);
        let account = service_account("team", "builder");
        let asked = serde_json::to_value(Reviewed::from(&account)).unwrap();
        assert_eq!(asked, serde_json::to_value(&account).unwrap());
    }

    #[test]
    fn an_account_is_asked_about_with_its_user_name_and_its_groups() {
        let account = serde_json::to_value(service_account("team", "builder")).unwrap();
        let groups = [
            "system:serviceaccounts",
            "system:serviceaccounts:team",
            "system:authenticated",
        ];
        let user = "system:serviceaccount:team:builder";
        assert_eq!(account, json!({"user": user, "groups": groups}));
        assert_eq!(groups.map(accounts_of), [None, Some("team"), None]);
        for odd in ["system:serviceaccountsteam", user, "team"] {
            assert_eq!(accounts_of(odd), None, "{odd}");
        }
    }

    #[tokio::test]
    async fn a_token_is_reviewed_for_its_audience_and_no_answer_is_no_owner() {
        let status =
            json!({"authenticated": true, "audiences": [OURS], "user": {"username": "ada"}});
        for (status, expected) in [
            (status, Ok(Some("ada".to_owned()))),
            (json!(null), Err(NoOwner::NotAuthenticated)),
        ] {
            let client = fake_api::client(move |request| {
                let status = status.clone();
                async move {
                    let path = request.uri().path().to_owned();
                    assert_eq!(path, "/apis/authentication.k8s.io/v1/tokenreviews");
                    let asked = fake_api::body(request).await;
                    let mut review: serde_json::Value = serde_json::from_slice(&asked).unwrap();
                    let spec = json!({"token": "secret", "audiences": [OURS]});
                    assert_eq!(review["spec"], spec);
                    review["status"] = status;
                    fake_api::answer(StatusCode::CREATED, review.to_string())
                }
            });
            let calls = RetryPolicy::default();
            let told = review_token(&client, &calls, "secret", OURS).await.unwrap();
            assert_eq!(owner(told, OURS).map(|it| it.username), expected);
        }
    }

    const OURS: &str = "ours";

    #[test]
    fn a_token_has_an_owner_only_when_everything_says_so() {
        type Change = fn(&mut TokenReviewStatus);
        let good = TokenReviewStatus {
            authenticated: Some(true),
            audiences: Some(vec![OURS.to_owned()]),
            error: None,
            user: Some(UserInfo {
                username: Some("somebody".to_owned()),
                ..UserInfo::default()
            }),
        };
        assert!(owner(good.clone(), OURS).is_ok());
        let changes: [Change; 9] = [
            |it| it.authenticated = Some(false),
            |it| it.authenticated = None,
            |it| it.audiences = None,
            |it| it.audiences = Some(vec![]),
            |it| it.audiences = Some(vec!["other".to_owned()]),
            |it| it.error = Some("odd".to_owned()),
            |it| it.user = None,
            |it| it.user.as_mut().unwrap().username = None,
            |it| it.user.as_mut().unwrap().username = Some(String::new()),
        ];
        for change in changes {
            let mut status = good.clone();
            change(&mut status);
            assert!(owner(status.clone(), OURS).is_err(), "{status:?}");
        }
    }

    #[test]
    fn a_claim_counts_when_it_has_one_value() {
        let user = |values: &[&str]| UserInfo {
            extra: Some(
                [(
                    POD_UID.to_owned(),
                    values.iter().map(|it| (*it).to_owned()).collect(),
                )]
                .into(),
            ),
            ..UserInfo::default()
        };
        assert_eq!(only_claim(&user(&["u"]), POD_UID), Some("u"));
        assert_eq!(only_claim(&user(&["u"]), POD_NAME), None);
        assert_eq!(only_claim(&UserInfo::default(), POD_UID), None);
        for odd in [&[][..], &[""], &["u", "u"]] {
            assert_eq!(only_claim(&user(odd), POD_UID), None);
        }
    }

    #[test]
    fn the_user_name_of_an_account_has_two_parts() {
        assert_eq!(
            account_of(&account_user("team", "builder")),
            Some(("team", "builder"))
        );
        for odd in [
            "",
            "team:builder",
            "system:serviceaccount:team",
            "system:node:a:b",
        ] {
            assert_eq!(account_of(odd), None, "{odd}");
        }
    }
}
