//! All scopes: one for each namespace that is not empty, and one for the cluster.

use std::sync::Arc;

use super::scope::Scope;
use crate::hash::HashMap;

/// The scopes of the namespaces that are not empty, and that of the cluster.
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

    pub(super) fn get_mut(&mut self, namespace: Option<&str>) -> Option<&mut Scope> {
        match namespace {
            None => Some(&mut self.cluster),
            Some(namespace) => self.namespaces.get_mut(namespace),
        }
    }

    /// The scope of a namespace, and the shared copy of the namespace's name.
    pub(super) fn make(&mut self, namespace: Option<&str>) -> (Option<Arc<str>>, &mut Scope) {
        let Some(namespace) = namespace else {
            return (None, &mut self.cluster);
        };
        let known = self.namespaces.get_key_value(namespace);
        let name = known.map_or_else(|| Arc::from(namespace), |(name, _)| Arc::clone(name));
        let scope = self.namespaces.entry(Arc::clone(&name)).or_default();
        (Some(name), scope)
    }

    pub(super) fn tidy(&mut self, namespace: Option<&str>) {
        if let Some(namespace) = namespace
            && self.namespaces.get(namespace).is_some_and(Scope::is_empty)
        {
            self.namespaces.remove(namespace);
        }
    }

    /// Every namespace's scope, or that of the cluster.
    pub(super) fn all(&self, namespaced: bool) -> impl Iterator<Item = &Scope> {
        let cluster = (!namespaced).then_some(&self.cluster);
        let each = namespaced.then(|| self.namespaces.values());
        cluster.into_iter().chain(each.into_iter().flatten())
    }
}
