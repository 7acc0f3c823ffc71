//! The objects of one kind in one namespace, by name and by label.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use connectors_api::template::RenderedLabels;

use super::index::{add, take};
use crate::check_object::CheckObject;

/// The limit of bytes for the objects of one kind in one namespace: enough for some thousand approvals. Above it the
/// cache keeps none of them, and each reconciliation for a pod of the namespace reads them live.
pub(crate) const MOST_OF_NAMESPACE: usize = 8 * 1024 * 1024;
/// The approximate size of an entry without an object.
const NO_OBJECT: usize = 64;

/// One object of a kind, as its watch brought it.
#[derive(Clone, Debug)]
pub enum KindObject {
    /// It exists.
    There(Arc<CheckObject>),
    /// It exists, and nothing is known of it, not even its labels.
    Unreadable,
    /// It does not exist. Only objects that a request depends on are recorded so.
    Gone,
}

impl KindObject {
    /// The object that was read.
    #[must_use]
    pub fn of<E>(object: Option<Result<CheckObject, E>>) -> Self {
        match object {
            Some(Ok(object)) => Self::There(Arc::new(object)),
            Some(Err(_)) => Self::Unreadable,
            None => Self::Gone,
        }
    }

    fn weight(&self, name: &str) -> usize {
        match self {
            // The index repeats the labels and the name.
            Self::There(object) => {
                let labels = object.labels();
                let indexed = labels.map(|(key, value)| key.len() + value.len() + name.len());
                object.weight() + indexed.sum::<usize>()
            }
            Self::Unreadable | Self::Gone => name.len() + NO_OBJECT,
        }
    }

    pub(super) const fn there(&self) -> Option<&Arc<CheckObject>> {
        match self {
            Self::There(object) => Some(object),
            Self::Unreadable | Self::Gone => None,
        }
    }
}

/// The objects of one kind in one namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct KindObjects {
    all: BTreeMap<String, KindObject>,
    /// The names of the objects by each of their labels.
    by_label: BTreeMap<(String, String), BTreeSet<String>>,
    weight: usize,
    /// The objects exceed the limit, so the cache keeps none, and they must be read live.
    overflowed: bool,
}

impl KindObjects {
    pub(super) const fn are_kept(&self) -> bool {
        !self.overflowed
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) const fn weight(&self) -> usize {
        self.weight
    }

    /// The number of objects that exist and are readable.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.all.values().filter_map(KindObject::there).count()
    }

    pub(super) fn get(&self, name: &str) -> Option<&KindObject> {
        self.all.get(name)
    }

    /// The objects with that one of these labels which the fewest objects have.
    pub(super) fn with_one_of(
        &self,
        labels: &RenderedLabels,
    ) -> impl Iterator<Item = &Arc<CheckObject>> {
        let names = labels.iter().map(|(key, value)| {
            let label = (key.to_owned(), value.as_str().to_owned());
            self.by_label.get(&label)
        });
        let rarest = names.min_by_key(|it| it.map_or(0, BTreeSet::len));
        let names = rarest.flatten().into_iter().flatten();
        let found = names.filter_map(|name| self.all.get(name));
        found.filter_map(KindObject::there)
    }

    pub(super) fn put(&mut self, name: &str, object: KindObject) {
        if self.overflowed {
            return;
        }
        self.take_out(name);
        self.weight += object.weight(name);
        for (key, value) in object.there().into_iter().flat_map(|it| it.labels()) {
            let label = (key.clone(), value.clone());
            add(&mut self.by_label, label, name.to_owned());
        }
        self.all.insert(name.to_owned(), object);
        if self.weight > MOST_OF_NAMESPACE {
            self.overflow();
        }
    }

    pub(super) fn take_out(&mut self, name: &str) {
        let Some(before) = self.all.remove(name) else {
            return;
        };
        self.weight -= before.weight(name);
        for (key, value) in before.there().into_iter().flat_map(|it| it.labels()) {
            let label = (key.clone(), value.clone());
            take(&mut self.by_label, label, &name.to_owned());
        }
    }

    /// Drops all objects, until a list begins.
    pub(super) fn overflow(&mut self) {
        *self = Self {
            overflowed: true,
            ..Self::default()
        };
    }

    /// Drops the objects that are not needed. The others are kept from now on.
    pub(super) fn narrow(&mut self, is_needed: impl Fn(&str) -> bool) {
        self.overflowed = false;
        let dropped = self.all.keys().filter(|name| !is_needed(name));
        for name in dropped.cloned().collect::<Vec<_>>() {
            self.take_out(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use connectors_api::template::{Budget, LabelTemplates, TemplateData};
    use serde_json::json;
    use service_kit::watches::Parse as _;

    use super::*;
    use crate::check_object::AsText;

    fn object(labels: &[(&str, &str)]) -> KindObject {
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        let object = json!({"metadata": {"labels": labels}});
        KindObject::There(Arc::new(AsText::parse(&object.to_string()).unwrap()))
    }

    fn labels(labels: &[(&str, &str)]) -> RenderedLabels {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let labels = LabelTemplates::parse(&labels.collect()).unwrap();
        let data = TemplateData::of(json!({}));
        labels.render(&data, &mut Budget::default()).unwrap()
    }

    fn count(objects: &KindObjects, of: &[(&str, &str)]) -> usize {
        objects.with_one_of(&labels(of)).count()
    }

    #[test]
    fn objects_are_found_by_the_label_that_tells_them_apart() {
        let mut objects = KindObjects::default();
        for number in 0..1_000 {
            let name = format!("approval-{number}");
            objects.put(&name, object(&[("app", "tool"), ("run", &name)]));
        }
        let of_run = [("app", "tool"), ("run", "approval-7")];
        assert_eq!(count(&objects, &of_run), 1);
        assert_eq!(count(&objects, &[("app", "tool")]), 1_000);
        assert_eq!(count(&objects, &[("app", "tool"), ("run", "approval")]), 0);
    }

    #[test]
    fn an_object_is_found_by_the_labels_that_it_has_now() {
        let mut objects = KindObjects::default();
        objects.put("a", object(&[("run", "1")]));
        objects.put("a", object(&[("run", "2")]));
        let found = [1, 2].map(|run| count(&objects, &[("run", &run.to_string())]));
        assert_eq!(found, [0, 1]);
        objects.put("a", KindObject::Unreadable);
        assert_eq!(count(&objects, &[("run", "2")]), 0);
        objects.put("a", object(&[]));
        objects.put("b", object(&[("run", "2")]));
        objects.narrow(|name| name == "a");
        assert_eq!(count(&objects, &[("run", "2")]), 0);
        objects.take_out("a");
        assert!(objects.by_label.is_empty() && objects.weight() == 0);
    }
}
