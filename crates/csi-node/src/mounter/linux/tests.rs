//! Real mounts, in a mount namespace of each test's own.

use std::{
    env, fs,
    io::{Read, Seek},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use connector_files::FileSet;
use connectors_api::Permission;
use tempfile::TempDir;

mod errors;
mod files;
mod kills;
mod memory;
mod reader;
mod sweep;

use super::*;
use crate::content::ConnectorFacts;
use crate::testing::{key, namespace, place_in, wish};
use crate::volume::PodsDir;

const DRIVER: &str = "connectors-csi";

/// Whether to go on with a test of this module, in a mount namespace of its own.
fn inside(test: &str) -> bool {
    namespace::inside(&format!("mounter::linux::tests::{test}"))
}

struct Scene {
    _folder: TempDir,
    place: VolumePath,
    record: Record,
    content: Content,
    mounter: Linux,
}

/// A kubelet that has made the folder of the volume, on a file system of its own: that of the machine
/// may be one on which nobody can mount.
fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    mount("kubelet", folder.path(), TMPFS, MountFlags::empty(), c"").unwrap();
    let scene = scene_at(folder.path());
    Scene {
        _folder: folder,
        ..scene
    }
}

fn scene_at(kubelet: &Path) -> Scene {
    let place = place_in(kubelet, "tool");
    fs::create_dir_all(place.pods().join(place.parent())).unwrap();
    Scene {
        record: Record::new(&place, &wish(&["tools/harbor", "tools/git"])),
        content: Content {
            facts: ["tools/harbor", "tools/git"].map(facts).to_vec(),
            files: FileSet::default(),
        },
        place,
        mounter: Linux::new(DRIVER),
        _folder: tempfile::tempdir().unwrap(),
    }
}

fn facts(name: &str) -> ConnectorFacts {
    ConnectorFacts {
        connector: key(name),
        address: format!("https://{name}"),
        class: "oci".to_owned(),
        permission: Permission::Apis,
        request: String::new(),
    }
}

impl Scene {
    fn publish(&self) {
        self.mounter
            .publish(&self.place, &self.record, &self.content, Passage::Gated)
            .unwrap();
    }

    fn look(&self) -> OnDisk {
        self.mounter.look(&self.place).unwrap()
    }

    fn clear(&self) {
        self.mounter.clear(&self.place).unwrap();
        assert_eq!(self.look(), OnDisk::Nothing);
        assert!(!self.place.target().exists());
    }

    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.place.target().join(".connector").join(path)).ok()
    }

    fn assert_complete(&self) {
        assert_eq!(self.look(), OnDisk::Published(self.record.clone()));
        let expected = [
            ("name", "git"),
            ("namespace", "tools"),
            ("address", "https://tools/git"),
            ("class", "oci"),
            ("permission", "apis"),
            ("request", ""),
        ];
        for (fact, content) in expected {
            let read = self.read(&format!("tools_git/{fact}"));
            assert_eq!(read.as_deref(), Some(content), "{fact}");
        }
        assert_eq!(self.read("tools_harbor/name").as_deref(), Some("harbor"));
        let mut entries = self.entries();
        if let Some(place) = entries.iter().position(|name| name == ".removed") {
            entries.remove(place);
            assert_eq!(self.names_in(".removed"), [""; 0]);
        }
        assert_eq!(entries, [".complete", "tools_git", "tools_harbor"]);
        self.assert_sealed();
    }

    fn assert_sealed(&self) {
        let error = fs::write(self.place.target().join("x"), "x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
    }

    /// The volume says that it is emptied, and nothing in it has content.
    fn assert_emptied(&self) {
        assert_eq!(self.look(), OnDisk::Emptied(self.record.clone()));
        assert_eq!(self.entries(), [".removed", ".revoked"]);
        for connector in self.names_in(".removed") {
            for fact in self.names_in(&format!(".removed/{connector}")) {
                let read = self.read(&format!(".removed/{connector}/{fact}"));
                assert_eq!(read.as_deref(), Some(""), "{connector} {fact}");
            }
        }
        self.assert_sealed();
    }

    fn entries(&self) -> Vec<String> {
        self.names_in("")
    }

    fn names_in(&self, folder: &str) -> Vec<String> {
        let folder = self.place.target().join(".connector").join(folder);
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// A tmpfs at the target with as many of the steps done as asked for.
    fn began(&self, steps: usize) {
        let target = self.place.target();
        fs::create_dir(&target).unwrap();
        if steps == 0 {
            return;
        }
        mount(DRIVER, &target, TMPFS, hardened(), LIMITS).unwrap();
        let parent = parent(&self.place).unwrap().unwrap();
        let TargetPath::Mounted(root) = super::target(&self.place, &parent).unwrap() else {
            panic!("not mounted");
        };
        if steps > 1 {
            root.write_content(&self.content).unwrap();
        }
        if steps > 2 {
            root.complete(&self.record).unwrap();
        }
    }
}

#[test]
fn a_volume_is_complete_and_read_only_and_goes_without_a_trace() {
    if !inside("a_volume_is_complete_and_read_only_and_goes_without_a_trace") {
        return;
    }
    let scene = scene();
    assert_eq!(scene.look(), OnDisk::Nothing);
    scene.publish();
    // Before anybody looks, which would seal it.
    scene.assert_sealed();
    scene.assert_complete();
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let target = scene.place.target();
    let line = table
        .lines()
        .find(|line| line.contains(target.to_str().unwrap()))
        .unwrap();
    for option in ["nosuid", "nodev", "noexec", " - tmpfs connectors-csi ro,"] {
        assert!(line.contains(option), "{option}: {line}");
    }
    let probe = tempfile::tempdir().unwrap();
    let knows_noswap = mount("probe", probe.path(), TMPFS, MountFlags::empty(), c"noswap").is_ok();
    if knows_noswap {
        unmount(probe.path(), UnmountFlags::DETACH).unwrap();
    }
    assert_eq!(line.contains("noswap"), knows_noswap, "{line}");
    // Every account of the pod may read.
    for (path, mode) in [
        ("", 0o755),
        (".connector/tools_git", 0o755),
        (".connector/tools_git/name", 0o444),
    ] {
        let found = fs::metadata(target.join(path))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(found & 0o7777, mode, "{path}");
    }
    scene.clear();
    scene.clear();
}

#[test]
fn what_was_begun_is_partial_until_its_very_last_step() {
    if !inside("what_was_begun_is_partial_until_its_very_last_step") {
        return;
    }
    for steps in 0..3 {
        let scene = scene();
        scene.began(steps);
        assert_eq!(scene.look(), OnDisk::Partial, "{steps}");
        scene.clear();
        scene.publish();
        scene.assert_complete();
    }
    // Complete and not sealed: looking at it seals it. The mount is that of a version without `noswap`.
    let scene = scene();
    scene.began(3);
    scene.assert_complete();
}

/// Processes that are killed at most, each a moment after it began.
const MOST_ROUNDS: u64 = 3000;
/// Processes that are killed at least. With `E2E_LONG` in the environment it is the second number.
const ROUNDS: [u64; 2] = [60, 1000];

#[test]
fn a_process_killed_at_any_moment_leaves_what_the_next_one_can_tell() {
    if !inside("a_process_killed_at_any_moment_leaves_what_the_next_one_can_tell") {
        return;
    }
    let kubelet = "CSI_NODE_TEST_KUBELET";
    if let Some(folder) = env::var_os(kubelet) {
        let scene = scene_at(Path::new(&folder));
        loop {
            scene.publish();
            scene.mounter.empty(&scene.place).unwrap();
            scene
                .mounter
                .refill(&scene.place, &scene.record, &scene.content)
                .unwrap();
            scene.mounter.clear(&scene.place).unwrap();
            scene.publish_error();
            scene.mounter.clear(&scene.place).unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    mount("kubelet", folder.path(), TMPFS, MountFlags::empty(), c"").unwrap();
    let scene = scene_at(folder.path());
    let mut seen = [0; 5];
    let mut round = 0;
    let rounds = ROUNDS[usize::from(env::var_os("E2E_LONG").is_some())];
    // Until each of what a process can leave behind was met: which one it is depends on the moment.
    while round < rounds || seen[1..].contains(&0) {
        assert!(
            round < MOST_ROUNDS,
            "met nothing, partial, published, emptied, rejected: {seen:?}"
        );
        round += 1;
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("mounter::linux::tests::a_process_killed_at_any_moment_leaves_what_the_next_one_can_tell")
            .env(kubelet, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // From the first thing that it does on; whatever the moment is, the next process can tell.
        let target = scene.place.target();
        let given_up = Instant::now() + Duration::from_secs(30);
        while !target.exists() && Instant::now() < given_up {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(round % 60 * 40));
        child.kill().unwrap();
        child.wait().unwrap();
        match scene.look() {
            OnDisk::Nothing => seen[0] += 1,
            OnDisk::Partial => seen[1] += 1,
            OnDisk::Published(_) => {
                seen[2] += 1;
                scene.assert_complete();
            }
            OnDisk::Emptied(record) => {
                seen[3] += 1;
                assert_eq!(record, scene.record);
                // Half emptied or half filled: both ways lead out.
                if round % 2 == 0 {
                    scene.mounter.empty(&scene.place).unwrap();
                    scene.assert_emptied();
                }
                scene
                    .mounter
                    .refill(&scene.place, &scene.record, &scene.content)
                    .unwrap();
                scene.assert_complete();
            }
            OnDisk::Rejected(_) => {
                seen[4] += 1;
                scene.assert_error();
            }
        }
        scene.clear();
        scene.publish();
        scene.assert_complete();
        scene.clear();
    }
    println!("nothing, partial, published, emptied, rejected: {seen:?}");
}

#[test]
fn no_half_of_the_content_stays_when_a_refill_that_broke_off_is_taken_back() {
    if !inside("no_half_of_the_content_stays_when_a_refill_that_broke_off_is_taken_back") {
        return;
    }
    let scene = scene();
    let empty = || {
        scene.mounter.empty(&scene.place).unwrap();
        scene.assert_emptied();
    };
    scene.publish();
    empty();
    // Of a process that died before the last step.
    let parent = parent(&scene.place).unwrap().unwrap();
    let TargetPath::Mounted(root) = target(&scene.place, &parent).unwrap() else {
        panic!("not mounted");
    };
    remount(&root, hardened()).unwrap();
    let first = Content {
        facts: scene.content.facts[..1].to_vec(),
        files: FileSet::default(),
    };
    root.write_content(&first).unwrap();
    assert!(scene.read("tools_harbor/address").is_some());
    drop(root);
    empty();
    // One that fails: it has more to write than a volume holds.
    let mut content = scene.content.clone();
    content.facts[1].address = "x".repeat(17 << 20);
    scene
        .mounter
        .refill(&scene.place, &scene.record, &content)
        .unwrap_err();
    assert_eq!(scene.look(), OnDisk::Emptied(scene.record.clone()));
    empty();
    scene
        .mounter
        .refill(&scene.place, &scene.record, &scene.content)
        .unwrap();
    scene.assert_complete();
}

#[test]
fn emptied_content_is_gone_and_comes_back_through_the_same_mount() {
    if !inside("emptied_content_is_gone_and_comes_back_through_the_same_mount") {
        return;
    }
    let scene = scene();
    scene.publish();
    // As a container that was started in between sees it.
    let container = tempfile::tempdir().unwrap();
    rustix::mount::mount_bind(scene.place.target(), container.path()).unwrap();
    let seen = container.path().join(".connector/tools_git/name");
    assert!(seen.exists());
    for _ in 0..2 {
        scene.mounter.empty(&scene.place).unwrap();
        scene.assert_emptied();
        assert!(!seen.exists());
    }
    scene
        .mounter
        .refill(&scene.place, &scene.record, &scene.content)
        .unwrap();
    scene.assert_complete();
    assert!(seen.exists());
}

#[test]
fn what_a_pod_has_open_or_mounted_by_itself_reads_nothing_after_the_volume_was_emptied() {
    if !inside(
        "what_a_pod_has_open_or_mounted_by_itself_reads_nothing_after_the_volume_was_emptied",
    ) {
        return;
    }
    let scene = scene();
    scene.publish();
    let address = scene.place.target().join(".connector/tools_git/address");
    let mut open = fs::File::open(&address).unwrap();
    // As the kubelet mounts a `subPath`.
    let container = tempfile::tempdir().unwrap();
    let mounted = container.path().join("address");
    fs::write(&mounted, "").unwrap();
    rustix::mount::mount_bind(&address, &mounted).unwrap();
    let mut read = || {
        let mut text = String::new();
        open.rewind().unwrap();
        open.read_to_string(&mut text).unwrap();
        (text, fs::read_to_string(&mounted).unwrap())
    };
    let content = "https://tools/git".to_owned();
    assert_eq!(read(), (content.clone(), content.clone()));
    let inodes = || rustix::fs::statvfs(scene.place.target()).unwrap().f_ffree;
    let mut free = None;
    for _ in 0..3 {
        for _ in 0..2 {
            scene.mounter.empty(&scene.place).unwrap();
            assert_eq!(read(), (String::new(), String::new()));
            // Sealed as well, which the kernel refuses while a file is open that has no name.
            scene.assert_emptied();
        }
        let refilled = scene
            .mounter
            .refill(&scene.place, &scene.record, &scene.content);
        refilled.unwrap();
        scene.assert_complete();
        assert_eq!(read(), (content.clone(), content.clone()));
        // No round leaves anything behind.
        assert_eq!(*free.get_or_insert_with(inodes), inodes());
    }
}

#[test]
fn that_a_volume_was_mounted_while_nothing_was_gated_lasts_until_it_is_emptied() {
    if !inside("that_a_volume_was_mounted_while_nothing_was_gated_lasts_until_it_is_emptied") {
        return;
    }
    let scene = scene();
    let passage = || Linux::new(DRIVER).passage(&scene.place).unwrap();
    assert_eq!(passage(), Passage::Gated);
    scene.publish();
    assert_eq!(passage(), Passage::Gated);
    scene.clear();
    scene
        .mounter
        .publish(
            &scene.place,
            &scene.record,
            &scene.content,
            Passage::WhileOff,
        )
        .unwrap();
    scene.assert_complete();
    // Another process, which has nothing but the node.
    assert_eq!(passage(), Passage::WhileOff);
    let known = scene.place.pods().join(scene.place.parent());
    fs::write(known.join("vol_data.json"), "{}").unwrap();
    let kubelet = PodsDir::new(scene.place.pods().parent().unwrap());
    assert_eq!(scene.mounter.sweep(&kubelet).len(), 1);
    assert_eq!(passage(), Passage::WhileOff);
    scene.mounter.empty(&scene.place).unwrap();
    assert_eq!(passage(), Passage::Gated);
    let refill = || {
        scene
            .mounter
            .refill(&scene.place, &scene.record, &scene.content)
    };
    refill().unwrap();
    assert_eq!(passage(), Passage::Gated);
    scene.clear();
    assert_eq!(passage(), Passage::Gated);
    // A mark that an emptied volume should not have does not outlive its next content.
    scene.began(3);
    let parent = parent(&scene.place).unwrap().unwrap();
    let TargetPath::Mounted(root) = target(&scene.place, &parent).unwrap() else {
        panic!("not mounted");
    };
    root.mark(Passage::WhileOff).unwrap();
    refill().unwrap();
    assert_eq!(passage(), Passage::Gated);
}

#[test]
fn root_of_a_pod_cannot_say_that_its_volume_was_mounted_while_nothing_was_gated() {
    let test = "root_of_a_pod_cannot_say_that_its_volume_was_mounted_while_nothing_was_gated";
    if !inside(test) {
        return;
    }
    let marked = "CSI_NODE_TEST_MARKED";
    if let Some(folder) = env::var_os(marked) {
        let place = place_in(Path::new(&folder), "tool");
        let TargetPath::Mounted(root) = target(&place, &parent(&place).unwrap().unwrap()).unwrap()
        else {
            panic!("not mounted");
        };
        return root.mark(Passage::WhileOff).unwrap();
    }
    let scene = scene();
    // In the moment of a change, in which the file system can be written.
    scene.began(3);
    let kubelet = scene.place.pods().parent().unwrap();
    let mark = |program: &[&str]| {
        let output = Command::new(program[0])
            .args(&program[1..])
            .arg(env::current_exe().unwrap())
            .args(["--exact", &format!("mounter::linux::tests::{test}")])
            .env(marked, kubelet)
            .output()
            .unwrap();
        output.status.success()
    };
    // Every capability but the one that owns the node.
    assert!(!mark(&["setpriv", "--bounding-set=-sys_admin"]));
    assert_eq!(scene.mounter.passage(&scene.place).unwrap(), Passage::Gated);
    assert!(mark(&["setpriv"]));
    assert_eq!(
        scene.mounter.passage(&scene.place).unwrap(),
        Passage::WhileOff
    );
}

#[test]
fn a_volume_in_use_goes_as_well() {
    if !inside("a_volume_in_use_goes_as_well") {
        return;
    }
    let scene = scene();
    scene.publish();
    let open = fs::File::open(scene.place.target().join(".connector/.complete")).unwrap();
    scene.clear();
    drop(open);
}

#[test]
fn what_is_not_ours_is_neither_filled_nor_removed() {
    if !inside("what_is_not_ours_is_neither_filled_nor_removed") {
        return;
    }
    let foreign = |result: Result<(), MountError>| {
        assert!(
            matches!(result, Err(MountError::Foreign { .. })),
            "{result:?}"
        );
    };
    // A link that leads elsewhere.
    let scene = scene();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), scene.place.target()).unwrap();
    foreign(scene.mounter.look(&scene.place).map(|_| ()));
    foreign(
        scene
            .mounter
            .publish(&scene.place, &scene.record, &scene.content, Passage::Gated),
    );
    foreign(scene.mounter.clear(&scene.place));
    fs::remove_file(scene.place.target()).unwrap();
    // A file system of another type.
    fs::create_dir(scene.place.target()).unwrap();
    mount(
        "none",
        scene.place.target(),
        "ramfs",
        MountFlags::empty(),
        c"",
    )
    .unwrap();
    foreign(scene.mounter.look(&scene.place).map(|_| ()));
    foreign(scene.mounter.clear(&scene.place));
    unmount(scene.place.target(), UnmountFlags::empty()).unwrap();
    // A folder that somebody put something into.
    fs::write(scene.place.target().join("precious"), "x").unwrap();
    assert!(scene.mounter.clear(&scene.place).is_err());
    assert!(scene.place.target().join("precious").exists());
    // A marker that is not ours.
    fs::remove_dir_all(scene.place.target()).unwrap();
    scene.began(1);
    fs::create_dir(scene.place.target().join(".connector")).unwrap();
    fs::write(scene.place.target().join(".connector/.complete"), "{}").unwrap();
    foreign(scene.mounter.look(&scene.place).map(|_| ()));
}

#[test]
fn a_link_on_the_way_is_not_followed() {
    if !inside("a_link_on_the_way_is_not_followed") {
        return;
    }
    let scene = scene();
    let folder = scene.place.pods().join(scene.place.parent());
    let elsewhere = tempfile::tempdir().unwrap();
    fs::remove_dir(&folder).unwrap();
    symlink(elsewhere.path(), &folder).unwrap();
    assert!(
        scene
            .mounter
            .publish(&scene.place, &scene.record, &scene.content, Passage::Gated)
            .is_err()
    );
    assert!(scene.mounter.look(&scene.place).is_err());
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    // Nor one that stays among the volumes.
    fs::remove_file(&folder).unwrap();
    let other = place_in(scene.place.pods().parent().unwrap(), "other");
    fs::create_dir_all(other.pods().join(other.parent())).unwrap();
    symlink("other", &folder).unwrap();
    assert!(
        scene
            .mounter
            .publish(&scene.place, &scene.record, &scene.content, Passage::Gated)
            .is_err()
    );
    assert!(scene.mounter.clear(&scene.place).is_err());
    assert!(!other.target().exists());
}

#[test]
fn the_kubelets_folder_is_held_by_its_path_alone_and_no_other_program_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let scene = scene_at(folder.path());
    let parent = parent(&scene.place).unwrap().unwrap();
    let flags = rustix::fs::fcntl_getfl(&parent).unwrap();
    assert!(
        flags.contains(OFlags::PATH | OFlags::DIRECTORY),
        "{flags:?}"
    );
    let flags = rustix::io::fcntl_getfd(&parent).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "{flags:?}");
}

#[test]
fn without_the_kubelets_folder_there_is_nothing_and_nothing_is_made() {
    if !inside("without_the_kubelets_folder_there_is_nothing_and_nothing_is_made") {
        return;
    }
    let scene = scene();
    fs::remove_dir_all(scene.place.pods()).unwrap();
    assert_eq!(scene.look(), OnDisk::Nothing);
    scene.mounter.clear(&scene.place).unwrap();
    assert!(
        scene
            .mounter
            .publish(&scene.place, &scene.record, &scene.content, Passage::Gated)
            .is_err()
    );
    assert!(scene.mounter.empty(&scene.place).is_err());
}

#[test]
fn mounts_on_top_of_each_other_all_go() {
    if !inside("mounts_on_top_of_each_other_all_go") {
        return;
    }
    let scene = scene();
    scene.publish();
    mount(DRIVER, scene.place.target(), TMPFS, hardened(), LIMITS).unwrap();
    assert_eq!(scene.look(), OnDisk::Partial);
    scene.clear();
}

#[test]
fn what_a_process_left_writable_is_sealed_by_the_next_look() {
    if !inside("what_a_process_left_writable_is_sealed_by_the_next_look") {
        return;
    }
    let scene = scene();
    scene.publish();
    for is_emptied in [false, true] {
        if is_emptied {
            scene.mounter.empty(&scene.place).unwrap();
        }
        let target = scene.place.target();
        mount_remount(&target, hardened(), c"").unwrap();
        let forged = target.join("forged");
        fs::write(&forged, "").unwrap();
        fs::remove_file(&forged).unwrap();
        assert!(!is_read_only(&mounted(&scene.place).unwrap()).unwrap());
        let found = scene.look();
        assert_eq!(matches!(found, OnDisk::Emptied(_)), is_emptied, "{found:?}");
        let error = fs::write(&forged, "").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ReadOnlyFilesystem);
        assert!(is_read_only(&mounted(&scene.place).unwrap()).unwrap());
    }
}
