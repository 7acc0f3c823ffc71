//! What the events of a watch mean for a cache.

use std::collections::HashSet;

use kube::{Resource, runtime::watcher::Event};

use crate::name::Name;

/// What an event means for a cache.
#[derive(Debug)]
pub enum Change<K> {
    /// The object is there, as it is now.
    There(Name, K),
    /// It is gone.
    Gone(Name),
}

/// Where a list of all objects stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Its objects come now, in the order of their names.
    Begins,
    /// It is whole.
    Ends,
}

/// Turns events into changes: what a new list does not name any more is gone.
#[derive(Debug, Default)]
pub struct Changes {
    known: HashSet<Name>,
    listed: Option<HashSet<Name>>,
}

impl Changes {
    /// The changes of one event, and whether a list begins or ends with it.
    pub fn of<K: Resource>(&mut self, event: Event<K>) -> (Vec<Change<K>>, Option<Listing>) {
        match event {
            Event::Init => {
                self.listed = Some(HashSet::new());
                (Vec::new(), Some(Listing::Begins))
            }
            Event::InitApply(object) => {
                let name = Name::of(&object);
                self.known.insert(name.clone());
                if let Some(listed) = &mut self.listed {
                    listed.insert(name.clone());
                }
                (vec![Change::There(name, object)], None)
            }
            Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let gone = self.known.difference(&listed).cloned();
                let gone = gone.map(Change::Gone).collect();
                self.known = listed;
                (gone, Some(Listing::Ends))
            }
            Event::Apply(object) => {
                let name = Name::of(&object);
                self.known.insert(name.clone());
                (vec![Change::There(name, object)], None)
            }
            Event::Delete(object) => {
                let name = Name::of(&object);
                self.known.remove(&name);
                (vec![Change::Gone(name)], None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn pod(name: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod
    }

    fn told(changes: &mut Changes, event: Event<Pod>) -> (Vec<String>, Option<Listing>) {
        let (list, listing) = changes.of(event);
        let line = |change: Change<Pod>| match change {
            Change::There(name, _) => format!("there {}", name.name),
            Change::Gone(name) => format!("gone {}", name.name),
        };
        (list.into_iter().map(line).collect(), listing)
    }

    #[test]
    fn what_a_new_list_does_not_name_is_gone() {
        let mut changes = Changes::default();
        let begins = (vec![], Some(Listing::Begins));
        let ends = Some(Listing::Ends);
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
}
