//! The subresource of the pod form, which every question of a pod needs: spelled in one allocation.

use connectors_api::Permission;

/// As `AccessResource::pod` spells it.
pub(super) fn pod_form(permission: Permission, namespace: &str, pod: &str) -> String {
    [permission.as_str(), "/v1/pod/", namespace, "/", pod].concat()
}

#[cfg(test)]
mod tests {
    use connectors_api::AccessResource;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    proptest! {
        #[test]
        fn it_is_spelled_as_everywhere(
            permission in select(&[Permission::Apis, Permission::Proxy][..]),
            namespace in "[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?",
            pod in "[a-z0-9]([-.a-z0-9]{0,8}[a-z0-9])?",
        ) {
            let expected = AccessResource::pod(permission, &namespace, &pod).subresource();
            prop_assert_eq!(pod_form(permission, &namespace, &pod), expected);
        }
    }
}
