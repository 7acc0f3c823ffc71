//! Honest runs are proven; forged ones never are.

mod after;
mod forgeries;
mod links;
mod live;
mod price;
mod properties;
mod shape;
mod world;

use serde_json::json;

use super::{Absent, Evidence, LineageReason, LineageVerdict, TEKTON, Unproven, tekton::RunKind};
pub(crate) use world::World;

use shape::Shape;

impl World {
    /// The objects of a run as Tekton and the gate make them, approved by `alice`.
    pub(crate) fn honest() -> Self {
        Shape::default().world()
    }

    /// Those of another run in the same namespace.
    pub(crate) fn another() -> Self {
        let shape = Shape {
            run: "other".to_owned(),
            uid: "uid-other".to_owned(),
            ..Shape::default()
        };
        shape.world()
    }

    fn judged(&self) -> LineageVerdict {
        TEKTON.judge(&self.question())
    }

    /// The reason for which the world is refused.
    fn refused(&self) -> LineageReason {
        match self.judged() {
            LineageVerdict::Refused(refusal) => refusal.reason,
            other @ (LineageVerdict::Proven(_) | LineageVerdict::Waiting(_)) => panic!("{other:?}"),
        }
    }

    fn is_proven(&self) -> bool {
        matches!(self.judged(), LineageVerdict::Proven(_))
    }

    fn evidence(&self) -> Evidence {
        match self.judged() {
            LineageVerdict::Proven(evidence) => *evidence,
            other @ (LineageVerdict::Refused(_) | LineageVerdict::Waiting(_)) => {
                panic!("{other:?}")
            }
        }
    }
}

/// Kind and name of the objects of a proof.
fn names(evidence: &Evidence) -> Vec<(&str, &str)> {
    let objects = evidence.objects.iter();
    objects
        .map(|it| (it.kind.as_str(), it.name.as_str()))
        .collect()
}

#[test]
fn an_honest_run_is_proven_with_every_object_and_approver() {
    let evidence = Shape::default().world().evidence();
    assert_eq!(
        names(&evidence),
        [
            ("PipelineRun", "run"),
            ("TaskRun", "run-deploy"),
            ("CustomRun", "run-wait"),
        ]
    );
    assert!(
        evidence
            .objects
            .iter()
            .all(|it| !it.uid.is_empty() && !it.resource_version.is_empty())
    );
    let approval = &evidence.approvals[0];
    assert_eq!(
        (approval.user.as_str(), approval.group.as_deref()),
        ("alice", None)
    );
    assert_eq!(approval.message.as_deref(), Some("fine"));
}

#[test]
fn what_produced_results_is_part_of_the_evidence() {
    let shape = Shape {
        uses: shape::Uses::Custom,
        asks: true,
        ..Shape::default()
    };
    let evidence = shape.world().evidence();
    let producers = [("CustomRun", "run-ask"), ("TaskRun", "run-who")];
    assert_eq!(names(&evidence)[3..], producers);
}

#[test]
fn a_member_of_two_groups_is_told_with_the_first_and_an_answer_of_its_own_precedes_both() {
    let mut world = Shape {
        approvers: ["one", "two"].map(|it| (true, it.to_owned())).into(),
        needed: 2,
        ..Shape::default()
    }
    .world();
    let yes = |name: &str| json!({"name": name, "input": "approve"});
    let approvers = &mut world.approval["spec"]["approvers"];
    approvers[0]["users"] = json!([yes("alice"), yes("bob")]);
    approvers[1]["users"] = json!([yes("bob")]);
    approvers.as_array_mut().unwrap().push(yes("alice"));
    let listed = json!(["group:one", "group:two", "alice"]);
    world.custom_run()["spec"]["params"][0]["value"] = listed.clone();
    let tasks = &mut world.run()["status"]["pipelineSpec"]["tasks"];
    let wait = tasks.as_array_mut().unwrap().iter_mut();
    for task in wait.filter(|it| it["name"] == "wait") {
        task["params"][0]["value"] = listed.clone();
    }
    let approvals = world.evidence().approvals;
    let told: Vec<_> = approvals
        .iter()
        .map(|it| (it.user.as_str(), it.group.as_deref()))
        .collect();
    assert_eq!(told, [("alice", None), ("bob", Some("one"))]);
}

#[test]
fn a_lineage_is_known_by_its_name_and_knows_the_kinds_between_pod_and_approval_alone() {
    assert_eq!(format!("{TEKTON:?}"), "Tekton");
    for (kind, expected) in [
        ("PipelineRun", true),
        ("CustomRun", true),
        ("Pod", false),
        ("ApprovalTask", false),
    ] {
        assert_eq!(TEKTON.has_kind(kind), expected, "{kind}");
    }
}

/// A collector needs no knowledge of Tekton: it reads the parts that the judge misses.
#[test]
fn a_collector_that_reads_what_is_missing_comes_to_the_same_proof() {
    let shape = Shape {
        uses: shape::Uses::Text,
        ..Shape::default()
    };
    let whole = shape.world();
    let mut collected = World {
        objects: Vec::new(),
        ..whole.clone()
    };
    for round in 0.. {
        let verdict = collected.judged();
        let wanted: Vec<_> = verdict.to_read().cloned().collect();
        if wanted.is_empty() {
            assert_eq!(verdict, whole.judged());
            assert!(collected.is_proven());
            assert!(round <= 4, "{round} rounds");
            break;
        }
        for missing in wanted {
            collected
                .objects
                .push(whole.object(missing.kind, &missing.name).clone());
        }
    }
}

#[test]
fn what_a_controller_has_not_written_yet_is_waited_for() {
    type Change = fn(&mut World);
    let table: [(Change, &str, Absent); 4] = [
        (
            |it| world::clear(it.run(), "/status", "pipelineSpec"),
            "PipelineRun",
            Absent::Field("status.pipelineSpec"),
        ),
        (
            |it| world::clear(it.run(), "/status", "childReferences"),
            "PipelineRun",
            Absent::Field("status.childReferences"),
        ),
        (
            |it| world::clear(it.task_run(), "/status", "podName"),
            "TaskRun",
            Absent::Field("status.podName"),
        ),
        (
            |it| it.approval["status"]["state"] = "pending".into(),
            "ApprovalTask",
            Absent::Decision,
        ),
    ];
    for (change, kind, what) in table {
        let mut world = Shape::default().world();
        change(&mut world);
        let verdict = world.judged();
        let LineageVerdict::Waiting(missing) = &verdict else {
            panic!("{verdict:?}");
        };
        assert!(
            missing.iter().any(|it| it.kind == kind && it.what == what),
            "{missing:?}"
        );
        let is_undecided = verdict.proof() == Err(Unproven::Undecided);
        assert_eq!(is_undecided, what == Absent::Decision);
        assert_eq!(verdict.to_read().count(), 0);
    }
}

/// A request that can never be granted must not wait for the rest.
#[test]
fn a_contradiction_precedes_what_is_missing() {
    let both: [fn(&mut World); 2] = [
        |it| {
            world::clear(it.task_run(), "/status", "podName");
            it.approval["spec"]["approvers"][0]["name"] = "mallory".into();
        },
        |it| {
            it.pod["spec"]["serviceAccountName"] = "admin".into();
            it.task_run()["spec"]["serviceAccountName"] = "admin".into();
            world::clear(it.task_run(), "/status", "podName");
        },
    ];
    let reasons = [
        LineageReason::OtherApprovers,
        LineageReason::OtherServiceAccount,
    ];
    for (change, reason) in both.into_iter().zip(reasons) {
        let mut world = Shape::default().world();
        change(&mut world);
        assert_eq!(world.refused(), reason);
    }
}

#[test]
fn a_result_is_waited_for_until_its_task_has_ended() {
    let mut world = Shape {
        uses: shape::Uses::Text,
        ..Shape::default()
    }
    .world();
    world.objects[3]["status"]["conditions"][0]["status"] = "Unknown".into();
    let LineageVerdict::Waiting(missing) = world.judged() else {
        panic!("{:?}", world.judged());
    };
    let names: Vec<_> = missing.iter().map(|it| (&*it.name, it.what)).collect();
    assert_eq!(names, [("run-who", Absent::Field("status.conditions"))]);
}

/// Tekton lists a deleted child no more, and makes it again only when no other of its matrix is left.
#[test]
fn an_approval_of_a_matrix_counts_while_the_run_lists_all_of_them() {
    let mut world = Shape::default().world();
    let rename = |object: &mut serde_json::Value| object["metadata"]["name"] = "run-wait-0".into();
    let run = world.run();
    let tasks = run["status"]["pipelineSpec"]["tasks"]
        .as_array_mut()
        .unwrap();
    let wait = tasks.iter_mut().find(|it| it["name"] == "wait").unwrap();
    wait["matrix"] = json!({"params": [{"name": "stage", "value": ["a", "b"]}]});
    let children = run["status"]["childReferences"].as_array_mut().unwrap();
    let own = children
        .iter_mut()
        .find(|it| it["name"] == "run-wait")
        .unwrap();
    own["name"] = "run-wait-0".into();
    rename(world.custom_run());
    let params = world.custom_run()["spec"]["params"].as_array_mut().unwrap();
    params.push(json!({"name": "stage", "value": "a"}));
    rename(&mut world.approval);
    world.approval["metadata"]["ownerReferences"][0]["name"] = "run-wait-0".into();
    let LineageVerdict::Waiting(missing) = world.judged() else {
        panic!("{:?}", world.judged());
    };
    let is_list = |it: &super::MissingLink| it.what == Absent::Field("status.childReferences");
    assert!(missing.iter().any(is_list), "{missing:?}");
    world.adopt(RunKind::CustomRun, "run-wait-1", "wait");
    assert!(world.is_proven(), "{:?}", world.judged());
}
