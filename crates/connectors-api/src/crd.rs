//! The `CustomResourceDefinition`s in the form in which they are installed.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::{AccessPolicy, AccessRequest, Connector, ConnectorClass, schema};

/// Every CRD of the group, in the order in which documentation lists them.
///
/// Connector and `ConnectorClass` keep undeclared fields because other software owns them; `AccessPolicy` and
/// `AccessRequest` keep them to refuse them later, with a hint.
#[must_use]
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        installed(Connector::crd(), Unknown::Passed),
        installed(ConnectorClass::crd(), Unknown::Passed),
        installed(AccessPolicy::crd(), Unknown::Refused),
        installed(AccessRequest::crd(), Unknown::Refused),
    ]
}

/// The treatment of undeclared fields.
#[derive(Clone, Copy)]
enum Unknown {
    Passed,
    Refused,
}

fn installed(mut crd: CustomResourceDefinition, unknown: Unknown) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let Some(root) = version
            .schema
            .as_mut()
            .and_then(|schema| schema.open_api_v3_schema.as_mut())
        else {
            continue;
        };
        schema::unwrap_descriptions(root);
        if let (Unknown::Refused, Some(properties)) = (unknown, &mut root.properties) {
            properties
                .get_mut("spec")
                .map(schema::keep_what_cannot_be_read);
        }
    }
    crd
}
