//! The answers of the index.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::candidates::{ByRole, Candidates, Missing, RoleSet, join};
use super::role::Role;
use super::rule::Rule;
use super::scope::{Scope, Via};
use super::{BindingId, Grant, RbacIndex, Subject};
use crate::rules::ResolveError;
use crate::{Attributes, Authorizer, RuleResolver, Rules, Target, User, Verdict};

/// A reason names no more missing roles than this; it is made for every no.
const MOST_ERRORS: usize = 32;

/// Room for the usual reason of a yes, so that it is allocated once.
const USUAL_REASON: usize = 256;

/// Who may do something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct WhoCan {
    /// Everybody whom RBAC allows it. Those whom another authorizer allows it are not among them.
    pub subjects: BTreeSet<Subject>,
    /// The roles that could not be looked up. Those who were found may do it all the same.
    pub errors: BTreeSet<ResolveError>,
}

/// One scope whose bindings count, and the roles that they can refer to.
#[derive(Clone, Copy)]
struct View<'a> {
    scope: &'a Scope,
    cluster: &'a Scope,
    namespace: Option<&'a Scope>,
}

impl RbacIndex {
    /// Every binding that allows an access, each once, those of the cluster first. Each is looked for
    /// only when it is asked for, so the first costs no more than a decision.
    ///
    /// For a caller to whom not every yes is one: because of the binding's labels, its UID, or because
    /// it [is being deleted](super::Binding::is_deleting).
    pub fn allowing<'a>(
        &'a self,
        attributes: &Attributes<'a>,
    ) -> impl Iterator<Item = Grant<'a>> + use<'a> {
        let Attributes { user, verb, target } = *attributes;
        self.views(target.namespace()).flat_map(move |view| {
            let candidates = self.candidates(view, verb, target);
            let any = candidates.at_most() > 0;
            let reached = any.then(|| view.scope.held_by(user)).into_iter().flatten();
            reached.flat_map(move |(via, held)| {
                let bindings = join(held, candidates);
                bindings.filter_map(move |(_, id)| self.grant(id, user, via))
            })
        })
    }

    /// Everybody who may do something.
    pub fn who_can(&self, verb: &str, target: Target<'_>) -> WhoCan {
        let mut who = WhoCan::default();
        for view in self.views(target.namespace()) {
            let allowing = join(&view.scope.held, self.candidates(view, verb, target));
            let bound = allowing.filter_map(|(_, id)| self.bindings.get(id.0));
            let subjects = bound.flat_map(|bound| bound.binding.subjects());
            who.subjects.extend(subjects.cloned());
            let missing = self.missing(view, &view.scope.held);
            who.errors.extend(missing.map(Role::missing));
        }
        who
    }

    fn views(&self, namespace: &str) -> impl Iterator<Item = View<'_>> {
        let cluster = &self.scopes.cluster;
        let own = self.scopes.namespaces.get(namespace);
        let view = move |namespace: Option<_>| View {
            scope: namespace.unwrap_or(cluster),
            cluster,
            namespace,
        };
        let own = own.map(|scope| view(Some(scope)));
        std::iter::once(view(None)).chain(own)
    }

    fn candidates<'a>(
        &'a self,
        view: View<'a>,
        verb: &'a str,
        target: Target<'a>,
    ) -> Candidates<'a> {
        let own = view.namespace.map(|scope| &scope.postings);
        Candidates::new(&self.roles, &view.cluster.postings, own, verb, target)
    }

    /// The roles among those held that do not exist, once for each binding.
    fn missing<'a>(
        &'a self,
        view: View<'a>,
        held: &'a ByRole,
    ) -> impl Iterator<Item = &'a Role> + 'a {
        let missing = Missing {
            cluster: &view.cluster.missing,
            namespace: view.namespace.map(|scope| &scope.missing),
        };
        join(held, missing).filter_map(|(role, _)| self.roles.get(role.0))
    }

    /// The grant behind a binding that reaches a user; none if the way on which it was found is not
    /// the one that Kubernetes reports, so that each binding comes up once.
    fn grant<'a>(&'a self, id: BindingId, user: &User, via: Via) -> Option<Grant<'a>> {
        let binding = &self.bindings.get(id.0)?.binding;
        let mut subjects = binding.subjects().iter();
        let subject = subjects.find(|subject| subject.applies_to(user))?;
        via.finds(subject, user)
            .then_some(Grant { binding, subject })
    }

    /// The role of each binding that reaches a user.
    fn reaching<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Role> + 'a {
        let held = self
            .views(namespace)
            .flat_map(|view| view.scope.held_by(user));
        let bound =
            held.flat_map(|(via, held)| held.iter().map(move |(role, id)| (via, *role, *id)));
        let once = bound.filter(|(via, _, id)| self.grant(*id, user, *via).is_some());
        once.filter_map(|(_, role, _)| self.roles.get(role.0))
    }

    /// The roles that a user's bindings refer to in vain, as the API server reports them.
    fn complaint(&self, user: &User, namespace: &str) -> String {
        let mut texts: Vec<String> = Vec::new();
        for view in self.views(namespace) {
            for (_, held) in view.scope.held_by(user) {
                for role in self.missing(view, held) {
                    let text = role.missing().to_string();
                    if texts.contains(&text) {
                        continue;
                    }
                    if texts.len() == MOST_ERRORS {
                        return format!("RBAC: [{}, ...]", texts.join(", "));
                    }
                    texts.push(text);
                }
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
                let mut reason = String::with_capacity(USUAL_REASON);
                // Writing to a string does not fail.
                let _ = write!(reason, "RBAC: allowed by {grant}");
                Verdict::allow(reason)
            }
            None => Verdict::no_opinion(self.complaint(user, target.namespace())),
        }
    }
}

/// As in Kubernetes, rules about paths are listed even where they come through a `RoleBinding`, which
/// never lets them count in a decision; and a role that is bound twice is listed twice.
impl RuleResolver for RbacIndex {
    fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        let mut rules = Rules::default();
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
