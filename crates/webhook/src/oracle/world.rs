//! What a cluster holds, who may do what in it, and how its API server feels.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use http::StatusCode;
use serde_json::Value;

/// All that the webhook can ask about.
#[derive(Clone, Debug, Default)]
pub(super) struct World {
    /// By namespace and name.
    pub(super) pods: BTreeMap<(String, String), Value>,
    pub(super) rights: Vec<Right>,
    /// The namespace and the UID of the pod of each stored request, in the order of a list.
    pub(super) requests: Vec<(String, String)>,
    /// How many there are in a namespace.
    pub(super) policies: BTreeMap<String, usize>,
    pub(super) classes: BTreeSet<String>,
    /// The data of the installation's configuration.
    pub(super) config: Option<Value>,
    pub(super) moods: BTreeMap<Target, Mood>,
    /// A list comes whole, whatever limit was asked for.
    pub(super) is_list_whole: bool,
}

/// One part of what somebody is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trait {
    User(String),
    Group(String),
    Uid(String),
    Extra(String, String),
}

/// Who has all traits may do this.
#[derive(Clone, Debug)]
pub(super) struct Right {
    pub(super) who: Vec<Trait>,
    pub(super) deed: Deed,
    /// None: in all of them.
    pub(super) namespace: Option<String>,
    /// None: with all of them.
    pub(super) names: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deed {
    pub(super) verb: String,
    pub(super) group: String,
    /// With its subresource.
    pub(super) resource: String,
}

pub(super) fn get_pods() -> Deed {
    deed("get", "", "pods")
}

pub(super) fn update_connectors() -> Deed {
    deed("update", "connectors.alauda.io", "connectors")
}

pub(super) fn deed(verb: &str, group: &str, resource: &str) -> Deed {
    let [verb, group, resource] = [verb, group, resource].map(str::to_owned);
    Deed {
        verb,
        group,
        resource,
    }
}

/// What the API server is asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// Whether somebody may get a pod.
    PodRight,
    /// Whether somebody may update all connectors of a namespace.
    AllRight,
    /// Whether somebody may update the connector of this name.
    NameRight(String),
    Pod,
    Requests,
    Policies,
    Config,
    Class,
}

/// How it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Slow(Duration),
    Fails(StatusCode),
    /// The first time alone.
    Stumbles,
    Hangs,
    /// With what is no answer to the question.
    Raves,
}

impl World {
    pub(super) fn mood(&self, target: &Target) -> Option<Mood> {
        self.moods.get(target).copied()
    }

    /// Whether a question gets an answer in the end.
    pub(super) fn answers(&self, target: &Target) -> bool {
        match self.mood(target) {
            None | Some(Mood::Slow(_) | Mood::Stumbles) => true,
            Some(Mood::Fails(_) | Mood::Hangs | Mood::Raves) => false,
        }
    }

    /// Whether a user, as it stands in a review, may do something. Without a name: with every one.
    pub(super) fn may(&self, user: &Value, deed: &Deed, namespace: &str, name: &str) -> bool {
        self.rights.iter().any(|right| {
            right.deed == *deed
                && right.who.iter().all(|it| has(user, it))
                && right.namespace.as_deref().is_none_or(|it| it == namespace)
                && right
                    .names
                    .as_deref()
                    .is_none_or(|names| names.iter().any(|it| it == name))
        })
    }

    pub(super) fn requests_of(&self, namespace: &str, uid: &str) -> usize {
        let of_it = |it: &&(String, String)| it.0 == namespace && it.1 == uid;
        self.requests.iter().filter(of_it).count()
    }
}

fn has(user: &Value, it: &Trait) -> bool {
    let holds = |list: &Value, word: &str| {
        let words = list.as_array().into_iter().flatten();
        words.into_iter().any(|it| it == word)
    };
    match it {
        Trait::User(name) => user["username"] == name.as_str(),
        Trait::Uid(uid) => user["uid"] == uid.as_str(),
        Trait::Group(group) => holds(&user["groups"], group),
        Trait::Extra(key, value) => holds(&user["extra"][key], value),
    }
}
