//! Who may ask, and since when: all that each identity is, its tokens, its rights.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::clock;

/// Identities that differ in a part: the same user name, and another group, UID or extra.
pub(super) fn identities() -> Vec<Value> {
    let user = |name: &str, uid: &str, groups: &[&str], pod: &str| {
        json!({
            "username": name, "uid": uid, "groups": groups,
            "extra": {"authentication.kubernetes.io/pod-uid": [pod]},
        })
    };
    let node = "system:serviceaccount:connectors-system:csi-node";
    vec![
        user(node, "1", &["system:serviceaccounts"], "node-1"),
        user(node, "1", &["system:serviceaccounts"], "node-2"),
        user("ci", "2", &["admins"], "ci"),
        user("ci", "2", &["admins-2"], "ci"),
        user("ci", "3", &["admins"], "ci"),
        user("ci-1", "2", &["admins"], "ci"),
    ]
}

/// Each identity has a token, and one more is not known at first.
pub(super) const TOKENS: usize = 7;

/// Who is whom, and may do what, from moment to moment.
#[derive(Default)]
pub(super) struct Callers {
    identities: Vec<Value>,
    tokens: Vec<(Timestamp, usize, Option<usize>)>,
    rights: Vec<(Timestamp, Right, bool)>,
}

/// To create evaluations in a namespace, or only those of mounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Right {
    pub(super) identity: usize,
    pub(super) namespace: String,
    pub(super) is_everything: bool,
}

/// The text of a token. Nothing in it says whose it is.
pub(super) fn token(number: usize) -> String {
    let exp = 4_000_000_000_u64;
    let claims =
        json!({"aud": ["connectors-evaluation"], "exp": exp, "sub": format!("t-{number}")});
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims.to_string()))
}

impl Callers {
    pub(super) fn new() -> Self {
        let identities = identities();
        let tokens = 0..identities.len();
        let tokens = tokens.map(|it| (Timestamp::MIN, it, Some(it))).collect();
        Self {
            identities,
            tokens,
            rights: Vec::new(),
        }
    }

    pub(super) fn belongs(&mut self, token: usize, identity: Option<usize>) {
        self.tokens.push((clock::now(), token, identity));
    }

    pub(super) fn allow(&mut self, right: Right, is_allowed: bool) {
        self.rights.push((clock::now(), right, is_allowed));
    }

    /// Whose a token is between two moments: each that it was.
    pub(super) fn owners(
        &self,
        token: usize,
        from: Timestamp,
        to: Timestamp,
    ) -> Vec<Option<usize>> {
        let all = self.tokens.iter().filter(|it| it.1 == token);
        during(all.map(|(at, _, owner)| (*at, *owner)), None, from, to)
    }

    /// Whether a right was held, at each moment between two.
    pub(super) fn held(&self, right: &Right, from: Timestamp, to: Timestamp) -> Vec<bool> {
        let all = self.rights.iter().filter(|it| it.1 == *right);
        during(all.map(|(at, _, is)| (*at, *is)), false, from, to)
    }

    /// The status of a `TokenReview` now.
    pub(super) fn review_token(&self, text: &str) -> Value {
        let number = (0..TOKENS).find(|it| token(*it) == text);
        let now = clock::now();
        let owner = number.and_then(|it| *self.owners(it, now, now).last()?);
        match owner {
            Some(owner) => json!({
                "authenticated": true, "audiences": ["connectors-evaluation"], "user": self.identities[owner],
            }),
            None => json!({"authenticated": false}),
        }
    }

    /// The status of a `SubjectAccessReview` now. Only an identity as a whole is one.
    pub(super) fn review_access(&self, spec: &Value) -> Value {
        let user = json!({
            "username": spec["user"], "uid": spec["uid"], "groups": spec["groups"], "extra": spec["extra"],
        });
        let attributes = &spec["resourceAttributes"];
        let is_about = attributes["verb"] == "create"
            && attributes["group"] == "connectors.alauda.io"
            && attributes["resource"] == "evaluations"
            && [json!(null), json!("mount")].contains(&attributes["subresource"]);
        let identity = self.identities.iter().position(|it| *it == user);
        let is_allowed = identity.filter(|_| is_about).is_some_and(|identity| {
            let right = Right {
                identity,
                namespace: attributes["namespace"].as_str().unwrap().to_owned(),
                is_everything: attributes["subresource"].is_null(),
            };
            let now = clock::now();
            self.held(&right, now, now).last() == Some(&true)
        });
        json!({"allowed": is_allowed})
    }

    /// Who counts as one caller: a user name together with the pod of its token.
    pub(super) fn place(&self, identity: usize) -> (Value, Value) {
        let user = &self.identities[identity];
        (user["username"].clone(), user["extra"].clone())
    }
}

/// What something was between two moments, both included.
fn during<T: Copy>(
    changes: impl Iterator<Item = (Timestamp, T)>,
    first: T,
    from: Timestamp,
    to: Timestamp,
) -> Vec<T> {
    let mut was = vec![first];
    for (at, value) in changes {
        if at < from {
            was.clear();
        }
        if at <= to {
            was.push(value);
        }
    }
    was
}
