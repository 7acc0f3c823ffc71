use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::{
    checks::{Checks, verdict::ChecksVerdict},
    plan::{MOST_BYTES, objects::pairs, status::Summary, wanted::wanted},
    testing::{Around, OWN, cluster, owner, reading, spec},
};

fn wants(connectors: &[&str], users: &[&str], verb: &str) -> WantedPermissions {
    let mut around = Around::default();
    for name in connectors {
        around = around.connector(name, &[]);
    }
    let users: Vec<_> = users
        .iter()
        .map(|it| json!({"kind": "User", "name": it}))
        .collect();
    let mut policy = reading(&json!({}), &json!(users));
    policy["defaultPermission"]["roleTemplate"]["rules"][0]["verbs"] = json!([verb]);
    wanted(&spec(&policy), OWN, around.seen())
}

fn there(wanted: &WantedPermissions) -> Managed {
    cluster(&pairs(wanted, &owner(), MOST_BYTES))
}

fn told_of(there: &Managed, after: &WantedPermissions, was_in_force: bool) -> Vec<String> {
    let pairs: BTreeMap<_, _> = pairs(after, &owner(), MOST_BYTES);
    let told = of_change(there, after, was_in_force, &pairs.keys().collect());
    let line = |told: &Told| format!("{}: {}", told.event.as_str(), told.note);
    told.iter().map(line).collect()
}

fn told(before: &WantedPermissions, after: &WantedPermissions) -> Vec<String> {
    told_of(&there(before), after, false)
}

#[test]
fn who_got_what_is_told_and_who_lost_what() {
    let none = wants(&[], &[], "read");
    let two = wants(&["a", "b"], &["u", "v"], "read");
    assert_eq!(
        told(&none, &two),
        [
            "PermissionGranted: User u, User v may now use read on connectors/apis of connectors a, b"
        ]
    );
    assert_eq!(
        told(&two, &none),
        [
            "PermissionRevoked: User u, User v may no longer use read on connectors/apis of connectors a, b"
        ]
    );
    assert_eq!(
        told(&two, &wants(&["a", "b"], &["v", "w"], "read")),
        [
            "PermissionGranted: User w may now use read on connectors/apis of connectors a, b",
            "PermissionRevoked: User u may no longer use read on connectors/apis of connectors a, b",
        ]
    );
    assert_eq!(
        told(&two, &wants(&["a"], &["u", "v"], "read")),
        [
            "PermissionRevoked: User u, User v may no longer use read on connectors/apis of connectors b"
        ]
    );
    assert_eq!(
        told(&two, &wants(&["a", "b"], &["u", "v"], "*")),
        [
            "PermissionGranted: User u, User v may now use * on connectors/apis of connectors a, b",
            "PermissionRevoked: User u, User v may no longer use read on connectors/apis of connectors a, b",
        ]
    );
    assert_eq!(told(&two, &two), [""; 0]);
}

#[test]
fn who_is_in_objects_that_give_nothing_loses_nothing() {
    let (before, after) = (
        wants(&["b"], &["v"], "write"),
        wants(&["a"], &["u"], "read"),
    );
    let nobody = |it: &mut Managed| {
        let binding = it.bindings.values_mut().next().unwrap();
        binding.object.as_mut().unwrap().subjects = None;
    };
    let edit_rules = |it: &mut Managed, edit: fn(&mut Vec<PolicyRule>)| {
        let role = it.roles.values_mut().next().unwrap();
        edit(role.object.as_mut().unwrap().rules.as_mut().unwrap());
    };
    let no_connector = |it: &mut Managed| edit_rules(it, |rules| rules[0].resource_names = None);
    let no_rule = |it: &mut Managed| edit_rules(it, Vec::clear);
    let edits: [&dyn Fn(&mut Managed); 3] = [&nobody, &no_connector, &no_rule];
    for edit in edits {
        let mut there = there(&before);
        edit(&mut there);
        assert_eq!(
            told_of(&there, &after, false),
            ["PermissionGranted: User u may now use read on connectors/apis of connectors a"]
        );
    }
}

#[test]
fn the_deletion_of_a_policy_is_told_where_it_was_in_force_for_somebody() {
    let status = |holders: Option<i32>, synced: PermissionSynced| {
        let known = Summary {
            synced,
            ..Summary::of(&wants(&["a", "b"], &["u"], "read"), Checks::None)
        };
        let now = "2026-03-01T10:00:00Z".parse().unwrap();
        AccessPolicyStatus {
            granted_subjects: holders,
            ..known.status(Some(1), None, now).unwrap()
        }
    };
    let granted = PermissionSynced::PermissionGranted;
    for silent in [
        status(Some(0), granted),
        status(None, granted),
        status(Some(2), PermissionSynced::SubjectsInvalid),
    ] {
        assert_eq!(of_deletion(&silent), None);
    }
    let told = of_deletion(&status(Some(1), granted)).unwrap();
    assert_eq!(told.event, Event::PermissionRevoked);
    let note = "the policy was deleted: its 1 subjects may no longer use connectors a, b by it";
    assert_eq!(told.note, note);
}

#[test]
fn of_many_names_the_first_are_told() {
    let users: Vec<String> = (10..30).map(|it| format!("u{it}")).collect();
    let users: Vec<&str> = users.iter().map(String::as_str).collect();
    let told = told(&wants(&[], &[], "read"), &wants(&["a"], &users, "read"));
    assert!(
        told[0].contains("User u17 and 12 more may now use"),
        "{told:?}"
    );
}

#[test]
fn what_somebody_else_did_is_told_with_his_name() {
    let wanted = wants(&["a"], &["u"], "read");
    let mut edited = there(&wanted);
    let binding = edited.bindings.values_mut().next().unwrap();
    binding.changed_by = Some("kubectl-edit".to_owned());
    let subjects = binding.object.as_mut().unwrap().subjects.as_mut().unwrap();
    subjects[0].name = "mallory".to_owned();
    assert_eq!(
        told_of(&edited, &wanted, true),
        [
            "PermissionRestored: RoleBinding policy-uid-p was changed by kubectl-edit and is put back",
            "PermissionGranted: User u may now use read on connectors/apis of connectors a",
            "PermissionRevoked: User mallory may no longer use read on connectors/apis of connectors a",
        ]
    );
    let mut deleted = there(&wanted);
    deleted.roles.clear();
    assert_eq!(
        told_of(&deleted, &wanted, true)[0],
        "PermissionRestored: Role policy-uid-p was deleted and is made again"
    );
    assert!(told_of(&deleted, &wanted, false)[0].starts_with("PermissionGranted"));
}

#[test]
fn questionable_checks_are_told_once() {
    let status = |reason: ChecksValid, message: &str| {
        let known = Summary {
            checks: Checks::Judged(ChecksVerdict {
                reason,
                message: message.to_owned(),
            }),
            ..Summary::of(&wants(&["a"], &["u"], "read"), Checks::None)
        };
        known
            .status(Some(1), None, "2026-03-01T10:00:00Z".parse().unwrap())
            .unwrap()
    };
    let told = |last: &AccessPolicyStatus, now: &AccessPolicyStatus| -> Vec<String> {
        let told = of_status(Some(last), now).into_iter();
        told.map(|it| format!("{}: {}", it.event, it.note))
            .collect()
    };
    let well = status(ChecksValid::ChecksValid, "");
    let forgeable = status(ChecksValid::ChecksForgeable, "somebody may");
    assert_eq!(
        told(&well, &forgeable),
        ["ChecksQuestionable: ChecksForgeable: somebody may"]
    );
    assert_eq!(told(&forgeable, &forgeable), [""; 0]);
    let others = status(ChecksValid::ChecksForgeable, "others may");
    assert_eq!(told(&forgeable, &others).len(), 1);
    for quiet in [
        well.clone(),
        status(ChecksValid::NoChecks, ""),
        status(ChecksValid::ChecksNotJudged, "nobody answers"),
        status(ChecksValid::PolicyUnreadable, ""),
    ] {
        assert_eq!(told(&forgeable, &quiet), [""; 0]);
    }
    assert_eq!(
        told(&well, &status(ChecksValid::KindMissing, "none")).len(),
        1
    );
}
