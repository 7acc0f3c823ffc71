//! Deleting: preconditions, finalizers, propagation, grace periods.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    kind::Kind,
    meta,
    refusal::{Cause, Refusal},
    store::{Key, Store},
};

/// The garbage collector deletes the dependents first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The garbage collector removes the owner references of the dependents first.
pub(crate) const ORPHAN: &str = "orphan";

/// The options of a deletion.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    uid: Option<String>,
    version: Option<String>,
    propagation: Option<Propagation>,
    grace: Option<i64>,
}

/// The treatment of the dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Options {
    /// Without a grace period.
    pub(crate) fn at_once() -> Self {
        Self {
            grace: Some(0),
            ..Self::default()
        }
    }

    pub(crate) fn with(propagation: Option<Propagation>, uid: &str) -> Self {
        Self {
            propagation,
            uid: Some(uid.to_owned()),
            ..Self::default()
        }
    }

    /// Parses the body and the query of a DELETE.
    pub(crate) fn of(
        body: Option<&Value>,
        propagation: &str,
        grace: &str,
    ) -> Result<Self, Refusal> {
        let body = body.unwrap_or(&Value::Null);
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        let word = match body["propagationPolicy"].as_str() {
            Some(word) => word,
            None => propagation,
        };
        let orphans = body["orphanDependents"].as_bool();
        let refuse = |cause, why| {
            let field = "propagationPolicy";
            Err(Refusal::invalid_options(
                "DeleteOptions",
                &[cause],
                field,
                why,
            ))
        };
        if !word.is_empty() && orphans.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            return refuse(Cause::Invalid, why);
        }
        let propagation = match (word, orphans) {
            ("Background", _) | ("", Some(false)) => Some(Propagation::Background),
            ("Foreground", _) => Some(Propagation::Foreground),
            ("Orphan", _) | ("", Some(true)) => Some(Propagation::Orphan),
            ("", None) => None,
            _ => return refuse(Cause::NotSupported, "unknown propagation policy"),
        };
        Ok(Self {
            uid: text(&body["preconditions"]["uid"]),
            version: text(&body["preconditions"]["resourceVersion"]),
            propagation,
            grace: body["gracePeriodSeconds"].as_i64().or(grace.parse().ok()),
        })
    }
}

/// The result of a deletion.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Arc<Value>),
    /// The object still exists, marked for deletion.
    Remains(Arc<Value>),
}

impl Deleted {
    /// The body of the answer.
    pub(crate) fn answer(self, kind: &Kind) -> Arc<Value> {
        let object = match self {
            Self::Remains(object) => return object,
            Self::Gone(object) if kind.answers_deletion_with_the_object() => return object,
            Self::Gone(object) => object,
        };
        let mut details = json!({
            "name": meta::name(&object), "kind": kind.plural, "uid": meta::uid(&object),
        });
        if !kind.group.is_empty() {
            details["group"] = kind.group.clone().into();
        }
        Arc::new(json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": details,
        }))
    }
}

/// Deletes an object, or marks it for deletion.
pub(crate) fn delete(
    store: &mut Store,
    kind: &Kind,
    key: &Key,
    options: &Options,
    by: &str,
) -> Result<Deleted, Refusal> {
    let Some(live) = store.get(key).cloned() else {
        return Err(Refusal::not_found(kind, &key.name));
    };
    check_preconditions(kind, &live, options)?;
    if kind.group.is_empty() && kind.plural == "namespaces" {
        return terminate(store, key, &live, by);
    }
    let mut object = live.as_ref().clone();
    propagate(&mut object, options.propagation);
    let grace = grace(kind, &live, options);
    if grace == 0 && meta::finalizers(&object).is_empty() {
        if kind.group.is_empty() && kind.plural == "pods" {
            // Pods are marked first even if they are deleted immediately.
            mark_once(store, &mut object, grace);
            store.put(key, object, by);
        }
        let gone = store.remove(key, by);
        return Ok(Deleted::Gone(gone.unwrap_or(live)));
    }
    mark_once(store, &mut object, grace);
    if object == *live {
        return Ok(Deleted::Remains(live));
    }
    Ok(Deleted::Remains(store.put(key, object, by)))
}

fn check_preconditions(kind: &Kind, live: &Value, options: &Options) -> Result<(), Refusal> {
    let differs = |wanted: &Option<String>, field: &str| {
        wanted
            .as_ref()
            .is_some_and(|it| it != meta::text(live, field))
    };
    if differs(&options.uid, "uid") || differs(&options.version, "resourceVersion") {
        let why = "Precondition failed";
        return Err(Refusal::conflict(kind, meta::name(live), why));
    }
    Ok(())
}

/// Marks a namespace for deletion. The garbage collector removes it when it is empty.
fn terminate(
    store: &mut Store,
    key: &Key,
    live: &Arc<Value>,
    by: &str,
) -> Result<Deleted, Refusal> {
    if matches!(key.name.as_str(), "default" | "kube-system" | "kube-public") {
        let why = "this namespace may not be deleted";
        return Err(Refusal::forbidden("namespaces", "", &key.name, why));
    }
    if meta::is_being_deleted(live) {
        return Ok(Deleted::Remains(live.clone()));
    }
    let mut object = live.as_ref().clone();
    meta::set(&mut object, "deletionTimestamp", store.clock.stamp().into());
    object["status"]["phase"] = "Terminating".into();
    Ok(Deleted::Remains(store.put(key, object, by)))
}

fn propagate(object: &mut Value, propagation: Option<Propagation>) {
    let Some(propagation) = propagation else {
        return;
    };
    for finalizer in [FOREGROUND, ORPHAN] {
        meta::remove_finalizer(object, finalizer);
    }
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => meta::add_finalizer(object, FOREGROUND),
        Propagation::Orphan => meta::add_finalizer(object, ORPHAN),
    }
}

/// Seconds until the deletion. Only a pod that has a node and a grace period has any.
fn grace(kind: &Kind, live: &Value, options: &Options) -> i64 {
    if !kind.group.is_empty() || kind.plural != "pods" {
        return 0;
    }
    let runs = live["spec"]["nodeName"]
        .as_str()
        .is_some_and(|it| !it.is_empty())
        && !matches!(
            live["status"]["phase"].as_str(),
            Some("Succeeded" | "Failed")
        );
    let own = live["spec"]["terminationGracePeriodSeconds"].as_i64();
    if runs {
        options.grace.or(own).unwrap_or_default()
    } else {
        0
    }
}

/// Marks an object, unless it is already marked for that time or an earlier one.
fn mark_once(store: &Store, object: &mut Value, grace: i64) {
    let marked = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
    if marked.is_none_or(|marked| grace < marked) {
        mark(store, object, grace);
    }
}

fn mark(store: &Store, object: &mut Value, grace: i64) {
    let until = store.clock.wall() + SignedDuration::from_secs(grace);
    let until = until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    meta::set(object, "deletionTimestamp", until.into());
    meta::set(object, "deletionGracePeriodSeconds", grace.into());
    if let Some(generation) = object["metadata"]["generation"].as_u64() {
        meta::set(object, "generation", (generation + 1).into());
    }
}
