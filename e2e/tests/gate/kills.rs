//! The node plugin's process killed at random moments, under a stream of pods that come, wait, are let in and go.

use std::{
    collections::BTreeMap,
    fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use csi_recorder::Answer;
use e2e::{
    ApiClient,
    api::kinds::POD,
    harness::{is_long_form, say, seed},
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{
    Approval, CONNECTOR, Gate, Installation, LOGIN, MOUNT, TOOL, claims, name, printed, volume,
    wait_until, wait_until_nothing_left,
};

/// Kills in a usual run, and in the long form.
const KILLS: [usize; 2] = [5, 100];
/// Pods of the last seconds that live at a time, and pods in all.
const PODS: [usize; 2] = [5, 15];
/// A pod that is older waits for the kubelet, which doubles its pause with each call that was killed, up to two minutes.
const FRESH: Duration = Duration::from_secs(15);
/// The longest that a process is left alone once its container runs. It needs about a second until the kubelet takes it.
const LEFT_ALONE: Duration = Duration::from_millis(2500);
/// The longest that a pod's approval comes after the pod.
const LATE: Duration = Duration::from_secs(3);
/// The longest that a pod without approval is looked at.
const REFUSED: Duration = Duration::from_secs(8);
/// The longest that a pod waits for its start or its end after the last kill: more than the kubelet's longest pause.
const AFTER_THE_LAST: Duration = Duration::from_mins(4);
/// Between two looks at the pods.
const LOOK: Duration = Duration::from_millis(200);

/// When a pod may start.
#[derive(Clone, Copy, Debug)]
enum Permission {
    Given,
    /// From this moment on.
    Late(Instant),
    /// Never. The pod is deleted at this moment.
    Never(Instant),
}

#[derive(Debug)]
struct StreamPod {
    name: String,
    uid: String,
    permission: Permission,
    created: Instant,
}

/// Pods that follow each other.
struct Stream<'a> {
    gate: &'a Gate,
    random: StdRng,
    living: Vec<StreamPod>,
    /// The UIDs of all.
    uids: Vec<String>,
    started: usize,
    refused: usize,
}

impl Stream<'_> {
    fn fill_up(&mut self) {
        let [fresh, all] = PODS;
        let is_fresh = |pod: &&StreamPod| pod.created.elapsed() < FRESH;
        while self.living.len() < all && self.living.iter().filter(is_fresh).count() < fresh {
            self.add();
        }
    }

    fn add(&mut self) {
        let (name, now) = (format!("pod-{}", self.uids.len()), Instant::now());
        let mut within = |limit: Duration| now + limit.mul_f64(self.random.random_range(0.0..1.0));
        let (late, refused) = (within(LATE), within(REFUSED));
        let permission = match self.random.random_range(0..10) {
            0..4 => Permission::Given,
            4..8 => Permission::Late(late),
            _ => Permission::Never(refused),
        };
        if matches!(permission, Permission::Given) {
            self.approve(&name);
        }
        let attributes = json!({"connectors": CONNECTOR, "configuration.names": TOOL});
        self.gate.start_pod_with(&name, &volume(&attributes));
        let uid = self.gate.pod_uid(&name);
        self.uids.push(uid.clone());
        self.living.push(StreamPod {
            name,
            uid,
            permission,
            created: now,
        });
    }

    fn approve(&self, pod: &str) {
        self.gate
            .set_approval(pod, pod, Approval::SignOff, "approved");
    }

    /// Looks at every pod once: judges those that have started, and deletes those that are done.
    fn look(&mut self) {
        let pods = self.gate.api().list(POD, "").unwrap();
        let living = std::mem::take(&mut self.living).into_iter();
        self.living = living.filter_map(|pod| self.look_at(pod, &pods)).collect();
    }

    /// The pod, if it goes on.
    fn look_at(&mut self, mut pod: StreamPod, pods: &[Value]) -> Option<StreamPod> {
        let object = pods.iter().find(|it| name(it) == pod.name).unwrap();
        let phase = object["status"]["phase"].as_str().unwrap();
        match (phase, pod.permission) {
            ("Running", Permission::Given) => {
                self.assert_its_own(&pod);
                self.started += 1;
            }
            ("Pending", Permission::Late(from)) if Instant::now() >= from => {
                self.approve(&pod.name);
                pod.permission = Permission::Given;
                return Some(pod);
            }
            ("Pending", Permission::Never(until)) if Instant::now() >= until => self.refused += 1,
            ("Pending", _) => return Some(pod),
            _ => panic!("{pod:?} is {phase}: {}", object["status"]),
        }
        self.gate.delete(POD, &pod.name);
        None
    }

    /// A pod that has started found all of its content when it did and nothing else: with the name of its own granted
    /// request, and with its own token.
    fn assert_its_own(&self, pod: &StreamPod) {
        let output = self.gate.wait_for_output(&pod.name);
        let requests = self.gate.requests_of(&pod.uid);
        let [request] = requests.as_slice() else {
            panic!("{pod:?}: {requests:?}");
        };
        assert!(!request["status"]["grantedAt"].is_null(), "{request}");
        assert!(self.gate.may_use(&pod.name), "{pod:?}: {request}");
        let mut read: BTreeMap<_, _> = printed(&output)
            .into_iter()
            .map(|(path, text)| {
                let path = path.strip_prefix(MOUNT).unwrap();
                (path.trim_start_matches('/'), text.trim_end())
            })
            .collect();
        let mark = read.remove(".connector/.complete").unwrap();
        let mark: Value = serde_json::from_str(mark).unwrap();
        assert_eq!(mark["pod"]["uid"], pod.uid.as_str(), "{mark}");
        let token = read["context.token"];
        let of_token = &claims(token)["kubernetes.io"]["pod"];
        assert_eq!(of_token["uid"], pod.uid.as_str(), "{of_token}");
        let namespace = self.gate.namespace();
        let request = name(request);
        let address = format!("https://{CONNECTOR}.example.com");
        let facts = [
            ("address", address.as_str()),
            ("class", "e2e"),
            ("name", CONNECTOR),
            ("namespace", namespace),
            ("permission", "apis"),
            ("request", &request),
        ];
        let place = format!(".connector/{namespace}_{CONNECTOR}");
        let facts = facts.map(|(fact, text)| (format!("{place}/{fact}"), text));
        let login = format!("{address} {token}");
        let mut whole: BTreeMap<_, _> = facts
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        let files = [("context.token", token), (LOGIN, login.as_str())];
        whole.extend(files);
        // The files at the root are links into a set of files.
        let (sets, read): (BTreeMap<_, _>, BTreeMap<_, _>) = read
            .into_iter()
            .partition(|(path, _)| path.starts_with(".connector/.files/"));
        let sets = sets.into_iter().map(|(path, text)| {
            let (_, file) = path.rsplit_once('/').unwrap();
            (file, text)
        });
        assert_eq!(sets.collect::<BTreeMap<_, _>>(), files.into());
        assert_eq!(read, whole, "{pod:?}");
    }
}

/// The plugin's pods, from which the killed processes come.
struct Plugin {
    api: ApiClient,
    random: StdRng,
    /// The container whose process was killed last.
    last: String,
}

impl Plugin {
    /// The plugin's pod with a container that runs and was not killed yet.
    fn running(&self) -> Option<Value> {
        let labels = "app.kubernetes.io/component=csi-node";
        let pods = self.api.list(POD, labels).unwrap().into_iter();
        let is_it = |pod: &Value| {
            let container = &pod["status"]["containerStatuses"][0];
            pod["metadata"]["deletionTimestamp"].is_null()
                && !container["state"]["running"].is_null()
                && container["containerID"] != self.last.as_str()
        };
        pods.into_iter().find(is_it)
    }

    /// Kills the next process at a random moment of its life.
    ///
    /// The kubelet starts a container again at once after its first end, and with growing pauses after further ones. So the
    /// pod of a process that was started again is deleted, and the `DaemonSet` brings another one.
    fn kill(&mut self) {
        wait_until("the plugin's next process", || self.running().is_some());
        let pod = self.running().unwrap();
        let container = &pod["status"]["containerStatuses"][0];
        container["containerID"]
            .as_str()
            .unwrap()
            .clone_into(&mut self.last);
        // The kill hits the calls that are in flight at that time.
        thread::sleep(LEFT_ALONE.mul_f64(self.random.random_range(0.0..1.0)));
        let (_, id) = self.last.split_once("://").unwrap();
        kill_process(process_of(id), Signal::KILL).unwrap();
        if container["restartCount"] != 0 {
            self.api.delete_now(POD, &name(&pod)).unwrap();
        }
    }
}

/// The process of a container, by its cgroup.
fn process_of(container: &str) -> Pid {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        // Other processes end while they are looked at.
        let groups = fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        if groups.contains(container) {
            let id = entry.file_name().to_str().and_then(|id| id.parse().ok());
            found.extend(id.and_then(Pid::from_raw));
        }
    }
    let [process] = found.as_slice() else {
        panic!("{container} has the processes {found:?}");
    };
    *process
}

#[test]
fn the_node_plugin_is_killed_at_random_moments_under_a_stream_of_pods() {
    let gate = Gate::alone("plugin-kills");
    let Some(cluster) = gate.scene().cluster() else {
        say("skipped: the processes of this cluster cannot be killed from here");
        return;
    };
    gate.create_policy("release", Approval::SignOff);
    let installation = Installation::of(&gate);
    let (kills, seed) = (KILLS[usize::from(is_long_form())], seed());
    println!("random kills with E2E_SEED={seed}");
    let mut stream = Stream {
        gate: &gate,
        random: StdRng::seed_from_u64(seed),
        living: Vec::new(),
        uids: Vec::new(),
        started: 0,
        refused: 0,
    };
    let mut plugin = Plugin {
        api: installation.api(),
        random: StdRng::seed_from_u64(seed + 1),
        last: String::new(),
    };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let killing = scope.spawn(|| {
            let _over = Over(&is_over);
            (0..kills).for_each(|_| plugin.kill());
            // A kill between two calls shows nothing.
            let more = (0..3 * kills).take_while(|_| met(&gate) == 0);
            more.for_each(|_| plugin.kill());
        });
        while !is_over.load(Ordering::SeqCst) {
            stream.fill_up();
            stream.look();
            thread::sleep(LOOK);
        }
        killing.join().unwrap();
        // Every pod that was let in starts.
        let killed = Instant::now();
        while !stream.living.is_empty() {
            let waits = killed.elapsed();
            assert!(waits < AFTER_THE_LAST, "{:?}", stream.living);
            stream.look();
            thread::sleep(LOOK);
        }
    });
    installation.wait_until_ready("csi-node");
    // The pauses of the kubelet grow with each end of a container. Kills of other tests begin with a new pod.
    installation.restart("csi-node");
    installation.wait_until_ready("csi-node");
    gate.api()
        .wait_for_list(
            "the end of all pods",
            (POD, ""),
            AFTER_THE_LAST,
            <[Value]>::is_empty,
        )
        .unwrap();
    wait_until_nothing_left(cluster, &stream.uids);
    let cut = met(&gate);
    say(&format!(
        "at least {kills} kills of the node plugin met {cut} calls; {} pods started, {} did not",
        stream.started, stream.refused
    ));
    assert!(cut > 0, "no kill met a call");
    assert!(stream.started > kills / 2, "{}", stream.started);
}

/// The calls of the kubelet that met no living plugin.
fn met(gate: &Gate) -> usize {
    let calls = gate.recorder().unwrap().calls().into_iter();
    let cut = calls.filter(|call| matches!(call.answer, Some(Answer::Status { code: 14, .. })));
    cut.count()
}

/// Says that the kills are over, also after a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
