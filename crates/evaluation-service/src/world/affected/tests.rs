mod histories;

use evaluation_api::access::AccessQuestion;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde_json::{Value, json};

use super::*;
use crate::access_decision;
use crate::clock;
use crate::fixtures::{POD_FORM, question, request, role, role_binding};
use crate::questions::tests::questions_of;
use crate::world::Shared;
use crate::world::sources::Source;

/// The subresource of the pod of [`question`].
const OF_POD: &str = "apis/v1/pod/devops/deploy";
const BUILDER: &str = "system:serviceaccount:devops:builder";

fn key(world: &World, user: &str, connector: &str, subresource: &str) -> u64 {
    world.question_keys.of_given(GivenTarget {
        namespace: "tools",
        user,
        connector,
        subresource,
    })
}

/// The changes are these keys.
fn are_keys(changes: &[WorldChange], keys: &[u64]) -> bool {
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    matches!(changes, [WorldChange::Keys(all)] if **all == *keys)
}

fn in_namespace() -> Vec<WorldChange> {
    vec![WorldChange::Namespace("tools".to_owned())]
}

/// A role of the rules, and a binding to it.
fn world_with(role: Role, binding: RoleBinding) -> World {
    let mut world = World::default();
    Role::apply(&mut world, role);
    RoleBinding::apply(&mut world, binding);
    world
}

fn edited<T: serde::Serialize + serde::de::DeserializeOwned>(
    object: &T,
    edit: impl FnOnce(&mut Value),
) -> T {
    let mut value = serde_json::to_value(object).unwrap();
    edit(&mut value);
    serde_json::from_value(value).unwrap()
}

#[test]
fn only_resources_of_connectors_count() {
    use CoveredConnectors::{All, Nothing, Subresource};
    for (resource, covered) in [
        ("*", All),
        ("connectors/apis", Subresource("apis")),
        (POD_FORM, Subresource(OF_POD)),
        ("*/apis", Subresource("apis")),
        ("*/*", Subresource("*")),
        ("connectors/*", Subresource("*")),
        ("connectors", Nothing),
        ("connectorsapis", Nothing),
        ("pods", Nothing),
        ("pods/connectors/apis", Nothing),
        ("", Nothing),
    ] {
        assert_eq!(CoveredConnectors::by(resource), covered, "{resource}");
    }
}

#[test]
fn a_grant_affects_its_questions_whichever_half_comes_first() {
    let mut world = World::default();
    let wanted = [key(&world, BUILDER, "harbor", OF_POD)];
    let (role, binding) = (role("g", POD_FORM), role_binding("g"));
    assert_eq!(Role::apply(&mut world, role.clone()), []);
    let changes = RoleBinding::apply(&mut world, binding.clone());
    assert!(are_keys(&changes, &wanted), "{changes:?}");
    let changes = Role::delete(&mut world, role.metadata.clone());
    assert!(are_keys(&changes, &wanted), "{changes:?}");
    // The binding gives nothing without its role.
    assert_eq!(
        RoleBinding::delete(&mut world, binding.metadata.clone()),
        []
    );
    assert_eq!(RoleBinding::apply(&mut world, binding.clone()), []);
    let changes = Role::apply(&mut world, role);
    assert!(are_keys(&changes, &wanted), "{changes:?}");
    let changes = RoleBinding::delete(&mut world, binding.metadata);
    assert!(are_keys(&changes, &wanted), "{changes:?}");
}

/// Also one that is ours and has a deletion timestamp, which counts as deleted.
#[test]
fn the_state_before_a_change_counts_as_well_as_the_one_after_it() {
    let mut world = world_with(role("g", POD_FORM), role_binding("g"));
    let before = key(&world, BUILDER, "harbor", OF_POD);
    let standing = key(&world, BUILDER, "harbor", "apis");
    let changes = Role::apply(&mut world, role("g", "connectors/apis"));
    assert!(are_keys(&changes, &[before, standing]), "{changes:?}");
    let other = edited(&role_binding("g"), |it| {
        it["subjects"] = json!([{"kind": "User", "name": "ada"}]);
    });
    let ada = key(&world, "ada", "harbor", "apis");
    let changes = RoleBinding::apply(&mut world, other);
    assert!(are_keys(&changes, &[standing, ada]), "{changes:?}");
    let going = edited(&role_binding("g"), |it| {
        it["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    });
    let changes = RoleBinding::apply(&mut world, going);
    assert!(are_keys(&changes, &[ada]), "{changes:?}");
}

#[test]
fn labels_alone_change_neither_more_nor_less() {
    let mut world = world_with(role("g", POD_FORM), role_binding("g"));
    let wanted = [key(&world, BUILDER, "harbor", OF_POD)];
    let labelled = edited(&role_binding("g"), |it| {
        it["metadata"]["labels"] = json!({"connectors.alauda.io/accessRequestUid": "another"});
    });
    let changes = RoleBinding::apply(&mut world, labelled);
    assert!(are_keys(&changes, &wanted), "{changes:?}");
}

#[test]
fn what_is_no_plain_name_affects_the_namespace() {
    let subjects = |subjects: Value| edited(&role_binding("g"), |it| it["subjects"] = subjects);
    let group = |name: &str| subjects(json!([{"kind": "Group", "name": name}]));
    let rule =
        |edit: &dyn Fn(&mut Value)| edited(&role("g", POD_FORM), |it| edit(&mut it["rules"][0]));
    let accounts = |count: usize| {
        let accounts = (0..count).map(
            |at| json!({"kind": "ServiceAccount", "namespace": "devops", "name": format!("s{at}")}),
        );
        subjects(accounts.collect())
    };
    let (plain, bound) = (role("g", POD_FORM), role_binding("g"));
    for (what, role, binding, is_wide) in [
        ("names", plain.clone(), bound.clone(), false),
        ("any group", plain.clone(), group("developers"), true),
        (
            "all accounts",
            plain.clone(),
            group("system:serviceaccounts"),
            true,
        ),
        ("accounts", plain.clone(), accounts(MOST_KEYS / 2), false),
        ("many accounts", plain, accounts(MOST_KEYS + 1), true),
        (
            "any name",
            rule(&|it| it["resourceNames"] = json!([])),
            bound.clone(),
            true,
        ),
        (
            "any resource",
            rule(&|it| it["resources"] = json!(["*"])),
            bound.clone(),
            true,
        ),
        (
            "many pairs",
            rule(&|it| it["resourceNames"] = (0..65).map(|at| format!("c{at}")).collect()),
            bound.clone(),
            true,
        ),
    ] {
        let mut world = World::default();
        Role::apply(&mut world, role.clone());
        let changes = RoleBinding::apply(&mut world, binding.clone());
        assert_eq!(changes == in_namespace(), is_wide, "{what}: {changes:?}");
        let changes = Role::apply(&mut world, role);
        assert_eq!(changes == in_namespace(), is_wide, "{what}: {changes:?}");
        let changes = RoleBinding::delete(&mut world, binding.metadata);
        assert_eq!(changes == in_namespace(), is_wide, "{what}: {changes:?}");
    }
}

/// A look at one binding is the least that each costs, however few subjects it has.
#[test]
fn a_role_with_many_bindings_affects_the_namespace() {
    for (bindings, is_wide) in [(MOST_LOOKS, false), (MOST_LOOKS + 1, true)] {
        let mut world = World::default();
        for number in 0..bindings {
            let binding = edited(&role_binding("g"), |it| {
                it["metadata"]["name"] = format!("g-{number}").into();
                it["subjects"] = json!([]);
            });
            RoleBinding::apply(&mut world, binding);
        }
        let changes = Role::apply(&mut world, role("g", POD_FORM));
        let told = if is_wide { in_namespace() } else { Vec::new() };
        assert_eq!(changes, told, "{bindings}");
    }
}

/// Before and after the change together, so that no stream looks up more of them.
#[test]
fn a_change_of_many_questions_affects_the_namespace() {
    let keys = |changes: &[WorldChange]| match changes {
        [WorldChange::Keys(keys)] => Some(keys.len()),
        _ => None,
    };
    let (half, all) = (MOST_KEYS / 2, MOST_KEYS);
    for (accounts, first, again) in [
        (half, Some(half), Some(half)),
        (half + 1, Some(half + 1), None),
        (all, Some(all), None),
        (all + 1, None, None),
    ] {
        let mut world = World::default();
        Role::apply(&mut world, role("g", POD_FORM));
        let binding = edited(&role_binding("g"), |it| {
            let users = (0..accounts).map(|at| json!({"kind": "User", "name": at.to_string()}));
            it["subjects"] = users.collect();
        });
        for (time, wanted) in [("first", first), ("again", again)] {
            let changes = RoleBinding::apply(&mut world, binding.clone());
            assert_eq!(keys(&changes), wanted, "{accounts} {time}");
            let is_wide = changes == in_namespace();
            assert_eq!(is_wide, wanted.is_none(), "{accounts} {time}");
        }
    }
}

/// Also when no rule is about connectors: each is looked at.
#[test]
fn a_role_with_many_rules_affects_the_namespace() {
    for (rules, is_wide) in [(MOST_RULES, false), (MOST_RULES + 1, true)] {
        let long = edited(&role("g", "pods"), |it| {
            it["rules"][0]["apiGroups"] = json!(["other"]);
            it["rules"] = vec![it["rules"][0].clone(); rules].into();
        });
        let mut world = World::default();
        Role::apply(&mut world, long);
        let changes = RoleBinding::apply(&mut world, role_binding("g"));
        let told = if is_wide { in_namespace() } else { Vec::new() };
        assert_eq!(changes, told, "{rules}");
    }
}

/// A list follows a gap of the watch. It may show a change that no event told.
#[test]
fn an_object_that_a_list_shows_affects_its_questions_at_once() {
    let shared = Shared::default();
    shared.change(|world| RoleBinding::apply(world, role_binding("g")));
    let stream = shared.changes();
    stream.marks().mark(&question());
    let wanted = [key(&shared.read(), BUILDER, "harbor", OF_POD)];
    let mut listing = Role::begin(&shared.read());
    role("g", POD_FORM).list(&shared, &mut listing);
    let told = stream.try_recv();
    assert!(are_keys(&told, &wanted), "{told:?}");
}

/// Whatever they are.
#[test]
fn a_role_with_many_targets_affects_the_namespace() {
    for (targets, is_wide) in [(MOST_TARGETS, false), (MOST_TARGETS + 1, true)] {
        let long = edited(&role("g", "pods"), |it| {
            it["rules"][0]["resources"] = vec!["pods"; targets].into();
        });
        let mut world = World::default();
        Role::apply(&mut world, long);
        let changes = RoleBinding::apply(&mut world, role_binding("g"));
        let told = if is_wide { in_namespace() } else { Vec::new() };
        assert_eq!(changes, told);
    }
}

#[test]
fn roles_about_other_things_affect_nothing() {
    for (group, resource) in [
        ("connectors.alauda.io", "accesspolicies"),
        ("", "*"),
        ("apps", "connectors/apis"),
    ] {
        let other = edited(&role("g", resource), |it| {
            it["rules"][0]["apiGroups"] = json!([group]);
        });
        let mut world = World::default();
        Role::apply(&mut world, other);
        assert_eq!(RoleBinding::apply(&mut world, role_binding("g")), []);
    }
}

#[test]
fn a_role_of_the_cluster_affects_everything_unless_it_is_about_other_things() {
    let bound = edited(&role_binding("g"), |it| {
        it["roleRef"]["kind"] = "ClusterRole".into();
    });
    let everywhere: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "g"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "g"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "devops", "name": "builder"}],
    }))
    .unwrap();
    for (resource, counts) in [(POD_FORM, true), ("*", true), ("secrets", false)] {
        let of_cluster = ClusterRole {
            metadata: everywhere.metadata.clone(),
            rules: role("g", resource).rules,
            aggregation_rule: None,
        };
        let mut world = World::default();
        let told = |changes: Vec<WorldChange>| changes == [WorldChange::Everything];
        assert_eq!(ClusterRole::apply(&mut world, of_cluster.clone()), []);
        let changes = RoleBinding::apply(&mut world, bound.clone());
        assert_eq!(!changes.is_empty(), counts, "{changes:?}");
        assert!(!told(changes));
        assert_eq!(
            told(ClusterRole::apply(&mut world, of_cluster.clone())),
            counts
        );
        assert_eq!(
            told(ClusterRoleBinding::apply(&mut world, everywhere.clone())),
            counts
        );
        let metadata = everywhere.metadata.clone();
        assert_eq!(
            told(ClusterRoleBinding::delete(&mut world, metadata)),
            counts
        );
        assert_eq!(
            told(ClusterRole::delete(&mut world, of_cluster.metadata)),
            counts
        );
    }
}

/// The number of questions that are checked because of each event, when a pod of an account gets a grant and loses it.
fn checked_at_a_grant(open: usize) -> Vec<usize> {
    let mut world = World::default();
    world.requests.apply(request("a", "Granted"));
    let of_pod = |number: usize| {
        let mut asked = question();
        let pod = asked.pod.as_mut().unwrap();
        if number > 0 {
            pod.name = format!("pod-{number}");
            pod.uid = format!("uid-{number}");
        }
        asked
    };
    let mut questions = questions_of(&world.question_keys, (0..open).map(of_pod));
    let (role, binding) = (role("g", POD_FORM), role_binding("g"));
    let mut check = |world: &World, changes: &[WorldChange]| {
        let mut checked = 0;
        for change in changes {
            questions.touch(change);
        }
        while questions.is_dirty() {
            questions.news(64, |asked: &AccessQuestion| {
                checked += 1;
                Some(access_decision::answer(world, asked, clock::now()))
            });
        }
        checked
    };
    assert_eq!(check(&world, &in_namespace()), open);
    let mut counts = Vec::new();
    for step in 0..4 {
        let changes = match step {
            0 => Role::apply(&mut world, role.clone()),
            1 => RoleBinding::apply(&mut world, binding.clone()),
            2 => RoleBinding::delete(&mut world, binding.metadata.clone()),
            _ => Role::delete(&mut world, role.metadata.clone()),
        };
        counts.push(check(&world, &changes));
    }
    counts
}

#[test]
fn a_grant_has_one_question_checked_however_many_are_open() {
    for open in [1, 10, 1_000, 10_000] {
        assert_eq!(checked_at_a_grant(open), [0, 1, 1, 0], "of {open}");
    }
}
