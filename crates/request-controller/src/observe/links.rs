//! The objects between the pod and its approvals that one reconciliation has read, what its checks select, and the rest
//! of its budget.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use connectors_api::lineage::{self, LineageVerdict, MOST_OBJECTS, MOST_STEPS_OF_ALL};

use crate::{
    cache::{Link, MOST_SOUGHT, SoughtObjects},
    check_object::CheckObject,
    selection::CheckTrouble,
};

/// The limit of bytes in the objects of one reconciliation.
pub(super) const MOST_BYTES: usize = 4 * 1024 * 1024;

/// The objects that one reconciliation has read, and the rest of its budget. Each is read once, whatever the number of
/// checks.
#[derive(Debug)]
pub(super) struct LinksRead {
    objects: Mutex<BTreeMap<Link, NamedObject>>,
    /// The steps of the judge.
    steps: AtomicUsize,
    /// The objects that the checks of its policies select. None as long as not all of them were judged.
    sought: Mutex<SoughtRead>,
}

/// The selections of one reconciliation.
#[derive(Debug, Default)]
struct SoughtRead {
    selections: Vec<SoughtObjects>,
    are_all: bool,
}

impl Default for LinksRead {
    fn default() -> Self {
        Self {
            objects: Mutex::default(),
            steps: AtomicUsize::new(MOST_STEPS_OF_ALL),
            sought: Mutex::default(),
        }
    }
}

/// An object that was read by its name.
#[derive(Clone, Debug)]
pub(super) enum NamedObject {
    /// It exists.
    There(Arc<CheckObject>),
    /// It does not exist.
    Gone,
    /// Its kind or the object itself cannot be read.
    Trouble(CheckTrouble, String),
}

impl NamedObject {
    /// The UID.
    pub(super) fn uid(&self) -> Option<&str> {
        match self {
            Self::There(object) => object.uid(),
            Self::Gone | Self::Trouble(..) => None,
        }
    }

    /// The object as JSON.
    pub(super) fn text(&self) -> Option<&Arc<str>> {
        match self {
            Self::There(object) => object.text(),
            Self::Gone | Self::Trouble(..) => None,
        }
    }
}

impl LinksRead {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Link, NamedObject>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True when a reconciliation depends on an object.
    pub(super) fn has(&self, link: &Link) -> bool {
        self.lock().contains_key(link)
    }

    pub(super) fn put(&self, link: Link, object: NamedObject) {
        self.lock().insert(link, object);
    }

    pub(super) fn get(&self, link: &Link) -> Option<NamedObject> {
        self.lock().get(link).cloned()
    }

    fn lock_sought(&self) -> MutexGuard<'_, SoughtRead> {
        self.sought.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what a check selects.
    pub(super) fn seek(&self, selection: SoughtObjects) {
        let mut sought = self.lock_sought();
        if sought.selections.len() <= MOST_SOUGHT && !sought.selections.contains(&selection) {
            sought.selections.push(selection);
        }
    }

    /// All policies that apply are known and are judged before the end, or no policy matters.
    pub(super) fn has_sought_all(&self) {
        self.lock_sought().are_all = true;
    }

    /// The objects that the checks of all policies select, if all were judged.
    pub(super) fn sought(&self) -> Option<Vec<SoughtObjects>> {
        let sought = std::mem::take(&mut *self.lock_sought());
        sought.are_all.then_some(sought.selections)
    }

    /// The judge's verdict, at the expense of this reconciliation.
    pub(super) fn judge(&self, question: &lineage::LineageQuestion<'_>) -> LineageVerdict {
        let mut steps = self.steps.load(Ordering::Relaxed);
        let verdict = lineage::judge_within(question, &mut steps);
        self.steps.store(steps, Ordering::Relaxed);
        verdict
    }

    /// True when the objects are within the limits of one reconciliation.
    pub(super) fn fit(&self) -> bool {
        let read = self.lock();
        if read.len() > MOST_OBJECTS {
            return false;
        }
        let texts = read.values().filter_map(NamedObject::text);
        texts.map(|it| it.len()).sum::<usize>() <= MOST_BYTES
    }
}

#[cfg(test)]
mod tests {
    use connectors_api::access_policy::ObjectKind;
    use serde_json::json;
    use service_kit::watches::Parse as _;

    use super::*;
    use crate::{
        api::Name,
        check_object::{AsText, LARGEST},
    };

    #[test]
    fn the_objects_of_one_look_have_a_limit() {
        let large = json!({"metadata": {"name": "a"}, "data": "x".repeat(LARGEST - 100)});
        let object = Arc::new(AsText::parse(&large.to_string()).unwrap());
        let links = LinksRead::default();
        for number in 0..MOST_BYTES / LARGEST {
            let link = Link {
                kind: ObjectKind {
                    api_version: "tekton.dev/v1".to_owned(),
                    kind: "TaskRun".to_owned(),
                },
                name: Name::new("apps", &number.to_string()),
            };
            links.put(link.clone(), NamedObject::There(Arc::clone(&object)));
            assert!(links.fit() && links.has(&link));
        }
        let another = Link {
            kind: ObjectKind {
                api_version: "tekton.dev/v1".to_owned(),
                kind: "PipelineRun".to_owned(),
            },
            name: Name::new("apps", "0"),
        };
        assert!(links.get(&another).is_none());
        links.put(another, NamedObject::There(object));
        assert!(!links.fit());
    }
}
