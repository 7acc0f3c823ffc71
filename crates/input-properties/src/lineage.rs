//! Lineage: a pod, then its approval, then a list of the objects between them, each as JSON.

use std::collections::BTreeSet;

use connectors_api::lineage::{LineageQuestion, LineageVerdict, TEKTON};
use serde_json::Value;

use crate::parts;

/// A proof names one run for both ends and enough approvers. A missing object was not given, and a proof that
/// lacks an object waits for it.
pub fn check(data: &[u8]) {
    let Some(mut parts) = parts(data) else { return };
    let mut next = || serde_json::from_str::<Value>(parts.next()?).ok();
    let (Some(pod), Some(approval), Some(Value::Array(objects))) = (next(), next(), next()) else {
        return;
    };
    let question = LineageQuestion {
        pod: &pod,
        approval: &approval,
        objects: &objects,
    };
    let verdict = TEKTON.judge(&question);
    assert_eq!(verdict, TEKTON.judge(&question));
    for missing in verdict.to_read() {
        let is_it = |it: &Value| {
            it["kind"] == missing.kind && it["metadata"]["name"] == missing.name.as_str()
        };
        assert!(!objects.iter().any(is_it), "{missing:?}");
    }
    match verdict {
        LineageVerdict::Proven(evidence) => {
            links(&pod, &approval, &objects);
            let wanted = approval["spec"]["numberOfApprovalsRequired"].as_u64();
            let people: BTreeSet<_> = evidence.approvals.iter().map(|it| &it.user).collect();
            let have = u64::try_from(people.len()).expect("a number of approvers");
            assert!(wanted.is_some_and(|it| it > 0 && it <= have));
            lacking(&pod, &approval, &objects);
        }
        LineageVerdict::Waiting(missing) => assert!(!missing.is_empty()),
        LineageVerdict::Refused(refusal) => assert!(!refusal.message.is_empty()),
    }
}

/// The links of both chains, followed by UID alone.
fn links(pod: &Value, approval: &Value, objects: &[Value]) {
    let owner = |object: &Value| {
        let owners = object["metadata"]["ownerReferences"].as_array();
        let mut controllers = owners
            .into_iter()
            .flatten()
            .filter(|it| it["controller"] == true);
        let reference = controllers.next().expect("a controller");
        assert_eq!(controllers.next(), None, "{object}");
        let is_owner = |it: &&Value| {
            let of = &it["metadata"];
            (&it["kind"], &of["name"], &of["uid"])
                == (&reference["kind"], &reference["name"], &reference["uid"])
        };
        objects.iter().find(is_owner).expect("an owner")
    };
    let task_run = owner(pod);
    assert_eq!(task_run["status"]["podName"], pod["metadata"]["name"]);
    let custom_run = owner(approval);
    assert_eq!(custom_run["metadata"]["name"], approval["metadata"]["name"]);
    assert_eq!(
        owner(task_run)["metadata"]["uid"],
        owner(custom_run)["metadata"]["uid"]
    );
    assert_eq!(owner(task_run)["kind"], "PipelineRun");
}

/// Without one of its objects, a proof waits or stands.
fn lacking(pod: &Value, approval: &Value, objects: &[Value]) {
    for index in 0..objects.len().min(8) {
        let mut fewer = objects.to_vec();
        fewer.remove(index);
        let verdict = TEKTON.judge(&LineageQuestion {
            pod,
            approval,
            objects: &fewer,
        });
        assert!(
            !matches!(verdict, LineageVerdict::Refused(_)),
            "{verdict:?}"
        );
    }
}
