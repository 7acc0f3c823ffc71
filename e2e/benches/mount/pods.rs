//! The pods of this measurement, and when each of them runs.

use std::time::{Duration, Instant};

use connectors_api::AccessRequest;
use e2e::api::kinds::{ACCESS_REQUEST, CONFIG_MAP, POD, SERVICE_ACCOUNT};
use e2e::images::Image;
use e2e::{ApiClient, Deadline, checker, poll};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::node::Driver;
use crate::objects;
use crate::support::follow::Follower;
use crate::support::place::Place;

/// How long something may take that a healthy node does soon: a call again comes after two minutes at the latest.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);
const CLASS: &str = "bench-mount";

pub(crate) struct Pods {
    pub(crate) api: ApiClient,
    namespace: String,
    image: String,
    follower: Follower,
}

/// The times from the approval of a pod.
pub(crate) struct Approved {
    /// To the grant of its request.
    pub(crate) granted: Duration,
    /// To the answer to the kubelet that its volume is mounted.
    pub(crate) answered: Duration,
    /// To the first line of its container.
    pub(crate) ran: Duration,
}

impl Pods {
    /// The connector with its class and policy.
    pub(crate) fn new(place: &Place) -> Self {
        let api = ApiClient::connect(&place.kubeconfig, &place.namespace).unwrap();
        let account = (SERVICE_ACCOUNT, "default");
        let what = "the namespace's service account";
        api.wait_for(what, account, PATIENCE, |_| true).unwrap();
        api.apply_over(&objects::class(CLASS)).unwrap();
        for object in [objects::connector(CLASS), objects::policy()] {
            api.apply(&object).unwrap();
        }
        Self {
            api,
            namespace: place.namespace.clone(),
            image: Image::Workload.reference(),
            follower: Follower::of(place),
        }
    }

    /// Creates a pod with volumes of the connector, and its approval, which is not given.
    pub(crate) fn start(&self, name: &str, volumes: usize) {
        self.api.create(&objects::approval(name)).unwrap();
        let pod = objects::waiting(name, &self.image, volumes);
        self.api.create(&pod).unwrap();
    }

    /// Creates a pod with a bare tmpfs. Returns when its creation began.
    pub(crate) fn start_bare(&self, name: &str) -> Timestamp {
        let began = checker::now();
        self.api.create(&objects::bare(name, &self.image)).unwrap();
        began
    }

    /// Waits until the request of a pod waits for its approval. Gives the request.
    pub(crate) fn wait_for_request(&self, pod: &str) -> AccessRequest {
        let uid = self.api.get(POD, pod).unwrap().expect("the pod")["metadata"]["uid"].clone();
        let label = format!(
            "connectors.cpaas.io/contextObjectUID={}",
            uid.as_str().unwrap_or_default()
        );
        let waits = |it: &Value| it["status"]["phase"] == "Pending";
        let what = format!("a request of pod {pod} that waits");
        let chosen = (ACCESS_REQUEST, label.as_str());
        let found = self
            .api
            .wait_for_list(&what, chosen, PATIENCE, |it| it.iter().any(waits));
        let waiting = found.unwrap().into_iter().find(waits);
        serde_json::from_value(waiting.expect("a request that waits")).unwrap()
    }

    /// Gives the approval of a pod with a volume of its own, and waits until it runs.
    pub(crate) fn approve_and_run(&self, pod: &str, driver: &Driver) -> Approved {
        let followed = self.follower.follow_from_now(&self.wait_for_request(pod));
        let began = Instant::now();
        let approved = self.approve(pod);
        let granted = followed.until_granted().at.saturating_duration_since(began);
        let ran = self.ran_after(approved, pod);
        let answered = driver
            .published_at(&self.namespace, pod)
            .duration_since(approved);
        Approved {
            granted,
            answered: answered.try_into().unwrap(),
            ran,
        }
    }

    /// Gives the approval of a pod. Returns when the write began.
    pub(crate) fn approve(&self, pod: &str) -> Timestamp {
        let fields = json!({"data": {"verdict": "approved"}});
        let began = checker::now();
        self.api.patch(CONFIG_MAP, pod, &fields).unwrap();
        began
    }

    /// Waits until the container of a pod runs.
    pub(crate) fn wait_until_running(&self, pod: &str) {
        let runs = |it: &Value| {
            let state = |it: &Value| it["state"]["running"].is_object();
            let containers = it["status"]["containerStatuses"].as_array();
            containers.is_some_and(|it| it.iter().any(state))
        };
        let what = format!("pod {pod} to run");
        self.api
            .wait_for(&what, (POD, pod), PATIENCE, runs)
            .unwrap();
    }

    /// The time from an event until the container of a pod wrote its first line. The kubelet tells the status of its
    /// pods once a second, so that a status cannot be the end.
    pub(crate) fn ran_after(&self, event: Timestamp, pod: &str) -> Duration {
        self.wait_until_running(pod);
        let path = format!("{}/log?timestamps=true", self.path_of(pod));
        let first = || {
            let log = self.api.text(&path).map_err(|error| error.to_string())?;
            let stamp = log.split_whitespace().next().map(str::parse::<Timestamp>);
            stamp.and_then(Result::ok).ok_or(log)
        };
        let what = format!("the first line of pod {pod}");
        let at = poll(&what, Deadline::after(PATIENCE), first).unwrap();
        at.duration_since(event).try_into().unwrap()
    }

    fn path_of(&self, pod: &str) -> String {
        format!("/api/v1/namespaces/{}/pods/{pod}", self.namespace)
    }

    pub(crate) fn end(&self, pod: &str) {
        self.api.delete(POD, pod).unwrap();
    }

    /// Ends pods, and waits as [`Self::wait_until_gone`].
    pub(crate) fn end_all(&self, pods: &[String]) {
        for pod in pods {
            self.end(pod);
        }
        self.wait_until_gone(pods);
    }

    /// Waits until none of these pods and of the bare ones beside them is left, and deletes their approvals.
    pub(crate) fn wait_until_gone(&self, pods: &[String]) {
        let is_one = |it: &Value| {
            let name = it["metadata"]["name"].as_str().unwrap_or_default();
            pods.iter().any(|pod| name.starts_with(pod.as_str()))
        };
        let none = |it: &[Value]| !it.iter().any(is_one);
        self.api
            .wait_for_list("the pods to be gone", (POD, ""), PATIENCE, none)
            .unwrap();
        for pod in pods {
            self.api.delete(CONFIG_MAP, pod).unwrap();
        }
    }
}
