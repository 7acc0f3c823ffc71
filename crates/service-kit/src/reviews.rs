//! What the API server says that somebody may do.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    authentication::v1::UserInfo,
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Client, Resource, api::PostParams, core::Request};
use serde::{Deserialize, Serialize};

use crate::retry::{CallError, Policy};

/// Where the API server says to which pod a service account token is bound: its name.
pub const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
/// The UID of the pod.
pub const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
/// The node of the pod.
pub const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// Who is asked about. Groups may be many, so they are borrowed.
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
    spec: Spec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(flatten)]
    who: Reviewed<'a>,
    resource_attributes: &'a ResourceAttributes,
}

/// The answer repeats the question, which is not read again.
#[derive(Clone, Debug, Deserialize)]
struct Answer {
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize)]
struct Status {
    #[serde(default)]
    allowed: bool,
}

/// Whether somebody may do something. Only a plain yes is one.
pub async fn may(
    client: &Client,
    policy: &Policy,
    who: Reviewed<'_>,
    what: &ResourceAttributes,
) -> Result<bool, CallError> {
    let review = Review {
        api_version: &SubjectAccessReview::api_version(&()),
        kind: &SubjectAccessReview::kind(&()),
        spec: Spec {
            who,
            resource_attributes: what,
        },
    };
    let path = SubjectAccessReview::url_path(&(), None);
    let answer: Answer = policy
        .call("review what somebody may do", || async {
            // Made for each attempt: it lives no longer than that.
            let body = serde_json::to_vec(&review).map_err(kube::Error::SerdeError)?;
            let request = Request::new(path.as_str()).create(&PostParams::default(), body);
            let request = request.map_err(kube::Error::BuildRequest)?;
            client.request(request).await
        })
        .await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// A service account, with the groups that it is in.
#[must_use]
pub fn service_account(namespace: &str, name: &str) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: Some(format!("system:serviceaccount:{namespace}:{name}")),
        groups: Some(vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ]),
        ..SubjectAccessReviewSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
}
