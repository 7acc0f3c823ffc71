//! Three days in which everything comes and goes, one change every ten seconds: no map grows with what is gone.

use authz::Chain;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use super::*;
use crate::{
    fixtures::{POD_FORM, policy, request, role, role_binding},
    world::World,
};

const CHANGES: usize = 3 * 24 * 60 * 6;
/// Things of one kind that are there at the same time, at most.
const THINGS: usize = 40;
const KINDS: usize = 8;
/// So often everything of a kind is listed anew, without what went meanwhile.
const LISTED: usize = 500;

/// How many entries each map has. A new field does not compile uncounted.
fn census(world: &World) -> [usize; 7] {
    let World {
        // The order stays as it was made at the start.
        chain: Chain { rbac, links: _ },
        requests,
        catalog,
        // One value each.
        config: _,
        namespace_keys: _,
        freshness: _,
        question_keys: _,
    } = world;
    let [by_name, by_tuple] = requests.census();
    let [policies, bytes, connectors, namespaces] = catalog.census();
    let rbac = usize::from(!rbac.is_empty());
    [
        rbac, by_name, by_tuple, policies, bytes, connectors, namespaces,
    ]
}

/// The watches of all kinds.
struct Watches {
    shared: Shared,
    metrics: Metrics,
    dice: StdRng,
}

impl Watches {
    fn tell<K: Source, P: Parse<K>>(&self, event: Event<Guarded<K, P>>) {
        take(&self.shared, &self.metrics, event, &mut None);
    }

    /// A list of some objects, or of none.
    fn list<K: Source, P: Parse<K>>(&self, objects: &[Value]) {
        let mut listed = None;
        let guarded = |it: &Value| serde_json::from_value::<Guarded<K, P>>(it.clone()).unwrap();
        let events = [Event::Init].into_iter();
        let events = events.chain(objects.iter().map(guarded).map(Event::InitApply));
        for event in events.chain([Event::InitDone]) {
            take(&self.shared, &self.metrics, event, &mut listed);
        }
    }

    fn change<K: Source, P: Parse<K>>(&self, object: &Value, is_there: bool) {
        let object: Guarded<K, P> = serde_json::from_value(object.clone()).unwrap();
        self.tell(if is_there {
            Event::Apply(object)
        } else {
            Event::Delete(object)
        });
    }

    /// Something comes, changes, becomes unreadable or goes; now and then a kind is listed anew.
    fn happens(&mut self, kind: usize, thing: usize, is_there: bool) {
        let mut object = object(kind, thing);
        if is_there && self.dice.random_range(0..20) == 0 {
            object["spec"] = "nothing that can be read".into();
        }
        match kind {
            0 => self.change::<Role, Rbac>(&object, is_there),
            1 => self.change::<RoleBinding, Rbac>(&object, is_there),
            2 => self.change::<ClusterRole, Rbac>(&object, is_there),
            3 => self.change::<ClusterRoleBinding, Rbac>(&object, is_there),
            4 => self.change::<AccessRequest, Strict>(&object, is_there),
            5 => self.change::<AccessPolicy, Strict>(&object, is_there),
            6 => self.change::<connector::Selectable, Labelled>(&object, is_there),
            _ => self.change::<PartialObjectMeta<Namespace>, Labelled>(&object, is_there),
        }
    }

    fn lists(&self, kind: usize, objects: &[Value]) {
        match kind {
            0 => self.list::<Role, Rbac>(objects),
            1 => self.list::<RoleBinding, Rbac>(objects),
            2 => self.list::<ClusterRole, Rbac>(objects),
            3 => self.list::<ClusterRoleBinding, Rbac>(objects),
            4 => self.list::<AccessRequest, Strict>(objects),
            5 => self.list::<AccessPolicy, Strict>(objects),
            6 => self.list::<connector::Selectable, Labelled>(objects),
            _ => self.list::<PartialObjectMeta<Namespace>, Labelled>(objects),
        }
    }
}

/// A thing of a kind. Names are taken again and again, and many things are about the same pod.
fn object(kind: usize, thing: usize) -> Value {
    let name = format!("x{thing}");
    let mut object = match kind {
        0 | 2 => json!(role(&name, POD_FORM)),
        1 | 3 => json!(role_binding(&name)),
        4 => json!(request(&name, ["Pending", "Granted", "Revoked"][thing % 3])),
        5 => json!(policy(&name)),
        _ => json!({"metadata": {"name": name, "labels": {"team": format!("t{}", thing % 7)}}}),
    };
    if [2, 3, 7].contains(&kind) {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
    } else {
        object["metadata"]["namespace"] = format!("n{}", thing % 4).into();
    }
    object
}

#[test]
fn every_map_is_as_it_was_after_three_days_of_churn() {
    let mut watches = Watches {
        shared: Shared::default(),
        metrics: Metrics::register(&prometheus::Registry::new()).unwrap(),
        dice: StdRng::seed_from_u64(7),
    };
    let before = census(&watches.shared.read());
    let mut most = 0;
    for number in 0..CHANGES {
        let (kind, thing) = (number % KINDS, watches.dice.random_range(0..THINGS));
        let is_there = watches.dice.random_range(0..2) == 0;
        watches.happens(kind, thing, is_there);
        if number.is_multiple_of(LISTED) {
            let kind = watches.dice.random_range(0..KINDS);
            let some: Vec<_> = (0..thing).map(|thing| object(kind, thing)).collect();
            watches.lists(kind, &some);
        }
        most = most.max(census(&watches.shared.read()).iter().sum());
    }
    assert!(most > THINGS, "nothing was there");
    assert!(most <= KINDS * THINGS, "{most} entries at a time");
    // Events delete everything; then everything is created again, and empty lists delete it.
    for kind in 0..KINDS {
        (0..THINGS).for_each(|thing| watches.happens(kind, thing, false));
    }
    assert_eq!(census(&watches.shared.read()), before);
    for kind in 0..KINDS {
        (0..THINGS).for_each(|thing| watches.happens(kind, thing, true));
        watches.lists(kind, &[]);
    }
    assert_eq!(census(&watches.shared.read()), before);
}
