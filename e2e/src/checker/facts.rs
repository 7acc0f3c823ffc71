//! The facts of the log, in the order of the calls: requests, policies, grants, reads, and the existence of
//! objects.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    event::AuditEvent,
    grant::{self, Grant},
    wire,
};

/// One call, as far as the order of things needs it.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    pub(super) audit: String,
    pub(super) begun: Timestamp,
    pub(super) done: Timestamp,
}

impl Mark {
    pub(super) fn of(event: &AuditEvent) -> Self {
        Self {
            audit: event.audit_id.clone(),
            begun: event.begun,
            done: event.done,
        }
    }
}

/// The key of a request; two requests with equal ones have one decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tuple {
    pub(super) namespace: String,
    pub(super) connector: String,
    pub(super) permission: String,
    pub(super) subject: String,
    pub(super) pod_namespace: String,
    pub(super) pod: String,
    pub(super) pod_uid: String,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) name: String,
    pub(super) tuple: Tuple,
    /// Since then at the latest.
    pub(super) seen: Mark,
    pub(super) statuses: Vec<StatusWrite>,
    pub(super) deleted: Option<Mark>,
}

#[derive(Debug)]
pub(super) struct StatusWrite {
    pub(super) mark: Mark,
    pub(super) user: String,
    pub(super) process: String,
    pub(super) status: Value,
}

impl StatusWrite {
    pub(super) fn phase(&self) -> &str {
        text(&self.status, "/phase")
    }

    /// The record of one policy.
    pub(super) fn policy(&self, uid: &str) -> Option<&Value> {
        let mut entries = list(&self.status, "/policies").iter();
        entries.find(|entry| text(entry, "/policy/metadata/uid") == uid)
    }
}

#[derive(Debug)]
pub(super) struct Policy {
    pub(super) namespace: String,
    pub(super) name: String,
    /// Every body that was seen, oldest first.
    pub(super) specs: Vec<Value>,
    pub(super) deleted: Option<Mark>,
}

/// A read of a controller with a successful answer.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) mark: Mark,
    pub(super) process: String,
    pub(super) verb: String,
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) live: bool,
}

/// Objects of one resource in one namespace.
pub(super) type Place = (String, String, String);

/// The beginning or the end of an object, or of all of a place.
#[derive(Debug)]
pub(super) struct Life {
    name: Option<String>,
    born: bool,
    pub(super) mark: Mark,
}

/// Everything that the log tells.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// By UID.
    pub(super) requests: BTreeMap<String, Request>,
    /// By UID.
    pub(super) policies: BTreeMap<String, Policy>,
    pub(super) grants: Vec<Grant>,
    pub(super) reads: Vec<Read>,
    pub(super) refused_grants: usize,
    lives: BTreeMap<Place, Vec<Life>>,
}

impl Facts {
    /// Puts the calls in order first: the log has them in the order of their answers, and not quite.
    pub(super) fn of(mut events: Vec<AuditEvent>) -> Self {
        events.sort_by_key(|event| (event.begun, event.done));
        let mut facts = Self::default();
        for event in &events {
            facts.take(event);
        }
        facts
    }

    fn take(&mut self, event: &AuditEvent) {
        let object = &event.object_ref;
        if event.is_read() {
            if event.succeeded() {
                self.reads.push(read(event));
            }
            return;
        }
        if object.api_group == wire::RBAC {
            match grant::take(&mut self.grants, event) {
                grant::Taken::Refused => self.refused_grants += 1,
                grant::Taken::Known | grant::Taken::NotOurs => {}
            }
        }
        if !event.succeeded() {
            return;
        }
        if object.api_group == wire::GROUP {
            match object.resource.as_str() {
                "accessrequests" => self.request(event),
                "accesspolicies" => self.policy(event),
                _ => {}
            }
        }
        self.life(event);
    }

    fn request(&mut self, event: &AuditEvent) {
        if ends_objects(event) {
            let requests = self.requests.values_mut();
            for request in requests.filter(|request| request.deleted.is_none()) {
                if removes(event, &request.tuple.namespace, &request.name) {
                    request.deleted = Some(Mark::of(event));
                }
            }
            return;
        }
        let Some(object) = event.object() else { return };
        let uid = text(object, "/metadata/uid").to_owned();
        if uid.is_empty() {
            return;
        }
        let request = self.requests.entry(uid).or_insert_with(|| Request {
            name: text(object, "/metadata/name").to_owned(),
            tuple: tuple(object),
            seen: Mark::of(event),
            statuses: Vec::new(),
            deleted: None,
        });
        if event.object_ref.subresource == "status" {
            request.statuses.push(StatusWrite {
                mark: Mark::of(event),
                user: event.user.username.clone(),
                process: event.process(),
                status: object["status"].clone(),
            });
        }
    }

    fn policy(&mut self, event: &AuditEvent) {
        if ends_objects(event) {
            let policies = self.policies.values_mut();
            for policy in policies.filter(|policy| policy.deleted.is_none()) {
                if removes(event, &policy.namespace, &policy.name) {
                    policy.deleted = Some(Mark::of(event));
                }
            }
            return;
        }
        let Some(object) = event.object() else { return };
        let uid = text(object, "/metadata/uid").to_owned();
        if uid.is_empty() {
            return;
        }
        let policy = self.policies.entry(uid).or_insert_with(|| Policy {
            namespace: text(object, "/metadata/namespace").to_owned(),
            name: text(object, "/metadata/name").to_owned(),
            specs: Vec::new(),
            deleted: None,
        });
        policy.specs.push(object["spec"].clone());
    }

    fn life(&mut self, event: &AuditEvent) {
        let object = &event.object_ref;
        if !object.subresource.is_empty() {
            return;
        }
        let is_pod = event.is_of("", "pods");
        let ended = |name: Option<String>| Life {
            name,
            born: false,
            mark: Mark::of(event),
        };
        let lives: Vec<Life> = match event.verb.as_str() {
            "delete" if is_pod && !event.ends_pod() => Vec::new(),
            "deletecollection" if is_pod => Vec::new(),
            "delete" => vec![ended(Some(object.name.clone()))],
            "deletecollection" => match removed_items(event) {
                Some(names) => names.into_iter().map(Some).map(ended).collect(),
                None if event.selects() => Vec::new(),
                None => vec![ended(None)],
            },
            _ if event.creates() => {
                let stored = event.object().map(|stored| text(stored, "/metadata/name"));
                let name = Some(object.name.as_str())
                    .filter(|name| !name.is_empty())
                    .or(stored);
                let name = name.filter(|name| !name.is_empty()).map(str::to_owned);
                name.map(|name| Life {
                    name: Some(name),
                    born: true,
                    mark: Mark::of(event),
                })
                .into_iter()
                .collect()
            }
            _ => Vec::new(),
        };
        let place = (
            object.api_group.clone(),
            object.resource.clone(),
            object.namespace.clone(),
        );
        self.lives.entry(place).or_default().extend(lives);
    }

    fn lives_of(&self, place: &Place, name: &str) -> impl DoubleEndedIterator<Item = &Life> {
        let lives = self.lives.get(place).map(Vec::as_slice).unwrap_or_default();
        let name = name.to_owned();
        lives
            .iter()
            .filter(move |life| life.name.as_ref().is_none_or(|other| *other == name))
    }

    /// The end of an object that a call at that time could not have found any more.
    pub(super) fn gone(&self, place: &Place, name: &str, at: Timestamp) -> Option<&Mark> {
        let mut before = self
            .lives_of(place, name)
            .filter(|life| life.mark.done < at);
        before
            .next_back()
            .filter(|life| !life.born)
            .map(|life| &life.mark)
    }

    /// The first sign that the pod under a name is not any more the one that was there at `since`.
    pub(super) fn pod_ended(&self, namespace: &str, name: &str, since: &Mark) -> Option<&Mark> {
        let place = (String::new(), "pods".to_owned(), namespace.to_owned());
        let mut lives = self.lives_of(&place, name);
        lives.find_map(|life| {
            let later = if life.born {
                life.mark.begun > since.done
            } else {
                life.mark.done > since.done
            };
            later.then_some(&life.mark)
        })
    }
}

fn read(event: &AuditEvent) -> Read {
    let object = &event.object_ref;
    Read {
        mark: Mark::of(event),
        process: event.process(),
        verb: event.verb.clone(),
        group: object.api_group.clone(),
        // A read of a subresource is no read of the object.
        resource: [object.resource.as_str(), &object.subresource]
            .join("/")
            .trim_end_matches('/')
            .to_owned(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        live: event.is_live(),
    }
}

fn tuple(request: &Value) -> Tuple {
    let word = |pointer: &str| text(request, pointer).to_owned();
    let or = |value: String, default: &str| {
        if value.is_empty() {
            default.to_owned()
        } else {
            value
        }
    };
    Tuple {
        namespace: word("/metadata/namespace"),
        connector: word("/spec/connectorRef/name"),
        permission: or(word("/spec/permission"), wire::DEFAULT_PERMISSION),
        subject: word("/spec/subject/name"),
        pod_namespace: word("/spec/context/objectRef/namespace"),
        pod: word("/spec/context/objectRef/name"),
        pod_uid: word("/spec/context/objectRef/uid"),
    }
}

pub(super) fn ends_objects(event: &AuditEvent) -> bool {
    matches!(event.verb.as_str(), "delete" | "deletecollection")
        && event.object_ref.subresource.is_empty()
}

/// Whether a deletion is about an object; one that only began counts, as it does for the services.
pub(super) fn removes(event: &AuditEvent, namespace: &str, name: &str) -> bool {
    let object = &event.object_ref;
    if object.namespace != namespace {
        return false;
    }
    if event.verb == "delete" {
        return object.name == name;
    }
    match removed_items(event) {
        Some(names) => names.iter().any(|removed| removed == name),
        None => !event.selects(),
    }
}

/// The objects that a deletion of a collection removed; nothing when its answer was not recorded.
fn removed_items(event: &AuditEvent) -> Option<Vec<String>> {
    let items = event.response_object.as_ref()?.get("items")?.as_array()?;
    Some(
        items
            .iter()
            .map(|item| text(item, "/metadata/name").to_owned())
            .collect(),
    )
}

/// A text in a document; empty when there is none.
pub(super) fn text<'a>(document: &'a Value, pointer: &str) -> &'a str {
    document
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A list in a document; empty when there is none.
pub(super) fn list<'a>(document: &'a Value, pointer: &str) -> &'a [Value] {
    document
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}
