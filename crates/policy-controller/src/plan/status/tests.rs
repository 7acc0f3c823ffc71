use serde_json::{Value, json};

use super::*;
use crate::{
    plan::wanted::wanted,
    testing::{Around, OWN, reading, spec},
};

const NOW: &str = "2026-03-01T10:00:00Z";

fn known(policy: &Value, around: &Around) -> Known {
    let policy = spec(policy);
    let wanted = wanted(&policy, OWN, around.seen());
    Known::of(&wanted, policy.check_granted_permission.is_some())
}

fn rows(known: &Known) -> Vec<String> {
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
                "Ready=True Ready",
            ],
        ),
        (
            &given,
            &none,
            [
                "ConnectorsMatched=False NoConnectorMatched",
                "PermissionSynced=True NothingToGrant",
                "Ready=False NoConnectorMatched",
            ],
        ),
        (
            &nobody,
            &some,
            [
                "ConnectorsMatched=True ConnectorsMatched",
                "PermissionSynced=True NothingToGrant",
                "Ready=True Ready",
            ],
        ),
        (
            &unclear,
            &some,
            [
                "ConnectorsMatched=True ConnectorsMatched",
                "PermissionSynced=False SubjectsInvalid",
                "Ready=False SubjectsInvalid",
            ],
        ),
        (
            &wrong,
            &some,
            [
                "ConnectorsMatched=True ConnectorsMatched",
                "PermissionSynced=False RulesInvalid",
                "Ready=False RulesInvalid",
            ],
        ),
        (
            &both,
            &some,
            [
                "ConnectorsMatched=True ConnectorsMatched",
                "PermissionSynced=True PermissionGranted",
                "Ready=Unknown ChecksNotJudged",
            ],
        ),
        (
            &checked,
            &some,
            [
                "ConnectorsMatched=True ConnectorsMatched",
                "PermissionSynced=True NoStandingPermission",
                "Ready=Unknown ChecksNotJudged",
            ],
        ),
    ] {
        assert_eq!(rows(&known(policy, around)), expected, "{policy}");
    }
    assert_eq!(
        rows(&Known::unreadable("spec.connector.name: unknown field")),
        [
            "ConnectorsMatched=False PolicyUnreadable",
            "PermissionSynced=False PolicyUnreadable",
            "Ready=False PolicyUnreadable"
        ]
    );
    let failed = known(&given, &some).failed(PermissionSynced::WriteFailed, "no".to_owned());
    assert_eq!(
        rows(&failed)[1..],
        [
            "PermissionSynced=False WriteFailed",
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
    assert_eq!(status.observed_generation, Some(7));
    assert!(
        status
            .conditions
            .iter()
            .all(|it| it.observed_generation == Some(7))
    );
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
        [true, false, true],
        "PermissionSynced was True and is"
    );
}
