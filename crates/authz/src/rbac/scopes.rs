//! All scopes: one for each namespace that holds anything, and one for the cluster.

use std::collections::HashMap;
use std::sync::Arc;

use super::scope::Scope;

/// The scopes that hold anything, and that of the cluster.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    pub(super) cluster: Scope,
    pub(super) namespaces: HashMap<Arc<str>, Scope>,
}

impl Scopes {
    pub(super) fn get(&self, namespace: Option<&str>) -> Option<&Scope> {
        match namespace {
            None => Some(&self.cluster),
            Some(namespace) => self.namespaces.get(namespace),
        }
    }

    pub(super) fn get_mut(&mut self, namespace: Option<&Arc<str>>) -> Option<&mut Scope> {
        match namespace {
            None => Some(&mut self.cluster),
            Some(namespace) => self.namespaces.get_mut(namespace),
        }
    }

    pub(super) fn make(&mut self, namespace: Option<&Arc<str>>) -> &mut Scope {
        match namespace {
            None => &mut self.cluster,
            Some(namespace) => self.namespaces.entry(namespace.clone()).or_default(),
        }
    }

    pub(super) fn tidy(&mut self, namespace: Option<&Arc<str>>) {
        if let Some(namespace) = namespace
            && self.namespaces.get(namespace).is_some_and(Scope::is_empty)
        {
            self.namespaces.remove(namespace);
        }
    }

    /// Every namespace's scope, or that of the cluster.
    pub(super) fn all(
        &self,
        namespaced: bool,
    ) -> impl Iterator<Item = (Option<&Arc<str>>, &Scope)> {
        let cluster = (!namespaced).then_some((None, &self.cluster));
        let each = namespaced.then(|| self.namespaces.iter());
        let each = each.into_iter().flatten();
        let each = each.map(|(namespace, scope)| (Some(namespace), scope));
        cluster.into_iter().chain(each)
    }
}
