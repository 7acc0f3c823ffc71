//! What the webhook has to answer, as the documents say it: each rule written again, without a glance at the webhook.

mod policies;
mod requests;

use std::collections::BTreeSet;

use evaluation_api::v1::Finding;
use serde_json::Value;

use super::{
    generate::{Case, PLUGIN},
    world::{Target, World},
};

/// Why a review is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    Misrouted,
    LargeUser,
    /// What it says cannot be.
    Content,
    BadName,
    ConnectorNamespace,
    SubjectNamespace,
    Hidden,
    Missing,
    NoUid,
    OtherUid,
    OtherAccount,
    Finished,
    Deleting,
    NoNode,
    OtherNode,
    ManyRequests,
    NotAll,
    NotNamed,
    ManyPolicies,
    /// What follows may pass.
    PodUnknown,
    RequestsUnknown,
    RightsUnknown,
    PoliciesUnknown,
    RegoUnknown,
    Late,
}

impl Why {
    /// The code on the wire: what will not change outweighs what may.
    pub(super) const fn code(self) -> u16 {
        match self {
            Self::Misrouted => 400,
            Self::LargeUser
            | Self::Content
            | Self::BadName
            | Self::ConnectorNamespace
            | Self::SubjectNamespace => 422,
            Self::PodUnknown
            | Self::RequestsUnknown
            | Self::RightsUnknown
            | Self::PoliciesUnknown
            | Self::RegoUnknown
            | Self::Late => 503,
            Self::Hidden
            | Self::Missing
            | Self::NoUid
            | Self::OtherUid
            | Self::OtherAccount
            | Self::Finished
            | Self::Deleting
            | Self::NoNode
            | Self::OtherNode
            | Self::ManyRequests
            | Self::NotAll
            | Self::NotNamed
            | Self::ManyPolicies => 403,
        }
    }
}

/// What an answer has to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expected {
    /// It passes, and then is this object. None: it may be filled in or not.
    Passes {
        object: Option<Value>,
        /// Of the warnings that depend on the cluster: those that have to be there, and what no warning may say.
        warned: Warned,
    },
    /// It is refused for exactly these reasons.
    Refused(BTreeSet<Why>),
    /// It is refused for some of these reasons and no other.
    RefusedForSome(BTreeSet<Why>),
}

impl Expected {
    /// For a complaint. What passes unchanged is in the review.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Passes { warned, .. } => format!("it passes, {warned:?}"),
            Self::Refused(why) => format!("it is refused for {why:?}"),
            Self::RefusedForSome(why) => format!("it is refused for some of {why:?}"),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Warned {
    pub(super) with: Vec<String>,
    pub(super) without: Vec<String>,
}

pub(super) fn expected(world: &World, rego: Option<&[Finding]>, case: &Case) -> Expected {
    let request = &case.review["request"];
    if case.page == "/mutate/connectors" {
        return connector(world, request);
    }
    if is_large(&request["userInfo"]) {
        return Expected::Refused([Why::LargeUser].into());
    }
    let (resource, served): (_, &[&str]) = if case.page == "/validate/accesspolicies" {
        ("accesspolicies", &["CREATE", "UPDATE"])
    } else {
        ("accessrequests", &["CREATE"])
    };
    let kind = &request["resource"];
    if kind["group"] != "connectors.alauda.io"
        || kind["version"] != "v1alpha1"
        || kind["resource"] != resource
    {
        return Expected::Refused([Why::Misrouted].into());
    }
    let is_below = request["subResource"]
        .as_str()
        .is_some_and(|it| !it.is_empty());
    let operation = request["operation"].as_str().unwrap();
    if is_below || !served.contains(&operation) {
        return passes(request["object"].clone());
    }
    if request["object"].is_null() || word(&request["namespace"]).is_empty() {
        return Expected::Refused([Why::Misrouted].into());
    }
    match case.page {
        "/mutate/accessrequests" => requests::filled(world, request),
        "/validate/accessrequests" => requests::judged(world, request),
        _ => policies::judged(world, rego, request, !case.flaws.is_empty()),
    }
}

/// At most 64 KiB, 1,024 groups, and 1,024 keys and values of extra.
fn is_large(user: &Value) -> bool {
    let length = |list: &Value| list.as_array().map_or(0, Vec::len);
    let extra = user["extra"].as_object().into_iter().flatten();
    length(&user["groups"]) > 1024
        || extra.map(|(_, values)| 1 + length(values)).sum::<usize>() > 1024
        || user.to_string().len() > 64 * 1024
}

fn passes(object: Value) -> Expected {
    Expected::Passes {
        object: Some(object),
        warned: Warned::default(),
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether somebody is the node plugin, whom no right is asked for.
pub(super) fn is_plugin(request: &Value) -> bool {
    request["userInfo"]["username"] == PLUGIN
}

/// Both labels say the class, where the class can be the value of a label; no connector is ever refused.
fn connector(world: &World, request: &Value) -> Expected {
    let object = &request["object"];
    let Some(class) = object["spec"]["connectorClassName"].as_str() else {
        return passes(object.clone());
    };
    let mut labelled = object.clone();
    let labels = labels_of(&mut labelled);
    for key in [
        "connectors.cpaas.io/connectorclass",
        "connectors.alauda.io/connectorclass",
    ] {
        labels.remove(key);
        if can_be_a_label(class) {
            labels.insert(key.to_owned(), class.into());
        }
    }
    let old = &request["oldObject"]["spec"]["connectorClassName"];
    let words = "there is no ConnectorClass".to_owned();
    let mut warned = Warned::default();
    let is_known_at_once = world.mood(&Target::Class).is_none();
    if *old == class
        || world.classes.contains(class)
        || !world.answers(&Target::Class) && is_name(class)
    {
        warned.without.push(words);
    } else if is_known_at_once || !is_name(class) {
        warned.with.push(words);
    }
    Expected::Passes {
        object: Some(labelled),
        warned,
    }
}

pub(super) fn labels_of(object: &mut Value) -> &mut serde_json::Map<String, Value> {
    let labels = &mut object["metadata"]["labels"];
    if labels.is_null() {
        *labels = Value::Object(serde_json::Map::new());
    }
    labels.as_object_mut().unwrap()
}

fn can_be_a_label(text: &str) -> bool {
    let is_end = |it: Option<char>| it.is_some_and(|it| it.is_ascii_alphanumeric());
    (1..=63).contains(&text.len())
        && is_end(text.chars().next())
        && is_end(text.chars().last())
        && text
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || "-_.".contains(it))
}

/// The name of an object: a DNS subdomain.
fn is_name(text: &str) -> bool {
    (1..=253).contains(&text.len()) && text.split('.').all(is_part)
}

fn is_part(text: &str) -> bool {
    let is_end = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
    let (first, last) = (text.chars().next(), text.chars().last());
    first.is_some_and(is_end)
        && last.is_some_and(is_end)
        && text.chars().all(|it| is_end(it) || it == '-')
}
