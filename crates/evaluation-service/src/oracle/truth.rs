//! Which answers are true at some moment of a while, where each object may be of another moment of it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::cluster::{Cluster, Key, Kind, Versions};
use super::reference::{Pair, Question, accepts, deciding, is_about, role_of, switch};

/// More combinations of rivals are not looked at.
const COMBINATIONS: usize = 4096;

/// The binding behind a yes: kind, namespace, name, UID.
pub(super) type Named = (String, String, String, String);

/// What was said to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    No,
    Standing(Option<Named>),
    Pods(Option<Named>),
}

/// A request as an answer shows it: its UID and its phase.
pub(super) type Shown = Option<(String, String)>;

pub(super) struct Truth<'a> {
    kinds: BTreeMap<Kind, Versions<'a>>,
    from: Timestamp,
    to: Timestamp,
}

impl<'a> Truth<'a> {
    /// From what had been shown before a moment until now; times count from `from` to `to`.
    pub(super) fn new(
        cluster: &'a Cluster,
        known_before: Timestamp,
        (from, to): (Timestamp, Timestamp),
    ) -> Self {
        let now = cluster.version();
        let versions = |kind: &Kind| {
            let known = cluster.known(*kind, known_before);
            (*kind, cluster.versions(*kind, known, now))
        };
        Self {
            kinds: Kind::SOURCES.iter().map(versions).collect(),
            from,
            to,
        }
    }

    fn of(&self, kind: Kind) -> &Versions<'a> {
        &self.kinds[&kind]
    }

    /// Why this cannot be the answer.
    pub(super) fn refute(
        &self,
        question: &Question,
        told: &Told,
        shown: Option<&Shown>,
    ) -> Option<&'static str> {
        let requests = self.deciding(question)?;
        let is_shown = |shown: &Shown| requests.iter().any(|it| it.map(facts) == *shown);
        if shown.is_some_and(|shown| !is_shown(shown)) {
            return Some("no such request decides");
        }
        // The request that was shown is the one that decided.
        let requests: Vec<_> = match shown {
            Some(shown) => requests
                .into_iter()
                .filter(|it| it.map(facts) == *shown)
                .collect(),
            None => requests,
        };
        let is_standing = |pair: Pair<'_>| pair.is_standing(question);
        match told {
            Told::Standing(named) if self.is_possible(named.as_ref(), is_standing) => None,
            Told::Standing(_) => Some("no such standing permission was there"),
            Told::Pods(_) | Told::No if self.is_certain(is_standing) => {
                Some("a standing permission was there all the time")
            }
            Told::Pods(named) => {
                let mut requests = requests.iter();
                let is_possible = requests.any(|request| {
                    self.is_possible(named.as_ref(), |it| {
                        it.is_pods(question, *request, self.from)
                    })
                });
                (!is_possible).then_some("no such permission of the pod was there")
            }
            Told::No => {
                let mut requests = requests.iter();
                let is_certain = requests
                    .all(|request| self.is_certain(|it| it.is_pods(question, *request, self.to)));
                is_certain.then_some("a permission of the pod was there all the time")
            }
        }
    }

    /// Whether at some moment a binding, this one, gave it.
    fn is_possible(&self, named: Option<&Named>, gives: impl Fn(Pair<'_>) -> bool) -> bool {
        self.bindings().any(|(kind, key, versions)| {
            versions.iter().flatten().any(|binding| {
                named.is_none_or(|named| *named == name(kind, key, binding))
                    && self
                        .roles(kind, key, binding)
                        .into_iter()
                        .flatten()
                        .any(|role| {
                            gives(Pair {
                                kind,
                                key,
                                binding,
                                role,
                            })
                        })
            })
        })
    }

    /// Whether one binding gave it all the time, whatever of it and of its role was seen.
    fn is_certain(&self, gives: impl Fn(Pair<'_>) -> bool) -> bool {
        self.bindings().any(|(kind, key, versions)| {
            versions.iter().all(|binding| {
                binding.is_some_and(|binding| {
                    self.roles(kind, key, binding).into_iter().all(|role| {
                        role.is_some_and(|role| {
                            gives(Pair {
                                kind,
                                key,
                                binding,
                                role,
                            })
                        })
                    })
                })
            })
        })
    }

    fn bindings(&self) -> impl Iterator<Item = (Kind, &Key, &Vec<Option<&'a Value>>)> {
        let of = |kind| self.of(kind).iter().map(move |(key, it)| (kind, *key, it));
        of(Kind::RoleBinding).chain(of(Kind::ClusterRoleBinding))
    }

    /// What the role of a binding may have been.
    fn roles(&self, kind: Kind, key: &Key, binding: &Value) -> Vec<Option<&'a Value>> {
        let role = role_of(kind, key, binding);
        let found = role.and_then(|(kind, key)| self.of(kind).get(&key).cloned());
        found.unwrap_or_else(|| vec![None])
    }

    /// The requests that may have decided; nothing when they are too many to look at.
    fn deciding(&self, question: &Question) -> Option<Vec<Option<&'a Value>>> {
        let mut choices: Vec<Vec<&'a Value>> = vec![Vec::new()];
        for versions in self.of(Kind::Request).values() {
            let about = |it: Option<&'a Value>| it.filter(|it| is_about(it, question));
            let rivals: Vec<Option<&'a Value>> = versions.iter().copied().map(about).collect();
            if rivals.iter().all(Option::is_none) {
                continue;
            }
            let with = |chosen: &Vec<&'a Value>| {
                let chosen = chosen.clone();
                let rivals = rivals.iter();
                rivals.map(move |rival| chosen.iter().copied().chain(*rival).collect())
            };
            choices = choices.iter().flat_map(with).collect();
            if choices.len() > COMBINATIONS {
                return None;
            }
        }
        Some(choices.into_iter().map(deciding).collect())
    }

    /// Whether it may be said that a request would lead somewhere, and that it would not.
    pub(super) fn requestable(&self, question: &Question) -> (bool, bool) {
        let connector = self.of(Kind::Connector).get(&question.connector);
        let connector = connector.map_or(&[None][..], Vec::as_slice);
        let accepts = |it: Option<&Value>| it.is_some_and(|it| accepts(it, question));
        let mut policies = self.of(Kind::Policy).values();
        let may = policies.any(|it| it.iter().copied().any(accepts));
        let mut policies = self.of(Kind::Policy).values();
        let must = policies.any(|it| it.iter().copied().all(accepts));
        let is_there = connector.iter().any(Option::is_some);
        let was_there = connector.iter().all(Option::is_some);
        (is_there && may, !(was_there && must))
    }
}

fn name(kind: Kind, key: &Key, binding: &Value) -> Named {
    let kind = if kind == Kind::RoleBinding {
        "RoleBinding"
    } else {
        "ClusterRoleBinding"
    };
    let uid = binding["metadata"]["uid"].as_str().unwrap_or_default();
    (
        kind.to_owned(),
        key.0.clone(),
        key.1.clone(),
        uid.to_owned(),
    )
}

fn facts(request: &Value) -> (String, String) {
    let uid = request["metadata"]["uid"].as_str().unwrap_or_default();
    let phase = request["status"]["phase"].as_str().unwrap_or_default();
    (uid.to_owned(), phase.to_owned())
}

/// How the switch may be said to stand: as the last word that was seen and could be read.
pub(super) fn switches(cluster: &Cluster, from: Timestamp, to: Timestamp) -> Vec<bool> {
    let key = (
        "connectors-system".to_owned(),
        "connectors-config".to_owned(),
    );
    let mut words = Vec::new();
    for (heard, config) in cluster.seen(Kind::Config, &key) {
        let Some(word) = config.and_then(switch).filter(|_| heard <= to) else {
            continue;
        };
        if heard < from {
            words.clear();
        }
        words.push(word);
    }
    words
}
