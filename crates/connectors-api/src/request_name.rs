//! The name of a request that the node plugin creates. It is the same for the same tuple, so that retries and
//! concurrent creators use one object.

use sha2::{Digest, Sha256};

use crate::{Permission, hex};

/// The subject of one decision. The connector is in the request's namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestIdentity<'a> {
    /// Namespace of the ServiceAccount.
    pub subject_namespace: &'a str,
    /// Name of the ServiceAccount.
    pub subject_name: &'a str,
    /// Name of the connector.
    pub connector: &'a str,
    /// The requested permission.
    pub permission: Permission,
    /// UID of the pod.
    pub pod_uid: &'a str,
}

/// A possible other form of names must not collide with this one.
const FORM: &str = "access-request/v1";

/// The length of the digest in the name: long enough that no attacker can produce a given one.
const DIGEST_BYTES: usize = 16;

/// So that prefix, hyphen and digest together fit into a label value.
const LONGEST_PREFIX: usize = 63 - 1 - 2 * DIGEST_BYTES;

impl RequestIdentity<'_> {
    /// The name: as much of the connector's name as fits, for people, and a digest of the whole tuple.
    #[must_use]
    pub fn name(&self) -> String {
        let Self {
            subject_namespace,
            subject_name,
            connector,
            permission,
            pod_uid,
        } = self;
        let mut digest = Sha256::new();
        for field in [
            FORM,
            subject_namespace,
            subject_name,
            connector,
            permission.as_str(),
            pod_uid,
        ] {
            // The length prefix separates the fields, regardless of their content.
            digest.update(u64::try_from(field.len()).unwrap_or(u64::MAX).to_be_bytes());
            digest.update(field);
        }
        let digest = hex(&digest.finalize()[..DIGEST_BYTES]);
        format!("{}{digest}", prefix(connector))
    }
}

/// Ends with a hyphen, or is empty.
fn prefix(connector: &str) -> String {
    let readable: String = connector
        .chars()
        .map(|letter| {
            if letter.is_ascii_lowercase() || letter.is_ascii_digit() {
                letter
            } else {
                '-'
            }
        })
        .take(LONGEST_PREFIX)
        .collect();
    match readable.trim_matches('-') {
        "" => String::new(),
        readable => format!("{readable}-"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::names::is_dns_label;

    const TUPLE: RequestIdentity<'_> = RequestIdentity {
        subject_namespace: "devops-ns1",
        subject_name: "pipeline-sa",
        connector: "prod-harbor",
        permission: Permission::Apis,
        pod_uid: "7d4c2a1e-0000-4000-8000-000000000001",
    };

    /// Processes of two releases must produce the same name, or a retry after an upgrade creates a second
    /// request.
    #[test]
    fn the_name_is_the_same_in_every_release() {
        assert_eq!(TUPLE.name(), "prod-harbor-ca75ce9bada1ea44f5a9ba4f8906fe17");
    }

    #[test]
    fn every_field_counts() {
        let names = [
            TUPLE,
            RequestIdentity {
                subject_namespace: "devops-ns2",
                ..TUPLE
            },
            RequestIdentity {
                subject_name: "pipeline-sb",
                ..TUPLE
            },
            RequestIdentity {
                connector: "prod-harbor2",
                ..TUPLE
            },
            RequestIdentity {
                permission: Permission::Proxy,
                ..TUPLE
            },
            RequestIdentity {
                pod_uid: "7d4c2a1e-0000-4000-8000-000000000002",
                ..TUPLE
            },
            // The same text, split at another position.
            RequestIdentity {
                subject_namespace: "devops-ns1p",
                subject_name: "ipeline-sa",
                ..TUPLE
            },
            RequestIdentity {
                subject_namespace: "",
                subject_name: "devops-ns1pipeline-sa",
                ..TUPLE
            },
        ]
        .map(|tuple| tuple.name());
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }

    #[test]
    fn people_can_read_which_connector_it_is_about() {
        for (connector, readable) in [
            ("prod-harbor", "prod-harbor-"),
            ("harbor.example.com", "harbor-example-com-"),
            (&"a".repeat(253), &format!("{}-", "a".repeat(30))),
            (
                &format!("{}.b", "a".repeat(29)),
                &format!("{}-", "a".repeat(29)),
            ),
            ("", ""),
            ("...", ""),
        ] {
            let name = RequestIdentity { connector, ..TUPLE }.name();
            assert_eq!(name.len(), readable.len() + 32, "{name}");
            assert!(name.starts_with(readable) && is_dns_label(&name), "{name}");
        }
    }

    fn tuples() -> impl Strategy<Value = ([String; 4], Permission)> {
        // Short texts of few letters, so that shifted fields are likely to collide.
        let field = || "[ab/:.-]{0,3}";
        let fields = (field(), field(), field(), field()).prop_map(|(a, b, c, d)| [a, b, c, d]);
        (fields, proptest::sample::select(Permission::ALL))
    }

    fn name(
        ([namespace, subject, connector, uid], permission): &([String; 4], Permission),
    ) -> String {
        let tuple = RequestIdentity {
            subject_namespace: namespace,
            subject_name: subject,
            connector,
            permission: *permission,
            pod_uid: uid,
        };
        tuple.name()
    }

    proptest! {
        #[test]
        fn different_tuples_have_different_names(one in tuples(), other in tuples()) {
            prop_assert_eq!(one == other, name(&one) == name(&other));
        }

        #[test]
        fn a_name_is_always_valid(connector in "\\PC{0,80}", uid in "\\PC{0,40}") {
            let name = RequestIdentity { connector: &connector, pod_uid: &uid, ..TUPLE }.name();
            prop_assert!(is_dns_label(&name), "{name}");
        }
    }
}
