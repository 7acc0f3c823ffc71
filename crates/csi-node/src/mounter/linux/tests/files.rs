//! The files at the root of a volume, on a real file system.

use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use connector_files::{FileConflict, FileContext, FileRequest, MOST_BYTES, Tool, render};
use connectors_api::{Connector, ConnectorClass};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

/// The set of a class with these files.
pub(super) fn files(data: &Value) -> FileSet {
    let class: ConnectorClass = serde_json::from_value(json!({
        "metadata": {"name": "oci"}, "spec": {"configurations": [{"name": "all", "data": data}]},
    }))
    .unwrap();
    let connector: Connector = serde_json::from_value(json!({
        "metadata": {"name": "harbor", "namespace": "tools"}, "spec": {"connectorClassName": "oci"},
    }))
    .unwrap();
    let tool = Tool {
        connector: &connector,
        class: Some(&class),
        address: "https://harbor",
    };
    let context = FileContext {
        token: None,
        now: Timestamp::UNIX_EPOCH,
        conflict: FileConflict::Refuse,
    };
    let request = FileRequest::parse(Some("all"), None).unwrap();
    render(&request, &[tool], &context).unwrap()
}

impl Scene {
    fn content(&self, data: &Value) -> Content {
        Content {
            files: files(data),
            ..self.content.clone()
        }
    }

    fn publish_files(&self, data: &Value) {
        let content = self.content(data);
        let published = self
            .mounter
            .publish(&self.place, &self.record, &content, Passage::Gated);
        published.unwrap();
    }

    fn refresh(&self, data: &Value) -> bool {
        let content = self.content(data);
        let refreshed = self.mounter.refresh(&self.place, &content).unwrap();
        self.assert_sealed();
        refreshed
    }

    fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.place.target().join(name)).ok()
    }

    fn root(&self) -> Vec<String> {
        self.names_in("..")
    }
}

#[test]
fn files_are_at_the_root_and_nobody_can_write_them() {
    if !inside("files::files_are_at_the_root_and_nobody_can_write_them") {
        return;
    }
    let scene = scene();
    scene.publish_files(&json!({"config.json": "{}", ".netrc": "machine"}));
    assert_eq!(scene.root(), [".connector", ".netrc", "config.json"]);
    assert_eq!(scene.file("config.json").as_deref(), Some("{}"));
    let meta = fs::metadata(scene.place.target().join(".netrc")).unwrap();
    assert_eq!(meta.mode() & 0o777, 0o444);
    scene.assert_sealed();
    assert!(fs::write(scene.place.target().join(".netrc"), "x").is_err());
    assert_eq!(scene.look(), OnDisk::Published(scene.record.clone()));
    scene.clear();
}

#[test]
fn newer_files_come_all_at_once_and_the_same_ones_are_not_written() {
    if !inside("files::newer_files_come_all_at_once_and_the_same_ones_are_not_written") {
        return;
    }
    let scene = scene();
    let first = json!({"a": "1", "b": "1", "gone": "x"});
    scene.publish_files(&first);
    let inode = || fs::metadata(scene.place.target().join("a")).unwrap().ino();
    let before = inode();
    assert!(!scene.refresh(&first));
    assert_eq!(inode(), before);
    // A reader that holds the folder reads one set to its end.
    let held = scene.place.target().join(".connector/.files/current");
    let held = fs::canonicalize(held).unwrap();
    assert!(scene.refresh(&json!({"a": "2", "b": "2", "new": "y"})));
    assert_eq!(scene.root(), [".connector", "a", "b", "new"]);
    for (name, content) in [("a", "2"), ("b", "2"), ("new", "y")] {
        assert_eq!(scene.file(name).as_deref(), Some(content), "{name}");
    }
    for (name, content) in [("a", "1"), ("b", "1"), ("gone", "x")] {
        assert_eq!(
            fs::read_to_string(held.join(name)).unwrap(),
            content,
            "{name}"
        );
    }
    // Two sets are there at most, however often they change.
    for number in 3..10 {
        assert!(scene.refresh(&json!({"a": number.to_string()})));
    }
    assert_eq!(scene.names_in(".files"), ["a", "b", "current", "spare"]);
    assert_eq!(scene.root(), [".connector", "a"]);
    assert!(scene.refresh(&json!({})));
    assert_eq!(scene.root(), [".connector"]);
    assert!(!scene.refresh(&json!({})));
    scene.clear();
}

#[test]
fn the_first_file_and_one_of_the_greatest_size_are_compared_to_their_end() {
    if !inside("files::the_first_file_and_one_of_the_greatest_size_are_compared_to_their_end") {
        return;
    }
    let scene = scene();
    scene.publish_files(&json!({}));
    let largest = "x".repeat(MOST_BYTES);
    let set = json!({"a": largest});
    assert!(scene.refresh(&set));
    assert_eq!(scene.file("a").as_deref(), Some(&*largest));
    assert!(!scene.refresh(&set));
    // One byte more is another content.
    let root = mounted(&scene.place).unwrap();
    remount(&root, hardened()).unwrap();
    fs::write(scene.place.target().join("a"), format!("{largest}x")).unwrap();
    seal(&root).unwrap();
    assert!(scene.refresh(&set));
    assert_eq!(scene.file("a").as_deref(), Some(&*largest));
    drop(root);
    scene.clear();
}

#[test]
fn facts_that_changed_are_renewed_and_the_request_stays() {
    if !inside("files::facts_that_changed_are_renewed_and_the_request_stays") {
        return;
    }
    let mut scene = scene();
    scene.content.facts[0].request = "r1".to_owned();
    scene.publish();
    scene.content.facts[0].request = String::new();
    assert!(!scene.refresh(&json!({})));
    scene.content.facts[0].address = "https://new".to_owned();
    assert!(scene.refresh(&json!({})));
    assert_eq!(
        scene.read("tools_harbor/address").as_deref(),
        Some("https://new")
    );
    assert_eq!(scene.read("tools_harbor/request").as_deref(), Some("r1"));
    scene.clear();
}

#[test]
fn files_of_an_emptied_volume_hold_nothing_for_those_who_have_them_open() {
    if !inside("files::files_of_an_emptied_volume_hold_nothing_for_those_who_have_them_open") {
        return;
    }
    let scene = scene();
    let secret = json!({"token": "s3cret"});
    scene.publish_files(&secret);
    assert!(scene.refresh(&json!({"token": "s3cret-2"})));
    let read_again = |mut file: &fs::File| {
        let mut text = String::new();
        io::Seek::rewind(&mut file).unwrap();
        io::Read::read_to_string(&mut file, &mut text).unwrap();
        text
    };
    let open = |path: &str| fs::File::open(scene.place.target().join(path)).unwrap();
    let (newer, older) = (open("token"), open(".connector/.files/a/token"));
    assert_eq!(
        (read_again(&newer), read_again(&older)),
        ("s3cret-2".into(), "s3cret".into())
    );
    for _ in 0..2 {
        scene.mounter.empty(&scene.place).unwrap();
        assert_eq!(scene.look(), OnDisk::Emptied(scene.record.clone()));
        assert_eq!(scene.root(), [".connector"]);
        assert_eq!(
            (read_again(&newer), read_again(&older)),
            (String::new(), String::new())
        );
        let content = scene.content(&secret);
        let refilled = scene.mounter.refill(&scene.place, &scene.record, &content);
        refilled.unwrap();
        assert_eq!(scene.file("token").as_deref(), Some("s3cret"));
        assert_eq!(scene.root(), [".connector", "token"]);
    }
    scene.clear();
}

/// A process that holds a lease on a file. The files belong to its user.
struct LeaseHolder(std::process::Child);

impl Drop for LeaseHolder {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn lease(path: &Path) -> LeaseHolder {
    let script = r#"open(F, "<", $ARGV[0]) or die; $SIG{IO} = "IGNORE"; fcntl(F, 1024, 0) // die $!; $| = 1;
        print "held\n"; sleep 600"#;
    let mut process = std::process::Command::new("perl")
        .args(["-e", script])
        .arg(path)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let output = process.stdout.as_mut().unwrap();
    io::BufRead::read_line(&mut io::BufReader::new(output), &mut line).unwrap();
    assert_eq!(line, "held\n");
    LeaseHolder(process)
}

/// A pod whose user is root owns its files.
#[test]
fn a_lease_on_a_file_holds_no_call_and_keeps_the_content_of_no_other_file() {
    if !inside("files::a_lease_on_a_file_holds_no_call_and_keeps_the_content_of_no_other_file") {
        return;
    }
    let scene = scene();
    scene.publish_files(&json!({"a": "1", "token": "s3cret", "z": "1"}));
    let holder = lease(&scene.place.target().join(".connector/.files/a/token"));
    let is_leased = |result: Result<(), MountError>| {
        let error = result.unwrap_err();
        assert!(matches!(error, MountError::Leased { .. }), "{error:?}");
    };
    // The other set is written, and then the leased one would be.
    assert!(scene.refresh(&json!({"a": "2", "token": "s3cret", "z": "2"})));
    let third = scene.content(&json!({"a": "3", "token": "new", "z": "3"}));
    is_leased(scene.mounter.refresh(&scene.place, &third).map(drop));
    assert_eq!(scene.file("a").as_deref(), Some("2"));
    is_leased(scene.mounter.empty(&scene.place));
    assert_eq!(scene.look(), OnDisk::Emptied(scene.record.clone()));
    assert_eq!(scene.root(), [".connector"]);
    let content = |path: &str| fs::read_to_string(scene.place.target().join(path)).unwrap();
    for set in ["a", "b"] {
        for name in ["a", "z"] {
            assert_eq!(content(&format!(".connector/.files/{set}/{name}")), "");
        }
    }
    assert_eq!(content(".connector/.files/a/token"), "s3cret");
    scene.assert_sealed();
    drop(holder);
    scene.mounter.empty(&scene.place).unwrap();
    assert_eq!(content(".connector/.files/a/token"), "");
    scene.clear();
}

/// What a process that died leaves in the folder of the sets.
type Break = fn(&Path);

/// A process may die after any step.
#[test]
fn a_refresh_that_broke_off_leaves_a_whole_set_and_is_made_up_for() {
    if !inside("files::a_refresh_that_broke_off_leaves_a_whole_set_and_is_made_up_for") {
        return;
    }
    let scene = scene();
    scene.publish_files(&json!({"a": "1", "old": "x"}));
    let parent = parent(&scene.place).unwrap().unwrap();
    let TargetPath::Mounted(root) = target(&scene.place, &parent).unwrap() else {
        panic!("not mounted");
    };
    let path = scene.place.target().join(".connector/.files");
    let newer = json!({"a": "2", "new": "y"});
    // A half-written set, a link that is missing, and a set whose links at the root are not yet right.
    let breaks: [Break; 3] = [
        |files| {
            fs::create_dir_all(files.join("b")).unwrap();
            fs::write(files.join("b/a"), "hal").unwrap();
        },
        |files| {
            fs::remove_file(files.join("spare")).unwrap();
        },
        |files| {
            fs::remove_file(files.join("../../old")).unwrap();
        },
    ];
    for (number, broken) in breaks.into_iter().enumerate() {
        remount(&root, hardened()).unwrap();
        broken(&path);
        seal(&root).unwrap();
        assert_eq!(scene.file("a").as_deref(), Some("1"), "{number}");
        assert!(scene.refresh(&newer), "{number}");
        assert_eq!(scene.root(), [".connector", "a", "new"], "{number}");
        assert_eq!(scene.file("a").as_deref(), Some("2"), "{number}");
        assert!(scene.refresh(&json!({"a": "1", "old": "x"})));
    }
    drop(root);
    scene.clear();
}

/// The kernel makes no file system read only that has an open file without a name.
#[test]
fn whatever_a_pod_holds_open_it_is_sealed_after_each_change_and_reads_nothing_after_the_last() {
    if !inside(
        "files::whatever_a_pod_holds_open_it_is_sealed_after_each_change_and_reads_nothing_after_the_last",
    ) {
        return;
    }
    let scene = scene();
    let set = |number: usize| match number % 2 {
        0 => json!({"token": format!("s3cret-{number}"), "even": "s3cret"}),
        _ => json!({"token": format!("s3cret-{number}"), "odd": "s3cret"}),
    };
    scene.publish_files(&set(0));
    let mut held = Vec::new();
    let mut texts = Vec::new();
    let keep_open = |held: &mut Vec<fs::File>, texts: &mut Vec<fs::File>| {
        let target = scene.place.target();
        for path in ["token", "even", "odd", ".connector/tools_harbor/address"] {
            texts.extend(fs::File::open(target.join(path)));
        }
        for folder in ["", ".connector/.files", ".connector/.files/current/"] {
            held.push(fs::File::open(target.join(folder)).unwrap());
        }
        // The links between the sets themselves.
        let link = rustix::fs::OFlags::PATH | rustix::fs::OFlags::NOFOLLOW;
        let flags = i32::try_from(link.bits()).unwrap();
        for path in [".connector/.files/current", ".connector/.files/spare"] {
            let mut options = fs::OpenOptions::new();
            held.extend(
                options
                    .read(true)
                    .custom_flags(flags)
                    .open(target.join(path)),
            );
        }
    };
    for number in 1..6 {
        keep_open(&mut held, &mut texts);
        let mut content = scene.content(&set(number));
        content.facts[0].address = format!("https://s3cret-{number}");
        assert!(scene.mounter.refresh(&scene.place, &content).unwrap());
        scene.assert_sealed();
        assert_eq!(scene.look(), OnDisk::Published(scene.record.clone()));
    }
    keep_open(&mut held, &mut texts);
    for _ in 0..2 {
        scene.mounter.empty(&scene.place).unwrap();
        scene.assert_sealed();
        assert_eq!(scene.look(), OnDisk::Emptied(scene.record.clone()));
        assert_eq!(scene.root(), [".connector"]);
        for mut file in &texts {
            let mut text = String::new();
            io::Seek::rewind(&mut file).unwrap();
            io::Read::read_to_string(&mut file, &mut text).unwrap();
            assert_eq!(text, "");
        }
        let refilled = scene
            .mounter
            .refill(&scene.place, &scene.record, &scene.content(&set(7)));
        refilled.unwrap();
        scene.assert_sealed();
        keep_open(&mut held, &mut texts);
    }
    assert!(held.len() > 20 && texts.len() > 20);
    drop((held, texts));
    scene.clear();
}
