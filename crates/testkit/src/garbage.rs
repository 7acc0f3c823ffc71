//! The controllers that every cluster has for deletions: they delete objects without owners, and the contents
//! of terminating namespaces.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use serde_json::Value;
use tokio::{runtime::Handle, time::sleep};

use crate::{
    delete::{self, FOREGROUND, ORPHAN, Options, Propagation},
    kind::Kind,
    meta,
    state::Shared,
    store::{Key, Store},
    update,
};

/// The author of the cluster's own writes.
pub(crate) const CLUSTER: &str = "cluster";

/// Starts a collection after a delay, if a write may have left garbage.
pub(crate) fn collect_soon(shared: &Arc<Shared>) {
    let mut state = shared.lock();
    let (true, Some(after)) = (state.store.unsettled, state.garbage_after) else {
        return;
    };
    // Without a runtime there is no clock.
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    state.store.unsettled = false;
    let shared = Arc::downgrade(shared);
    runtime.spawn(async move {
        sleep(after).await;
        collect(&shared);
    });
}

fn collect(shared: &Weak<Shared>) {
    let Some(shared) = shared.upgrade() else {
        return;
    };
    let mut state = shared.lock();
    if state.garbage_after.is_none() {
        state.store.unsettled = true;
        return;
    }
    let before = state.store.version();
    sweep(&mut state.store);
    let is_changed = state.store.version() != before;
    drop(state);
    if is_changed {
        shared.changed.notify_waiters();
        collect_soon(&shared);
    }
}

/// Checks every object once.
fn sweep(store: &mut Store) {
    let keys: Vec<Key> = store.objects.keys().cloned().collect();
    for key in keys {
        let Some(object) = store.get(&key).cloned() else {
            continue;
        };
        let kinds = &store.kinds;
        let kind = kinds
            .iter()
            .find(|it| it.is_plural(&key.group, &key.plural));
        let Some(kind) = kind.cloned() else { continue };
        if meta::is_being_deleted(&object) {
            finish(store, &kind, &key, &object);
        } else if is_in_terminating_namespace(store, &key) {
            let options = Options::with(None, meta::uid(&object));
            remove(store, &kind, &key, &options);
        } else {
            disown(store, &kind, &key, &object);
        }
    }
}

fn remove(store: &mut Store, kind: &Kind, key: &Key, options: &Options) {
    if let Err(refusal) = delete::delete(store, kind, key, options, CLUSTER) {
        tracing::debug!(status = %refusal.status(), "not collected");
    }
}

fn is_in_terminating_namespace(store: &Store, key: &Key) -> bool {
    let namespace = Key {
        group: String::new(),
        plural: "namespaces".to_owned(),
        namespace: String::new(),
        name: key.namespace.clone(),
    };
    let namespace = store.get(&namespace);
    namespace.is_some_and(|it| meta::is_being_deleted(it))
}

/// Completes the step that an object marked for deletion waits for.
fn finish(store: &mut Store, kind: &Kind, key: &Key, object: &Value) {
    if kind.group.is_empty() && kind.plural == "namespaces" {
        let is_empty = store.objects.keys().all(|it| it.namespace != key.name);
        if is_empty {
            store.remove(key, CLUSTER);
        }
        return;
    }
    let uid = meta::uid(object);
    let finalizers = meta::finalizers(object);
    let done = if finalizers.contains(&ORPHAN) {
        let disown = |it: &mut Value| drop_owners(it, |owner| owner == uid);
        for_dependents(store, uid, disown);
        ORPHAN
    } else if finalizers.contains(&FOREGROUND) && !is_blocked(store, uid) {
        FOREGROUND
    } else {
        return;
    };
    let mut object = object.clone();
    meta::remove_finalizer(&mut object, done);
    change(store, kind, key, object);
}

fn is_blocked(store: &Store, owner: &str) -> bool {
    let mut all = store.objects.values();
    all.any(|it| meta::owners(it).contains(&(owner, true)))
}

fn for_dependents(store: &mut Store, owner: &str, change_it: impl Fn(&mut Value)) {
    let is_owned = |it: &Value| meta::owners(it).iter().any(|(uid, _)| *uid == owner);
    let objects = store.objects.iter().filter(|(_, it)| is_owned(it));
    let dependents: Vec<_> = objects
        .map(|(key, object)| (key.clone(), object.as_ref().clone()))
        .collect();
    for (key, mut object) in dependents {
        let kinds = &store.kinds;
        let kind = kinds
            .iter()
            .find(|it| it.is_plural(&key.group, &key.plural));
        if let Some(kind) = kind.cloned() {
            change_it(&mut object);
            change(store, &kind, &key, object);
        }
    }
}

fn change(store: &mut Store, kind: &Kind, key: &Key, object: Value) {
    if let Err(refusal) = update::change_as_cluster(store, kind, key, object) {
        tracing::debug!(status = %refusal.status(), "not collected");
    }
}

fn drop_owners(object: &mut Value, is_dropped: impl Fn(&str) -> bool) {
    let owners = object["metadata"]["ownerReferences"].as_array_mut();
    if let Some(owners) = owners {
        owners.retain(|it| !is_dropped(it["uid"].as_str().unwrap_or_default()));
    }
}

/// The state of an object's owner.
enum Owner {
    /// It exists and stays, or its kind is unknown, in which case nothing is deleted.
    Solid,
    /// It does not exist, or another object has its name.
    Absent,
    /// It waits until its dependents are gone.
    Waiting,
}

/// Deletes an object whose owners are all gone; otherwise removes the references to those that are gone.
fn disown(store: &mut Store, kind: &Kind, key: &Key, object: &Value) {
    let references = object["metadata"]["ownerReferences"].as_array();
    let Some(references) = references.filter(|it| !it.is_empty()) else {
        return;
    };
    let mut solid = false;
    let mut waiting = false;
    let mut not_solid = BTreeSet::new();
    for reference in references {
        let owner = owner(store, key, reference);
        waiting |= matches!(owner, Owner::Waiting);
        match owner {
            Owner::Solid => solid = true,
            Owner::Absent | Owner::Waiting => {
                not_solid.insert(reference["uid"].as_str().unwrap_or_default());
            }
        }
    }
    if not_solid.is_empty() {
        return;
    }
    if solid {
        let mut object = object.clone();
        drop_owners(&mut object, |uid| not_solid.contains(uid));
        change(store, kind, key, object);
        return;
    }
    let uid = meta::uid(object);
    let owns_something = is_blocked(store, uid);
    let finalizers = meta::finalizers(object);
    let propagation = if waiting && owns_something || finalizers.contains(&FOREGROUND) {
        Propagation::Foreground
    } else if finalizers.contains(&ORPHAN) {
        Propagation::Orphan
    } else {
        Propagation::Background
    };
    remove(store, kind, key, &Options::with(Some(propagation), uid));
}

fn owner(store: &Store, dependent: &Key, reference: &Value) -> Owner {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let kind = store
        .kinds
        .iter()
        .find(|it| it.kind == text("kind") && group_of(text("apiVersion")) == it.group);
    let Some(kind) = kind else {
        return Owner::Solid;
    };
    let namespace = if kind.namespaced {
        &dependent.namespace
    } else {
        ""
    };
    let found = store.get(&Key::new(kind, namespace, text("name")));
    let Some(found) = found.filter(|it| meta::uid(it) == text("uid")) else {
        return Owner::Absent;
    };
    let is_waiting = meta::is_being_deleted(found) && meta::finalizers(found).contains(&FOREGROUND);
    if is_waiting && reference["blockOwnerDeletion"] == true {
        Owner::Waiting
    } else {
        Owner::Solid
    }
}

fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
