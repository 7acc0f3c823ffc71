//! Collects the objects between a pod and its approvals.
//!
//! The judge in `connectors_api::lineage` names what it misses. The objects that it names are read, and it is asked
//! again, until it names nothing that was not read. The evaluation service judges the same objects by the same rules;
//! its answer counts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use connectors_api::{
    access_policy::ObjectKind,
    judge::MOST_PROOFS,
    lineage::{self, MOST_OBJECTS, MOST_STEPS_OF_ALL, Missing, Verdict},
};
use futures::{StreamExt as _, stream};
use serde_json::Value;
use tokio::{
    task::yield_now,
    time::{Instant, timeout_at},
};

use super::{
    ObserveError, Observer, Via,
    objects::{Look, NamedObject},
};
use crate::{api::Name, cache::Link, selection::Trouble};

/// The limit of bytes in the objects of one reconciliation.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// The limit of approvals that one reconciliation asks the judge about.
const MOST_APPROVALS: usize = 4 * MOST_PROOFS;
/// The limit of rounds in which the judge names what it misses.
const MOST_ROUNDS: usize = 20;
/// The number of objects that are read side by side.
const AT_A_TIME: usize = 8;

/// The objects that one reconciliation has read, and the rest of its budget. Each is read once, whatever the number of
/// checks.
#[derive(Debug)]
pub(super) struct LinksRead {
    objects: Mutex<BTreeMap<Link, NamedObject>>,
    /// The steps of the judge.
    steps: AtomicUsize,
    approvals: AtomicUsize,
}

impl Default for LinksRead {
    fn default() -> Self {
        Self {
            objects: Mutex::default(),
            steps: AtomicUsize::new(MOST_STEPS_OF_ALL),
            approvals: AtomicUsize::new(0),
        }
    }
}

/// The objects between a pod and some approvals, as JSON, or the reason why they cannot be collected.
pub(super) type Collected = Result<Vec<Arc<str>>, (Trouble, String)>;

impl LinksRead {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Link, NamedObject>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True when a reconciliation depends on an object.
    pub(super) fn has(&self, link: &Link) -> bool {
        self.lock().contains_key(link)
    }

    pub(super) fn put(&self, link: Link, object: NamedObject) {
        self.lock().insert(link, object);
    }

    pub(super) fn get(&self, link: &Link) -> Option<NamedObject> {
        self.lock().get(link).cloned()
    }

    /// The judge's verdict, at the expense of this reconciliation.
    fn judge(&self, question: &lineage::Question<'_>) -> Verdict {
        let mut steps = self.steps.load(Ordering::Relaxed);
        let verdict = lineage::judge_within(question, &mut steps);
        self.steps.store(steps, Ordering::Relaxed);
        verdict
    }

    /// True when the judge may be asked about one more approval.
    fn may_ask(&self) -> bool {
        self.approvals.fetch_add(1, Ordering::Relaxed) < MOST_APPROVALS
    }

    /// True when the objects are within the limits of one reconciliation.
    fn fit(&self) -> bool {
        let read = self.lock();
        if read.len() > MOST_OBJECTS {
            return false;
        }
        let texts = read.values().filter_map(NamedObject::text);
        texts.map(|it| it.len()).sum::<usize>() <= MOST_BYTES
    }
}

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
            self.read_links(request, known, look).await?;
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
                if round == MOST_ROUNDS || Instant::now() > look.until {
                    return Ok(Err(too_large()));
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
                self.read_links(request, missing.clone(), look).await?;
                for link in missing {
                    let text = match look.links.get(&link) {
                        Some(NamedObject::Trouble(trouble, message)) => {
                            return Ok(Err((trouble, message)));
                        }
                        Some(object) => object.text().cloned(),
                        None => None,
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

    /// Reads the objects that were not read yet, side by side.
    pub(super) async fn read_links(
        &self,
        request: &Name,
        mut links: Vec<Link>,
        look: &Look,
    ) -> Result<(), ObserveError> {
        links.retain(|it| !look.links.has(it));
        if links.is_empty() {
            return Ok(());
        }
        // Before the objects are read, so that a change in between wakes the request again.
        {
            let mut state = self.world.write();
            if state.requests.get(request).is_some() {
                state.links.add(request, links.iter().cloned());
            }
        }
        let reads = links.into_iter().map(async |link| {
            let object = self.objects.named(&link.kind, &link.name, look.via).await;
            (link, object)
        });
        let mut reads = stream::iter(reads).buffer_unordered(AT_A_TIME);
        let mut result = Ok(());
        while let Ok(Some((link, object))) = timeout_at(look.until, reads.next()).await {
            match object {
                Ok(object) => look.links.put(link, object),
                Err(error) => result = Err(error),
            }
        }
        result
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
        "more than {MOST_OBJECTS} objects, or {} MiB of them, are between the pod and its approvals",
        MOST_BYTES / 1024 / 1024
    );
    (Trouble::LineageTooLarge, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use service_kit::watches::Parse as _;

    use super::*;
    use crate::check_object::{AsText, LARGEST};

    #[test]
    fn the_objects_of_one_look_have_a_limit() {
        let large = json!({"metadata": {"name": "a"}, "data": "x".repeat(LARGEST - 100)});
        let object = Arc::new(AsText::parse(&large.to_string()).unwrap());
        let links = LinksRead::default();
        for number in 0..MOST_BYTES / LARGEST {
            let link = Link {
                kind: ObjectKind {
                    api_version: "tekton.dev/v1".to_owned(),
                    kind: "TaskRun".to_owned(),
                },
                name: Name::new("apps", &number.to_string()),
            };
            links.put(link.clone(), NamedObject::There(Arc::clone(&object)));
            assert!(links.fit() && links.has(&link));
        }
        let another = Link {
            kind: ObjectKind {
                api_version: "tekton.dev/v1".to_owned(),
                kind: "PipelineRun".to_owned(),
            },
            name: Name::new("apps", "0"),
        };
        assert!(links.get(&another).is_none());
        links.put(another, NamedObject::There(object));
        assert!(!links.fit());
    }
}
