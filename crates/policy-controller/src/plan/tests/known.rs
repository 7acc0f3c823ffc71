//! What the caches and the last status say about a policy that is in force.

use connectors_api::{Condition, policy_reason::Event};
use serde_json::json;

use super::super::{wanted::wanted, *};
use crate::testing::{Around, OWN, owner, reading, spec};

type Edit = fn(&mut AccessPolicyStatus);
type Objects = BTreeMap<(ManagedKind, String), ManagedCached>;

/// A policy that lets one user read one connector.
fn policy() -> AccessPolicySpec {
    spec(&reading(
        &json!({}),
        &json!([{"kind": "User", "name": "alice"}]),
    ))
}

fn around() -> Around {
    Around::default().connector("harbor", &[])
}

fn now() -> Timestamp {
    "2026-03-01T10:00:00Z".parse().unwrap()
}

/// The status of its first version.
fn in_force() -> AccessPolicyStatus {
    let wanted = wanted(&policy(), OWN, around().seen());
    let known = Summary::of(&wanted, Checks::None);
    known.status(Some(1), None, now()).unwrap()
}

fn is_settled(there: &Objects, generation: i64, status: Option<&AccessPolicyStatus>) -> bool {
    let (owner, around) = (owner(), around());
    let seen = Cached {
        owner: &owner,
        spec: &policy(),
        generation: Some(generation),
        status,
        around: around.seen(),
        there,
        checks: Checks::None,
    };
    super::super::is_settled(&seen, MOST_BYTES, now())
}

#[test]
fn a_policy_is_settled_while_both_objects_and_the_status_are_as_wanted() {
    let wanted = wanted(&policy(), OWN, around().seen());
    let cached = |kind, name: &String, said| {
        let object = ManagedCached {
            version: String::new(),
            said: Some(said),
            terminating: false,
        };
        ((kind, name.clone()), object)
    };
    let pairs = pairs(&wanted, &owner(), MOST_BYTES);
    let both = pairs.iter().flat_map(|(name, it)| {
        [
            cached(ManagedKind::Role, name, of_role(&it.role)),
            cached(ManagedKind::RoleBinding, name, of_binding(&it.binding)),
        ]
    });
    let (there, status): (Objects, _) = (both.collect(), in_force());
    assert!(is_settled(&there, 1, Some(&status)));
    assert!(!is_settled(&there, 2, Some(&status)), "of another version");
    assert!(!is_settled(&there, 1, None), "without a status");
    for (key, object) in &there {
        for (what, other) in [
            (
                "going",
                ManagedCached {
                    version: String::new(),
                    terminating: true,
                    ..*object
                },
            ),
            (
                "not readable",
                ManagedCached {
                    version: String::new(),
                    said: None,
                    ..*object
                },
            ),
            (
                "changed",
                ManagedCached {
                    version: String::new(),
                    said: Some([0; 32]),
                    ..*object
                },
            ),
        ] {
            let mut there = there.clone();
            there.insert(key.clone(), other);
            assert!(!is_settled(&there, 1, Some(&status)), "{key:?} is {what}");
        }
        let mut without = there.clone();
        without.remove(key);
        assert!(!is_settled(&without, 1, Some(&status)), "no {key:?}");
        without.insert((key.0, "other".to_owned()), object.clone());
        assert!(!is_settled(&without, 1, Some(&status)), "another {key:?}");
    }
}

/// Whether the plan for missing objects tells that another client removed them.
fn tells_of_others(status: &AccessPolicyStatus) -> bool {
    let (owner, around, policy) = (owner(), around(), policy());
    let seen = Observed {
        owner: &owner,
        policy: PolicySeen::There {
            spec: Ok(&policy),
            generation: Some(1),
            status: Some(status),
        },
        around: around.seen(),
        there: &Managed::default(),
        checks: Checks::None,
    };
    let told = plan(&seen, MOST_BYTES).told;
    told.iter().any(|it| it.event == Event::PermissionRestored)
}

#[test]
fn missing_objects_were_removed_by_others_if_the_status_says_that_exactly_this_is_in_force() {
    fn synced(status: &mut AccessPolicyStatus) -> &mut Condition<AccessPolicyCondition> {
        let mut conditions = status.conditions.iter_mut();
        conditions
            .find(|it| it.type_ == AccessPolicyCondition::PermissionSynced)
            .unwrap()
    }
    assert!(tells_of_others(&in_force()));
    let edits: [(&str, Edit); 5] = [
        ("of another version", |it| it.observed_generation = Some(2)),
        ("on other connectors", |it| {
            it.matched_connectors[0].name.push('2');
        }),
        ("for more subjects", |it| it.granted_subjects = Some(2)),
        ("which failed", |it| {
            synced(it).status = ConditionStatus::False;
        }),
        ("for nobody", |it| {
            let nothing = PermissionSynced::NothingToGrant;
            nothing.as_str().clone_into(&mut synced(it).reason);
        }),
    ];
    for (what, edit) in edits {
        let mut status = in_force();
        edit(&mut status);
        assert!(!tells_of_others(&status), "{what}");
    }
}
