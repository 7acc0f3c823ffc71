//! One node from its first pod to its last: all of it from a seed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::fd::OwnedFd,
    sync::Arc,
    time::Duration,
};

use futures::future::{join, join_all};
use rustix::mount::{MountFlags, mount};
use tempfile::TempDir;
use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
    time::sleep,
};
use tonic::{Code, Status};

use super::{
    Tally,
    cluster::Cluster,
    fate::{Due, Fate, Pod},
    judge::mounts,
    kubelet::{Answer, Call, PodVolume, Stage},
    process::{Begun, Process, slay, socket},
};
use crate::testing::dice::Dice;

/// Pods on the node at a time.
const PODS: usize = 4;
/// The volumes of each.
const VOLUMES: [&str; 2] = ["tool", "other"];
/// The longest that a process with calls is left alone before it is killed, in microseconds. A call takes about as long.
const CALL: usize = 6_000;
/// The same for a process that starts.
const START: usize = 6_000;

/// The answers of calls, by the number of their volumes.
type Answers = Vec<(usize, Answer)>;
/// Pods that are granted during calls, each after a time.
type Grants = Vec<(Pod, Duration)>;

/// How a process is killed.
#[derive(Clone, Copy, Debug)]
enum Kill {
    /// Before a system call of its mounts.
    Before(usize),
    After(Duration),
}

/// A node, its kubelet and the process of the driver.
pub(super) struct Life {
    dice: Dice,
    seed: u64,
    runtime: Runtime,
    folder: TempDir,
    /// The version of the class.
    version: u64,
    /// It has changed since the process started.
    has_changed: bool,
    pods: usize,
    /// By numbers that are never used again.
    volumes: BTreeMap<usize, PodVolume>,
    last: usize,
    is_ending: bool,
    process: Option<Process>,
    kills: usize,
    steps: usize,
    met: Tally,
}

impl Life {
    pub(super) fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        mount("kubelet", folder.path(), "tmpfs", MountFlags::empty(), c"").unwrap();
        fs::create_dir(socket(folder.path()).parent().unwrap()).unwrap();
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        Cluster::of(folder.path()).make();
        let mut life = Self {
            dice: Dice::new(seed),
            seed,
            runtime,
            folder,
            version: 0,
            has_changed: false,
            pods: 0,
            volumes: BTreeMap::new(),
            last: 0,
            is_ending: false,
            process: None,
            kills: 0,
            steps: 0,
            met: Tally::new(),
        };
        life.change();
        for _ in 0..PODS {
            life.add_pod();
        }
        life
    }

    /// Goes on until the process was killed so often. Then all pods end.
    pub(super) fn live(mut self, kills: usize) -> Tally {
        let mut repeat = Vec::new();
        while self.kills < kills {
            self.ensure_process();
            repeat = self.step(&repeat);
        }
        self.ensure_process();
        self.is_ending = true;
        for volume in self.volumes.values_mut() {
            volume.stage = Stage::Leaving;
        }
        let context = self.context(&[], "the end");
        let all: Vec<usize> = self.volumes.keys().copied().collect();
        let answers = self.calls(&all, Grants::new(), None);
        let answers = self.runtime.block_on(answers).unwrap();
        self.take(answers, true, &context);
        self.process.take().unwrap().ends();
        self.assert_nothing_left();
        self.met
    }

    fn assert_nothing_left(&self) {
        assert!(mounts().is_empty(), "{:?}", mounts());
        assert!(!socket(self.folder.path()).exists());
        let pods = self.folder.path().join("pods");
        for pod in fs::read_dir(pods).unwrap() {
            let volumes = pod.unwrap().path().join("volumes/kubernetes.io~csi");
            assert_eq!(fs::read_dir(volumes).unwrap().count(), 0);
        }
    }

    fn cluster(&self) -> Cluster {
        Cluster::of(self.folder.path())
    }

    fn meets(&mut self, what: &'static str) {
        *self.met.entry(what).or_default() += 1;
    }

    fn context(&self, chosen: &[usize], how: &str) -> String {
        let calls = chosen.iter().map(|number| {
            let volume = &self.volumes[number];
            format!("{:?} of {}", volume.call(), volume.place.parent().display())
        });
        let calls: Vec<String> = calls.collect();
        format!("seed {}, step {}: {calls:?}, {how}", self.seed, self.steps)
    }

    /// The class has another version from now on.
    fn change(&mut self) {
        self.version += 1;
        self.cluster().change(self.version);
        self.has_changed = true;
        for volume in self.volumes.values_mut() {
            volume.versions.1 = self.version;
        }
    }

    fn add_pod(&mut self) {
        self.pods += 1;
        let name = format!("uid-{}", self.pods);
        // A life goes on where the first pods of the one before end.
        let fate = usize::try_from(self.seed).unwrap() * PODS + self.pods - 1;
        let cluster = self.cluster();
        let pod = Pod::new(name, fate, &cluster);
        for name in VOLUMES {
            let volume = PodVolume::new(self.folder.path(), pod.clone(), name, self.version);
            self.last += 1;
            self.volumes.insert(self.last, volume);
        }
    }

    /// The driver has said that a volume is gone. The kubelet removes its folder, and another pod comes after the last one.
    fn remove(&mut self, number: usize, context: &str) {
        let gone = self.volumes.remove(&number).unwrap();
        gone.remove();
        let pod = gone.pod;
        if self.volumes.values().any(|it| it.pod.name == pod.name) {
            return;
        }
        let cluster = self.cluster();
        pod.asked_for_itself(cluster.request_of(&pod.name).as_ref(), context);
        cluster.forget(&pod.name);
        if !self.is_ending {
            self.add_pod();
        }
    }

    /// Starts a process where there is none. It may be killed while it starts, and the kubelet may forget a volume before.
    fn ensure_process(&mut self) {
        if self.process.is_some() {
            return;
        }
        let forgotten = self.forget();
        let context = self.context(&[], "a start");
        while self.dice.percent(25) {
            let time = micros(self.dice.below(START));
            if Begun::new(self.folder.path()).killed_after(time) {
                self.kills += 1;
                self.meets("killed at its start");
                for volume in self.volumes.values() {
                    volume.after_a_kill(None, &context);
                }
            }
        }
        self.process = Some(Begun::new(self.folder.path()).serves());
        self.has_changed = false;
        for volume in self.volumes.values() {
            volume.after_a_start(&context);
        }
        if let Some(number) = forgotten {
            let target = self.volumes[&number].place.target();
            assert_eq!(mounts().get(&target), None, "{context}");
            // A start that was killed may leave an empty folder. The kubelet removes it with that of the pod.
            if target.exists() {
                fs::remove_dir(target).unwrap();
            }
            self.remove(number, &context);
        }
    }

    /// A volume of which the kubelet loses its note, so that it never calls for the removal.
    fn forget(&mut self) -> Option<usize> {
        let mut volumes = self.volumes.iter_mut();
        let (number, volume) = volumes.find(|(_, it)| it.stage == Stage::Published)?;
        if !self.dice.percent(10) {
            return None;
        }
        fs::remove_file(volume.note()).unwrap();
        volume.stage = Stage::Leaving;
        let number = *number;
        self.meets("forgot a volume");
        Some(number)
    }

    /// Some calls at the same time, during which the process may be killed. The volumes of calls without an answer are
    /// returned.
    fn step(&mut self, repeat: &[usize]) -> Vec<usize> {
        self.steps += 1;
        if self.dice.percent(40) {
            self.change();
        }
        let chosen = self.choose(repeat);
        let grants = self.grants(&chosen);
        let Some(kill) = self.kill(&chosen, &grants) else {
            let context = self.context(&chosen, "not killed");
            let answers = self.calls(&chosen, grants, None);
            let answers = self.runtime.block_on(answers).unwrap();
            return self.take(answers, true, &context);
        };
        let context = self.context(&chosen, &format!("killed {kill:?}"));
        let answers = self.killed(&chosen, grants, kill);
        let unanswered = answers.iter().filter(|(number, answer)| {
            answer
                .result
                .as_ref()
                .is_err_and(|status| !answer.is_refusal(&self.volumes[number], status))
        });
        let in_flight = unanswered.map(|(number, _)| (*number, self.volumes[number].call()));
        let in_flight: BTreeMap<usize, Call> = in_flight.collect();
        if !in_flight.is_empty() {
            self.kills += 1;
            self.tally(kill, &in_flight);
        }
        let unanswered = self.take(answers, false, &context);
        for (number, volume) in &self.volumes {
            volume.after_a_kill(in_flight.get(number).copied(), &context);
        }
        unanswered
    }

    fn tally(&mut self, kill: Kill, in_flight: &BTreeMap<usize, Call>) {
        self.meets(match kill {
            Kill::Before(_) => "killed before a system call",
            Kill::After(_) => "killed after a time",
        });
        if in_flight.len() > 1 {
            self.meets("killed in several calls at once");
        }
        for (number, call) in in_flight {
            let volume = &self.volumes[number];
            let target = volume.place.target();
            let (what, left) = match call {
                Call::Publish => {
                    let is_half = target.exists() && volume.version().is_none();
                    let (what, half) = match volume.pod.due() {
                        Due::Content => ("killed in publish", "left a volume half made"),
                        Due::Error => ("killed before an error", "left an error half made"),
                        // Such a pod has nothing that could be half made.
                        Due::Nothing => (volume.pod.fate.killed(), "left what is not due"),
                    };
                    (what, is_half.then_some(half))
                }
                Call::Republish => {
                    let is_half = volume.version().is_none();
                    (
                        "killed in republish",
                        is_half.then_some("left a volume between two versions"),
                    )
                }
                Call::Unpublish => {
                    let is_half = target.exists() && !mounts().contains_key(&target);
                    (
                        "killed in unpublish",
                        is_half.then_some("left a volume half removed"),
                    )
                }
            };
            self.meets(what);
            if let Some(left) = left {
                self.meets(left);
            }
        }
    }

    /// The volumes of the next calls: mostly those of the calls without an answer.
    fn choose(&mut self, repeat: &[usize]) -> Vec<usize> {
        let numbers: Vec<usize> = self.volumes.keys().copied().collect();
        // A pod may end at any time, also while it waits.
        if self.dice.percent(20) {
            let pod = self.volumes[&self.dice.one_of(&numbers)].pod.name.clone();
            for volume in self.volumes.values_mut().filter(|it| it.pod.name == pod) {
                volume.stage = Stage::Leaving;
            }
        }
        let repeat = repeat.iter().filter(|it| self.volumes.contains_key(it));
        let mut chosen: Vec<usize> = repeat.copied().collect();
        // Pods without access would else be all that is called for.
        let is_due = |number: &usize| self.volumes[number].pod.due() != Due::Nothing;
        let again = if chosen.iter().any(is_due) { 80 } else { 30 };
        if !chosen.is_empty() && self.dice.percent(again) {
            return chosen;
        }
        chosen.clear();
        let count = self.dice.one_of(&[1, 1, 2, 3]);
        while chosen.len() < count {
            let number = self.dice.one_of(&numbers);
            let is_due = self.volumes[&number].pod.due() != Due::Nothing;
            if !chosen.contains(&number) && (is_due || self.dice.percent(40)) {
                chosen.push(number);
            }
        }
        chosen
    }

    /// The pods that are granted during the next calls. One that has a call waits for a part of it, and others are granted
    /// at once.
    fn grants(&mut self, chosen: &[usize]) -> Grants {
        let calling: BTreeSet<&str> = chosen
            .iter()
            .map(|number| self.volumes[number].pod.name.as_str())
            .collect();
        let waiting: BTreeMap<&str, &Pod> = self
            .volumes
            .values()
            .filter(|volume| volume.pod.awaits_grant())
            .map(|volume| (volume.pod.name.as_str(), &volume.pod))
            .collect();
        let cluster = Cluster::of(self.folder.path());
        let mut grants = Grants::new();
        for (name, pod) in waiting {
            if !self.dice.percent(50) {
                continue;
            }
            if calling.contains(name) {
                let after = self.dice.below(CALL / 2);
                grants.push((pod.clone(), micros(after)));
            } else {
                pod.grant(&cluster);
            }
        }
        grants
    }

    /// How the process is killed in these calls, if it is.
    fn kill(&mut self, chosen: &[usize], grants: &[(Pod, Duration)]) -> Option<Kill> {
        let due = |volume: &PodVolume| {
            if grants.iter().any(|(pod, _)| pod.name == volume.pod.name) {
                Due::Content
            } else {
                volume.pod.due()
            }
        };
        // A call that waits or is refused makes few system calls, and takes a time.
        let mounts_nothing = chosen.iter().all(|number| {
            let volume = &self.volumes[number];
            volume.stage == Stage::Wanted && due(volume) == Due::Nothing
        });
        match self.dice.below(10) {
            0..2 => None,
            2..4 if mounts_nothing => None,
            2..4 => Some(Kill::After(micros(self.dice.below(CALL)))),
            4..8 if mounts_nothing => Some(Kill::After(micros(self.dice.below(CALL / 3)))),
            _ => {
                // About as many as these calls make.
                let calls = chosen.iter().map(|number| {
                    let volume = &self.volumes[number];
                    match volume.call() {
                        Call::Publish => match due(volume) {
                            Due::Content => 200,
                            Due::Error => 60,
                            Due::Nothing => 6,
                        },
                        Call::Republish if due(volume) == Due::Error => 20,
                        Call::Republish if volume.versions.0 < volume.versions.1 => 130,
                        Call::Republish => 30,
                        Call::Unpublish => 20,
                    }
                });
                let calls = calls.sum();
                Some(Kill::Before(1 + self.dice.below(calls)))
            }
        }
    }

    /// Starts calls, and grants pods meanwhile. When all have ended, the process is killed if it is given.
    fn calls(
        &self,
        chosen: &[usize],
        grants: Grants,
        killed: Option<Arc<OwnedFd>>,
    ) -> oneshot::Receiver<Answers> {
        let (sender, answers) = oneshot::channel();
        let calls = chosen.iter().map(|number| {
            let (number, volume) = (*number, self.volumes[number].clone());
            let kubelet = self.folder.path().to_owned();
            async move { (number, volume.make_call(kubelet).await) }
        });
        let calls = join_all(calls.collect::<Vec<_>>());
        let cluster = self.cluster();
        let grants = grants.into_iter().map(move |(pod, after)| {
            let cluster = cluster.clone();
            async move {
                sleep(after).await;
                pod.grant(&cluster);
            }
        });
        let grants = join_all(grants.collect::<Vec<_>>());
        self.runtime.spawn(async move {
            let (answers, _) = join(calls, grants).await;
            if let Some(process) = killed {
                slay(&process);
            }
            let _ = sender.send(answers);
        });
        answers
    }

    fn killed(&mut self, chosen: &[usize], grants: Grants, kill: Kill) -> Answers {
        let process = self.process.take().unwrap();
        let pidfd = Arc::clone(&process.pidfd);
        let mut answers = None;
        match kill {
            Kill::Before(number) => process.killed_before_call(number, || {
                answers = Some(self.calls(chosen, grants, Some(pidfd)));
            }),
            Kill::After(time) => process.killed_after(time, || {
                answers = Some(self.calls(chosen, grants, None));
            }),
        }
        self.runtime.block_on(answers.unwrap()).unwrap()
    }

    /// Judges the answers. Returns the volumes of calls without one.
    fn take(&mut self, answers: Answers, is_alive: bool, context: &str) -> Vec<usize> {
        let mut unanswered = Vec::new();
        for (number, answer) in answers {
            let Err(status) = &answer.result else {
                self.confirmed(number, answer.after, context);
                continue;
            };
            if answer.is_refusal(&self.volumes[&number], status) {
                self.refused(number, status, context);
                continue;
            }
            // Those of a connection that broke off, and none of the driver's own.
            let is_cut = [
                Code::Unavailable,
                Code::Unknown,
                Code::Cancelled,
                Code::Internal,
            ];
            assert!(
                !is_alive && is_cut.contains(&status.code()),
                "{context}: {status:?}"
            );
            let volume = self.volumes.get_mut(&number).unwrap();
            volume.is_torn |= volume.stage == Stage::Published;
            unanswered.push(number);
        }
        unanswered
    }

    /// The driver has said that a call is done, and this is the most that the volume may hold.
    fn confirmed(&mut self, number: usize, due: Due, context: &str) {
        let volume = self.volumes.get_mut(&number).unwrap();
        let call = volume.call();
        if call == Call::Unpublish {
            volume.is_gone(context);
            self.remove(number, context);
            return;
        }
        // The pod starts now.
        assert_ne!(due, Due::Nothing, "{context}: {volume:?} has no access");
        let version = volume.is_whole(context);
        if due == Due::Content {
            // A process that lives uses what it has read for ten seconds. A new one has read nothing.
            assert!(self.has_changed || version == self.version, "{context}");
        }
        let is_newer = call == Call::Republish && version > volume.versions.0;
        volume.stage = Stage::Published;
        volume.is_torn = false;
        volume.versions = (version, self.version);
        let is_late = volume.pod.fate == Fate::GrantedLater;
        if is_newer {
            self.meets("brought newer content");
        }
        match call {
            Call::Publish if due == Due::Error => self.meets("started with an error"),
            Call::Publish if is_late => self.meets("started after a grant"),
            Call::Publish | Call::Republish | Call::Unpublish => {}
        }
    }

    /// The driver has said that a pod has no access now. Nothing is left, and the kubelet begins anew.
    fn refused(&mut self, number: usize, status: &Status, context: &str) {
        let volume = &self.volumes[&number];
        let about = format!("connector tools/{}: ", volume.pod.name);
        assert!(status.message().starts_with(&about), "{context}: {status}");
        volume.is_gone(context);
        volume.begin_anew();
        self.meets(volume.pod.fate.told());
    }
}

impl Answer {
    /// The driver's own no. A pod whose access was there before the call never gets one.
    fn is_refusal(&self, volume: &PodVolume, status: &Status) -> bool {
        let is_first = volume.stage == Stage::Wanted;
        is_first && self.before != Due::Content && status.code() == Code::PermissionDenied
    }
}

fn micros(number: usize) -> Duration {
    Duration::from_micros(u64::try_from(number).unwrap())
}
