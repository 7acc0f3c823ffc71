//! The objects between the pod and its approvals that one reconciliation has read, what its checks select, and the rest
//! of its budget.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use connectors_api::lineage::{
    Lineage, LineageQuestion, LineageVerdict, MOST_OBJECTS, MOST_STEPS_OF_ALL,
};

use crate::{
    cache::{Link, MOST_SOUGHT, SoughtObjects},
    check_object::{CheckObject, ObjectText},
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
    pub(super) fn text(&self) -> Option<&ObjectText> {
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
    pub(super) fn judge(
        &self,
        lineage: &'static dyn Lineage,
        question: &LineageQuestion<'_>,
    ) -> LineageVerdict {
        let mut steps = self.steps.load(Ordering::Relaxed);
        let verdict = lineage.judge_within(question, &mut steps);
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
        texts.map(ObjectText::length).sum::<usize>() <= MOST_BYTES
    }
}

#[cfg(test)]
mod tests {
    use connectors_api::{
        access_policy::ObjectKind,
        lineage::TEKTON,
        template::{Budget, LabelTemplates, TemplateData},
    };
    use serde_json::json;
    use service_kit::watches::Parse as _;

    use super::*;
    use crate::{
        api::Name,
        check_object::{AsText, LARGEST},
        testing::Cluster,
    };

    fn link(name: usize) -> Link {
        Link {
            kind: ObjectKind {
                api_version: "tekton.dev/v1".to_owned(),
                kind: "TaskRun".to_owned(),
            },
            name: Name::new("apps", &name.to_string()),
        }
    }

    #[test]
    fn the_number_of_objects_of_one_look_has_a_limit() {
        let links = LinksRead::default();
        for number in 0..MOST_OBJECTS {
            links.put(link(number), NamedObject::Gone);
        }
        assert!(links.fit());
        links.put(link(MOST_OBJECTS), NamedObject::Gone);
        assert!(!links.fit());
    }

    #[test]
    fn the_proofs_of_one_look_share_their_steps() {
        let cluster = Cluster::with_run();
        let named = |plural: &str, name: &str| cluster.server.named(plural, name).unwrap();
        let pod = named("pods", "run-deploy-pod");
        let approval = named("approvaltasks", "run-wait");
        let objects = [
            named("taskruns", "run-deploy"),
            named("customruns", "run-wait"),
            named("pipelineruns", "run"),
        ];
        let question = LineageQuestion {
            pod: &pod,
            approval: &approval,
            objects: &objects,
        };
        let links = LinksRead::default();
        let of_one = MOST_STEPS_OF_ALL / 2;
        links.steps.store(of_one, Ordering::Relaxed);
        assert!(!links.judge(TEKTON, &question).is_too_large());
        let price = of_one - links.steps.load(Ordering::Relaxed);
        assert!(price > 0);
        links.steps.store(price, Ordering::Relaxed);
        assert!(!links.judge(TEKTON, &question).is_too_large());
        assert!(links.judge(TEKTON, &question).is_too_large());
    }

    #[test]
    fn one_look_records_a_bounded_number_of_selections() {
        let links = LinksRead::default();
        for number in 0..100 {
            let labels = [("run".to_owned(), format!("r{number}"))].into();
            let labels = LabelTemplates::parse(&labels).unwrap();
            let data = TemplateData::of(json!({}));
            let labels = labels.render(&data, &mut Budget::default()).unwrap();
            for _ in 0..2 {
                links.seek((link(0).kind, labels.clone()));
            }
        }
        links.has_sought_all();
        // One more than is kept, so that a reader sees that there are more.
        assert_eq!(links.sought().map(|it| it.len()), Some(MOST_SOUGHT + 1));
    }

    #[test]
    fn the_objects_of_one_look_have_a_limit() {
        let large = json!({"metadata": {"name": "a"}, "data": "x".repeat(LARGEST - 100)});
        let object = Arc::new(AsText::parse(&large.to_string()).unwrap().object);
        let links = LinksRead::default();
        for number in 0..MOST_BYTES / LARGEST {
            let link = link(number);
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
