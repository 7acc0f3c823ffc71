//! Short constructors of objects and questions.

use authz::{Attributes, Authorizer, AuthorizerDecision, RbacIndex, ResourceRequest, Target, User};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A list from words: `"get list"`. The word `''` means the empty string, no words mean no list.
pub(crate) fn list(words: &str) -> Vec<String> {
    let words = words.split_whitespace();
    words
        .map(|word| if word == "''" { "" } else { word }.to_owned())
        .collect()
}

fn some(words: &str) -> Option<Vec<String>> {
    Some(list(words)).filter(|list| !list.is_empty())
}

/// Verbs on resources of groups.
pub(crate) fn rule(verbs: &str, groups: &str, resources: &str) -> PolicyRule {
    PolicyRule {
        verbs: list(verbs),
        api_groups: some(groups),
        resources: some(resources),
        ..PolicyRule::default()
    }
}

/// The same, restricted to objects of these names.
pub(crate) fn named(names: &str, rule: PolicyRule) -> PolicyRule {
    PolicyRule {
        resource_names: some(names),
        ..rule
    }
}

/// Verbs on paths.
pub(crate) fn paths(verbs: &str, urls: &str) -> PolicyRule {
    PolicyRule {
        verbs: list(verbs),
        non_resource_urls: some(urls),
        ..PolicyRule::default()
    }
}

fn metadata(namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
        ..ObjectMeta::default()
    }
}

pub(crate) fn role(namespace: &str, name: &str, rules: &[PolicyRule]) -> Role {
    Role {
        metadata: metadata(namespace, name),
        rules: Some(rules.to_vec()),
    }
}

pub(crate) fn cluster_role(name: &str, rules: &[PolicyRule]) -> ClusterRole {
    ClusterRole {
        metadata: metadata("", name),
        rules: Some(rules.to_vec()),
        ..ClusterRole::default()
    }
}

/// A reference such as `Role/reader`.
pub(crate) fn role_ref(reference: &str) -> RoleRef {
    let (kind, name) = reference.split_once('/').unwrap();
    RoleRef {
        api_group: "rbac.authorization.k8s.io".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

/// A subject such as `User/alice`, or `ServiceAccount/namespace/name`.
pub(crate) fn subject(text: &str) -> Subject {
    let (kind, name) = text.split_once('/').unwrap();
    let account = (kind == "ServiceAccount").then(|| name.split_once('/'));
    let (namespace, name) = match account.flatten() {
        Some((namespace, name)) => (Some(namespace.to_owned()), name),
        None => (None, name),
    };
    Subject {
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace,
        ..Subject::default()
    }
}

fn subjects(texts: &[&str]) -> Vec<Subject> {
    texts.iter().map(|text| subject(text)).collect()
}

pub(crate) fn role_binding(
    namespace: &str,
    name: &str,
    reference: &str,
    to: &[&str],
) -> RoleBinding {
    RoleBinding {
        metadata: metadata(namespace, name),
        role_ref: role_ref(reference),
        subjects: Some(subjects(to)),
    }
}

pub(crate) fn cluster_role_binding(name: &str, reference: &str, to: &[&str]) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: metadata("", name),
        role_ref: role_ref(reference),
        subjects: Some(subjects(to)),
    }
}

/// A user, and its groups as words.
pub(crate) fn user(name: &str, groups: &str) -> User {
    User {
        name: name.to_owned(),
        groups: list(groups),
    }
}

/// A resource of the core group in a namespace: `pods`, `pods/log`. The first slash splits.
pub(crate) fn on<'a>(namespace: &'a str, resource: &'a str) -> ResourceRequest<'a> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    ResourceRequest {
        resource,
        subresource,
        namespace,
        ..ResourceRequest::default()
    }
}

pub(crate) fn attributes<'a>(
    user: &'a User,
    verb: &'a str,
    request: ResourceRequest<'a>,
) -> Attributes<'a> {
    Attributes {
        user,
        verb,
        target: Target::Resource(request),
    }
}

/// True for a yes.
pub(crate) fn may(
    index: &RbacIndex,
    user: &User,
    verb: &str,
    request: ResourceRequest<'_>,
) -> bool {
    let verdict = index.authorize(&attributes(user, verb, request));
    // RBAC never denies: another authorizer may still allow.
    assert_ne!(verdict.decision, AuthorizerDecision::Deny);
    verdict.is_allowed()
}
