//! Server-side apply: a manager applies fields, and fields that it no longer applies are removed.

use std::sync::Arc;

use authz::User;
use serde_json::{Map, Value};

use crate::{
    create, escalation,
    fields::{self, Fields, Path},
    garbage::CLUSTER,
    meta,
    owners::{Manager, Operation, Owners},
    refusal::Refusal,
    store::{Key, Store},
    update,
    write::{self, Place, Written},
};

/// The author of a write, and the kind of write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    /// The process, for the log.
    pub(crate) by: &'a str,
    /// The field manager.
    pub(crate) manager: &'a str,
    /// The user whose rights are checked; none for the cluster itself.
    pub(crate) user: Option<&'a User>,
    /// True when the subresource `status` is written.
    pub(crate) status: bool,
    /// The applied fields; none for any other write.
    pub(crate) applied: Option<&'a Fields>,
}

impl Writer<'_> {
    /// A write of the cluster itself.
    pub(crate) const fn cluster() -> Self {
        Writer {
            by: CLUSTER,
            manager: CLUSTER,
            user: None,
            status: false,
            applied: None,
        }
    }

    fn as_manager(&self) -> Manager<'_> {
        Manager {
            operation: if self.applied.is_some() {
                Operation::Apply
            } else {
                Operation::Update
            },
            name: self.manager,
            status: self.status,
        }
    }

    /// Refuses rights that the writer does not hold.
    pub(crate) fn check_escalation(
        &self,
        store: &Store,
        place: Place<'_>,
        object: &Value,
        before: Option<&Value>,
    ) -> Result<(), Refusal> {
        match self.user {
            Some(user) => escalation::check(store, user, place, object, before),
            None => Ok(()),
        }
    }

    /// Records the owners of fields after a write, and sets `managedFields`.
    pub(crate) fn own(
        &self,
        store: &mut Store,
        key: &Key,
        mut object: Value,
        before: Option<&Arc<Value>>,
    ) -> Value {
        let time = store.clock.stamp();
        let mut owners = store.owners.get(key).cloned().unwrap_or_default();
        let after = fields::ownable(&object);
        let before = before.map_or(Value::Null, |it| fields::ownable(it));
        let is_new = |it: &&Path| {
            let (after, before) = (fields::get(&after, it), fields::get(&before, it));
            let are_maps = |a: &Value, b: &Value| a.is_object() && b.is_object();
            after != before && !after.zip(before).is_some_and(|(a, b)| are_maps(a, b))
        };
        let all = fields::with_maps(&after);
        let changed: Fields = all.iter().filter(is_new).cloned().collect();
        let mut gone = fields::with_maps(&before);
        gone.retain(|it| fields::get(&after, it).is_none());
        let is_creation = before.is_null();
        match self.applied {
            // Fields of other managers stay, so they lose nothing.
            Some(applied) => owners.give(self.as_manager(), applied.clone(), &time),
            // If no owner was recorded at creation, none is recorded before the first apply.
            None if owners.is_empty() && !is_creation => {}
            None => {
                owners.forget(&gone);
                owners.take(self.as_manager(), &changed, &time);
            }
        }
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let shown = owners.managed_fields(api_version);
        meta::set(&mut object, "managedFields", shown);
        store.owners.insert(key.clone(), owners);
        object
    }
}

/// Applies a manager's fields to an object.
pub(crate) fn apply(
    store: &mut Store,
    place: Place<'_>,
    body: &Value,
    is_forced: bool,
    writer: &Writer<'_>,
) -> Result<Written, Refusal> {
    let mut body = body.clone();
    check(place, &mut body)?;
    let mut wanted = fields::ownable(&body);
    reset(place, &mut wanted);
    let said = fields::of(&wanted);
    let writer = Writer {
        applied: Some(&said),
        ..*writer
    };
    let Some(live) = store.get(&place.key()).cloned() else {
        if !meta::uid(&body).is_empty() {
            let why = "uid mismatch: no existing object was found";
            return Err(Refusal::conflict(place.kind, place.name, why));
        }
        if place.status {
            return Err(Refusal::not_found(place.kind, place.name));
        }
        meta::of(&mut body).remove("resourceVersion");
        let unnamed = Place { name: "", ..place };
        return create::create(store, unnamed, body, &writer);
    };
    let version = meta::version(&body);
    if version != 0 && version != meta::version(&live) {
        return Err(Refusal::stale(place.kind, place.name));
    }
    let time = store.clock.stamp();
    let mut before = fields::ownable(&live);
    let kept = store.owners.get(&place.key()).cloned();
    let mut owners = kept.clone().unwrap_or_default();
    if owners.is_empty() {
        owners.note_earlier(fields::with_maps(&before), &time);
    }
    let lost = conflicts(&owners, &writer, &before, &wanted, is_forced)?;
    writer.let_go(&owners, &said, &mut before);
    owners.forget_others(writer.as_manager(), &lost);
    store.owners.insert(place.key(), owners);
    for field in &said {
        let value = fields::get(&wanted, field).cloned().unwrap_or_default();
        let is_there = fields::get(&before, field).is_some_and(Value::is_object);
        if !(is_there && value.is_object()) {
            fields::set(&mut before, field, value);
        }
    }
    let mut object = live.as_ref().clone();
    fields::restore(&mut object, before, &[&live, &body]);
    if !meta::uid(&body).is_empty() {
        meta::copy(&body, &mut object, "uid");
    }
    let written = update::replace(store, place, object, &writer);
    if written.is_err() {
        store.owners.insert(place.key(), kept.unwrap_or_default());
    }
    written
}

impl Writer<'_> {
    /// Removes the fields that this manager applied before and no longer applies, unless another manager owns
    /// them too.
    fn let_go(&self, owners: &Owners, said: &Fields, object: &mut Value) {
        let manager = self.as_manager();
        for field in owners.fields_of(manager) {
            let is_said = said.iter().any(|it| it.starts_with(&field));
            let is_shared = owners.others(manager).any(|(_, it)| it.starts_with(&field));
            if !is_said && !is_shared {
                fields::remove(object, &field);
            }
        }
        // A map that another manager owns stays, even if it becomes empty.
        for (_, field) in owners.others(manager) {
            if fields::get(object, field).is_none() {
                fields::set(object, field, Value::Object(Map::new()));
            }
        }
    }
}

fn check(place: Place<'_>, body: &mut Value) -> Result<(), Refusal> {
    if !body.is_object() {
        return Err(Refusal::bad_request("the body is no object"));
    }
    if body["kind"].as_str().is_none() || body["apiVersion"].as_str().is_none() {
        return Err(Refusal::bad_request("an applied object says what it is"));
    }
    if body["metadata"]["managedFields"]
        .as_array()
        .is_some_and(|it| !it.is_empty())
    {
        return Err(Refusal::bad_request("metadata.managedFields must be nil"));
    }
    if meta::name(body).is_empty() {
        meta::set(body, "name", place.name.into());
    }
    write::check_identity(place, body)
}

/// Removes the fields that cannot be written through this path.
fn reset(place: Place<'_>, wanted: &mut Value) {
    if let Some(fields) = wanted.as_object_mut() {
        if place.status {
            fields.retain(|key, _| key == "status");
        } else if place.kind.status {
            fields.remove("status");
        }
    }
}

/// The fields that other managers own and that would change. Without force, they are a conflict.
fn conflicts(
    owners: &Owners,
    writer: &Writer<'_>,
    before: &Value,
    wanted: &Value,
    is_forced: bool,
) -> Result<Fields, Refusal> {
    let manager = writer.as_manager();
    let mut told = Vec::new();
    let mut lost = Fields::new();
    for field in fields::of(wanted) {
        let (now, then) = (fields::get(before, &field), fields::get(wanted, &field));
        let are_maps = |a: &Value, b: &Value| a.is_object() && b.is_object();
        if now == then || now.zip(then).is_some_and(|(a, b)| are_maps(a, b)) {
            continue;
        }
        for (other, owned) in owners.others(manager) {
            let is_around = field.starts_with(owned)
                && fields::get(before, owned).is_some_and(|it| !it.is_object());
            if owned.starts_with(&field) || is_around {
                told.push((other.to_owned(), fields::text(owned)));
                lost.insert(owned.clone());
            }
        }
    }
    if told.is_empty() || is_forced {
        return Ok(lost);
    }
    told.sort();
    Err(Refusal::owned_by_others(&told))
}
