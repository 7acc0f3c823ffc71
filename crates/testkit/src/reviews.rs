//! Access reviews and token reviews.

use authz::{ResourceRequest, Target, User};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    caller::Caller,
    meta,
    refusal::{Cause, Reason, Refusal},
    request::Resource,
    state::State,
    store::Key,
};

/// The audience of tokens for the API server itself.
const OWN_AUDIENCE: &str = "https://kubernetes.default.svc.cluster.local";
/// A bound token remains valid this long after its pod was marked for deletion, as long as the pod exists.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// The properties of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenFacts {
    /// The user's name.
    pub user: String,
    /// The user's UID.
    pub uid: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// The audiences. None: the API server only.
    pub audiences: Vec<String>,
    /// Name and UID of the pod that it is bound to, in the namespace of the service account.
    pub pod: Option<(String, String)>,
    /// The node of that pod.
    pub node: Option<String>,
}

/// 2100-01-01T00:00:00Z. Whether a token has expired is the concern of those who look at it without a review.
const EXPIRES: i64 = 4_102_444_800;

/// The text of a token: header, claims and signature, of which only the claims say anything.
pub(crate) fn text(facts: &TokenFacts, serial: u64) -> String {
    let audiences = if facts.audiences.is_empty() {
        vec![OWN_AUDIENCE.to_owned()]
    } else {
        facts.audiences.clone()
    };
    let claims =
        json!({"aud": audiences, "exp": EXPIRES, "jti": serial.to_string(), "sub": facts.user});
    let part = |text: String| URL_SAFE_NO_PAD.encode(text);
    format!(
        "{}.{}.{}",
        part(json!({"alg": "none"}).to_string()),
        part(claims.to_string()),
        part(serial.to_string())
    )
}

/// True for a review, which is answered and not stored.
pub(crate) fn is_review(on: &Resource) -> bool {
    matches!(
        (on.group.as_str(), on.version.as_str(), on.plural.as_str()),
        (
            "authorization.k8s.io",
            "v1",
            "subjectaccessreviews" | "localsubjectaccessreviews" | "selfsubjectaccessreviews"
        ) | (
            "authentication.k8s.io",
            "v1",
            "tokenreviews" | "selfsubjectreviews"
        )
    )
}

/// Answers a review.
pub(crate) fn answer(
    state: &State,
    caller: &Caller,
    on: &Resource,
    body: &Value,
) -> Result<Value, Refusal> {
    let (kind, status) = match on.plural.as_str() {
        "tokenreviews" => ("TokenReview", token_status(state, body)?),
        "selfsubjectreviews" => {
            let user = json!({"username": caller.user, "groups": caller.groups});
            ("SelfSubjectReview", json!({ "userInfo": user }))
        }
        "selfsubjectaccessreviews" => {
            let status = access_status(state, &caller.as_user(), body)?;
            ("SelfSubjectAccessReview", status)
        }
        "localsubjectaccessreviews" => {
            let namespace = body["spec"]["resourceAttributes"]["namespace"].as_str();
            if namespace != Some(&on.namespace) {
                let field = "spec.resourceAttributes.namespace";
                return Err(invalid(
                    Cause::Invalid,
                    field,
                    "must match metadata.namespace",
                ));
            }
            let status = access_status(state, &subject(body)?, body)?;
            ("LocalSubjectAccessReview", status)
        }
        _ => {
            let status = access_status(state, &subject(body)?, body)?;
            ("SubjectAccessReview", status)
        }
    };
    let mut answer = body.clone();
    answer["kind"] = kind.into();
    answer["apiVersion"] = format!("{}/{}", on.group, on.version).into();
    meta::of(&mut answer);
    answer["status"] = status;
    Ok(answer)
}

fn invalid(cause: Cause, field: &str, why: &str) -> Refusal {
    let options = crate::kind::Kind {
        group: "authorization.k8s.io".to_owned(),
        version: "v1".to_owned(),
        kind: "SubjectAccessReview".to_owned(),
        plural: "subjectaccessreviews".to_owned(),
        namespaced: false,
        status: false,
    };
    Refusal::invalid(&options, "", cause, field, why)
}

fn subject(body: &Value) -> Result<User, Refusal> {
    let spec = &body["spec"];
    let user = User {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        groups: Vec::deserialize(&spec["groups"]).unwrap_or_default(),
    };
    if user.name.is_empty() && user.groups.is_empty() {
        let why = "at least one of user or group must be specified";
        return Err(invalid(Cause::Invalid, "spec.user", why));
    }
    Ok(user)
}

fn access_status(state: &State, user: &User, body: &Value) -> Result<Value, Refusal> {
    let object = &body["spec"]["resourceAttributes"];
    let path = &body["spec"]["nonResourceAttributes"];
    if object.is_object() == path.is_object() {
        let field = "spec.resourceAttributes";
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        return Err(invalid(Cause::Invalid, field, why));
    }
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (verb, target) = if object.is_object() {
        let request = ResourceRequest {
            group: text("group"),
            resource: text("resource"),
            subresource: text("subresource"),
            namespace: text("namespace"),
            name: text("name"),
            ..ResourceRequest::default()
        };
        (text("verb"), Target::Resource(request))
    } else {
        let text = |field: &str| path[field].as_str().unwrap_or_default();
        (text("verb"), Target::Path(text("path")))
    };
    let verdict = state.store.rbac.verdict(user, verb, target);
    let mut status = json!({ "allowed": verdict.is_allowed() });
    if !verdict.reason.is_empty() {
        status["reason"] = verdict.reason.into();
    }
    Ok(status)
}

fn token_status(state: &State, body: &Value) -> Result<Value, Refusal> {
    let spec = &body["spec"];
    let token = spec["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        let message = "token is required for TokenReview in authentication";
        return Err(Refusal::new(Reason::BadRequest, message));
    }
    let asked: Vec<String> = Vec::deserialize(&spec["audiences"]).unwrap_or_default();
    let unknown = |error: &str| Ok(json!({ "user": {}, "error": error }));
    let Some(facts) = state.tokens.get(token) else {
        return unknown("invalid bearer token");
    };
    if !is_alive(state, facts) {
        return unknown("[invalid bearer token, service account token has been invalidated]");
    }
    let own = [OWN_AUDIENCE.to_owned()];
    let of_token = if facts.audiences.is_empty() {
        &own
    } else {
        &*facts.audiences
    };
    let wanted = if asked.is_empty() { &own } else { &*asked };
    let shared: Vec<_> = wanted.iter().filter(|it| of_token.contains(it)).collect();
    if shared.is_empty() {
        return unknown("[invalid bearer token, token audiences do not match]");
    }
    let mut user = json!({ "username": facts.user, "groups": facts.groups });
    if !facts.uid.is_empty() {
        user["uid"] = facts.uid.clone().into();
    }
    let mut extra = json!({});
    if let Some((name, uid)) = &facts.pod {
        extra["authentication.kubernetes.io/pod-name"] = json!([name]);
        extra["authentication.kubernetes.io/pod-uid"] = json!([uid]);
    }
    if let Some(node) = &facts.node {
        extra["authentication.kubernetes.io/node-name"] = json!([node]);
    }
    if extra != json!({}) {
        user["extra"] = extra;
    }
    Ok(json!({ "authenticated": true, "user": user, "audiences": shared }))
}

/// True when the pod that a token is bound to still exists.
fn is_alive(state: &State, facts: &TokenFacts) -> bool {
    let Some((name, uid)) = &facts.pod else {
        return true;
    };
    let account = facts.user.strip_prefix("system:serviceaccount:");
    let namespace = account.and_then(|it| it.split_once(':'));
    let key = Key {
        group: String::new(),
        plural: "pods".to_owned(),
        namespace: namespace.map_or("", |(namespace, _)| namespace).to_owned(),
        name: name.clone(),
    };
    let Some(pod) = state.store.get(&key).filter(|it| meta::uid(it) == uid) else {
        return false;
    };
    let deleted = meta::text(pod, "deletionTimestamp").parse::<Timestamp>();
    deleted.map_or(true, |at| state.store.clock.wall() < at + LEEWAY)
}
