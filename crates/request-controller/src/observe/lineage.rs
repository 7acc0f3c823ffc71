//! Collects the objects between a pod and its approvals.
//!
//! The judge in `connectors_api::lineage` names what it misses. The objects that it names are read, and it is asked
//! again, until it names nothing that was not read. The evaluation service judges the same objects by the same rules;
//! its answer counts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use connectors_api::{
    access_policy::ObjectKind,
    judge::MOST_PROOFS,
    lineage::{self, MOST_OBJECTS, Missing},
};
use futures::future::join_all;
use serde_json::Value;
use tokio::task::yield_now;

use super::{
    ObserveError, Observer, Via,
    objects::{Look, NamedObject},
};
use crate::{api::Name, cache::Link, selection::Trouble};

/// The limit of bytes in the objects of one reconciliation.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// The objects that one reconciliation has read. Each is read once, whatever the number of checks.
#[derive(Debug, Default)]
pub(super) struct LinksRead(Mutex<BTreeMap<Link, NamedObject>>);

/// The objects between a pod and some approvals, as JSON, or the reason why they cannot be collected.
pub(super) type Collected = Result<Vec<Arc<str>>, (Trouble, String)>;

impl LinksRead {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Link, NamedObject>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// True when the objects are within the limits of one reconciliation.
    fn fit(&self) -> bool {
        let read = self.lock();
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
            // No evaluation suspends this task, and other tasks wait for this thread.
            yield_now().await;
            let Ok(approval) = serde_json::from_str(approval) else {
                continue;
            };
            loop {
                let question = lineage::Question {
                    pod,
                    approval: &approval,
                    objects: &values,
                };
                let verdict = lineage::judge(&question);
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
        self.world.write().links.add(request, links.iter().cloned());
        let objects = links
            .iter()
            .map(|link| self.objects.named(&link.kind, &link.name, look.via));
        let objects = join_all(objects).await;
        for (link, object) in links.into_iter().zip(objects) {
            look.links.put(link, object?);
        }
        Ok(())
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
