//! The proof of the calling pod. The kubelet's statements about the pod are compared with the review of the pod's own
//! token. Neither alone is trusted.
//!
//! A delivered volume is not proven again when the kubelet republishes it: its path is bound to the proven UID, and its
//! own record, which no pod can write, names its owner.

use connectors_api::PodIdentity;
use k8s_openapi::api::authentication::v1::TokenReviewStatus;
use service_kit::reviews::{
    NODE_NAME, NoOwner, POD_NAME, POD_UID, account_user, only_claim, owner,
};
use thiserror::Error;

use crate::volume::{AUDIENCE, PodTokenError};

/// Why the caller is not the claimed pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum CallerError {
    /// There is no usable token.
    #[error(transparent)]
    Token(#[from] PodTokenError),
    /// The API server does not know the token, or its pod is gone.
    #[error("the pod's token is not valid")]
    NotAuthenticated,
    /// The token is for another audience.
    #[error("the pod's token is not for audience {AUDIENCE}")]
    Audience,
    /// The token names another account, pod or node, or none.
    #[error("the pod's token is not of this {0}")]
    Other(&'static str),
}

impl From<NoOwner> for CallerError {
    fn from(reason: NoOwner) -> Self {
        match reason {
            NoOwner::NotAuthenticated => Self::NotAuthenticated,
            NoOwner::Audience => Self::Audience,
            NoOwner::Nameless => Self::Other("service account"),
        }
    }
}

/// Compares the answer about a token with the pod of the call.
pub(crate) fn prove(
    review: TokenReviewStatus,
    pod: &PodIdentity,
    node: &str,
) -> Result<(), CallerError> {
    let user = owner(review, AUDIENCE)?;
    if user.username != Some(account_user(&pod.namespace, &pod.service_account)) {
        return Err(CallerError::Other("service account"));
    }
    for (key, expected, what) in [
        (POD_UID, pod.uid.as_str(), "pod"),
        (POD_NAME, pod.name.as_str(), "pod"),
        (NODE_NAME, node, "node"),
    ] {
        if only_claim(&user, key) != Some(expected) {
            return Err(CallerError::Other(what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod() -> PodIdentity {
        PodIdentity {
            namespace: "shop".to_owned(),
            name: "deploy-1".to_owned(),
            uid: "uid-1".to_owned(),
            service_account: "builder".to_owned(),
        }
    }

    fn review() -> Value {
        json!({
            "authenticated": true,
            "audiences": ["connectors.alauda.io"],
            "user": {
                "username": "system:serviceaccount:shop:builder",
                "extra": {
                    "authentication.kubernetes.io/pod-name": ["deploy-1"],
                    "authentication.kubernetes.io/pod-uid": ["uid-1"],
                    "authentication.kubernetes.io/node-name": ["node-1"],
                },
            },
        })
    }

    fn proven(review: Value) -> Result<(), CallerError> {
        prove(serde_json::from_value(review).unwrap(), &pod(), "node-1")
    }

    #[test]
    fn a_token_of_this_pod_on_this_node_proves_it() {
        assert_eq!(proven(review()), Ok(()));
    }

    #[test]
    fn everything_that_is_absent_empty_or_different_is_refused() {
        let other = |what| Err(CallerError::Other(what));
        let cases = [
            (
                "/authenticated",
                Err(CallerError::NotAuthenticated),
                json!(false),
            ),
            (
                "/audiences",
                Err(CallerError::Audience),
                json!(["https://kubernetes.default.svc"]),
            ),
            ("/audiences", Err(CallerError::Audience), json!([])),
            (
                "/user/username",
                other("service account"),
                json!("system:serviceaccount:shop:other"),
            ),
            (
                "/user/username",
                other("service account"),
                json!("system:serviceaccount:other:builder"),
            ),
            ("/user/username", other("service account"), json!("builder")),
            (
                "/user/extra/authentication.kubernetes.io~1pod-uid",
                other("pod"),
                json!(["uid-2"]),
            ),
            (
                "/user/extra/authentication.kubernetes.io~1pod-uid",
                other("pod"),
                json!([]),
            ),
            (
                "/user/extra/authentication.kubernetes.io~1pod-uid",
                other("pod"),
                json!(["uid-1", "uid-2"]),
            ),
            (
                "/user/extra/authentication.kubernetes.io~1pod-name",
                other("pod"),
                json!(["deploy-2"]),
            ),
            (
                "/user/extra/authentication.kubernetes.io~1node-name",
                other("node"),
                json!(["node-2"]),
            ),
        ];
        for (pointer, expected, value) in cases {
            let mut changed = review();
            *changed.pointer_mut(pointer).unwrap() = value;
            assert_eq!(proven(changed), expected, "{pointer}");
            let mut absent = review();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            let parent = absent.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            parent.remove(&field.replace("~1", "/")).unwrap();
            assert_eq!(proven(absent), expected, "{pointer} absent");
        }
        for absent in ["user", "extra"] {
            let mut changed = review();
            match absent {
                "user" => changed.as_object_mut().unwrap().remove("user"),
                _ => changed["user"].as_object_mut().unwrap().remove("extra"),
            };
            assert!(proven(changed).is_err(), "{absent}");
        }
        assert_eq!(proven(json!({})), Err(CallerError::NotAuthenticated));
        let mut broken = review();
        broken["error"] = json!("the authenticator broke");
        assert_eq!(proven(broken), Err(CallerError::NotAuthenticated));
    }

    /// Names that begin or end like the right one, or differ in case, are other names.
    #[test]
    fn refuses_a_token_of_a_pod_whose_names_are_only_alike() {
        let alike = |right: &str| {
            let shorter = right[..right.len() - 1].to_owned();
            let rest = right[1..].to_owned();
            let first_upper = right.replacen(|it: char| it.is_ascii_lowercase(), "X", 1);
            let upper = right.to_ascii_uppercase();
            let spaced = format!("{right} ");
            let longer = [
                format!("{right}0"),
                format!("0{right}"),
                format!("{right}-{right}"),
            ];
            let others = [shorter, rest, first_upper, upper, spaced, String::new()];
            others.into_iter().chain(longer)
        };
        for claim in ["pod-name", "pod-uid", "node-name"] {
            let pointer = format!("/user/extra/authentication.kubernetes.io~1{claim}/0");
            let mut changed = review();
            let right = changed
                .pointer(&pointer)
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned();
            for other in alike(&right) {
                *changed.pointer_mut(&pointer).unwrap() = json!(other);
                assert!(proven(changed.clone()).is_err(), "{claim} {other:?}");
            }
        }
        for part in ["shop", "builder", "system:serviceaccount"] {
            for other in alike(part) {
                let mut changed = review();
                let user = "system:serviceaccount:shop:builder".replace(part, &other);
                changed["user"]["username"] = json!(user);
                assert!(proven(changed).is_err(), "{user}");
            }
        }
        for other in alike("connectors.alauda.io") {
            let mut changed = review();
            changed["audiences"] = json!([other]);
            assert!(proven(changed).is_err(), "{other:?}");
        }
    }
}
