//! Which feature of RBAC decided an answer: the one without which it would be another.

use std::collections::BTreeMap;

use authz::{Authorizer, RbacIndex, SystemMasters, Union};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule, Role, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::object::Object;
use super::question::{Question, What};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Feature {
    Role,
    ClusterRoleInNamespace,
    ClusterRole,
    User,
    Group,
    ServiceAccount,
    AccountAsUser,
    AccountGroup,
    DefaultedNamespace,
    AnyVerb,
    AnyGroup,
    AnyResource,
    AnyWithSubresource,
    Subresource,
    Slashed,
    ResourceNames,
    Path,
    PathPrefix,
    MissingRole,
    ChangeMidway,
    DeletionMidway,
    Masters,
    AskedCombined,
    AskedAnyVerb,
}

/// Those that are found out by changing the objects.
const OF_OBJECTS: [Feature; 19] = [
    Feature::Role,
    Feature::ClusterRoleInNamespace,
    Feature::ClusterRole,
    Feature::User,
    Feature::Group,
    Feature::ServiceAccount,
    Feature::AccountAsUser,
    Feature::AccountGroup,
    Feature::DefaultedNamespace,
    Feature::AnyVerb,
    Feature::AnyGroup,
    Feature::AnyResource,
    Feature::AnyWithSubresource,
    Feature::Subresource,
    Feature::Slashed,
    Feature::ResourceNames,
    Feature::Path,
    Feature::PathPrefix,
    Feature::MissingRole,
];

/// The features of the question itself, or of the state before.
const OF_QUESTIONS: [Feature; 5] = [
    Feature::ChangeMidway,
    Feature::DeletionMidway,
    Feature::Masters,
    Feature::AskedCombined,
    Feature::AskedAnyVerb,
];

/// How many answers each feature decided.
pub(crate) type Decided = BTreeMap<Feature, usize>;

pub(crate) fn none_yet() -> Decided {
    let all = OF_OBJECTS.into_iter().chain(OF_QUESTIONS);
    all.map(|feature| (feature, 0)).collect()
}

/// One world at one time, and the same world without each feature.
pub(crate) struct Lens {
    now: RbacIndex,
    /// The same world with its deleted objects.
    whole: Option<RbacIndex>,
    without: Vec<(Feature, RbacIndex)>,
}

impl Lens {
    pub(crate) fn new(objects: &[Object]) -> Self {
        let without = |feature| (feature, index(without(feature, objects)));
        Self {
            now: index(objects.to_vec()),
            whole: None,
            without: OF_OBJECTS.map(without).into(),
        }
    }

    pub(crate) fn with_deleted(self, deleted: &[Object], objects: &[Object]) -> Self {
        let whole = Some(index([objects, deleted].concat()));
        Self { whole, ..self }
    }

    /// Counts the features that decided the answer to a question. The lens of the time before shows the
    /// effect of a change.
    pub(crate) fn count(&self, question: &Question, before: Option<&Self>, decided: &mut Decided) {
        let answer = allows(&self.now, question);
        let mut found = Vec::new();
        for (feature, other) in &self.without {
            if allows(other, question) != answer {
                found.push(*feature);
            }
        }
        if before.is_some_and(|before| allows(&before.now, question) != answer) {
            found.push(Feature::ChangeMidway);
        }
        let whole = self.whole.as_ref();
        if whole.is_some_and(|whole| allows(whole, question) != answer) {
            found.push(Feature::DeletionMidway);
        }
        let mut plain = question.clone();
        plain
            .user
            .groups
            .retain(|group| group != SystemMasters::GROUP);
        if allows(&self.now, &plain) != answer {
            found.push(Feature::Masters);
        }
        let combined = |resource: &str| resource.contains('/');
        if answer && matches!(&question.what, What::Resource { resource, .. } if combined(resource))
        {
            found.push(Feature::AskedCombined);
        }
        if answer && question.verb == "*" {
            found.push(Feature::AskedAnyVerb);
        }
        for feature in found {
            *decided.entry(feature).or_default() += 1;
        }
    }
}

/// The answer of the index after the one about superusers, as in the API server.
pub(crate) fn allows(index: &RbacIndex, question: &Question) -> bool {
    let chain: [&dyn Authorizer; 2] = [&SystemMasters, index];
    Union(&chain).authorize(&question.attributes()).is_allowed()
}

fn index(objects: Vec<Object>) -> RbacIndex {
    let mut index = RbacIndex::default();
    for object in objects {
        object.put(&mut index).unwrap();
    }
    index
}

fn without(feature: Feature, objects: &[Object]) -> Vec<Object> {
    let mut objects = objects.to_vec();
    if feature == Feature::MissingRole {
        let missing = missing_roles(&objects);
        objects.extend(missing);
        return objects;
    }
    objects.retain(|object| !is_given_by(object, feature));
    for object in &mut objects {
        if let Some(subjects) = object.subjects() {
            subjects.retain(|subject| !is_named_by(subject, feature));
        }
        for rule in object.rules().into_iter().flatten() {
            weaken(rule, feature);
        }
    }
    objects
}

/// A role that allows everything for each reference that leads nowhere.
fn missing_roles(objects: &[Object]) -> Vec<Object> {
    let everything = PolicyRule {
        verbs: vec!["*".to_owned()],
        api_groups: Some(vec!["*".to_owned()]),
        resources: Some(vec!["*".to_owned()]),
        ..PolicyRule::default()
    };
    let mut missing = Vec::new();
    for binding in objects {
        let Some(reference) = binding.role() else {
            continue;
        };
        let mut metadata = ObjectMeta {
            name: Some(reference.name.clone()),
            namespace: binding.metadata().namespace.clone(),
            ..ObjectMeta::default()
        };
        let rules = Some(vec![everything.clone()]);
        let role = if reference.kind == "Role" {
            Object::Role(Role { metadata, rules })
        } else {
            metadata.namespace = None;
            Object::ClusterRole(ClusterRole {
                metadata,
                rules,
                aggregation_rule: None,
            })
        };
        let is_it = |object: &Object| {
            let (have, want) = (object.metadata(), role.metadata());
            object.kind() == role.kind()
                && have.name == want.name
                && have.namespace == want.namespace
        };
        if !objects.iter().any(is_it) {
            missing.push(role);
        }
    }
    missing
}

fn is_given_by(object: &Object, feature: Feature) -> bool {
    let role = object.role().map(|role| role.kind.as_str());
    let given = match (object.kind(), role) {
        ("RoleBinding", Some("Role")) => Some(Feature::Role),
        ("RoleBinding", _) => Some(Feature::ClusterRoleInNamespace),
        ("ClusterRoleBinding", _) => Some(Feature::ClusterRole),
        _ => None,
    };
    given == Some(feature)
}

fn is_named_by(subject: &Subject, feature: Feature) -> bool {
    let as_account = subject.name.starts_with("system:serviceaccount");
    let named = match subject.kind.as_str() {
        "User" if as_account => Feature::AccountAsUser,
        "User" => Feature::User,
        "Group" if as_account => Feature::AccountGroup,
        "Group" => Feature::Group,
        _ if subject.namespace.is_none() => Feature::DefaultedNamespace,
        _ => Feature::ServiceAccount,
    };
    named == feature
}

/// Takes a feature's words out of a rule; a rule without verbs allows nothing.
fn weaken(rule: &mut PolicyRule, feature: Feature) {
    if feature == Feature::AnyVerb {
        rule.verbs.retain(|verb| verb != "*");
    }
    if feature == Feature::ResourceNames && rule.resource_names.is_some() {
        rule.verbs.clear();
    }
    if let Some(groups) = &mut rule.api_groups {
        groups.retain(|group| !(feature == Feature::AnyGroup && group == "*"));
    }
    if let Some(resources) = &mut rule.resources {
        resources.retain(|resource| of_resource(resource) != Some(feature));
    }
    if let Some(urls) = &mut rule.non_resource_urls {
        urls.retain(|url| {
            let of_url = if url.ends_with('*') {
                Feature::PathPrefix
            } else {
                Feature::Path
            };
            of_url != feature
        });
    }
}

fn of_resource(resource: &str) -> Option<Feature> {
    match resource.matches('/').count() {
        _ if resource == "*" => Some(Feature::AnyResource),
        _ if resource.starts_with("*/") => Some(Feature::AnyWithSubresource),
        0 => None,
        1 => Some(Feature::Subresource),
        _ => Some(Feature::Slashed),
    }
}
