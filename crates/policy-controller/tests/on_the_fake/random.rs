//! The worlds of two tenants under similar names, changed in random order by their owners, by other users and
//! by restarts. Deleted objects may be kept. The oracle judges every instant.

use std::time::Duration;

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};
use testkit::Lag;

use crate::{
    stage::{KEEPER, Stage, connector, delete_and_keep, policy},
    support::{Cluster, SYSTEMS, TOOLS, reading},
};

/// The first tenant's name is a prefix of the second one's.
const TENANTS: [&str; 2] = [TOOLS, "tools-2"];
const PLACES: [&str; 3] = ["apps", "apps-2", TOOLS];
const CONNECTORS: [&str; 3] = ["harbor", "harbor-2", "arbor"];
const ACCOUNTS: [&str; 2] = ["builder", "builder-2"];
const POLICIES: [&str; 2] = ["p", "p-2"];

/// A new leader has taken over after it, and has looked at everything.
const TAKEOVER: Duration = Duration::from_secs(40);

/// Plural, namespace and name.
type Key = (&'static str, &'static str, &'static str);

#[derive(Clone, Debug)]
enum Change {
    /// It exists with that content, whether or not it existed before.
    Put(Key, Value),
    /// It is deleted; perhaps a finalizer keeps it.
    Delete(Key, bool),
    /// Nothing keeps anything any more.
    LetGo,
    Restart,
    /// A foreign change of one of the managed objects.
    Hands(&'static str, usize, Hand),
}

#[derive(Clone, Copy, Debug)]
enum Hand {
    Deletes,
    Empties,
    Widens,
    Keeps,
}

fn labelled(key: &'static str, values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    select(values).prop_map(move |value| match value {
        "" => json!({}),
        value => json!({key: value}),
    })
}

fn subjects() -> impl Strategy<Value = Value> {
    let role = json!({"matchLabels": {"role": "ci"}});
    let team = json!({"matchLabels": {"team": "x"}});
    let others = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["apps", "apps-2"]},
        {"key": "team", "operator": "NotIn", "values": ["x"]},
    ]});
    let all = vec![
        json!({"kind": "User", "name": "ann"}),
        json!({"kind": "User", "name": "anna"}),
        json!({"kind": "Group", "name": "dev"}),
        json!({"kind": "ServiceAccount", "name": "builder"}),
        json!({"kind": "ServiceAccount", "name": "builder", "namespace": "apps"}),
        json!({"kind": "ServiceAccount", "name": "system:serviceaccount:apps-2:builder"}),
        json!({"kind": "ServiceAccount", "nameSelector": role}),
        json!({"kind": "ServiceAccount", "nameSelector": role, "namespaceSelector": team}),
        json!({"kind": "ServiceAccount", "nameSelector": role, "namespaceSelector": others}),
        json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": team}),
    ];
    vec(select(all), 1..4).prop_map(Value::from)
}

fn specs() -> impl Strategy<Value = Value> {
    let oci = json!({"matchLabels": {"class": "oci"}});
    let connectors = vec![
        json!({}),
        json!({"names": ["harbor"]}),
        json!({"names": ["harbor", "arbor"], "selector": oci}),
        json!({"selector": oci}),
        json!({"selector": {"matchExpressions": [{"key": "class", "operator": "DoesNotExist"}]}}),
        json!({"selector": {"matchLabels": {"connectors.alauda.io/connectorclass": "harbor"}}}),
        // Misspelt.
        json!({"name": ["harbor"]}),
    ];
    (
        select(connectors),
        subjects(),
        select(vec!["read", "write"]),
    )
        .prop_map(|(connector, subjects, verb)| {
            let mut spec = reading(connector, subjects);
            spec["defaultPermission"]["roleTemplate"]["rules"][0]["verbs"] = json!([verb]);
            spec
        })
}

fn keys() -> impl Strategy<Value = Key> {
    let of = |plural, places: Vec<&'static str>, names: Vec<&'static str>| {
        (select(places), select(names)).prop_map(move |(place, name)| (plural, place, name))
    };
    prop_oneof![
        3 => of("connectors", TENANTS.to_vec(), CONNECTORS.to_vec()),
        1 => of("namespaces", vec![""], vec!["apps", "apps-2"]),
        3 => of("serviceaccounts", PLACES.to_vec(), ACCOUNTS.to_vec()),
        4 => of("accesspolicies", TENANTS.to_vec(), POLICIES.to_vec()),
    ]
}

fn puts() -> impl Strategy<Value = Change> {
    keys().prop_flat_map(|key| {
        let content = match key.0 {
            "connectors" => labelled("class", &["oci", "OCI", ""]).boxed(),
            "namespaces" => labelled("team", &["x", "X", ""]).boxed(),
            "serviceaccounts" => labelled("role", &["ci", "CI", ""]).boxed(),
            _ => specs().boxed(),
        };
        content.prop_map(move |content| Change::Put(key, content))
    })
}

fn changes() -> impl Strategy<Value = Change> {
    let hand = select(vec![
        Hand::Deletes,
        Hand::Empties,
        Hand::Widens,
        Hand::Keeps,
    ]);
    prop_oneof![
        12 => puts(),
        4 => (keys(), any::<bool>()).prop_map(|(key, is_kept)| Change::Delete(key, is_kept)),
        1 => Just(Change::LetGo),
        1 => Just(Change::Restart),
        2 => (select(vec!["roles", "rolebindings"]), any::<usize>(), hand)
            .prop_map(|(plural, which, hand)| Change::Hands(plural, which, hand)),
    ]
}

struct World {
    stage: Stage,
    leader: String,
    started: usize,
}

impl World {
    fn new(has_second: bool) -> Self {
        let mut stage = Stage::new();
        stage.cluster.server.delete("connectors", TOOLS, "harbor");
        stage.cluster.namespace(TENANTS[1], json!({}));
        for name in ["apps", "apps-2"] {
            stage.cluster.namespace(name, json!({}));
        }
        let leader = "process-0".to_owned();
        stage.start(&leader);
        if has_second {
            // It leads in an installation of its own, and hears of everything late.
            stage.start_in(SYSTEMS[1], "second");
            let lag = Lag {
                versions: 20,
                at_most: Duration::from_secs(15),
            };
            stage.cluster.server.set_watch_lag("second", Some(lag));
        }
        Self {
            stage,
            leader,
            started: 0,
        }
    }

    fn change(&mut self, change: &Change) {
        let cluster = &self.stage.cluster;
        match change {
            Change::Put(key, content) => put(cluster, *key, content),
            Change::Delete((plural, place, name), is_kept) => {
                let server = &cluster.server;
                if !server
                    .get(plural, place, name)
                    .is_some_and(|it| is_free(&it))
                {
                    return;
                }
                // The content of a namespace keeps it, and nothing removes the content here.
                if *is_kept || *plural == "namespaces" {
                    delete_and_keep(server, plural, place, name);
                } else {
                    server.delete(plural, place, name);
                }
            }
            Change::LetGo => let_all_go(cluster),
            Change::Restart => {
                self.stage.kill(&self.leader);
                self.started += 1;
                self.leader = format!("process-{}", self.started);
                self.stage.start(&self.leader);
            }
            Change::Hands(plural, which, hand) => hands(cluster, plural, *which, *hand),
        }
    }
}

fn is_free(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_null()
}

fn put(cluster: &Cluster, (plural, place, name): Key, content: &Value) {
    let server = &cluster.server;
    let there = server.get(plural, place, name);
    if there.as_ref().is_some_and(|it| !is_free(it)) {
        return;
    }
    let of_place = server.get("namespaces", "", place);
    if !place.is_empty() && !of_place.is_some_and(|it| is_free(&it)) {
        return;
    }
    match (plural, there) {
        ("accesspolicies", Some(_)) => {
            server.change(plural, place, name, |it| it["spec"] = content.clone());
        }
        ("accesspolicies", None) => {
            policy(cluster, place, name, json!({}), json!([]));
            server.change(plural, place, name, |it| it["spec"] = content.clone());
        }
        (_, Some(_)) => server.change(plural, place, name, |it| {
            let mut labels = content.clone();
            if plural == "namespaces" {
                labels["kubernetes.io/metadata.name"] = json!(name);
            }
            it["metadata"]["labels"] = labels;
        }),
        ("connectors", None) => connector(cluster, place, name, content.clone()),
        ("namespaces", None) => cluster.namespace(name, content.clone()),
        (_, None) => cluster.account(place, name, content.clone()),
    }
}

fn let_all_go(cluster: &Cluster) {
    let kinds = [
        "connectors",
        "serviceaccounts",
        "accesspolicies",
        "roles",
        "rolebindings",
    ];
    for plural in kinds {
        for object in cluster.server.list(plural) {
            if object["metadata"]["finalizers"][0] == KEEPER {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                crate::stage::let_go(&cluster.server, plural, text("namespace"), text("name"));
            }
        }
    }
}

fn hands(cluster: &Cluster, plural: &str, which: usize, hand: Hand) {
    let server = &cluster.server;
    let mut all = server.list(plural);
    all.retain(|it| {
        it["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "connectors-approval"
            && is_free(it)
    });
    let Some(object) = which.checked_rem(all.len()).map(|at| &all[at]) else {
        return;
    };
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let (place, name) = (text("namespace"), text("name"));
    let rbac = "rbac.authorization.k8s.io";
    let mallory = json!([{"kind": "User", "name": "mallory", "apiGroup": rbac}]);
    match (hand, plural) {
        (Hand::Deletes, _) => server.delete(plural, place, name),
        (Hand::Keeps, _) => server.change(plural, place, name, |it| {
            it["metadata"]["finalizers"] = json!([KEEPER]);
        }),
        (Hand::Empties, "roles") => {
            server.change(plural, place, name, |it| it["rules"] = json!([]));
        }
        (Hand::Empties, _) => server.change(plural, place, name, |it| it["subjects"] = json!([])),
        // A Role without names is about every connector.
        (Hand::Widens, "roles") => server.change(plural, place, name, |it| {
            for rule in it["rules"].as_array_mut().into_iter().flatten() {
                rule["resourceNames"] = json!([]);
            }
        }),
        (Hand::Widens, _) => server.change(plural, place, name, |it| it["subjects"] = mallory),
    }
}

fn live(changes: &[(Change, bool)], has_second: bool) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut world = World::new(has_second);
        world.stage.settle().await;
        for (change, is_looked_at) in changes {
            world.change(change);
            // Others follow before anything could happen, or in the middle of it.
            if *is_looked_at {
                world.stage.settle().await;
            } else {
                world.stage.pass(Duration::from_millis(30)).await;
            }
            let complaints = world.stage.judge().complaints();
            prop_assert!(complaints.is_empty(), "after {change:?}: {complaints:#?}");
        }
        world.stage.settle().await;
        // While its Role is missing a kept binding cannot be emptied. The controller tries that again from
        // time to time.
        let_all_go(&world.stage.cluster);
        world.stage.settle().await;
        // Nothing may be due without a leader, and a new leader removes objects that give nothing.
        world.stage.pass(TAKEOVER).await;
        world
            .stage
            .proves_right(Duration::from_mins(1), "at the end")
            .await;
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn two_tenants_hold_at_every_instant_what_their_policies_say(
        changes in vec((changes(), any::<bool>()), 4..24),
        has_second in any::<bool>(),
    ) {
        live(&changes, has_second)?;
    }
}
