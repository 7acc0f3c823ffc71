//! The writes about the scheduling gate of a pod: first the requests, then the gate.

use std::time::Duration;

use connectors_api::{AccessRequest, pod_wish::asks_the_same, request_creation::Created};
use service_kit::report;
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use super::{Applier, ApplyError};
use crate::{
    api::Name,
    plan::gate::{self, GatePlan, GateTold},
    seen::{GateSeen, RequestMade},
};

/// The result of a plan for a gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateApplied {
    /// The event to publish at the pod.
    pub told: Option<GateTold>,
    /// The delay until the next look at the latest.
    pub again: Option<Duration>,
}

impl Applier {
    /// Carries out the plan for a gate. No request is made after the deadline. The caller decides about the pause after a
    /// removal that the API server refused.
    pub async fn gate(
        &self,
        seen: &GateSeen,
        plan: GatePlan,
        until: Instant,
    ) -> Result<GateApplied, ApplyError> {
        let GatePlan {
            make,
            mut end,
            mut again,
        } = plan;
        if !make.is_empty() {
            let after = match timeout_at(until, self.make(&seen.pod, &make)).await {
                Ok(made) => gate::after(&made?),
                Err(_) => gate::unfinished(),
            };
            (end, again) = (after.end, after.again);
        }
        let Some(end) = end else {
            return Ok(GateApplied { told: None, again });
        };
        let GateSeen { pod, uid, .. } = seen;
        match self.writes.remove_gate(pod, uid).await {
            Ok(false) => Ok(GateApplied::default()),
            Ok(true) => {
                let reason = end.as_str();
                self.metrics
                    .gates_removed
                    .with_label_values(&[reason])
                    .inc();
                info!(%pod, reason, "scheduling gate removed");
                Ok(GateApplied {
                    told: Some(GateTold::Removed(end)),
                    again: None,
                })
            }
            // The right is missing, or another admission plugin changes or refuses the pod.
            Err(ApplyError::Call(error)) if matches!(error.status(), Some(403 | 422)) => {
                self.metrics.gates_kept.inc();
                warn!(%pod, error = report(&error), "a scheduling gate cannot be removed");
                Ok(GateApplied {
                    told: Some(GateTold::Kept),
                    again: None,
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Makes requests, up to the first that is not accepted.
    async fn make(
        &self,
        pod: &Name,
        requests: &[AccessRequest],
    ) -> Result<Vec<RequestMade>, ApplyError> {
        let mut all = Vec::new();
        for ours in requests {
            let made = match self.writes.create_request(pod, ours).await? {
                Created::Made => RequestMade::There,
                Created::Exists => self.met(ours).await?,
                created @ (Created::NoNamespace | Created::QuotaFull | Created::Refused) => {
                    RequestMade::NotAccepted(created)
                }
            };
            all.push(made);
            if matches!(made, RequestMade::NotAccepted(_) | RequestMade::Squatted) {
                break;
            }
        }
        Ok(all)
    }

    /// Compares the object that has the name of a request with it.
    async fn met(&self, ours: &AccessRequest) -> Result<RequestMade, ApplyError> {
        Ok(match self.live.request(&Name::of(ours)).await? {
            None => RequestMade::Going,
            Some(Ok(found)) if asks_the_same(&found, ours) => {
                if found.metadata.deletion_timestamp.is_some() {
                    RequestMade::Going
                } else {
                    RequestMade::There
                }
            }
            Some(_) => RequestMade::Squatted,
        })
    }
}
