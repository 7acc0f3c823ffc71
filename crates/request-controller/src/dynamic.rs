//! Watches of the kinds that policies name, as long as any policy names them.
//!
//! Whether a kind exists and may be read is polled: neither CustomResourceDefinitions nor the controller's own rights
//! are watched, and both may change at any time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use connectors_api::access_policy::ObjectKind;
use futures::StreamExt;
use kube::{Api, Client, api::ListParams, core::ApiResource, runtime::watcher};
use service_kit::{
    chance,
    kinds::{self, Served},
    shutdown::Stop,
    watches::{Change, Changes, Guarded, ListState, Watch, WatchMetrics},
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use tracing::info;

use crate::{
    cache::{Job, Keeps, KindState, Wakes, World},
    check_kinds,
    check_object::{AsText, NamedCheck},
};

/// The interval of looking for new kinds in policies.
const NOTICE: Duration = Duration::from_millis(250);
/// The polling interval of a kind that does not exist or may not be read.
const RETRY: Duration = Duration::from_secs(5);
/// The polling interval of a kind that is watched.
const RECHECK: Duration = Duration::from_secs(30);
/// The shortest time for which a cache keeps all objects of a kind. A policy that comes and goes would otherwise have a
/// kind that others need watched anew each time.
const NARROW: Duration = Duration::from_hours(1);
/// The timeout of a single call.
const LIMIT: Duration = Duration::from_secs(10);

/// Objects per page of a list. A tenant's object may have 1.5 MB.
const PAGE: u32 = 50;

/// Takes jobs for the queue.
pub type Sink = Arc<dyn Fn(Wakes) + Send + Sync>;

/// Takes jobs that are not urgent, for a later reconciliation.
pub type Later = Arc<dyn Fn(Vec<Job>) + Send + Sync>;

/// Watches the wanted kinds until the process stops.
pub async fn follow(
    client: Client,
    world: Arc<World>,
    (sink, later): (Sink, Later),
    metrics: WatchMetrics,
    stop: Stop,
) {
    let mut running: BTreeMap<ObjectKind, KindWatch> = BTreeMap::new();
    let mut known = None;
    loop {
        let revision = world.read().revision();
        if known.replace(revision) == Some(revision) {
            tokio::select! {
                biased;
                () = stop.stopped() => break,
                () = sleep(NOTICE) => continue,
            }
        }
        let wanted = world.read().wanted_kinds();
        for (kind, it) in &mut running {
            if wanted.get(kind).is_some_and(|wanted| *wanted < it.keeps)
                && it.since.elapsed() >= NARROW
            {
                it.keeps = Keeps::Linked;
                world.write().narrow_kind(kind);
            }
        }
        let changed: Vec<_> = running
            .extract_if(.., |kind, it| {
                wanted.get(kind).is_none_or(|wanted| *wanted > it.keeps)
            })
            .collect();
        for (kind, it) in changed {
            it.task.abort();
            // A watch that has not stopped would write into the cache of the next one.
            let _ = it.task.await;
            world.write().forget_kind(&kind);
            if !wanted.contains_key(&kind) {
                info!(kind = kind.kind, "kind is not needed any more");
            }
        }
        for (kind, keeps) in wanted {
            running.entry(kind.clone()).or_insert_with(|| {
                world.write().begin_kind(&kind, keeps);
                let one = One {
                    client: client.clone(),
                    world: Arc::clone(&world),
                    sink: Arc::clone(&sink),
                    later: Arc::clone(&later),
                    metrics: metrics.clone(),
                    kind,
                };
                KindWatch {
                    keeps,
                    since: Instant::now(),
                    task: tokio::spawn(async move { one.run().await }),
                }
            });
        }
    }
    for it in running.into_values() {
        it.task.abort();
    }
}

/// The watch of one kind.
struct KindWatch {
    keeps: Keeps,
    since: Instant,
    task: JoinHandle<()>,
}

struct One {
    client: Client,
    world: Arc<World>,
    sink: Sink,
    later: Later,
    metrics: WatchMetrics,
    kind: ObjectKind,
}

impl One {
    async fn run(&self) {
        loop {
            match find(&self.client, &self.kind).await {
                Some(FoundKind::Readable(resource)) => self.watch(resource).await,
                Some(FoundKind::Not(state)) => self.becomes(state),
                // No answer: the last known state stays.
                None => {}
            }
            sleep(RETRY.mul_f64(0.8 + chance::fraction() / 2.5)).await;
        }
    }

    fn becomes(&self, state: KindState) {
        let wakes = self.world.write().kind(&self.kind, state);
        (self.sink)(wakes);
    }

    /// Watches until the kind can no longer be read.
    async fn watch(&self, resource: ApiResource) {
        // Two groups may have kinds of one name.
        let name = match resource.group.as_str() {
            "" => format!("{} of checks", resource.plural),
            group => format!("{}.{group}", resource.plural),
        };
        let watch = Watch {
            name: &name,
            config: watcher::Config::default().page_size(PAGE),
            ready: None,
            metrics: &self.metrics,
        };
        self.becomes(KindState::Listing(resource.clone()));
        let api: Api<Guarded<NamedCheck, AsText>> = Api::all_with(self.client.clone(), &resource);
        let mut events = Box::pin(watch.start(api));
        let mut changes = Changes::default();
        let mut recheck = Box::pin(sleep(RECHECK));
        loop {
            tokio::select! {
                biased;
                () = &mut recheck => {
                    match find(&self.client, &self.kind).await {
                        Some(FoundKind::Readable(now)) if now == resource => {}
                        None => {}
                        // Deletions until the next list are not seen.
                        Some(FoundKind::Readable(_)) => return self.becomes(KindState::Starting),
                        Some(FoundKind::Not(state)) => {
                            self.becomes(state);
                            return;
                        }
                    }
                    recheck = Box::pin(sleep(RECHECK));
                }
                event = events.next() => {
                    let Some(event) = event else {
                        return self.becomes(KindState::Starting);
                    };
                    let (list, listing) = changes.of(event);
                    for change in list {
                        self.changed(&resource, change);
                    }
                    if listing == Some(ListState::Ends) {
                        self.becomes(KindState::Watching(resource.clone()));
                    }
                }
            }
        }
    }

    fn changed(&self, resource: &ApiResource, change: Change<Guarded<NamedCheck, AsText>>) {
        let (name, object) = match change {
            Change::There(name, object) => {
                let object = object.object.map(|it| it.object.of_kind(resource));
                (name, Some(object))
            }
            Change::Gone(name) => (name, None),
        };
        let (wakes, later) = {
            let mut state = self.world.write();
            let wakes = state.object(&self.kind, &name, object);
            (wakes, state.may_get_more(&self.kind, &name))
        };
        (self.later)(later);
        (self.sink)(wakes);
    }
}

/// The state of a kind that discovery found.
pub(crate) enum FoundKind {
    /// The objects can be read.
    Readable(ApiResource),
    /// The objects cannot be read.
    Not(KindState),
}

/// Asks the API server whether the kind exists and may be read. None if it does not answer.
pub(crate) async fn find(client: &Client, wanted: &ObjectKind) -> Option<FoundKind> {
    let ObjectKind { api_version, kind } = wanted;
    if check_kinds::may_be_check(wanted).is_err() {
        return Some(FoundKind::Not(KindState::Refused));
    }
    let resource = match kinds::served(client, api_version, kind).await? {
        Served::Missing => return Some(FoundKind::Not(KindState::Missing)),
        Served::ClusterScoped => return Some(FoundKind::Not(KindState::NotNamespaced)),
        Served::Namespaced(resource) => resource,
    };
    let api: Api<Guarded<NamedCheck, AsText>> = Api::all_with(client.clone(), &resource);
    let params = ListParams::default().limit(1);
    match timeout(LIMIT, api.list(&params)).await {
        Ok(Ok(_)) => Some(FoundKind::Readable(resource)),
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            Some(FoundKind::Not(KindState::Forbidden {
                plural: resource.plural,
                group: resource.group,
            }))
        }
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
            Some(FoundKind::Not(KindState::Missing))
        }
        Ok(Err(_)) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Mutex};

    use connectors_api::{AccessPolicy, check_selector::CompiledPolicy};
    use http::{Request, Response, StatusCode};
    use kube::client::Body;
    use prometheus::Registry;
    use serde_json::{Value, json};
    use service_kit::{shutdown::Tasks, watches::Parse as _};

    use super::*;
    use crate::{
        api::Name,
        cache::{KindObject, PolicyCached},
        testing::{ApiServer, Cluster},
    };

    const CONFIG_MAPS: (&str, &str, &str) = ("v1", "ConfigMap", "None");

    fn kind(api_version: &str, kind: &str) -> ObjectKind {
        ObjectKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// A client of an API server that never answers.
    fn silent() -> Client {
        let silent = tower::service_fn(|_: Request<Body>| {
            std::future::pending::<Result<Response<Body>, Infallible>>()
        });
        Client::new(silent, "tools")
    }

    /// Follows the wanted kinds, as long as the tasks are there.
    fn following(client: Client, sink: Sink, later: Later) -> (Arc<World>, Tasks) {
        let (world, tasks) = (Arc::new(World::default()), Tasks::new());
        tokio::spawn(follow(
            client,
            Arc::clone(&world),
            (sink, later),
            WatchMetrics::register(&Registry::new()).unwrap(),
            tasks.stop(),
        ));
        (world, tasks)
    }

    /// A policy of that name has these checks.
    fn decide(world: &World, name: &str, checks: &[(&str, &str, &str)]) {
        let name = Name::new("tools", name);
        let _ = world.write().policy(&name, Some(policy(checks)));
    }

    /// A policy of each check, given as its kind and its provenance.
    fn policy(checks: &[(&str, &str, &str)]) -> PolicyCached {
        let check = |(api_version, kind, provenance): &(&str, &str, &str)| {
            json!({"name": kind.to_lowercase(), "provenance": provenance, "selector": {
                "labels": {"a": "b"}, "objectRef": {"apiVersion": api_version, "kind": kind},
            }})
        };
        let checks: Vec<Value> = checks.iter().map(check).collect();
        let object = json!({
            "metadata": {"name": "p", "namespace": "tools", "uid": "p-uid"},
            "spec": {"checkGrantedPermission": {"spec": {
                "checks": checks, "permissions": {"roleTemplate": {"rules": []}},
            }}},
        });
        let policy: AccessPolicy = serde_json::from_value(object).unwrap();
        PolicyCached {
            uid: "p-uid".to_owned(),
            deleting: false,
            policy: Ok(Arc::new(CompiledPolicy::of(policy, None))),
        }
    }

    /// A cache of a few objects must not pass for one of all.
    #[tokio::test(start_paused = true)]
    async fn a_kind_that_a_check_selects_later_is_watched_anew_once_an_hour() {
        let (world, _tasks) = following(silent(), Arc::new(|_| {}), Arc::new(|_| {}));
        let approvals = ("openshift-pipelines.org/v1alpha1", "ApprovalTask", "Auto");
        let task_runs = ("tekton.dev/v1", "TaskRun", "None");
        for (checks, keeps) in [
            (vec![approvals], false),
            (vec![approvals, task_runs], true),
            (vec![approvals], true),
            (vec![approvals, task_runs], true),
        ] {
            decide(&world, "p", &checks);
            sleep(2 * NOTICE).await;
            let state = world.read();
            let kinds = state.kinds.iter().filter(|(it, _)| it.kind == "TaskRun");
            let kept: Vec<_> = kinds.map(|(_, it)| it.keeps("apps")).collect();
            assert_eq!(kept, [keeps]);
        }
        sleep(NARROW).await;
        decide(&world, "p", &[approvals]);
        sleep(2 * NOTICE).await;
        let state = world.read();
        let mut kinds = state.kinds.iter().filter(|(it, _)| it.kind == "TaskRun");
        assert!(kinds.all(|(_, it)| !it.keeps("apps")));
    }

    /// However often policies change, and however long it has been watched.
    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_wanted_as_before_keeps_its_objects() {
        let (world, _tasks) = following(silent(), Arc::new(|_| {}), Arc::new(|_| {}));
        decide(&world, "p", &[CONFIG_MAPS]);
        sleep(2 * NOTICE).await;
        let (kind, name) = (kind("v1", "ConfigMap"), Name::new("apps", "a"));
        let object = AsText::parse(r#"{"metadata": {}}"#).unwrap().object;
        let _ = world.write().object(&kind, &name, Some(Ok(object)));
        for (other, pause) in [("q", Duration::ZERO), ("r", NARROW)] {
            sleep(pause).await;
            decide(&world, other, &[CONFIG_MAPS]);
            sleep(2 * NOTICE).await;
            let state = world.read();
            let known = state.kinds[&kind].get(&name);
            assert!(matches!(known, Some(KindObject::There(_))), "{other}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_kind_that_can_be_read_is_watched_and_its_objects_wake_who_may_find_them() {
        let cluster = Cluster::new();
        cluster.approval("approved");
        let jobs = Arc::new(Mutex::new((Wakes::new(), Vec::new())));
        let (now, later) = (Arc::clone(&jobs), Arc::clone(&jobs));
        let (world, _tasks) = following(
            cluster.server.client(),
            Arc::new(move |wakes| now.lock().unwrap().0.extend(wakes)),
            Arc::new(move |jobs| later.lock().unwrap().1.extend(jobs)),
        );
        let status = json!({"phase": "Granted", "policies": [
            {"policy": {}, "grant": {"state": "Granted"}}, {"policy": {}},
        ]});
        for (name, status) in [("waiting", Value::Null), ("granted", status)] {
            let mut request = cluster.server.named("accessrequests", "request").unwrap();
            request["metadata"]["name"] = name.into();
            request["metadata"]["uid"] = name.into();
            request["status"] = status;
            let request = serde_json::from_value(request).unwrap();
            let name = Name::new("tools", name);
            let _ = world.write().request(&name, Ok(Arc::new(request)));
        }
        decide(&world, "p", &[CONFIG_MAPS]);
        sleep(2 * NOTICE).await;
        {
            let state = world.read();
            let cache = &state.kinds[&kind("v1", "ConfigMap")];
            assert!(matches!(cache.state, KindState::Watching(_)));
            let found = cache.get(&Name::new("apps", "approval-1"));
            let Some(KindObject::There(found)) = found else {
                panic!("{found:?}");
            };
            assert_eq!(found.value().unwrap()["kind"], "ConfigMap");
        }
        let (now, later) = jobs.lock().unwrap().clone();
        let job = |name: &str| Job::Request(Name::new("tools", name));
        assert!(now.iter().any(|(it, _)| *it == job("waiting")), "{now:?}");
        assert_eq!(later, [job("granted")]);
    }

    /// Kinds come with an installation, and nobody tells of it.
    #[tokio::test(start_paused = true)]
    async fn a_kind_that_is_missing_is_looked_for_about_every_five_seconds() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let times = Arc::clone(&asked);
        let without = tower::service_fn(move |_: Request<Body>| {
            times.lock().unwrap().push(Instant::now());
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_FOUND;
            async move { Ok::<_, Infallible>(response) }
        });
        let client = Client::new(without, "tools");
        let (world, _tasks) = following(client, Arc::new(|_| {}), Arc::new(|_| {}));
        decide(&world, "p", &[CONFIG_MAPS]);
        sleep(60 * RETRY).await;
        let state = world.read().kinds[&kind("v1", "ConfigMap")].state.clone();
        assert_eq!(state, KindState::Missing);
        let asked = asked.lock().unwrap();
        assert!(asked.len() >= 48, "{}", asked.len());
        for times in asked.windows(2) {
            let pause = (times[1] - times[0]).as_secs_f64();
            assert!((3.99..=6.01).contains(&pause), "{pause}");
        }
    }

    #[tokio::test]
    async fn a_kind_is_forbidden_or_missing_only_if_the_api_server_says_so() {
        let kind = kind("v1", "ConfigMap");
        for (answer, expected) in [
            (None, "readable"),
            (Some(StatusCode::FORBIDDEN), "forbidden"),
            (Some(StatusCode::NOT_FOUND), "missing"),
            (Some(StatusCode::UNAUTHORIZED), "no answer"),
            (Some(StatusCode::INTERNAL_SERVER_ERROR), "no answer"),
        ] {
            let server = ApiServer::new();
            if let Some(answer) = answer {
                server.refuse("LIST configmaps", answer);
            }
            let said = match find(&server.client(), &kind).await {
                Some(FoundKind::Readable(resource)) if resource.plural == "configmaps" => {
                    "readable"
                }
                Some(FoundKind::Not(KindState::Forbidden { plural, group })) => {
                    assert_eq!((plural.as_str(), group.as_str()), ("configmaps", ""));
                    "forbidden"
                }
                Some(FoundKind::Not(KindState::Missing)) => "missing",
                Some(FoundKind::Readable(_) | FoundKind::Not(_)) => "something else",
                None => "no answer",
            };
            assert_eq!(said, expected, "{answer:?}");
        }
    }

    #[tokio::test]
    async fn of_what_is_never_a_check_nothing_is_asked() {
        let asked = tower::service_fn(|_: Request<Body>| async {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            Ok::<_, Infallible>(response)
        });
        let client = Client::new(asked, "tools");
        let pods = find(&client, &kind("v1", "Pod")).await;
        assert!(matches!(pods, Some(FoundKind::Not(KindState::Refused))));
        // For an allowed kind the API server is asked, and here it does not answer.
        assert!(find(&client, &kind("v1", "ConfigMap")).await.is_none());
    }
}
