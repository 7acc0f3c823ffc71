//! A pod that reads its files while they are renewed, and what it may do with them (docs/connectors.md, "Newer content").

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::MetadataExt,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

use rustix::fs::openat;
use serde_json::json;

use super::{files::files, *};

/// Renewals at least, and at most until each kind of read was met.
const RENEWALS: [usize; 2] = [400, 20_000];
/// Reads of each kind during which the next set was being made.
const MET: usize = 50;
/// Different sets. A set is known by its number for longer than two renewals.
const SETS: usize = 8;
/// Lines of the shortest file: some pages.
const LINES: usize = 1500;

/// The number of a set that is being made, and of the last one that was.
#[derive(Default)]
struct Progress {
    begun: AtomicUsize,
    done: AtomicUsize,
    is_over: AtomicBool,
}

/// The sets: their names and texts. One name is in every second set.
fn texts(number: usize) -> BTreeMap<&'static str, String> {
    let number = number % SETS;
    let line = |name| format!("{name} of set {number}\n");
    let mut texts = BTreeMap::from([
        // A file of another length each time.
        ("one", line("one").repeat(LINES + number * 100)),
        ("two", line("two").repeat(LINES)),
    ]);
    if number % 2 == 1 {
        texts.insert("odd", line("odd"));
    }
    texts
}

/// The facts of a set that may change: the address and the class of the first connector.
fn facts_of(number: usize) -> [(&'static str, String); 2] {
    let number = number % SETS;
    let address = format!("https://{}", "x".repeat(100 + number));
    [("address", address), ("class", format!("class-{number}"))]
}

impl Progress {
    /// What was read, if it is promised, and whether another set was being made meanwhile. It is promised unless a second newer
    /// set was begun before the end.
    fn read<T>(&self, read: impl FnOnce() -> T) -> Option<(T, usize, bool)> {
        let done = self.done.load(Ordering::SeqCst);
        let read = read();
        let begun = self.begun.load(Ordering::SeqCst);
        (begun <= done + 1).then_some((read, done, begun > done))
    }
}

/// The set of which this is the whole file: the last one, or the one that was being made.
fn set_of(name: &str, text: &str, done: usize) -> usize {
    let mut sets = [done, done + 1].into_iter();
    let set = sets.find(|set| texts(*set).get(name).map(String::as_str) == Some(text));
    let beginning = &text[..text.len().min(40)];
    set.unwrap_or_else(|| {
        panic!(
            "{name} has {} bytes, {beginning:?}, of no set of {done} and the next",
            text.len()
        )
    })
}

/// Reads until all is over. Returns the number of promised reads of each kind, and of those beside another set.
fn reads(target: &Path, progress: &Progress, met: &[AtomicUsize; 2]) -> [usize; 2] {
    let mut judged = [0; 2];
    while !progress.is_over.load(Ordering::SeqCst) {
        for name in ["one", "two"] {
            let path = target.join(name);
            // A name that both sets have is always there.
            let read = progress.read(|| fs::read_to_string(&path).unwrap());
            if let Some((text, done, is_beside)) = read {
                set_of(name, &text, done);
                judged[0] += 1;
                met[0].fetch_add(usize::from(is_beside), Ordering::SeqCst);
            }
        }
        for at in [0, 1] {
            let (name, _) = facts_of(0)[at];
            let path = target.join(".connector/tools_harbor").join(name);
            let fact = progress.read(|| fs::read_to_string(&path).unwrap());
            if let Some((fact, done, _)) = fact {
                let mut sets = [done, done + 1].into_iter();
                let is_known = sets.any(|set| facts_of(set)[at].1 == fact);
                assert!(is_known, "{name} is {fact:?} at {done}");
            }
        }
        let odd = progress.read(|| fs::read_to_string(target.join("odd")));
        match odd {
            Some((Ok(text), done, _)) => assert_eq!(set_of("odd", &text, done) % 2, 1),
            Some((Err(error), ..)) => assert_eq!(error.kind(), io::ErrorKind::NotFound),
            None => {}
        }
        let folder = target.join(".connector/.files/current/");
        let both = progress.read(|| {
            let folder = fs::File::open(&folder).unwrap();
            ["one", "two"].map(|name| {
                let file = openat(&folder, name, OFlags::RDONLY, Mode::empty()).unwrap();
                let mut text = String::new();
                fs::File::from(file).read_to_string(&mut text).unwrap();
                text
            })
        });
        if let Some(([one, two], done, is_beside)) = both {
            assert_eq!(set_of("one", &one, done), set_of("two", &two, done));
            judged[1] += 1;
            met[1].fetch_add(usize::from(is_beside), Ordering::SeqCst);
        }
    }
    judged
}

#[test]
fn a_pod_that_reads_during_renewals_gets_whole_files_and_by_one_folder_those_of_one_set() {
    if !inside(
        "reader::a_pod_that_reads_during_renewals_gets_whole_files_and_by_one_folder_those_of_one_set",
    ) {
        return;
    }
    let scene = scene();
    let contents: Vec<_> = (0..SETS)
        .map(|set| {
            let mut content = scene.content.clone();
            content.files = files(&json!(texts(set)));
            let [(_, address), (_, class)] = facts_of(set);
            (content.facts[0].address, content.facts[0].class) = (address, class);
            content
        })
        .collect();
    let published =
        scene
            .mounter
            .publish(&scene.place, &scene.record, &contents[0], Passage::Gated);
    published.unwrap();
    let target = scene.place.target();
    let progress = Progress::default();
    let met = [0, 0].map(AtomicUsize::new);
    let is_met = || {
        let mut met = met.iter();
        met.all(|met| met.load(Ordering::SeqCst) >= MET)
    };
    let (judged, renewals) = thread::scope(|scope| {
        let reader = scope.spawn(|| reads(&target, &progress, &met));
        let mut number = 0;
        // How many reads meet a renewal is another number in each run.
        while !reader.is_finished() && (number < RENEWALS[0] || !is_met()) && number < RENEWALS[1] {
            number += 1;
            progress.begun.store(number, Ordering::SeqCst);
            let content = &contents[number % SETS];
            assert!(scene.mounter.refresh(&scene.place, content).unwrap());
            progress.done.store(number, Ordering::SeqCst);
        }
        progress.is_over.store(true, Ordering::SeqCst);
        (reader.join().unwrap(), number)
    });
    println!(
        "{renewals} renewals, by name and by folder: {judged:?} reads, {met:?} of them beside a renewal"
    );
    assert!(is_met(), "{met:?} of {renewals}");
    scene.clear();
}

/// The mode, the owner and the group of an object.
type Rights = (u32, u32, u32);

fn rights(meta: &fs::Metadata) -> Rights {
    (meta.mode() & 0o7777, meta.uid(), meta.gid())
}

impl Scene {
    /// The rights of all that a pod opens by its name: the root, the facts with their folders, and the files.
    fn rights_by_name(&self) -> BTreeMap<String, Rights> {
        let names = self.names_in("..").into_iter();
        let mut paths: Vec<String> = names.chain([".".to_owned()]).collect();
        for folder in ["tools_git", "tools_harbor", ".files/current"] {
            paths.push(format!(".connector/{folder}/"));
            let names = self.names_in(folder).into_iter();
            paths.extend(names.map(|name| format!(".connector/{folder}/{name}")));
        }
        let target = self.place.target();
        let each = paths.into_iter().map(|path| {
            let meta = fs::metadata(target.join(&path)).unwrap();
            (path, rights(&meta))
        });
        each.collect()
    }

    /// All rights of folders and of files, also of those that no pod has a reason to open.
    fn all_rights(&self) -> (BTreeSet<Rights>, BTreeSet<Rights>) {
        let (mut of_folders, mut of_files) = (BTreeSet::new(), BTreeSet::new());
        let mut folders = vec![self.place.target()];
        while let Some(folder) = folders.pop() {
            let meta = fs::symlink_metadata(&folder).unwrap();
            of_folders.insert(rights(&meta));
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                if meta.is_dir() {
                    folders.push(path);
                } else if meta.is_file() {
                    of_files.insert(rights(&meta));
                }
            }
        }
        (of_folders, of_files)
    }
}

#[test]
fn after_each_renewal_modes_owners_and_groups_are_those_of_the_first_publication() {
    if !inside(
        "reader::after_each_renewal_modes_owners_and_groups_are_those_of_the_first_publication",
    ) {
        return;
    }
    let scene = scene();
    let content = |address: &str, data: &serde_json::Value| {
        let mut content = Content {
            files: files(data),
            ..scene.content.clone()
        };
        address.clone_into(&mut content.facts[0].address);
        content
    };
    let first = content("https://first", &json!({"a": "1", "b": "1"}));
    let published = scene
        .mounter
        .publish(&scene.place, &scene.record, &first, Passage::Gated);
    published.unwrap();
    let (by_name, all) = (scene.rights_by_name(), scene.all_rights());
    let root = fs::metadata(scene.place.target()).unwrap();
    let (owner, group) = (root.uid(), root.gid());
    let expected = (
        BTreeSet::from([(0o755, owner, group)]),
        BTreeSet::from([(0o444, owner, group)]),
    );
    assert_eq!(all, expected);
    // The other folder is written for the first time, then names come and go, facts change, and names return.
    for (address, data) in [
        ("https://first", json!({"a": "2", "b": "2"})),
        ("https://first", json!({"a": "3", "c": "3"})),
        ("https://second", json!({"a": "3", "c": "3"})),
        ("https://third", json!({"d": "4"})),
        ("https://third", json!({"a": "5", "b": "5", "c": "5"})),
        ("https://first", json!({"a": "6", "b": "6"})),
    ] {
        let newer = content(address, &data);
        assert!(scene.mounter.refresh(&scene.place, &newer).unwrap());
        for (path, rights) in scene.rights_by_name() {
            // A new name has the rights of any other file.
            let before = by_name.get(&path).unwrap_or(&by_name["a"]);
            assert_eq!(rights, *before, "{path} after {data}");
        }
        assert_eq!(scene.all_rights(), expected, "{data}");
    }
    scene.mounter.empty(&scene.place).unwrap();
    assert_eq!(scene.all_rights(), expected);
    let refilled = scene.mounter.refill(&scene.place, &scene.record, &first);
    refilled.unwrap();
    assert_eq!(scene.all_rights(), expected);
    scene.clear();
}

#[test]
fn a_fact_that_is_open_is_read_as_it_was_after_one_renewal_and_is_empty_after_access_ended() {
    if !inside(
        "reader::a_fact_that_is_open_is_read_as_it_was_after_one_renewal_and_is_empty_after_access_ended",
    ) {
        return;
    }
    let mut scene = scene();
    scene.publish();
    let open = |fact: &str| {
        let path = format!(".connector/tools_harbor/{fact}");
        fs::File::open(scene.place.target().join(path)).unwrap()
    };
    let mut open = ["address", "class"].map(open);
    let mut read = || {
        open.each_mut().map(|file| {
            let mut text = String::new();
            file.rewind().unwrap();
            file.read_to_string(&mut text).unwrap();
            text
        })
    };
    let facts = &mut scene.content.facts[0];
    "https://newer".clone_into(&mut facts.address);
    "newer".clone_into(&mut facts.class);
    let refreshed = scene.mounter.refresh(&scene.place, &scene.content);
    assert!(refreshed.unwrap());
    assert_eq!(read(), ["https://tools/harbor", "oci"]);
    let by_name = ["address", "class"].map(|fact| scene.read(&format!("tools_harbor/{fact}")));
    assert_eq!(
        by_name,
        ["https://newer", "newer"].map(|it| Some(it.to_owned()))
    );
    scene.mounter.empty(&scene.place).unwrap();
    assert_eq!(read(), ["", ""]);
    assert_eq!(scene.look(), OnDisk::Emptied(scene.record.clone()));
    scene.assert_sealed();
    scene.clear();
}
