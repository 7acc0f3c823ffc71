use std::collections::BTreeMap;

use connectors_api::{
    AccessPolicy,
    access_policy::{Latch, Match},
    access_request::MatchedPolicy,
    check_selector::CompiledPolicy,
    reason::AccessCheckReady::{
        self, AccessCheckFailed as Failed, AccessCheckPassed as Passed,
        AccessCheckPending as Pending, AccessCheckRejected as Rejected,
    },
    shared_fields::SharedFields,
};
use evaluation_api::{
    v1::{CheckResult, EvaluateChecksResponse, GrantedRule, ObjectResult},
    verdict::to_wire,
};
use serde_json::{Value, json};

use super::scene::{RESOURCE, Scene, policy_object, request};
use crate::{check_object::ObjectText, seen::EvidenceState};
use crate::{
    selection::{self, CheckCandidates, CheckTrouble, FoundCandidates, Selection, WantedObjects},
    verdict::{self, EvidenceLook},
};

fn pod() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
        "name": "run-deploy-pod", "namespace": "apps", "uid": "pod-uid", "annotations": {"run": "a"},
    }})
}

fn wanted() -> Vec<WantedObjects> {
    looked_for(policy_object("p", &json!({})))
}

fn looked_for(policy: AccessPolicy) -> Vec<WantedObjects> {
    selection::wanted(
        &CompiledPolicy::of(policy, None),
        &pod(),
        &SharedFields::default(),
    )
}

fn object(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"run": "run-deploy-pod"}}})
}

fn text(name: &str) -> ObjectText {
    object(name).to_string().into()
}

fn has_labels(selection: &Selection, object: &Value) -> bool {
    selection.has_labels(|key| object["metadata"]["labels"][key].as_str())
}

fn said(verdict: AccessCheckReady, objects: &[AccessCheckReady]) -> EvaluateChecksResponse {
    let result = |it: &AccessCheckReady| ObjectResult {
        uid: format!("{it}-uid"),
        verdict: to_wire(*it).into(),
        ..ObjectResult::default()
    };
    EvaluateChecksResponse {
        verdict: to_wire(verdict).into(),
        checks: vec![CheckResult {
            check: "approval".to_owned(),
            verdict: to_wire(verdict).into(),
            objects: objects.iter().map(result).collect(),
            ..CheckResult::default()
        }],
        rules: vec![GrantedRule {
            verbs: vec!["*".to_owned()],
            resources: vec![RESOURCE.to_owned()],
        }],
        ..EvaluateChecksResponse::default()
    }
}

/// Objects that were read, and perhaps one that was not.
fn candidates(names: &[&str], is_unread: bool) -> CheckCandidates {
    let unread = is_unread.then(|| (CheckTrouble::ObjectUnreadable, "it is large".to_owned()));
    let texts = names.iter().map(|it| text(it)).collect();
    CheckCandidates { texts, unread }
}

fn verdict(found: FoundCandidates, said: Option<&EvaluateChecksResponse>) -> AccessCheckReady {
    verdict::answer(&request(), &wanted(), &[found], said).verdict
}

#[test]
fn a_check_looks_for_its_rendered_labels_in_full() {
    let wanted = wanted();
    let selection = wanted[0].selection.as_ref().unwrap();
    assert_eq!(selection.labels.to_string(), "run=run-deploy-pod");
    assert!(has_labels(selection, &object("a")));
    for other in [
        json!({}),
        json!({"metadata": {}}),
        json!({"metadata": {"labels": {}}}),
        json!({"metadata": {"labels": {"run": "deploy-2"}}}),
        json!({"metadata": {"labels": {"run": 1}}}),
    ] {
        assert!(!has_labels(selection, &other), "{other}");
    }
}

/// Whether something is found would tell the author of the policy what a field holds.
#[test]
fn a_policy_of_another_namespace_selects_by_no_field_that_is_not_shared() {
    let selects = |namespace: &str, shared: &str| {
        let mut policy = policy_object("p", &json!({}));
        policy.metadata.namespace = Some(namespace.to_owned());
        let granted = policy.spec.check_granted_permission.as_mut().unwrap();
        let fields = BTreeMap::from([("data.verdict".to_owned(), "yes".to_owned())]);
        granted.spec.checks[0].selector.field_selector = Some(fields);
        let shared = SharedFields::parse(shared).unwrap();
        let wanted = selection::wanted(&CompiledPolicy::of(policy, None), &pod(), &shared);
        wanted[0].selection.clone().map(|it| it.fields.is_some())
    };
    assert_eq!(selects("apps", "[]"), Ok(true));
    let refused = selects("tools", "[]").unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("data.verdict is not shared"), "{refused}");
    let list = r#"[{"apiVersion": "v1", "kind": "ConfigMap", "fields": ["data.verdict"]}]"#;
    assert_eq!(selects("tools", list), Ok(true));
}

#[test]
fn a_policy_of_another_namespace_sees_only_who_the_pod_is() {
    let mut policy = policy_object("p", &json!({}));
    let granted = policy.spec.check_granted_permission.as_mut().unwrap();
    let labels = &mut granted.spec.checks[0].selector.labels;
    labels.insert(
        "run".to_owned(),
        "{.object.metadata.annotations.run}".to_owned(),
    );
    policy.metadata.namespace = Some("tools".to_owned());
    assert!(looked_for(policy.clone())[0].selection.is_err());
    policy.metadata.namespace = Some("apps".to_owned());
    assert!(looked_for(policy.clone())[0].selection.is_ok());
}

#[test]
fn only_an_answer_that_is_borne_out_passes() {
    let one = || Ok(candidates(&["a"], false));
    let two = || Ok(candidates(&["a", "b"], false));
    assert_eq!(verdict(one(), Some(&said(Passed, &[Passed]))), Passed);
    assert_eq!(
        verdict(two(), Some(&said(Passed, &[Passed, Passed]))),
        Passed
    );
    for (found, answer, expected) in [
        (one(), None, Failed),
        (Ok(candidates(&[], false)), Some(said(Passed, &[])), Pending),
        (Ok(candidates(&[], false)), None, Pending),
        (one(), Some(said(Passed, &[])), Failed),
        (two(), Some(said(Passed, &[Passed])), Failed),
        (two(), Some(said(Passed, &[Passed, Pending])), Failed),
        (one(), Some(said(Pending, &[Passed])), Pending),
        (one(), Some(said(Rejected, &[Rejected])), Rejected),
        (one(), Some(said(Failed, &[Passed])), Failed),
        (one(), Some(EvaluateChecksResponse::default()), Failed),
        (
            Err((CheckTrouble::KindMissing, String::new())),
            Some(said(Passed, &[Passed])),
            Failed,
        ),
    ] {
        assert_eq!(verdict(found, answer.as_ref()), expected, "{answer:?}");
    }
}

/// One junk object with copied labels must not refuse the honest one of `match: Any`, nor hide a certain no.
#[test]
fn an_object_that_was_not_read_decides_only_where_the_others_do_not() {
    for (match_, judged, expected) in [
        (Match::Any, Passed, Passed),
        (Match::Any, Rejected, Failed),
        (Match::All, Passed, Failed),
        (Match::All, Rejected, Rejected),
        (Match::Any, Pending, Failed),
        (Match::All, Pending, Failed),
        (Match::All, Failed, Failed),
    ] {
        let mut wanted = wanted();
        wanted[0].match_ = match_;
        let said = said(judged, &[judged]);
        let found = [Ok(candidates(&["a"], true))];
        let answer = verdict::answer(&request(), &wanted, &found, Some(&said));
        assert_eq!(answer.verdict, expected, "{match_:?} {judged:?}");
        let is_told = answer.checks[0].reason == "ObjectUnreadable";
        assert_eq!(is_told, expected == Failed, "{match_:?} {judged:?}");
    }
    assert_eq!(verdict(Ok(candidates(&[], true)), None), Failed);
}

#[test]
fn checks_that_pass_grant_nothing_without_rules_that_may_be_granted() {
    let mut cases = vec![said(Passed, &[Passed]); 5];
    cases[0].rules.clear();
    cases[1].rules[0].resources[0] = "connectors/apis".to_owned();
    cases[2].rules[0].verbs.clear();
    cases[3].verdict = to_wire(Pending).into();
    cases[4].verdict = 99;
    for said in cases {
        let answer = verdict::answer(
            &request(),
            &wanted(),
            &[Ok(candidates(&["a"], false))],
            Some(&said),
        );
        assert_eq!(answer.verdict, Failed);
        assert!(answer.rules.is_empty() && answer.refusal.is_some());
    }
    // Who rendered none says why, if it knows.
    for (told, refusal) in [
        ("no label", "no label"),
        (
            "",
            "the policy's rules are not about this pod's use of connectors alone",
        ),
    ] {
        let mut none = said(Passed, &[Passed]);
        none.rules.clear();
        none.rules_message = told.to_owned();
        let answer = verdict::answer(
            &request(),
            &wanted(),
            &[Ok(candidates(&["a"], false))],
            Some(&none),
        );
        assert_eq!(answer.refusal.as_deref(), Some(refusal));
    }
}

fn entry(match_: &str, latch: Latch, objects: usize) -> MatchedPolicy {
    let scene = Scene::granted();
    let mut entry = scene.status().policies[0].clone();
    let check = entry.policy.0["spec"]["checkGrantedPermission"]["spec"]["checks"][0]
        .as_object_mut()
        .unwrap();
    check.insert("match".to_owned(), match_.into());
    check.insert("latch".to_owned(), serde_json::to_value(latch).unwrap());
    let reference = entry.check_refs[0].clone();
    entry.check_refs = (0..objects)
        .map(|index| {
            let mut reference = reference.clone();
            reference.ref_.as_mut().unwrap().uid = Some(format!("uid-{index}"));
            reference
        })
        .collect();
    entry
}

#[test]
fn what_counts_after_the_grant() {
    use Latch::{Auto, Once, WhileHolds};
    let (here, gone, unknown) = (
        EvidenceLook::There,
        EvidenceLook::Gone,
        EvidenceLook::Unknown,
    );
    let (holds, lapses, unsure) = ("holds", "lapses", "unsure");
    for (match_, latch, looked, answer, expected) in [
        ("All", Auto, vec![&here], Some(Passed), holds),
        ("All", Auto, vec![&here], Some(Pending), lapses),
        ("All", Auto, vec![&here], Some(Failed), lapses),
        ("All", Auto, vec![&here], Some(Rejected), lapses),
        ("All", Auto, vec![&here], None, unsure),
        ("All", Auto, vec![&gone], None, holds),
        ("All", Auto, vec![&gone, &here], Some(Passed), holds),
        ("All", Auto, vec![&gone, &here], Some(Pending), lapses),
        ("All", Auto, vec![&unknown], Some(Passed), unsure),
        ("All", WhileHolds, vec![&here], Some(Passed), holds),
        ("All", WhileHolds, vec![&gone], None, lapses),
        ("All", WhileHolds, vec![&gone, &here], Some(Passed), lapses),
        ("Any", Auto, vec![&gone, &here], Some(Pending), holds),
        ("Any", Auto, vec![&here, &here], Some(Pending), lapses),
        ("Any", Auto, vec![&here, &here], Some(Passed), holds),
        ("Any", WhileHolds, vec![&gone, &here], Some(Passed), holds),
        ("Any", WhileHolds, vec![&gone, &here], Some(Pending), lapses),
        ("Any", WhileHolds, vec![&gone, &gone], None, lapses),
        ("All", Once, vec![&here], Some(Rejected), holds),
        ("All", Once, vec![&gone], None, holds),
        ("All", Once, vec![], None, holds),
        ("All", Auto, vec![], Some(Passed), lapses),
        ("Any", Auto, vec![], Some(Passed), lapses),
    ] {
        let entry = entry(match_, latch, looked.len());
        let by_uid: BTreeMap<_, _> = looked
            .iter()
            .enumerate()
            .map(|(index, it)| (format!("uid-{index}"), (*it).clone()))
            .collect();
        let there = looked.iter().filter(|it| ***it == EvidenceLook::There);
        let said = answer.map(|it| said(it, &vec![it; there.count()]));
        let held = match verdict::held(&entry, &by_uid, said.as_ref()) {
            EvidenceState::Holds => holds,
            EvidenceState::Lapsed { .. } => lapses,
            EvidenceState::Unknown => unsure,
        };
        assert_eq!(held, expected, "{match_} {latch:?} {looked:?} {answer:?}");
    }
}

/// The object that was left out may be the one that was withdrawn.
#[test]
fn an_answer_about_fewer_objects_than_there_are_confirms_no_grant() {
    let looked = ["uid-0", "uid-1"].map(|uid| (uid.to_owned(), EvidenceLook::There));
    let looked = BTreeMap::from(looked);
    for (match_, expected) in [
        ("All", EvidenceState::Unknown),
        ("Any", EvidenceState::Holds),
    ] {
        let entry = entry(match_, Latch::Auto, 2);
        let held = verdict::held(&entry, &looked, Some(&said(Passed, &[Passed])));
        assert_eq!(held, expected, "{match_}");
    }
}

#[test]
fn a_check_that_was_left_out_or_whose_evidence_cannot_be_read_lapses() {
    let entry = entry("All", Latch::Auto, 1);
    let looked = BTreeMap::from([("uid-0".to_owned(), EvidenceLook::There)]);
    let empty = EvaluateChecksResponse::default();
    assert!(matches!(
        verdict::held(&entry, &looked, Some(&empty)),
        EvidenceState::Lapsed { .. }
    ));
    let mut broken = entry;
    broken.policy.0.remove("spec");
    assert!(matches!(
        verdict::held(&broken, &looked, Some(&said(Passed, &[]))),
        EvidenceState::Lapsed { .. }
    ));
    assert!(verdict::to_look_at(&broken).is_none());
}

#[test]
fn what_had_to_hold_only_once_is_not_looked_at_again() {
    let mut entry = entry("All", Latch::Once, 1);
    let checks = entry.policy.0["spec"]["checkGrantedPermission"]["spec"]["checks"].as_array_mut();
    let checks = checks.unwrap();
    let mut other = checks[0].clone();
    other["name"] = "other".into();
    other["latch"] = "Auto".into();
    checks.push(other);
    let mut reference = entry.check_refs[0].clone();
    reference.name = "other".to_owned();
    entry.check_refs.push(reference);
    let names: Vec<_> = verdict::to_look_at(&entry)
        .unwrap()
        .into_iter()
        .map(|it| it.reference.name.as_str())
        .collect();
    assert_eq!(names, ["other"]);
}

/// In any order: what ended must not wait for what nobody can look at.
#[test]
fn a_check_that_stopped_holding_ends_the_grant_whatever_is_known_of_the_others() {
    let names = ["a", "b", "c"];
    let states = [
        (EvidenceLook::There, Passed),
        (EvidenceLook::Unknown, Passed),
        (EvidenceLook::There, Pending),
    ];
    let one = entry("All", Latch::Auto, 1);
    let mut entry = one.clone();
    let checks = &mut entry.policy.0["spec"]["checkGrantedPermission"]["spec"]["checks"];
    let check = checks[0].clone();
    *checks = names
        .iter()
        .map(|name| {
            let mut check = check.clone();
            check["name"] = (*name).into();
            check
        })
        .collect();
    entry.check_refs = names
        .iter()
        .map(|name| {
            let mut reference = one.check_refs[0].clone();
            (*name).clone_into(&mut reference.name);
            reference.ref_.as_mut().unwrap().uid = Some((*name).to_owned());
            reference
        })
        .collect();
    for number in 0..27 {
        let of = [number % 3, number / 3 % 3, number / 9].map(|it: usize| &states[it]);
        let looked = names.iter().zip(of);
        let looked = looked.map(|(name, (looked, _))| ((*name).to_owned(), looked.clone()));
        let looked: BTreeMap<_, _> = looked.collect();
        let mut said = said(Passed, &[Passed]);
        let result = said.checks.remove(0);
        said.checks = names
            .iter()
            .zip(of)
            .map(|(name, (_, verdict))| CheckResult {
                check: (*name).to_owned(),
                verdict: to_wire(*verdict).into(),
                ..result.clone()
            })
            .collect();
        let held = verdict::held(&entry, &looked, Some(&said));
        if of.iter().any(|it| it.1 == Pending) {
            assert!(
                matches!(held, EvidenceState::Lapsed { .. }),
                "{of:?}: {held:?}"
            );
        } else if of.iter().any(|it| it.0 == EvidenceLook::Unknown) {
            assert_eq!(held, EvidenceState::Unknown, "{of:?}");
        } else {
            assert_eq!(held, EvidenceState::Holds, "{of:?}");
        }
    }
}
