//! The request of a pod for one connector.

use kube::core::ObjectMeta;

use super::{ConnectorKey, PodIdentity};
use crate::{
    AccessRequest, AccessRequestSpec, Permission,
    access_request::{
        ConnectorRef, ContextApiVersion, ContextKind, ContextObjectRef, RequestContext,
        RequestSubject, RequestSubjectKind,
    },
    labels,
    request_name::RequestIdentity,
};

/// The request for one connector, under the name that every retry and every maker gives it.
#[must_use]
pub fn request(
    pod: &PodIdentity,
    connector: &ConnectorKey,
    permission: Permission,
) -> AccessRequest {
    let name = RequestIdentity {
        subject_namespace: &pod.namespace,
        subject_name: &pod.service_account,
        connector: &connector.name,
        permission,
        pod_uid: &pod.uid,
    }
    .name();
    let spec = AccessRequestSpec {
        subject: RequestSubject {
            api_group: None,
            kind: RequestSubjectKind::ServiceAccount,
            namespace: Some(pod.namespace.clone()),
            name: pod.service_account.clone(),
        },
        connector_ref: ConnectorRef {
            name: connector.name.clone(),
            namespace: None,
        },
        context: RequestContext {
            object_ref: ContextObjectRef {
                api_version: ContextApiVersion::V1,
                kind: ContextKind::Pod,
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                uid: Some(pod.uid.clone()),
            },
        },
        permission,
    };
    AccessRequest {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(connector.namespace.clone()),
            labels: Some(labels::of_request(&spec)),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

/// True when a request that was found under the name of ours is the one that we would have made. Two fields have more
/// than one spelling.
#[must_use]
pub fn asks_the_same(found: &AccessRequest, ours: &AccessRequest) -> bool {
    let namespace = ours.metadata.namespace.as_deref();
    let named = found.spec.connector_ref.namespace.as_deref();
    found.metadata.namespace.as_deref() == namespace
        && (named.is_none() || named == namespace)
        && found.spec.subject_namespace() == ours.spec.subject_namespace()
        && found.spec.subject.kind == ours.spec.subject.kind
        && found.spec.subject.name == ours.spec.subject.name
        && found.spec.connector_ref.name == ours.spec.connector_ref.name
        && found.spec.context == ours.spec.context
        && found.spec.permission == ours.spec.permission
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn ours() -> AccessRequest {
        let pod = PodIdentity {
            namespace: "shop".to_owned(),
            name: "deploy-1".to_owned(),
            uid: "uid-1".to_owned(),
            service_account: "builder".to_owned(),
        };
        let connector = ConnectorKey {
            namespace: "tools".to_owned(),
            name: "harbor".to_owned(),
        };
        request(&pod, &connector, Permission::Apis)
    }

    #[test]
    fn the_request_is_one_that_everybody_reads() {
        let request = ours();
        let json = serde_json::to_value(&request).unwrap();
        let read: AccessRequest = parse::object(&json).unwrap();
        assert_eq!(read, request);
        assert_eq!(request.metadata.namespace.as_deref(), Some("tools"));
        assert_eq!(
            request.spec.context.object_ref.uid.as_deref(),
            Some("uid-1")
        );
        assert_eq!(
            request.metadata.labels,
            Some(labels::of_request(&request.spec))
        );
    }

    #[test]
    fn other_spellings_of_the_same_request_are_the_same() {
        let mut found = ours();
        found.spec.subject.namespace = None;
        found.spec.subject.api_group = Some("rbac.authorization.k8s.io".to_owned());
        found.spec.connector_ref.namespace = Some("tools".to_owned());
        assert!(asks_the_same(&found, &ours()));
        found.spec.subject.namespace = Some(String::new());
        assert!(asks_the_same(&found, &ours()));
    }

    #[test]
    fn a_request_about_anything_else_is_another() {
        let changes: [fn(&mut AccessRequest); 15] = [
            // Names that begin alike, or differ in case, are others.
            |r| r.spec.subject.name.push_str("-2"),
            |r| r.spec.connector_ref.name.push_str("-2"),
            |r| r.spec.context.object_ref.name.push('0'),
            |r| r.spec.context.object_ref.uid = Some("uid-10".to_owned()),
            |r| r.spec.context.object_ref.uid = Some("UID-1".to_owned()),
            |r| r.spec.context.object_ref.uid = Some(String::new()),
            |r| r.metadata.namespace = Some("other".to_owned()),
            |r| r.spec.subject.name = "other".to_owned(),
            |r| r.spec.subject.namespace = Some("other".to_owned()),
            |r| r.spec.connector_ref.name = "other".to_owned(),
            |r| r.spec.connector_ref.namespace = Some("other".to_owned()),
            |r| r.spec.context.object_ref.name = "other".to_owned(),
            |r| r.spec.context.object_ref.namespace = "other".to_owned(),
            |r| r.spec.context.object_ref.uid = None,
            |r| r.spec.permission = Permission::Proxy,
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut found = ours();
            change(&mut found);
            assert!(!asks_the_same(&found, &ours()), "{at}");
        }
    }
}
