//! Collects the objects between a pod and its approvals.
//!
//! The judge in `connectors_api::lineage` names what it misses. The objects that it names are read, and it is asked
//! again, until it names nothing that was not read. The evaluation service judges the same objects by the same rules;
//! its answer counts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use connectors_api::{
    access_policy::ObjectKind,
    judge::MOST_PROOFS,
    lineage::{self, MOST_OBJECTS, Missing},
};
use futures::{StreamExt as _, stream};
use serde_json::Value;
use tokio::{
    task::yield_now,
    time::{Instant, timeout_at},
};

use super::{
    ObserveError, Observer, Via,
    links::{MOST_BYTES, NamedObject},
    objects::{Look, says_nothing},
};
use crate::{api::Name, cache::Link, selection::Trouble};

/// The limit of rounds in which the judge names what it misses.
const MOST_ROUNDS: usize = 20;
/// The number of objects that are read side by side.
const AT_A_TIME: usize = 8;

/// The objects between a pod and some approvals, as JSON, or the reason why they cannot be collected.
pub(super) type Collected = Result<Vec<Arc<str>>, (Trouble, String)>;

impl Observer {
    /// Collects the objects between a pod and these approvals.
    pub(super) async fn lineage(
        &self,
        request: &Name,
        pod: &Value,
        approvals: &[Arc<str>],
        look: &Look,
    ) -> Result<Collected, ObserveError> {
        let mut collected = BTreeMap::new();
        let mut values = Vec::new();
        if look.via == Via::Api {
            // Those of the last reconciliation from the caches, all at once: each round of questions is a round trip.
            let known: Vec<_> = {
                let state = self.world.read();
                state.links.of_request(request).cloned().collect()
            };
            if !self.read_links(request, known, look).await? {
                return Ok(Err(too_large()));
            }
        }
        // The judge refuses further ones.
        for approval in approvals.iter().take(MOST_PROOFS) {
            if !look.links.may_ask() {
                return Ok(Err(too_large()));
            }
            let Ok(approval) = serde_json::from_str(approval) else {
                continue;
            };
            for round in 0.. {
                // No evaluation suspends this task, and other tasks wait for this thread.
                yield_now().await;
                if round == MOST_ROUNDS {
                    return Ok(Err(too_large()));
                }
                if Instant::now() > look.until {
                    return Err(ObserveError::LinksLate);
                }
                let question = lineage::Question {
                    pod,
                    approval: &approval,
                    objects: &values,
                };
                let verdict = look.links.judge(&question);
                let missing: BTreeSet<_> = verdict.to_read().map(link).collect();
                let missing: Vec<_> = missing
                    .into_iter()
                    .filter(|it| !collected.contains_key(it))
                    .collect();
                if missing.is_empty() {
                    break;
                }
                if collected.len() + missing.len() > MOST_OBJECTS {
                    return Ok(Err(too_large()));
                }
                if !self.read_links(request, missing.clone(), look).await? {
                    return Ok(Err(too_large()));
                }
                for link in missing {
                    let text = match look.links.get(&link) {
                        Some(NamedObject::Trouble(trouble, message)) => {
                            return Ok(Err((trouble, message)));
                        }
                        Some(NamedObject::There(object)) => match object.text() {
                            Some(text) => Some(Arc::clone(text)),
                            None => return Ok(Err(says_nothing(&link.kind, &object))),
                        },
                        Some(NamedObject::Gone) | None => None,
                    };
                    let value = text.as_deref().and_then(|it| serde_json::from_str(it).ok());
                    values.extend(value);
                    collected.insert(link, text);
                }
                if !look.links.fit() {
                    return Ok(Err(too_large()));
                }
            }
        }
        Ok(Ok(collected.into_values().flatten().collect()))
    }

    /// Reads objects that a waiting request depends on, and that were not read yet. False if there is no room to record
    /// the dependence.
    async fn read_links(
        &self,
        request: &Name,
        mut links: Vec<Link>,
        look: &Look,
    ) -> Result<bool, ObserveError> {
        links.retain(|it| !look.links.has(it));
        let has_room = links.is_empty() || {
            // Before the objects are read, so that a change in between wakes the request again.
            let mut state = self.world.write();
            let is_known = state.requests.get(request).is_some();
            !is_known || state.links.add(request, links.iter().cloned())
        };
        if has_room {
            self.read_objects(links, look).await?;
        }
        Ok(has_room)
    }

    /// Reads objects that a grant rests on.
    pub(super) async fn read_followed(
        &self,
        request: &Name,
        mut links: Vec<Link>,
        look: &Look,
    ) -> Result<(), ObserveError> {
        links.retain(|it| !look.links.has(it));
        if !links.is_empty() {
            let mut state = self.world.write();
            if state.requests.get(request).is_some() {
                for link in &links {
                    state.links.follow(request, link.clone());
                }
            }
        }
        self.read_objects(links, look).await
    }

    /// Reads objects side by side.
    async fn read_objects(&self, links: Vec<Link>, look: &Look) -> Result<(), ObserveError> {
        let reads = links.into_iter().map(async |link| {
            let object = self.objects.named(&link.kind, &link.name, look.via).await;
            (link, object)
        });
        let mut reads = stream::iter(reads).buffer_unordered(AT_A_TIME);
        let mut result = Ok(());
        loop {
            match timeout_at(look.until, reads.next()).await {
                Ok(Some((link, Ok(object)))) => look.links.put(link, object),
                Ok(Some((_, Err(error)))) => result = Err(error),
                Ok(None) => return result,
                // An object that was not read may be there.
                Err(_) => return Err(ObserveError::LinksLate),
            }
        }
    }
}

fn link(missing: &Missing) -> Link {
    Link {
        kind: ObjectKind {
            api_version: missing.api_version.to_owned(),
            kind: missing.kind.to_owned(),
        },
        name: Name::new(&missing.namespace, &missing.name),
    }
}

fn too_large() -> (Trouble, String) {
    let message = format!(
        "more than {MOST_OBJECTS} objects, or {} MiB of them, are between the pod and its approvals, or too many requests \
         of the namespace wait for such objects",
        MOST_BYTES / 1024 / 1024
    );
    (Trouble::LineageTooLarge, message)
}

#[cfg(test)]
mod tests {
    use std::future;

    use http::{Request, Response};
    use kube::{Client, client::Body};
    use service_kit::retry::{Backoff, Policy};

    use super::*;
    use crate::{api::Live, testing::Cluster};

    /// A wait for an object that is there would end with the next sweep only.
    #[tokio::test(start_paused = true)]
    async fn an_object_that_is_not_read_in_time_is_not_taken_for_a_missing_one() {
        let second = std::time::Duration::from_secs(1);
        let cluster = Cluster::with_run();
        let mut controller = cluster.controller();
        let silent = tower::service_fn(|_: Request<Body>| {
            future::pending::<Result<Response<Body>, std::convert::Infallible>>()
        });
        let patient = Policy {
            attempts: 1,
            attempt: 60 * second,
            total: 60 * second,
            pauses: Backoff::new(second, second),
        };
        controller.observer = Observer::new(
            Arc::clone(&controller.world),
            Live::new(Client::new(silent, "apps"), patient),
            cluster.evaluator(),
            Arc::clone(&controller.clock),
            2,
        );
        let pod = cluster.server.named("pods", "deploy-1").unwrap();
        let approval = cluster.server.named("approvaltasks", "run-wait").unwrap();
        let approvals = [approval.to_string().into()];
        let collected = async |via| {
            let look = Look::begin(via, Arc::default());
            let request = Cluster::request();
            let observer = &controller.observer;
            observer.lineage(&request, &pod, &approvals, &look).await
        };
        let late = collected(Via::Api).await;
        assert!(matches!(late, Err(ObserveError::LinksLate)), "{late:?}");
        assert_eq!(collected(Via::Caches).await.unwrap().unwrap().len(), 3);
    }
}
