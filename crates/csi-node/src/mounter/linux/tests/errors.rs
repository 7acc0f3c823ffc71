//! Volumes that hold an error alone, on a real file system.

use std::os::unix::fs::MetadataExt;

use connectors_api::{access_request::Phase, reason::Ready};

use super::*;
use crate::{refusal::AccessRefusal, testing::seen};

pub(super) fn error() -> ErrorFile {
    let request = seen("r1", Some(Phase::Rejected), Some(Ready::CheckRejected));
    let wish = wish(&["tools/harbor"]);
    let refusal = AccessRefusal::of(&wish, &key("tools/harbor"), &request, Phase::Rejected);
    ErrorFile::of(&refusal, "access was rejected")
}

impl Scene {
    pub(super) fn publish_error(&self) {
        self.mounter
            .publish_error(&self.place, &self.record, &error())
            .unwrap();
    }

    /// The error and the marker are there, and nothing else.
    pub(super) fn assert_error(&self) {
        assert_eq!(self.look(), OnDisk::Rejected(self.record.clone()));
        assert_eq!(self.names_in(".."), [".connector", ".error.json"]);
        assert_eq!(self.entries(), [".rejected"]);
        let path = self.place.target().join(".error.json");
        assert_eq!(fs::read_to_string(&path).unwrap(), error().text());
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o444);
        self.assert_sealed();
    }
}

#[test]
fn an_error_is_alone_in_its_volume_and_read_only_and_goes_without_a_trace() {
    if !inside("errors::an_error_is_alone_in_its_volume_and_read_only_and_goes_without_a_trace") {
        return;
    }
    let scene = scene();
    scene.publish_error();
    scene.assert_sealed();
    scene.assert_error();
    // For another process as well, which has nothing but the node.
    let found = Linux::new(DRIVER).look(&scene.place).unwrap();
    assert_eq!(found, OnDisk::Rejected(scene.record.clone()));
    scene.clear();
    scene.publish();
    scene.assert_complete();
    scene.clear();
}

#[test]
fn an_error_counts_from_its_very_last_step_on() {
    if !inside("errors::an_error_counts_from_its_very_last_step_on") {
        return;
    }
    let scene = scene();
    let root = scene.mounter.make(&scene.place).unwrap();
    assert_eq!(scene.look(), OnDisk::Partial);
    root.write_error(&error()).unwrap();
    assert_eq!(scene.look(), OnDisk::Partial);
    root.rejected(&scene.record).unwrap();
    // Complete and not sealed: looking at it seals it.
    scene.assert_error();
    drop(root);
    scene.clear();
}

/// A marker that is not ours tells nothing.
#[test]
fn a_marker_of_an_error_that_is_not_ours_is_left_alone() {
    if !inside("errors::a_marker_of_an_error_that_is_not_ours_is_left_alone") {
        return;
    }
    let scene = scene();
    let root = scene.mounter.make(&scene.place).unwrap();
    root.write_error(&error()).unwrap();
    let marker = scene.place.target().join(".connector/.rejected");
    fs::write(marker, "{}").unwrap();
    let looked = scene.mounter.look(&scene.place);
    assert!(matches!(looked, Err(MountError::Foreign { .. })));
    drop(root);
    scene.clear();
}
