//! Things at the target path that neither the kubelet nor the driver puts there. They stay as they are.

use std::os::unix::fs::symlink;

use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    mount::{UnmountFlags, mount_bind, unmount},
};

use super::*;

/// Something at the target path.
struct Trap {
    name: &'static str,
    set: fn(&Node),
}

const TRAPS: [Trap; 9] = [
    Trap {
        name: "a link to the other pod's volume",
        set: |node| symlink(node.theirs.target(), node.ours.target()).unwrap(),
    },
    Trap {
        name: "a link that leads nowhere",
        set: |node| symlink("/no/such/place", node.ours.target()).unwrap(),
    },
    Trap {
        name: "a link on the way, to the other pod's folder",
        set: |node| {
            let folder = node.folder();
            fs::remove_dir(&folder).unwrap();
            symlink(node.theirs.pods().join(node.theirs.parent()), folder).unwrap();
        },
    },
    Trap {
        name: "a link in the place of the pod's folder",
        set: |node| {
            let pod = node.ours.pods().join("uid-1");
            fs::remove_dir_all(&pod).unwrap();
            symlink("uid-2", pod).unwrap();
        },
    },
    Trap {
        name: "a file",
        set: |node| fs::write(node.ours.target(), "precious").unwrap(),
    },
    Trap {
        name: "a pipe",
        set: |node| mknodat(CWD, node.ours.target(), FileType::Fifo, Mode::RUSR, 0).unwrap(),
    },
    Trap {
        name: "a folder with something in it",
        set: |node| {
            fs::create_dir(node.ours.target()).unwrap();
            fs::write(node.ours.target().join("precious"), "x").unwrap();
        },
    },
    Trap {
        name: "a file system of another type",
        set: |node| {
            fs::create_dir(node.ours.target()).unwrap();
            mount(
                "none",
                node.ours.target(),
                "ramfs",
                MountFlags::empty(),
                c"",
            )
            .unwrap();
        },
    },
    Trap {
        name: "the other pod's volume itself",
        set: |node| {
            fs::create_dir(node.ours.target()).unwrap();
            mount_bind(node.theirs.target(), node.ours.target()).unwrap();
        },
    },
];

impl Node {
    /// The folder that the kubelet makes for the volume.
    fn folder(&self) -> PathBuf {
        self.ours.pods().join(self.ours.parent())
    }

    pub(super) async fn refuses_what_is_on_disk(&mut self) {
        for Trap { name, set } in TRAPS {
            set(self);
            self.refuses(Refused {
                name: name.to_owned(),
                request: request_at(&self.ours),
                review: None,
                // It is not final: something is there.
                code: Code::Aborted,
                told: "the volume ",
            })
            .await;
            self.clear_away();
        }
        // Without the folder that the kubelet makes nothing is left, and nothing is made.
        fs::remove_dir(self.folder()).unwrap();
        self.refuses(Refused {
            name: "no folder".to_owned(),
            request: request_at(&self.ours),
            review: None,
            code: Code::Internal,
            told: "could not be made",
        })
        .await;
        self.clear_away();
    }

    /// As a kubelet has it before a call.
    fn clear_away(&self) {
        let pod = self.ours.pods().join("uid-1");
        let is_link = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| it.is_symlink());
        // Behind a link are the things of the other pod.
        if is_link(&pod) {
            fs::remove_file(&pod).unwrap();
        } else {
            if !is_link(&self.folder()) {
                let _ = unmount(
                    self.ours.target(),
                    UnmountFlags::DETACH | UnmountFlags::NOFOLLOW,
                );
            }
            fs::remove_dir_all(&pod).unwrap();
        }
        fs::create_dir_all(self.folder()).unwrap();
    }
}
