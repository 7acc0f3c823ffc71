//! I1 broken and kept.

use super::*;

#[test]
fn each_read_must_be_there() {
    for (id, words) in [
        ("read-pod", "pod team/job was not read"),
        ("read-connector", "connector prod was not read"),
        ("read-policies", "policy release was not read"),
        (
            "read-signs",
            "objects of check sign (SignOff) were not listed in team",
        ),
        (
            "read-configs",
            "objects of check config (ConfigMap) were not listed in team",
        ),
    ] {
        world().without(&[id]).breaks(Rule::Fresh, words);
        let other = |event: &mut Value| event["user"] = user("second");
        world().edit(id, other).breaks(Rule::Fresh, words);
        world().moved(id, 5_009).breaks(Rule::Fresh, words);
        world().moved(id, 10_025).breaks(Rule::Fresh, words);
        for query in ["resourceVersion=0", "resourceVersion=77", "continue=abc"] {
            let cached = |event: &mut Value| event["requestURI"] = format!("/x?{query}").into();
            world().edit(id, cached).breaks(Rule::Fresh, words);
        }
        let failed = |event: &mut Value| event["responseStatus"]["code"] = 404.into();
        world().edit(id, failed).breaks(Rule::Fresh, words);
        let elsewhere = |event: &mut Value| event["objectRef"]["namespace"] = "elsewhere".into();
        world().edit(id, elsewhere).breaks(Rule::Fresh, words);
        let part = |event: &mut Value| event["objectRef"]["subresource"] = "status".into();
        world().edit(id, part).breaks(Rule::Fresh, words);
        let watch = |event: &mut Value| event["verb"] = "watch".into();
        world().edit(id, watch).breaks(Rule::Fresh, words);
    }
}

#[test]
fn five_seconds_are_just_fresh_enough() {
    let reads = [
        "read-pod",
        "read-connector",
        "read-policies",
        "read-signs",
        "read-configs",
    ];
    reads
        .iter()
        .fold(world(), |scene, id| scene.moved(id, 5_020))
        .keeps();
}

#[test]
fn each_half_of_a_grant_needs_fresh_reads() {
    world()
        .moved(BINDING, 15_000)
        .breaks(Rule::Fresh, "was not read");
}

#[test]
fn a_list_counts_for_connector_and_policy_but_not_for_the_pod() {
    let list = |event: &mut Value| {
        event["verb"] = "list".into();
        event["objectRef"]["name"] = "".into();
    };
    world().edit("read-connector", list).keeps();
    world()
        .edit("read-pod", list)
        .breaks(Rule::Fresh, "pod team/job was not read");
    let get = |name: &'static str| {
        move |event: &mut Value| {
            event["verb"] = "get".into();
            event["objectRef"]["name"] = name.into();
        }
    };
    world().edit("read-policies", get("release")).keeps();
    world()
        .edit("read-policies", get("other"))
        .breaks(Rule::Fresh, "policy release was not read");
    world()
        .edit("read-signs", get("sign-1"))
        .breaks(Rule::Fresh, "were not listed");
}

#[test]
fn evidence_comes_first() {
    let words = "no status with its evidence";
    world()
        .without(&[EVIDENCE])
        .moved("status-granted", 10_040)
        .breaks(Rule::Fresh, words);
    world().moved(EVIDENCE, 10_015).breaks(Rule::Fresh, words);
    let failed = |event: &mut Value| event["responseStatus"]["code"] = 409.into();
    world().edit(EVIDENCE, failed).breaks(Rule::Fresh, words);
    let stranger = |event: &mut Value| event["user"] = user("admin");
    world().edit(EVIDENCE, stranger).breaks(Rule::Fresh, words);
    for (pointer, value) in [
        ("/responseObject/status/evidence", json!("")),
        ("/responseObject/status/policies", json!([])),
        (
            "/responseObject/status/policies/0/policy/metadata/uid",
            json!("another"),
        ),
    ] {
        world()
            .edit(EVIDENCE, |event| {
                *event.pointer_mut(pointer).unwrap() = value;
            })
            .breaks(Rule::Fresh, words);
    }
    let dry = |event: &mut Value| event["requestURI"] = "/x?dryRun=All".into();
    world().edit(EVIDENCE, dry).breaks(Rule::Fresh, words);
}

fn check_ref(scene: World, change: impl FnOnce(&mut Value)) -> World {
    scene.edit(EVIDENCE, |event| {
        change(&mut event["responseObject"]["status"]["policies"][0]["checkRefs"]);
    })
}

#[test]
fn every_check_has_passed_in_the_evidence() {
    let words = "check sign had not passed";
    for state in ["pending", "rejected", "", "Approved"] {
        check_ref(world(), |refs| refs[0]["status"]["state"] = state.into())
            .breaks(Rule::Fresh, words);
    }
    check_ref(world(), |refs| refs[0]["status"]["state"] = "passed".into()).keeps();
    check_ref(world(), |refs| {
        refs.as_array_mut().unwrap().remove(0);
    })
    .breaks(Rule::Fresh, words);
    check_ref(world(), |refs| {
        refs[0].as_object_mut().unwrap().remove("ref");
    })
    .breaks(Rule::Fresh, words);
    check_ref(world(), |refs| *refs = json!([])).breaks(Rule::Fresh, words);
}

fn second_object(state: &str, match_: Option<&str>) -> World {
    let scene = check_ref(world(), |refs| {
        let mut second = refs[0].clone();
        second["ref"]["name"] = "sign-2".into();
        second["status"]["state"] = state.into();
        refs.as_array_mut().unwrap().push(second);
    });
    scene.edit(EVIDENCE, |event| {
        let checks =
            "/responseObject/status/policies/0/policy/spec/checkGrantedPermission/spec/checks/0";
        if let Some(word) = match_ {
            event.pointer_mut(checks).unwrap()["match"] = word.into();
        }
    })
}

#[test]
fn all_objects_must_have_passed_unless_any_is_enough() {
    second_object("approved", None).keeps();
    second_object("pending", None).breaks(Rule::Fresh, "check sign had not passed");
    second_object("pending", Some("All")).breaks(Rule::Fresh, "check sign had not passed");
    second_object("pending", Some("Any")).keeps();
}

#[test]
fn a_policy_without_checks_grants_nothing() {
    let mut scene = world();
    scene.get("create-policy")["responseObject"]["spec"] = json!({});
    let pointer = "/responseObject/status/policies/0/policy/spec";
    *scene.get(EVIDENCE).pointer_mut(pointer).unwrap() = json!({});
    scene.breaks(Rule::Fresh, "no checks");
    // The body in the log stands in for one that the evidence left out.
    world()
        .edit(EVIDENCE, |event| {
            *event.pointer_mut(pointer).unwrap() = json!({});
        })
        .keeps();
}

#[test]
fn a_check_is_decided_in_the_pods_namespace() {
    check_ref(world(), |refs| refs[0]["ref"]["namespace"] = NS.into()).keeps();
    check_ref(world(), |refs| refs[0]["ref"]["namespace"] = "other".into())
        .breaks(Rule::Fresh, "another namespace");
}

#[test]
fn what_was_gone_cannot_have_been_read() {
    let gone = |ms, resource: &str, name: &str| call("gone", ms, "admin", "delete", resource, name);
    for (resource, name, words) in [
        (CONNECTORS, "prod", "connector was gone"),
        (SIGN_OFFS, "sign-1", "sign-1 of check sign was gone"),
    ] {
        world()
            .plus(gone(8_000, resource, name))
            .breaks(Rule::Fresh, words);
        let mut all = gone(8_000, resource, "");
        all["verb"] = "deletecollection".into();
        world().plus(all).breaks(Rule::Fresh, words);
        let back = call("back", 8_500, "admin", "create", resource, name);
        world().plus(gone(8_000, resource, name)).plus(back).keeps();
        // A race that the revocation has to settle.
        world().plus(gone(9_500, resource, name)).keeps();
        world().plus(gone(8_000, resource, "another")).keeps();
    }
    // Its revocation is late as well, since its end came before the grant.
    let report = world().plus(gone(3_000, POLICIES, "release")).report();
    assert!(
        report
            .to_string()
            .contains("I1: Role team/car-req-uid-0badcafe: its policy was gone"),
        "{report}"
    );
}

#[test]
fn a_pod_that_ended_or_was_replaced_is_not_the_one_that_asked() {
    let by = |who: &str, ms| call("gone", ms, who, "delete", PODS, "job");
    for event in [
        by("system:node:one", 8_000),
        by(wire::POD_GARBAGE_COLLECTOR, 8_000),
        call("next", 8_500, "admin", "create", PODS, "job"),
    ] {
        let report = world().plus(event).report();
        assert!(
            report
                .to_string()
                .contains("its pod was gone or replaced when it was read"),
            "{report}"
        );
    }
    // Asked to end, but not ended; and one of the name that ended before the request was there.
    world().plus(by("admin", 8_000)).keeps();
    world().plus(by("system:node:one", 100)).keeps();
}

#[test]
fn a_deleted_request_is_granted_nothing() {
    let words = "its request was deleted when";
    let gone = |ms| call("gone", ms, "admin", "delete", REQUESTS, "req");
    assert!(
        world()
            .plus(gone(8_000))
            .report()
            .to_string()
            .contains(words)
    );
    assert!(
        !world()
            .plus(gone(9_500))
            .report()
            .to_string()
            .contains(words)
    );
}

#[test]
fn nobody_else_writes_grants() {
    for id in [ROLE, BINDING] {
        world()
            .edit(id, |event| event["user"] = user("admin"))
            .breaks(Rule::Fresh, "written by admin");
    }
}

#[test]
fn other_peoples_roles_are_theirs() {
    let mut other = role();
    other["metadata"]["labels"] = json!({});
    world()
        .plus(with(
            call("other", 30_000, "admin", "create", ROLES, ""),
            other,
        ))
        .keeps();
}

#[test]
fn a_dry_run_is_no_grant() {
    let mut scene = world();
    for id in [ROLE, BINDING] {
        scene.get(id)["requestURI"] = "/x?dryRun=All".into();
    }
    assert_eq!(scene.report().seen.grants, 0);
}

#[test]
fn a_refused_attempt_is_counted_and_no_grant() {
    let refused = |event: &mut Value| event["responseStatus"]["code"] = 403.into();
    let report = world()
        .without(&["delete-role"])
        .edit(ROLE, refused)
        .keeps();
    assert_eq!((report.seen.grants, report.seen.refused_grants), (1, 1));
}

#[test]
fn an_attempt_that_may_have_been_carried_out_is_judged() {
    let lost = |event: &mut Value| {
        event["responseStatus"]["code"] = 504.into();
        event["requestObject"] = event["responseObject"].take();
        event["responseObject"] = json!({"kind": "Status"});
    };
    world().edit(BINDING, lost).keeps();
    world()
        .edit(BINDING, lost)
        .without(&["read-pod", ROLE, "delete-role"])
        .breaks(Rule::Fresh, "was not read");
}

#[test]
fn a_grant_made_by_another_verb_is_a_grant() {
    for verb in ["patch", "update"] {
        let applied = |event: &mut Value| {
            event["verb"] = verb.into();
            event["responseStatus"]["code"] = 201.into();
            event["user"] = user("admin");
        };
        world()
            .edit(BINDING, applied)
            .breaks(Rule::Fresh, "written by admin");
    }
}

#[test]
fn a_grant_for_no_known_request_is_not_overlooked() {
    let mut scene = world();
    for grant in scene.grants() {
        let text = grant.to_string().replace("req-uid", "unknown");
        *grant = serde_json::from_str(&text).unwrap();
    }
    scene.breaks(Rule::Fresh, "its request was not seen");
}

#[test]
fn who_writes_standing_permissions_grants_nothing_to_a_request() {
    let by =
        |user: &'static str| move |event: &mut Value| event["user"] = json!({"username": user});
    let standing = |event: &mut Value| {
        let labels = &mut event["responseObject"]["metadata"]["labels"];
        labels[wire::REQUEST_UID].take();
        event["responseObject"]["metadata"]["name"] = "policy-pol-uid".into();
    };
    let extra = |change: &dyn Fn(&mut Value)| {
        let mut event = with(call("extra", 9_500, "", "create", ROLES, ""), role());
        change(&mut event);
        world().plus(event)
    };
    let ours = by(wire::POLICY_CONTROLLER);
    extra(&|event| {
        ours(event);
        standing(event);
    })
    .keeps();
    world()
        .edit(ROLE, by(wire::POLICY_CONTROLLER))
        .breaks(Rule::Fresh, "who decides nothing");
    let report = extra(&|event| {
        by("mallory")(event);
        standing(event);
    })
    .report();
    assert!(report.to_string().contains("mallory"), "{report}");
}

/// A Role that was written while its approval was awaited, after a status with these rules.
fn prepared(rules: Value) -> World {
    world()
        .edit("status-pending", |event| {
            let entry = &mut event["responseObject"]["status"]["policies"][0];
            entry["grant"] = Value::Null;
            entry["preparedRules"] = rules;
        })
        .moved(ROLE, 2_000)
}

#[test]
fn a_role_may_be_written_in_advance_where_a_status_says_so_and_its_binding_may_not() {
    let other = json!([{"resources": ["connectors/apis/v1/pod/team/job"], "verbs": ["get"]}]);
    prepared(rules()).keeps();
    for wrong in [Value::Null, json!([]), other] {
        prepared(wrong).breaks(Rule::Fresh, "was not read before");
    }
    prepared(rules())
        .moved(BINDING, 2_010)
        .breaks(Rule::Fresh, "was not read before");
}

#[test]
fn a_binding_to_a_prepared_role_needs_the_rules_that_were_decided() {
    prepared(rules())
        .edit(EVIDENCE, |event| {
            let policy = &mut event["responseObject"]["status"]["policies"][0];
            policy["grant"]["rules"][0]["verbs"] = json!(["get"]);
        })
        .breaks(Rule::Fresh, "its Role has other rules than were decided");
}
