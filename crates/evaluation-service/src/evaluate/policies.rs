//! Parsed policies: controllers ask about every pod of a policy.
//!
//! Invariant: a policy is found for exactly the bytes from which it was read. Only readable policies are kept. The
//! problems of an unreadable one are found again each time.

use std::sync::Arc;

use connectors_api::judge::GatedPolicy;
use service_kit::cache::{Bounds, Cache};

use super::{namespace_in, policy_in};
use crate::error::Refused;

/// The longest policy that is kept.
const LONGEST: usize = 64 * 1024;
/// The approximate memory of a parsed policy, as a multiple of its text.
const READ: usize = 8;

/// Policies, as they were read.
#[derive(Debug)]
pub struct ParsedPolicies(Cache<Vec<u8>, Arc<GatedPolicy>>);

impl Default for ParsedPolicies {
    fn default() -> Self {
        Self(Cache::new(Bounds {
            entries: 512,
            bytes: 4 * 1024 * 1024,
            age: None,
        }))
    }
}

/// The policy of a question.
#[derive(Debug)]
pub enum FoundPolicy {
    /// It was read before.
    Known(Arc<GatedPolicy>),
    /// It is JSON. Only the namespace in it is known.
    New(String),
}

impl ParsedPolicies {
    /// Finds a policy without reading it: reading may take much time and memory, and the caller is not authorized
    /// yet.
    pub fn find(&self, text: &[u8]) -> Result<FoundPolicy, Refused> {
        match self.0.get(text) {
            Some(policy) => Ok(FoundPolicy::Known(policy)),
            None => namespace_in(text).map(FoundPolicy::New),
        }
    }

    /// Keeps a policy that was read from this text.
    pub fn keep(&self, text: &[u8], policy: Arc<GatedPolicy>) {
        if text.len() <= LONGEST {
            self.0.put(text.to_owned(), policy, (READ + 1) * text.len());
        }
    }
}

impl FoundPolicy {
    /// Whether it was not read before.
    pub(crate) const fn is_new(&self) -> bool {
        matches!(self, Self::New(_))
    }

    /// The namespace in which the caller needs the permission.
    #[must_use]
    pub fn namespace(&self) -> String {
        match self {
            Self::Known(policy) => policy.namespace().to_owned(),
            Self::New(namespace) => namespace.clone(),
        }
    }

    /// The policy itself, from the text with which it was searched.
    pub fn read(self, text: &[u8]) -> Result<Arc<GatedPolicy>, Refused> {
        match self {
            Self::Known(policy) => Ok(policy),
            Self::New(namespace) => {
                let policy = policy_in(&namespace, text)?;
                Ok(Arc::new(GatedPolicy::read(&policy)?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use connectors_api::judge::JudgeError;
    use serde_json::json;

    use super::*;

    fn text(name: &str) -> Vec<u8> {
        let check = json!({
            "name": "gate",
            "selector": {"labels": {"run": "r"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}},
        });
        let policy = json!({
            "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
            "metadata": {"name": name, "namespace": "tools"},
            "spec": {"checkGrantedPermission": {"spec": {
                "checks": [check], "permissions": {"roleTemplate": {"rules": []}},
            }}},
        });
        policy.to_string().into()
    }

    fn keep(policies: &ParsedPolicies, text: &[u8]) -> Arc<GatedPolicy> {
        let found = policies.find(text).unwrap();
        let policy = found.read(text).unwrap();
        policies.keep(text, Arc::clone(&policy));
        policy
    }

    fn known(policies: &ParsedPolicies, text: &[u8]) -> Option<Arc<GatedPolicy>> {
        match policies.find(text).unwrap() {
            FoundPolicy::Known(policy) => Some(policy),
            FoundPolicy::New(_) => None,
        }
    }

    #[test]
    fn the_same_bytes_are_read_once_and_say_where_the_policy_is() {
        let policies = ParsedPolicies::default();
        assert!(policies.find(&text("a")).unwrap().is_new());
        let policy = keep(&policies, &text("a"));
        assert!(Arc::ptr_eq(&known(&policies, &text("a")).unwrap(), &policy));
        assert!(!policies.find(&text("a")).unwrap().is_new());
        // Its text is kept beside what was read from it.
        assert_eq!(policies.0.size(), (1, text("a").len() * 9));
        assert_eq!(policies.find(&text("a")).unwrap().namespace(), "tools");
        assert_eq!(policies.find(&text("b")).unwrap().namespace(), "tools");
    }

    #[test]
    fn any_other_byte_is_another_policy() {
        let policies = ParsedPolicies::default();
        keep(&policies, &text("a"));
        assert!(known(&policies, &text("b")).is_none());
        assert!(known(&policies, &[text("a"), b" ".to_vec()].concat()).is_none());
    }

    #[test]
    fn a_policy_is_in_one_namespace_for_whoever_reads_it() {
        let policies = ParsedPolicies::default();
        for (odd, namespace) in [
            (
                r#"{"metadata":{"namespace":"a"},"metadata":{"namespace":"tools"}}"#,
                "",
            ),
            (r#"{"metadata":{"namespace":"a","namespace":"tools"}}"#, ""),
            (r#"{"metadata":[{"namespace":"tools"}]}"#, ""),
            (r#"{"metadata":["tools"]}"#, "tools"),
            (r#"[{"namespace":"tools"}]"#, "tools"),
            (r#"{"metadata":{"namespace":["tools"]}}"#, ""),
            (r#"{"metadata":{"namespace":"tools"}}"#, "tools"),
            ("null", ""),
        ] {
            let found = policies.find(odd.as_bytes()).unwrap();
            assert_eq!(found.namespace(), namespace, "{odd}");
            assert!(found.read(odd.as_bytes()).is_err(), "{odd}");
        }
        for broken in [&b""[..], b"{", br#"{"metadata":"#, b"{} {}", b"\"\xff\""] {
            assert!(policies.find(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_not_kept_and_a_long_policy_neither() {
        let policies = ParsedPolicies::default();
        assert!(policies.find(b"{").is_err());
        let found = policies.find(b"{}").unwrap();
        let error = found.read(b"{}").unwrap_err();
        assert!(matches!(error, Refused::Judge(JudgeError::PolicyKind)));
        let long = text(&"a".repeat(LONGEST));
        keep(&policies, &long);
        assert!(known(&policies, &long).is_none());
    }
}
