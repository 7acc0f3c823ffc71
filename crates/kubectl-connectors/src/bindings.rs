//! RoleBindings as the rule about pods sees them.

use connectors_api::pod_grant::BindingFacts;
use k8s_openapi::api::rbac::v1::RoleBinding;

/// A binding as the rule about pods sees it.
pub(crate) fn facts<'b>(
    binding: &'b RoleBinding,
) -> BindingFacts<'b, impl Fn(&str) -> Option<&'b str>> {
    let metadata = &binding.metadata;
    BindingFacts {
        namespace: metadata.namespace.as_deref(),
        is_deleting: metadata.deletion_timestamp.is_some(),
        label: |key: &str| label(binding, key),
    }
}

/// The value of a label.
pub(crate) fn label<'a>(binding: &'a RoleBinding, key: &str) -> Option<&'a str> {
    let labels = binding.metadata.labels.as_ref()?;
    labels.get(key).map(String::as_str)
}
