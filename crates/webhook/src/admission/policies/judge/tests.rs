use connectors_api::validate;
use serde_json::json;

use super::*;

fn finding(is_error: bool, path: &str) -> AdmissionFinding {
    AdmissionFinding {
        path: path.to_owned(),
        is_error,
        message: "is odd".to_owned(),
        fix: "leave it out".to_owned(),
    }
}

fn message(verdict: PolicyVerdict) -> (RefusalStatus, String) {
    match verdict.answer() {
        AdmissionAnswer::Refused(AdmissionRefusal { status, message }) => (status, message),
        AdmissionAnswer::Allowed { .. } => panic!("let through"),
    }
}

#[test]
fn every_problem_is_named_with_its_field_and_what_would_help() {
    let mut verdict = PolicyVerdict::found([finding(true, "spec.a"), finding(true, "spec.b")]);
    verdict.author(Author::MayNotAll);
    let (status, message) = message(verdict);
    assert_eq!(status, RefusalStatus::Invalid);
    let parts: Vec<&str> = message.split("; ").collect();
    assert_eq!(parts[0], "spec.a: is odd (leave it out)");
    assert_eq!(parts[1], "spec.b: is odd (leave it out)");
    assert!(message.contains("spec.connector: you may not update every connector"));
}

#[test]
fn of_an_author_who_was_not_asked_about_nothing_is_said_beside_other_problems() {
    let mut verdict = PolicyVerdict::found([finding(true, "spec.a")]);
    verdict.author(Author::Unasked);
    let only = "spec.a: is odd (leave it out)".to_owned();
    assert_eq!(message(verdict), (RefusalStatus::Invalid, only));
}

#[test]
fn warnings_let_a_policy_through_and_are_shown() {
    let mut verdict = PolicyVerdict::found([finding(false, "spec.a")]);
    verdict.author(Author::MayAll);
    let warnings = vec!["spec.a: is odd (leave it out)".to_owned()];
    let patch = None;
    assert_eq!(
        verdict.answer(),
        AdmissionAnswer::Allowed { patch, warnings }
    );
}

#[test]
fn an_author_hands_out_what_he_may_change() {
    let judged = |author| {
        let mut verdict = PolicyVerdict::default();
        verdict.author(author);
        verdict
    };
    for may in [Author::MayAll, Author::MayBut(Vec::new())] {
        assert!(may.may());
        assert_eq!(judged(may).answer(), AdmissionAnswer::allowed());
    }
    let names = |count: usize| Author::MayBut((0..count).map(|it| format!("c{it}")).collect());
    for (author, status, words) in [
        (
            Author::MayNotAll,
            RefusalStatus::Forbidden,
            "name those that you may",
        ),
        (
            names(2),
            RefusalStatus::Forbidden,
            "update c0, c1, and a policy",
        ),
        (names(9), RefusalStatus::Forbidden, "c6, c7 and more"),
        (Author::NoAnswer, RefusalStatus::Unavailable, "try again"),
        (Author::Unasked, RefusalStatus::Unavailable, "try again"),
    ] {
        assert!(!author.may());
        let (code, message) = message(judged(author));
        assert_eq!(code, status);
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn what_will_not_change_outweighs_what_may() {
    let mut verdict = PolicyVerdict::default().and(Defect::NobodyInTime);
    assert_eq!(message(verdict.clone()).0, RefusalStatus::Unavailable);
    verdict.author(Author::MayNotAll);
    assert_eq!(message(verdict).0, RefusalStatus::Forbidden);
}

#[test]
fn findings_keep_their_place_and_their_weight() {
    let validated = validate::policy(&json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": "p"}, "spec": {"conector": {}},
    }));
    let findings: Vec<AdmissionFinding> = validated.findings.into_iter().map(Into::into).collect();
    assert!(
        findings
            .iter()
            .any(|it| it.is_error && it.path == "spec.conector"),
        "{findings:?}"
    );
}

#[test]
fn what_somebody_else_finds_nothing_wrong_with_is_refused_all_the_same() {
    let (wrong, odd) = (finding(true, "spec.a"), finding(false, "spec.b"));
    let ours = PolicyVerdict::found([wrong.clone()]);
    let theirs = PolicyVerdict::found([odd]);
    assert_eq!(theirs.clone().or_else_of(ours.clone()), ours);
    assert_eq!(theirs.clone().or_else_of(PolicyVerdict::default()), theirs);
    let more = PolicyVerdict::found([wrong, finding(true, "spec.c")]);
    assert_eq!(more.clone().or_else_of(ours), more);
}
