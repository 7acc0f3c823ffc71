//! The meaning of the events of a watch for a cache.

use std::collections::HashSet;

use kube::{Resource, runtime::watcher::Event};

use crate::{name::Name, spare_room::SpareRoom as _};

/// The meaning of an event for a cache.
#[derive(Debug)]
pub enum Change<K> {
    /// The object exists, in this version.
    There(Name, K),
    /// It is gone.
    Gone(Name),
}

/// Where a list of all objects stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListState {
    /// Its objects come now, in the order of their names.
    Begins,
    /// It is whole.
    Ends,
}

/// Turns events into changes: an object that a new list does not contain is gone.
#[derive(Debug, Default)]
pub struct Changes {
    known: Names,
    /// The names in a list that is not complete. They are in no other place meanwhile.
    listed: Option<Names>,
}

impl Changes {
    /// The changes of one event, and whether a list begins or ends with it.
    pub fn of<K: Resource>(&mut self, event: Event<K>) -> (Vec<Change<K>>, Option<ListState>) {
        match event {
            Event::Init => {
                // An earlier list that broke off named objects that exist.
                let listed = self.listed.replace(Names::default());
                self.known.0.extend(listed.unwrap_or_default().0);
                (Vec::new(), Some(ListState::Begins))
            }
            Event::InitApply(object) => {
                let name = Name::of(&object);
                let name = if let Some(listed) = &mut self.listed {
                    listed.insert(self.known.remove(name))
                } else {
                    self.known.insert(name)
                };
                (vec![Change::There(name, object)], None)
            }
            Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let gone = std::mem::replace(&mut self.known, listed);
                let gone = gone.0.into_iter().map(Change::Gone).collect();
                (gone, Some(ListState::Ends))
            }
            Event::Apply(object) => {
                let name = self.known.insert(Name::of(&object));
                (vec![Change::There(name, object)], None)
            }
            Event::Delete(object) => {
                let name = self.known.remove(Name::of(&object));
                (vec![Change::Gone(name)], None)
            }
        }
    }
}

/// Names of objects. A cache that keeps an object has its name from here, so that both share one text. A name that no cache
/// keeps takes some 140 bytes.
#[derive(Debug, Default)]
struct Names(HashSet<Name>);

impl Names {
    /// Adds a name. Returns the copy that is shared.
    fn insert(&mut self, name: Name) -> Name {
        if let Some(known) = self.0.get(&name) {
            return known.clone();
        }
        self.0.insert(name.clone());
        name
    }

    /// Takes a name out. Returns the copy that is shared.
    fn remove(&mut self, name: Name) -> Name {
        let known = self.0.take(&name);
        self.0.give_back_room();
        known.unwrap_or(name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::api::core::v1::Pod;
    use proptest::{collection::vec, prelude::*, sample::subsequence};

    use super::*;
    use crate::name::NameParts;

    fn pod(name: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod
    }

    fn told(changes: &mut Changes, event: Event<Pod>) -> (Vec<String>, Option<ListState>) {
        let (list, listing) = changes.of(event);
        let line = |change: Change<Pod>| match change {
            Change::There(name, _) => format!("there {}", name.name),
            Change::Gone(name) => format!("gone {}", name.name),
        };
        (list.into_iter().map(line).collect(), listing)
    }

    /// The name in the only change of an event.
    fn name_in(changes: &mut Changes, event: Event<Pod>) -> Name {
        let (mut list, _) = changes.of(event);
        match list.pop() {
            Some(Change::There(name, _) | Change::Gone(name)) if list.is_empty() => name,
            _ => panic!("no change, or several"),
        }
    }

    #[test]
    fn a_watch_and_its_changes_share_the_names() {
        let mut changes = Changes::default();
        let first = name_in(&mut changes, Event::Apply(pod("a")));
        let place = |name: &Name| std::ptr::from_ref::<NameParts>(name);
        let is_first = |name: &Name| place(name) == place(&first);
        assert!(is_first(&name_in(&mut changes, Event::Apply(pod("a")))));
        // A list that breaks off, and a whole one.
        for _ in 0..2 {
            changes.of(Event::<Pod>::Init);
            assert!(is_first(&name_in(&mut changes, Event::InitApply(pod("a")))));
        }
        changes.of(Event::<Pod>::InitDone);
        assert!(is_first(&name_in(&mut changes, Event::Apply(pod("a")))));
        assert!(is_first(&name_in(&mut changes, Event::Delete(pod("a")))));
        assert!(changes.known.0.is_empty());
        let again = name_in(&mut changes, Event::Apply(pod("a")));
        assert!(!is_first(&again));
        // A list without it.
        changes.of(Event::<Pod>::Init);
        let gone = name_in(&mut changes, Event::InitDone);
        assert_eq!(place(&gone), place(&again));
    }

    #[test]
    fn what_a_new_list_does_not_name_is_gone() {
        let mut changes = Changes::default();
        let begins = (vec![], Some(ListState::Begins));
        let ends = Some(ListState::Ends);
        assert_eq!(told(&mut changes, Event::Init), begins);
        let there = |name: &str| (vec![format!("there {name}")], None);
        assert_eq!(told(&mut changes, Event::InitApply(pod("a"))), there("a"));
        assert_eq!(told(&mut changes, Event::InitDone), (vec![], ends));
        assert_eq!(told(&mut changes, Event::Apply(pod("b"))), there("b"));

        assert_eq!(told(&mut changes, Event::Init), begins);
        assert_eq!(told(&mut changes, Event::InitApply(pod("b"))), there("b"));
        // Not before the list is complete.
        let gone = (vec!["gone a".to_owned()], ends);
        assert_eq!(told(&mut changes, Event::InitDone), gone);
        let gone = (vec!["gone b".to_owned()], None);
        assert_eq!(told(&mut changes, Event::Delete(pod("b"))), gone);
        assert_eq!(told(&mut changes, Event::Init), begins);
        assert_eq!(told(&mut changes, Event::InitDone), (vec![], ends));
    }

    /// Names that begin with other names, in two namespaces of which one begins with the other.
    const NAMES: [(&str, &str); 6] = [
        ("team", "p"),
        ("team", "p-2"),
        ("team", "P"),
        ("team-2", "p"),
        ("team-2", "p-2"),
        ("", "p"),
    ];

    fn named((namespace, name): (&str, &str)) -> Pod {
        let mut pod = pod(name);
        pod.metadata.namespace = Some(namespace.to_owned()).filter(|it| !it.is_empty());
        pod
    }

    /// A list, which may break off, and the changes after it.
    #[derive(Clone, Debug)]
    struct Watched {
        list: Vec<(&'static str, &'static str)>,
        is_whole: bool,
        later: Vec<(usize, bool)>,
    }

    fn watched() -> impl Strategy<Value = Watched> {
        let list = subsequence(NAMES.to_vec(), 0..=NAMES.len());
        let later = vec((0..NAMES.len(), any::<bool>()), 0..5);
        (list, any::<bool>(), later).prop_map(|(list, is_whole, later)| Watched {
            list,
            is_whole,
            // A watch follows a whole list only.
            later: if is_whole { later } else { Vec::new() },
        })
    }

    proptest! {
        #[test]
        fn a_cache_holds_what_the_last_whole_list_and_the_changes_after_it_name(watches in vec(watched(), 1..8)) {
            let mut changes = Changes::default();
            let mut cache = BTreeSet::new();
            let mut truth = BTreeSet::new();
            let mut take = |event: Event<Pod>, cache: &mut BTreeSet<Name>| {
                for change in changes.of(event).0 {
                    match change {
                        Change::There(name, _) => cache.insert(name),
                        Change::Gone(name) => cache.remove(&name),
                    };
                }
            };
            for Watched { list, is_whole, later } in watches {
                let before = cache.clone();
                take(Event::Init, &mut cache);
                for name in &list {
                    take(Event::InitApply(named(*name)), &mut cache);
                }
                // Nothing is gone before the list is whole.
                prop_assert!(cache.is_superset(&before));
                if is_whole {
                    truth = list.iter().map(|it| Name::of(&named(*it))).collect();
                    take(Event::InitDone, &mut cache);
                    prop_assert_eq!(&cache, &truth);
                }
                for (place, is_there) in later {
                    let pod = named(NAMES[place]);
                    if is_there {
                        truth.insert(Name::of(&pod));
                        take(Event::Apply(pod), &mut cache);
                    } else {
                        truth.remove(&Name::of(&pod));
                        take(Event::Delete(pod), &mut cache);
                    }
                    prop_assert_eq!(&cache, &truth);
                }
            }
        }
    }
}
