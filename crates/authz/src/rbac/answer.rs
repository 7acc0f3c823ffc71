//! The answers of the index.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::candidates::{CandidateRoles, MissingRoles, RoleSet};
use super::postings::asked;
use super::reach::{Reached, View};
use super::role::Role;
use super::rule::Rule;
use super::{AllowedBy, Binding, RbacIndex, RoleId, Subject};
use crate::rules::ResolveError;
use crate::{Attributes, Authorizer, RuleResolver, Target, User, UserRules, Verdict};

/// A reason names at most this many missing roles, because it is built for every answer that is not a yes.
const MOST_ERRORS: usize = 32;

/// The prefix of the reason of a yes.
const ALLOWED: &str = "RBAC: allowed by ";

/// The subjects that may do something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct AllowedSubjects {
    /// The subjects that RBAC allows it. Subjects that only another authorizer allows it are not included.
    pub subjects: BTreeSet<Subject>,
    /// True when there are more than the caller asked for.
    pub is_cut: bool,
    /// The roles that could not be looked up. The subjects found are valid all the same.
    pub errors: BTreeSet<ResolveError>,
}

/// The first few of many subjects, in their order.
struct FirstSubjects<'a> {
    most: usize,
    first: BTreeSet<&'a Subject>,
    is_cut: bool,
}

impl<'a> FirstSubjects<'a> {
    const fn new(most: usize) -> Self {
        Self {
            most,
            first: BTreeSet::new(),
            is_cut: false,
        }
    }

    fn add(&mut self, subject: &'a Subject) {
        let is_full = self.first.len() >= self.most;
        if is_full && self.first.last().is_none_or(|last| subject > *last) {
            self.is_cut = true;
        } else if self.first.insert(subject) && is_full {
            self.first.pop_last();
            self.is_cut = true;
        }
    }
}

impl RbacIndex {
    /// Every binding that allows an access, each once, those of the cluster first. The iterator is lazy, so
    /// the first one costs no more than a decision.
    ///
    /// For callers that do not accept every allowing binding: because of its labels, its UID, or because it
    /// [is being deleted](super::Binding::is_deleting).
    pub fn allowing<'a>(
        &'a self,
        attributes: &Attributes<'a>,
    ) -> impl Iterator<Item = AllowedBy<'a>> + use<'a> {
        let Attributes { user, verb, target } = *attributes;
        let user = user.as_user();
        let candidates = self.candidates(verb, target);
        let [cluster, own] = self.views(target.namespace());
        let in_cluster =
            cluster.map(|view| Reached::new(self, view, user, candidates.of_cluster()));
        let in_own = own.map(|view| Reached::new(self, view, user, candidates));
        in_cluster
            .into_iter()
            .flatten()
            .chain(in_own.into_iter().flatten())
    }

    /// The subjects that may do something through bindings that the caller accepts: the first `most` of them
    /// in their order.
    pub fn who_can(
        &self,
        verb: &str,
        target: Target<'_>,
        most: usize,
        counts: impl Fn(&Binding) -> bool,
    ) -> AllowedSubjects {
        let (mut found, mut who) = (FirstSubjects::new(most), AllowedSubjects::default());
        let all = self.candidates(verb, target);
        let namespace = target.namespace();
        for view in self.views(namespace).into_iter().flatten() {
            let candidates = match view.name {
                None => all.of_cluster(),
                Some(_) => all,
            };
            for role in candidates.roles() {
                let counting = self.bound(view, role).filter(|one| counts(one));
                for subject in counting.flat_map(Binding::subjects) {
                    found.add(subject);
                }
            }
            for role in self.missing(view).roles() {
                if self.bound(view, role).next().is_some() {
                    let error = self.roles.get(role.0).map(Role::missing);
                    who.errors.extend(error);
                }
            }
        }
        who.is_cut = found.is_cut;
        who.subjects = found.first.into_iter().cloned().collect();
        who
    }

    /// The cluster scope, and the scope of the namespace if it is not empty.
    pub(super) fn views<'a>(&'a self, namespace: &'a str) -> [Option<View<'a>>; 2] {
        let cluster = View {
            name: None,
            scope: &self.scopes.cluster,
        };
        let own = self.scopes.get(Some(namespace)).map(|scope| View {
            name: Some(namespace),
            scope,
        });
        [Some(cluster), own]
    }

    /// The roles that allow something, in the cluster and in the namespace of the target.
    pub(super) fn candidates<'a>(
        &'a self,
        verb: &'a str,
        target: Target<'a>,
    ) -> CandidateRoles<'a> {
        let asked = match target {
            Target::Resource(request) => Some(asked(&self.hashing, &request)),
            Target::Path(_) => None,
        };
        let own = self.scopes.get(Some(target.namespace()));
        let own = own.map(|scope| &scope.postings);
        let cluster = &self.scopes.cluster.postings;
        CandidateRoles::new(&self.roles, cluster, own, verb, target, asked.as_ref())
    }

    /// The roles that bindings of a view refer to although they do not exist.
    fn missing<'a>(&'a self, view: View<'a>) -> MissingRoles<'a> {
        MissingRoles {
            cluster: &self.scopes.cluster.missing,
            namespace: view.name.map(|_| &view.scope.missing),
        }
    }

    /// The bindings of a view to a role. Walks the smaller set: all bindings to the role, or all bindings of
    /// the view.
    pub(super) fn bound<'a>(
        &'a self,
        view: View<'a>,
        role: RoleId,
    ) -> impl Iterator<Item = &'a Binding> {
        let bound = self.roles.get(role.0).map(|role| &role.bound);
        let bound = bound.filter(|bound| bound.len() <= view.scope.bindings().len());
        let there = bound.is_none().then(|| view.scope.bindings());
        let bound = bound.into_iter().flat_map(|bound| bound.iter());
        let ids = bound.chain(there.into_iter().flatten());
        let bindings = ids.filter_map(|id| self.bindings.get(id.0));
        bindings.filter(move |one| one.role == role && one.namespace() == view.name)
    }

    /// The role of each binding that reaches a user.
    fn reaching<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Role> + 'a {
        let views = self.views(namespace).into_iter().flatten();
        let held = views.flat_map(|view| view.scope.held_by(user));
        let bound =
            held.flat_map(|(name, held)| held.iter().map(move |(role, id)| (name, *role, *id)));
        let once = bound.filter(|(name, _, id)| self.grant_via(*id, user, *name).is_some());
        once.filter_map(|(_, role, _)| self.roles.get(role.0))
    }

    /// The missing roles that a user's bindings refer to, worded as the API server reports them.
    fn complaint(&self, user: &User, namespace: &str) -> String {
        let mut texts: Vec<String> = Vec::new();
        for view in self.views(namespace).into_iter().flatten() {
            for grant in Reached::new(self, view, user, self.missing(view)) {
                let role = self.roles.get(grant.binding.role.0);
                let Some(text) = role.map(|role| role.missing().to_string()) else {
                    continue;
                };
                if texts.contains(&text) {
                    continue;
                }
                if texts.len() == MOST_ERRORS {
                    return format!("RBAC: [{}, ...]", texts.join(", "));
                }
                texts.push(text);
            }
        }
        match texts.as_slice() {
            [] => String::new(),
            [text] => format!("RBAC: {text}"),
            _ => format!("RBAC: [{}]", texts.join(", ")),
        }
    }
}

impl Authorizer for RbacIndex {
    fn authorize(&self, attributes: &Attributes<'_>) -> Verdict {
        let Attributes {
            user,
            verb: _,
            target,
        } = attributes;
        match self.allowing(attributes).next() {
            Some(grant) => {
                let mut reason = String::with_capacity(ALLOWED.len() + grant.room());
                reason.push_str(ALLOWED);
                // Writing to a string does not fail.
                let _ = write!(reason, "{grant}");
                Verdict::allow(reason)
            }
            None => Verdict::no_opinion(self.complaint(user.as_user(), target.namespace())),
        }
    }
}

/// As in Kubernetes, rules about paths are listed even if they come through a `RoleBinding`, although they
/// never count in a decision then. A role that is bound twice is listed twice.
impl RuleResolver for RbacIndex {
    fn rules_for(&self, user: &User, namespace: &str) -> UserRules {
        let mut rules = UserRules::default();
        for role in self.reaching(user, namespace) {
            let Some(found) = &role.rules else {
                let error = role.missing();
                if !rules.errors.contains(&error) {
                    rules.errors.push(error);
                }
                continue;
            };
            let found = found.iter();
            let resource = found.clone().filter_map(Rule::resource_rule);
            rules.resource.extend(resource);
            rules
                .non_resource
                .extend(found.filter_map(Rule::non_resource_rule));
        }
        rules
    }
}
