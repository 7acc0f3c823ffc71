//! Volumes of pods that run when the switch is turned.

use connectors_api::config::{Config, OnEnable};
use evaluation_api::access::AccessAnswer;
use proptest::prelude::*;

use super::*;
use crate::testing::on;

/// A volume that was mounted while nothing was gated, since then gated in this way.
async fn switched_on(on_enable: OnEnable) -> World {
    let world = World::new();
    world.switch.send_replace(OFF);
    publish(&world).await.unwrap();
    world.switch.send_replace(on(on_enable));
    world.kubernetes.cluster().calls.clear();
    world
}

fn kept(world: &World) -> i64 {
    world.driver.metrics.kept.clone().get()
}

/// The kubelet's repeated calls leave the content, and the pod is told once.
async fn keeps_its_content(world: &World) {
    for _ in 0..3 {
        publish(world).await.unwrap();
        assert!(mounted(world));
        assert_eq!(
            (told(world), kept(world)),
            (vec![EventWord::MountedWhileOff], 1)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_keeps_its_volume_and_is_told_once() {
    let world = switched_on(OnEnable::Keep).await;
    keeps_its_content(&world).await;
    assert_eq!(calls(&world, "create"), 0);
    world.driver.unpublish(&unpublish_request()).await.unwrap();
    assert_eq!(kept(&world), 0);
    // The next volume of that name is gated.
    assert_eq!(code(&publish(&world).await), Code::PermissionDenied);
}

#[tokio::test(start_paused = true)]
async fn the_hard_way_empties_it_and_says_why() {
    let world = switched_on(OnEnable::Empty).await;
    for _ in 0..2 {
        publish(&world).await.unwrap();
        assert!(!mounted(&world));
    }
    assert_eq!(
        (told(&world), kept(&world)),
        (vec![EventWord::AccessRevoked], 0)
    );
    let note = world.kubernetes.cluster().told[0].1.clone();
    assert!(note.contains("mounted while approvals were off"), "{note}");
}

#[tokio::test(start_paused = true)]
async fn access_is_asked_for_and_content_kept_while_the_request_waits() {
    let world = switched_on(OnEnable::Request).await;
    publish(&world).await.unwrap();
    assert_eq!(
        world.kubernetes.cluster().requests,
        [wish(&["tools/harbor"]).request(&key("tools/harbor"))]
    );
    let waits = denied(Phase::Pending, Ready::NoAccessPolicy);
    world.evaluator.says("tools/harbor", Some(waits));
    keeps_its_content(&world).await;
    assert_eq!(calls(&world, "create"), 1);
    world.evaluator.says("tools/harbor", Some(granted()));
    publish(&world).await.unwrap();
    assert!(mounted(&world));
    assert_eq!(kept(&world), 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_ends_without_a_grant_empties_the_volume() {
    for phase in [Phase::Rejected, Phase::Revoked, Phase::Invalid] {
        let world = switched_on(OnEnable::Request).await;
        publish(&world).await.unwrap();
        // The end of `pendingTimeout` is a rejection.
        let over = denied(phase, Ready::CheckRejected);
        world.evaluator.says("tools/harbor", Some(over));
        publish(&world).await.unwrap();
        assert!(!mounted(&world), "{phase}");
        assert_eq!(kept(&world), 0);
        // Nobody brings it back but access, or the switch; and then it is gated like any other.
        world.switch.send_replace(OFF);
        publish(&world).await.unwrap();
        assert!(mounted(&world));
        world.switch.send_replace(ON);
        publish(&world).await.unwrap();
        assert!(!mounted(&world), "{phase}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_makes_way_keeps_the_content_and_access_is_asked_for_anew() {
    let world = switched_on(OnEnable::Request).await;
    let ended = denied(Phase::Ended, Ready::StandingPermission);
    world.evaluator.says("tools/harbor", Some(ended));
    publish(&world).await.unwrap();
    assert!(mounted(&world));
    assert_eq!(calls(&world, "create"), 0);
    world.evaluator.says("tools/harbor", Some(no_request()));
    publish(&world).await.unwrap();
    assert!(mounted(&world));
    assert_eq!(calls(&world, "create"), 1);
}

#[tokio::test(start_paused = true)]
async fn access_that_cannot_be_asked_for_empties_the_volume_and_no_answer_does_not() {
    let world = switched_on(OnEnable::Request).await;
    world.kubernetes.cluster().reachable = false;
    publish(&world).await.unwrap();
    assert!(mounted(&world) && told(&world).is_empty());
    world.kubernetes.cluster().reachable = true;
    world.kubernetes.cluster().created = Created::Refused;
    publish(&world).await.unwrap();
    assert!(!mounted(&world));
}

#[tokio::test(start_paused = true)]
async fn where_nothing_can_be_asked_for_the_content_stays_until_it_can() {
    for created in [Created::QuotaFull, Created::NoNamespace, Created::Made] {
        let world = switched_on(OnEnable::Request).await;
        world.kubernetes.cluster().created = created;
        if created == Created::Made {
            let no = no_request_and(Requestable::No);
            world.evaluator.says("tools/harbor", Some(no));
        }
        for _ in 0..2 {
            publish(&world).await.unwrap();
            assert!(mounted(&world), "{created:?}");
        }
        assert_eq!(
            told(&world),
            [EventWord::AccessPending, EventWord::MountedWhileOff]
        );
        assert!(world.kubernetes.cluster().requests.is_empty());
        world.kubernetes.cluster().created = Created::Made;
        world.evaluator.says("tools/harbor", Some(no_request()));
        publish(&world).await.unwrap();
        assert_eq!(world.kubernetes.cluster().requests.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn all_connectors_are_asked_for_and_one_rejection_empties_the_volume() {
    let world = World::new();
    world.switch.send_replace(OFF);
    let both = || request_for("tools/harbor,tools/git");
    call(&world, both()).await.unwrap();
    world.switch.send_replace(on(OnEnable::Request));
    call(&world, both()).await.unwrap();
    assert_eq!(world.kubernetes.cluster().requests.len(), 2);
    world.evaluator.says("tools/harbor", Some(granted()));
    world.evaluator.says(
        "tools/git",
        Some(denied(Phase::Rejected, Ready::CheckRejected)),
    );
    call(&world, both()).await.unwrap();
    assert!(!mounted(&world));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_mind_reaches_volumes_that_were_kept() {
    let world = switched_on(OnEnable::Keep).await;
    publish(&world).await.unwrap();
    world.switch.send_replace(on(OnEnable::Request));
    publish(&world).await.unwrap();
    assert_eq!(told(&world), [EventWord::MountedWhileOff; 2]);
    world.switch.send_replace(on(OnEnable::Empty));
    publish(&world).await.unwrap();
    assert!(!mounted(&world));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_does_not_say_how_it_was_mounted_is_gated() {
    let world = switched_on(OnEnable::Keep).await;
    world.mounter.node().passage_fails = true;
    publish(&world).await.unwrap();
    assert!(!mounted(&world));
}

/// What may happen to one volume.
#[derive(Clone, Debug)]
enum Event {
    Switch(Option<Config>),
    Access(Access),
    /// The kubelet's call, first or repeated.
    Publish,
    Unpublish,
    /// The driver's process ends, and the next one learns the same switch.
    Restart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Granted,
    None,
    Waits,
    /// Its request ended by a standing permission, which is gone again.
    MakesWay,
    Rejected,
    NoAnswer,
}

impl Access {
    fn answer(self) -> Option<AccessAnswer> {
        match self {
            Self::Granted => Some(granted()),
            Self::None => Some(no_request()),
            Self::Waits => Some(denied(Phase::Pending, Ready::ChecksPending)),
            Self::MakesWay => Some(denied(Phase::Ended, Ready::StandingPermission)),
            Self::Rejected => Some(denied(Phase::Rejected, Ready::CheckRejected)),
            Self::NoAnswer => None,
        }
    }
}

/// What a volume must be, said without the driver's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Volume {
    Absent,
    /// `free`: it was mounted while nothing was gated, and has had its content ever since.
    Full {
        free: bool,
    },
    Empty,
}

fn after_a_call(before: Volume, switch: Config, access: Access) -> Volume {
    let denied = match access {
        Access::None | Access::Waits | Access::MakesWay | Access::Rejected => true,
        Access::Granted | Access::NoAnswer => false,
    };
    let keeps = match switch.on_enable {
        OnEnable::Keep => true,
        OnEnable::Request => access != Access::Rejected,
        OnEnable::Empty => false,
    };
    match before {
        Volume::Absent if !switch.enabled => Volume::Full { free: true },
        Volume::Absent if access == Access::Granted => Volume::Full { free: false },
        Volume::Absent => Volume::Absent,
        Volume::Full { free } if !switch.enabled || !denied || (free && keeps) => {
            Volume::Full { free }
        }
        Volume::Empty if !switch.enabled || access == Access::Granted => {
            Volume::Full { free: false }
        }
        Volume::Full { .. } | Volume::Empty => Volume::Empty,
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    let switch = prop::sample::select(vec![
        OFF,
        OFF,
        on(OnEnable::Keep),
        on(OnEnable::Keep),
        on(OnEnable::Request),
        on(OnEnable::Empty),
    ]);
    let access = prop::sample::select(vec![
        Access::Granted,
        Access::None,
        Access::Waits,
        Access::MakesWay,
        Access::Rejected,
        Access::NoAnswer,
    ]);
    prop_oneof![
        3 => switch.prop_map(Event::Switch),
        3 => access.prop_map(Event::Access),
        6 => Just(Event::Publish),
        1 => Just(Event::Unpublish),
        1 => Just(Event::Restart),
    ]
}

async fn live(events: Vec<Event>) {
    let mut world = World::new();
    let (mut switch, mut access, mut volume) = (Config::CLOSED, Access::None, Volume::Absent);
    world.switch.send_replace(Some(switch));
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Switch(config) => {
                switch = config.unwrap();
                world.switch.send_replace(*config);
            }
            Event::Access(now) => access = *now,
            Event::Publish => {
                volume = after_a_call(volume, switch, access);
                let _ = publish(&world).await;
            }
            Event::Unpublish => {
                volume = Volume::Absent;
                world.driver.unpublish(&unpublish_request()).await.unwrap();
            }
            Event::Restart => {
                world = world.restarted();
                // Before it knows the switch it changes nothing.
                if volume != Volume::Absent {
                    publish(&world).await.unwrap();
                }
                world.switch.send_replace(Some(switch));
            }
        }
        world.evaluator.says("tools/harbor", access.answer());
        let node = world.mounter.node();
        let found = match node.found.get(&place("tool")) {
            None | Some(OnDisk::Nothing | OnDisk::Partial) => Volume::Absent,
            Some(OnDisk::Published(_)) => Volume::Full {
                free: node.while_off.contains(&place("tool")),
            },
            Some(OnDisk::Emptied(_)) => Volume::Empty,
            Some(OnDisk::Rejected(_)) => unreachable!("the pod did not ask for it"),
        };
        assert_eq!(found, volume, "after {at}: {event:?} of {events:?}");
    }
}

proptest! {
    /// Nothing that happens to the switch and to the driver gives a volume more than it may have, or
    /// takes away what it may keep.
    #[test]
    fn a_volume_is_what_its_history_makes_it(events in prop::collection::vec(any_event(), 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(live(events));
    }
}
