//! The parts of an observation, each read from the caches or from the API server.

use std::sync::Arc;

use connectors_api::{
    AccessPolicy, AccessRequest,
    check_selector::CompiledPolicy,
    config::Config,
    policy_match::{self, Applies, Asker, WantedConnector},
    policy_order::{MOST_PER_CONNECTOR, PolicyAge},
};
use futures::{future::try_join_all, try_join};
use kube::ResourceExt;
use serde_json::Value;
use service_kit::watches::Unreadable;

use super::{ObserveError, Observer, ReadMode, Via, list_turns::Pause, pod_and_uid, was_granted};
use crate::{
    api::Name,
    cache::Labels,
    grant,
    seen::{ConnectorSeen, GrantKind, Managed, Miss, NearMiss, PodFacts, PodSeen},
};

/// Up to so many policies of a namespace are read by their names before a grant. A policy that the caches do not know yet
/// grants later. A list would wait until the API server's memory has caught up with etcd.
const BY_NAME: usize = 4;

/// A policy of the connector's namespace, readable or not.
pub(super) struct ListedPolicy {
    pub(super) uid: String,
    pub(super) policy: Option<Arc<CompiledPolicy>>,
}

/// The policies that apply to a request, and those that nearly apply.
#[derive(Default)]
pub(super) struct Applying {
    pub(super) policies: Vec<Arc<CompiledPolicy>>,
    pub(super) near: Vec<NearMiss>,
    /// No other policy would apply with another default of the installation, which is not known yet.
    pub(super) are_all_known: bool,
}

impl Observer {
    pub(super) async fn request(
        &self,
        name: &Name,
        mode: ReadMode,
    ) -> Result<Option<AccessRequest>, ObserveError> {
        let unreadable = |problem: &str| ObserveError::Unreadable(problem.to_owned());
        match mode.via {
            Via::Caches => {
                let state = self.world.read();
                match state.requests.get(name) {
                    None => return Ok(None),
                    // Without its evidence a status must neither be decided on nor written.
                    Some(cached) if cached.lacks_evidence => {}
                    Some(cached) => match &cached.request {
                        Ok(request) => {
                            if let Some(request) = request.read() {
                                return Ok(Some(request));
                            }
                        }
                        Err(error) => return Err(unreadable(&error.problem)),
                    },
                }
            }
            Via::Api if !mode.only_for_grants => {}
            Via::Api => {
                let state = self.world.read();
                if let Some(waiting) = state.requests.waiting(name)
                    && let Some(waiting) = waiting.read()
                {
                    return Ok(Some(waiting));
                }
            }
        }
        match self.live.request(name).await? {
            None => Ok(None),
            Some(Ok(request)) => Ok(Some(request)),
            Some(Err(error)) => Err(unreadable(&error.problem)),
        }
    }

    /// The pod, and all its fields if they are needed. Only the API server can say that a pod is gone: the cache may
    /// not have received the pod yet. If it has, its version or a later one is enough for a look from the caches.
    pub(super) async fn pod(
        &self,
        request: &AccessRequest,
        via: Via,
    ) -> Result<(PodSeen, Option<Value>), ObserveError> {
        let (name, uid) = pod_and_uid(request);
        let mut known = None;
        if via == Via::Caches {
            let cached = self.world.read().pods.get(&name).cloned();
            let cached = cached.filter(|it| it.uid.as_ref() == uid);
            if let Some((facts, version)) = cached.and_then(|it| Some((it.facts?, it.version))) {
                if facts.finished || !self.needs_whole_pod(request) {
                    return Ok((PodSeen::There(facts), None));
                }
                if let Some(whole) = self.pods.get(uid, &version) {
                    return Ok((PodSeen::There(facts), Some(whole)));
                }
                known = Some(version);
            }
        }
        let read = match known {
            Some(version) => self.live.pod_since(&name, &version).await?,
            None => self.live.pod(&name).await?,
        };
        Ok(match read {
            Some(Ok(mut pod)) if text(&pod, "/metadata/uid") == Some(uid) => {
                without_managed_fields(&mut pod);
                let facts = facts(&pod);
                if !facts.finished {
                    self.pods.put(&name.namespace, uid, &pod);
                }
                (PodSeen::There(facts), Some(pod))
            }
            Some(Err(unreadable)) if unreadable.metadata.uid.as_deref() == Some(uid) => {
                (PodSeen::Unreadable, None)
            }
            Some(_) | None => {
                self.pods.forget(uid);
                (PodSeen::Gone, None)
            }
        })
    }

    /// True when the pod's fields may matter: the connector's namespace has a policy, or the request has a grant.
    fn needs_whole_pod(&self, request: &AccessRequest) -> bool {
        let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
        let phase = request.status.as_ref().and_then(|it| it.phase);
        let is_terminal = phase.is_some_and(grant::is_terminal);
        let has_policies = || self.world.read().policies.are_in(namespace);
        !is_terminal && (was_granted(request) || has_policies())
    }

    pub(super) async fn connector(
        &self,
        request: &AccessRequest,
        via: Via,
    ) -> Result<Option<(ConnectorSeen, Labels)>, ObserveError> {
        let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
        let name = Name::new(namespace, &request.spec.connector_ref.name);
        if via == Via::Caches {
            let cached = self.world.read().connectors.get(&name).cloned();
            return Ok(cached.map(|it| (it.seen, it.labels)));
        }
        match self.live.connector(&name).await? {
            // An unreadable connector grants nothing. An error instead would delay a revocation.
            None | Some(Err(_)) => Ok(None),
            Some(Ok(connector)) if connector.metadata.deletion_timestamp.is_some() => Ok(None),
            Some(Ok(connector)) => {
                let uid = connector.metadata.uid.clone().unwrap_or_default();
                Ok(Some((ConnectorSeen { uid }, connector.labels().clone())))
            }
        }
    }

    /// The names of a namespace's policies as far as the caches know them, if there are few.
    pub(super) fn few_policies(&self, namespace: &str) -> Option<Vec<Name>> {
        self.world.read().policies.few(namespace, BY_NAME)
    }

    /// These policies, read live.
    pub(super) async fn policies_named(
        &self,
        names: Vec<Name>,
    ) -> Result<Vec<ListedPolicy>, ObserveError> {
        let reads = names.iter().map(|name| self.live.policy(name));
        let found = try_join_all(reads).await?.into_iter().flatten();
        Ok(found.filter_map(|it| self.listed(it)).collect())
    }

    pub(super) async fn policies(
        &self,
        request: &AccessRequest,
        via: Via,
        only_for_grants: bool,
    ) -> Result<Vec<ListedPolicy>, ObserveError> {
        let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
        let kept = match via {
            Via::Caches => self.world.read().policies.of(namespace),
            Via::Api => None,
        };
        if let Some(kept) = kept {
            let policy = |(uid, policy)| ListedPolicy { uid, policy };
            return Ok(kept.into_iter().map(policy).collect());
        }
        if only_for_grants && let Some(names) = self.few_policies(namespace) {
            return self.policies_named(names).await;
        }
        // A live observation follows a cached one that has waited for the rest.
        let pause = if via == Via::Caches && !was_granted(request) {
            Pause::Rests
        } else {
            Pause::None
        };
        let _turn = self.policy_lists.turn(namespace, pause).await?;
        let read = self.live.policies(namespace, |it| self.listed(it)).await?;
        if via == Via::Caches {
            let readable = read.iter().filter_map(|it| it.policy.as_ref());
            self.world.write().policies.refill(namespace, readable);
        }
        Ok(read)
    }

    /// A policy that was read live, unless it is being deleted. It may be newer than the one in the caches.
    fn listed(&self, policy: Result<AccessPolicy, Box<Unreadable>>) -> Option<ListedPolicy> {
        match policy {
            Ok(policy) if policy.metadata.deletion_timestamp.is_some() => None,
            Ok(policy) => Some(ListedPolicy {
                uid: policy.metadata.uid.clone().unwrap_or_default(),
                policy: Some(self.world.parsed(policy)),
            }),
            Err(unreadable) if unreadable.metadata.deletion_timestamp.is_some() => None,
            Err(unreadable) => Some(ListedPolicy {
                uid: unreadable.metadata.uid.unwrap_or_default(),
                policy: None,
            }),
        }
    }

    /// The policies that apply to a request. An unreadable policy never applies.
    pub(super) async fn applying(
        &self,
        request: &AccessRequest,
        config: Config,
        labels: &Labels,
        policies: &[ListedPolicy],
        via: Via,
    ) -> Result<Applying, ObserveError> {
        let policies: Vec<_> = policies.iter().filter_map(|it| it.policy.clone()).collect();
        let (namespace, name) = (request.spec.subject_namespace(), &request.spec.subject.name);
        let looks = policies
            .iter()
            .any(|it| policy_match::looks_at_labels(&it.policy.spec));
        let (account, home) = if looks {
            self.asker(namespace, name, via).await?
        } else {
            (None, None)
        };
        let asker = Asker {
            namespace,
            name,
            labels: account.as_ref(),
            namespace_labels: home.as_ref(),
        };
        let wanted = WantedConnector {
            connector: &request.spec.connector_ref.name,
            labels,
            permission: request.spec.permission,
        };
        let own = request.metadata.namespace.as_deref().unwrap_or_default();
        // The reasons are told only to pods in the namespace of the policies.
        let is_home = request.spec.context.object_ref.namespace == own;
        let knows_default = self.world.knows_default_requesters();
        let mut found = Applying {
            are_all_known: true,
            ..Applying::default()
        };
        let mut policies = policies;
        policies.sort_by(|a, b| PolicyAge::of(&a.policy).cmp(&PolicyAge::of(&b.policy)));
        // The limit applies before a policy is judged, because judging is the expensive part.
        let mut counted = 0;
        for policy in policies {
            let default = config.default_requesters;
            let spec = &policy.policy.spec;
            let applies = policy_match::applies(spec, own, wanted, asker, default);
            let is_by_default = || {
                let granted = spec.check_granted_permission.as_ref();
                granted.is_some_and(|it| it.requesters.is_none())
            };
            if !knows_default && applies == Applies::OtherAsker && is_by_default() {
                found.are_all_known = false;
            }
            if matches!(applies, Applies::Yes | Applies::OtherAsker) {
                counted += 1;
            }
            let miss = match applies {
                Applies::Yes if counted > MOST_PER_CONNECTOR => Miss::TooMany,
                Applies::Yes => {
                    found.policies.push(policy);
                    continue;
                }
                Applies::NoChecks => continue,
                Applies::OtherPermission => Miss::Permission(spec.permission),
                Applies::OtherConnector => Miss::Connector,
                Applies::OtherAsker => Miss::Requesters,
            };
            if is_home {
                found.near.push(NearMiss {
                    policy: policy.policy.name_any(),
                    why: miss,
                });
            }
        }
        found
            .policies
            .sort_by(|a, b| a.policy.metadata.name.cmp(&b.policy.metadata.name));
        Ok(found)
    }

    async fn asker(
        &self,
        namespace: &str,
        name: &str,
        via: Via,
    ) -> Result<(Option<Labels>, Option<Labels>), ObserveError> {
        let account = Name::new(namespace, name);
        if via == Via::Caches {
            let state = self.world.read();
            let account = state.accounts.get(&account).cloned();
            return Ok((account, state.namespaces.get(namespace).cloned()));
        }
        // Unreadable objects match no selector.
        let (account, home) =
            try_join!(self.live.account(&account), self.live.namespace(namespace))?;
        Ok((
            account.and_then(Result::ok).map(|it| it.labels().clone()),
            home.and_then(Result::ok).map(|it| it.labels().clone()),
        ))
    }

    /// The managed objects of this request: under its names, or with its UID.
    pub(super) async fn grants(
        &self,
        request: &AccessRequest,
        via: Via,
    ) -> Result<Vec<Managed>, ObserveError> {
        let uid = request.metadata.uid.as_deref().unwrap_or_default();
        let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
        let labelled = {
            let state = self.world.read();
            let keys = state.grants.of_request(uid);
            if via == Via::Caches {
                let found = keys.iter();
                let found = found.filter_map(|(kind, name)| state.grants.get(*kind, name));
                return Ok(found.collect());
            }
            keys
        };
        let entries = request.status.iter().flat_map(|it| &it.policies);
        let named = entries
            .filter(|entry| entry.grant.is_some())
            .filter_map(grant::identity)
            .map(|(_, policy)| Name::new(namespace, &grant::name(uid, policy)))
            .flat_map(|name| GrantKind::ALL.map(|kind| (kind, name.clone())));
        let keys: std::collections::BTreeSet<_> = named.chain(labelled).collect();
        let reads = keys
            .into_iter()
            .map(|(kind, name)| async move { self.live.grant(kind, &name).await });
        let found = try_join_all(reads).await?;
        let found = found.into_iter().flatten();
        Ok(found.filter(Managed::is_ours).collect())
    }
}

/// No check is about them, and they repeat most of the pod.
fn without_managed_fields(pod: &mut Value) {
    if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// The fields of a pod that decisions need.
pub(super) fn facts(pod: &Value) -> PodFacts {
    let account = text(pod, "/spec/serviceAccountName").filter(|it| !it.is_empty());
    PodFacts {
        finished: is_finished(text(pod, "/status/phase")),
        terminating: pod
            .pointer("/metadata/deletionTimestamp")
            .is_some_and(|it| !it.is_null()),
        account: account.unwrap_or("default").to_owned(),
    }
}

/// True when a pod in this phase never runs again.
pub(crate) fn is_finished(phase: Option<&str>) -> bool {
    matches!(phase, Some("Succeeded" | "Failed"))
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}
