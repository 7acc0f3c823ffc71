//! What the approval gate makes of an approver's answer, written down on its own: its state, and whose entry it is.

use std::collections::BTreeSet;

use super::*;

/// Entries of users and groups, with what they and their members say.
fn entries() -> Vec<Value> {
    let group = |name: &str, input: &str, users: Value| json!({"name": name, "type": "Group", "input": input, "users": users});
    let said = |name: &str, input: &str| json!({"name": name, "input": input});
    vec![
        json!({"name": "alice", "type": "User", "input": "pending", "message": "kept"}),
        json!({"name": "bob", "type": "User", "input": "approve"}),
        // The name of a group, and no type.
        json!({"name": "qa", "input": "pending"}),
        json!({"name": "qa", "type": "Group", "input": "pending"}),
        group(
            "qa",
            "approve",
            json!([said("bob", "approve"), said("carol", "approve")]),
        ),
        group(
            "ops",
            "approve",
            json!([said("alice", "approve"), said("carol", "pending")]),
        ),
        group(
            "ops",
            "pending",
            json!([said("alice", "pending"), said("bob", "approve")]),
        ),
    ]
}

/// Every choice of up to three entries, in every order.
fn lists() -> Vec<Vec<Value>> {
    let all = entries();
    let mut lists = vec![Vec::new()];
    for first in &all {
        lists.push(vec![first.clone()]);
        for second in all.iter().filter(|it| *it != first) {
            lists.push(vec![first.clone(), second.clone()]);
            let rest = all.iter().filter(|it| *it != first && *it != second);
            lists.extend(rest.map(|it| vec![first.clone(), second.clone(), it.clone()]));
        }
    }
    lists
}

fn is_of(entry: &Value, field: &str, word: &str) -> bool {
    entry[field] == word
}

fn people(entry: &Value) -> Vec<Value> {
    entry["users"].as_array().cloned().unwrap_or_default()
}

/// The users whose yes counts: in a group that says yes, each member that does.
fn approving(entries: &[Value]) -> BTreeSet<String> {
    let yes = entries.iter().filter(|it| is_of(it, "input", "approve"));
    let names = yes.flat_map(|entry| {
        let voices = if is_of(entry, "type", "Group") {
            people(entry)
        } else {
            vec![entry.clone()]
        };
        let voices = voices
            .into_iter()
            .filter(|it| is_of(it, "input", "approve"));
        voices.map(|it| it["name"].as_str().unwrap().to_owned())
    });
    names.collect()
}

/// The entry that a user answers, of which there must be one: the own one before those of groups.
fn own_place(entries: &[Value], user: &User) -> Option<usize> {
    let of_user = |it: &Value| !is_of(it, "type", "Group") && is_of(it, "name", &user.name);
    if let Some(own) = entries.iter().position(of_user) {
        return is_of(&entries[own], "input", "pending").then_some(own);
    }
    let is_open = |entry: &Value| {
        let voice = people(entry)
            .into_iter()
            .find(|it| is_of(it, "name", &user.name));
        let is_member = voice.is_some() || user.groups.iter().any(|it| is_of(entry, "name", it));
        let has_said = voice.is_some_and(|it| !is_of(&it, "input", "pending"));
        is_of(entry, "type", "Group") && is_member && !has_said
    };
    let mut open = entries.iter().enumerate().filter(|(_, it)| is_open(it));
    match (open.next(), open.next()) {
        (Some((at, _)), None) => Some(at),
        _ => None,
    }
}

#[test]
fn a_yes_is_written_into_one_entry_and_its_effect_is_what_the_gate_counts() {
    let user = |name: &str, groups: &[&str]| User {
        name: name.to_owned(),
        groups: groups.iter().map(|it| (*it).to_owned()).collect(),
    };
    let users = [
        user("alice", &[]),
        user("alice", &["ops"]),
        user("bob", &["qa"]),
        user("dave", &["qa", "ops"]),
        user("qa", &[]),
        user("mallory", &["alice", "bob", "q", "qaa"]),
    ];
    let (mut written, mut opened) = (0, 0);
    for entries in lists() {
        for user in &users {
            for required in [json!(null), json!(0), json!(1), json!(2), json!(3)] {
                let object = json!({
                    "metadata": {"name": "wait", "resourceVersion": "7"},
                    "spec": {"approvers": entries, "numberOfApprovalsRequired": required, "description": "d"},
                    "status": {"state": "pending", "more": "m"},
                });
                let wish = WishedAnswer {
                    answer: ApprovalAnswer::Approve,
                    group: None,
                    message: None,
                };
                let told = format!("{} {:?} {object}", user.name, user.groups);
                let place = own_place(&entries, user);
                let Ok(write) = of_approver(&object, user, wish) else {
                    assert_eq!(place, None, "{told}");
                    continue;
                };
                let place = place.unwrap_or_else(|| panic!("{told}: {:?}", write.patch));
                written += 1;
                let after = write.after["spec"]["approvers"].as_array().unwrap().clone();
                let fields = json!({
                    "metadata": {"resourceVersion": "7"}, "spec": {"approvers": after},
                });
                assert_eq!(write.patch, fields, "{told}");
                let mut expected = entries.clone();
                let entry = &mut expected[place];
                entry["input"] = "approve".into();
                if is_of(entry, "type", "Group") {
                    let mut people = people(entry);
                    let voice = people.iter().position(|it| is_of(it, "name", &user.name));
                    let voice = voice.unwrap_or_else(|| {
                        people.push(json!({"name": user.name}));
                        people.len() - 1
                    });
                    people[voice]["input"] = "approve".into();
                    entry["users"] = people.into();
                }
                assert_eq!(after, expected, "{told}");
                let needed = required.as_u64().unwrap_or(1).max(1);
                let is_met = u64::try_from(approving(&after).len()).unwrap() >= needed;
                opened += usize::from(is_met);
                let mut whole = object.clone();
                whole["spec"]["approvers"] = after.into();
                whole["status"]["state"] = if is_met { "approved" } else { "pending" }.into();
                assert_eq!(write.after, whole, "{told}");
            }
        }
    }
    assert!(
        written > 500 && opened > 100 && opened < written,
        "{written} {opened}"
    );
}

/// A user is no group of the same name, and a group is answered by its members alone.
#[test]
fn a_named_group_is_a_group_among_the_approvers_with_the_user_in_it() {
    let member = json!([{"name": "erin", "input": "pending"}]);
    let approvers = json!([
        {"name": "erin", "type": "User", "input": "pending"},
        {"name": "qa", "type": "Group", "input": "pending"},
        {"name": "ops", "type": "Group", "input": "pending", "users": member},
    ]);
    let object = json!({"metadata": {"resourceVersion": "7"}, "spec": {"approvers": approvers}});
    let user = User {
        name: "erin".to_owned(),
        groups: vec!["qa".to_owned(), "dev".to_owned()],
    };
    for (group, place) in [
        ("qa", Some(1)),
        ("ops", Some(2)),
        ("erin", None),
        ("dev", None),
        ("QA", None),
        ("q", None),
        ("", None),
    ] {
        let wish = WishedAnswer {
            answer: ApprovalAnswer::Approve,
            group: Some(group),
            message: Some("m"),
        };
        let written = of_approver(&object, &user, wish);
        let Some(place) = place else {
            let refusal = written.unwrap_err();
            assert!(
                matches!(refusal, AnswerRefusal::NoGroup { .. }),
                "{group}: {refusal}"
            );
            continue;
        };
        let after = written.unwrap().patch["spec"]["approvers"].clone();
        for at in 0..3 {
            assert_eq!(after[at] == approvers[at], at != place, "{group} {at}");
        }
        let voice = json!([{"name": "erin", "input": "approve", "message": "m"}]);
        assert_eq!(after[place]["users"], voice, "{group}");
    }
}
