//! Which object a command line means, and which policies count it.

use connectors_api::reason::AccessCheckReady::{
    AccessCheckFailed, AccessCheckPassed, AccessCheckPending, AccessCheckRejected,
};
use serde_json::json;

use super::*;
use crate::answer::effects::tests::foreseen;

fn kind(api_version: &str, kind: &str) -> ObjectKind {
    ObjectKind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    }
}

fn changes() -> ObjectKind {
    kind("itsm.example.com/v1", "ChangeRequest")
}

/// An object that a check of a pod finds: by its name, with this result.
fn object(name: &str, verdict: AccessCheckReady, has_module: bool) -> CountedObject {
    CountedObject {
        kind: changes(),
        resource: "changerequests.itsm.example.com".to_owned(),
        name: NamespacedName::new("ci", name),
        uid: format!("uid-{name}"),
        policy: "p".to_owned(),
        check: "c".to_owned(),
        has_module,
        verdict,
    }
}

/// The name of the object that is meant, or the class of the problem with its text.
fn meant(
    counted: Vec<CountedObject>,
    answer: ApprovalAnswer,
    only: Option<(&str, &str)>,
) -> Result<String, String> {
    let mut foreseen = foreseen(AccessCheckPending);
    // Each access has its objects.
    let access = foreseen.accesses.remove(0);
    foreseen.accesses = counted
        .into_iter()
        .map(|object| {
            let mut access = access.clone();
            access.counted = vec![object];
            access
        })
        .collect();
    let only = only.map(|(kind, name)| ObjectWord {
        kind: kind.to_owned(),
        name: name.to_owned(),
    });
    match awaited(&foreseen, answer, only.as_ref()) {
        Ok(meant) => Ok(meant.name.to_string()),
        Err(AnswerProblem::Usage(told)) => Err(format!("usage: {told}")),
        Err(AnswerProblem::No(told)) => Err(format!("no: {told}")),
        Err(other) => panic!("{other:?}"),
    }
}

/// A yes to what passes and any answer to what is rejected would change nothing, and modules read other fields.
#[test]
fn an_answer_is_for_an_object_whose_state_it_can_change() {
    for answer in [ApprovalAnswer::Approve, ApprovalAnswer::Reject] {
        for verdict in [
            AccessCheckPending,
            AccessCheckFailed,
            AccessCheckPassed,
            AccessCheckRejected,
        ] {
            for has_module in [false, true] {
                let is_open = match verdict {
                    AccessCheckPending | AccessCheckFailed => true,
                    AccessCheckPassed => answer == ApprovalAnswer::Reject,
                    AccessCheckRejected => false,
                };
                let expected = is_open && !has_module;
                let told = format!("{answer:?} {verdict:?} {has_module}");
                let of_pod = meant(vec![object("a", verdict, has_module)], answer, None);
                assert_eq!(of_pod.is_ok(), expected, "{told}");
                let only = Some(("changerequest", "a"));
                let named = meant(vec![object("a", verdict, has_module)], answer, only);
                assert_eq!(named.is_ok(), expected, "{told}");
                let is_usage = named.is_err_and(|it| it.starts_with("usage"));
                assert!(!is_usage, "{told}");
            }
        }
    }
}

#[test]
fn of_several_objects_none_is_chosen_and_one_that_several_checks_find_is_one() {
    let yes = ApprovalAnswer::Approve;
    let open = |name: &str| object(name, AccessCheckPending, false);
    assert_eq!(
        meant(vec![open("a"), open("a")], yes, None).unwrap(),
        "ci/a"
    );
    let several = meant(vec![open("b"), open("a"), open("a")], yes, None).unwrap_err();
    assert!(
        several.starts_with("usage: ")
            && several.contains(
                "one of changerequest.itsm.example.com/a, changerequest.itsm.example.com/b with --only"
            ),
        "{several}"
    );
    // What takes no answer does not stand beside the one that does.
    let done = object("b", AccessCheckPassed, false);
    assert_eq!(meant(vec![done, open("a")], yes, None).unwrap(), "ci/a");
    let both = || vec![open("a"), open("ab"), open("A")];
    for name in ["a", "ab", "A"] {
        let only = Some(("changerequests", name));
        assert_eq!(meant(both(), yes, only).unwrap(), format!("ci/{name}"));
    }
    for only in [("changerequest", "b"), ("change", "a"), ("freeze", "a")] {
        let problem = meant(both(), yes, Some(only)).unwrap_err();
        assert!(
            problem.starts_with("usage: no check of the pod finds"),
            "{problem}"
        );
    }
    let nothing = meant(Vec::new(), yes, None).unwrap_err();
    assert!(nothing.starts_with("no: "), "{nothing}");
}

/// Namespace and name are those of each kind alone, and the same object may be there again as another one.
#[test]
fn objects_of_one_name_are_several_if_their_kind_group_namespace_or_uid_is_another() {
    let yes = ApprovalAnswer::Approve;
    let first = || object("a", AccessCheckPending, false);
    let of = |change: fn(&mut CountedObject)| {
        let mut other = first();
        other.uid = "another".to_owned();
        change(&mut other);
        other
    };
    let others = [
        of(|it| {
            it.kind = kind("itsm.example.com/v1", "Freeze");
            it.resource = "freezes.itsm.example.com".to_owned();
        }),
        of(|it| {
            it.kind = kind("other.example.com/v1", "ChangeRequest");
            it.resource = "changerequests.other.example.com".to_owned();
        }),
        of(|it| it.name.namespace = "ci-2".to_owned()),
        of(|_| {}),
    ];
    for other in others {
        let told = format!("{other:?}");
        for both in [vec![first(), other.clone()], vec![other.clone(), first()]] {
            let several = meant(both, yes, None).unwrap_err();
            assert!(
                several.starts_with("usage: several approvals"),
                "{told}: {several}"
            );
        }
        // One object of two versions of its kind is one.
        let mut again = other.clone();
        again.kind.api_version = again.kind.api_version.replace("/v1", "/v2");
        assert!(meant(vec![other, again], yes, None).is_ok(), "{told}");
    }
}

/// kubectl takes kinds and plurals, in any case, alone or with the whole group.
#[test]
fn a_word_names_a_kind_whole() {
    let resource = Some("changerequests.itsm.example.com");
    for (word, by_kind, by_resource) in [
        ("ChangeRequest", true, true),
        ("changerequest", true, true),
        ("CHANGEREQUEST.ITSM.EXAMPLE.COM", true, true),
        ("changerequests", false, true),
        ("ChangeRequests.itsm.example.com", false, true),
        ("changerequest.itsm", false, false),
        ("changerequests.itsm", false, false),
        ("changerequest.other.com", false, false),
        ("changerequests.itsm.example.com.evil.com", false, false),
        ("changereques", false, false),
        ("changerequestss", false, false),
        ("itsm.example.com", false, false),
        ("", false, false),
    ] {
        assert_eq!(is_word_of(word, &changes(), None), by_kind, "{word}");
        assert_eq!(
            is_word_of(word, &changes(), resource),
            by_resource,
            "{word}"
        );
    }
}

/// A policy with a check of each of these kinds, some by a module.
fn policy(namespace: &str, name: &str, checks: &[(&ObjectKind, bool)]) -> AccessPolicy {
    let checks = checks.iter().enumerate().map(|(at, (kind, has_module))| {
        let rego = if *has_module { "package approval" } else { "" };
        json!({
            "name": format!("c{at}"), "state": {"rego": rego},
            "selector": {"objectRef": kind, "labels": {"a": "b"}},
        })
    });
    let policy = json!({
        "metadata": {"namespace": namespace, "name": name, "uid": format!("uid-{namespace}-{name}")},
        "spec": {"connector": {"names": ["harbor"]}, "checkGrantedPermission": {"spec": {
            "checks": checks.collect::<Vec<_>>(), "permissions": {"roleTemplate": {"rules": []}},
        }}},
    });
    serde_json::from_value(policy).unwrap()
}

/// The API server serves one object in every version of its group.
#[test]
fn a_policy_counts_a_kind_in_any_version_of_its_group_by_any_of_its_checks() {
    let newer = kind("itsm.example.com/v2", "ChangeRequest");
    let elsewhere = kind("other.example.com/v1", "ChangeRequest");
    let longer = kind("itsm.example.com/v1", "ChangeRequestList");
    let core = kind("v1", "ChangeRequest");
    let policies = [
        policy("a", "same", &[(&changes(), false)]),
        policy("b", "same", &[(&newer, false)]),
        policy("b", "second", &[(&elsewhere, false), (&newer, true)]),
        policy(
            "b",
            "elsewhere",
            &[(&elsewhere, false), (&longer, false), (&core, false)],
        ),
        policy("b", "none", &[]),
        policy("c", "twice", &[(&changes(), false), (&changes(), true)]),
    ];
    let policies = policies.map(Ok);
    let found = counting(&policies, &changes());
    let found: Vec<_> = found
        .iter()
        .map(|it| (it.namespace.as_str(), it.uid.as_str()))
        .collect();
    let expected = [
        ("a", "uid-a-same"),
        ("b", "uid-b-same"),
        ("b", "uid-b-second"),
        ("c", "uid-c-twice"),
    ];
    assert_eq!(found, expected);

    let told = |all: &[CountingCheck]| {
        let mut told: Vec<_> = all
            .iter()
            .map(|it| format!("{} {}", it.policy, it.check))
            .collect();
        told.sort();
        told
    };
    let KindCounted {
        by_state,
        by_module,
    } = counted(&kinds_of(&policies), &changes());
    assert_eq!(told(&by_state), ["a/same c0", "b/same c0", "c/twice c0"]);
    assert_eq!(told(&by_module), ["b/second c1", "c/twice c1"]);
}
