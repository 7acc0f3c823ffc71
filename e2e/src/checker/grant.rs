//! Grants: their writers, their content, and their end.

use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    event::AuditEvent,
    facts::{Mark, ends_objects, list, removes, text},
    wire,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Role,
    RoleBinding,
}

impl Kind {
    fn of(event: &AuditEvent) -> Option<Self> {
        match event.object_ref.resource.as_str() {
            "roles" => Some(Self::Role),
            "rolebindings" => Some(Self::RoleBinding),
            _ => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Role => "Role",
            Self::RoleBinding => "RoleBinding",
        })
    }
}

/// A Role or `RoleBinding` that gives access for one request.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) mark: Mark,
    pub(super) user: String,
    pub(super) process: String,
    /// False when the API server gave up on the call.
    pub(super) certain: bool,
    pub(super) object: Value,
    /// Calls that changed its content, and their callers.
    pub(super) changes: Vec<(Mark, String)>,
    pub(super) gone: Option<Mark>,
}

impl Grant {
    pub(super) fn label(&self, key: &str) -> &str {
        let labels = &self.object["metadata"]["labels"];
        labels.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn request_uid(&self) -> &str {
        self.label(wire::REQUEST_UID)
    }

    pub(super) fn policy_uid(&self) -> &str {
        self.label(wire::POLICY_UID)
    }

    fn is_there(&self, at: Timestamp) -> bool {
        self.gone.is_none() && self.mark.begun <= at
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

pub(super) enum Taken {
    NotOurs,
    Known,
    /// The call was refused.
    Refused,
}

/// Takes a call about Roles and `RoleBinding`s. The observer passes on the calls of controllers and those
/// with our labels. All other objects are ignored here.
pub(super) fn take(grants: &mut Vec<Grant>, event: &AuditEvent) -> Taken {
    let Some(kind) = Kind::of(event).filter(|_| event.object_ref.subresource.is_empty()) else {
        return Taken::NotOurs;
    };
    let object = event.object();
    if event.creates() {
        let Some(object) = object else {
            return Taken::NotOurs;
        };
        let made = made(kind, event, object);
        if is_standing(&made) {
            return Taken::NotOurs;
        }
        // Where one can be made, another of the name cannot be any more.
        for former in there(grants, kind, event, &made.name) {
            former.gone = Some(made.mark.clone());
        }
        grants.push(made);
        return Taken::Known;
    }
    if !event.succeeded() {
        return if event.verb == "create" {
            Taken::Refused
        } else {
            Taken::NotOurs
        };
    }
    if ends_objects(event) {
        let concerned = grants.iter_mut().filter(|grant| {
            grant.kind == kind
                && grant.is_there(event.begun)
                && removes(event, &grant.namespace, &grant.name)
        });
        // Something may still hold it: then it goes on giving access.
        for grant in concerned.filter(|grant| !stays_held(event, &grant.name)) {
            grant.gone = Some(Mark::of(event));
        }
        return Taken::Known;
    }
    let Some(object) = object else {
        return Taken::NotOurs;
    };
    for grant in there(grants, kind, event, &event.object_ref.name) {
        let ending = !text(object, "/metadata/deletionTimestamp").is_empty();
        if ending && !is_held(object) {
            grant.gone = Some(Mark::of(event));
        } else if says(object) != says(&grant.object) {
            grant
                .changes
                .push((Mark::of(event), event.user.username.clone()));
        }
    }
    Taken::Known
}

/// The policy-controller's objects are for no request. Any other object of it is a grant by a service that
/// decides none.
fn is_standing(made: &Grant) -> bool {
    let labels = &made.object["metadata"]["labels"];
    made.user == wire::POLICY_CONTROLLER && labels[wire::REQUEST_UID].is_null()
}

fn made(kind: Kind, event: &AuditEvent, object: &Value) -> Grant {
    Grant {
        kind,
        namespace: event.object_ref.namespace.clone(),
        name: text(object, "/metadata/name").to_owned(),
        mark: Mark::of(event),
        user: event.user.username.clone(),
        process: event.process(),
        certain: !event.is_uncertain(),
        object: object.clone(),
        changes: Vec::new(),
        gone: None,
    }
}

fn there<'a>(
    grants: &'a mut [Grant],
    kind: Kind,
    event: &AuditEvent,
    name: &str,
) -> impl Iterator<Item = &'a mut Grant> {
    let (namespace, name, at) = (
        event.object_ref.namespace.clone(),
        name.to_owned(),
        event.begun,
    );
    grants.iter_mut().filter(move |grant| {
        grant.kind == kind
            && grant.namespace == namespace
            && grant.name == name
            && grant.is_there(at)
    })
}

/// Whether a finalizer keeps an object after its deletion.
fn stays_held(event: &AuditEvent, name: &str) -> bool {
    let Some(answer) = &event.response_object else {
        return false;
    };
    let mut items = list(answer, "/items").iter();
    is_held(
        items
            .find(|item| text(item, "/metadata/name") == name)
            .unwrap_or(answer),
    )
}

fn is_held(object: &Value) -> bool {
    !list(object, "/metadata/finalizers").is_empty()
}

/// The fields that define a grant.
fn says(object: &Value) -> [&Value; 4] {
    let labels = &object["metadata"]["labels"];
    [
        &object["rules"],
        &object["subjects"],
        &object["roleRef"],
        labels,
    ]
}
