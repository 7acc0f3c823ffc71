//! Which manager owns which fields of an object.
//!
//! Owners are noted from the creation on, but `managedFields` shows them only once somebody has applied: before
//! that nothing depends on them.

use serde_json::{Value, json};

use crate::fields::{self, Fields, Path};

/// How a manager came to its fields.
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
    /// Whether somebody has applied.
    is_shown: bool,
}

/// Who owned what was there before anybody was noted.
const EARLIER: &str = "before-first-apply";

/// Who writes, as a manager.
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

    /// What the other managers own: manager and field.
    pub(crate) fn others(&self, manager: Manager<'_>) -> impl Iterator<Item = (&str, &Path)> {
        let others = self.entries.iter().filter(move |it| !it.is_of(manager));
        others.flat_map(|it| it.fields.iter().map(|field| (it.manager.as_str(), field)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whatever is there before anybody was noted has an owner too.
    pub(crate) fn note_earlier(&mut self, fields: Fields, time: &str) {
        let earlier = Manager {
            operation: Operation::Update,
            name: EARLIER,
            status: false,
        };
        self.give(earlier, fields, time);
    }

    /// An update gave these fields other values: they are this manager's alone.
    pub(crate) fn take(&mut self, manager: Manager<'_>, changed: &Fields, time: &str) {
        if changed.is_empty() {
            return;
        }
        self.forget(changed);
        let mut all = self.fields_of(manager);
        all.extend(changed.iter().cloned());
        self.give(manager, all, time);
    }

    /// These are the fields that this manager has applied. The others keep theirs.
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

    /// Nobody owns these fields, nor anything in them, any more.
    pub(crate) fn forget(&mut self, gone: &Fields) {
        for entry in &mut self.entries {
            let is_gone = |it: &Path| gone.iter().any(|gone| it.starts_with(gone));
            entry.fields.retain(|it| !is_gone(it));
        }
        self.tidy();
    }

    /// Nobody but this manager owns these very fields any more.
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

    /// As the metadata shows them; null before anybody has applied.
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
