//! I2 broken and kept.

use super::*;

/// The scene up to the grant.
fn granted() -> World {
    world().without(&[
        "delete-pod",
        "end-pod",
        "status-ended",
        "delete-binding",
        "delete-role",
        "status-revoked",
    ])
}

fn deletes(scene: World, ms: i64) -> World {
    let gone = |id, resource, ms| {
        with(
            call(id, ms, "controller", "delete", resource, GRANT),
            json!({"kind": "Status"}),
        )
    };
    scene
        .plus(gone("delete-binding", BINDINGS, ms))
        .plus(gone("delete-role", ROLES, ms + 1))
}

#[test]
fn a_grant_whose_reasons_hold_stays() {
    let report = granted().keeps();
    assert_eq!((report.seen.ended_grants, report.revocations.len()), (0, 0));
}

#[test]
fn every_end_ends_the_grant() {
    let request_gone = call("end", 20_000, "admin", "delete", REQUESTS, "req");
    let policy_gone = call("end", 20_000, "admin", "delete", POLICIES, "release");
    let mut all_policies = call("end", 20_000, "admin", "deletecollection", POLICIES, "");
    all_policies["responseObject"] = json!({"items": [policy()]});
    let ends = [
        (request_gone, "request was deleted"),
        (policy_gone, "policy was deleted"),
        (all_policies, "policy was deleted"),
        (
            status_write("end", 20_000, "Rejected", "Granted"),
            "became final",
        ),
        (
            status_write("end", 20_000, "Revoked", "Granted"),
            "became final",
        ),
        (
            status_write("end", 20_000, "Invalid", "Granted"),
            "became final",
        ),
        (
            status_write("end", 20_000, "Granted", "Ended"),
            "policy ended",
        ),
        (
            call("end", 20_000, "system:node:one", "delete", PODS, "job"),
            "pod was removed",
        ),
        (
            call("end", 20_000, "admin", "create", PODS, "job"),
            "pod was removed",
        ),
    ];
    for (end, words) in ends {
        granted().plus(end.clone()).breaks(Rule::Revoked, words);
        deletes(granted().plus(end.clone()), 26_000).breaks(Rule::Revoked, words);
        let report = deletes(granted().plus(end), 24_000).keeps();
        assert!(report.revocations[0].why.contains(words), "{report}");
        assert_eq!(report.p99(), Some(SignedDuration::from_secs(4)));
    }
}

#[test]
fn what_is_none_of_the_grants_business_ends_nothing() {
    let mut elsewhere = call("end", 20_000, "admin", "delete", REQUESTS, "req");
    elsewhere["objectRef"]["namespace"] = "elsewhere".into();
    let mut chosen = call("end", 20_000, "admin", "deletecollection", POLICIES, "");
    chosen["requestURI"] = "/x?labelSelector=a%3Db".into();
    let mut part = call("end", 20_000, "system:node:one", "delete", PODS, "job");
    part["objectRef"]["subresource"] = "eviction".into();
    for end in [
        elsewhere,
        chosen,
        part,
        call("end", 20_000, "admin", "delete", REQUESTS, "other"),
        call("end", 20_000, "admin", "delete", PODS, "job"),
        call("end", 20_000, "system:node:one", "delete", PODS, "other"),
    ] {
        granted().plus(end).keeps();
    }
}

#[test]
fn the_test_knows_of_ends_that_the_log_does_not_show() {
    let pod = |uid: &'static str| {
        move |observer: &mut Observer| observer.pod_ended(NS, "job", uid, at(20_000))
    };
    expect(
        &granted().observe(pod("pod-uid")),
        Rule::Revoked,
        "its pod ended",
    );
    expect(&granted().observe(pod("")), Rule::Revoked, "its pod ended");
    granted().observe(pod("another")).assert_kept();
    granted()
        .observe(|observer| observer.pod_ended(NS, "other", "", at(20_000)))
        .assert_kept();
    granted()
        .observe(|observer| observer.pod_ended("elsewhere", "job", "", at(20_000)))
        .assert_kept();
    let before_the_request = |observer: &mut Observer| observer.pod_ended(NS, "job", "", at(900));
    granted().observe(before_the_request).assert_kept();

    let approval = |policy: &'static str| {
        move |observer: &mut Observer| observer.approval_ended(NS, "job", policy, at(20_000))
    };
    expect(
        &granted().observe(approval("release")),
        Rule::Revoked,
        "its approval ended",
    );
    granted().observe(approval("other")).assert_kept();
    let report = deletes(granted(), 20_100).observe(approval("release"));
    report.assert_kept();
    assert_eq!(report.p99(), Some(SignedDuration::from_millis(102)));
}

#[test]
fn one_half_that_stays_is_seen() {
    for (gone, left) in [
        ("delete-binding", "Role team"),
        ("delete-role", "RoleBinding team"),
    ] {
        let other = if gone == "delete-role" {
            "delete-binding"
        } else {
            "delete-role"
        };
        let report = world().without(&[other]).report();
        expect(&report, Rule::Revoked, "still there");
        assert!(
            report
                .violations
                .iter()
                .all(|violation| violation.about.starts_with(left)),
            "{report}"
        );
    }
}

#[test]
fn a_grant_that_had_no_time_yet_is_open() {
    let mut scene = world().without(&["delete-binding", "delete-role"]);
    scene.end = 24_000;
    let report = scene.keeps();
    assert_eq!((report.seen.ended_grants, report.seen.open_grants), (2, 2));
}

#[test]
fn what_was_gone_before_its_reason_was_not_revoked() {
    let report = deletes(granted(), 15_000)
        .observe(|observer| observer.pod_ended(NS, "job", "", at(20_000)));
    report.assert_kept();
    assert_eq!((report.seen.ended_grants, report.revocations.len()), (0, 0));
}

#[test]
fn a_grant_that_comes_after_its_end_is_timed_from_its_beginning() {
    let ended = |observer: &mut Observer| observer.approval_ended(NS, "job", "release", at(3_000));
    let report = deletes(granted(), 10_500).observe(ended);
    report.assert_kept();
    assert_eq!(report.p99(), Some(SignedDuration::from_millis(480)));
    expect(
        &deletes(granted(), 16_000).observe(ended),
        Rule::Revoked,
        "was gone only",
    );
}

#[test]
fn an_outage_does_not_count() {
    let late = || deletes(world().without(&["delete-binding", "delete-role"]), 40_000);
    expect(&late().report(), Rule::Revoked, "was gone only");
    let covered = |observer: &mut Observer| observer.outage(at(15_000), at(38_000));
    late().observe(covered).assert_kept();
    // Two that overlap count once: the rest is too long.
    let twice = |observer: &mut Observer| {
        observer.outage(at(21_000), at(30_000));
        observer.outage(at(20_000), at(30_000));
    };
    expect(&late().observe(twice), Rule::Revoked, "was gone only");
    let over = |observer: &mut Observer| observer.outage(at(1_000), at(19_000));
    expect(&late().observe(over), Rule::Revoked, "was gone only");
}

#[test]
fn a_deletion_that_something_holds_up_has_not_taken_place() {
    let held = json!({"kind": "RoleBinding", "metadata": {"finalizers": ["a/b"], "deletionTimestamp": "2026-11-21T12:00:21Z"}});
    let scene = || {
        world().edit("delete-binding", |event| {
            event["responseObject"] = held.clone();
        })
    };
    scene().breaks(Rule::Revoked, "still there");
    let mut freed = binding();
    freed["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:21Z".into();
    let mut all = call(
        "all",
        20_498,
        "namespaces",
        "deletecollection",
        BINDINGS,
        "",
    );
    let mut item = held.clone();
    item["metadata"]["name"] = GRANT.into();
    all["responseObject"] = json!({"kind": "RoleBindingList", "items": [item]});
    let by_all = world().without(&["delete-binding"]).plus(all);
    by_all.breaks(Rule::Revoked, "still there");
    let let_go = with(
        call("let-go", 22_000, "admin", "patch", BINDINGS, GRANT),
        freed,
    );
    scene().plus(let_go).keeps();
}

#[test]
fn a_failed_deletion_deletes_nothing() {
    for code in [403, 409, 500] {
        world()
            .edit("delete-binding", |event| {
                event["responseStatus"]["code"] = code.into();
            })
            .breaks(Rule::Revoked, "still there");
    }
}

#[test]
fn whoever_deletes_it_it_is_gone() {
    world()
        .edit("delete-binding", |event| event["user"] = user("admin"))
        .keeps();
    let mut all = call(
        "all",
        20_200,
        "namespaces",
        "deletecollection",
        BINDINGS,
        "",
    );
    all["responseObject"] = json!({"kind": "RoleBindingList", "items": [binding()]});
    world().without(&["delete-binding"]).plus(all).keeps();
}

#[test]
fn the_slowest_of_a_hundred_shows() {
    let report = |times: Vec<i64>| Report {
        violations: Vec::new(),
        seen: super::super::Seen::default(),
        revocations: times
            .into_iter()
            .map(|ms| super::super::Revocation {
                about: String::new(),
                why: String::new(),
                took: SignedDuration::from_millis(ms),
            })
            .collect(),
        until: at(0),
    };
    assert_eq!(report(vec![7]).p99(), Some(SignedDuration::from_millis(7)));
    assert_eq!(
        report((1..=100).rev().collect()).p99(),
        Some(SignedDuration::from_millis(99))
    );
    assert_eq!(
        report((1..=101).collect()).p99(),
        Some(SignedDuration::from_millis(100))
    );
}
