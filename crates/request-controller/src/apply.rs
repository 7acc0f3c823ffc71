//! All writes, in an order in which a crash between any two leaves less access, never more.
//!
//! A grant: status (evidence) → Role → RoleBinding → the request is read again → status (Granted).
//! A revocation: status (ended) → RoleBinding → Role → both are seen to be gone → status (revokedAt).

mod removal;
mod writes;

use connectors_api::{AccessRequest, access_request::AccessRequestStatus};
use jiff::Timestamp;
use kube::core::ApiResource;
use service_kit::{clock::Clock, report, retry::CallError};
use thiserror::Error;
use tracing::{info, warn};

use crate::{
    api::{Live, Name},
    grant::{self, Grant},
    metrics::Metrics,
    plan::{self, Action, NotOurs, Plan, Told},
    seen::{Freshness, GrantKind, Observed},
};

pub use writes::Writes;

/// How often the request is asked whether it still wants what was written, when others write it too.
const ASKED: usize = 3;

/// How often an end is recorded anew when others write the request too.
const ENDED: usize = 5;

/// Why not everything was done. Whatever it was, the next look starts over.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Another process leads.
    #[error("this process does not lead")]
    NotLeading,
    /// Somebody else wrote the object first.
    #[error("{0} was changed by somebody else meanwhile")]
    Conflict(String),
    /// What was read is too old to grant on.
    #[error("what was read is too old to grant on")]
    Stale,
    /// Under the name of the grant stands something else.
    #[error("{0} {1} was not what was decided, and is removed")]
    NotExact(&'static str, Name),
    /// Under the name of the grant stands something that this installation did not write.
    #[error(
        "{0} {1} is in the way: it is not managed by connectors-approval, so somebody else has to delete it"
    )]
    Foreign(&'static str, Name),
    /// What was written is not wanted any more, and was removed.
    #[error("the grant was removed again")]
    NotOurs(#[from] NotOurs),
    /// It was deleted and is still there: somebody keeps it with a finalizer.
    #[error("{0} {1} is deleted and does not go: a finalizer keeps it")]
    Stuck(&'static str, Name),
    /// It is there, it should not be, and it cannot be deleted.
    #[error("{0} {1} cannot be deleted")]
    Kept(&'static str, Name, #[source] Box<CallError>),
    /// Nothing is left of what ended, and nobody can be told.
    #[error("nothing is left of it, and its end cannot be recorded")]
    Unrecorded(#[source] Box<ApplyError>),
}

/// Writes.
pub struct Applier {
    live: Live,
    writes: Writes,
    clock: Clock,
    metrics: Metrics,
}

impl Applier {
    /// Writes with these.
    #[must_use]
    pub const fn new(live: Live, writes: Writes, clock: Clock, metrics: Metrics) -> Self {
        Self {
            live,
            writes,
            clock,
            metrics,
        }
    }

    /// Carries out a plan, and says what people are to be told.
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
            self.metrics.decided(&seen.request, &request);
        }
        // Nothing is given before everything that goes is gone.
        self.remove(&name.namespace, &actions).await?;
        let mut written = Vec::new();
        for action in actions {
            match action {
                Action::Remove { .. } => {}
                Action::Grant(grant) => {
                    if let Err(error) = self.grant(seen.freshness, &grant).await {
                        self.not_written(&request, &error).await;
                        return Err(error);
                    }
                    written.push(*grant);
                }
                Action::Finish => {
                    self.make_sure_it_is_gone(&request).await?;
                    if let Some(status) = plan::finished(&request, self.now()) {
                        request = self.writes.status(&request, status).await?;
                        info!(request = %name, "nothing is left of the grant");
                    }
                }
                Action::DeleteRequest => self.writes.delete_request(&request).await?,
            }
        }
        if !written.is_empty() {
            events.extend(self.confirm(&request, &written).await?);
        }
        Ok(events)
    }

    /// Records an end. Somebody who keeps changing the request's metadata does not keep it from being
    /// recorded: as long as its spec and status are those that were decided on, so is the decision.
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

    /// The end of something cannot be recorded. It ends all the same, and is recorded then if it can be.
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

    async fn grant(&self, freshness: Freshness, grant: &Grant) -> Result<(), ApplyError> {
        // The age is looked at right before each write, and a write that takes longer is given up.
        let left = || freshness.left((self.clock)().mono).ok_or(ApplyError::Stale);
        for kind in [GrantKind::Role, GrantKind::RoleBinding] {
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

    /// Something stands under the name. It is ours only if it is exactly what was decided; anything else
    /// goes, with its counterpart, and the decision is made anew.
    async fn adopt(&self, kind: GrantKind, grant: &Grant) -> Result<(), ApplyError> {
        let name = Name::in_metadata(&grant.role.metadata);
        let found = self.live.grant(kind, &name).await?;
        let is_foreign = match &found {
            Some(found) if grant::is_exactly(found, grant) => return Ok(()),
            Some(found) => !found.is_ours(),
            // It went meanwhile: there is nothing to compare with, and nothing in the way any more.
            None => return Err(ApplyError::Conflict(format!("{} {name}", kind.as_str()))),
        };
        let removed = self.remove_both(&name).await;
        if is_foreign {
            return Err(ApplyError::Foreign(kind.as_str(), name));
        }
        removed?;
        Err(ApplyError::NotExact(kind.as_str(), name))
    }

    /// The request has the last word about what was written for it.
    async fn confirm(
        &self,
        decided: &AccessRequest,
        grants: &[Grant],
    ) -> Result<Vec<Told>, ApplyError> {
        let name = Name::of(decided);
        let mut conflict = ApplyError::Conflict(format!("request {name}"));
        for _ in 0..ASKED {
            let live = self.live.request(&name).await?.and_then(Result::ok);
            match plan::granted(live.as_ref(), decided, grants, self.now()) {
                Err(problem) => {
                    warn!(request = %name, problem = report(&problem), "a grant is not wanted any more");
                    let mut all = Ok(0);
                    for grant in grants {
                        let name = Name::in_metadata(&grant.role.metadata);
                        all = all.and(self.enforce(&name, live.as_ref()).await);
                    }
                    all?;
                    return Err(problem.into());
                }
                Ok((status, events)) => {
                    let Some(live) = live else { break };
                    match self.writes.status(&live, status).await {
                        Ok(now) => {
                            self.metrics.decided(&live, &now);
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

    /// Says in the status of a request that nobody can read that it is none. Only if nobody said anything
    /// about it yet: a status of a later version is not ours to overwrite.
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

    /// Says in the status why there is no permission yet. That this fails too changes nothing.
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
