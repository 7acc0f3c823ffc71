//! Names that more than one process uses.

/// The API group of every kind of this crate, and the only one that a role template may name.
pub const GROUP: &str = "connectors.alauda.io";

/// The served and stored version of every kind.
pub const VERSION: &str = "v1alpha1";

/// `apiVersion` of every kind.
pub const API_VERSION: &str = "connectors.alauda.io/v1alpha1";

/// The plural of Connector, which RBAC rules name.
pub const CONNECTORS: &str = "connectors";

/// The category of every kind: `kubectl get connectors-approval` lists all of them.
///
/// Not `connectors`: in kubectl a category takes precedence over a kind's plural, so that `kubectl get
/// connectors NAME` would fail and `kubectl delete connectors --all` would delete policies and requests too.
pub const CATEGORY: &str = "connectors-approval";

/// Value of the label `app.kubernetes.io/managed-by` on every Role and RoleBinding of ours.
pub const MANAGED_BY: &str = "connectors-approval";

/// The name of the CSI driver in the volumes of pods.
pub const CSI_DRIVER: &str = "connectors-csi";

/// The scheduling gate of pods whose requests are decided before they are scheduled.
pub const SCHEDULING_GATE: &str = "connectors.alauda.io/approval";

/// The longest user name that a policy can hold.
pub const LONGEST_USER: usize = 512;

/// The annotation of a `PipelineRun` with the user that created it.
pub const CREATOR: &str = "connectors.alauda.io/creator";

/// The `ValidatingAdmissionPolicy` that keeps [`CREATOR`] true, and its binding.
pub const CREATOR_RULE: &str = "pipelinerun-creators.connectors.alauda.io";
/// The `ValidatingAdmissionPolicy` that keeps the answers of approvers apart, and its binding.
pub const ANSWER_RULE: &str = "approval-answers.connectors.alauda.io";

/// True for a valid name of a namespace.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_name_part(text)
}

/// True for a valid name of most objects.
#[must_use]
pub fn is_dns_subdomain(text: &str) -> bool {
    // Unlike DNS, Kubernetes limits the whole name and not each part.
    text.len() <= 253 && text.split('.').all(is_name_part)
}

/// True for a label value that is valid and not empty.
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    let end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.len() <= 63
        && text.bytes().all(inner)
        && end(text.bytes().next())
        && end(text.bytes().next_back())
}

/// True for a valid label key.
#[must_use]
pub fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_label_value(name),
        None => is_label_value(text),
    }
}

fn is_name_part(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use kube::Resource;

    use super::*;
    use crate::{AccessPolicy, AccessRequest, Connector, ConnectorClass};

    /// The derive macro takes literals only, so the constants could differ from them.
    #[test]
    fn every_kind_is_in_the_group_and_version() {
        fn check<K: Resource<DynamicType = ()>>() {
            assert_eq!(
                (K::group(&()), K::version(&())),
                (GROUP.into(), VERSION.into())
            );
            assert_eq!(K::api_version(&()), API_VERSION);
        }
        check::<Connector>();
        check::<ConnectorClass>();
        check::<AccessPolicy>();
        check::<AccessRequest>();
        assert_eq!(Connector::plural(&()), CONNECTORS);
    }

    #[test]
    fn names_are_what_kubernetes_takes_for_names() {
        let (longest_label, longest_name) = ("a".repeat(63), "a".repeat(253));
        for good in ["a", "a-b", "9", &longest_label] {
            assert!(is_dns_label(good) && is_dns_subdomain(good), "{good}");
        }
        for name in ["a.b", "prod-harbor.example", &longest_name] {
            assert!(!is_dns_label(name) && is_dns_subdomain(name), "{name}");
        }
        for bad in [
            "",
            "-a",
            "a-",
            "A",
            "a_b",
            "a..b",
            ".a",
            "a.",
            "*",
            "{a}",
            &"a".repeat(254),
        ] {
            assert!(!is_dns_label(bad) && !is_dns_subdomain(bad), "{bad}");
        }
    }

    #[test]
    fn labels_are_what_kubernetes_takes_for_labels() {
        let longest = "a".repeat(63);
        for good in ["a", "9", "A.b_C-d", &longest] {
            assert!(is_label_value(good) && is_label_key(good), "{good}");
            assert!(is_label_key(&format!("example.com/{good}")), "{good}");
        }
        for bad in [
            "",
            "-a",
            "a-",
            ".a",
            "a_",
            "a b",
            "a,b",
            "a=b",
            "!a",
            "ä",
            &"a".repeat(64),
        ] {
            assert!(!is_label_value(bad) && !is_label_key(bad), "{bad}");
            assert!(!is_label_key(&format!("example.com/{bad}")), "{bad}");
        }
        for bad in ["/a", "a/", "a/b/c", "Example.com/a", "-a/b", "a b/c"] {
            assert!(!is_label_key(bad), "{bad}");
        }
    }
}
