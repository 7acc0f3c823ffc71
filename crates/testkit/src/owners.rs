//! The managers of an object's fields.
//!
//! Owners are recorded from the creation on, but `managedFields` shows them only after the first apply:
//! before that nothing depends on them.

use serde_json::{Value, json};

use crate::fields::{self, Fields, Path};

/// The operation by which a manager owns its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

/// One manager's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    operation: Operation,
    manager: String,
    status: bool,
    time: String,
    fields: Fields,
}

/// The managers of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    entries: Vec<Entry>,
    /// True after the first apply.
    is_shown: bool,
}

/// The owner of fields that existed before owners were recorded.
const EARLIER: &str = "before-first-apply";

/// A writer, as a manager.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manager<'a> {
    pub(crate) operation: Operation,
    pub(crate) name: &'a str,
    pub(crate) status: bool,
}

impl Entry {
    fn is_of(&self, manager: Manager<'_>) -> bool {
        self.operation == manager.operation
            && self.manager == manager.name
            && self.status == manager.status
    }
}

impl Owners {
    /// The fields of a manager.
    pub(crate) fn fields_of(&self, manager: Manager<'_>) -> Fields {
        let entry = self.entries.iter().find(|it| it.is_of(manager));
        entry.map(|it| it.fields.clone()).unwrap_or_default()
    }

    /// The fields of the other managers: manager and field.
    pub(crate) fn others(&self, manager: Manager<'_>) -> impl Iterator<Item = (&str, &Path)> {
        let others = self.entries.iter().filter(move |it| !it.is_of(manager));
        others.flat_map(|it| it.fields.iter().map(|field| (it.manager.as_str(), field)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Records an owner of the fields that existed before owners were recorded.
    pub(crate) fn note_earlier(&mut self, fields: Fields, time: &str) {
        let earlier = Manager {
            operation: Operation::Update,
            name: EARLIER,
            status: false,
        };
        self.give(earlier, fields, time);
    }

    /// An update changed these fields, so this manager becomes their only owner.
    pub(crate) fn take(&mut self, manager: Manager<'_>, changed: &Fields, time: &str) {
        if changed.is_empty() {
            return;
        }
        self.forget(changed);
        let mut all = self.fields_of(manager);
        all.extend(changed.iter().cloned());
        self.give(manager, all, time);
    }

    /// Records the fields that this manager has applied. Other managers keep theirs.
    pub(crate) fn give(&mut self, manager: Manager<'_>, fields: Fields, time: &str) {
        self.is_shown |= manager.operation == Operation::Apply;
        if let Some(entry) = self.entries.iter_mut().find(|it| it.is_of(manager)) {
            if entry.fields != fields {
                entry.fields = fields;
                time.clone_into(&mut entry.time);
            }
        } else {
            self.entries.push(Entry {
                operation: manager.operation,
                manager: manager.name.to_owned(),
                status: manager.status,
                time: time.to_owned(),
                fields,
            });
        }
        self.tidy();
    }

    /// Removes these fields, and all below them, from all managers.
    pub(crate) fn forget(&mut self, gone: &Fields) {
        for entry in &mut self.entries {
            let is_gone = |it: &Path| gone.iter().any(|gone| it.starts_with(gone));
            entry.fields.retain(|it| !is_gone(it));
        }
        self.tidy();
    }

    /// Removes exactly these fields from all other managers.
    pub(crate) fn forget_others(&mut self, manager: Manager<'_>, lost: &Fields) {
        for entry in self.entries.iter_mut().filter(|it| !it.is_of(manager)) {
            entry.fields.retain(|it| !lost.contains(it));
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        self.entries.retain(|it| !it.fields.is_empty());
        self.entries.sort_by(|a, b| {
            let key = |it: &Entry| (it.operation, it.time.clone(), it.manager.clone());
            key(a).cmp(&key(b))
        });
    }

    /// The value of `managedFields`; null before the first apply.
    pub(crate) fn managed_fields(&self, api_version: &str) -> Value {
        if !self.is_shown || self.entries.is_empty() {
            return Value::Null;
        }
        let entries = self.entries.iter().map(|it| {
            let operation = match it.operation {
                Operation::Apply => "Apply",
                Operation::Update => "Update",
            };
            let mut entry = json!({
                "manager": it.manager, "operation": operation, "apiVersion": api_version,
                "time": it.time, "fieldsType": "FieldsV1", "fieldsV1": fields::as_v1(&it.fields),
            });
            if it.status {
                entry["subresource"] = "status".into();
            }
            entry
        });
        entries.collect()
    }
}
