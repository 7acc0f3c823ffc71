//! The review that confirms a decision.

use connectors_api::{
    AccessResource,
    names::{CONNECTORS, GROUP},
};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};
use service_kit::reviews::service_account;

use crate::volume::{ConnectorKey, Pod};

/// Whether the pod's account, with its groups, may do everything on this resource of a connector. RBAC
/// takes a subresource with slashes as one string.
pub(crate) fn review(
    pod: &Pod,
    connector: &ConnectorKey,
    resource: &AccessResource,
) -> SubjectAccessReviewSpec {
    let Pod {
        namespace,
        service_account: account,
        ..
    } = pod;
    SubjectAccessReviewSpec {
        resource_attributes: Some(ResourceAttributes {
            group: Some(GROUP.to_owned()),
            resource: Some(CONNECTORS.to_owned()),
            subresource: Some(resource.subresource()),
            verb: Some("*".to_owned()),
            namespace: Some(connector.namespace.clone()),
            name: Some(connector.name.clone()),
            ..ResourceAttributes::default()
        }),
        ..service_account(namespace, account)
    }
}

#[cfg(test)]
mod tests {
    use connectors_api::Permission;
    use serde_json::json;

    use super::*;
    use crate::testing::wish;

    #[test]
    fn the_account_is_asked_about_with_its_groups_and_with_the_subresource_form() {
        let wish = wish(&["tools/harbor"]);
        let resource = AccessResource::pod(Permission::Proxy, &wish.pod.namespace, &wish.pod.name);
        let question = review(&wish.pod, &wish.connectors[0], &resource);
        let expected = json!({
            "user": "system:serviceaccount:shop:builder",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"],
            "resourceAttributes": {
                "group": "connectors.alauda.io",
                "resource": "connectors",
                "subresource": "proxy/v1/pod/shop/deploy-1",
                "verb": "*",
                "namespace": "tools",
                "name": "harbor",
            },
        });
        assert_eq!(serde_json::to_value(question).unwrap(), expected);
    }
}
