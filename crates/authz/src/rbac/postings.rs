//! Which rules speak of a resource: the half of the index that roles fill.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use super::RoleId;
use super::rule::Rule;
use crate::ResourceRequest;

/// Where a rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RulePlace {
    pub(super) role: RoleId,
    /// Its number in the role.
    pub(super) rule: usize,
}

/// The rules of the roles of one namespace, or of all cluster roles, by what they speak of. Each list
/// is sorted and holds no rule twice.
#[derive(Debug, Default)]
pub(super) struct Postings {
    resources: HashMap<Key, Vec<RulePlace>>,
    paths: Vec<RulePlace>,
}

impl Postings {
    pub(super) fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.paths.is_empty()
    }

    pub(super) fn insert(&mut self, role: RoleId, rules: &[Rule]) {
        for (rule, content) in rules.iter().enumerate() {
            let place = RulePlace { role, rule };
            for (resource, name) in content.pairs() {
                add(
                    self.resources.entry(Key::new(resource, name)).or_default(),
                    place,
                );
            }
            if content.has_urls() {
                add(&mut self.paths, place);
            }
        }
    }

    pub(super) fn remove(&mut self, role: RoleId, rules: &[Rule]) {
        for (rule, content) in rules.iter().enumerate() {
            let place = RulePlace { role, rule };
            for (resource, name) in content.pairs() {
                let key = Key::new(resource, name);
                if let Some(list) = self.resources.get_mut(&key) {
                    take(list, place);
                    if list.is_empty() {
                        self.resources.remove(&key);
                    }
                }
            }
            take(&mut self.paths, place);
        }
    }

    /// Every list with rules that cover a request's resource; together they hold all such rules that
    /// do not name other objects only.
    pub(super) fn covering<'a>(&'a self, request: &ResourceRequest<'_>) -> [&'a [RulePlace]; 6] {
        let ResourceRequest {
            resource,
            subresource,
            name,
            ..
        } = *request;
        let find = |resource, subresource, name| {
            let parts = Parts {
                resource,
                subresource,
                name,
            };
            let list = self.resources.get(&parts as &dyn InParts);
            list.map_or(&[] as &[_], Vec::as_slice)
        };
        let [any_with, any_with_name] = if subresource.is_empty() {
            [&[] as &[_]; 2]
        } else {
            [None, Some(name)].map(|name| find("*", subresource, name))
        };
        [
            find(resource, subresource, None),
            find(resource, subresource, Some(name)),
            find("*", "", None),
            find("*", "", Some(name)),
            any_with,
            any_with_name,
        ]
    }

    pub(super) fn paths(&self) -> &[RulePlace] {
        &self.paths
    }
}

fn add(list: &mut Vec<RulePlace>, place: RulePlace) {
    if let Err(at) = list.binary_search(&place) {
        list.insert(at, place);
    }
}

fn take(list: &mut Vec<RulePlace>, place: RulePlace) {
    if let Ok(at) = list.binary_search(&place) {
        list.remove(at);
    }
}

/// A resource as a rule writes it, and an object's name if the rule has names.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    resource: Box<str>,
    name: Option<Box<str>>,
}

impl Key {
    fn new(resource: &str, name: Option<&str>) -> Self {
        Self {
            resource: resource.into(),
            name: name.map(Into::into),
        }
    }
}

/// A key that a request spells in parts, so that asking builds no string.
#[derive(Clone, Copy)]
struct Parts<'a> {
    resource: &'a str,
    subresource: &'a str,
    name: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn segments(self) -> impl Iterator<Item = &'a str> {
        let subresource = (!self.subresource.is_empty()).then(|| self.subresource.split('/'));
        let resource = self.resource.split('/');
        resource.chain(subresource.into_iter().flatten())
    }
}

/// What keys and their parts have in common: taken segment by segment, it does not matter where the
/// subresource begins.
trait InParts {
    fn parts(&self) -> Parts<'_>;
}

impl InParts for Key {
    fn parts(&self) -> Parts<'_> {
        Parts {
            resource: &self.resource,
            subresource: "",
            name: self.name.as_deref(),
        }
    }
}

impl InParts for Parts<'_> {
    fn parts(&self) -> Parts<'_> {
        *self
    }
}

impl<'a> Borrow<dyn InParts + 'a> for Key {
    fn borrow(&self) -> &(dyn InParts + 'a) {
        self
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self as &dyn InParts).hash(state);
    }
}

impl Hash for dyn InParts + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let parts = self.parts();
        parts.name.hash(state);
        parts.segments().for_each(|segment| segment.hash(state));
    }
}

impl PartialEq for dyn InParts + '_ {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (self.parts(), other.parts());
        one.name == other.name && one.segments().eq(other.segments())
    }
}

impl Eq for dyn InParts + '_ {}
