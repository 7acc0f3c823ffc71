//! The observers from outside.

use std::{path::PathBuf, thread};

use csi_recorder::{AskAccess, Eyes, Recorder, View};
use e2e::{
    ApiClient, Cluster,
    api::kinds::{ACCESS_REQUEST, POD},
    checker::{self, Checker, Report, Seen, Settings, SignedDuration},
    harness::Scene,
};
use serde_json::{Value, json};

use super::wait_until;

/// The limit for a cluster on which dozens of scenarios share two processors. A missed event takes minutes, until the next
/// sweep.
const REVOKED_WITHIN: SignedDuration = SignedDuration::from_secs(30);

/// The recorder at the driver's socket.
pub(super) enum Recording {
    /// None.
    None,
    /// One that compares the answers with the mount table.
    Mounts,
    /// The same, with a question before the kubelet hears that a volume is mounted.
    MountsAndAccess(AskAccess),
}

/// The observers: of the audit log in every test, and of the driver's socket where a test has the
/// installation for itself. An existing cluster shows neither.
pub(super) struct Watched {
    api: ApiClient,
    checker: Option<Checker>,
    recorder: Option<Recorder>,
}

impl Watched {
    pub(super) fn start(scene: &Scene, recording: Recording) -> Self {
        let settings = Settings {
            revoked_within: REVOKED_WITHIN,
            ..Settings::in_namespace(scene.namespace())
        };
        let follow = |log: PathBuf| Checker::follow(&log, settings).unwrap();
        let recorder = |access| scene.cluster().map(|cluster| record(cluster, access));
        Self {
            api: scene.api().clone(),
            checker: scene.audit_log().map(follow),
            recorder: match recording {
                Recording::None => None,
                Recording::Mounts => recorder(None),
                Recording::MountsAndAccess(access) => recorder(Some(access)),
            },
        }
    }

    pub(super) fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// Tells the observer a fact that the audit log does not show: the end of a pod, at the time at which its last
    /// container ended. A pod that is gone ended before now.
    pub(super) fn pod_ended(&self, namespace: &str, pod: &str) {
        if let Some(checker) = &self.checker {
            let finished = self
                .api
                .get(POD, pod)
                .unwrap()
                .and_then(|it| finished_at(&it));
            let ended = finished.unwrap_or_else(checker::now);
            checker.pod_ended(namespace, pod, "", ended);
        }
    }

    /// Tells the observer that an approval does not hold any more.
    pub(super) fn approval_ended(&self, namespace: &str, pod: &str, policy: &str) {
        if let Some(checker) = &self.checker {
            checker.approval_ended(namespace, pod, policy, checker::now());
        }
    }

    /// Tells the observer since when a controller was away.
    pub(super) fn outage_since(&self, from: checker::Timestamp) {
        if let Some(checker) = &self.checker {
            checker.outage(from, checker::now());
        }
    }
}

/// The time at which the last container of a pod ended, rounded down to a second.
fn finished_at(pod: &Value) -> Option<checker::Timestamp> {
    let containers = pod["status"]["containerStatuses"].as_array()?.iter();
    let times = containers.map(|it| it["state"]["terminated"]["finishedAt"].as_str());
    let times: Option<Vec<checker::Timestamp>> = times.map(|it| it?.parse().ok()).collect();
    times?.into_iter().max()
}

#[test]
fn a_pod_ended_when_its_last_container_did() {
    let ended = |at: &str| json!({"state": {"terminated": {"finishedAt": at}}});
    let of = |containers: Value| finished_at(&json!({"status": {"containerStatuses": containers}}));
    let (first, last) = ("2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z");
    assert_eq!(of(json!([ended(last), ended(first)])), last.parse().ok());
    let runs = json!({"state": {"running": {}}});
    assert_eq!(of(json!([ended(first), runs])), None);
    assert_eq!(of(json!([])), None);
    assert_eq!(finished_at(&json!({})), None);
}

/// Stands in front of the driver; returns when it does.
fn record(cluster: &Cluster, access: Option<AskAccess>) -> Recorder {
    let kubelet = cluster.kubelet_dir();
    let eyes = Eyes {
        view: Some(View::of_kubelet(&kubelet).unwrap()),
        access,
    };
    let socket = kubelet.join("plugins/connectors-csi/csi.sock");
    let recorder = Recorder::interpose(&socket, eyes).unwrap();
    wait_until("the recorder's place", || recorder.taken() > 0);
    recorder
}

impl Watched {
    /// How many requests of the namespace were granted, as they themselves say.
    fn granted_requests(&self) -> usize {
        let requests = self.api.list(ACCESS_REQUEST, "").unwrap();
        let granted = requests
            .iter()
            .filter(|it| !it["status"]["grantedAt"].is_null());
        granted.count()
    }
}

/// Every promise was kept, and the judgement has a basis: the stored objects of the scenario also appeared in
/// its log. A request is granted by a Role and a `RoleBinding`, after reads.
fn assert_judged(report: &Report, granted: usize) {
    assert!(report.violations.is_empty(), "{report}");
    let seen = &report.seen;
    assert!(
        granted == 0 || seen.grants >= 2 * granted && seen.requests >= granted && seen.reads > 0,
        "{granted} requests were granted, and the log does not show how: {report}"
    );
}

#[test]
fn a_log_that_does_not_show_what_was_granted_is_no_proof() {
    let of = |grants, reads| Report {
        violations: Vec::new(),
        seen: Seen {
            requests: 1,
            grants,
            reads,
            ..Seen::default()
        },
        revocations: Vec::new(),
        until: checker::now(),
    };
    assert_judged(&of(0, 0), 0);
    assert_judged(&of(2, 1), 1);
    for (report, granted) in [(of(0, 1), 1), (of(1, 1), 1), (of(2, 0), 1), (of(4, 1), 2)] {
        std::panic::catch_unwind(|| assert_judged(&report, granted)).unwrap_err();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if thread::panicking() {
            return; // the test reports its own failure
        }
        let granted = self.granted_requests();
        let report = self.checker.take().map(Checker::finish);
        let recorder = self.recorder.take();
        if let Some(report) = report {
            let report = report.unwrap();
            assert_judged(&report, granted);
            println!("{report}");
        }
        if let Some(recorder) = recorder {
            recorder.assert_kept();
        }
    }
}
