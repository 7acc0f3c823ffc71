//! The objects that the checks of waiting requests select, so that an object wakes the requests that may find it.
//!
//! Requests are indexed by the labels that they select by. The cost of an event about an object depends on the labels of
//! the object and on the requests that it wakes, not on those that wait beside them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use connectors_api::{access_policy::ObjectKind, template::RenderedLabels};

use super::{
    index::{Index, Label, LabelIndex, add, known_key, take},
    kind_objects::has_many_labels,
};
use crate::{api::Name, check_object::CheckObject};

/// The most selections that are kept for a request. One with more is woken by each object of a kind.
pub const MOST_SOUGHT: usize = 8;
/// The most bytes of labels that are kept for a request.
const MOST_BYTES: usize = 1024;

/// The selection of one check: the objects of a kind with these labels, in the pod's namespace.
pub type SoughtObjects = (ObjectKind, RenderedLabels);

/// The selections of each waiting request whose last reconciliation was complete. All maps share one copy of each name.
#[derive(Debug, Default)]
pub struct Sought {
    waiting: BTreeMap<Name, WaitingRequest>,
    /// The requests whose selections are not known, by the namespace of their pods.
    unknown: Index<String, Name>,
    /// The other requests, by the kind and the namespace of their objects: each selection by one of its labels.
    by_label: BTreeMap<Arc<SoughtPlace>, LabelIndex<Name>>,
}

type SoughtPlace = (ObjectKind, String);

/// A waiting request.
#[derive(Debug)]
struct WaitingRequest {
    /// The namespace of its pod.
    namespace: Box<str>,
    /// None if they are not known.
    selections: Option<Box<[IndexedSelection]>>,
}

/// The selection of one check.
#[derive(Debug)]
struct IndexedSelection {
    /// The kind and the namespace of the objects, in the copy of the index.
    place: Arc<SoughtPlace>,
    labels: RenderedLabels,
    /// The number of the label that it is indexed by.
    number: usize,
}

/// The known state of an object before and after a change.
pub(super) enum ObjectChange<'a> {
    /// The objects that it was and is, as far as it existed.
    Known([Option<&'a CheckObject>; 2]),
    /// It may have had any labels, or has.
    Unknown,
}

impl Sought {
    /// A request waits for objects of this namespace, or waits for none any more. What is known of it stays.
    pub(super) fn follow(&mut self, request: &Name, namespace: Option<&str>) {
        let known = self.waiting.get(request).map(|it| it.namespace.as_ref());
        if known == namespace {
            return;
        }
        let before = self.take_out(request);
        if let Some(namespace) = namespace {
            let name = before.map_or_else(|| request.clone(), |(name, _)| name);
            self.wait(name, namespace.into(), None);
        }
    }

    /// A reconciliation begins: until it ends, each object wakes the request.
    pub fn forget(&mut self, request: &Name) {
        if let Some((name, before)) = self.take_out(request) {
            self.wait(name, before.namespace, None);
        }
    }

    /// The selections of the last reconciliation of a request, and the namespace of their objects. None if they are not known.
    #[must_use]
    pub fn of(
        &self,
        request: &Name,
    ) -> Option<(&str, impl Iterator<Item = (&ObjectKind, &RenderedLabels)>)> {
        let waiting = self.waiting.get(request)?;
        let selections = waiting.selections.as_ref()?;
        let sought = selections.iter().map(|it| (&it.place.0, &it.labels));
        Some((&waiting.namespace, sought))
    }

    /// A reconciliation has looked for these objects. Without a limit on them, one tenant's selectors would fill the memory.
    pub fn learn(&mut self, request: &Name, selections: Vec<SoughtObjects>) {
        let bytes = selections
            .iter()
            .map(|(_, labels)| labels.to_string().len());
        if selections.len() > MOST_SOUGHT || bytes.sum::<usize>() > MOST_BYTES {
            return;
        }
        if let Some((name, before)) = self.take_out(request) {
            self.wait(name, before.namespace, Some(selections));
        }
    }

    fn wait(&mut self, request: Name, namespace: Box<str>, selections: Option<Vec<SoughtObjects>>) {
        let selections = if let Some(selections) = selections {
            let indexed = selections.into_iter().map(|(kind, labels)| {
                let place = Arc::new((kind, namespace.as_ref().to_owned()));
                let place = known_key(&self.by_label, place);
                let index = self.by_label.entry(Arc::clone(&place)).or_default();
                let number = index.rarest(&labels);
                if let Some(label) = label(&labels, number) {
                    let _ = index.add(label, request.clone());
                }
                IndexedSelection {
                    place,
                    labels,
                    number,
                }
            });
            Some(indexed.collect())
        } else {
            let namespace = namespace.as_ref().to_owned();
            add(&mut self.unknown, namespace, request.clone());
            None
        };
        let waiting = WaitingRequest {
            namespace,
            selections,
        };
        self.waiting.insert(request, waiting);
    }

    fn take_out(&mut self, request: &Name) -> Option<(Name, WaitingRequest)> {
        let (name, before) = self.waiting.remove_entry(request)?;
        if before.selections.is_none() {
            take(&mut self.unknown, before.namespace.as_ref(), request);
        }
        for selection in before.selections.iter().flatten() {
            if let Some(label) = label(&selection.labels, selection.number)
                && let Some(index) = self.by_label.get_mut(&selection.place)
            {
                index.take(label, request);
                if index.is_empty() {
                    self.by_label.remove(&selection.place);
                }
            }
        }
        Some((name, before))
    }

    /// The requests that a change of an object may concern: those whose selections are not known, and those that select
    /// by a label that the object had or has.
    pub(super) fn candidates(
        &self,
        kind: &ObjectKind,
        namespace: &str,
        change: &ObjectChange<'_>,
    ) -> BTreeSet<&Name> {
        let unknown = self.unknown.get(namespace).into_iter().flatten();
        let place = (kind.clone(), namespace.to_owned());
        let Some(index) = self.by_label.get(&place) else {
            return unknown.collect();
        };
        match change {
            ObjectChange::Known(objects)
                if !objects.iter().flatten().any(|it| has_many_labels(it)) =>
            {
                let labels = objects.iter().flatten().flat_map(|it| it.labels());
                let selecting = labels.filter_map(|label| index.get(label)).flatten();
                unknown.chain(selecting).collect()
            }
            ObjectChange::Known(_) | ObjectChange::Unknown => unknown.chain(index.all()).collect(),
        }
    }

    /// True when a change of an object may change what a request finds.
    pub(super) fn concerns(
        &self,
        request: &Name,
        kind: &ObjectKind,
        change: &ObjectChange<'_>,
    ) -> bool {
        let waiting = self.waiting.get(request);
        let Some(selections) = waiting.and_then(|it| it.selections.as_ref()) else {
            return true;
        };
        let mut labels = selections
            .iter()
            .filter(|it| it.place.0 == *kind)
            .map(|it| &it.labels);
        match change {
            ObjectChange::Unknown => labels.next().is_some(),
            ObjectChange::Known(objects) => labels.any(|labels| {
                let mut objects = objects.iter().flatten();
                objects.any(|it| labels.match_found(|key| it.label(key)))
            }),
        }
    }

    /// The number of entries of each map.
    #[cfg(test)]
    pub(super) fn census(&self) -> [usize; 3] {
        [self.waiting.len(), self.unknown.len(), self.by_label.len()]
    }
}

/// The label of a selection with this number.
fn label(labels: &RenderedLabels, number: usize) -> Option<Label<'_>> {
    let (key, value) = labels.iter().nth(number)?;
    Some((key, value.as_str()))
}

#[cfg(test)]
mod tests {
    use connectors_api::template::{Budget, LabelTemplates, TemplateData};
    use serde_json::json;
    use service_kit::watches::Parse as _;

    use super::*;
    use crate::{cache::kind_objects, check_object::AsText};

    fn kind(kind: &str) -> ObjectKind {
        ObjectKind {
            api_version: "example.com/v1".to_owned(),
            kind: kind.to_owned(),
        }
    }

    fn request() -> Name {
        Name::new("tools", "request")
    }

    fn labels(run: &str) -> RenderedLabels {
        let labels = BTreeMap::from([("run".to_owned(), run.to_owned())]);
        let labels = LabelTemplates::parse(&labels).unwrap();
        let data = TemplateData::of(json!({}));
        labels.render(&data, &mut Budget::default()).unwrap()
    }

    fn object(run: &str) -> CheckObject {
        let object = json!({"metadata": {"labels": {"run": run}}});
        AsText::parse(&object.to_string()).unwrap().object
    }

    /// A label of so many bytes, whose value has as many as a value may have.
    fn long_labels(bytes: usize) -> RenderedLabels {
        let (end, value) = (".example.com/run", "a".repeat(63));
        let start = "a".repeat(bytes - end.len() - "=".len() - value.len());
        let labels = BTreeMap::from([(format!("{start}{end}"), value)]);
        let labels = LabelTemplates::parse(&labels).unwrap();
        let data = TemplateData::of(json!({}));
        labels.render(&data, &mut Budget::default()).unwrap()
    }

    /// Nothing is known of a request in this namespace.
    fn waiting() -> Sought {
        let mut sought = Sought::default();
        sought.follow(&request(), Some("apps"));
        sought
    }

    /// True when a change wakes the request: it is a candidate, and it is concerned.
    fn wakes(sought: &Sought, kind: &ObjectKind, change: &ObjectChange<'_>) -> bool {
        let candidates = sought.candidates(kind, "apps", change);
        candidates.contains(&request()) && sought.concerns(&request(), kind, change)
    }

    #[test]
    fn a_change_concerns_a_request_that_selects_what_was_or_what_is() {
        let mut sought = waiting();
        sought.learn(&request(), vec![(kind("Approval"), labels("a"))]);
        let [a, b] = ["a", "b"].map(object);
        for (before, after, expected) in [
            (None, Some(&a), true),
            (Some(&a), None, true),
            (Some(&a), Some(&b), true),
            (Some(&b), Some(&a), true),
            (Some(&b), Some(&b), false),
            (None, Some(&b), false),
            (None, None, false),
        ] {
            let change = ObjectChange::Known([before, after]);
            assert_eq!(wakes(&sought, &kind("Approval"), &change), expected);
            let concerns = sought.concerns(&request(), &kind("Approval"), &change);
            assert_eq!(concerns, expected);
        }
        let change = ObjectChange::Known([None, Some(&a)]);
        assert!(!wakes(&sought, &kind("Another"), &change));
        assert!(wakes(&sought, &kind("Approval"), &ObjectChange::Unknown));
        assert!(!wakes(&sought, &kind("Another"), &ObjectChange::Unknown));
        let elsewhere = sought.candidates(&kind("Approval"), "apps-2", &change);
        assert!(elsewhere.is_empty());
    }

    #[test]
    fn a_request_that_was_not_looked_at_completely_is_concerned_by_everything() {
        let mut sought = waiting();
        let b = object("b");
        let concerns = |sought: &Sought| {
            let change = ObjectChange::Known([None, Some(&b)]);
            wakes(sought, &kind("Approval"), &change)
        };
        assert!(concerns(&sought));
        sought.learn(&request(), Vec::new());
        assert!(!concerns(&sought), "no check of it selects anything");
        sought.follow(&request(), Some("apps"));
        assert!(
            !concerns(&sought),
            "an event of the request changes nothing"
        );
        sought.forget(&request());
        assert!(concerns(&sought));
        sought.follow(&request(), Some("elsewhere"));
        assert!(!concerns(&sought), "its pod is elsewhere");
    }

    /// A request that is over or granted is found by other indexes, or by none.
    #[test]
    fn a_request_that_waits_no_more_leaves_nothing() {
        let mut sought = waiting();
        sought.learn(&request(), vec![(kind("Approval"), labels("a"))]);
        assert_eq!(sought.census(), [1, 0, 1]);
        sought.follow(&request(), None);
        assert_eq!(sought.census(), [0; 3]);
        sought.learn(&request(), vec![(kind("Approval"), labels("a"))]);
        sought.forget(&request());
        assert_eq!(sought.census(), [0; 3], "nobody follows it");
        sought.follow(&request(), Some("apps"));
        assert_eq!(sought.census(), [1, 1, 0]);
        sought.follow(&request(), None);
        assert_eq!(sought.census(), [0; 3]);
    }

    #[test]
    fn a_request_that_waits_no_more_takes_no_news_from_another() {
        let mut sought = waiting();
        let other = Name::new("tools", "other");
        sought.follow(&other, Some("apps"));
        for (request, run) in [(request(), "a"), (other.clone(), "b")] {
            sought.learn(&request, vec![(kind("Approval"), labels(run))]);
        }
        sought.follow(&other, None);
        let a = object("a");
        let change = ObjectChange::Known([None, Some(&a)]);
        assert!(wakes(&sought, &kind("Approval"), &change));
    }

    #[test]
    fn selections_of_a_request_have_a_limit_and_beyond_it_everything_wakes() {
        let b = object("b");
        let each = MOST_BYTES / MOST_SOUGHT;
        let full = vec![(kind("Approval"), long_labels(each)); MOST_SOUGHT];
        let mut one_more = full.clone();
        one_more[0].1 = long_labels(each + 1);
        let table = [
            (full, false),
            (one_more, true),
            (vec![(kind("Approval"), labels("a")); MOST_SOUGHT], false),
            (vec![(kind("Approval"), labels("a")); MOST_SOUGHT + 1], true),
            (
                vec![(kind("Approval"), labels(&"a".repeat(63))); MOST_SOUGHT],
                false,
            ),
        ];
        for (selections, expected) in table {
            let mut sought = waiting();
            sought.learn(&request(), selections);
            let change = ObjectChange::Known([None, Some(&b)]);
            let wakes = wakes(&sought, &kind("Approval"), &change);
            assert_eq!(
                (wakes, sought.census()[1]),
                (expected, usize::from(expected))
            );
        }
    }

    /// All selections have the label of the tool, and each has one of its run.
    #[test]
    fn requests_are_found_by_the_label_that_tells_them_apart() {
        let mut sought = Sought::default();
        let label = |run: &str| {
            let labels = [("app", "tool"), ("run", run)];
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
            let labels = LabelTemplates::parse(&BTreeMap::from(labels)).unwrap();
            let data = TemplateData::of(json!({}));
            labels.render(&data, &mut Budget::default()).unwrap()
        };
        for number in 0..1_000 {
            let request = Name::new("tools", &format!("r{number}"));
            sought.follow(&request, Some("apps"));
            let selection = (kind("Approval"), label(&format!("run-{number}")));
            sought.learn(&request, vec![selection]);
        }
        let object = json!({"metadata": {"labels": {"app": "tool", "run": "run-7"}}});
        let object: CheckObject = AsText::parse(&object.to_string()).unwrap().object;
        let change = ObjectChange::Known([Some(&object), Some(&object)]);
        let candidates = sought.candidates(&kind("Approval"), "apps", &change);
        // The first request had nothing to tell it from.
        let [first, seventh] = ["r0", "r7"].map(|it| Name::new("tools", it));
        assert_eq!(candidates, BTreeSet::from([&first, &seventh]));
        let of_all = sought.candidates(&kind("Approval"), "apps", &ObjectChange::Unknown);
        assert_eq!(of_all.len(), 1_000);
        let crowded: BTreeMap<_, _> = (0..=kind_objects::MOST_LABELS)
            .map(|it| (format!("l{it}"), ""))
            .collect();
        let crowded = json!({"metadata": {"labels": crowded}});
        let crowded: CheckObject = AsText::parse(&crowded.to_string()).unwrap().object;
        let change = ObjectChange::Known([None, Some(&crowded)]);
        let candidates = sought.candidates(&kind("Approval"), "apps", &change);
        assert_eq!(candidates.len(), 1_000, "one comparison for each");
    }
}
