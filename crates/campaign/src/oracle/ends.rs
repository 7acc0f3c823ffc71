//! Rules about ends: their names, their reasons, and the deletion of requests.

use std::time::Duration;

use serde_json::Value;
use testkit::ChangeRecord;

use super::{
    Allowance,
    history::{Snapshot, list, text},
    truth,
};

/// The maximum age of an answer about a standing permission when a request ends on it: the age of the reads
/// beside it, plus the time to record the end in spite of conflicts and a slow API server.
const UNDISTURBED: Duration = Duration::from_secs(1);
const DISTURBED: Duration = Duration::from_secs(90);
/// The minimum time that a request stays which makes way; its time is in whole seconds.
const STAYS: Duration = Duration::from_secs(59);
/// The maximum additional time until it is deleted, without faults.
const GOES: Duration = Duration::from_secs(5);

/// The observed standing permissions.
pub(super) struct Ends {
    /// The time until which there was one.
    covered: Option<Duration>,
    is_covered: bool,
    oldest: Duration,
}

impl Ends {
    pub(super) const fn new(allowance: &Allowance) -> Self {
        let oldest = if allowance.incidents.is_empty() {
            UNDISTURBED
        } else {
            DISTURBED
        };
        Self {
            covered: None,
            is_covered: false,
            oldest,
        }
    }

    /// Updates, after a change, whether there is a standing permission now.
    pub(super) fn look(&mut self, at: Duration, snapshot: &Snapshot) {
        let is_covered = truth::stands(snapshot);
        if is_covered || self.is_covered {
            self.covered = Some(at);
        }
        self.is_covered = is_covered;
    }

    /// The problem of a phase: a request that held nothing is called ended, one that held something is called
    /// revoked. A request ends only with its pod, or by a standing permission if no policy has had a result.
    pub(super) fn called(
        &self,
        sent: Duration,
        before: Option<&Value>,
        request: &Value,
        snapshot: &Snapshot,
    ) -> Option<&'static str> {
        let given = |it: &Value| {
            let mut entries = list(it, "/status/policies").iter();
            let open =
                entries.any(|it| ["Granting", "Granted"].contains(&text(it, "/grant/state")));
            open || it
                .pointer("/status/grantedAt")
                .is_some_and(|it| !it.is_null())
        };
        let said_no = |it: &Value| {
            let mut entries = list(it, "/status/policies").iter();
            entries.any(|it| text(it, "/grant/state") == "Ended")
        };
        let held = given(request) || before.is_some_and(given);
        let recently = |at: Duration| sent.saturating_sub(at) <= self.oldest;
        match text(request, "/status/phase") {
            "Ended" if held => Some("called ended, and something was given"),
            "Ended" if makes_way(request) => {
                if said_no(request) || before.is_some_and(said_no) {
                    Some("ended by a standing permission, and a policy had said no")
                } else if !self.is_covered && !self.covered.is_some_and(recently) {
                    Some("ended by a standing permission, and there was none")
                } else {
                    None
                }
            }
            "Ended" if truth::pod_problem(snapshot, request).is_none() => {
                Some("called ended, and its pod runs")
            }
            "Revoked" if !held => Some("called revoked, and nothing was given"),
            _ => None,
        }
    }

    /// The problem of a request's deletion by a controller: while its pod exists, deletion is a reset, which
    /// only people may do. Only a duplicate is deleted at once, and a request that makes way is deleted after
    /// its time.
    pub(super) fn went(
        change: &ChangeRecord,
        at: Duration,
        since: Option<Duration>,
        snapshot: &Snapshot,
        allowance: &Allowance,
    ) -> Option<String> {
        let before = change
            .before
            .as_deref()
            .filter(|_| change.by != "cluster")?;
        let phase = text(before, "/status/phase");
        if !truth::is_terminal(before) {
            return Some(format!("a request is deleted that is {phase:?}"));
        }
        if makes_way(before) {
            let stayed = since.map(|since| at.saturating_sub(since));
            let in_time = stayed.is_some_and(|it| (STAYS..=STAYS + GOES).contains(&it));
            let disturbed = since.is_some_and(|it| allowance.is_disturbed(it + STAYS));
            return (!in_time && !disturbed).then(|| format!("it made way after {stayed:?}"));
        }
        let is_there = truth::pod_of(snapshot, before).is_some();
        (is_there && phase != "Invalid")
            .then(|| format!("a request is deleted that is {phase}, and its pod is there"))
    }
}

/// True when a standing permission ended it.
fn makes_way(request: &Value) -> bool {
    let mut conditions = list(request, "/status/conditions").iter();
    text(request, "/status/phase") == "Ended"
        && conditions
            .any(|it| text(it, "/type") == "Ready" && text(it, "/reason") == "StandingPermission")
}
