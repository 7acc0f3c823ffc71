//! All writes, in an order in which a crash between any two leaves less access, never more.
//!
//! A grant: status (evidence) → Role → RoleBinding → status (Granted), written on the version of the evidence. The Role
//! may have been written in advance, after a status that describes it. After a
//! conflict the request is read live, and the grant is removed unless the request still wants it.
//! A revocation: status (ended) → RoleBinding → Role → both confirmed gone → status (revokedAt). The plan orders the
//! removals, by the order of `GrantKind`.

mod gate;
mod removal;
#[cfg(test)]
mod tests;
mod writes;

use std::time::Duration;

use connectors_api::{AccessRequest, access_request::AccessRequestStatus};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::Role;
use kube::core::ApiResource;
use service_kit::{clock::Clock, fair::FairLimiter, report, retry::CallError};
use thiserror::Error;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use crate::{
    api::{Live, Name},
    grant::{self, Grant},
    metrics::Metrics,
    plan::{self, Action, NotOurs, Plan, Told},
    record,
    seen::{GrantKind, Observed},
};

pub use gate::GateApplied;
pub use writes::Writes;

/// The target of log lines for auditors.
const RECORDS: &str = "decisions";

/// The number of live reads that confirm that the request still wants its grant, when other clients change the request.
const ASKED: usize = 3;

/// The number of attempts to record an end when other clients change the request.
const ENDED: usize = 5;

/// The number of grants of one request that are written at a time.
const GRANTS: usize = 8;

/// The number of requests whose Roles are written in advance at a time: a part of the workers. The others are left to grants.
const IN_ADVANCE: usize = 16;
/// Of those, the requests of the pods of one namespace.
const IN_ADVANCE_OF_ONE: usize = IN_ADVANCE / 2;
/// How long a request waits for such a place, and a Role for its answer. The API server may list all bindings before it
/// accepts a Role, two lists of up to 3 s each.
const WAIT_FOR_PLACE: Duration = Duration::from_millis(500);
const IN_ADVANCE_FOR: Duration = Duration::from_secs(8);

/// The reason why a plan was not carried out completely. In all cases the next reconciliation starts over.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Another replica is the leader.
    #[error("this process does not lead")]
    NotLeading,
    /// Another client changed the object first.
    #[error("{0} was changed by somebody else meanwhile")]
    Conflict(String),
    /// The reads are too old to grant on.
    #[error("what was read is too old to grant on")]
    Stale,
    /// The object under the grant's name is managed, but differs from the decision.
    #[error("{0} {1} was not what was decided, and is removed")]
    NotExact(&'static str, Name),
    /// The object under the grant's name was not written by this installation.
    #[error(
        "{0} {1} is in the way: it is not managed by connectors-approval, so somebody else has to delete it"
    )]
    Foreign(&'static str, Name),
    /// The written grant is no longer wanted, and was removed.
    #[error("the grant was removed again")]
    NotOurs(#[from] NotOurs),
    /// The object was deleted but still exists, because it has a finalizer.
    #[error("{0} {1} is deleted and does not go: a finalizer keeps it")]
    Stuck(&'static str, Name),
    /// The object exists, should not, and cannot be deleted.
    #[error("{0} {1} cannot be deleted")]
    Kept(&'static str, Name, #[source] Box<CallError>),
    /// The grant was removed, but its end cannot be recorded.
    #[error("nothing is left of it, and its end cannot be recorded")]
    Unrecorded(#[source] Box<ApplyError>),
}

impl ApplyError {
    /// True when the plan was made for an older version of an object.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Conflict(_) => true,
            Self::Unrecorded(error) => error.is_conflict(),
            Self::Call(_)
            | Self::NotLeading
            | Self::Stale
            | Self::NotExact(..)
            | Self::Foreign(..)
            | Self::NotOurs(_)
            | Self::Stuck(..)
            | Self::Kept(..) => false,
        }
    }
}

/// Carries out plans.
pub struct Applier {
    live: Live,
    writes: Writes,
    clock: Clock,
    metrics: Metrics,
    /// The places for requests whose Roles are written in advance.
    preparing: FairLimiter<String>,
}

impl Applier {
    /// Constructs the applier.
    #[must_use]
    pub fn new(live: Live, writes: Writes, clock: Clock, metrics: Metrics) -> Self {
        Self {
            live,
            writes,
            clock,
            metrics,
            preparing: FairLimiter::new(IN_ADVANCE, IN_ADVANCE_OF_ONE),
        }
    }

    /// Carries out a plan. Returns the events to publish.
    pub async fn apply(&self, seen: &Observed, plan: Plan) -> Result<Vec<Told>, ApplyError> {
        let Plan {
            look_live: _,
            status,
            actions,
            requeue: _,
            ends,
            mut events,
            wait: _,
        } = plan;
        let name = Name::of(&seen.request);
        let mut request = seen.request.clone();
        if let Some(status) = status {
            let written = if ends {
                match self.record(&request, &status).await {
                    Err(error) => self.end_unrecorded(&request, status, &actions, error).await,
                    written => written,
                }
            } else {
                self.writes.status(&request, status).await
            };
            request = written?;
            self.decided(&seen.request, &request);
        }
        // Removals come first: no grant is written before all of them are done.
        self.remove(&name.namespace, &actions).await?;
        let (mut grants, mut in_advance) = (Vec::new(), Vec::new());
        for action in actions {
            match action {
                Action::Remove { .. } => {}
                Action::Grant(grant) => grants.push(*grant),
                Action::Prepare(role) => in_advance.push(*role),
                Action::Finish => {
                    self.make_sure_it_is_gone(&request).await?;
                    if let Some(status) = plan::finished(&request, self.now()) {
                        request = self.writes.status(&request, status).await?;
                        self.metrics.finished(&seen.request, &request);
                        info!(request = %name, "nothing is left of the grant");
                    }
                }
                Action::DeleteRequest => {
                    // Before the deletion, so that no crash loses it.
                    info!(target: RECORDS, request = %name, record = %record::of(&request), "to be deleted");
                    self.writes.delete_request(&request).await?;
                }
            }
        }
        if !grants.is_empty() {
            if let Err(error) = self.grant_all(seen, &grants).await {
                self.not_written(&request, &error).await;
                return Err(error);
            }
            events.extend(self.confirm(&request, &grants).await?);
        }
        if !in_advance.is_empty() {
            self.prepare(&request, &in_advance).await;
        }
        Ok(events)
    }

    /// Counts a written decision, and puts it into the log for auditors.
    fn decided(&self, before: &AccessRequest, after: &AccessRequest) {
        if let Some(phase) = record::decision(before, after) {
            self.metrics.decided(phase, after);
            let name = Name::of(after);
            info!(target: RECORDS, request = %name, record = %record::of(after), "decided");
        }
    }

    /// Records an end. After a conflict it retries with the newest version as long as its spec and status are
    /// unchanged, so that a client that keeps changing the request's metadata cannot prevent the record.
    async fn record(
        &self,
        decided: &AccessRequest,
        status: &AccessRequestStatus,
    ) -> Result<AccessRequest, ApplyError> {
        let name = Name::of(decided);
        let mut current = decided.clone();
        let mut tries = 0;
        loop {
            let conflict = match self.writes.status(&current, status.clone()).await {
                Err(error @ ApplyError::Conflict(_)) if tries < ENDED => error,
                written => return written,
            };
            tries += 1;
            let live = self.live.request(&name).await?.and_then(Result::ok);
            let same = live.filter(|live| {
                live.metadata.uid == decided.metadata.uid
                    && live.metadata.deletion_timestamp.is_none()
                    && live.spec == decided.spec
                    && live.status == decided.status
            });
            current = same.ok_or(conflict)?;
        }
    }

    /// The end cannot be recorded. It is carried out all the same, and then recorded if that is possible by now.
    async fn end_unrecorded(
        &self,
        request: &AccessRequest,
        status: AccessRequestStatus,
        actions: &[Action],
        error: ApplyError,
    ) -> Result<AccessRequest, ApplyError> {
        let name = Name::of(request);
        warn!(request = %name, error = report(&error), "an end is not recorded, and is carried out");
        let mut future = request.clone();
        future.status = Some(status.clone());
        let finishes = actions.iter().any(|it| matches!(it, Action::Finish));
        let removed = self.remove(&name.namespace, actions).await;
        if finishes {
            self.make_sure_it_is_gone(&future).await?;
        }
        removed?;
        match self.record(request, &status).await {
            Err(error) if !matches!(error, ApplyError::NotLeading) => {
                Err(ApplyError::Unrecorded(Box::new(error)))
            }
            recorded => recorded,
        }
    }

    fn now(&self) -> Timestamp {
        (self.clock)().wall
    }

    /// Writes the grants of all policies, a few at a time: the API server may take seconds for each. The others are written
    /// whatever becomes of one.
    async fn grant_all(&self, seen: &Observed, grants: &[Grant]) -> Result<(), ApplyError> {
        let mut written = Ok(());
        for few in grants.chunks(GRANTS) {
            let few = join_all(few.iter().map(|grant| self.grant(seen, grant)));
            written = few.await.into_iter().fold(written, Result::and);
        }
        written
    }

    async fn grant(&self, seen: &Observed, grant: &Grant) -> Result<(), ApplyError> {
        // The age of the reads is checked right before each write. A write that takes longer than the remaining time
        // is cancelled.
        let left = || {
            let now = (self.clock)().mono;
            seen.freshness.left(now).ok_or(ApplyError::Stale)
        };
        for kind in [GrantKind::Role, GrantKind::RoleBinding] {
            // It was written in advance, or by an attempt that was interrupted, and read live.
            if grant::is_there(kind, grant, &seen.grants) {
                continue;
            }
            let created = match kind {
                GrantKind::Role => self.writes.create(&grant.role, left()?).await,
                GrantKind::RoleBinding => self.writes.create(&grant.binding, left()?).await,
            };
            match created {
                Err(ApplyError::Call(error)) if error.status() == Some(409) => {
                    self.adopt(kind, grant).await?;
                }
                Err(error) => return Err(error),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Writes Roles in advance that the stored status describes: the API server drops fields that an older definition lacks.
    /// A grant writes what is missing, so it is tried once.
    async fn prepare(&self, stored: &AccessRequest, roles: &[Role]) {
        let entries = stored.status.iter().flat_map(|it| &it.policies);
        let described: Vec<_> = entries
            .filter_map(|it| grant::prepared(stored, it))
            .map(|it| it.role)
            .collect();
        let written = roles.iter().filter(|it| described.contains(it));
        let written = written.map(|role| async move {
            if let Err(error) = self.writes.create(role, IN_ADVANCE_FOR).await {
                let name = Name::of(role);
                debug!(role = %name, error = report(&error), "not written in advance");
            }
        });
        let pods = stored.spec.context.object_ref.namespace.clone();
        let place = timeout(WAIT_FOR_PLACE, self.preparing.take(pods));
        let Ok(_place) = place.await else {
            debug!(request = %Name::of(stored), "no place to write in advance");
            return;
        };
        join_all(written).await;
    }

    /// An object already exists under the name. It is accepted only if it is exactly the decided one. Otherwise the
    /// managed objects under the name are removed, and the next reconciliation decides anew. A foreign object stays.
    async fn adopt(&self, kind: GrantKind, grant: &Grant) -> Result<(), ApplyError> {
        let name = Name::in_metadata(&grant.role.metadata);
        let found = self.live.grant(kind, &name).await?;
        let is_foreign = match &found {
            Some(found) if grant::is_exactly(found, grant) => return Ok(()),
            Some(found) => !found.is_ours(),
            // The object was deleted meanwhile: there is nothing to compare with, and the name is free.
            None => return Err(ApplyError::Conflict(format!("{} {name}", kind.as_str()))),
        };
        let removed = self.remove_both(&name).await;
        if is_foreign {
            return Err(ApplyError::Foreign(kind.as_str(), name));
        }
        removed?;
        Err(ApplyError::NotExact(kind.as_str(), name))
    }

    /// Confirms after the writes that the request still wants the grant. The first status is written on the version
    /// that was decided on, so the API server compares. After a conflict the request is read live, and the grant is
    /// removed unless the live request still wants it.
    async fn confirm(
        &self,
        decided: &AccessRequest,
        grants: &[Grant],
    ) -> Result<Vec<Told>, ApplyError> {
        let name = Name::of(decided);
        let mut conflict = ApplyError::Conflict(format!("request {name}"));
        let mut request = Some(decided.clone());
        for reads in 0..=ASKED {
            if reads > 0 {
                request = self.live.request(&name).await?.and_then(Result::ok);
            }
            match plan::granted(request.as_ref(), decided, grants, self.now()) {
                // Only a live read takes a grant back.
                Err(_) if reads == 0 => {}
                Err(problem) => {
                    warn!(request = %name, problem = report(&problem), "a grant is not wanted any more");
                    let mut all = Ok(0);
                    for grant in grants {
                        let name = Name::in_metadata(&grant.role.metadata);
                        all = all.and(self.enforce(&name, request.as_ref()).await);
                    }
                    all?;
                    return Err(problem.into());
                }
                Ok((status, events)) => {
                    let Some(request) = &request else { break };
                    match self.writes.status(request, status).await {
                        Ok(now) => {
                            self.decided(request, &now);
                            info!(request = %name, "access granted");
                            return Ok(events);
                        }
                        Err(ApplyError::Conflict(what)) => conflict = ApplyError::Conflict(what),
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Err(conflict)
    }

    /// Records in the status that the request is unreadable. An existing status is not overwritten, because a later
    /// version may have written it.
    pub async fn refuse_unreadable(&self, name: &Name, problem: &str) -> Result<(), ApplyError> {
        let kind = ApiResource::erase::<AccessRequest>(&());
        let found = self.live.object(&kind, name).await?;
        let Some(Ok(object)) = found else {
            return Ok(());
        };
        if object.get("status").is_some_and(|it| !it.is_null()) {
            return Ok(());
        }
        let status = plan::unreadable(problem, self.now());
        self.writes.first_status(name, &object, &status).await
    }

    /// Records in the status that the reads of a decision take too long. A failure of this write changes nothing.
    pub async fn tell_too_slow(&self, request: &AccessRequest) {
        let Some(status) = plan::too_slow(request, self.now()) else {
            return;
        };
        if let Err(error) = self.writes.status(request, status).await {
            debug!(request = %Name::of(request), error = report(&error), "status not written");
        }
    }

    /// Records in the status why there is no permission yet. A failure of this write changes nothing.
    async fn not_written(&self, request: &AccessRequest, error: &ApplyError) {
        let is_trouble = match error {
            ApplyError::Call(_)
            | ApplyError::Kept(..)
            | ApplyError::NotExact(..)
            | ApplyError::Foreign(..) => true,
            ApplyError::NotLeading
            | ApplyError::Conflict(_)
            | ApplyError::Stale
            | ApplyError::NotOurs(_)
            | ApplyError::Stuck(..)
            | ApplyError::Unrecorded(_) => false,
        };
        let problem = report(error);
        let status: Option<AccessRequestStatus> = is_trouble
            .then(|| plan::not_written(request, &problem, self.now()))
            .flatten();
        if let Some(status) = status
            && let Err(error) = self.writes.status(request, status).await
        {
            warn!(request = %Name::of(request), error = report(&error), "status not written");
        }
    }
}
