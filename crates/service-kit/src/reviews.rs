//! What the API server says that somebody may do.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::{Api, Client, api::PostParams};

use crate::retry::{CallError, Policy};

/// Whether somebody may do something. Only a plain yes is one.
pub async fn may(
    client: &Client,
    policy: &Policy,
    who: SubjectAccessReviewSpec,
    what: ResourceAttributes,
) -> Result<bool, CallError> {
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            resource_attributes: Some(what),
            ..who
        },
        ..SubjectAccessReview::default()
    };
    let api: Api<SubjectAccessReview> = Api::all(client.clone());
    let params = PostParams::default();
    let answer = policy
        .call("review what somebody may do", || {
            api.create(&params, &review)
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
