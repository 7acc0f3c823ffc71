//! The costs of many waiting requests: their approval at once, an event of one object, the memory.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use connectors_api::access_request::Phase;
use connectors_api::labels::MANAGED_BY;
use connectors_api::{AccessRequest, names};
use e2e::ApiClient;
use e2e::api::kinds::{ACCESS_REQUEST, CONFIG_MAP, NAMESPACE, POD, ROLE, SERVICE_ACCOUNT};
use e2e::pipelines::RUN_LABEL;
use futures::TryStreamExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::rounds::{self, Way};
use crate::support::load::Times;
use crate::support::place::Place;
use crate::support::process::Running;

/// The time limit of the measurements on a crowd.
const PATIENCE: Duration = Duration::from_mins(15);
/// Callers that create and approve at a time.
const CALLERS: usize = 8;
/// Events of one object that are measured, and the pause between them: each is an event of its own.
const EVENTS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(25);
/// After so many requests a line tells the progress.
const MANY: usize = 1000;
/// The program whose cost counts.
pub(crate) const CONTROLLER: &str = "request-controller";

/// Requests that wait for an approval each, in namespaces with a connector and a policy of their own.
pub(crate) struct Crowd {
    names: Vec<String>,
    spaces: Vec<ApiClient>,
    each: usize,
    runtime: Runtime,
    clients: Vec<Api<AccessRequest>>,
}

/// When a request was told to be in a phase.
struct Told {
    at: Instant,
    name: String,
}

impl Crowd {
    /// Creates the requests, and waits until all of them wait for their approval.
    pub(crate) fn gather(place: &Place, word: &str, namespaces: usize, each: usize) -> Self {
        let runtime = Runtime::new().unwrap();
        let client = runtime.block_on(place.client());
        let admin = ApiClient::connect(&place.kubeconfig, &place.namespace).unwrap();
        let names: Vec<_> = (0..namespaces)
            .map(|number| format!("{}-{word}-{number}", place.namespace))
            .collect();
        for name in &names {
            admin.create_namespace(name).unwrap();
        }
        let spaces: Vec<_> = names.iter().map(|it| admin.in_namespace(it)).collect();
        let clients = names
            .iter()
            .map(|it| Api::namespaced(client.clone(), it))
            .collect();
        let crowd = Self {
            names,
            spaces,
            each,
            runtime,
            clients,
        };
        for api in &crowd.spaces {
            let account = (SERVICE_ACCOUNT, "default");
            let what = "the namespace's service account";
            api.wait_for(what, account, PATIENCE, |_| true).unwrap();
            for object in rounds::rules(Way::ConfigMap) {
                api.apply(&object).unwrap();
            }
        }
        let told = crowd.watch(Phase::Pending);
        crowd.of_each(|api, space, name| {
            api.create(&approval(name)).unwrap();
            api.create(&rounds::waiting_pod(name)).unwrap();
            let request = rounds::request(Way::ConfigMap, name, name, &crowd.names[space]);
            api.create(&request).unwrap();
        });
        crowd.all_told(&told);
        crowd
    }

    pub(crate) fn count(&self) -> usize {
        self.spaces.len() * self.each
    }

    /// All approvals are given. The time is from the first one to the last grant.
    pub(crate) fn approve(&self) -> Duration {
        let told = self.watch(Phase::Granted);
        let began = Instant::now();
        in_turns(CALLERS, self.count(), |number| {
            self.decide(number, "approved");
        });
        self.all_told(&told) - began
    }

    /// Writes the verdict on a request.
    fn decide(&self, number: usize, verdict: &str) {
        let fields = json!({"data": {"verdict": verdict}});
        let (api, name) = self.request(number);
        api.patch(CONFIG_MAP, &name, &fields).unwrap();
    }

    /// These approvals are given one after the other, each as soon as the grant before it was told. The time of each.
    pub(crate) fn approve_in_turn(&self, numbers: Range<usize>) -> Times {
        let told = self.watch(Phase::Granted);
        let mut times = Times::default();
        for number in numbers {
            let began = Instant::now();
            self.decide(number, "approved");
            let at = self.told_of(&told, number..number + 1);
            times.add(at.saturating_duration_since(began));
        }
        times
    }

    /// These approvals are given by as many callers at once. The time is from the first one to the last grant.
    pub(crate) fn approve_together(&self, numbers: Range<usize>) -> Duration {
        let told = self.watch(Phase::Granted);
        let began = Instant::now();
        let first = numbers.start;
        in_turns(numbers.len(), numbers.len(), |number| {
            self.decide(first + number, "approved");
        });
        self.told_of(&told, numbers)
            .saturating_duration_since(began)
    }

    /// The API server for each namespace.
    pub(crate) fn spaces(&self) -> &[ApiClient] {
        &self.spaces
    }

    /// All approvals are withdrawn. The time is from the first one to the last revocation.
    pub(crate) fn withdraw(&self) -> Duration {
        let told = self.watch(Phase::Revoked);
        let began = Instant::now();
        in_turns(CALLERS, self.count(), |number| {
            self.decide(number, "expired");
        });
        self.all_told(&told) - began
    }

    /// The requests whose Roles were written in advance.
    pub(crate) fn prepared(&self) -> f64 {
        let of = |api: &ApiClient| {
            let roles = api.list(ROLE, &format!("{MANAGED_BY}={}", names::MANAGED_BY));
            roles.unwrap().len()
        };
        let prepared: usize = self.spaces.iter().map(of).sum();
        f64::from(u32::try_from(prepared).unwrap())
    }

    /// Further objects that could be approvals and belong to no request.
    pub(crate) fn surround(&self, objects: usize) {
        for api in &self.spaces {
            in_turns(CALLERS, objects, |number| {
                api.create(&approval(&format!("other-{number}"))).unwrap();
            });
        }
    }

    /// The processor time that one event of one approval costs, which changes nothing for its request.
    pub(crate) fn cost_of_an_event(&self) -> Duration {
        let api = &self.spaces[0];
        cost_of_each(|number| {
            let fields = json!({"data": {"note": number}});
            api.patch(CONFIG_MAP, &name(0), &fields).unwrap();
        })
    }

    /// The same of a pod that no request is for.
    pub(crate) fn cost_of_another_pod(&self) -> Duration {
        let (api, pod) = (&self.spaces[0], "another");
        api.create(&rounds::waiting_pod(pod)).unwrap();
        cost_of_each(|number| {
            let fields = json!({"metadata": {"annotations": {"note": number}}});
            api.patch(POD, pod, &fields).unwrap();
        })
    }

    /// The pod of a request with a grant goes, after something else was done. Gives when its grant was revoked.
    pub(crate) fn end_pod(&self, number: usize, act: impl FnOnce()) -> Instant {
        let told = self.watch(Phase::Revoked);
        act();
        self.spaces[0].delete_now(POD, &name(number)).unwrap();
        told.recv_timeout(PATIENCE).unwrap().at
    }

    /// Deletes everything.
    pub(crate) fn dissolve(self) {
        let admin = &self.spaces[0];
        for name in &self.names {
            admin.delete(NAMESPACE, name).unwrap();
        }
        let gone = |it: &[Value]| it.is_empty();
        for api in &self.spaces {
            let what = "no request of the crowd";
            api.wait_for_list(what, (ACCESS_REQUEST, ""), PATIENCE, gone)
                .unwrap();
        }
    }

    /// Calls something for each request, several at a time.
    fn of_each(&self, act: impl Fn(&ApiClient, usize, &str) + Sync) {
        in_turns(CALLERS, self.count(), |number| {
            let (api, name) = self.request(number);
            act(api, number % self.spaces.len(), &name);
        });
    }

    /// The API server for the namespace of a request, and the name of the request.
    fn request(&self, number: usize) -> (&ApiClient, String) {
        let spaces = self.spaces.len();
        (&self.spaces[number % spaces], name(number / spaces))
    }

    /// Follows all requests from now on.
    fn watch(&self, phase: Phase) -> Receiver<Told> {
        let (sender, told) = channel();
        for requests in &self.clients {
            let one = ListParams::default().limit(1);
            let listed = self.runtime.block_on(requests.list_metadata(&one)).unwrap();
            let version = listed.metadata.resource_version.unwrap_or_default();
            let follow = follow(requests.clone(), version, phase, sender.clone());
            self.runtime.spawn(follow);
        }
        told
    }

    /// Waits until these requests of the first namespace were told.
    fn told_of(&self, told: &Receiver<Told>, numbers: Range<usize>) -> Instant {
        let namespace = &self.names[0];
        let mut missing: HashSet<_> = numbers
            .map(|number| format!("{namespace}/{}", name(number)))
            .collect();
        loop {
            let next = told.recv_timeout(PATIENCE);
            let next = next.unwrap_or_else(|_| panic!("nothing is told of {missing:?}"));
            missing.remove(&next.name);
            if missing.is_empty() {
                return next.at;
            }
        }
    }

    /// Waits until every request was told.
    fn all_told(&self, told: &Receiver<Told>) -> Instant {
        let mut names = HashSet::new();
        let mut last = Instant::now();
        while names.len() < self.count() {
            let next = told.recv_timeout(PATIENCE);
            let next = next.unwrap_or_else(|_| panic!("{} of {}", names.len(), self.count()));
            if names.insert(next.name) {
                last = next.at;
                if names.len() % MANY == 0 {
                    eprintln!("{} of {}", names.len(), self.count());
                }
            }
        }
        last
    }
}

async fn follow(
    requests: Api<AccessRequest>,
    mut version: String,
    phase: Phase,
    sender: Sender<Told>,
) {
    loop {
        // The API server ends a watch after some minutes.
        let events = requests.watch(&WatchParams::default(), &version).await;
        let mut events = std::pin::pin!(events.unwrap());
        while let Some(event) = events.try_next().await.unwrap() {
            let (WatchEvent::Added(request) | WatchEvent::Modified(request)) = event else {
                continue;
            };
            version = request.resource_version().unwrap_or_default();
            let status = request.status.as_ref();
            let is_judged =
                status.is_some_and(|it| it.policies.iter().any(|it| !it.check_refs.is_empty()));
            if is_judged && status.and_then(|it| it.phase) == Some(phase) {
                let namespace = request.namespace().unwrap_or_default();
                let name = format!("{namespace}/{}", request.name_any());
                let at = Instant::now();
                if sender.send(Told { at, name }).is_err() {
                    return;
                }
            }
        }
    }
}

/// The resident memory of the controller, in MB: the largest value of its replicas.
pub(crate) fn memory() -> f64 {
    let replicas = Running::named(CONTROLLER);
    let memory = replicas.iter().map(|it| it.memory().0);
    memory.fold(0.0, f64::max)
}

/// The processor time that the controller used meanwhile.
pub(crate) fn worked_during(act: impl FnOnce()) -> Duration {
    let worked = || -> Duration {
        let replicas = Running::named(CONTROLLER);
        replicas.iter().filter_map(Running::worked_so_far).sum()
    };
    let before = worked();
    act();
    worked().saturating_sub(before)
}

/// The controller's processor time for each of some changes that differ by a text.
fn cost_of_each(change: impl Fn(&str)) -> Duration {
    let calm = worked_during(|| (0..EVENTS).for_each(|_| sleep(PAUSE)));
    let busy = worked_during(|| {
        for number in 0..EVENTS {
            change(&number.to_string());
            sleep(PAUSE);
        }
    });
    busy.saturating_sub(calm) / EVENTS
}

/// Calls something for each number, by so many callers at a time.
pub(crate) fn in_turns(callers: usize, count: usize, act: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for caller in 0..callers {
            let act = &act;
            scope.spawn(move || (caller..count).step_by(callers).for_each(act));
        }
    });
}

fn name(number: usize) -> String {
    format!("crowd-{number}")
}

fn approval(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {RUN_LABEL: name}}, "data": {},
    })
}
