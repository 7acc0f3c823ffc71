//! The objects of one kind in one namespace, by name and by label.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use connectors_api::template::RenderedLabels;

use super::{
    Keeps,
    index::{Label, LabelIndex},
};
use crate::{
    api::Name,
    check_object::{CheckObject, SharedLabel},
    interner::Interner,
};

/// The limit of bytes for the objects of one kind in one namespace: enough for some thousand approvals. Above it the
/// cache keeps none of them, and each reconciliation for a pod of the namespace reads them live.
pub(crate) const MOST_OF_NAMESPACE: usize = 8 * 1024 * 1024;
/// The limit of labels by which an object is indexed. One with more is compared with every selection: an index of all
/// labels would take ten times the memory of the labels, and each event would write it anew.
pub(super) const MOST_LABELS: usize = 64;
/// The approximate size of an entry without an object.
const NO_OBJECT: usize = 64;
/// The approximate size of an index entry, beside the label and the name.
const INDEX_ENTRY: usize = 512;

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
            Self::There(object) => object.weight(),
            Self::Unreadable | Self::Gone => name.len() + NO_OBJECT,
        }
    }

    pub(super) const fn there(&self) -> Option<&Arc<CheckObject>> {
        match self {
            Self::There(object) => Some(object),
            Self::Unreadable | Self::Gone => None,
        }
    }

    fn labels(&self) -> impl Iterator<Item = Label<'_>> {
        let object = self.there().into_iter();
        object.flat_map(|it| it.labels())
    }

    /// The object as the cache keeps it: with labels that the index has, if it has them.
    fn cached(
        self,
        name: &Name,
        labels: Option<Vec<SharedLabel>>,
        shapes: &mut Interner<str>,
    ) -> Self {
        match self {
            Self::There(object) => Self::There(Arc::new(object.cached(name, labels, shapes))),
            Self::Unreadable | Self::Gone => self,
        }
    }
}

/// True for an object with more labels than an index of them is worth.
pub(super) fn has_many_labels(object: &CheckObject) -> bool {
    object.labels().nth(MOST_LABELS).is_some()
}

/// An object, and its place in the index.
#[derive(Debug)]
struct IndexedObject {
    object: KindObject,
    indexed: LabelIndexing,
    weight: usize,
}

/// How checks find an object by its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabelIndexing {
    /// By no label: it is found by its name alone.
    Never,
    /// By each of its labels.
    ByLabel,
    /// It has too many labels, and is compared with every selection.
    Compared,
}

impl LabelIndexing {
    fn of(object: &KindObject, keeps: Keeps) -> Self {
        match (object.there(), keeps) {
            (Some(object), Keeps::All) if has_many_labels(object) => Self::Compared,
            (Some(_), Keeps::All) => Self::ByLabel,
            (Some(_) | None, _) => Self::Never,
        }
    }
}

impl IndexedObject {
    fn of(name: &str, object: KindObject, indexed: LabelIndexing) -> Self {
        let mut weight = object.weight(name);
        if indexed == LabelIndexing::ByLabel {
            let entry =
                |(key, value): Label<'_>| key.len() + value.len() + name.len() + INDEX_ENTRY;
            weight += object.labels().map(entry).sum::<usize>();
        }
        Self {
            object,
            indexed,
            weight,
        }
    }

    /// The object leaves the cache.
    fn release(&self, shapes: &mut Interner<str>) {
        if let Some(object) = self.object.there() {
            object.release(shapes);
        }
    }
}

/// The name of an object among those of its namespace. Usually the watch has the same copy.
#[derive(Clone, Debug)]
struct LocalName(Name);

impl Borrow<str> for LocalName {
    fn borrow(&self) -> &str {
        &self.0.name
    }
}

impl Ord for LocalName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.name.cmp(&other.0.name)
    }
}

impl PartialOrd for LocalName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for LocalName {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for LocalName {}

/// The objects of one kind in one namespace.
#[derive(Debug, Default)]
pub(super) struct KindObjects {
    all: BTreeMap<LocalName, IndexedObject>,
    /// The names of the objects by label and value.
    by_label: LabelIndex<LocalName>,
    /// The shapes of the texts, each once.
    shapes: Interner<str>,
    /// The names of those with too many labels.
    compared: BTreeSet<LocalName>,
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
        let all = self.all.values();
        all.filter_map(|it| it.object.there()).count()
    }

    pub(super) fn get(&self, name: &str) -> Option<&KindObject> {
        self.all.get(name).map(|it| &it.object)
    }

    /// The objects with that one of these labels which the fewest objects have, and those with too many labels.
    pub(super) fn with_one_of(
        &self,
        labels: &RenderedLabels,
    ) -> impl Iterator<Item = &Arc<CheckObject>> {
        let found = self.by_label.fewest(labels).chain(&self.compared);
        let found = found.filter_map(|name| self.get(&name.0.name));
        found.filter_map(KindObject::there)
    }

    pub(super) fn put(&mut self, name: &Name, object: KindObject, keeps: Keeps) {
        if self.overflowed {
            return;
        }
        let (name, before) = match self.all.remove_entry(name.name.as_str()) {
            Some((name, before)) => (name, Some(before)),
            None => (LocalName(name.clone()), None),
        };
        let indexed = LabelIndexing::of(&object, keeps);
        let labels = self.index_anew(&name, before.as_ref(), &object, indexed);
        let object = object.cached(&name.0, labels, &mut self.shapes);
        let object = IndexedObject::of(&name.0.name, object, indexed);
        self.weight += object.weight;
        if let Some(before) = before {
            self.weight -= before.weight;
            before.release(&mut self.shapes);
        }
        self.all.insert(name, object);
        if self.weight > MOST_OF_NAMESPACE {
            self.overflow();
        }
    }

    pub(super) fn take_out(&mut self, name: &str) {
        if let Some(before) = self.all.remove(name) {
            self.weight -= before.weight;
            self.take_from_index(name, &before);
            before.release(&mut self.shapes);
        }
    }

    /// Moves an object to its place in the index. Returns its labels as the index has them, if it is found by them. Most
    /// changes of an object leave its labels as they are.
    fn index_anew(
        &mut self,
        name: &LocalName,
        before: Option<&IndexedObject>,
        object: &KindObject,
        indexed: LabelIndexing,
    ) -> Option<Vec<SharedLabel>> {
        if let Some(before) = before {
            let same = before.indexed == indexed && before.object.labels().eq(object.labels());
            if same {
                let known = before
                    .object
                    .there()
                    .filter(|_| indexed == LabelIndexing::ByLabel);
                return known.map(|it| it.shared_labels().to_vec());
            }
            self.take_from_index(&name.0.name, before);
        }
        match indexed {
            LabelIndexing::Never => None,
            LabelIndexing::Compared => {
                self.compared.insert(name.clone());
                None
            }
            LabelIndexing::ByLabel => {
                let labels = object.labels();
                let add = |label| self.by_label.add(label, name.clone());
                Some(labels.map(add).collect())
            }
        }
    }

    fn take_from_index(&mut self, name: &str, before: &IndexedObject) {
        match before.indexed {
            LabelIndexing::Never => {}
            LabelIndexing::Compared => {
                self.compared.remove(name);
            }
            LabelIndexing::ByLabel => {
                for label in before.object.labels() {
                    self.by_label.take(label, name);
                }
            }
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
    pub(super) fn narrow(&mut self, is_needed: impl Fn(&Name) -> bool) {
        self.overflowed = false;
        let dropped = self.all.keys().filter(|name| !is_needed(&name.0));
        for LocalName(name) in dropped.cloned().collect::<Vec<_>>() {
            self.take_out(&name.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use connectors_api::template::{Budget, LabelTemplates, TemplateData};
    use serde_json::{Value, json};
    use service_kit::watches::Parse as _;

    use super::*;
    use crate::check_object::AsText;

    fn named(name: &str) -> Name {
        Name::new("apps", name)
    }

    fn object(labels: &[(&str, &str)]) -> KindObject {
        let labels: BTreeMap<_, _> = labels.iter().copied().collect();
        let object = json!({"metadata": {"labels": labels}});
        KindObject::There(Arc::new(AsText::parse(&object.to_string()).unwrap().object))
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
            let object = object(&[("app", "tool"), ("run", &name)]);
            objects.put(&named(&name), object, Keeps::All);
        }
        let of_run = [("app", "tool"), ("run", "approval-7")];
        assert_eq!(count(&objects, &of_run), 1);
        assert_eq!(count(&objects, &[("app", "tool")]), 1_000);
        assert_eq!(count(&objects, &[("app", "tool"), ("run", "approval")]), 0);
    }

    #[test]
    fn an_object_is_found_by_the_labels_that_it_has_now() {
        let mut objects = KindObjects::default();
        objects.put(&named("a"), object(&[("run", "1")]), Keeps::All);
        objects.put(&named("a"), object(&[("run", "2")]), Keeps::All);
        let found = [1, 2].map(|run| count(&objects, &[("run", &run.to_string())]));
        assert_eq!(found, [0, 1]);
        objects.put(&named("a"), KindObject::Unreadable, Keeps::All);
        assert_eq!(count(&objects, &[("run", "2")]), 0);
        objects.put(&named("a"), object(&[]), Keeps::All);
        objects.put(&named("b"), object(&[("run", "2")]), Keeps::All);
        objects.narrow(|name| name.name == "a");
        assert_eq!(count(&objects, &[("run", "2")]), 0);
        objects.take_out("a");
        assert!(objects.by_label.is_empty() && objects.weight() == 0);
    }

    /// An object with so many labels, one of which says its run.
    fn crowded(run: &str, more: usize) -> KindObject {
        let more: Vec<_> = (0..more).map(|it| format!("label-{it}")).collect();
        let mut labels: Vec<_> = more.iter().map(|it| (it.as_str(), "")).collect();
        labels.push(("run", run));
        object(&labels)
    }

    /// Tenants write as many labels as an object has room for.
    #[test]
    fn an_object_with_too_many_labels_takes_no_room_in_the_index_and_is_found() {
        for (more, indexed) in [(MOST_LABELS - 1, MOST_LABELS), (MOST_LABELS, 0), (5_000, 0)] {
            let mut objects = KindObjects::default();
            objects.put(&named("a"), crowded("1", more), Keeps::All);
            assert_eq!(objects.by_label.keys(), indexed);
            assert_eq!(objects.compared.len(), usize::from(indexed == 0));
            assert_eq!(count(&objects, &[("run", "1")]), 1);
            objects.put(&named("a"), object(&[("run", "2")]), Keeps::All);
            assert!(objects.compared.is_empty() && objects.by_label.keys() == 1);
            objects.put(&named("a"), crowded("1", more), Keeps::All);
            objects.take_out("a");
            assert!(objects.by_label.is_empty() && objects.compared.is_empty());
            assert_eq!(objects.weight(), 0);
        }
    }

    #[test]
    fn an_object_that_is_found_by_name_alone_takes_no_room_in_the_index() {
        let mut objects = KindObjects::default();
        objects.put(&named("a"), object(&[("run", "1")]), Keeps::Linked);
        objects.put(&named("b"), crowded("1", 100), Keeps::Linked);
        assert!(objects.by_label.is_empty() && objects.compared.is_empty());
    }

    /// Its index takes more than the labels themselves.
    #[test]
    fn the_index_counts_for_the_share_of_the_namespace() {
        let weight = |keeps: Keeps| {
            let mut objects = KindObjects::default();
            objects.put(
                &named("a-1"),
                object(&[("run", "1234567"), ("app", "")]),
                keeps,
            );
            objects.weight()
        };
        let [run, app] = [3 + 7 + 3 + INDEX_ENTRY, 3 + 3 + INDEX_ENTRY];
        assert_eq!(weight(Keeps::All), weight(Keeps::Linked) + run + app);
    }

    /// A tenant names its objects.
    #[test]
    fn the_name_of_an_object_that_is_not_kept_counts_for_the_share_of_the_namespace() {
        for unknown in [KindObject::Unreadable, KindObject::Gone] {
            let mut objects = KindObjects::default();
            objects.put(&named("abc"), unknown, Keeps::Linked);
            assert_eq!(objects.weight(), "abc".len() + NO_OBJECT);
        }
    }

    /// The kind was narrowed between two changes of the object.
    #[test]
    fn an_object_that_is_found_by_name_alone_from_now_on_leaves_the_index() {
        for crowd in [0, MOST_LABELS] {
            let mut objects = KindObjects::default();
            objects.put(&named("a"), crowded("1", crowd), Keeps::All);
            objects.put(&named("a"), crowded("1", crowd), Keeps::Linked);
            assert!(objects.by_label.is_empty() && objects.compared.is_empty());
        }
    }

    /// An approval of a pipeline. They differ in names and times.
    fn approval(number: usize, state: &str, note: usize) -> Value {
        json!({
            "metadata": {"name": format!("run-{number}-wait"), "labels": {"app": "tool", "run": format!("run-{number}")}},
            "spec": {"description": "Approve the release", "note": "x".repeat(note)},
            "status": {"state": state, "since": format!("2026-03-01T10:00:{number}Z")},
        })
    }

    fn there(object: &Value) -> KindObject {
        KindObject::There(Arc::new(AsText::parse(&object.to_string()).unwrap().object))
    }

    #[test]
    fn approvals_keep_once_what_they_have_in_common_and_are_read_as_they_were() {
        let mut objects = KindObjects::default();
        let name = |number| format!("run-{number}-wait");
        for number in 10..60 {
            let object = there(&approval(number, "pending", 0));
            objects.put(&named(&name(number)), object, Keeps::All);
        }
        assert_eq!(objects.shapes.len(), 1);
        objects.put(
            &named(&name(10)),
            there(&approval(10, "approved", 0)),
            Keeps::All,
        );
        assert_eq!(objects.shapes.len(), 2);
        for (number, state) in [(10, "approved"), (11, "pending")] {
            let read = objects.get(&name(number)).and_then(KindObject::there);
            let text = read.and_then(|it| it.text()).unwrap();
            let object = approval(number, state, 0);
            assert_eq!(text.read(), object.to_string());
            assert_eq!(text.length(), object.to_string().len());
        }
        for number in 10..60 {
            objects.take_out(&name(number));
        }
        assert_eq!((objects.shapes.len(), objects.weight()), (0, 0));
    }

    /// A question to the evaluation service has the texts for seconds.
    #[test]
    fn a_shape_goes_with_its_last_object_whatever_else_has_the_text() {
        let mut objects = KindObjects::default();
        let names = ["a", "b"];
        for name in names {
            objects.put(&named(name), there(&approval(10, "pending", 0)), Keeps::All);
        }
        let held: Vec<_> = names
            .iter()
            .filter_map(|name| objects.get(name).cloned())
            .collect();
        for name in names {
            objects.put(
                &named(name),
                there(&approval(10, "approved", 0)),
                Keeps::All,
            );
        }
        assert_eq!(objects.shapes.len(), 1);
        let read = held.iter().filter_map(|it| it.there()?.value());
        assert_eq!(
            read.collect::<Vec<_>>(),
            [approval(10, "pending", 0), approval(10, "pending", 0)]
        );
    }

    /// A text is packed under the lock of the caches, and tenants choose its length.
    #[test]
    fn a_long_text_is_kept_as_it_is() {
        let mut objects = KindObjects::default();
        for (note, shapes) in [(1024, 1), (8 * 1024, 0), (1024, 1)] {
            let object = approval(10, "pending", note);
            objects.put(&named("a"), there(&object), Keeps::All);
            assert_eq!(objects.shapes.len(), shapes);
            let read = objects.get("a").and_then(KindObject::there);
            assert_eq!(read.and_then(|it| it.value()), Some(object));
        }
    }

    /// Each would have copies of the labels of all otherwise.
    #[test]
    fn the_labels_of_objects_are_those_of_the_index() {
        let mut objects = KindObjects::default();
        for (name, run) in [("a", "1"), ("b", "2"), ("a", "1"), ("a", "2"), ("b", "2")] {
            objects.put(
                &named(name),
                object(&[("app", "tool"), ("run", run)]),
                Keeps::All,
            );
        }
        let at = |name: &str| {
            let object = objects.get(name).and_then(KindObject::there).unwrap();
            let texts = object.labels().flat_map(|(key, value)| [key, value]);
            texts.map(str::as_ptr).collect::<Vec<_>>()
        };
        assert_eq!(at("a"), at("b"));
    }

    /// The labels stay, and the index with them.
    #[test]
    fn an_object_that_changes_without_its_labels_is_found_as_before() {
        let mut objects = KindObjects::default();
        for _ in 0..2 {
            objects.put(&named("a"), object(&[("run", "1")]), Keeps::All);
            assert_eq!(count(&objects, &[("run", "1")]), 1);
        }
        objects.take_out("a");
        assert!(objects.by_label.is_empty() && objects.weight() == 0);
    }
}
