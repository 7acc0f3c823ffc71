//! The review that confirms a decision.

use connectors_api::{AccessResource, ConnectorKey, PodIdentity};
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use service_kit::reviews::service_account;

/// Whether the pod's account, with its groups, may do everything on this resource of a connector.
pub(crate) fn review(
    pod: &PodIdentity,
    connector: &ConnectorKey,
    resource: &AccessResource,
) -> SubjectAccessReviewSpec {
    let PodIdentity {
        namespace,
        service_account: account,
        ..
    } = pod;
    SubjectAccessReviewSpec {
        resource_attributes: Some(resource.review(&connector.namespace, &connector.name)),
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
