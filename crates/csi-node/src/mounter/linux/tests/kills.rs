//! A process killed before each system call of each of its works, and what the next process finds and makes of it.
//!
//! The work runs in a process of its own. The kernel stops it before each call and tells this one (`ptrace`), which kills it
//! there: that call is never made. A work is over when nothing was left to kill, so no call is left out.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    process::Child,
    sync::Arc,
};

use nix::{
    errno::Errno as WaitError,
    sys::{
        ptrace::{self, Options},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use super::{errors::error, files::files, *};
use crate::{
    proto::csi::NodeUnpublishVolumeRequest,
    testing::{World, place_of, request_at, shown::Shown, standing},
};

/// The kubelet's folder, for the process that is killed.
const KUBELET: &str = "CSI_NODE_TEST_KILLED";

/// The work at which a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Publish,
    Unpublish,
    Empty,
    Refill,
    Refresh,
    /// An error in the place of content.
    Refuse,
    /// The removal of a volume that the kubelet does not know any more, at the start of a process.
    Sweep,
}

/// The volume that the work is about, as the driver's own test world has it.
fn volume(kubelet: &Path) -> Scene {
    let mut scene = scene_at(kubelet);
    scene.record = Record::new(&scene.place, &wish(&["tools/harbor"]));
    scene.content.facts.truncate(1);
    scene.content.facts[0].address = "https://harbor".to_owned();
    scene.content.files = files(&json!({".netrc": "1", "config.json": "1"}));
    scene
}

/// The kubelet's own note of a volume, without which a process that starts removes it.
fn note(place: &VolumePath) -> io::Result<()> {
    let folder = place.pods().join(place.parent());
    fs::write(folder.join("vol_data.json"), "{}")
}

/// The content that it had before. Its files stay as empty ones in the set that is written next.
fn older(content: &Content) -> Content {
    let mut older = content.clone();
    older.files = files(&json!({".netrc": "0", "config.json": "0"}));
    older
}

/// The content that it is to have next.
fn newer(content: &Content) -> Content {
    let mut newer = content.clone();
    newer.facts[0].address = "https://newer".to_owned();
    newer.files = files(&json!({"config.json": "2", "settings.xml": "2"}));
    newer
}

impl Work {
    /// Makes the state before it.
    fn prepare(self, scene: &Scene) {
        match self {
            Self::Publish | Self::Refuse => {}
            Self::Sweep => {
                scene.publish();
                let folder = scene.place.pods().join(scene.place.parent());
                fs::remove_file(folder.join("vol_data.json")).unwrap();
            }
            Self::Unpublish | Self::Empty => scene.publish(),
            Self::Refresh => {
                let Scene {
                    place,
                    record,
                    content,
                    mounter,
                    ..
                } = scene;
                mounter
                    .publish(place, record, &older(content), Passage::Gated)
                    .unwrap();
                assert!(mounter.refresh(place, content).unwrap());
            }
            Self::Refill => {
                scene.publish();
                scene.mounter.empty(&scene.place).unwrap();
            }
        }
    }

    fn carry_out(self, scene: &Scene) {
        let Scene {
            place,
            record,
            content,
            mounter,
            ..
        } = scene;
        match self {
            Self::Publish => mounter
                .publish(place, record, content, Passage::Gated)
                .unwrap(),
            Self::Unpublish => mounter.clear(place).unwrap(),
            Self::Refuse => mounter.publish_error(place, record, &error()).unwrap(),
            Self::Sweep => {
                let kubelet = place.pods().parent().unwrap();
                assert_eq!(mounter.sweep(&PodsDir::new(kubelet)).len(), 1);
            }
            Self::Empty => mounter.empty(place).unwrap(),
            Self::Refill => mounter.refill(place, record, content).unwrap(),
            Self::Refresh => assert!(mounter.refresh(place, &newer(content)).unwrap()),
        }
    }
}

/// A process at its work, of which one thread is stopped before each system call.
struct Traced {
    child: Child,
    thread: Pid,
}

impl Traced {
    /// Starts this test as another process, up to where it waits to begin.
    fn start(test: &str, kubelet: &Path) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg(format!("mounter::linux::tests::kills::{test}"))
            .env(KUBELET, kubelet)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let thread = said.find_map(|line| line.unwrap().split_once("thread ")?.1.parse().ok());
        let thread = Pid::from_raw(thread.expect("the process tells its thread"));
        ptrace::seize(thread, Options::PTRACE_O_TRACESYSGOOD).unwrap();
        ptrace::interrupt(thread).unwrap();
        let traced = Self { child, thread };
        assert!(matches!(traced.wait(), Ok(WaitStatus::PtraceEvent(..))));
        traced
    }

    /// Lets it work up to its system call of this number, and kills it there. False when it has come to its end before.
    fn kill_before(mut self, number: usize) -> bool {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap();
        let mut calls = 0;
        loop {
            // It goes on to the beginning of a call.
            if !self.go_on() {
                let _ = self.child.wait();
                return false;
            }
            calls += 1;
            if calls == number {
                self.child.kill().unwrap();
                // The thread that was traced is waited for first, then the process.
                while !matches!(self.wait(), Ok(WaitStatus::Signaled(..)) | Err(_)) {}
                let _ = self.child.wait();
                return true;
            }
            // And to its end, which the last call of a process does not have.
            if !self.go_on() {
                let _ = self.child.wait();
                return false;
            }
        }
    }

    /// Up to the next beginning or end of a call. False when the process has ended.
    fn go_on(&self) -> bool {
        let mut signal = None;
        loop {
            ptrace::syscall(self.thread, signal.take()).unwrap();
            match self.wait().unwrap() {
                WaitStatus::PtraceSyscall(_) => return true,
                WaitStatus::Exited(_, code) => {
                    assert_eq!(code, 0);
                    return false;
                }
                WaitStatus::Stopped(_, sent) => signal = Some(sent),
                WaitStatus::PtraceEvent(..) => {}
                other @ (WaitStatus::Signaled(..)
                | WaitStatus::Continued(_)
                | WaitStatus::StillAlive) => panic!("{other:?}"),
            }
        }
    }

    fn wait(&self) -> Result<WaitStatus, WaitError> {
        waitpid(self.thread, Some(WaitPidFlag::__WALL))
    }
}

/// In the process that is killed: tells its thread, and waits for the word to begin.
fn begin() {
    println!("thread {}", rustix::thread::gettid().as_raw_nonzero());
    io::stdin().read_line(&mut String::new()).unwrap();
}

/// Another pod's volume on the same node, and a driver that starts after each kill.
struct Node {
    kubelet: TempDir,
    theirs: Scene,
    runtime: Runtime,
}

impl Node {
    fn new() -> Self {
        let kubelet = tempfile::tempdir().unwrap();
        mount("kubelet", kubelet.path(), TMPFS, MountFlags::empty(), c"").unwrap();
        let place = place_of(kubelet.path(), "uid-2", "tool");
        fs::create_dir_all(place.pods().join(place.parent())).unwrap();
        let mut theirs = Scene {
            place,
            ..scene_at(kubelet.path())
        };
        theirs.content.facts.truncate(1);
        theirs.content.facts[0].address = "https://theirs".to_owned();
        theirs.content.files = files(&json!({"theirs": "theirs"}));
        note(&theirs.place).unwrap();
        theirs.publish();
        Self {
            kubelet,
            theirs,
            runtime: Builder::new_current_thread().enable_all().build().unwrap(),
        }
    }

    /// Looks at the place as a process that starts after a kill: nothing half is taken for whole.
    fn judge(&self, work: Work, scene: &Scene, context: &str) {
        let (old, new) = (Shown::of(&scene.content), Shown::of(&newer(&scene.content)));
        let mounter = Linux::new(DRIVER);
        mounter.sweep(&PodsDir::new(self.kubelet.path()));
        let found = mounter.look(&scene.place).unwrap();
        let target = scene.place.target();
        let shown = Shown::at(&target);
        match found {
            OnDisk::Nothing | OnDisk::Partial => {
                let may_be = [Work::Publish, Work::Unpublish, Work::Refuse, Work::Sweep];
                assert!(may_be.contains(&work), "{context}");
                assert_eq!(shown, Shown::default(), "{context}");
                assert_eq!(mounts_at(&target), 0, "{context}");
            }
            OnDisk::Rejected(record) => {
                assert_eq!(
                    (work, record),
                    (Work::Refuse, scene.record.clone()),
                    "{context}"
                );
                assert_eq!(shown, Shown::error(error().text()), "{context}");
                scene.assert_sealed();
            }
            OnDisk::Published(record) => {
                assert!(!matches!(work, Work::Refuse | Work::Sweep), "{context}");
                assert_eq!(record, scene.record, "{context}");
                let is_whole = if work == Work::Refresh {
                    shown.is_between(&old, &new)
                } else {
                    shown == old
                };
                assert!(is_whole, "{context}: {shown:?}");
                scene.assert_sealed();
            }
            OnDisk::Emptied(record) => {
                assert!(matches!(work, Work::Empty | Work::Refill), "{context}");
                assert_eq!(record, scene.record, "{context}");
                scene.assert_sealed();
                mounter.empty(&scene.place).unwrap();
                assert_eq!(Shown::at(&target), Shown::default(), "{context}");
            }
        }
        self.assert_theirs(context);
    }

    /// All ways lead out: the next call of the kubelet has a whole volume, and the last one leaves nothing.
    fn go_on(&self, scene: &Scene, context: &str) {
        let target = scene.place.target();
        let was_refused = matches!(scene.look(), OnDisk::Rejected(_));
        self.runtime.block_on(async {
            let world = World::over(Arc::new(Linux::new(DRIVER)), self.kubelet.path(), 1);
            world.evaluator.says("tools/harbor", Some(standing()));
            world.kubernetes.cluster().standing = true;
            let request = request_at(&scene.place);
            let gone = NodeUnpublishVolumeRequest {
                volume_id: request.volume_id.clone(),
                target_path: request.target_path.clone(),
            };
            world.driver.publish(request, None).await.unwrap();
            scene.assert_sealed();
            // The class of that world makes no files, and an error stays for the life of its pod.
            let expected = if was_refused {
                Shown::error(error().text())
            } else {
                Shown {
                    files: BTreeMap::new(),
                    ..Shown::of(&scene.content)
                }
            };
            assert_eq!(Shown::at(&target), expected, "{context}");
            world.driver.unpublish(&gone).await.unwrap();
        });
        assert_eq!(mounts_at(&target), 0, "{context}");
        assert!(!target.exists(), "{context}");
        self.assert_theirs(context);
    }

    fn assert_theirs(&self, context: &str) {
        let Scene { place, content, .. } = &self.theirs;
        assert_eq!(Shown::at(&place.target()), Shown::of(content), "{context}");
        self.theirs.assert_sealed();
    }
}

fn mounts_at(target: &Path) -> usize {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let word = format!(" {} ", target.display());
    table.lines().filter(|line| line.contains(&word)).count()
}

/// Kills a process before each system call of a work. The calls that it made in all must be as many as this at least.
fn killed_everywhere(test: &str, work: Work, least: usize) {
    if !inside(&format!("kills::{test}")) {
        return;
    }
    if let Some(kubelet) = env::var_os(KUBELET) {
        let scene = volume(Path::new(&kubelet));
        begin();
        work.carry_out(&scene);
        std::process::exit(0);
    }
    let node = Node::new();
    let mut number = 1;
    loop {
        let context = format!("{work:?}, killed before call {number}");
        let scene = volume(node.kubelet.path());
        note(&scene.place).unwrap();
        work.prepare(&scene);
        let is_killed = Traced::start(test, node.kubelet.path()).kill_before(number);
        node.judge(work, &scene, &context);
        node.go_on(&scene, &context);
        if !is_killed {
            break;
        }
        number += 1;
    }
    println!(
        "{work:?}: killed before each of {} system calls",
        number - 1
    );
    assert!(number > least, "{number}");
}

#[test]
fn no_volume_is_half_published_before_whichever_call_its_process_is_killed() {
    let test = "no_volume_is_half_published_before_whichever_call_its_process_is_killed";
    killed_everywhere(test, Work::Publish, 80);
}

#[test]
fn no_volume_is_half_unpublished_before_whichever_call_its_process_is_killed() {
    let test = "no_volume_is_half_unpublished_before_whichever_call_its_process_is_killed";
    killed_everywhere(test, Work::Unpublish, 5);
}

#[test]
fn no_volume_is_half_emptied_before_whichever_call_its_process_is_killed() {
    let test = "no_volume_is_half_emptied_before_whichever_call_its_process_is_killed";
    killed_everywhere(test, Work::Empty, 40);
}

#[test]
fn no_volume_is_half_refilled_before_whichever_call_its_process_is_killed() {
    let test = "no_volume_is_half_refilled_before_whichever_call_its_process_is_killed";
    killed_everywhere(test, Work::Refill, 80);
}

#[test]
fn no_volume_shows_half_of_newer_content_before_whichever_call_its_process_is_killed() {
    let test = "no_volume_shows_half_of_newer_content_before_whichever_call_its_process_is_killed";
    killed_everywhere(test, Work::Refresh, 40);
}

#[test]
fn no_error_is_half_written_before_whichever_call_its_process_is_killed() {
    let test = "no_error_is_half_written_before_whichever_call_its_process_is_killed";
    killed_everywhere(test, Work::Refuse, 20);
}

#[test]
fn no_forgotten_volume_is_half_swept_before_whichever_call_its_process_is_killed() {
    let test = "no_forgotten_volume_is_half_swept_before_whichever_call_its_process_is_killed";
    killed_everywhere(test, Work::Sweep, 40);
}
