use connectors_api::Permission;
use serde_json::{Value, json};

use super::*;
use crate::explain::report::{AccessWord, CandidateShown, RuleShown};
use crate::terms::NamespacedName;

fn candidate(name: &str, approved_by: &[&str]) -> CandidateShown {
    CandidateShown {
        kind: "ChangeRequest".to_owned(),
        name: NamespacedName::new("team-a", name),
        state: "pending".to_owned(),
        verdict: None,
        reason: "Pending".to_owned(),
        message: String::new(),
        approved_by: approved_by.iter().map(|it| (*it).to_owned()).collect(),
        approvers: Vec::new(),
        writers: None,
        links: Vec::new(),
        run_creator: None,
    }
}

/// An access under one policy with one check, which found these objects.
fn found(candidates: Vec<CandidateShown>, rules: Vec<RuleShown>) -> AccessShown {
    let check = CheckShown {
        name: "change".to_owned(),
        of: "itsm.example.com/v1 ChangeRequest".to_owned(),
        selects: None,
        verdict: Some(AccessCheckReady::AccessCheckPending),
        reason: "Pending".to_owned(),
        message: "chg-42 is pending".to_owned(),
        candidates,
    };
    let policy = PolicyShown {
        name: "p".to_owned(),
        applies: PolicyWord::Yes,
        because: String::new(),
        standing: PolicyWord::Absent,
        standing_because: String::new(),
        problem: None,
        grant: None,
        verdict: Some(AccessCheckReady::AccessCheckPending),
        is_late: false,
        source: None,
        checks: vec![check],
        rules,
    };
    AccessShown {
        connector: NamespacedName::new("tools", "harbor"),
        permission: Permission::Apis,
        state: AccessWord::Waits,
        because: "it waits".to_owned(),
        since: None,
        seconds: None,
        request: None,
        policies: vec![policy],
        ends: Vec::new(),
        next: Vec::new(),
    }
}

/// The fields that differ.
fn differing(expected: &Value, found: &AccessShown) -> Vec<String> {
    let expected: Expectation = serde_json::from_value(expected.clone()).unwrap();
    let mount = MountQuestion {
        has_connector: true,
        forms: ["connectors/apis", "connectors/apis/v1/pod/team-a/build-1"].map(str::to_owned),
        standing: BTreeSet::new(),
    };
    let all = differences(&expected, found, &mount);
    all.into_iter().map(|it| it.field).collect()
}

/// What is expected of the one check of the one policy.
fn of_check(field: &str, value: &Value) -> Value {
    json!({"policies": {"p": {"checks": {"change": {field: value}}}}})
}

/// A list names all that there is. An empty one says that there is nothing, and an absent one says nothing.
#[test]
fn a_list_of_names_is_compared_as_a_whole() {
    let people: [&[&str]; 4] = [
        &[],
        &["alice"],
        &["alice", "bob"],
        &["bob", "alice", "alice"],
    ];
    for names in people {
        let one = found(vec![candidate("a", names)], Vec::new());
        let each = names.iter().enumerate();
        let each = each.map(|(at, it)| candidate(&at.to_string(), &[it]));
        let several = found(each.collect(), Vec::new());
        let there: BTreeSet<_> = names.iter().copied().collect();
        for expected in [
            &[][..],
            &["alice"],
            &["bob", "alice"],
            &["alic"],
            &["Alice"],
        ] {
            let is_same = there == expected.iter().copied().collect();
            let fields = if is_same {
                vec![]
            } else {
                vec!["expect.policies.p.checks.change.approvedBy"]
            };
            for found in [&one, &several] {
                let expected = of_check("approvedBy", &json!(expected));
                assert_eq!(differing(&expected, found), fields, "{names:?}");
                let absent = of_check("approvedBy", &json!(null));
                assert_eq!(differing(&absent, found), [""; 0]);
            }
        }
    }
    let two = found(vec![candidate("b", &[]), candidate("a", &[])], Vec::new());
    let none = found(Vec::new(), Vec::new());
    for (expected, found, is_same) in [
        (json!(["a", "b"]), &two, true),
        (json!(["b", "a"]), &two, true),
        (json!(["a"]), &two, false),
        (json!([]), &two, false),
        (json!(["a"]), &none, false),
        (json!([]), &none, true),
        (json!(null), &none, true),
    ] {
        let fields = differing(&of_check("objects", &expected), found);
        assert_eq!(fields.is_empty(), is_same, "{expected}");
    }
}

#[test]
fn each_field_of_a_check_and_of_a_policy_is_compared_with_its_own() {
    let found = found(vec![candidate("a", &[])], Vec::new());
    for (field, same, others) in [
        (
            "verdict",
            "AccessCheckPending",
            &["AccessCheckPassed", "AccessCheckRejected"][..],
        ),
        ("reason", "Pending", &["pending", "Pend", ""]),
        ("message", "is pending", &["is approved", "chg-43"]),
    ] {
        assert_eq!(differing(&of_check(field, &json!(same)), &found), [""; 0]);
        for other in others {
            let told = format!("expect.policies.p.checks.change.{field}");
            assert_eq!(differing(&of_check(field, &json!(other)), &found), [told]);
        }
    }
    for (field, same, other) in [
        ("applies", "Yes", "OtherName"),
        ("standing", "Absent", "Yes"),
        ("verdict", "AccessCheckPending", "AccessCheckPassed"),
    ] {
        let of = |word: &str| json!({"policies": {"p": {field: word}}});
        assert_eq!(differing(&of(same), &found), [""; 0]);
        let told = format!("expect.policies.p.{field}");
        assert_eq!(differing(&of(other), &found), [told]);
    }
    for (expected, told) in [
        (json!({"access": "Granted"}), "expect.access"),
        (json!({"policies": {"q": {}}}), "expect.policies.q"),
        (
            json!({"policies": {"p": {"checks": {"changes": {}}}}}),
            "expect.policies.p.checks.changes",
        ),
    ] {
        assert_eq!(differing(&expected, &found), [told]);
    }
    assert_eq!(differing(&json!({"access": "Waits"}), &found), [""; 0]);
}

#[test]
fn rules_are_compared_as_a_whole_and_in_their_order() {
    let rule = |resource: &str| RuleShown {
        resources: vec![resource.to_owned()],
        verbs: vec!["*".to_owned()],
    };
    let written = |resources: &[&str]| {
        let each = resources
            .iter()
            .map(|it| json!({"resources": [it], "verbs": ["*"]}));
        json!({"policies": {"p": {"rules": each.collect::<Vec<_>>()}}})
    };
    let two = found(Vec::new(), vec![rule("a"), rule("b")]);
    let none = found(Vec::new(), Vec::new());
    for (expected, found, is_same) in [
        (written(&["a", "b"]), &two, true),
        (written(&["b", "a"]), &two, false),
        (written(&["a"]), &two, false),
        (written(&[]), &two, false),
        (written(&[]), &none, true),
        (written(&["a"]), &none, false),
        (json!({"policies": {"p": {}}}), &two, true),
    ] {
        let fields = differing(&expected, found);
        assert_eq!(fields.is_empty(), is_same, "{expected}");
    }
}

/// Any policy may let the pod in, whatever the others do and in whichever order they are.
#[test]
fn an_access_is_what_the_best_of_its_policies_gives() {
    use AccessCheckReady::{AccessCheckPassed, AccessCheckPending, AccessCheckRejected};

    let form = "connectors/apis/v1/pod/team-a/build-1";
    let policy = |verdict: AccessCheckReady, opens: bool| {
        let mut policy = found(Vec::new(), Vec::new()).policies.remove(0);
        policy.verdict = Some(verdict);
        let resource = if opens { form } else { "connectors/status" };
        policy.rules.push(RuleShown {
            resources: vec![resource.to_owned()],
            verbs: vec!["*".to_owned()],
        });
        policy
    };
    let mount = MountQuestion {
        has_connector: true,
        forms: ["connectors/apis".to_owned(), form.to_owned()],
        standing: BTreeSet::from(["standing".to_owned()]),
    };
    let opens = policy(AccessCheckPassed, true);
    let elsewhere = policy(AccessCheckPassed, false);
    let waits = policy(AccessCheckPending, true);
    let refuses = policy(AccessCheckRejected, true);
    let mut other = policy(AccessCheckPassed, true);
    other.applies = PolicyWord::OtherSubject;
    let mut standing = other.clone();
    standing.name = "standing".to_owned();
    standing.standing = PolicyWord::Yes;
    for (all, expected) in [
        (vec![], AccessExpected::NoPolicy),
        (vec![&other], AccessExpected::NoPolicy),
        (vec![&opens], AccessExpected::Granted),
        (
            vec![&opens, &elsewhere, &waits, &refuses],
            AccessExpected::Granted,
        ),
        (vec![&elsewhere, &refuses], AccessExpected::Waits),
        (vec![&waits, &refuses], AccessExpected::Waits),
        (vec![&refuses, &other], AccessExpected::Refused),
        (vec![&refuses, &refuses], AccessExpected::Refused),
        (vec![&standing, &opens, &refuses], AccessExpected::Standing),
    ] {
        for turn in 0..all.len().max(1) {
            let mut turned: Vec<_> = all.iter().map(|it| (*it).clone()).collect();
            turned.rotate_left(turn);
            assert_eq!(access_of(&turned, &mount).0, expected, "{turned:?}");
            let without = MountQuestion {
                has_connector: false,
                ..mount.clone()
            };
            assert_eq!(access_of(&turned, &without).0, AccessExpected::Waits);
        }
    }
}
