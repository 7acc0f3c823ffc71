//! The standing permission that a policy gives: connectors, rules and subjects.
//!
//! The policy-controller writes it as a Role and a RoleBinding, and the kubectl plugin foretells it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::rbac::v1::Subject;
use thiserror::Error;

use crate::access_policy::{
    ConnectorSelector, DefaultPermission, MOST_SELECTORS, RoleRule, SubjectError, SubjectForm,
    SubjectSpec,
};
use crate::access_resource::AccessResourceError;
use crate::names::GROUP;
use crate::namespace_keys::ForeignKey;
use crate::{AccessPolicySpec, AccessResource, LabelSelector, NamespaceKeys, Permission};

type Labels = BTreeMap<String, String>;

/// How many subjects the selectors of one policy may find. A few bytes of policy would otherwise become
/// megabytes of RoleBindings, written again with each account of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MostSelected(pub usize);

impl Default for MostSelected {
    fn default() -> Self {
        Self(1000)
    }
}

/// The objects from which a policy selects. Objects that are being deleted are not in here.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// How much it may select.
    pub most_selected: MostSelected,
    /// By which labels of namespaces.
    pub namespace_keys: &'a NamespaceKeys,
    /// The connectors of its namespace, by name.
    pub connectors: &'a BTreeMap<String, Labels>,
    /// Namespaces by name.
    pub namespaces: &'a BTreeMap<String, Labels>,
    /// Service accounts by namespace and name.
    pub accounts: &'a BTreeMap<String, BTreeMap<String, Labels>>,
}

/// The API group of users and groups.
const RBAC: &str = "rbac.authorization.k8s.io";

/// The wants of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedPermissions {
    /// The connectors that it selects.
    pub connectors: BTreeSet<String>,
    /// Its standing permission.
    pub standing: StandingPermission,
}

/// A standing permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StandingPermission {
    /// The policy has none.
    None,
    /// Nothing can be handed out by these rules.
    Invalid(WrongRule),
    /// Its selectors find more subjects than one policy may select. Half of them would look like all.
    TooMany {
        /// How many they find.
        found: usize,
        /// How many they may.
        most: MostSelected,
    },
    /// More of its subjects have selectors than one policy may have.
    TooManySelectors {
        /// How many.
        found: usize,
    },
    /// This.
    Given {
        /// The permissions, without the connectors.
        rules: Vec<WantedRule>,
        /// The subjects.
        holders: BTreeSet<RbacSubject>,
        /// Subject forms that mean no subject, by their place. They hold nothing.
        unclear: Vec<(usize, NoSubject)>,
    },
}

/// Why a subject form means no subject.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoSubject {
    /// It cannot be understood.
    #[error(transparent)]
    Form(#[from] SubjectError),
    /// It selects namespaces by a label that the policy must not use.
    #[error(transparent)]
    Key(#[from] ForeignKey),
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedRule {
    /// As RBAC names them.
    pub resources: Vec<String>,
    /// As the policy has them.
    pub verbs: Vec<String>,
}

/// A subject as a RoleBinding names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RbacSubject {
    /// ServiceAccount, Group or User.
    pub kind: String,
    /// The namespace of a service account; empty for others.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// Why a rule hands out nothing. One such rule leaves none: half a Role would look like a whole one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WrongRule {
    /// There is no rule.
    #[error("roleTemplate.rules: there is none")]
    None,
    /// Another group.
    #[error("roleTemplate.rules[{0}].apiGroups: must be exactly [{GROUP}]")]
    ApiGroup(usize),
    /// No verb, or an empty one.
    #[error("roleTemplate.rules[{0}].verbs: name one at least, and none that is empty")]
    Verbs(usize),
    /// No resource.
    #[error("roleTemplate.rules[{0}].resources: name one at least")]
    NoResource(usize),
    /// Something that no policy can hand out.
    #[error("roleTemplate.rules[{0}].resources: {1}")]
    Resource(usize, AccessResourceError),
    /// Another capability than the policy's.
    #[error("roleTemplate.rules[{0}].resources: is about {1}, the policy about {2}")]
    Permission(usize, Permission, Permission),
}

impl WantedPermissions {
    /// The wants of a policy that does not exist.
    #[must_use]
    pub const fn nothing() -> Self {
        Self {
            connectors: BTreeSet::new(),
            standing: StandingPermission::None,
        }
    }
}

/// The wants of a policy of that namespace.
#[must_use]
pub fn wanted(
    policy: &AccessPolicySpec,
    namespace: &str,
    around: Surroundings<'_>,
) -> WantedPermissions {
    let selects = |(name, labels): &(&String, &Labels)| selects(&policy.connector, name, labels);
    let connectors = around.connectors.iter().filter(selects);
    WantedPermissions {
        connectors: connectors.map(|(name, _)| name.clone()).collect(),
        standing: match &policy.default_permission {
            None => StandingPermission::None,
            Some(given) => standing(given, policy.permission, namespace, around),
        },
    }
}

fn selects(selector: &ConnectorSelector, name: &str, labels: &Labels) -> bool {
    let ConnectorSelector { names, selector } = selector;
    let is_named = names
        .as_ref()
        .is_none_or(|names| names.iter().any(|it| it == name));
    is_named && selector.as_ref().is_none_or(|it| it.matches(labels))
}

fn standing(
    given: &DefaultPermission,
    permission: Permission,
    namespace: &str,
    around: Surroundings<'_>,
) -> StandingPermission {
    let rules = match rules(&given.role_template.rules, permission) {
        Ok(rules) => rules,
        Err(wrong) => return StandingPermission::Invalid(wrong),
    };
    let found = given.binding_template.selectors();
    if found > MOST_SELECTORS {
        return StandingPermission::TooManySelectors { found };
    }
    let (mut holders, mut selected) = (BTreeSet::new(), BTreeSet::new());
    let mut unclear = Vec::new();
    for (place, subject) in given.binding_template.subjects.iter().enumerate() {
        match understood(subject, around.namespace_keys) {
            Ok(form) if form.is_selector() => find(&mut selected, form, namespace, around),
            Ok(form) => find(&mut holders, form, namespace, around),
            Err(error) => unclear.push((place, error)),
        }
    }
    let (found, most) = (selected.len(), around.most_selected);
    if found > most.0 {
        return StandingPermission::TooMany { found, most };
    }
    holders.extend(selected);
    StandingPermission::Given {
        rules,
        holders,
        unclear,
    }
}

fn rules(rules: &[RoleRule], permission: Permission) -> Result<Vec<WantedRule>, WrongRule> {
    if rules.is_empty() {
        return Err(WrongRule::None);
    }
    let check = |(place, rule)| check(place, rule, permission);
    rules.iter().enumerate().map(check).collect()
}

fn check(place: usize, rule: &RoleRule, permission: Permission) -> Result<WantedRule, WrongRule> {
    let RoleRule {
        api_groups,
        resources,
        verbs,
    } = rule;
    if *api_groups != [GROUP] {
        return Err(WrongRule::ApiGroup(place));
    }
    if verbs.is_empty() || verbs.iter().any(String::is_empty) {
        return Err(WrongRule::Verbs(place));
    }
    if resources.is_empty() {
        return Err(WrongRule::NoResource(place));
    }
    let read = |text: &String| {
        let wrong = |error| WrongRule::Resource(place, error);
        let resource: AccessResource = text.parse().map_err(wrong)?;
        if resource.permission == permission {
            // As it was read, not as it was written.
            Ok(resource.to_string())
        } else {
            Err(WrongRule::Permission(
                place,
                resource.permission,
                permission,
            ))
        }
    };
    Ok(WantedRule {
        resources: resources.iter().map(read).collect::<Result<_, _>>()?,
        verbs: verbs.clone(),
    })
}

fn understood(subject: &SubjectSpec, keys: &NamespaceKeys) -> Result<SubjectForm, NoSubject> {
    let form = SubjectForm::try_from(subject)?;
    if let Some(namespaces) = form.namespaces() {
        keys.admit(namespaces)?;
    }
    Ok(form)
}

fn find(
    holders: &mut BTreeSet<RbacSubject>,
    form: SubjectForm,
    own: &str,
    around: Surroundings<'_>,
) {
    match form {
        SubjectForm::ServiceAccount { namespace, name } => {
            let namespace = namespace.as_deref().unwrap_or(own);
            holders.insert(RbacSubject::account(namespace, &name));
        }
        SubjectForm::ServiceAccountsByLabel {
            selector,
            namespaces,
        } => {
            let namespaces = match &namespaces {
                Some(selector) => selected(selector, around),
                None => vec![own],
            };
            for namespace in namespaces {
                let accounts = around.accounts.get(namespace).into_iter().flatten();
                let accounts = accounts.filter(|(_, labels)| selector.matches(labels));
                holders.extend(accounts.map(|(name, _)| RbacSubject::account(namespace, name)));
            }
        }
        SubjectForm::ServiceAccountGroupsByNamespace { namespaces } => {
            let group =
                |namespace| RbacSubject::group(&format!("system:serviceaccounts:{namespace}"));
            holders.extend(selected(&namespaces, around).into_iter().map(group));
        }
        SubjectForm::Group { name } => {
            holders.insert(RbacSubject::group(&name));
        }
        SubjectForm::User { name } => {
            holders.insert(RbacSubject {
                kind: "User".to_owned(),
                namespace: String::new(),
                name,
            });
        }
    }
}

fn selected<'a>(selector: &LabelSelector, around: Surroundings<'a>) -> Vec<&'a str> {
    let namespaces = around.namespaces.iter();
    let selected = namespaces.filter(|(_, labels)| selector.matches(labels));
    selected.map(|(name, _)| name.as_str()).collect()
}

impl RbacSubject {
    fn account(namespace: &str, name: &str) -> Self {
        Self {
            kind: "ServiceAccount".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    fn group(name: &str) -> Self {
        Self {
            kind: "Group".to_owned(),
            namespace: String::new(),
            name: name.to_owned(),
        }
    }

    /// The subject of a RoleBinding.
    #[must_use]
    pub fn of(subject: &Subject) -> Self {
        Self {
            kind: subject.kind.clone(),
            namespace: subject.namespace.clone().unwrap_or_default(),
            name: subject.name.clone(),
        }
    }

    /// As a RoleBinding names it.
    #[must_use]
    pub fn subject(&self) -> Subject {
        let is_account = self.kind == "ServiceAccount";
        Subject {
            api_group: (!is_account).then(|| RBAC.to_owned()),
            kind: self.kind.clone(),
            name: self.name.clone(),
            namespace: is_account.then(|| self.namespace.clone()),
        }
    }
}

impl fmt::Display for RbacSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            namespace,
            name,
        } = self;
        if namespace.is_empty() {
            write!(f, "{kind} {name}")
        } else {
            write!(f, "{kind} {namespace}/{name}")
        }
    }
}
