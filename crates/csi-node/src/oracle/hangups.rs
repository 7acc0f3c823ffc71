//! Each kind of call, cut off at each point at which it waits for something: nothing that it took is kept, and the
//! next call works.

use std::time::Duration;

use connectors_api::{Permission, access_request::Phase, config::OnEnable, reason::Ready};
use tokio::time::{Instant, sleep, timeout};

use super::{
    disk::State,
    kubelet::{self, FOREVER, Volume},
    node::{Node, Outcome},
    server::token,
    truth::{Creation, PodFacts},
};
use crate::error::PublishError;

const ONE: Volume = Volume {
    name: "tool",
    list: "tools/harbor",
    permission: Permission::Apis,
    error_file: false,
};
pub(super) const TWO: Volume = Volume {
    name: "both",
    list: "tools/harbor,own",
    ..ONE
};
/// For the same connector, with an error for a pod that is refused for good.
const LOUD: Volume = Volume {
    name: "loud",
    error_file: true,
    ..ONE
};

/// What cuts a call off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    HangUp,
    Terminate,
    SwitchOff,
    StreamsBreak,
    RightsGo,
    NobodyAnswers,
}

const CUTS: [Cut; 6] = [
    Cut::HangUp,
    Cut::Terminate,
    Cut::SwitchOff,
    Cut::StreamsBreak,
    Cut::RightsGo,
    Cut::NobodyAnswers,
];

/// What is true when the call comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    Allowed,
    AllowedTwice,
    Waits,
    WaitsForTwo,
    Refused,
    Off,
    Kept,
    Emptied,
    Refilled,
    /// Mounted while off; what then becomes of it.
    WhileOff(OnEnable),
    /// The same, removed after it was told about.
    Removed,
    /// Refused, with an error in the volume, or with one that is there already.
    Loud,
    LoudAgain,
}

const CASES: [Case; 15] = [
    Case::Allowed,
    Case::AllowedTwice,
    Case::Waits,
    Case::WaitsForTwo,
    Case::Refused,
    Case::Off,
    Case::Kept,
    Case::Emptied,
    Case::Refilled,
    Case::WhileOff(OnEnable::Keep),
    Case::WhileOff(OnEnable::Request),
    Case::WhileOff(OnEnable::Empty),
    Case::Removed,
    Case::Loud,
    Case::LoudAgain,
];

pub(super) struct Scene {
    pub(super) node: Node,
    pod: PodFacts,
    volume: Volume,
}

impl Scene {
    pub(super) fn new(volume: Volume) -> Self {
        let node = Node::new(1);
        node.shared.log().glitch_rate = 0;
        let pod = PodFacts {
            namespace: "shop",
            name: "deploy-1",
            account: "builder",
            uid: "uid-1".to_owned(),
        };
        let entry = pod.clone();
        node.shared.change(|truth| {
            truth.pods.insert(entry.uid.clone(), entry);
        });
        Self { node, pod, volume }
    }

    pub(super) fn turn(&mut self, word: &str, way: OnEnable) {
        let data = [
            ("enable-connectors-approval", word),
            ("on-enable", way.as_str()),
        ];
        let data = data.map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.node.hears(Some(&data.into()));
    }

    pub(super) fn rights(&self, are_there: bool) {
        let volume = self.volume;
        self.node.shared.change(|truth| {
            for connector in volume.list.split(',') {
                let right = kubelet::right(&self.pod, connector, volume.permission);
                if are_there {
                    truth.standing.insert(right);
                } else {
                    truth.standing.remove(&right);
                }
            }
        });
    }

    pub(super) fn publish(&mut self) -> usize {
        let token = token(&self.pod.uid, "good", FOREVER);
        let (place, request, kind) = kubelet::publish(&self.pod, self.volume, token, None);
        self.node.publish(&place, request, kind)
    }

    fn unpublish(&mut self) -> usize {
        let place = kubelet::place(&self.pod, self.volume);
        self.node.unpublish(&place)
    }

    fn state(&self) -> State {
        self.node
            .disk()
            .state(&kubelet::place(&self.pod, self.volume))
    }

    async fn done(&self, call: usize) {
        while self.node.calls()[call].end.is_none() {
            sleep(Duration::from_millis(50)).await;
        }
    }

    pub(super) async fn published(&mut self) {
        let call = self.publish();
        self.done(call).await;
    }

    /// Everything before the call that is cut off, and that call.
    async fn prepare(&mut self, case: Case) -> usize {
        self.turn("true", OnEnable::Keep);
        match case {
            Case::Allowed | Case::AllowedTwice => self.rights(true),
            Case::Waits | Case::WaitsForTwo | Case::Refused => {}
            Case::Loud | Case::LoudAgain => {
                // Another volume of the pod was refused before.
                self.volume = ONE;
                self.request_becomes(Phase::Rejected).await;
                self.volume = LOUD;
                if case == Case::LoudAgain {
                    self.published().await;
                    assert_eq!(self.state(), State::Rejected);
                }
            }
            Case::Off => self.turn("false", OnEnable::Keep),
            Case::Kept | Case::Emptied | Case::Refilled => {
                self.rights(true);
                self.published().await;
                if case != Case::Kept {
                    self.rights(false);
                }
                if case == Case::Refilled {
                    self.published().await;
                    assert_eq!(self.state(), State::Empty);
                    self.rights(true);
                }
            }
            Case::WhileOff(way) => {
                self.turn("false", OnEnable::Keep);
                self.published().await;
                self.turn("true", way);
            }
            Case::Removed => {
                self.turn("false", OnEnable::Keep);
                self.published().await;
                self.turn("true", OnEnable::Keep);
                self.published().await;
                assert_eq!(self.node.process.held()[2], 1, "kept");
            }
        }
        if case == Case::Refused {
            self.request_becomes(Phase::Rejected).await;
        }
        if case == Case::Removed {
            self.unpublish()
        } else {
            self.publish()
        }
    }

    /// A first call makes the request, and is over.
    async fn request_becomes(&mut self, phase: Phase) {
        let call = self.publish();
        sleep(Duration::from_secs(5)).await;
        self.decide(phase);
        self.done(call).await;
    }

    fn decide(&self, phase: Phase) {
        self.node.shared.change(|truth| {
            for request in truth.requests.values_mut() {
                request.phase = Some(phase);
                request.reason = (phase == Phase::Rejected).then_some(Ready::CheckRejected);
            }
        });
    }

    pub(super) fn cut(&mut self, call: usize, cut: Cut) {
        match cut {
            Cut::HangUp => self.node.hang_up(call),
            Cut::Terminate => self.node.terminate(),
            Cut::SwitchOff => self.turn("false", OnEnable::Keep),
            Cut::StreamsBreak => self.node.shared.change(|truth| truth.breaks += 1),
            Cut::RightsGo => {
                self.rights(false);
                self.node
                    .shared
                    .change(|truth| truth.creation = Creation::Refused);
            }
            Cut::NobodyAnswers => self
                .node
                .shared
                .change(|truth| truth.evaluator_answers = false),
        }
    }
}

/// Runs one case and cuts it off at a point. False when it ended before.
async fn cut_at(case: Case, cut: Cut, point: usize) -> bool {
    let two = matches!(case, Case::AllowedTwice | Case::WaitsForTwo);
    let mut scene = Scene::new(if two { TWO } else { ONE });
    let call = scene.prepare(case).await;
    let context = format!("{case:?} {cut:?} at {point}");
    let mut points = scene.node.disk().points.subscribe();
    let from = *points.borrow();
    let began = Instant::now();
    // A wait gets what it waits for, after a while.
    let waits = matches!(case, Case::Waits | Case::WaitsForTwo);
    let reached = {
        let reached = points.wait_for(|now| *now >= from + point);
        let reached = timeout(Duration::from_secs(20), reached).await.is_ok();
        if !reached && waits {
            scene.decide(Phase::Granted);
            let reached = points.wait_for(|now| *now >= from + point);
            timeout(Duration::from_secs(20), reached).await.is_ok()
        } else {
            reached
        }
    };
    let was_over = scene.node.calls()[call].end.is_some();
    if reached && !was_over {
        scene.cut(call, cut);
    }
    sleep(Duration::from_secs(20)).await;
    scene.decide(Phase::Granted);
    sleep(Duration::from_secs(130)).await;
    settled(&scene, case, &context);
    if cut == Cut::HangUp && !was_over {
        assert!(began.elapsed() > Duration::from_secs(100), "{context}");
    }
    let was_rejected = scene.state() == State::Rejected;
    // Everything works again: the next call is not in anybody's way.
    if cut == Cut::Terminate {
        scene.node.restart();
    }
    scene.turn("true", OnEnable::Keep);
    scene.rights(true);
    scene.node.shared.change(|truth| {
        truth.evaluator_answers = true;
        truth.creation = Creation::Works;
    });
    let next = scene.publish();
    sleep(Duration::from_secs(10)).await;
    {
        let calls = scene.node.calls();
        let end = calls[next].end.as_ref();
        let is_ok = end.is_some_and(|end| matches!(end.outcome, Outcome::Published(Ok(()))));
        assert!(is_ok, "{context}: {end:?}");
    }
    let state = scene.state();
    let is_right = match state {
        State::Full { .. } => !was_rejected,
        State::Rejected => was_rejected,
        State::Absent | State::Partial | State::Empty => false,
    };
    assert!(is_right, "{context}: {state:?}");
    let last = scene.unpublish();
    scene.done(last).await;
    assert_eq!(scene.node.process.held(), [0; 7], "{context}");
    assert!(scene.node.disk().is_bare(), "{context}");
    let verdict = scene.node.judged();
    assert!(
        verdict.problems.is_empty(),
        "{context}: {:#?}",
        verdict.problems
    );
    reached && !was_over
}

/// What a call took is given back, whatever became of it.
fn settled(scene: &Scene, case: Case, context: &str) {
    let [locks, room, kept, asked, ..] = scene.node.process.held();
    let followers = scene.node.shared.followers();
    assert_eq!((locks, room, followers), (0, 0, 0), "{context}");
    assert!(
        scene.node.process.metric("connectors_mount_held") == 0.0,
        "{context}"
    );
    assert_ne!(scene.state(), State::Partial, "{context}");
    for call in scene.node.calls().iter() {
        let is_answered = call.end.is_some() || call.hung.is_some();
        assert!(is_answered, "{context}: {call:?}");
        let in_flight = call.end.as_ref().is_some_and(|end| {
            matches!(end.outcome, Outcome::Published(Err(PublishError::InFlight)))
        });
        assert!(!in_flight, "{context}");
    }
    if case == Case::Removed && scene.state() == State::Absent {
        // Its removal goes on when the kubelet hangs up, and so does what belongs to it.
        assert_eq!((kept, asked), (0, 0), "{context}");
    }
}

fn cut_everywhere(cut: Cut) {
    let mut cuts = 0;
    for case in CASES {
        for point in 0.. {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .max_blocking_threads(1)
                .start_paused(true)
                .build()
                .unwrap();
            let was_cut = runtime.block_on(cut_at(case, cut, point));
            runtime.shutdown_background();
            cuts += usize::from(was_cut);
            if !was_cut {
                break;
            }
        }
    }
    assert!(cuts > 100, "{cuts}");
}

#[test]
fn gives_everything_back_wherever_the_kubelet_hangs_up() {
    cut_everywhere(Cut::HangUp);
}

#[test]
fn gives_everything_back_wherever_something_else_cuts_a_call_off() {
    for cut in CUTS.into_iter().filter(|cut| *cut != Cut::HangUp) {
        cut_everywhere(cut);
    }
}
