#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use super::*;

const SERDE: &str = "serde-0123456789abcdef";
const OURS: &str = "authz-fedcba9876543210";

/// A folder that is gone with the test. The crate has no dependencies, not even for its tests.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = env::temp_dir().join(format!("compiled-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A clone with a workspace of one package.
    fn clone(&self, name: &str) -> PathBuf {
        let clone = self.0.join(name);
        for file in DECIDE {
            write(&clone.join(file), "");
        }
        let manifest = "[package]\nname = \"authz\"\n";
        write(&clone.join("crates/authz/Cargo.toml"), manifest);
        clone
    }

    fn store(&self) -> Store {
        Store::at(self.0.join("store"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The files that cargo leaves of a package in a profile.
fn compile(clone: &Path, profile: &str, unit: &str, content: &str) {
    let profile = clone.join("target").join(profile);
    write(&profile.join(format!("deps/lib{unit}.rlib")), content);
    write(&profile.join(format!("deps/{unit}.d")), content);
    write(&profile.join(format!("build/{unit}/out/made.rs")), content);
    write(&profile.join(format!(".fingerprint/{unit}/lib")), content);
    write(&profile.join(format!("incremental/{unit}/x")), content);
}

fn read(clone: &Path, file: &str) -> Option<String> {
    fs::read_to_string(clone.join("target").join(file)).ok()
}

#[test]
fn a_fresh_clone_gets_dependencies_with_their_times_and_none_of_our_crates() {
    let folder = Folder::new("fresh");
    let (store, old, fresh) = (folder.store(), folder.clone("old"), folder.clone("fresh"));
    for profile in ["debug", "fuzz/x86_64-unknown-linux-gnu/release"] {
        compile(&old, profile, SERDE, "dependency");
        compile(&old, profile, OURS, "ours");
    }
    let record = format!("debug/.fingerprint/{SERDE}/lib");
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_hours(1);
    let times = FileTimes::new().set_modified(long_ago);
    let file = File::open(old.join("target").join(&record)).unwrap();
    file.set_times(times).unwrap();

    assert!(!store.has(&fresh).unwrap());
    assert_eq!(store.keep(&old).unwrap(), 2);
    assert!(store.has(&fresh).unwrap());
    assert_eq!(store.fill(&fresh).unwrap(), 2);

    for profile in ["debug", "fuzz/x86_64-unknown-linux-gnu/release"] {
        for file in [
            format!("deps/lib{SERDE}.rlib"),
            format!("deps/{SERDE}.d"),
            format!("build/{SERDE}/out/made.rs"),
            format!(".fingerprint/{SERDE}/lib"),
        ] {
            let text = read(&fresh, &format!("{profile}/{file}"));
            assert_eq!(text.as_deref(), Some("dependency"), "{file}");
        }
        for file in [
            format!("deps/lib{OURS}.rlib"),
            format!(".fingerprint/{OURS}/lib"),
            format!("incremental/{SERDE}/x"),
        ] {
            assert_eq!(read(&fresh, &format!("{profile}/{file}")), None, "{file}");
        }
    }
    let copied = fs::metadata(fresh.join("target").join(record)).unwrap();
    assert_eq!(copied.modified().unwrap(), long_ago);
    // Once is enough.
    assert_eq!(store.fill(&fresh).unwrap(), 0);
    assert_eq!(store.keep(&fresh).unwrap(), 0);
}

#[test]
fn a_copy_is_built_in_another_target_which_the_store_fills_and_keeps_as_well() {
    let folder = Folder::new("copy");
    let (store, clone) = (folder.store(), folder.clone("clone"));
    let [one, other] = ["one", "other"].map(|copy| folder.0.join(copy));
    compile(&one, "debug", SERDE, "dependency");
    compile(&one, "debug", OURS, "ours");
    assert_eq!(store.keep_target(&clone, &one.join("target")).unwrap(), 1);
    let target = other.join("target");
    assert_eq!(store.fill_target(&clone, &target).unwrap(), 1);
    assert_eq!(store.fill_target(&clone, &target).unwrap(), 0);
    let file = |unit: &str| read(&other, &format!("debug/deps/lib{unit}.rlib"));
    assert_eq!(file(SERDE).as_deref(), Some("dependency"));
    assert_eq!(file(OURS), None);
    assert!(!clone.join("target").exists());
}

const SYN: &str = "syn-00112233445566ff";

/// Two clones that compiled the same dependency, and each another one beside it.
fn strangers(folder: &Folder) -> [PathBuf; 2] {
    let [one, other] = [("one", SERDE), ("other", SYN)].map(|(name, more)| {
        let clone = folder.clone(name);
        compile(&clone, "debug", "itoa-ffeeddccbbaa0099", name);
        compile(&clone, "debug", more, name);
        clone
    });
    [one, other]
}

#[test]
fn a_set_is_of_one_clone_and_of_those_that_began_with_it() {
    let folder = Folder::new("one-clone");
    let store = folder.store();
    let [one, other] = strangers(&folder);
    assert_eq!(store.keep(&one).unwrap(), 2);
    // Theirs differ in size.
    assert_eq!(store.keep(&other).unwrap(), 2);
    let fresh = folder.clone("fresh");
    assert_eq!(store.fill(&fresh).unwrap(), 2);
    assert_eq!(read(&fresh, &format!("debug/deps/lib{SERDE}.rlib")), None);
    compile(&fresh, "debug", SERDE, "beside the others");
    assert_eq!(store.keep(&fresh).unwrap(), 1);
    let last = folder.clone("last");
    assert_eq!(store.fill(&last).unwrap(), 3);
    for unit in [SERDE, SYN] {
        let text = read(&last, &format!("debug/deps/lib{unit}.rlib")).unwrap();
        let wanted = if unit == SYN {
            "other"
        } else {
            "beside the others"
        };
        assert_eq!(text, wanted);
    }
}

/// The size is the same.
#[test]
fn a_dependency_that_was_compiled_again_replaces_the_set() {
    let folder = Folder::new("again");
    let (store, clone) = (folder.store(), folder.clone("clone"));
    compile(&clone, "debug", SERDE, "one");
    store.keep(&clone).unwrap();
    let file = format!("deps/lib{SERDE}.rlib");
    let ours = clone.join("target/debug").join(&file);
    fs::remove_file(&ours).unwrap();
    fs::write(&ours, "two").unwrap();
    let another = SystemTime::UNIX_EPOCH + Duration::from_hours(1);
    let times = FileTimes::new().set_modified(another);
    File::open(&ours).unwrap().set_times(times).unwrap();
    assert_eq!(store.keep(&clone).unwrap(), 1);
    let fresh = folder.clone("fresh");
    store.fill(&fresh).unwrap();
    assert_eq!(
        read(&fresh, &format!("debug/{file}")).as_deref(),
        Some("two")
    );
}

#[test]
fn a_copy_that_began_with_another_set_leaves_it_as_it_is() {
    let folder = Folder::new("another-set");
    let store = folder.store();
    let [one, other] = strangers(&folder);
    store.keep(&one).unwrap();
    assert_eq!(store.keep_target(&one, &other.join("target")).unwrap(), 0);
    let fresh = folder.clone("fresh");
    assert_eq!(store.fill(&fresh).unwrap(), 2);
    assert_eq!(read(&fresh, &format!("debug/deps/lib{SYN}.rlib")), None);
}

#[test]
fn what_a_clone_has_already_stays() {
    let folder = Folder::new("stays");
    let (store, old, other) = (folder.store(), folder.clone("old"), folder.clone("other"));
    compile(&old, "debug", SERDE, "theirs");
    compile(&old, "debug", SYN, "theirs");
    compile(&other, "debug", SERDE, "its own");
    store.keep(&old).unwrap();
    assert_eq!(store.fill(&other).unwrap(), 0);
    assert_eq!(read(&other, &format!("debug/deps/lib{SYN}.rlib")), None);
    let text = read(&other, &format!("debug/deps/lib{SERDE}.rlib"));
    assert_eq!(text.as_deref(), Some("its own"));
}

/// Cargo writes its records in place: the store's must not change with a clone's.
#[test]
fn a_record_that_a_clone_writes_is_its_own() {
    let folder = Folder::new("records");
    let (store, old, fresh) = (folder.store(), folder.clone("old"), folder.clone("fresh"));
    compile(&old, "debug", SERDE, "dependency");
    store.keep(&old).unwrap();
    let record = format!("debug/.fingerprint/{SERDE}/lib");
    fs::write(old.join("target").join(&record), "changed").unwrap();
    store.fill(&fresh).unwrap();
    assert_eq!(read(&fresh, &record).as_deref(), Some("dependency"));
}

#[test]
fn other_versions_are_another_set_and_begin_with_what_fits() {
    let folder = Folder::new("versions");
    let (store, old, new) = (folder.store(), folder.clone("old"), folder.clone("new"));
    compile(&old, "debug", SERDE, "dependency");
    store.keep(&old).unwrap();
    write(&new.join("Cargo.lock"), "version = 4");
    assert!(!store.has(&new).unwrap());
    assert_eq!(store.fill(&new).unwrap(), 1);
    store.keep(&new).unwrap();
    assert!(store.has(&new).unwrap() && store.has(&old).unwrap());
}

#[test]
fn sets_that_are_not_used_are_forgotten() {
    let folder = Folder::new("forgotten");
    let (store, clone) = (folder.store(), folder.clone("clone"));
    store.keep(&clone).unwrap();
    let current = key(&clone).unwrap();
    let used = now(&store.root.join(&current)).unwrap();
    for days in [1, 2, 3, 20] {
        let set = store.root.join(format!("set-{days:02}"));
        fs::create_dir_all(&set).unwrap();
        let times = FileTimes::new().set_modified(used - Duration::from_hours(24 * days));
        File::open(&set).unwrap().set_times(times).unwrap();
    }
    store.keep(&clone).unwrap();
    let left: Vec<PathBuf> = store.sets().unwrap().into_iter().map(|it| it.1).collect();
    let wanted = ["set-02", "set-01", &current].map(|name| store.root.join(name));
    assert_eq!(left, wanted);
}

#[test]
fn without_a_store_a_clone_stays_as_it_is() {
    let folder = Folder::new("without");
    let clone = folder.clone("clone");
    assert_eq!(folder.store().fill(&clone).unwrap(), 0);
    assert!(!clone.join("target").exists());
}
