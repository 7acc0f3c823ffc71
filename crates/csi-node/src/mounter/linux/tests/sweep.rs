//! The volumes that a process finds at its start.

use super::*;
use crate::mounter::FoundVolume;

/// A volume of a kubelet that keeps it in mind, or does not any more.
fn scene_of(kubelet: &Path, volume: &str, is_known: bool) -> Scene {
    let place = place_in(kubelet, volume);
    let folder = place.pods().join(place.parent());
    fs::create_dir_all(&folder).unwrap();
    if is_known {
        fs::write(folder.join("vol_data.json"), "{}").unwrap();
    }
    let record = Record::new(&place, &wish(&["tools/harbor", "tools/git"]));
    Scene {
        place,
        record,
        ..scene_at(kubelet)
    }
}

fn kubelet() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    mount("kubelet", folder.path(), TMPFS, MountFlags::empty(), c"").unwrap();
    folder
}

fn swept(folder: &TempDir) -> Vec<FoundVolume> {
    Linux::new(DRIVER).sweep(&PodsDir::new(folder.path()))
}

#[test]
fn the_sweep_takes_what_was_never_completed_and_nothing_else() {
    if !inside("sweep::the_sweep_takes_what_was_never_completed_and_nothing_else") {
        return;
    }
    let folder = kubelet();
    let scene = |volume: &str| scene_of(folder.path(), volume, true);
    let (complete, emptied, begun) = (scene("complete"), scene("emptied"), scene("begun"));
    let refused = scene("refused");
    complete.publish();
    emptied.publish();
    emptied.mounter.empty(&emptied.place).unwrap();
    refused.publish_error();
    begun.began(2);
    // Another driver's volume, which has no marker of ours.
    let other = scene("other");
    fs::create_dir(other.place.target()).unwrap();
    mount(
        "other-driver",
        other.place.target(),
        TMPFS,
        hardened(),
        LIMITS,
    )
    .unwrap();
    // Ours by name, and no volume's place.
    let elsewhere = tempfile::tempdir().unwrap();
    mount(DRIVER, elsewhere.path(), TMPFS, hardened(), LIMITS).unwrap();

    let mut found = swept(&folder);
    found.sort_by_key(|it| it.place.target());
    let places: Vec<_> = found.iter().map(|it| it.place.clone()).collect();
    let stay = [&complete, &emptied, &refused];
    assert_eq!(places, stay.map(|it| it.place.clone()));
    for (found, scene) in found.iter().zip(stay) {
        assert_eq!(found.record, scene.record);
        assert_eq!(found.record.namespace(), "shop");
        let measured = mounted(&scene.place).unwrap().memory().unwrap();
        assert_eq!(found.memory, measured);
        assert!(found.memory > 0);
    }
    // Content takes memory.
    assert!(found[0].memory > found[1].memory);
    assert!(matches!(complete.look(), OnDisk::Published(_)));
    assert!(matches!(emptied.look(), OnDisk::Emptied(_)));
    refused.assert_error();
    assert_eq!(begun.look(), OnDisk::Nothing);
    assert_eq!(other.look(), OnDisk::Partial);
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(table.contains(elsewhere.path().to_str().unwrap()));
}

/// The kubelet would never call for their removal. A container that still has one finds nothing in it.
#[test]
fn the_sweep_takes_volumes_that_the_kubelet_does_not_know_and_their_content() {
    if !inside("sweep::the_sweep_takes_volumes_that_the_kubelet_does_not_know_and_their_content") {
        return;
    }
    let folder = kubelet();
    let scene = |volume: &str| scene_of(folder.path(), volume, false);
    let (complete, emptied, refused) = (scene("complete"), scene("emptied"), scene("refused"));
    complete.publish();
    emptied.publish();
    emptied.mounter.empty(&emptied.place).unwrap();
    refused.publish_error();
    let known = scene_of(folder.path(), "known", true);
    known.publish();
    let container = tempfile::tempdir().unwrap();
    rustix::mount::mount_bind(complete.place.target(), container.path()).unwrap();
    let address = container.path().join(".connector/tools_git/address");
    let mut open = fs::File::open(&address).unwrap();

    let found = swept(&folder);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].place, known.place);
    known.assert_complete();
    for scene in [&complete, &emptied, &refused] {
        assert_eq!(scene.look(), OnDisk::Nothing);
        assert!(!scene.place.target().exists());
    }
    assert!(!address.exists());
    let mut text = String::new();
    open.read_to_string(&mut text).unwrap();
    assert_eq!(text, "");
    // A second start finds the same.
    assert_eq!(swept(&folder), found);
}

/// A volume that cannot be understood may be another program's.
#[test]
fn the_sweep_leaves_what_it_cannot_understand_and_goes_on() {
    if !inside("sweep::the_sweep_leaves_what_it_cannot_understand_and_goes_on") {
        return;
    }
    let folder = kubelet();
    let scene = |volume: &str| scene_of(folder.path(), volume, false);
    let (odd, begun) = (scene("a-odd"), scene("begun"));
    odd.began(1);
    fs::create_dir(odd.place.target().join(".connector")).unwrap();
    fs::write(odd.place.target().join(".connector/.complete"), "{}").unwrap();
    begun.began(2);
    assert!(swept(&folder).is_empty());
    assert!(odd.place.target().join(".connector/.complete").exists());
    assert_eq!(begun.look(), OnDisk::Nothing);
}
