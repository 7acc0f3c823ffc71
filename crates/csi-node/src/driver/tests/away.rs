//! A plugin that is away for a day. The kubelet calls in vain meanwhile, and the next process remembers nothing. Its first call
//! for a volume makes the volume right: emptied if access ended, else with the present content.

use std::{
    fs,
    io::{Read, Seek},
    path::Path,
};

use rustix::mount::{MountFlags, mount};

use super::{
    deliver::{class, delivered, file, request_with},
    *,
};
use crate::{
    mounter::Linux,
    testing::{namespace::inside, place_in, shown::Shown},
};

const DAY: Duration = Duration::from_hours(24);
const CLASS: &str = "{{ .connector.spec.address }} {{ .context.token }}";
const NEWER_CLASS: &str = "newer {{ .connector.spec.address }} {{ .context.token }}";

/// What happens while the plugin is away.
#[derive(Clone, Copy, Debug)]
struct Meanwhile {
    access_ends: bool,
    /// The pod's token, the class and the connector become other ones.
    all_changes: bool,
}

const ALL: [Meanwhile; 4] = [
    Meanwhile {
        access_ends: false,
        all_changes: false,
    },
    Meanwhile {
        access_ends: true,
        all_changes: false,
    },
    Meanwhile {
        access_ends: false,
        all_changes: true,
    },
    Meanwhile {
        access_ends: true,
        all_changes: true,
    },
];

impl Meanwhile {
    /// The world after that day.
    fn happens<M>(self, world: &World<M>) {
        if self.access_ends {
            ends(world);
        } else {
            world.evaluator.says("tools/harbor", Some(granted()));
        }
        let mut cluster = world.kubernetes.cluster();
        let text = if self.all_changes { NEWER_CLASS } else { CLASS };
        cluster.class = class(text);
        if self.all_changes {
            let connector = cluster.connectors.get_mut("tools/harbor").unwrap();
            connector.spec.address = Some("https://moved".to_owned());
        }
    }

    fn request(self) -> NodePublishVolumeRequest {
        request_with(if self.all_changes { "t2" } else { "t1" })
    }

    fn address(self) -> &'static str {
        if self.all_changes {
            "https://moved"
        } else {
            "https://harbor"
        }
    }

    fn files(self) -> [(&'static str, &'static str); 2] {
        if self.all_changes {
            [
                ("config", "newer https://moved t2"),
                ("context.token", "t2"),
            ]
        } else {
            [("config", "https://harbor t1"), ("context.token", "t1")]
        }
    }

    /// The whole content of the volume that is right now.
    fn content(self) -> Shown {
        let facts = [
            ("name", "harbor"),
            ("namespace", "tools"),
            ("address", self.address()),
            ("class", "oci"),
            ("permission", "apis"),
            ("request", "the-request"),
        ];
        let text = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
        Shown {
            facts: facts
                .map(|(name, fact)| (format!("tools_harbor/{name}"), fact.to_owned()))
                .into(),
            files: self.files().map(text).into(),
        }
    }
}

fn ends<M>(world: &World<M>) {
    let revoked = denied(Phase::Revoked, Ready::CheckLapsed);
    world.evaluator.says("tools/harbor", Some(revoked));
    world.kubernetes.cluster().pod_form = false;
}

fn returns<M>(world: &World<M>) {
    world.evaluator.says("tools/harbor", Some(granted()));
    world.kubernetes.cluster().pod_form = true;
}

/// The volume has the content of that time.
fn has_content(world: &World, of: Meanwhile) {
    assert!(mounted(world), "{of:?}");
    for (name, text) in of.files() {
        assert_eq!(file(world, name).as_deref(), Some(text), "{of:?}");
    }
    let node = world.mounter.node();
    assert_eq!(node.facts[0].address, of.address(), "{of:?}");
    assert_eq!(node.facts[0].request, "the-request", "{of:?}");
}

fn is_emptied(world: &World) -> bool {
    let node = world.mounter.node();
    matches!(node.found.get(&place("tool")), Some(OnDisk::Emptied(_)))
}

/// The process of the next day. The volume is as the last one left it.
async fn a_day_later(meanwhile: Meanwhile) -> World {
    let world = delivered().await;
    sleep(DAY).await;
    let next = world.restarted();
    next.switch.send_replace(ON);
    meanwhile.happens(&next);
    next
}

#[tokio::test(start_paused = true)]
async fn the_first_call_after_a_day_empties_a_volume_without_access_and_renews_any_other() {
    for meanwhile in ALL {
        let next = a_day_later(meanwhile).await;
        // The second call finds nothing to do.
        for _ in 0..2 {
            call(&next, meanwhile.request()).await.unwrap();
            let work = {
                let node = next.mounter.node();
                (node.emptied, node.compared, node.renewed)
            };
            if meanwhile.access_ends {
                assert!(is_emptied(&next), "{meanwhile:?}");
                // Nothing newer was made for a pod without access.
                assert_eq!(work, (1, 0, 0), "{meanwhile:?}");
                assert_eq!(calls(&next, "get"), 0, "{meanwhile:?}");
                assert_eq!(told(&next), [EventWord::AccessRevoked]);
            } else {
                has_content(&next, meanwhile);
                let renewed = usize::from(meanwhile.all_changes);
                assert_eq!(work, (0, 1, renewed), "{meanwhile:?}");
                assert_eq!(told(&next), []);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn access_that_returns_after_a_day_brings_the_content_of_its_time() {
    for meanwhile in ALL.into_iter().filter(|it| it.access_ends) {
        let next = a_day_later(meanwhile).await;
        call(&next, meanwhile.request()).await.unwrap();
        assert!(is_emptied(&next));
        returns(&next);
        call(&next, meanwhile.request()).await.unwrap();
        has_content(&next, meanwhile);
        let node = next.mounter.node();
        assert_eq!((node.refilled, node.renewed), (1, 0), "{meanwhile:?}");
    }
}

/// A process that has just started may hear nothing yet. Until it does, a running pod keeps what it has.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_back_and_hears_nothing_leaves_the_volume_and_makes_it_right_when_it_hears()
 {
    type Change = fn(&World);
    let silent: [(&str, Change); 3] = [
        ("configuration", |it| {
            it.switch.send_replace(None);
        }),
        ("evaluation service", |it| {
            it.evaluator.says("tools/harbor", None);
        }),
        ("API server", |it| it.kubernetes.cluster().reachable = false),
    ];
    for (what, is_silent) in silent {
        for meanwhile in ALL {
            let next = a_day_later(meanwhile).await;
            is_silent(&next);
            for _ in 0..2 {
                call(&next, meanwhile.request()).await.unwrap();
                has_content(&next, ALL[0]);
                assert_eq!(told(&next), [], "{what}");
            }
            next.switch.send_replace(ON);
            next.kubernetes.cluster().reachable = true;
            meanwhile.happens(&next);
            call(&next, meanwhile.request()).await.unwrap();
            if meanwhile.access_ends {
                assert!(is_emptied(&next), "{what} {meanwhile:?}");
            } else {
                has_content(&next, meanwhile);
            }
        }
    }
}

/// On a real file system, for a pod that had its files open all day.
#[tokio::test(start_paused = true)]
async fn after_the_first_call_of_the_next_day_a_pod_reads_what_is_right_and_nothing_else() {
    if !inside(
        "driver::tests::away::after_the_first_call_of_the_next_day_a_pod_reads_what_is_right_and_nothing_else",
    ) {
        return;
    }
    for meanwhile in ALL {
        let kubelet = tempfile::tempdir().unwrap();
        mount("kubelet", kubelet.path(), "tmpfs", MountFlags::empty(), c"").unwrap();
        let place = place_in(kubelet.path(), "tool");
        fs::create_dir_all(place.pods().join(place.parent())).unwrap();
        fs::write(
            place.pods().join(place.parent()).join("vol_data.json"),
            "{}",
        )
        .unwrap();
        let at_place = |mut request: NodePublishVolumeRequest| {
            request.volume_id = place.volume_id();
            request.target_path = place.target().display().to_string();
            request
        };
        let world = on(kubelet.path());
        ALL[0].happens(&world);
        let first = at_place(ALL[0].request());
        world.driver.publish(first, None).await.unwrap();
        assert_eq!(Shown::at(&place.target()), ALL[0].content());
        let mut open = fs::File::open(place.target().join("context.token")).unwrap();
        drop(world);
        sleep(DAY).await;

        let next = on(kubelet.path());
        meanwhile.happens(&next);
        next.driver.take_over();
        assert_eq!(Shown::at(&place.target()), ALL[0].content());
        let call = at_place(meanwhile.request());
        next.driver.publish(call, None).await.unwrap();
        let mut text = String::new();
        open.rewind().unwrap();
        open.read_to_string(&mut text).unwrap();
        if meanwhile.access_ends {
            assert_eq!(Shown::at(&place.target()), Shown::default());
            assert_eq!(text, "", "{meanwhile:?}");
        } else {
            assert_eq!(Shown::at(&place.target()), meanwhile.content());
            // The file of the previous set stays until the next one is written.
            assert_eq!(text, "t1", "{meanwhile:?}");
        }
        next.mounter.clear(&place).unwrap();
    }
}

/// A process of the driver that mounts.
fn on(kubelet: &Path) -> World<Linux> {
    World::with(Linux::new("connectors-csi"), kubelet, 512)
}
