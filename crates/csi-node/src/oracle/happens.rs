//! What may happen beside the kubelet's calls.

use connectors_api::{access_request::Phase, reason::Ready};

use super::{
    fate::{Due, Life, RequestKey, SLOTS},
    kubelet,
    truth::{Creation, Truth, Verb},
};
use crate::testing::{key, wish};

impl Life {
    pub(super) fn hang_up(&mut self) {
        let open = self.node.open();
        if open.is_empty() {
            return self.publish();
        }
        let number = self.dice.one_of(&open);
        self.node.hang_up(number);
        self.say(format!("the kubelet hangs up call {number}"));
    }

    pub(super) fn switch(&mut self) {
        let word = self
            .dice
            .one_of(&["true", "true", "true", "false", "false", "True", "on", ""]);
        let way = self
            .dice
            .one_of(&["Keep", "Keep", "Request", "Request", "Empty", "keep"]);
        match self.dice.below(10) {
            0 => {
                self.config = None;
                self.say("the ConfigMap is gone");
                self.node.hears(None);
            }
            1 => self.turn(&[("on-enable", way)]),
            2 => self.turn(&[("enable-connectors-approval", word)]),
            _ => self.turn(&[("enable-connectors-approval", word), ("on-enable", way)]),
        }
    }

    /// A right at any time comes, or goes.
    pub(super) fn right(&mut self, everybody_knows: bool) {
        let (pod, volume) = self.any_volume();
        let connectors: Vec<&str> = volume.list.split(',').collect();
        let connector = self.dice.one_of(&connectors);
        let right = kubelet::right(&pod, connector, volume.permission);
        let mut came = false;
        self.node.shared.change(|truth| {
            let rights = if everybody_knows {
                &mut truth.standing
            } else {
                &mut truth.elsewhere
            };
            came = !rights.remove(&right);
            if came {
                rights.insert(right.clone());
            }
        });
        let verb = if came { "comes" } else { "goes" };
        let of = if everybody_knows {
            ""
        } else {
            " of another authorizer"
        };
        self.say(format!("a right{of} {verb}: {right:?}"));
    }

    /// A controller, or a person, does something to a request.
    pub(super) fn decide(&mut self) {
        let truth = self.node.shared.truth();
        let keys: Vec<&RequestKey> = truth.requests.keys().collect();
        if keys.is_empty() {
            return self.publish();
        }
        let key = self.dice.one_of(&keys).clone();
        let (phase, reason) = match self.dice.below(20) {
            0..9 => (Phase::Granted, Some(Ready::Granted)),
            9 | 10 => (Phase::Rejected, Some(Ready::CheckRejected)),
            11 | 12 => (Phase::Revoked, Some(Ready::CheckLapsed)),
            13 | 14 => (Phase::Ended, Some(Ready::StandingPermission)),
            15 => (Phase::Revoked, Some(Ready::PodFinished)),
            16 => (Phase::Pending, Some(Ready::ChecksPending)),
            17 => (Phase::Invalid, None),
            _ => {
                self.say(format!("{key:?} is being deleted"));
                self.later(0, 20_000, Due::Goes(key.clone()));
                return self.node.shared.change(|truth| {
                    if let Some(request) = truth.requests.get_mut(&key) {
                        request.being_deleted = true;
                    }
                });
            }
        };
        if phase == Phase::Granted && self.dice.percent(30) {
            // Its end comes by time alone.
            let over = Due::Becomes(key.clone(), Phase::Revoked, Some(Ready::Expired));
            self.later(500, 20_000, over);
        }
        self.comes(Due::Becomes(key, phase, reason));
    }

    pub(super) fn services(&mut self) {
        let shared = self.node.shared.clone();
        match self.dice.below(10) {
            0 | 1 => {
                self.say("the evaluation service comes or goes");
                shared.change(|truth| truth.evaluator_answers = !truth.evaluator_answers);
            }
            2..4 => {
                self.say("streams break");
                shared.change(|truth| truth.breaks += 1);
            }
            4 | 8 | 9 => {
                let verb = self.dice.one_of(&Verb::ALL);
                self.say(format!("{verb:?} fails"));
                shared.change(|truth| {
                    truth.failing.insert(verb);
                });
            }
            5 => {
                self.say("every call to the API works");
                shared.change(|truth| truth.failing.clear());
            }
            6 => {
                self.say("reviews see no grants yet");
                shared.change(|truth| truth.reviews_see_grants = false);
                self.later(100, 8000, Due::Sees);
            }
            _ => {
                let all = [
                    Creation::Works,
                    Creation::NoNamespace,
                    Creation::QuotaFull,
                    Creation::Refused,
                ];
                let (creation, accepts) = (self.dice.one_of(&all), self.dice.percent(60));
                self.say(format!(
                    "creation: {creation:?}, a policy accepts: {accepts}"
                ));
                shared
                    .change(|truth| (truth.creation, truth.a_policy_accepts) = (creation, accepts));
            }
        }
    }

    pub(super) fn connector(&mut self) {
        let name = self.dice.one_of(&super::CONNECTORS);
        let (way, number) = (self.dice.below(4), self.dice.below(100));
        self.say(format!("connector {name} changes: {way}"));
        self.node.shared.change(|truth| {
            let fresh = Truth::new().connectors[name].clone();
            let entry = truth.connectors.entry(name.to_owned()).or_insert(fresh);
            entry.being_deleted = way == 0;
            match way {
                1 => entry.address = None,
                _ => entry.address = Some(format!("https://{name}/{number}")),
            }
            if way == 2 {
                truth.connectors.remove(name);
            }
            truth.class_address = (number % 2 == 0).then(|| "https://default".to_owned());
        });
    }

    pub(super) fn replace(&mut self) {
        let slot = self.dice.below(SLOTS.len());
        let old = self.pods[slot].clone();
        let new = self.new_pod(slot);
        self.say(format!("pod {old:?} is gone, its name has {}", new.uid));
        let truth = self.node.shared.truth();
        for (key, request) in &truth.requests {
            // Until a controller sees it, the old grant is there under the new pod's name.
            if request.pod_uid == old.uid {
                self.later(
                    0,
                    5000,
                    Due::Becomes(key.clone(), Phase::Revoked, Some(Ready::PodGone)),
                );
            }
        }
        self.node.shared.change(|truth| {
            truth.pods.remove(&old.uid);
        });
        self.pods[slot] = new;
        self.retired.push(old);
    }

    pub(super) fn disk_or_process(&mut self) {
        let steps = self.dice.below(14);
        match self.dice.below(6) {
            0 | 1 => {
                self.say(format!("the process dies in {steps} steps of the mounter"));
                self.node.disk().dies_in = Some(steps);
            }
            2 | 3 => {
                self.say(format!("a step fails in {steps} steps of the mounter"));
                self.node.disk().fails_in = Some(steps);
            }
            4 => self.restart("is killed"),
            _ => {
                self.say("the process is told to end");
                self.node.terminate();
                self.later(100, 3000, Due::Restarts);
            }
        }
    }

    /// A person makes a request for a pod, or one under the name that the driver's would have.
    pub(super) fn meddle(&mut self) {
        let pod = self.any_pod();
        let connector = self.dice.one_of(&["tools/harbor", "tools/harbor-2"]);
        let mut wish = wish(&[connector]);
        wish.pod.namespace = pod.namespace.to_owned();
        wish.pod.name = pod.name.to_owned();
        wish.pod.uid.clone_from(&pod.uid);
        let mut object = wish.request(&key(connector));
        let squats = self.dice.percent(50);
        let name = if squats {
            object.spec.subject.name = "builder-2".to_owned();
            object.metadata.name.clone().unwrap()
        } else {
            format!("by-hand-{}", self.dice.below(1000))
        };
        self.say(format!("a request of a person, {name}, squats: {squats}"));
        let taken = self
            .node
            .shared
            .truth()
            .requests
            .contains_key(&("tools".to_owned(), name.clone()));
        if !taken {
            self.node.shared.add_request(&name, object, squats);
        }
    }
}
