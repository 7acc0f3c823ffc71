//! The objects between pods and approvals that requests depend on, so that a change of one wakes exactly those requests.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::access_policy::ObjectKind;

use crate::api::Name;

/// One object between a pod and an approval.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its name.
    pub name: Name,
}

/// Links by request, and requests by link.
#[derive(Debug, Default)]
pub struct Links {
    of_request: BTreeMap<Name, BTreeSet<Link>>,
    of_link: BTreeMap<Link, BTreeSet<Name>>,
}

impl Links {
    /// Records that a request depends on these objects as well. A reconciliation does this before it reads them, so that
    /// no change in between is lost.
    pub fn add(&mut self, request: &Name, links: impl IntoIterator<Item = Link>) {
        for link in links {
            let requests = self.of_link.entry(link.clone()).or_default();
            requests.insert(request.clone());
            let links = self.of_request.entry(request.clone()).or_default();
            links.insert(link);
        }
    }

    /// Drops the objects that a request depends on no more.
    pub fn retain(&mut self, request: &Name, is_needed: impl Fn(&Link) -> bool) {
        let Some(links) = self.of_request.get_mut(request) else {
            return;
        };
        let dropped: Vec<_> = links.extract_if(.., |it| !is_needed(it)).collect();
        if links.is_empty() {
            self.of_request.remove(request);
        }
        for link in dropped {
            if let Some(requests) = self.of_link.get_mut(&link) {
                requests.remove(request);
                if requests.is_empty() {
                    self.of_link.remove(&link);
                }
            }
        }
    }

    /// The objects that a request depends on.
    pub fn of_request(&self, request: &Name) -> impl Iterator<Item = &Link> {
        self.of_request.get(request).into_iter().flatten()
    }

    /// The requests that depend on an object.
    pub fn of_object(&self, kind: &ObjectKind, name: &Name) -> impl Iterator<Item = &Name> {
        let link = Link {
            kind: kind.clone(),
            name: name.clone(),
        };
        self.of_link.get(&link).into_iter().flatten()
    }

    /// The numbers of entries.
    #[cfg(test)]
    pub(super) fn census(&self) -> [usize; 2] {
        [self.of_request.len(), self.of_link.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str) -> Link {
        Link {
            kind: ObjectKind {
                api_version: "tekton.dev/v1".to_owned(),
                kind: "TaskRun".to_owned(),
            },
            name: Name::new("apps", name),
        }
    }

    fn woken(links: &Links, name: &str) -> Vec<String> {
        let Link { kind, name } = link(name);
        let requests = links.of_object(&kind, &name);
        requests.map(|it| it.name.clone()).collect()
    }

    #[test]
    fn an_object_leads_to_the_requests_that_depend_on_it_and_to_no_other() {
        let mut links = Links::default();
        let (one, other) = (Name::new("tools", "one"), Name::new("tools", "other"));
        links.add(&one, [link("a"), link("b")]);
        links.add(&other, [link("b")]);
        assert_eq!(woken(&links, "a"), ["one"]);
        assert_eq!(woken(&links, "b"), ["one", "other"]);
        assert!(woken(&links, "c").is_empty());
        let mut another_kind = link("a");
        another_kind.kind.kind = "CustomRun".to_owned();
        let requests = links.of_object(&another_kind.kind, &another_kind.name);
        assert_eq!(requests.count(), 0);
    }

    #[test]
    fn what_is_not_needed_any_more_leaves_nothing() {
        let mut links = Links::default();
        let (one, other) = (Name::new("tools", "one"), Name::new("tools", "other"));
        links.add(&one, [link("a"), link("b")]);
        links.add(&other, [link("b")]);
        links.retain(&one, |it| *it == link("b"));
        assert!(woken(&links, "a").is_empty());
        assert_eq!(woken(&links, "b"), ["one", "other"]);
        assert_eq!(links.of_request(&one).count(), 1);
        links.retain(&one, |_| false);
        assert_eq!(woken(&links, "b"), ["other"]);
        links.retain(&other, |_| false);
        links.retain(&other, |_| false);
        assert_eq!(links.census(), [0, 0]);
    }
}
