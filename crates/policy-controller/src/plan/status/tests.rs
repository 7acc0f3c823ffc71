use serde_json::{Value, json};

use super::*;
use crate::{
    plan::wanted::wanted,
    testing::{Around, OWN, reading, spec},
};

const NOW: &str = "2026-03-01T10:00:00Z";

fn known(policy: &Value, around: &Around) -> Summary {
    let policy = spec(policy);
    let wanted = wanted(&policy, OWN, around.seen());
    let checks = match policy.check_granted_permission {
        Some(_) => Checks::AsTold,
        None => Checks::None,
    };
    Summary::of(&wanted, checks)
}

fn rows(known: &Summary) -> Vec<String> {
    let status = known.status(Some(1), None, NOW.parse().unwrap()).unwrap();
    let row =
        |it: &Condition<AccessPolicyCondition>| format!("{}={} {}", it.type_, it.status, it.reason);
    status.conditions.iter().map(row).collect()
}

fn alice() -> Value {
    json!([{"kind": "User", "name": "alice"}])
}

#[test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn every_situation_has_its_words() {
    let some = Around::default().connector("harbor", &[]);
    let none = Around::default();
    let given = reading(&json!({}), &alice());
    let nobody = reading(
        &json!({}),
        &json!([{"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"a": "b"}}}]),
    );
    let unclear = reading(
        &json!({}),
        &json!([{"kind": "User", "name": "alice"}, {"kind": "ServiceAccount", "nameSelector": {}}]),
    );
    let mut wrong = given.clone();
    wrong["defaultPermission"]["roleTemplate"]["rules"][0]["apiGroups"] = json!([""]);
    let checks = json!({"spec": {
        "checks": [{"name": "c", "selector": {"labels": {"a": "b"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}}}],
        "permissions": {"roleTemplate": {"rules": []}},
    }});
    let mut both = given.clone();
    both["checkGrantedPermission"] = checks.clone();
    let checked = json!({"checkGrantedPermission": checks});
    for (policy, around, expected) in [
        (
            &given,
            &some,
            [
                "ConnectorsMatched=True ConnectorsMatched",
                "PermissionSynced=True PermissionGranted",
                "ChecksValid=True NoChecks",
                "Ready=True Ready",
            ],
        ),
        (
            &given,
            &none,
            [
                "ConnectorsMatched=False NoConnectorMatched",
                "PermissionSynced=True NothingToGrant",
                "ChecksValid=True NoChecks",
                "Ready=False NoConnectorMatched",
            ],
        ),
        (
            &nobody,
            &some,
            [
                "ConnectorsMatched=True ConnectorsMatched",
                "PermissionSynced=True NothingToGrant",
                "ChecksValid=True NoChecks",
                "Ready=True Ready",
            ],
        ),
        (
            &unclear,
            &some,
            [
                "ConnectorsMatched=True ConnectorsMatched",
                "PermissionSynced=False SubjectsInvalid",
                "ChecksValid=True NoChecks",
                "Ready=False SubjectsInvalid",
            ],
        ),
        (
            &wrong,
            &some,
            [
                "ConnectorsMatched=True ConnectorsMatched",
                "PermissionSynced=False RulesInvalid",
                "ChecksValid=True NoChecks",
                "Ready=False RulesInvalid",
            ],
        ),
        (
            &both,
            &some,
            [
                "ConnectorsMatched=True ConnectorsMatched",
                "PermissionSynced=True PermissionGranted",
                "ChecksValid=Unknown ChecksNotJudged",
                "Ready=Unknown ChecksNotJudged",
            ],
        ),
        (
            &checked,
            &some,
            [
                "ConnectorsMatched=True ConnectorsMatched",
                "PermissionSynced=True NoStandingPermission",
                "ChecksValid=Unknown ChecksNotJudged",
                "Ready=Unknown ChecksNotJudged",
            ],
        ),
    ] {
        assert_eq!(rows(&known(policy, around)), expected, "{policy}");
    }
    assert_eq!(
        rows(&Summary::unreadable("spec.connector.name: unknown field")),
        [
            "ConnectorsMatched=False PolicyUnreadable",
            "PermissionSynced=False PolicyUnreadable",
            "ChecksValid=False PolicyUnreadable",
            "Ready=False PolicyUnreadable"
        ]
    );
    let failed = known(&given, &some).failed(PermissionSynced::WriteFailed, "no".to_owned());
    assert_eq!(
        rows(&failed)[1..],
        [
            "PermissionSynced=False WriteFailed",
            "ChecksValid=True NoChecks",
            "Ready=False WriteFailed"
        ]
    );
}

#[test]
fn a_status_tells_which_connectors_and_how_many_hold_it() {
    let around = Around::default().connector("b", &[]).connector("a", &[]);
    let known = known(&reading(&json!({}), &alice()), &around);
    let status = known.status(Some(7), None, NOW.parse().unwrap()).unwrap();
    let names: Vec<_> = status
        .matched_connectors
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(status.granted_subjects, Some(1));
    assert_eq!(status.matched_connector_count, Some(2));
    assert_eq!(status.observed_generation, Some(7));
    assert!(
        status
            .conditions
            .iter()
            .all(|it| it.observed_generation == Some(7))
    );
}

#[test]
fn nothing_is_a_number_too() {
    let counts = |known: &Summary| {
        let status = known.status(Some(1), None, NOW.parse().unwrap()).unwrap();
        (status.matched_connector_count, status.granted_subjects)
    };
    let checked = json!({"checkGrantedPermission": {"spec": {
        "checks": [{"name": "c", "selector": {"labels": {"a": "b"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"}}}],
        "permissions": {"roleTemplate": {"rules": []}},
    }}});
    let (some, none) = (
        Around::default().connector("harbor", &[]),
        Around::default(),
    );
    assert_eq!(counts(&known(&checked, &some)), (Some(1), Some(0)));
    assert_eq!(counts(&known(&checked, &none)), (Some(0), Some(0)));
    assert_eq!(counts(&Summary::unreadable("x")), (Some(0), Some(0)));
    let given = known(&reading(&json!({}), &alice()), &some);
    let failed = given.failed(PermissionSynced::WriteFailed, String::new());
    // The holders are not known.
    assert_eq!(counts(&failed), (Some(1), None));
}

#[test]
fn the_same_status_is_not_written_again_and_a_time_tells_the_last_change() {
    let some = Around::default().connector("harbor", &[]);
    let policy = reading(&json!({}), &alice());
    let first = known(&policy, &some)
        .status(Some(1), None, NOW.parse().unwrap())
        .unwrap();
    let later: Timestamp = "2026-03-01T11:00:00Z".parse().unwrap();
    assert_eq!(
        known(&policy, &some).status(Some(1), Some(&first), later),
        None
    );

    let second = known(&policy, &Around::default())
        .status(Some(2), Some(&first), later)
        .unwrap();
    let times: Vec<_> = second
        .conditions
        .iter()
        .map(|it| it.last_transition_time == later)
        .collect();
    assert_eq!(
        times,
        [true, false, false, true],
        "PermissionSynced was True and is"
    );
    let latest: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let third = known(&policy, &some)
        .status(Some(3), Some(&second), latest)
        .unwrap();
    let times = third.conditions.iter().map(|it| it.last_transition_time);
    let first: Timestamp = NOW.parse().unwrap();
    assert!(
        times.eq([latest, first, first, latest]),
        "other conditions that were True have times of their own"
    );
}

#[test]
fn what_was_found_about_the_checks_decides_whether_it_is_ready() {
    let some = Around::default().connector("harbor", &[]);
    let none = Around::default();
    let rows = |checks: Checks, around: &Around| {
        let mut known = known(&reading(&json!({}), &alice()), around);
        known.checks = checks;
        rows(&known)[2..].to_vec()
    };
    let judged = |reason| {
        let message = String::new();
        Checks::Judged(ChecksVerdict { reason, message })
    };
    for reason in ChecksValid::ALL.iter().copied() {
        let found = rows(judged(reason), &some);
        let expected = match reason {
            ChecksValid::ChecksValid | ChecksValid::NoChecks => [
                format!("ChecksValid=True {reason}"),
                "Ready=True Ready".to_owned(),
            ],
            // In force, but questionable: the reason appears in the condition that users see first.
            ChecksValid::ChecksForgeable
            | ChecksValid::ChecksDeletable
            | ChecksValid::RequestersOpen => [
                format!("ChecksValid=True {reason}"),
                format!("Ready=True {reason}"),
            ],
            ChecksValid::ChecksNotJudged => [
                "ChecksValid=Unknown ChecksNotJudged",
                "Ready=Unknown ChecksNotJudged",
            ]
            .map(str::to_owned),
            ChecksValid::ChecksInvalid
            | ChecksValid::TooManyPolicies
            | ChecksValid::KindMissing
            | ChecksValid::KindNotNamespaced
            | ChecksValid::KindNotReadable
            | ChecksValid::ProofUnavailable
            | ChecksValid::CreatorsUnknown
            | ChecksValid::PolicyUnreadable => [
                format!("ChecksValid=False {reason}"),
                format!("Ready=False {reason}"),
            ],
        };
        assert_eq!(found, expected);
    }
    // A missing connector is reported first.
    let found = rows(judged(ChecksValid::KindMissing), &none);
    assert_eq!(found[1], "Ready=False NoConnectorMatched");
}

#[test]
fn who_has_just_started_repeats_what_was_told_of_the_same_version_of_the_policy() {
    let some = Around::default().connector("harbor", &[]);
    let mut of = known(&reading(&json!({}), &alice()), &some);
    of.checks = Checks::Judged(ChecksVerdict {
        reason: ChecksValid::KindMissing,
        message: "no such kind".to_owned(),
    });
    let told = of.status(Some(1), None, NOW.parse().unwrap()).unwrap();
    of.checks = Checks::AsTold;
    let later: Timestamp = "2026-03-01T11:00:00Z".parse().unwrap();
    assert_eq!(of.status(Some(1), Some(&told), later), None);
    let edited = of.status(Some(2), Some(&told), later).unwrap();
    assert_eq!(edited.conditions[2].reason, "ChecksNotJudged");
}
