//! The objects that the checks of waiting requests select, so that an object wakes the requests that may find it.

use std::collections::BTreeMap;

use connectors_api::{access_policy::ObjectKind, template::RenderedLabels};

use crate::{api::Name, check_object::CheckObject};

/// The most selections that are kept for a request. One with more is woken by each object of a kind.
pub const MOST_SOUGHT: usize = 8;
/// The most bytes of labels that are kept for a request.
const MOST_BYTES: usize = 1024;

/// The selection of one check: the objects of a kind with these labels, in the pod's namespace.
pub type SoughtObjects = (ObjectKind, RenderedLabels);

/// The selections of each waiting request whose last reconciliation was complete.
#[derive(Debug, Default)]
pub struct Sought {
    of_request: BTreeMap<Name, Vec<SoughtObjects>>,
}

/// The known state of an object before and after a change.
pub(super) enum ObjectChange<'a> {
    /// The objects that it was and is, as far as it existed.
    Known([Option<&'a CheckObject>; 2]),
    /// It may have had any labels, or has.
    Unknown,
}

impl Sought {
    /// A reconciliation begins: until it ends, each object wakes the request.
    pub fn forget(&mut self, request: &Name) {
        self.of_request.remove(request);
    }

    /// A reconciliation has looked for these objects. Without a limit on them, one tenant's selectors would fill the memory.
    pub fn learn(&mut self, request: &Name, selections: Vec<SoughtObjects>) {
        let bytes = selections
            .iter()
            .map(|(_, labels)| labels.to_string().len());
        if selections.len() <= MOST_SOUGHT && bytes.sum::<usize>() <= MOST_BYTES {
            self.of_request.insert(request.clone(), selections);
        }
    }

    /// True when a change of an object may change what a request finds.
    pub(super) fn concerns(
        &self,
        request: &Name,
        kind: &ObjectKind,
        change: &ObjectChange<'_>,
    ) -> bool {
        let Some(selections) = self.of_request.get(request) else {
            return true;
        };
        let mut labels = selections
            .iter()
            .filter(|(it, _)| it == kind)
            .map(|it| &it.1);
        match change {
            ObjectChange::Unknown => labels.next().is_some(),
            ObjectChange::Known(objects) => labels.any(|labels| {
                let mut objects = objects.iter().flatten();
                objects.any(|it| labels.match_found(|key| it.label(key)))
            }),
        }
    }

    /// The number of requests.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.of_request.len()
    }
}

#[cfg(test)]
mod tests {
    use connectors_api::template::{Budget, LabelTemplates, TemplateData};
    use serde_json::json;
    use service_kit::watches::Parse as _;

    use super::*;
    use crate::check_object::AsText;

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
        AsText::parse(&object.to_string()).unwrap()
    }

    #[test]
    fn a_change_concerns_a_request_that_selects_what_was_or_what_is() {
        let mut sought = Sought::default();
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
            let concerns = sought.concerns(&request(), &kind("Approval"), &change);
            assert_eq!(concerns, expected);
        }
        let change = ObjectChange::Known([None, Some(&a)]);
        assert!(!sought.concerns(&request(), &kind("Another"), &change));
        assert!(sought.concerns(&request(), &kind("Approval"), &ObjectChange::Unknown));
        assert!(!sought.concerns(&request(), &kind("Another"), &ObjectChange::Unknown));
    }

    #[test]
    fn a_request_that_was_not_looked_at_completely_is_concerned_by_everything() {
        let mut sought = Sought::default();
        let b = object("b");
        let concerns = |sought: &Sought| {
            let change = ObjectChange::Known([None, Some(&b)]);
            sought.concerns(&request(), &kind("Approval"), &change)
        };
        assert!(concerns(&sought));
        sought.learn(&request(), Vec::new());
        assert!(!concerns(&sought), "no check of it selects anything");
        sought.forget(&request());
        assert!(concerns(&sought));
    }

    #[test]
    fn selections_of_a_request_have_a_limit_and_beyond_it_everything_wakes() {
        let b = object("b");
        let table = [
            (vec![(kind("Approval"), labels("a")); MOST_SOUGHT], false),
            (vec![(kind("Approval"), labels("a")); MOST_SOUGHT + 1], true),
            (
                vec![(kind("Approval"), labels(&"a".repeat(63))); MOST_SOUGHT],
                false,
            ),
        ];
        for (selections, expected) in table {
            let mut sought = Sought::default();
            sought.learn(&request(), selections);
            let change = ObjectChange::Known([None, Some(&b)]);
            let concerns = sought.concerns(&request(), &kind("Approval"), &change);
            assert_eq!(
                (concerns, sought.count()),
                (expected, usize::from(!expected))
            );
        }
    }
}
