//! The pairs of a role and a binding that one object is part of.
//!
//! A decision rests on such pairs alone. So two sets hold every decision that a change of an object can affect: the
//! one before the change, and the one after it. The order in which a role and its bindings arrive does not matter.

use super::object::Half;
use super::role::{Bound, Role};
use super::rule::Rule;
use super::{Binding, BindingId, RbacIndex, RbacObject, key};

/// A role that exists, and bindings to it. One of them is the object in question.
#[derive(Clone, Copy, Debug)]
pub struct BoundRole<'a> {
    index: &'a RbacIndex,
    role: &'a Role,
    /// The binding in question; all bindings of the role when that is in question.
    only: Option<BindingId>,
    namespace: Option<&'a str>,
}

impl RbacIndex {
    /// The pairs that an object is part of at this moment. None when no decision rests on it: it is unknown, a role
    /// without a binding, or a binding without a role. Only its kind, namespace and name count.
    #[must_use]
    pub fn resting_on<'a, K: RbacObject>(&'a self, object: &'a K) -> Option<BoundRole<'a>> {
        let (namespace, name) = key::<K>(object.metadata()).ok()?;
        let (role, only) = match K::HALF {
            Half::Roles => (self.known_role(namespace, name)?, None),
            Half::Bindings => {
                let scope = self.scopes.get(namespace)?;
                let id = scope.binding(&self.hashing, &self.bindings, name)?;
                (self.bindings.get(id.0)?.role, Some(id))
            }
        };
        let role = self.roles.get(role.0)?;
        let rests = role.rules.is_some() && role.bound.len() > 0;
        rests.then_some(BoundRole {
            index: self,
            role,
            only,
            namespace,
        })
    }
}

impl<'a> BoundRole<'a> {
    /// The namespace of the object in question; none for one of the cluster.
    #[must_use]
    pub const fn namespace(&self) -> Option<&'a str> {
        self.namespace
    }

    /// The number of rules of the role, about any API group.
    #[must_use]
    pub fn rules(&self) -> usize {
        self.role.rules.as_ref().map_or(0, |rules| rules.len())
    }

    /// The resources of an API group that the role is about, each with a name; without one, any name may be meant.
    pub fn targets(&self, group: &str) -> impl Iterator<Item = (&'a str, Option<&'a str>)> {
        let rules = self.role.rules.iter().flatten();
        rules
            .filter(move |rule| rule.is_about_group(group))
            .flat_map(Rule::pairs)
    }

    /// The bindings.
    pub fn bindings(&self) -> impl Iterator<Item = &'a Binding> {
        let index = self.index;
        let ids = match self.only {
            Some(only) => Bound::One(Some(only)),
            None => self.role.bound.iter(),
        };
        ids.filter_map(|id| index.bindings.get(id.0))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1 as rbac;
    use k8s_openapi::serde_json::{self, Value, json};

    use super::*;

    fn role(rules: &Value) -> rbac::Role {
        let metadata = json!({"name": "r", "namespace": "n"});
        serde_json::from_value(json!({"metadata": metadata, "rules": rules})).unwrap()
    }

    fn binding(name: &str, subject: &str) -> rbac::RoleBinding {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "n"},
            "roleRef": {"apiGroup": "", "kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": subject}],
        }))
        .unwrap()
    }

    fn rules(name: &str) -> Value {
        json!([
            {"apiGroups": ["g"], "resources": ["a", "b"], "resourceNames": [name], "verbs": []},
            {"apiGroups": ["*"], "resources": ["c"], "verbs": []},
            {"apiGroups": ["other"], "resources": ["d"], "verbs": []},
        ])
    }

    fn subjects<K: RbacObject>(index: &RbacIndex, object: &K) -> Vec<String> {
        let bound = index.resting_on(object).unwrap();
        let all = bound.bindings().flat_map(Binding::subjects);
        all.map(ToString::to_string).collect()
    }

    #[test]
    fn nothing_rests_on_a_role_without_a_binding_or_a_binding_without_a_role() {
        let mut index = RbacIndex::default();
        let (role, one) = (role(&rules("x")), binding("one", "ada"));
        let rests = |index: &RbacIndex| {
            let of_role = index.resting_on(&role).is_some();
            assert_eq!(of_role, index.resting_on(&one).is_some());
            of_role
        };
        assert!(!rests(&index));
        index.apply(&role).unwrap();
        assert!(!rests(&index));
        index.apply(&one).unwrap();
        assert!(rests(&index));
        index.delete(&role);
        assert!(!rests(&index));
        index.apply(&role).unwrap();
        assert!(rests(&index));
        index.delete(&one);
        assert!(!rests(&index));
        // Nor on an object without a place.
        assert!(index.resting_on(&rbac::Role::default()).is_none());
    }

    #[test]
    fn on_a_role_rest_all_its_bindings_and_on_a_binding_itself() {
        let mut index = RbacIndex::default();
        let (role, one, two) = (
            role(&rules("x")),
            binding("one", "ada"),
            binding("two", "bob"),
        );
        index.apply(&role).unwrap();
        index.apply(&one).unwrap();
        index.apply(&two).unwrap();
        assert_eq!(subjects(&index, &role), [r#"User "ada""#, r#"User "bob""#]);
        assert_eq!(subjects(&index, &one), [r#"User "ada""#]);
        assert_eq!(subjects(&index, &two), [r#"User "bob""#]);
        assert_eq!(index.resting_on(&one).unwrap().namespace(), Some("n"));
    }

    #[test]
    fn a_role_is_about_the_resources_of_its_rules_in_a_group() {
        let mut index = RbacIndex::default();
        let (role, one) = (role(&rules("x")), binding("one", "ada"));
        index.apply(&role).unwrap();
        index.apply(&one).unwrap();
        for bound in [index.resting_on(&role), index.resting_on(&one)] {
            let bound = bound.unwrap();
            let targets: Vec<_> = bound.targets("g").collect();
            assert_eq!(targets, [("a", Some("x")), ("b", Some("x")), ("c", None)]);
            // A look at each costs time, also at one about another group.
            assert_eq!(bound.rules(), 3);
        }
    }

    /// A cluster role is bound in any namespace, and each such binding is about itself alone.
    #[test]
    fn an_object_of_the_cluster_has_no_namespace() {
        let mut index = RbacIndex::default();
        let role: rbac::ClusterRole = serde_json::from_value(
            json!({"metadata": {"name": "r", "namespace": "n"}, "rules": rules("x")}),
        )
        .unwrap();
        let mut one = binding("one", "ada");
        "ClusterRole".clone_into(&mut one.role_ref.kind);
        index.apply(&role).unwrap();
        index.apply(&one).unwrap();
        assert_eq!(index.resting_on(&role).unwrap().namespace(), None);
        assert_eq!(index.resting_on(&one).unwrap().namespace(), Some("n"));
        assert_eq!(subjects(&index, &one), [r#"User "ada""#]);
    }
}
