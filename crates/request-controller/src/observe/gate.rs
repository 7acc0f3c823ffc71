//! All reads about the scheduling gate of a pod.

use std::sync::Arc;

use connectors_api::{
    AccessResource, PodIdentity,
    config::{Config, SchedulingGate},
    pod_wish::{self, Wanted},
};
use evaluation_api::access::AccessQuestion;
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use service_kit::{report, reviews::service_account};
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use super::{ObserveError, Observer, gated_since, pod_facts};
use crate::{
    api::Name,
    evaluator::Unanswered,
    seen::{GateQuestions, GateSeen, GatedVolumes, MountAccess, WantSeen},
    standing::LIMIT,
};

impl Observer {
    /// Observes a pod that the cache shows with the gate. None if it does not wait with the gate. The volumes are read
    /// live, and only if neither the configuration nor the line of the namespace decides. What is not answered at the
    /// deadline is unknown.
    pub async fn gate(
        &self,
        pod: &Name,
        asks: GateQuestions,
        until: Instant,
    ) -> Result<Option<GateSeen>, ObserveError> {
        let config = self.world.config();
        if config.is_some_and(|it| it.scheduling_gate == SchedulingGate::Absent) {
            return Ok(None);
        }
        let gates_pods = config.map(Config::gates_pods);
        let mut seen = {
            let state = self.world.read();
            let Some(place) = state.gated.place(pod) else {
                return Ok(None);
            };
            GateSeen {
                pod: pod.clone(),
                uid: place.uid.to_string(),
                gates_pods,
                over_limit: state.gated.is_behind(pod, self.most_waiting),
                volumes: GatedVolumes::NotRead,
            }
        };
        if seen.gates_pods != Some(true) || seen.over_limit {
            return Ok(Some(seen));
        }
        let Some(found) = self.live.gated_pod(pod).await? else {
            return Ok(None);
        };
        let found = match found {
            Ok(found) => found,
            Err(unreadable) if unreadable.metadata.uid.as_deref() == Some(seen.uid.as_str()) => {
                warn!(%pod, problem = unreadable.problem, "a pod cannot be read");
                seen.volumes = GatedVolumes::Unreadable;
                return Ok(Some(seen));
            }
            Err(_) => return Ok(None),
        };
        let is_it = found.metadata.uid.as_deref() == Some(seen.uid.as_str());
        if !is_it || gated_since(&found).is_none() {
            return Ok(None);
        }
        let identity = PodIdentity {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: seen.uid.clone(),
            service_account: pod_facts(&found).account,
        };
        let volumes = found.spec.and_then(|it| it.volumes).unwrap_or_default();
        seen.volumes = match pod_wish::wanted(&identity.namespace, &volumes) {
            Ok(wanted) => GatedVolumes::Want(self.wants(&identity, &wanted, asks, until).await),
            Err(mistake) => GatedVolumes::Mistaken(mistake),
        };
        Ok(Some(seen))
    }

    async fn wants(
        &self,
        pod: &PodIdentity,
        wanted: &Wanted,
        asks: GateQuestions,
        until: Instant,
    ) -> Vec<WantSeen> {
        let mut wants = self.known(pod, wanted);
        let open: Vec<_> = (0..wants.len())
            .filter(|at| (asks.is_needed)(&wants[*at]))
            .collect();
        let questions = open.iter().map(|at| {
            let want = &wants[*at];
            AccessQuestion::of_pod(pod, &want.connector, want.ours.spec.permission)
        });
        let questions: Vec<_> = questions.collect();
        if questions.is_empty() {
            return wants;
        }
        let asked = self.evaluator.mounts(questions);
        let said = timeout_at(until.min(Instant::now() + LIMIT), asked).await;
        let answers = said.unwrap_or(Err(Unanswered::Late(LIMIT)));
        let answers = answers.unwrap_or_else(|error| {
            warn!(
                error = report(&error),
                "it is not known what a pod may mount"
            );
            Vec::new()
        });
        // The rest decides nothing once these are enough.
        let mut answered: Vec<_> = (0..wants.len()).filter(|at| !open.contains(at)).collect();
        for (at, access) in open.into_iter().zip(answers) {
            let known: Vec<_> = answered.iter().map(|it| &wants[*it]).collect();
            if (asks.are_enough)(&known) {
                break;
            }
            wants[at].access = match access {
                MountAccess::Requested | MountAccess::Denied | MountAccess::Unaccepted => {
                    let review = self.reviewed(pod, &wants[at], access);
                    let reviewed = timeout_at(until, review).await;
                    reviewed.unwrap_or(MountAccess::Unknown)
                }
                MountAccess::Allowed | MountAccess::Unknown => access,
            };
            answered.push(at);
        }
        wants
    }

    /// The API server's authorizers are asked about a no, as at the mount: there may be others than RBAC.
    async fn reviewed(
        &self,
        pod: &PodIdentity,
        want: &WantSeen,
        access: MountAccess,
    ) -> MountAccess {
        let standing = AccessResource::standing(want.ours.spec.permission);
        let connector = &want.connector;
        let question = SubjectAccessReviewSpec {
            resource_attributes: Some(standing.review(&connector.namespace, &connector.name)),
            ..service_account(&pod.namespace, &pod.service_account)
        };
        match self.live.may(&question).await {
            Ok(true) => MountAccess::Allowed,
            Ok(false) => access,
            Err(error) => {
                warn!(error = report(&error), "a standing permission is not known");
                MountAccess::Unknown
            }
        }
    }

    /// The connectors that a pod wants, as far as the caches know them.
    fn known(&self, pod: &PodIdentity, wanted: &Wanted) -> Vec<WantSeen> {
        let state = self.world.read();
        let requests = &state.requests;
        let wants = wanted.iter().map(|(connector, permission)| {
            let ours = pod_wish::request(pod, connector, *permission);
            let (namespace, most) = (&connector.namespace, self.most_waiting);
            let deciding = requests.deciding_alike(namespace, &ours.spec);
            WantSeen {
                requests: deciding.map(Arc::new).into_iter().collect(),
                at_home: connector.is_home_of(pod),
                line_is_full: requests.is_full(namespace, &pod.namespace, most),
                access: MountAccess::Unknown,
                connector: connector.clone(),
                ours,
            }
        });
        wants.collect()
    }
}
