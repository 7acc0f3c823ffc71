//! The decision about a request that is not final: its pod ended or is going, its account is another, an older request
//! decides, its connector or its policies, in this order. The first that applies decides whether it is granted, waits or
//! is revoked.

use std::time::Duration;

use connectors_api::{
    AccessRequestCondition as Is,
    access_policy::ObjectKind,
    access_request::{AccessRequestStatus, CheckRef, GrantState, Phase},
    approval_kind::records_approvers,
    lineage::LineageReason,
    reason::{
        AccessCheckReady, AccessPermissionSync, AccessPolicyMatched, ConnectorResolved,
        ContextObjectValid, Ready,
    },
};
use jiff::Timestamp;

use super::{PATIENT, RequestOutcome, again, follow, lapsed_verdict, standing, unusable};
use crate::{
    grant,
    plan::{
        conditions::{self, Conditions},
        policy::{self, Followed, Moment, PolicyProgress, Waiting},
        settle, tell,
    },
    seen::{CheckReads, Observed, PodSeen},
};
use service_kit::clock::Now;

/// Until it is tried again to learn which policies apply. A change of the labels is told sooner.
const MATCHED_AGAIN: Duration = Duration::from_secs(5);

/// The status under construction.
pub(super) struct Draft<'a> {
    pub(super) seen: &'a Observed,
    pub(super) now: Timestamp,
    pub(super) status: AccessRequestStatus,
    pub(super) conditions: Conditions,
}

impl Draft<'_> {
    pub(super) fn decide(mut self, now: Now) -> RequestOutcome {
        let spec = &self.seen.request.spec;
        let pod = &spec.context.object_ref;
        if let Some(problem) = unusable(self.seen) {
            return self.refused(Ready::Unreadable, problem.to_owned());
        }
        let facts = match &self.seen.pod {
            PodSeen::There(facts) => Some(facts.clone()),
            PodSeen::Unreadable => None,
            PodSeen::Gone => {
                self.conditions
                    .is_false(ContextObjectValid::NotFound, tell::POD_GONE);
                let message = tell::POD_GONE.to_owned();
                return self.over(Ready::PodGone, message);
            }
        };
        if let Some(facts) = &facts {
            if facts.finished {
                let message = format!("pod {}/{} ran to its end", pod.namespace, pod.name);
                self.conditions
                    .is_false(ContextObjectValid::Completed, message.clone());
                return self.over(Ready::PodFinished, message);
            }
            if facts.account != spec.subject.name || spec.subject_namespace() != pod.namespace {
                let message = tell::wrong_subject(&self.seen.request);
                return self.refused(Ready::WrongSubject, message);
            }
            self.conditions.is_true(ContextObjectValid::UnCompleted, "");
        }
        if let Some(other) = &self.seen.tuple.decided_by {
            let message = tell::duplicate(other);
            return self.refused(Ready::DuplicateRequest, message);
        }
        let terminating = facts.as_ref().is_none_or(|facts| facts.terminating);
        // Before the connector: a request that cannot be granted must not learn whether the connector exists.
        if self.seen.over_limit && !self.was_granted() {
            let message = tell::too_many(&pod.namespace);
            self.forget_undecided();
            return self.pending(Ready::TooManyRequests, message, Some(PATIENT));
        }
        if let Some(outcome) = self.connector(terminating) {
            return outcome;
        }
        self.policies(now, terminating)
    }

    /// Drops decided grants that were never confirmed, because the basis of their decision no longer holds.
    fn forget_undecided(&mut self) {
        self.status.policies.retain(|entry| {
            let grant = entry.grant.as_ref();
            grant.is_some_and(|it| it.state == GrantState::Ended || it.granted_at.is_some())
        });
    }

    fn was_granted(&self) -> bool {
        self.status.granted_at.is_some()
    }

    /// True when something was granted, or may have been written without a confirmation.
    fn may_have_held(&self) -> bool {
        let open = self.status.policies.iter().any(|entry| {
            let grant = entry.grant.as_ref();
            grant.is_some_and(|grant| grant.state != GrantState::Ended)
        });
        open || self.was_granted()
    }

    /// Pins the connector by its UID when it is first found. Some if it does not exist.
    fn connector(&mut self, terminating: bool) -> Option<RequestOutcome> {
        let name = self.seen.request.spec.connector_ref.name.clone();
        let problem = match (&self.seen.connector, &self.status.connector_uid) {
            (Some(seen), Some(pinned)) if seen.uid != *pinned => tell::replaced(&name),
            (Some(seen), _) => {
                self.status.connector_uid = Some(seen.uid.clone());
                self.conditions.is_true(ConnectorResolved::Resolved, "");
                return None;
            }
            (None, _) => tell::no_connector(&name),
        };
        self.conditions
            .is_false(ConnectorResolved::NotFound, problem.clone());
        let mut draft = Self {
            seen: self.seen,
            now: self.now,
            status: std::mem::take(&mut self.status),
            conditions: self.conditions.clone(),
        };
        Some(if draft.was_granted() {
            draft.conditions.keep(Is::AccessPolicyMatched);
            draft
                .conditions
                .is_false(AccessCheckReady::AccessCheckFailed, problem.clone());
            draft.revoked(Ready::ConnectorDeleted, problem)
        } else {
            draft.forget_undecided();
            let (ready, message) = draft
                .barred(terminating)
                .unwrap_or((Ready::ConnectorNotFound, problem));
            draft.pending(ready, message, None)
        })
    }

    fn policies(mut self, now: Now, terminating: bool) -> RequestOutcome {
        let may_grant = self.seen.config.enabled && !terminating;
        let at = Moment {
            seen: self.seen,
            now: self.now,
            may_grant,
            is_live: self.seen.freshness.left(now.mono).is_some(),
        };
        let followed = follow(at, &self.status.policies);
        self.status.policies = followed.iter().map(|it| it.entry.clone()).collect();
        let is = |wanted: fn(PolicyProgress) -> bool| followed.iter().any(|it| wanted(it.standing));
        let granted = is(|it| matches!(it, PolicyProgress::Granted { .. }));
        let granting = is(|it| it == PolicyProgress::Granting);
        let lost = is(|it| matches!(it, PolicyProgress::Lost(_)));
        let waiting = is(|it| matches!(it, PolicyProgress::Waiting(_)));
        let mut outcome = if !terminating && standing::suffices(self.seen, now, &followed) {
            self.over(Ready::StandingPermission, tell::STANDING.to_owned())
        } else if granted {
            self.in_force()
        } else if granting || lost {
            self.writing(&followed)
        } else if self.awaits_a_match() {
            // The end of what bars a grant wakes the request.
            let barred = self.barred(terminating);
            let again = barred.is_none().then_some(MATCHED_AGAIN);
            let (ready, message) =
                barred.unwrap_or((Ready::GrantNotWritten, tell::UNMATCHED.to_owned()));
            self.pending(ready, message, again)
        } else if followed.is_empty() {
            let none = tell::no_policy(&self.seen.request, &self.seen.near);
            self.conditions
                .is_false(AccessPolicyMatched::NoAccessPolicyMatched, none.clone());
            let (ready, message) = self
                .barred(terminating)
                .unwrap_or((Ready::NoAccessPolicy, none));
            self.pending(ready, message, None)
        } else if self.was_granted() {
            self.lapsed(&followed)
        } else if waiting {
            self.waiting(&followed, terminating)
        } else {
            self.rejected(&followed)
        };
        let is_open = !outcome.status.phase.is_some_and(grant::is_terminal);
        if is_open {
            let to_write = followed
                .iter()
                .filter(|it| it.standing == PolicyProgress::Granting);
            outcome.write = to_write
                .filter_map(|it| grant::identity(&it.entry))
                .map(|(_, uid)| uid.to_owned())
                .collect();
            outcome.look |= followed.iter().any(|it| {
                matches!(
                    it.standing,
                    PolicyProgress::Lost(Waiting::Look) | PolicyProgress::Waiting(Waiting::Look)
                )
            });
            let dues = followed.iter().filter_map(|it| it.due);
            outcome.due = dues.chain(outcome.due).min();
            let agains = followed.iter().filter_map(|it| again(it.standing));
            outcome.again = agains.chain(outcome.again).min();
        }
        outcome
    }

    /// True while a policy may let the pod in of which it is not known whether it applies: it has not said no.
    fn awaits_a_match(&self) -> bool {
        let status = self.seen.request.status.as_ref();
        let is_undecided = || {
            status.is_some_and(|status| {
                let mut entries = status.policies.iter();
                entries.any(|it| it.grant.is_some() && !status.is_settled(it))
            })
        };
        !self.seen.are_matched && (!self.was_granted() || is_undecided())
    }

    /// The reason why nothing is granted, independent of the checks.
    fn barred(&self, terminating: bool) -> Option<(Ready, String)> {
        if !self.seen.config.enabled {
            Some((Ready::ApprovalsDisabled, tell::DISABLED.to_owned()))
        } else if terminating {
            Some((Ready::PodTerminating, tell::TERMINATING.to_owned()))
        } else {
            None
        }
    }

    fn in_force(mut self) -> RequestOutcome {
        self.conditions
            .is_true(AccessPolicyMatched::AccessPolicyMatched, "");
        self.conditions
            .is_true(AccessCheckReady::AccessCheckPassed, "");
        self.conditions
            .is_true(AccessPermissionSync::AccessPermissionGranted, "");
        self.status.phase = Some(Phase::Granted);
        let message = tell::granted(&self.status.policies);
        self.status.expires_at = settle::expires_at(&self.status.policies);
        self.conditions.is_true(Ready::Granted, message);
        self.done(None)
    }

    fn writing(mut self, followed: &[Followed]) -> RequestOutcome {
        self.conditions
            .is_true(AccessPolicyMatched::AccessPolicyMatched, "");
        self.conditions
            .is_true(AccessCheckReady::AccessCheckPassed, "");
        let lost = followed
            .iter()
            .find(|it| matches!(it.standing, PolicyProgress::Lost(_)));
        let lost = lost.map(|it| tell::of_policy(&it.entry, &it.told.message));
        if let Some(lost) = &lost {
            self.conditions.is_false(
                AccessPermissionSync::AccessPermissionSyncFailed,
                lost.clone(),
            );
        } else {
            // The note of an earlier failure stays until a write succeeds.
            self.conditions.keep(Is::AccessPermissionSync);
        }
        self.status.evidence = Some(settle::digest(&self.seen.request, &self.status));
        let message = lost.unwrap_or_else(|| self.writing_message());
        self.pending(Ready::GrantNotWritten, message, None)
    }

    /// The earlier error of a retried write. It is kept because a message that changed with every attempt would cause
    /// endless writes of the status.
    fn writing_message(&self) -> String {
        let old = self.seen.request.status.as_ref();
        let old = old.map_or(&[][..], |it| &it.conditions);
        let failed = conditions::find(old, Is::AccessPermissionSync).is_some_and(|it| {
            it.reason == AccessPermissionSync::AccessPermissionSyncFailed.to_string()
        });
        conditions::find(old, Is::Ready)
            .filter(|it| failed && it.reason == Ready::GrantNotWritten.to_string())
            .map_or_else(|| tell::WRITING.to_owned(), |it| it.message.clone())
    }

    fn waiting(mut self, followed: &[Followed], terminating: bool) -> RequestOutcome {
        use Waiting::{Decision, Leave, Look, Repair};
        self.conditions
            .is_true(AccessPolicyMatched::AccessPolicyMatched, "");
        let first = |wanted: Waiting| {
            let waits = |it: &&Followed| it.standing == PolicyProgress::Waiting(wanted);
            followed.iter().find(waits)
        };
        let mut message = tell::awaited(followed);
        let ready = if first(Leave).or(first(Look)).is_some() {
            self.conditions
                .is_true(AccessCheckReady::AccessCheckPassed, "");
            Ready::ChecksPending
        } else if first(Decision).is_some() {
            self.conditions
                .is_false(AccessCheckReady::AccessCheckPending, message.clone());
            Ready::ChecksPending
        } else if first(Repair).is_some() {
            self.conditions
                .is_false(AccessCheckReady::AccessCheckFailed, message.clone());
            Ready::ChecksFailed
        } else {
            self.conditions.keep(Is::AccessCheckReady);
            match self.seen.check_reads {
                CheckReads::InTime => Ready::EvaluatorUnavailable,
                CheckReads::Late => {
                    tell::TOO_SLOW.clone_into(&mut message);
                    Ready::ReadTooSlow
                }
            }
        };
        let barred = self.barred(terminating);
        let at_pod = match barred {
            Some(_) => String::new(),
            None => tell::awaited_at_pod(followed),
        };
        let (ready, message) = barred.unwrap_or((ready, message));
        RequestOutcome {
            at_pod,
            ..self.pending(ready, message, None)
        }
    }

    fn rejected(mut self, followed: &[Followed]) -> RequestOutcome {
        let ended = |reason: Ready| {
            let is = |it: &&Followed| it.standing == PolicyProgress::Ended(reason);
            followed.iter().find(is)
        };
        let said_no = ended(Ready::CheckRejected).or(ended(Ready::PendingTimeout));
        let decided = said_no.or(followed.first());
        let (reason, message) = match decided {
            Some(Followed {
                standing: PolicyProgress::Ended(reason),
                told,
                entry,
                ..
            }) => (*reason, tell::of_policy(entry, &told.message)),
            Some(_) | None => (Ready::CheckRejected, String::new()),
        };
        self.conditions
            .is_true(AccessPolicyMatched::AccessPolicyMatched, "");
        self.conditions
            .is_false(AccessCheckReady::AccessCheckRejected, message.clone());
        let is_of_a_run = decided.is_some_and(|it| it.entry.check_refs.iter().any(closes_a_run));
        let message = tell::for_good(&self.seen.request, &message, is_of_a_run);
        RequestOutcome {
            at_pod: at_pod(decided),
            ..self.end(Phase::Rejected, reason, message)
        }
    }

    /// The last grant of the request has ended.
    fn lapsed(mut self, followed: &[Followed]) -> RequestOutcome {
        let ended_at = |it: &&Followed| it.entry.grant.as_ref().and_then(|grant| grant.ended_at);
        let last = followed
            .iter()
            .filter(|it| matches!(it.standing, PolicyProgress::Ended(_)))
            .filter(|it| {
                it.entry
                    .grant
                    .as_ref()
                    .is_some_and(|it| it.granted_at.is_some())
            })
            .max_by_key(ended_at);
        let (reason, message) = match last {
            Some(Followed {
                standing: PolicyProgress::Ended(reason),
                told,
                entry,
                ..
            }) => (*reason, tell::of_policy(entry, &told.message)),
            Some(_) | None => (Ready::CheckLapsed, String::new()),
        };
        self.conditions.keep(Is::AccessPolicyMatched);
        self.conditions
            .is_false(lapsed_verdict(self.seen), message.clone());
        RequestOutcome {
            at_pod: at_pod(last),
            ..self.revoked(reason, message)
        }
    }

    fn revoked(mut self, reason: Ready, message: String) -> RequestOutcome {
        self.conditions.is_false(
            AccessPermissionSync::AccessPermissionRevoked,
            message.clone(),
        );
        self.end(Phase::Revoked, reason, message)
    }

    /// A normal end: of the pod, or of the wait. Nothing is revoked if nothing was granted.
    fn over(mut self, reason: Ready, message: String) -> RequestOutcome {
        self.conditions
            .is_unknown(Is::AccessCheckReady, tell::NOT_FOLLOWED);
        if self.may_have_held() {
            self.revoked(reason, message)
        } else {
            self.end(Phase::Ended, reason, message)
        }
    }

    /// The request is invalid. Its grants, if any, are revoked.
    fn refused(self, reason: Ready, message: String) -> RequestOutcome {
        if self.was_granted() {
            self.revoked(reason, message)
        } else {
            self.end(Phase::Invalid, reason, message)
        }
    }

    /// The final status. Conditions that were not judged this time stay as last known.
    fn end(mut self, phase: Phase, reason: Ready, message: String) -> RequestOutcome {
        let now = self.now;
        for entry in &mut self.status.policies {
            let is_open = entry
                .grant
                .as_ref()
                .is_some_and(|grant| grant.state != GrantState::Ended);
            if is_open {
                *entry = policy::closed(entry, reason, now);
            }
            if phase != Phase::Revoked {
                // Of a revocation they say what has to be gone before it is recorded as done.
                entry.prepared_rules.clear();
            }
        }
        self.status.phase = Some(phase);
        self.status.ended_at = Some(now);
        self.conditions.is_false(reason, message);
        // No grant is left that could expire.
        self.status.expires_at = None;
        self.conditions.keep_the_rest();
        self.status.conditions = self.conditions.finish();
        RequestOutcome::plain(self.status)
    }

    fn pending(
        mut self,
        reason: Ready,
        message: String,
        again: Option<Duration>,
    ) -> RequestOutcome {
        self.status.phase = Some(Phase::Pending);
        self.conditions.is_false(reason, message);
        self.done(again)
    }

    fn done(mut self, again: Option<Duration>) -> RequestOutcome {
        self.status.conditions = self.conditions.finish();
        RequestOutcome {
            again,
            ..RequestOutcome::plain(self.status)
        }
    }
}

/// True for an `ApprovalTask` that is rejected. The gate takes no more answers for it, so a new pod of the same run is
/// refused again.
fn closes_a_run(found: &CheckRef) -> bool {
    let is_task = found.ref_.as_ref().is_some_and(|it| {
        records_approvers(&ObjectKind {
            api_version: it.api_version.clone(),
            kind: it.kind.clone(),
        })
    });
    let reason = found.status.as_ref().and_then(|it| it.reason.as_deref());
    let refusals = [LineageReason::Rejected, LineageReason::TimedOut];
    is_task && refusals.iter().any(|it| Some(it.as_str()) == reason)
}

/// The text about the deciding policy for a pod of another namespace.
fn at_pod(decided: Option<&Followed>) -> String {
    let told = decided.and_then(|it| it.told.at_pod.clone());
    told.unwrap_or_default()
}
