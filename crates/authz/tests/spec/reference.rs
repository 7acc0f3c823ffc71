//! RBAC without an index, directly from the rules of Kubernetes: it checks every binding, those of the
//! cluster first, and every rule of its role.

use std::collections::{BTreeMap, BTreeSet};

use authz::{Attributes, ResourceRequest, Target, User};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};

/// All objects, by namespace and name.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) roles: BTreeMap<(String, String), Role>,
    pub(crate) cluster_roles: BTreeMap<String, ClusterRole>,
    pub(crate) role_bindings: BTreeMap<(String, String), RoleBinding>,
    pub(crate) cluster_role_bindings: BTreeMap<String, ClusterRoleBinding>,
}

/// A binding of either kind, in one struct.
struct Binding<'a> {
    /// Empty for those of the cluster.
    namespace: &'a str,
    name: &'a str,
    role: &'a RoleRef,
    subjects: &'a [Subject],
}

/// The complete answer to one question.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The text of each binding that allows.
    pub(crate) allowing: BTreeSet<String>,
    /// The roles that could not be looked up for the user.
    pub(crate) errors: BTreeSet<String>,
    /// All subjects that may do it, as texts.
    pub(crate) who: BTreeSet<String>,
    pub(crate) who_errors: BTreeSet<String>,
}

impl World {
    /// The bindings that count in a namespace.
    fn bindings(&self, namespace: &str) -> Vec<Binding<'_>> {
        let wide = self
            .cluster_role_bindings
            .iter()
            .map(|(name, one)| Binding {
                namespace: "",
                name,
                role: &one.role_ref,
                subjects: one.subjects.as_deref().unwrap_or_default(),
            });
        let narrow = self
            .role_bindings
            .iter()
            .map(|((namespace, name), one)| Binding {
                namespace,
                name,
                role: &one.role_ref,
                subjects: one.subjects.as_deref().unwrap_or_default(),
            });
        let narrow = narrow.filter(|one| one.namespace == namespace);
        wide.chain(narrow).collect()
    }

    fn rules(&self, binding: &Binding<'_>) -> Result<&[PolicyRule], String> {
        let name = &binding.role.name;
        let rules = match binding.role.kind.as_str() {
            "Role" => {
                let key = (binding.namespace.to_owned(), name.clone());
                self.roles.get(&key).map(|role| &role.rules)
            }
            "ClusterRole" => self.cluster_roles.get(name).map(|role| &role.rules),
            kind => return Err(format!("unsupported role reference kind: {kind:?}")),
        };
        let kind = binding.role.kind.to_lowercase();
        rules
            .map(|rules| rules.as_deref().unwrap_or_default())
            .ok_or_else(|| format!("{kind}.rbac.authorization.k8s.io {name:?} not found"))
    }

    pub(crate) fn answer(&self, question: &Attributes<'_>) -> Answer {
        let mut answer = Answer::default();
        for binding in self.bindings(question.target.namespace()) {
            let namespace = binding.namespace;
            let subject = first_applying(binding.subjects, question.user.as_user(), namespace);
            let rules = match self.rules(&binding) {
                Ok(rules) => rules,
                Err(error) => {
                    answer.who_errors.insert(error.clone());
                    answer.errors.extend(subject.map(|_| error));
                    continue;
                }
            };
            if !rules.iter().any(|rule| allows(rule, question)) {
                continue;
            }
            let able = binding.subjects.iter().filter(|subject| {
                let known = ["User", "Group"].contains(&subject.kind.as_str());
                known
                    || (subject.kind == "ServiceAccount"
                        && !account_namespace(subject, namespace).is_empty())
            });
            answer
                .who
                .extend(able.map(|subject| describe(subject, namespace)));
            let RoleRef {
                kind, name: role, ..
            } = binding.role;
            answer.allowing.extend(subject.map(|subject| {
                let (to, name) = (describe(subject, namespace), binding.name);
                if namespace.is_empty() {
                    format!("ClusterRoleBinding {name:?} of {kind} {role:?} to {to}")
                } else {
                    format!("RoleBinding \"{name}/{namespace}\" of {kind} {role:?} to {to}")
                }
            }));
        }
        answer
    }

    /// Every rule of every binding of a user, and the roles that could not be looked up.
    pub(crate) fn rules_for(
        &self,
        user: &User,
        namespace: &str,
    ) -> (Vec<PolicyRule>, BTreeSet<String>) {
        let (mut rules, mut errors) = (Vec::new(), BTreeSet::new());
        for binding in self.bindings(namespace) {
            let reaches = first_applying(binding.subjects, user, binding.namespace);
            match reaches.map(|_| self.rules(&binding)) {
                Some(Ok(found)) => rules.extend_from_slice(found),
                Some(Err(error)) => errors.extend([error]),
                None => {}
            }
        }
        (rules, errors)
    }
}

fn first_applying<'a>(
    subjects: &'a [Subject],
    user: &User,
    namespace: &str,
) -> Option<&'a Subject> {
    subjects.iter().find(|subject| match subject.kind.as_str() {
        "User" => subject.name == user.name,
        "Group" => user.groups.contains(&subject.name),
        "ServiceAccount" => {
            let namespace = account_namespace(subject, namespace);
            let name = format!("system:serviceaccount:{namespace}:{}", subject.name);
            !namespace.is_empty() && name == user.name
        }
        _ => false,
    })
}

fn account_namespace<'a>(subject: &'a Subject, binding: &'a str) -> &'a str {
    let given = subject.namespace.as_deref().unwrap_or_default();
    if given.is_empty() { binding } else { given }
}

fn describe(subject: &Subject, binding: &str) -> String {
    let Subject { kind, name, .. } = subject;
    if kind == "ServiceAccount" {
        return format!("{kind} \"{name}/{}\"", account_namespace(subject, binding));
    }
    format!("{kind} {name:?}")
}

fn allows(rule: &PolicyRule, question: &Attributes<'_>) -> bool {
    let has = |list: &Option<Vec<String>>, word: &str| {
        list.iter().flatten().any(|one| one == "*" || one == word)
    };
    if !has(&Some(rule.verbs.clone()), question.verb) {
        return false;
    }
    let ResourceRequest {
        group,
        resource,
        subresource,
        name,
        ..
    } = match question.target {
        Target::Resource(request) => request,
        Target::Path(path) => {
            return rule.non_resource_urls.iter().flatten().any(|url| {
                let prefix = url.trim_end_matches('*');
                url == path || (url.ends_with('*') && path.starts_with(prefix))
            });
        }
    };
    let combined = match subresource {
        "" => resource.to_owned(),
        _ => format!("{resource}/{subresource}"),
    };
    let any_with = format!("*/{subresource}");
    let resource = has(&rule.resources, &combined)
        || (!subresource.is_empty() && rule.resources.iter().flatten().any(|one| *one == any_with));
    let names = rule.resource_names.as_deref().unwrap_or_default();
    let name = names.is_empty() || names.iter().any(|one| one == name);
    has(&rule.api_groups, group) && resource && name
}
