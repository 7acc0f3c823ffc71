//! The objects between pods and approvals that requests depend on, so that a change of one wakes exactly those requests.

use std::{collections::BTreeMap, sync::Arc};

use connectors_api::access_policy::ObjectKind;

use super::index::{Index, add, known_key, take};
use crate::api::Name;

/// One object between a pod and an approval.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its name.
    pub name: Name,
}

/// The limit of entries for the pods of one namespace. An entry is an object that one request depends on, and takes about
/// half a kilobyte.
const MOST_OF_NAMESPACE: usize = 16 * 1024;
/// The limit of entries for all namespaces.
const MOST_OF_ALL: usize = 64 * 1024;

/// Links by request, and requests by link. Both share one copy of each link.
#[derive(Debug, Default)]
pub struct Links {
    of_request: Index<Name, Arc<Link>>,
    of_link: Index<Arc<Link>, Name>,
    /// The number of entries by the namespace of the objects, which is the pod's.
    counts: BTreeMap<String, usize>,
}

impl Links {
    /// Records that a waiting request depends on these objects as well, as long as there is room for its namespace. A
    /// reconciliation does this before it reads them, so that no change in between is lost. False if one was not recorded.
    pub fn add(&mut self, request: &Name, links: impl IntoIterator<Item = Link>) -> bool {
        let mut are_all = true;
        let mut all = self.counts.values().sum::<usize>();
        for link in links {
            if self.has(request, &link) {
                continue;
            }
            let own = self.counts.get(&link.name.namespace).copied();
            let has_room = own.unwrap_or_default() < MOST_OF_NAMESPACE && all < MOST_OF_ALL;
            if has_room {
                self.follow(request, &link);
                all += 1;
            } else {
                are_all = false;
            }
        }
        are_all
    }

    /// Records that a grant rests on an object. There is always room: a grant rests on few objects, and its end must not
    /// depend on the requests beside it.
    pub fn follow(&mut self, request: &Name, link: &Link) {
        if self.has(request, link) {
            return;
        }
        let count = self.counts.entry(link.name.namespace.clone());
        *count.or_default() += 1;
        let (request, link) = (
            request.clone(),
            known_key(&self.of_link, Arc::new(link.clone())),
        );
        add(&mut self.of_link, Arc::clone(&link), request.clone());
        add(&mut self.of_request, request, link);
    }

    fn has(&self, request: &Name, link: &Link) -> bool {
        let links = self.of_request.get(request);
        links.is_some_and(|it| it.contains(link))
    }

    /// Drops the objects that a request depends on no more. Returns those that no request depends on.
    pub(super) fn retain(
        &mut self,
        request: &Name,
        is_needed: impl Fn(&Link) -> bool,
    ) -> Vec<Link> {
        let links = self.of_request.get(request).into_iter().flatten();
        let dropped: Vec<_> = links.filter(|it| !is_needed(it)).cloned().collect();
        let mut unused = Vec::new();
        for link in dropped {
            let namespace = &link.name.namespace;
            if let Some(count) = self.counts.get_mut(namespace) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.counts.remove(namespace);
                }
            }
            take(&mut self.of_request, request, &*link);
            take(&mut self.of_link, &*link, request);
            if !self.of_link.contains_key(&*link) {
                unused.push(Link::clone(&link));
            }
        }
        unused
    }

    /// The objects that a request depends on.
    pub fn of_request(&self, request: &Name) -> impl Iterator<Item = &Link> {
        let links = self.of_request.get(request).into_iter().flatten();
        links.map(Arc::as_ref)
    }

    /// The requests that depend on an object.
    pub fn of_object(&self, kind: &ObjectKind, name: &Name) -> impl Iterator<Item = &Name> {
        let link = Link {
            kind: kind.clone(),
            name: name.clone(),
        };
        self.of_link.get(&link).into_iter().flatten()
    }

    /// True when a request depends on an object of a kind in a namespace.
    pub(super) fn are_in(&self, kind: &ObjectKind, namespace: &str) -> bool {
        let first = Link {
            kind: kind.clone(),
            name: Name::new(namespace, ""),
        };
        let mut links = self.of_link.range::<Link, _>(first..);
        let next = links.next();
        next.is_some_and(|(it, _)| it.kind == *kind && it.name.namespace == namespace)
    }

    /// The numbers of entries.
    #[cfg(test)]
    pub(super) fn census(&self) -> [usize; 3] {
        [self.of_request.len(), self.of_link.len(), self.counts.len()]
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
        assert!(links.add(&one, [link("a"), link("b")]));
        assert!(links.add(&other, [link("b")]));
        assert_eq!(woken(&links, "a"), ["one"]);
        assert_eq!(woken(&links, "b"), ["one", "other"]);
        assert!(woken(&links, "c").is_empty());
        let mut another_kind = link("a");
        another_kind.kind.kind = "CustomRun".to_owned();
        let requests = links.of_object(&another_kind.kind, &another_kind.name);
        assert_eq!(requests.count(), 0);
    }

    #[test]
    fn links_are_found_by_kind_and_whole_namespace() {
        let mut links = Links::default();
        let request = Name::new("tools", "one");
        let in_namespace = |namespace: &str| {
            let name = Name::new(namespace, "a");
            Link { name, ..link("a") }
        };
        assert!(links.add(&request, ["apps", "apps-2", "z"].map(in_namespace)));
        let kind = link("a").kind;
        let found = ["", "app", "apps", "apps-", "apps-2", "b", "z", "zz"];
        let found: Vec<_> = found
            .into_iter()
            .filter(|it| links.are_in(&kind, it))
            .collect();
        assert_eq!(found, ["apps", "apps-2", "z"]);
        for other in ["CustomRun", "TaskRuns", "A"] {
            let mut kind = kind.clone();
            kind.kind = other.to_owned();
            assert!(!links.are_in(&kind, "apps"), "{other}");
        }
    }

    #[test]
    fn what_is_not_needed_any_more_leaves_nothing() {
        let mut links = Links::default();
        let (one, other) = (Name::new("tools", "one"), Name::new("tools", "other"));
        assert!(links.add(&one, [link("a"), link("b")]));
        assert!(links.add(&other, [link("b")]));
        links.retain(&one, |it| *it == link("b"));
        assert!(woken(&links, "a").is_empty());
        assert_eq!(woken(&links, "b"), ["one", "other"]);
        assert_eq!(links.of_request(&one).count(), 1);
        links.retain(&one, |_| false);
        assert_eq!(woken(&links, "b"), ["other"]);
        links.retain(&other, |_| false);
        links.retain(&other, |_| false);
        assert_eq!(links.census(), [0, 0, 0]);
    }

    #[test]
    fn a_namespace_has_its_share_of_links_and_a_grant_always_has_room() {
        let mut links = Links::default();
        let of = |namespace: &str, number: usize| {
            let name = number.to_string();
            Link {
                name: Name::new(namespace, &name),
                ..link(&name)
            }
        };
        let request = |name: &str| Name::new("tools", name);
        let loud = request("loud");
        assert!(links.add(&loud, (0..MOST_OF_NAMESPACE).map(|it| of("loud", it))));
        assert!(links.add(&loud, [of("loud", 0)]), "it is recorded already");
        let last = of("loud", MOST_OF_NAMESPACE);
        assert!(!links.add(&loud, [last.clone()]));
        assert!(links.add(&request("quiet"), [of("quiet", 0)]));
        links.follow(&request("granted"), &last);
        let woken: Vec<_> = links.of_object(&last.kind, &last.name).collect();
        assert_eq!(woken, [&request("granted")]);
        links.retain(&request("granted"), |_| false);
        links.retain(&loud, |it| *it != of("loud", 0));
        assert!(links.add(&loud, [last]));
        for number in 1..MOST_OF_ALL / MOST_OF_NAMESPACE {
            let namespace = format!("n{number}");
            let all = (0..MOST_OF_NAMESPACE - 1).map(|it| of(&namespace, it));
            assert!(links.add(&request(&namespace), all));
        }
        let rest = MOST_OF_ALL - links.counts.values().sum::<usize>();
        let others = (0..=rest).map(|it| of("another", it));
        assert!(
            !links.add(&request("another"), others),
            "the total is taken"
        );
    }
}
