use connectors_api::AccessPolicySpec;
use serde_json::json;

use super::*;
use crate::testing::spec;

const AT: &str = "spec.checkGrantedPermission.spec.checks[0]";

fn checks(kinds: &[(&str, &str, &str)]) -> Vec<Check> {
    let checks: Vec<_> = kinds
        .iter()
        .map(|(api_version, kind, provenance)| {
            json!({
                "name": kind.to_lowercase(), "provenance": provenance,
                "selector": {"labels": {"a": "b"}, "objectRef": {"apiVersion": api_version, "kind": kind}},
            })
        })
        .collect();
    let AccessPolicySpec {
        check_granted_permission,
        ..
    } = spec(
        &json!({"connector": {}, "checkGrantedPermission": {"spec": {
            "checks": checks, "permissions": {"roleTemplate": {"rules": []}},
        }}}),
    );
    check_granted_permission.unwrap().spec.checks
}

fn sign_off() -> Vec<Check> {
    checks(&[("example.com/v1", "SignOff", "Auto")])
}

fn with(kind: KindFound) -> CheckFindings {
    CheckFindings {
        kinds: [(sign_off()[0].selector.object_ref.clone(), kind)].into(),
        ..CheckFindings::default()
    }
}

fn resource(group: &str) -> Resource {
    Resource {
        group: group.to_owned(),
        plural: "signoffs".to_owned(),
    }
}

fn holders(first: &[&str], may_be_more: bool) -> Holders {
    Holders {
        first: first.iter().map(|it| (*it).to_owned()).collect(),
        may_be_more,
    }
}

fn readable(forgers: &[&str], may_be_more: bool) -> KindFound {
    KindFound::Readable {
        forgers: holders(forgers, may_be_more),
        deleters: Holders::default(),
    }
}

fn deletable(deleters: &[&str]) -> KindFound {
    KindFound::Readable {
        forgers: Holders::default(),
        deleters: holders(deleters, false),
    }
}

const PART: Extent = Extent {
    looked: 50,
    all: 80,
    places_left_out: 0,
};

#[test]
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn everything_that_can_be_found_has_its_word_and_says_what_helps() {
    let wrong = CheckFindings {
        wrong: vec!["spec.x: is odd".to_owned(), "spec.y: too".to_owned()],
        ..CheckFindings::default()
    };
    let unread = CheckFindings {
        unread: Some("nobody looks at it".to_owned()),
        ..with(readable(&[], false))
    };
    let open = CheckFindings {
        open: Some(OpenBy::Installation),
        ..with(readable(&["x may"], false))
    };
    let open_by_policy = CheckFindings {
        open: Some(OpenBy::Policy),
        ..with(readable(&[], false))
    };
    assert_eq!(
        verdict(&sign_off(), &with(readable(&[], false))).message,
        ""
    );
    for (found, reason, words) in [
        (
            CheckFindings {
                extent: PART,
                ..with(readable(&[], true))
            },
            ChecksValid::ChecksValid,
            "looked at 50 of 80 accounts: none of them could write an approval",
        ),
        (
            CheckFindings {
                extent: PART,
                ..with(readable(&["x may"], true))
            },
            ChecksValid::ChecksForgeable,
            "only approvers may write; looked at 50 of 80 accounts",
        ),
        (
            CheckFindings {
                intruders: holders(&["x may enter"], false),
                ..with(readable(&[], true))
            },
            ChecksValid::ChecksValid,
            "hint: x may enter: it can use what an approved pod may use",
        ),
        (
            CheckFindings {
                extent: PART,
                intruders: holders(&["a", "b", "c", "d"], false),
                ..with(readable(&[], true))
            },
            ChecksValid::ChecksValid,
            "could write an approval; hint: a; b; c, and perhaps others: it can",
        ),
        (
            CheckFindings {
                intruders: holders(&["a", "b", "c"], false),
                ..with(readable(&[], true))
            },
            ChecksValid::ChecksValid,
            "hint: a; b; c: it can",
        ),
        (
            CheckFindings {
                answers: AdmissionRule::Missing,
                intruders: holders(&["x may enter"], false),
                ..with(readable(&[], true))
            },
            ChecksValid::ChecksValid,
            "which no proof sees; hint: no admission rule keeps the answers of approvers apart",
        ),
        (
            CheckFindings {
                intruders: holders(&["x may enter"], false),
                ..with(readable(&["x may"], true))
            },
            ChecksValid::ChecksForgeable,
            "x may",
        ),
        (
            with(deletable(&["x may delete it"])),
            ChecksValid::ChecksDeletable,
            "x may delete it: with latch Auto",
        ),
        (
            open_by_policy,
            ChecksValid::RequestersOpen,
            "requesters lets pods of every namespace ask",
        ),
        (
            wrong,
            ChecksValid::ChecksInvalid,
            "spec.x: is odd, and 1 more",
        ),
        (
            with(KindFound::Missing),
            ChecksValid::KindMissing,
            "no kind SignOff of example.com/v1",
        ),
        (
            with(KindFound::ClusterScoped),
            ChecksValid::KindNotNamespaced,
            "in no namespace",
        ),
        (
            with(KindFound::NotReadable(resource("example.com"))),
            ChecksValid::KindNotReadable,
            "add {apiGroup: example.com, resources: [signoffs]} to checks.kinds",
        ),
        (
            with(KindFound::NotReadable(resource(""))),
            ChecksValid::KindNotReadable,
            "set checks.configMaps in the chart's values",
        ),
        (
            with(KindFound::Unknown),
            ChecksValid::ChecksNotJudged,
            "does not say",
        ),
        (unread, ChecksValid::ChecksNotJudged, "nobody looks at it"),
        (
            open,
            ChecksValid::RequestersOpen,
            "spec.checkGrantedPermission.requesters",
        ),
        (
            with(readable(&["x may create it"], false)),
            ChecksValid::ChecksForgeable,
            "x may create it: a pod in a namespace of the requesters can run as it",
        ),
        (
            with(readable(&["x may"], true)),
            ChecksValid::ChecksForgeable,
            "x may, and perhaps others: a pod",
        ),
        (
            with(readable(&["a", "b", "c", "d"], false)),
            ChecksValid::ChecksForgeable,
            "a; b; c, and perhaps others: a pod",
        ),
    ] {
        let verdict = verdict(&sign_off(), &found);
        assert_eq!(verdict.reason, reason, "{}", verdict.message);
        assert!(verdict.message.contains(words), "{}", verdict.message);
    }
}

#[test]
fn a_check_that_excludes_creators_needs_the_rule_that_says_who_they_are() {
    let mut checks = sign_off();
    assert!(!checks.iter().any(excludes_creators));
    for not_requester in [false, true] {
        let approvers = serde_json::json!({"users": ["alice"], "notRequester": not_requester});
        checks[0].approvers = serde_json::from_value(approvers).unwrap();
        assert_eq!(checks.iter().any(excludes_creators), not_requester);
    }
    for (creators, expected) in [
        (AdmissionRule::InForce, ChecksValid::ChecksValid),
        (AdmissionRule::Missing, ChecksValid::CreatorsUnknown),
        (AdmissionRule::Unknown, ChecksValid::ChecksNotJudged),
    ] {
        let found = CheckFindings {
            creators,
            ..CheckFindings::default()
        };
        let verdict = verdict(&checks, &found);
        assert_eq!(verdict.reason, expected, "{}", verdict.message);
        if creators == AdmissionRule::Missing {
            let place = "spec.checkGrantedPermission.spec.checks[0].approvers.notRequester: ";
            assert!(verdict.message.starts_with(place), "{}", verdict.message);
        }
    }
}

#[test]
fn a_check_that_can_never_pass_is_named_with_its_place() {
    let tekton = |provenance| checks(&[("tekton.dev/v1", "PipelineRun", provenance)]);
    let found = CheckFindings::default();
    let never = verdict(&tekton("Auto"), &found);
    assert_eq!(never.reason, ChecksValid::ProofUnavailable);
    assert!(never.message.starts_with(AT), "{}", never.message);
    assert_eq!(
        verdict(&tekton("None"), &found).reason,
        ChecksValid::ChecksValid
    );
    let required = checks(&[("example.com/v1", "SignOff", "Required")]);
    assert_eq!(
        verdict(&required, &found).reason,
        ChecksValid::ProofUnavailable
    );
}

#[test]
fn a_policy_that_does_not_count_for_a_connector_says_for_which_and_how_many_do() {
    let found = CheckFindings {
        crowded: Some("harbor".to_owned()),
        ..CheckFindings::default()
    };
    let verdict = verdict(&[], &found);
    assert_eq!(verdict.reason, ChecksValid::TooManyPolicies);
    assert!(verdict.message.contains("64 older"), "{}", verdict.message);
    assert!(
        verdict.message.contains("connector harbor"),
        "{}",
        verdict.message
    );
}

#[test]
fn a_resource_is_written_as_kubectl_does() {
    let said = |group: &str| {
        let (group, plural) = (group.to_owned(), "configmaps".to_owned());
        Resource { group, plural }.to_string()
    };
    assert_eq!(said(""), "configmaps");
    assert_eq!(said("example.com"), "configmaps.example.com");
}

#[test]
fn a_proof_that_cannot_be_read_is_told_with_its_kind_and_what_helps() {
    let tekton = |provenance| {
        checks(&[(
            "openshift-pipelines.org/v1alpha1",
            "ApprovalTask",
            provenance,
        )])
    };
    let of = |kind: KindFound| {
        let between = ObjectKind {
            api_version: "tekton.dev/v1".to_owned(),
            kind: "TaskRun".to_owned(),
        };
        CheckFindings {
            kinds: BTreeMap::from([(between, kind)]),
            ..CheckFindings::default()
        }
    };
    let resource = Resource {
        group: "tekton.dev".to_owned(),
        plural: "taskruns".to_owned(),
    };
    for (kind, reason, words) in [
        (
            KindFound::Missing,
            ChecksValid::KindMissing,
            "no kind TaskRun of tekton.dev/v1",
        ),
        (
            KindFound::NotReadable(resource),
            ChecksValid::KindNotReadable,
            "add {apiGroup: tekton.dev, resources: [taskruns]} to checks.kinds",
        ),
    ] {
        let proven = verdict(&tekton("Auto"), &of(kind.clone()));
        assert_eq!(proven.reason, reason);
        for part in [AT, "needs a proof of its pipeline run", words] {
            assert!(proven.message.contains(part), "{}", proven.message);
        }
        // Labels need no proof.
        let believed = verdict(&tekton("None"), &of(kind));
        assert_eq!(believed.reason, ChecksValid::ChecksValid);
    }
}
