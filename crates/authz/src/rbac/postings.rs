//! The index of rules by resource: the half that roles fill.
//!
//! A list with one rule, the case of a pod's grant, stores no key: the key is read from the rule.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::RoleId;
use super::role::Role;
use crate::ResourceRequest;
use crate::attributes::is_joined;
use crate::hash::Hashing;
use crate::slab::Slab;

/// The location of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RulePlace {
    pub(super) role: RoleId,
    /// The index of the rule in the role.
    pub(super) rule: u32,
}

/// The rules of the roles of one namespace, or of all cluster roles, by resource and name. Each list is
/// sorted and holds no rule twice.
#[derive(Debug, Default)]
pub(super) struct Postings {
    resources: HashTable<Hashed>,
    paths: Vec<RulePlace>,
}

/// All roles, and the random key of the hashes.
#[derive(Clone, Copy)]
pub(super) struct PostingContext<'a> {
    pub(super) roles: &'a Slab<Role>,
    pub(super) hashing: &'a Hashing,
}

impl Postings {
    pub(super) fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.paths.is_empty()
    }

    /// Adds the rules of a role, which must already be in the slab of roles.
    pub(super) fn insert(&mut self, context: PostingContext<'_>, role: RoleId) {
        for (place, content) in context.rules(role) {
            for (pair, key) in (0..).zip(content.pairs()) {
                let key = Key::from(key);
                let hash = key.hash(context.hashing);
                let is_it = |found: &Hashed| found.is_for(context.roles, hash, key);
                match self.resources.entry(hash, is_it, |found| found.hash) {
                    Entry::Occupied(mut found) => found.get_mut().posting.add(place, key),
                    Entry::Vacant(free) => {
                        let posting = Posting::One { place, pair };
                        free.insert(Hashed { hash, posting });
                    }
                }
            }
            if content.has_urls() {
                add(&mut self.paths, place);
            }
        }
    }

    /// Removes the rules of a role, which must still be in the slab of roles.
    pub(super) fn remove(&mut self, context: PostingContext<'_>, role: RoleId) {
        for (place, content) in context.rules(role) {
            for key in content.pairs().map(Key::from) {
                let hash = key.hash(context.hashing);
                let is_it = |found: &Hashed| found.is_for(context.roles, hash, key);
                if let Ok(mut found) = self.resources.find_entry(hash, is_it)
                    && found.get_mut().posting.is_empty_without(place)
                {
                    found.remove();
                }
            }
            take(&mut self.paths, place);
        }
    }

    /// Every list with rules that cover a request's resource. Together they hold all such rules, except those
    /// that name other objects only.
    pub(super) fn covering<'a>(
        &'a self,
        roles: &Slab<Role>,
        asked: &[Option<LookupKey<'_>>; 6],
    ) -> [&'a [RulePlace]; 6] {
        asked.map(|asked| {
            let found = asked.and_then(|LookupKey { key, hash }| {
                let is_it = |found: &Hashed| found.is_for(roles, hash, key);
                self.resources.find(hash, is_it)
            });
            found.map_or(&[] as &[_], |found| found.posting.places())
        })
    }

    pub(super) fn paths(&self) -> &[RulePlace] {
        &self.paths
    }
}

impl<'a> PostingContext<'a> {
    fn rules(self, role: RoleId) -> impl Iterator<Item = (RulePlace, &'a super::rule::Rule)> {
        let rules = self
            .roles
            .get(role.0)
            .and_then(|role| role.rules.as_deref());
        let places = (0..).map(move |rule| RulePlace { role, rule });
        places.zip(rules.unwrap_or_default())
    }
}

/// The rules under one key, with the hash of the key, so that a growing table need not read all keys again.
#[derive(Debug)]
struct Hashed {
    hash: u64,
    posting: Posting,
}

impl Hashed {
    fn is_for(&self, roles: &Slab<Role>, hash: u64, key: Key<'_>) -> bool {
        self.hash == hash && self.posting.is_for(roles, key)
    }
}

/// The rules under one key.
#[derive(Debug)]
enum Posting {
    One {
        place: RulePlace,
        /// The index of the key among the rule's pairs.
        pair: u32,
    },
    Many(Box<Many>),
}

#[derive(Debug)]
struct Many {
    resource: Box<str>,
    name: Option<Box<str>>,
    places: Vec<RulePlace>,
}

impl Posting {
    fn places(&self) -> &[RulePlace] {
        match self {
            Self::One { place, .. } => std::slice::from_ref(place),
            Self::Many(many) => &many.places,
        }
    }

    fn key<'a>(&'a self, roles: &'a Slab<Role>) -> Option<(&'a str, Option<&'a str>)> {
        match self {
            Self::Many(many) => Some((&many.resource, many.name.as_deref())),
            Self::One { place, pair } => {
                let role = roles.get(place.role.0)?;
                role.rules.as_deref()?.get(place.rule as usize)?.pair(*pair)
            }
        }
    }

    fn is_for(&self, roles: &Slab<Role>, key: Key<'_>) -> bool {
        self.key(roles).is_some_and(|(resource, name)| {
            name == key.name && is_joined(resource, key.resource, key.subresource)
        })
    }

    fn add(&mut self, place: RulePlace, key: Key<'_>) {
        match self {
            Self::One { place: other, .. } if *other == place => {}
            Self::One { place: other, .. } => {
                let mut places = vec![*other];
                add(&mut places, place);
                *self = Self::Many(Box::new(Many {
                    resource: key.resource.into(),
                    name: key.name.map(Into::into),
                    places,
                }));
            }
            Self::Many(many) => add(&mut many.places, place),
        }
    }

    /// Removes a place; true when none is left.
    fn is_empty_without(&mut self, place: RulePlace) -> bool {
        match self {
            Self::One { place: other, .. } => *other == place,
            Self::Many(many) => {
                take(&mut many.places, place);
                many.places.is_empty()
            }
        }
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

/// A resource, and an object's name if the rule has names. A request passes the resource in parts, so that a
/// lookup builds no string.
#[derive(Clone, Copy, Debug)]
struct Key<'a> {
    resource: &'a str,
    subresource: &'a str,
    name: Option<&'a str>,
}

impl<'a> From<(&'a str, Option<&'a str>)> for Key<'a> {
    fn from((resource, name): (&'a str, Option<&'a str>)) -> Self {
        Self {
            resource,
            subresource: "",
            name,
        }
    }
}

impl Key<'_> {
    fn hash(self, hashing: &Hashing) -> u64 {
        let resource = Halves::new(hashing, self.resource, self.subresource);
        resource.with(hashing, self.name.map(|name| hashing.hash_one(name)))
    }
}

/// The hashes of the parts before and after the first slash of a resource with its subresource. A request
/// usually splits them there too.
#[derive(Clone, Copy)]
struct Halves {
    first: u64,
    rest: Option<u64>,
}

impl Halves {
    fn new(hashing: &Hashing, resource: &str, subresource: &str) -> Self {
        let hash = |text: &str| hashing.hash_one(text);
        let (first, rest) = match (resource.split_once('/'), subresource) {
            (None, "") => (resource, None),
            (None, subresource) => (resource, Some(hash(subresource))),
            (Some((first, rest)), "") => (first, Some(hash(rest))),
            (Some((first, rest)), subresource) => {
                (first, Some(hash(&format!("{rest}/{subresource}"))))
            }
        };
        let first = hash(first);
        Self { first, rest }
    }

    fn with(self, hashing: &Hashing, name: Option<u64>) -> u64 {
        hashing.hash_one((self.first, self.rest, name))
    }
}

/// A key under which rules for a request may be stored.
#[derive(Clone, Copy)]
pub(super) struct LookupKey<'a> {
    key: Key<'a>,
    hash: u64,
}

/// Every key under which there may be rules that cover a request's resource. Each word is hashed once,
/// however many keys and scopes are looked up.
pub(super) fn asked<'a>(
    hashing: &Hashing,
    request: &ResourceRequest<'a>,
) -> [Option<LookupKey<'a>>; 6] {
    let ResourceRequest {
        resource,
        subresource,
        name,
        ..
    } = *request;
    let name_hash = hashing.hash_one(name);
    let keys = |resource, subresource, halves: Halves| {
        let key = |name, hash| {
            let key = Key {
                resource,
                subresource,
                name,
            };
            let hash = halves.with(hashing, hash);
            Some(LookupKey { key, hash })
        };
        [key(None, None), key(Some(name), Some(name_hash))]
    };
    let halves = Halves::new(hashing, resource, subresource);
    let [own, own_named] = keys(resource, subresource, halves);
    let first = hashing.hash_one("*");
    let rest = None;
    let [all, all_named] = keys("*", "", Halves { first, rest });
    let [any_with, any_with_named] = if subresource.is_empty() {
        [None, None]
    } else {
        // The part after the slash is the same, unless the request splits at another slash.
        let rest = halves.rest.filter(|_| !resource.contains('/'));
        let rest = Some(rest.unwrap_or_else(|| hashing.hash_one(subresource)));
        keys("*", subresource, Halves { first, rest })
    };
    [own, own_named, all, all_named, any_with, any_with_named]
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::rbac::v1::PolicyRule;

    use super::*;
    use crate::pool::TextPool;
    use crate::rbac::role::{BoundBy, RoleKind, RoleRef};
    use crate::rbac::rule::Rule;

    const PLACE: RulePlace = RulePlace {
        role: RoleId(0),
        rule: 0,
    };

    /// One role, with one rule for objects of these resources and names.
    fn roles(resources: &[&str], names: &[&str]) -> Slab<Role> {
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        let rule = PolicyRule {
            resources: words(resources),
            resource_names: words(names),
            ..PolicyRule::default()
        };
        let mut roles = Slab::default();
        roles.insert(Role {
            namespace: None,
            reference: RoleRef {
                kind: RoleKind::ClusterRole,
                name: "role".into(),
            },
            rules: Some(Box::new([Rule::new(&rule, &mut TextPool::default())])),
            bound: BoundBy::default(),
        });
        roles
    }

    /// Two keys that collide are told apart: the lookup is slower, and gives no access.
    #[test]
    fn a_rule_is_found_by_its_whole_key_even_if_the_hash_of_another_one_is_the_same() {
        let roles = roles(&["pods/log"], &["a"]);
        let many = Many {
            resource: "pods/log".into(),
            name: Some("a".into()),
            places: vec![PLACE],
        };
        let one = Posting::One {
            place: PLACE,
            pair: 0,
        };
        for posting in [one, Posting::Many(Box::new(many))] {
            let stored = Hashed { hash: 7, posting };
            for (hash, resource, subresource, name, found) in [
                (7, "pods", "log", Some("a"), true),
                (7, "pods/log", "", Some("a"), true),
                (8, "pods", "log", Some("a"), false),
                (7, "pods", "exec", Some("a"), false),
                (7, "pods", "", Some("a"), false),
                (7, "secrets", "log", Some("a"), false),
                (7, "pods", "log", Some("b"), false),
                (7, "pods", "log", None, false),
            ] {
                let key = Key {
                    resource,
                    subresource,
                    name,
                };
                let is_for = stored.is_for(&roles, hash, key);
                assert_eq!(is_for, found, "{hash} {key:?} {stored:?}");
            }
        }
    }

    #[test]
    fn a_rule_that_repeats_a_resource_is_stored_once_and_without_its_key() {
        let roles = roles(&["pods", "pods"], &[]);
        let context = PostingContext {
            roles: &roles,
            hashing: &Hashing::default(),
        };
        let mut postings = Postings::default();
        postings.insert(context, PLACE.role);
        let stored: Vec<&Hashed> = postings.resources.iter().collect();
        let [found] = stored.as_slice() else {
            panic!("{stored:?}")
        };
        assert!(matches!(found.posting, Posting::One { .. }), "{found:?}");
    }
}
