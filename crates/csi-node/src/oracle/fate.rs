//! What happens in one life: all of it from a seed.

use std::{collections::BTreeMap, time::Duration};

use connectors_api::{Permission, access_request::Phase, reason::Ready};
use tokio::time::{Instant, sleep_until};

use super::{
    kubelet::{self, FOREVER, Volume},
    node::{HOLD, Node, ROOM},
    server::token,
    truth::{Creation, PodFacts},
};
use crate::{testing::dice::Dice, volume::VolumePath};

/// Names that begin like each other, or are the same elsewhere.
pub(super) const SLOTS: [(&str, &str); 3] = [
    ("shop", "deploy-1"),
    ("shop", "deploy-10"),
    ("shop-2", "deploy-1"),
];
const ACCOUNT: &str = "builder";
const fn volume(
    name: &'static str,
    list: &'static str,
    permission: Permission,
    error_file: bool,
) -> Volume {
    Volume {
        name,
        list,
        permission,
        error_file,
    }
}

const VOLUMES: [Volume; 4] = [
    volume("tool", "tools/harbor", Permission::Apis, false),
    volume("tool-1", "tools/harbor-2,own", Permission::Apis, false),
    volume(
        "both",
        "tools/harbor,tools-2/harbor",
        Permission::Proxy,
        true,
    ),
    volume("tool-10", "tools/harbor-2", Permission::Apis, true),
];
const STEPS: usize = 60;

pub(super) type RequestKey = (String, String);

/// What comes by time alone.
#[derive(Clone, Debug)]
pub(super) enum Due {
    Hears,
    Restarts,
    Sees,
    Becomes(RequestKey, Phase, Option<Ready>),
    Goes(RequestKey),
}

pub(super) struct Life {
    pub(super) node: Node,
    /// What happened, for people.
    pub(super) steps: Vec<String>,
    pub(super) dice: Dice,
    began: Instant,
    pub(super) pods: Vec<PodFacts>,
    pub(super) retired: Vec<PodFacts>,
    /// Every place that was ever used.
    places: Vec<VolumePath>,
    pub(super) config: Option<BTreeMap<String, String>>,
    due: Vec<(Instant, Due)>,
    uids: usize,
    /// The volume that most happens to for some steps.
    focus: Option<(PodFacts, Volume)>,
}

impl Life {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            node: Node::new(seed),
            steps: Vec::new(),
            dice: Dice::new(seed),
            began: Instant::now(),
            pods: Vec::new(),
            retired: Vec::new(),
            places: Vec::new(),
            config: None,
            due: Vec::new(),
            uids: 0,
            focus: None,
        }
    }

    pub(super) fn say(&mut self, what: impl Into<String>) {
        let at = self.began.elapsed().as_millis();
        self.steps.push(format!("{at:>8} {}", what.into()));
    }

    pub(super) async fn live(&mut self) {
        for slot in 0..SLOTS.len() {
            let pod = self.new_pod(slot);
            self.pods.push(pod);
        }
        let word = if self.dice.percent(80) {
            "true"
        } else {
            "false"
        };
        self.turn(&[("enable-connectors-approval", word)]);
        for _ in 0..STEPS {
            self.step();
            let wait = match self.dice.below(20) {
                0..10 => self.dice.millis(0, 1500),
                10..16 => self.dice.millis(2000, 10_000),
                16..19 => self.dice.millis(10_000, 60_000),
                _ => self.dice.millis(60_000, 200_000),
            };
            self.advance(wait).await;
        }
        self.end().await;
    }

    pub(super) fn new_pod(&mut self, slot: usize) -> PodFacts {
        self.uids += 1;
        let (namespace, name) = SLOTS[slot];
        let pod = PodFacts {
            namespace,
            name,
            account: ACCOUNT,
            // 1, 10, 11, 100: most begin like another one.
            uid: format!("uid-{:b}", self.uids),
        };
        let entry = pod.clone();
        self.node.shared.change(|truth| {
            truth.pods.insert(entry.uid.clone(), entry);
        });
        pod
    }

    async fn advance(&mut self, wait: Duration) {
        let until = Instant::now() + wait;
        loop {
            let due = self.due.iter().map(|(at, _)| *at).min();
            let chunk = Instant::now() + Duration::from_millis(500);
            let next = due.map_or(chunk, |due| due.min(chunk)).min(until);
            sleep_until(next).await;
            let now = Instant::now();
            let (ready, later) = self.due.drain(..).partition(|(at, _)| *at <= now);
            self.due = later;
            for (_, due) in ready {
                self.comes(due);
            }
            if self.node.disk().process != self.node.process.number {
                self.restart("died");
            }
            let held = self.node.process.metric("connectors_mount_held");
            if held > f64::from(u32::try_from(ROOM.node).unwrap()) {
                self.node.problems.push(format!("{held} calls are held"));
            }
            if now >= until {
                return;
            }
        }
    }

    pub(super) fn comes(&mut self, due: Due) {
        self.say(format!("{due:?}"));
        let shared = self.node.shared.clone();
        match due {
            Due::Hears => self.node.hears(self.config.clone().as_ref()),
            Due::Restarts => self.restart("restarts"),
            Due::Sees => shared.change(|truth| truth.reviews_see_grants = true),
            Due::Becomes(key, phase, reason) => shared.change(|truth| {
                if let Some(request) = truth.requests.get_mut(&key) {
                    (request.phase, request.reason) = (Some(phase), reason);
                }
            }),
            Due::Goes(key) => shared.change(|truth| {
                truth.requests.remove(&key);
            }),
        }
    }

    pub(super) fn later(&mut self, from: usize, to: usize, due: Due) {
        let at = Instant::now() + self.dice.millis(from, to);
        self.due.push((at, due));
    }

    pub(super) fn restart(&mut self, why: &str) {
        self.say(format!("the process {why}"));
        self.node.restart();
        if self.dice.percent(60) {
            self.node.hears(self.config.clone().as_ref());
        } else {
            self.later(0, 8000, Due::Hears);
        }
    }

    pub(super) fn turn(&mut self, data: &[(&str, &str)]) {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        self.config = Some(data.iter().map(owned).collect());
        self.say(format!("the ConfigMap says {data:?}"));
        self.node.hears(self.config.clone().as_ref());
    }

    fn step(&mut self) {
        match self.dice.below(100) {
            0..43 => self.publish(),
            43..46 => self.unpublish(),
            46..50 => self.hang_up(),
            50..55 => self.switch(),
            55..67 => self.right(true),
            67..70 => self.right(false),
            70..83 => self.decide(),
            83..90 => self.services(),
            90..92 => self.connector(),
            92..94 => self.replace(),
            94..98 => self.disk_or_process(),
            _ => self.meddle(),
        }
    }

    pub(super) fn any_pod(&mut self) -> PodFacts {
        if !self.retired.is_empty() && self.dice.percent(12) {
            return self.retired[self.dice.below(self.retired.len())].clone();
        }
        self.pods[self.dice.below(self.pods.len())].clone()
    }

    /// Mostly the same for a while, so that what happens to it comes together.
    pub(super) fn any_volume(&mut self) -> (PodFacts, Volume) {
        if let Some(focus) = self.focus.clone().filter(|_| self.dice.percent(65)) {
            return focus;
        }
        let other = (self.any_pod(), self.dice.one_of(&VOLUMES));
        if self.focus.is_none() || self.dice.percent(30) {
            self.focus = Some(other.clone());
        }
        other
    }

    pub(super) fn publish(&mut self) {
        let (pod, volume) = self.any_volume();
        let kind = match self.dice.below(16) {
            0 => self.dice.one_of(&["bad", "audience", "node"]),
            _ => "good",
        };
        let bearer = if self.dice.percent(4) {
            self.any_pod()
        } else {
            pod.clone()
        };
        let until = match self.dice.below(20) {
            0 => self.began.elapsed() + self.dice.millis(0, 300),
            _ => FOREVER,
        };
        let token = token(&bearer.uid, kind, until);
        let limit = match self.dice.below(10) {
            0 => None,
            1 => Some(Duration::from_secs(30)),
            _ => Some(Duration::from_mins(2)),
        };
        self.call(&pod, volume, &token, limit);
    }

    /// A call of the kubelet, which is told the truth about the pod but for a few cases.
    fn call(&mut self, pod: &PodFacts, volume: Volume, token: &str, limit: Option<Duration>) {
        let mut claimed = pod.clone();
        match self.dice.below(40) {
            0 => claimed.name = "deploy-100",
            1 => claimed.account = "builder-2",
            2 => claimed.namespace = "sho",
            _ => {}
        }
        let who = format!(
            "{}/{} as {}",
            claimed.namespace, claimed.name, claimed.account
        );
        let (place, request, kind) = kubelet::publish(&claimed, volume, token.to_owned(), limit);
        if !self.places.contains(&place) {
            self.places.push(place.clone());
        }
        let number = self.node.publish(&place, request, kind);
        let at = super::judge::short(&place);
        self.say(format!(
            "call {number}: publish {at} for {who} with {token}"
        ));
    }

    fn unpublish(&mut self) {
        let (pod, volume) = self.any_volume();
        let place = kubelet::place(&pod, volume);
        let number = self.node.unpublish(&place);
        self.say(format!(
            "call {number}: unpublish {}",
            super::judge::short(&place)
        ));
    }

    /// Everything works again. Nothing is held by then, and each volume becomes what it has to be.
    async fn end(&mut self) {
        self.say("everything works");
        self.node.shared.log().glitch_rate = 0;
        {
            let mut disk = self.node.disk();
            (disk.fails_in, disk.dies_in) = (None, None);
        }
        self.advance(Duration::from_secs(1)).await;
        // One that was told to end takes no calls.
        self.restart("restarts");
        self.node.shared.change(|truth| {
            let fresh = super::truth::Truth::new();
            truth.connectors = fresh.connectors;
            truth.failing.clear();
            truth.evaluator_answers = true;
            truth.reviews_see_grants = true;
            truth.creation = Creation::Works;
        });
        if self.dice.percent(70) {
            self.turn(&[("enable-connectors-approval", "true")]);
        }
        self.quiet("after the storm").await;
        for pod in self.pods.clone() {
            for volume in VOLUMES {
                let token = token(&pod.uid, "good", FOREVER);
                self.call(&pod, volume, &token, None);
                self.advance(Duration::from_secs(1)).await;
            }
        }
        self.quiet("after the last calls").await;
        for place in self.places.clone() {
            self.node.unpublish(&place);
        }
        self.advance(Duration::from_secs(5)).await;
        let (held, bare) = (self.node.process.held(), self.node.disk().is_bare());
        if held != [0; 7] || !bare {
            let problem = format!("after the removal of all: {held:?}, disk bare: {bare}");
            self.node.problems.push(problem);
        }
    }

    /// No call lasts longer than the longest wait, and none leaves a lock, room or a follower.
    async fn quiet(&mut self, when: &str) {
        self.advance(HOLD + Duration::from_secs(15)).await;
        let [locks, room, ..] = self.node.process.held();
        let (open, followers) = (self.node.open(), self.node.shared.followers());
        let gauge = self.node.process.metric("connectors_mount_held");
        if (locks, room, followers) != (0, 0, 0) || !open.is_empty() || gauge != 0.0 {
            let problem = format!(
                "{when}: {locks} locks, {room} of the room, {followers} followers, {gauge} held, open calls {open:?}"
            );
            self.node.problems.push(problem);
        }
    }
}
