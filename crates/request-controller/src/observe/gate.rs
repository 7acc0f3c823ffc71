//! All reads about the scheduling gate of a pod.

use std::sync::Arc;

use connectors_api::{
    AccessRequest, AccessResource, PodIdentity,
    access_request::Phase,
    config::Config,
    pod_wish::{self, Wanted},
};
use evaluation_api::access::AccessQuestion;
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use service_kit::{report, reviews::service_account};
use tokio::time::timeout;
use tracing::warn;

use super::{ObserveError, Observer, gated_since, pod_facts};
use crate::{
    api::Name,
    evaluator::Unanswered,
    seen::{GateSeen, GatedVolumes, MountAccess, WantSeen},
    standing::LIMIT,
};

impl Observer {
    /// Observes a pod that the cache shows with the gate. None if it does not wait with the gate. The volumes are read
    /// live, and only if neither the configuration nor the line of the namespace decides.
    pub async fn gate(&self, pod: &Name) -> Result<Option<GateSeen>, ObserveError> {
        let gates_pods = self.world.config().map(Config::gates_pods);
        let mut seen = {
            let state = self.world.read();
            let Some(place) = state.gated.place(pod) else {
                return Ok(None);
            };
            GateSeen {
                pod: pod.clone(),
                uid: place.uid.clone(),
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
            Ok(wanted) => GatedVolumes::Want(self.wants(&identity, &wanted).await),
            Err(mistake) => GatedVolumes::Mistaken(mistake),
        };
        Ok(Some(seen))
    }

    async fn wants(&self, pod: &PodIdentity, wanted: &Wanted) -> Vec<WantSeen> {
        let mut wants = self.known(pod, wanted);
        // A granted request needs no question.
        let open = wants.iter_mut();
        let mut open: Vec<_> = open
            .filter(|it| !it.requests.iter().any(is_granted))
            .collect();
        let questions = open
            .iter()
            .map(|want| AccessQuestion::of_pod(pod, &want.connector, want.ours.spec.permission));
        let questions: Vec<_> = questions.collect();
        if questions.is_empty() {
            return wants;
        }
        let said = timeout(LIMIT, self.evaluator.mounts(questions)).await;
        let answers = said.unwrap_or(Err(Unanswered::Late(LIMIT)));
        let answers = answers.unwrap_or_else(|error| {
            warn!(
                error = report(&error),
                "it is not known what a pod may mount"
            );
            Vec::new()
        });
        for (want, access) in open.iter_mut().zip(answers) {
            want.access = match access {
                MountAccess::Requested | MountAccess::Denied | MountAccess::Unaccepted => {
                    self.reviewed(pod, want, access).await
                }
                MountAccess::Allowed | MountAccess::Unknown => access,
            };
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
            let alike = requests.alike(namespace, &ours.spec);
            WantSeen {
                requests: alike.map(Arc::clone).collect(),
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

fn is_granted(request: &Arc<AccessRequest>) -> bool {
    let phase = request.status.as_ref().and_then(|it| it.phase);
    phase == Some(Phase::Granted)
}
