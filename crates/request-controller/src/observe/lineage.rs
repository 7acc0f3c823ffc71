//! Collects the objects between a pod and its approvals.
//!
//! The judge of a lineage names what it misses. The objects that it names are read, and it is asked
//! again, until it names nothing that was not read. The evaluation service judges the same objects by the same rules;
//! its answer counts.

use std::collections::BTreeSet;

use connectors_api::{
    access_policy::ObjectKind,
    lineage::{Lineage, LineageQuestion, MOST_OBJECTS, MissingLink},
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
use crate::{api::Name, cache::Link, check_object::ObjectText, selection::CheckTrouble};

/// The limit of rounds in which the judge names what it misses.
const MOST_ROUNDS: usize = 20;
/// The number of objects that are read side by side.
const AT_A_TIME: usize = 8;

/// The objects between a pod and some approvals.
#[derive(Debug, Default)]
pub(super) struct Collected {
    /// Those that were read, as JSON.
    pub(super) texts: Vec<ObjectText>,
    values: Vec<Value>,
    /// The object that was asked for, whether it exists or not.
    asked: BTreeSet<Link>,
    /// Why one of them could not be read. Only approvals that need that one have no proof.
    pub(super) trouble: Option<(CheckTrouble, String)>,
}

impl Collected {
    fn take(&mut self, link: Link, object: Option<NamedObject>) {
        let trouble = match object {
            Some(NamedObject::There(object)) => match object.text() {
                Some(text) => {
                    self.values.extend(serde_json::from_str(&text.read()).ok());
                    self.texts.push(text.clone());
                    None
                }
                None => Some(says_nothing(&link.kind, &object)),
            },
            Some(NamedObject::Trouble(trouble, message)) => Some((trouble, message)),
            Some(NamedObject::Gone) | None => None,
        };
        if let Some(trouble) = trouble {
            self.trouble.get_or_insert(trouble);
        }
        self.asked.insert(link);
    }
}

impl Observer {
    /// Collects the objects between a pod and these approvals.
    pub(super) async fn lineage(
        &self,
        lineage: &'static dyn Lineage,
        request: &Name,
        pod: &Value,
        approvals: &[ObjectText],
        look: &Look,
    ) -> Result<Collected, ObserveError> {
        let mut collected = Collected::default();
        if look.via == Via::Api {
            // Those of the last reconciliation from the caches, all at once: each round of questions is a round trip.
            let known: Vec<_> = {
                let state = self.world.read();
                state.links.of_request(request).cloned().collect()
            };
            if !self.read_links(request, known, look).await? {
                collected.trouble = Some(too_large());
                return Ok(collected);
            }
        }
        for approval in approvals {
            let Ok(approval) = serde_json::from_str(&approval.read()) else {
                continue;
            };
            let has_room = self
                .lineage_of(lineage, request, pod, &approval, look, &mut collected)
                .await?;
            if !has_room {
                collected.trouble.get_or_insert_with(too_large);
                break;
            }
        }
        Ok(collected)
    }

    /// Collects the objects between a pod and one approval. False if there is no room for them, or no work is left.
    async fn lineage_of(
        &self,
        lineage: &'static dyn Lineage,
        request: &Name,
        pod: &Value,
        approval: &Value,
        look: &Look,
        collected: &mut Collected,
    ) -> Result<bool, ObserveError> {
        for _ in 0..MOST_ROUNDS {
            // No evaluation suspends this task, and other tasks wait for this thread.
            yield_now().await;
            if Instant::now() > look.until {
                return Err(ObserveError::LinksLate);
            }
            let question = LineageQuestion {
                pod,
                approval,
                objects: &collected.values,
            };
            let verdict = look.links.judge(lineage, &question);
            if verdict.is_too_large() {
                return Ok(false);
            }
            let missing: BTreeSet<_> = verdict.to_read().map(link).collect();
            let missing: Vec<_> = missing
                .into_iter()
                .filter(|it| !collected.asked.contains(it))
                .collect();
            if missing.is_empty() {
                return Ok(true);
            }
            let has_room = collected.asked.len() + missing.len() <= MOST_OBJECTS
                && self.read_links(request, missing.clone(), look).await?
                && look.links.fit();
            if !has_room {
                return Ok(false);
            }
            for link in missing {
                let object = look.links.get(&link);
                collected.take(link, object);
            }
        }
        Ok(false)
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
                    state.links.follow(request, link);
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

fn link(missing: &MissingLink) -> Link {
    Link {
        kind: ObjectKind {
            api_version: missing.api_version.to_owned(),
            kind: missing.kind.to_owned(),
        },
        name: Name::new(&missing.namespace, &missing.name),
    }
}

fn too_large() -> (CheckTrouble, String) {
    let message = format!(
        "more than {MOST_OBJECTS} objects, or {} MiB of them, are between the pod and its approvals, or too many requests \
         of the namespace wait for such objects",
        MOST_BYTES / 1024 / 1024
    );
    (CheckTrouble::LineageTooLarge, message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::{convert::Infallible, future, time::Duration};

    use connectors_api::lineage::TEKTON;
    use http::{Request, Response, StatusCode};
    use kube::{Client, client::Body};
    use serde_json::json;
    use service_kit::watches::Parse as _;
    use tokio::time::advance;

    use super::*;
    use crate::{
        check_object::{AsText, LARGEST},
        observe::tests::reads_by,
        reconcile::Reconciler,
        testing::Cluster,
    };

    /// More links than the requests of one namespace may depend on.
    const MORE_THAN_ALL: usize = 100_000;

    fn link_to(name: &str) -> Link {
        Link {
            kind: ObjectKind {
                api_version: "tekton.dev/v1".to_owned(),
                kind: "TaskRun".to_owned(),
            },
            name: Name::new("apps", name),
        }
    }

    /// The objects between the pod of the run and its approval.
    async fn asked(
        controller: &Reconciler,
        cluster: &Cluster,
        look: &Look,
    ) -> Result<Collected, ObserveError> {
        let pod = cluster.server.named("pods", "run-deploy-pod").unwrap();
        let approval = cluster.server.named("approvaltasks", "run-wait").unwrap();
        let approvals = [approval.to_string().into()];
        let request = Cluster::request();
        let observer = &controller.observer;
        let collected = observer.lineage(TEKTON, &request, &pod, &approvals, look);
        collected.await
    }

    fn troubled(collected: &Collected) -> Option<CheckTrouble> {
        collected.trouble.as_ref().map(|(trouble, _)| *trouble)
    }

    async fn collected(cluster: &Cluster, approvals: &[Value]) -> Collected {
        let controller = cluster.controller();
        let pod = cluster.server.named("pods", "run-deploy-pod").unwrap();
        let approvals: Vec<ObjectText> = approvals.iter().map(|it| it.to_string().into()).collect();
        let look = Look::begin((Via::Api, false), Arc::default());
        let request = Cluster::request();
        let observer = &controller.observer;
        let collected = observer.lineage(TEKTON, &request, &pod, &approvals, &look);
        collected.await.unwrap()
    }

    fn names(collected: &Collected) -> Vec<String> {
        let asked = collected.asked.iter();
        asked.map(|it| it.name.name.clone()).collect()
    }

    /// Every account that may create approvals can copy labels, and name any object as the owner.
    #[tokio::test(start_paused = true)]
    async fn nothing_is_read_for_approvals_of_strangers() {
        let cluster = Cluster::with_run();
        let approval = cluster.server.named("approvaltasks", "run-wait").unwrap();
        let mut approvals = Vec::new();
        for number in 0..100 {
            let name = format!("a-{number}");
            let mut stranger = approval.clone();
            stranger["metadata"]["ownerReferences"][0]["name"] = name.clone().into();
            stranger["metadata"]["name"] = name.into();
            approvals.push(stranger);
        }
        approvals.push(approval);
        let collected = collected(&cluster, &approvals).await;
        assert_eq!(names(&collected), ["run", "run-deploy", "run-wait"]);
        assert_eq!(collected.texts.len(), 3);
        assert!(collected.trouble.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_unreadable_link_is_trouble_for_the_approvals_that_need_it() {
        let cluster = Cluster::with_run();
        cluster.server.change("customruns", "run-wait", |it| {
            it["spec"]["timeout"] = "x".repeat(LARGEST).into();
        });
        let approval = cluster.server.named("approvaltasks", "run-wait").unwrap();
        let collected = collected(&cluster, &[approval.clone(), approval]).await;
        assert_eq!(collected.texts.len(), 2);
        assert_eq!(troubled(&collected), Some(CheckTrouble::ObjectUnreadable));
    }

    /// A wait for an object that is there would end with the next sweep only.
    #[tokio::test(start_paused = true)]
    async fn an_object_that_is_not_read_in_time_is_not_taken_for_a_missing_one() {
        let cluster = Cluster::with_run();
        let mut controller = cluster.controller();
        let silent = tower::service_fn(|_: Request<Body>| {
            future::pending::<Result<Response<Body>, Infallible>>()
        });
        reads_by(&mut controller, &cluster, Client::new(silent, "apps"));
        let look = Look::begin((Via::Api, false), Arc::default());
        let late = asked(&controller, &cluster, &look).await;
        assert!(matches!(late, Err(ObserveError::LinksLate)), "{late:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_that_the_api_server_does_not_give_is_not_taken_for_a_missing_one() {
        let cluster = Cluster::with_run();
        let mut controller = cluster.controller();
        let broken = tower::service_fn(async |_: Request<Body>| {
            let mut failed = Response::new(Body::empty());
            *failed.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            Ok::<_, Infallible>(failed)
        });
        reads_by(&mut controller, &cluster, Client::new(broken, "apps"));
        let look = Look::begin((Via::Api, false), Arc::default());
        let failed = asked(&controller, &cluster, &look).await;
        assert!(failed.is_err(), "{failed:?}");
        assert!(
            !matches!(failed, Err(ObserveError::LinksLate)),
            "{failed:?}"
        );
    }

    /// No evaluation suspends a task, so that many large runs would hold it without this.
    #[tokio::test(start_paused = true)]
    async fn a_look_without_time_left_judges_nothing() {
        let cluster = Cluster::with_run();
        let controller = cluster.controller();
        let look = Look::begin((Via::Api, false), Arc::default());
        let first = asked(&controller, &cluster, &look).await.unwrap();
        assert_eq!(first.texts.len(), 3);
        advance(look.until - Instant::now()).await;
        let last = asked(&controller, &cluster, &look).await.unwrap();
        assert_eq!(last.texts.len(), 3, "its time is up only now");
        advance(Duration::from_millis(1)).await;
        let late = asked(&controller, &cluster, &look).await;
        assert!(matches!(late, Err(ObserveError::LinksLate)), "{late:?}");
    }

    /// Each round of questions is a round trip.
    #[tokio::test(start_paused = true)]
    async fn objects_that_a_request_depends_on_are_read_live_all_at_once() {
        let cluster = Cluster::with_run();
        let mut controller = cluster.controller();
        reads_by(&mut controller, &cluster, cluster.server.slow_client());
        let took = async || {
            let look = Look::begin((Via::Api, false), Arc::default());
            let began = Instant::now();
            let collected = asked(&controller, &cluster, &look).await.unwrap();
            assert_eq!(collected.texts.len(), 3);
            began.elapsed().as_secs()
        };
        assert!(took().await > 1, "they are not known yet");
        assert_eq!(took().await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn approvals_need_so_many_objects_together_and_no_more() {
        let of_a_proof = 3;
        for (others, has_room) in [
            (MOST_OBJECTS - of_a_proof, true),
            (MOST_OBJECTS - of_a_proof + 1, false),
        ] {
            let cluster = Cluster::with_run();
            let controller = cluster.controller();
            let pod = cluster.server.named("pods", "run-deploy-pod").unwrap();
            let approval = cluster.server.named("approvaltasks", "run-wait").unwrap();
            let look = Look::begin((Via::Api, false), Arc::default());
            let asked = (0..others).map(|it| link_to(&format!("other-{it}")));
            let mut collected = Collected {
                asked: asked.collect(),
                ..Collected::default()
            };
            let request = Cluster::request();
            let observer = &controller.observer;
            let read =
                observer.lineage_of(TEKTON, &request, &pod, &approval, &look, &mut collected);
            assert_eq!(read.await.unwrap(), has_room, "{others} others");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_is_too_large_to_be_judged_is_trouble() {
        let cluster = Cluster::with_run();
        cluster.server.change("pipelineruns", "run", |it| {
            it["status"]["childReferences"] = vec![json!({}); 5_000].into();
        });
        let approval = cluster.server.named("approvaltasks", "run-wait").unwrap();
        let collected = collected(&cluster, &[approval]).await;
        assert_eq!(troubled(&collected), Some(CheckTrouble::LineageTooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn links_that_are_too_large_together_are_trouble() {
        let cluster = Cluster::with_run();
        let controller = cluster.controller();
        let look = Look::begin((Via::Api, false), Arc::default());
        let large = json!({"metadata": {"name": "a"}, "data": "x".repeat(LARGEST - 100)});
        let large = Arc::new(AsText::parse(&large.to_string()).unwrap().object);
        for number in 0..=MOST_BYTES / LARGEST {
            let object = NamedObject::There(Arc::clone(&large));
            look.links.put(link_to(&number.to_string()), object);
        }
        let collected = asked(&controller, &cluster, &look).await.unwrap();
        assert_eq!(troubled(&collected), Some(CheckTrouble::LineageTooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn links_without_room_are_trouble() {
        let cluster = Cluster::with_run();
        let controller = cluster.controller();
        let look = Look::begin((Via::Caches, false), Arc::default());
        {
            let mut state = controller.world.write();
            assert!(state.requests.get(&Cluster::request()).is_some());
            let others = (0..MORE_THAN_ALL).map(|it| link_to(&format!("other-{it}")));
            assert!(!state.links.add(&Name::new("apps", "another"), others));
        }
        let collected = asked(&controller, &cluster, &look).await.unwrap();
        assert_eq!(troubled(&collected), Some(CheckTrouble::LineageTooLarge));
    }
}
