//! Histories that chance brings about too rarely, judged like all others.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use super::api::{ListFault, ListPlan, ReviewPlan, WatchFault};
use super::begins;
use super::callers::Right;
use super::cluster::Kind;
use super::history::{Asks, History, Step};
use super::objects::Maker;
use super::play::play;
use super::reference::Question;
use super::stage::Tally;

const NOW: Duration = Duration::ZERO;

struct Scene {
    maker: Maker,
    history: History,
}

fn question(pod: &str, uid: &str) -> Question {
    let text = |it: &str| it.to_owned();
    Question {
        subject: (text("dev"), text("builder")),
        connector: (text("tools"), text("harbor")),
        permission: text("apis"),
        verb: text("*"),
        pod: Some((text(pod), text(uid))),
    }
}

impl Scene {
    /// The switch is on, everything is there to be asked about, and one caller may.
    fn new(questions: Vec<Question>) -> Self {
        let mut maker = Maker::new(StdRng::seed_from_u64(0));
        maker.is_plain = true;
        let steps = Vec::new();
        let history = History { questions, steps };
        let mut scene = Self { maker, history };
        let mut config = scene.maker.config();
        config["data"]["enable-connectors-approval"] = "true".into();
        scene.write(NOW, Kind::Config, config);
        scene.allow(true);
        scene
    }

    fn then(&mut self, pause: Duration, step: Step) {
        self.history.steps.push((pause, step));
    }

    fn allow(&mut self, is_allowed: bool) {
        for is_everything in [true, false] {
            let right = Right {
                identity: 0,
                namespace: "tools".to_owned(),
                is_everything,
            };
            self.then(NOW, Step::Right(right, is_allowed));
        }
    }

    fn write(&mut self, pause: Duration, kind: Kind, object: Value) {
        let text = |field: &str| {
            let text = object["metadata"][field].as_str();
            text.unwrap_or_default().to_owned()
        };
        let key = (text("namespace"), text("name"));
        self.then(pause, Step::Write(kind, key, Some(object), true));
    }

    /// A request, and what is written for it.
    fn grant(&mut self, name: &str, asked: &Question, change: impl FnOnce(&mut Value)) {
        let mut request = self.maker.request(name, asked, "Granted", begins());
        request["status"] = json!({
            "phase": "Granted",
            "policies": [{"policy": {"metadata": {"uid": "p-1"}}, "grant": {"state": "Granted"}}],
        });
        change(&mut request);
        let labels = self
            .maker
            .labels(request["metadata"]["uid"].as_str().unwrap());
        let role = json!({
            "metadata": self.maker.metadata("tools", name, &labels), "rules": self.maker.rules(asked, true),
        });
        let binding = json!({
            "metadata": self.maker.metadata("tools", name, &labels),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": self.maker.subjects(asked),
        });
        self.write(NOW, Kind::Request, request);
        self.write(NOW, Kind::Role, role);
        self.write(NOW, Kind::RoleBinding, binding);
    }

    fn watch(&mut self, pause: Duration) {
        self.then(pause, Step::Open(0, 0));
        for question in 0..self.history.questions.len() {
            self.then(NOW, Step::Subscribe(0, question));
        }
    }

    fn check(&mut self, pause: Duration, question: usize) {
        let asks = Asks {
            token: 0,
            questions: vec![question],
            patience: None,
        };
        self.then(pause, Step::Check(asks));
    }

    fn play(&self) -> Tally {
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        let (wrong, tally) = runtime.block_on(play(&self.history, begins()));
        assert!(wrong.is_empty(), "{}\n{tally:?}", wrong.join("\n"));
        tally
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn in_a_minute() -> Value {
    (begins() + seconds(60)).to_string().into()
}

#[test]
fn a_stream_takes_back_what_ends_by_time_alone_though_nobody_writes_anything() {
    type Change = fn(&mut Value);
    let ends: [Change; 2] = [
        |it| it["status"]["expiresAt"] = in_a_minute(),
        |it| it["status"]["policies"][0]["grant"]["expiresAt"] = in_a_minute(),
    ];
    for end in ends {
        let asked = question("deploy", "u-1");
        let mut scene = Scene::new(vec![asked.clone(), question("deploy-1", "u-11")]);
        scene.grant("g0", &asked, end);
        scene.watch(seconds(1));
        for _ in 0..10 {
            scene.check(seconds(10), 0);
        }
        let tally = scene.play();
        assert!(
            tally["stream AllowedPod"] >= 1 && tally["news on a stream"] >= 1,
            "{tally:?}"
        );
    }
}

#[test]
fn what_a_list_that_broke_off_had_shown_is_forgotten() {
    let kinds = [Kind::Request, Kind::Role, Kind::RoleBinding];
    for kind in kinds {
        let asked: Vec<_> = (0..7)
            .map(|it| question("deploy", &format!("u-{it}")))
            .collect();
        for gone in [0, 2, 3, 6] {
            let mut scene = Scene::new(asked.clone());
            for (number, asked) in asked.iter().enumerate() {
                scene.grant(&format!("g{number}"), asked, |_| ());
            }
            scene.watch(seconds(1));
            let page = if gone < 3 { 1 } else { 2 };
            let plan = ListPlan {
                wait: seconds(1),
                fault: Some((page, ListFault::Fails)),
            };
            scene.then(seconds(1), Step::List(kind, plan));
            scene.then(NOW, Step::Disturb(kind, WatchFault::Gone));
            let key = ("tools".to_owned(), format!("g{gone}"));
            // The list has begun by then, and the next one has not.
            let pause = Duration::from_millis(1500);
            scene.then(pause, Step::Write(kind, key, None, true));
            for number in 0..7 {
                scene.check(seconds(4), number);
            }
            let tally = scene.play();
            assert!(tally["check AllowedPod"] >= 6, "{tally:?}");
        }
    }
}

#[test]
fn nobody_is_told_anything_whose_right_cannot_be_reviewed_any_more() {
    let asked = question("deploy", "u-1");
    let mut scene = Scene::new(vec![asked.clone(), question("deploy-1", "u-11")]);
    scene.grant("g0", &asked, |_| ());
    scene.watch(seconds(1));
    scene.check(seconds(10), 0);
    scene.allow(false);
    let plan = ReviewPlan {
        wait: NOW,
        fails: true,
    };
    scene.then(NOW, Step::Reviews(plan));
    for _ in 0..20 {
        scene.check(seconds(10), 0);
    }
    let tally = scene.play();
    assert!(tally["Some(ApiServerUnavailable)"] > 1, "{tally:?}");
}

#[test]
fn a_stream_refuses_what_its_caller_may_not_ask_any_more_however_often_it_was_told() {
    let asked = question("deploy", "u-1");
    let mut scene = Scene::new(vec![asked.clone(), question("deploy-1", "u-11")]);
    scene.grant("g0", &asked, |_| ());
    scene.watch(seconds(1));
    scene.check(seconds(10), 0);
    scene.allow(false);
    for _ in 0..20 {
        scene.check(seconds(5), 0);
    }
    let tally = scene.play();
    assert_eq!(tally["refusal on a stream"], 2, "{tally:?}");
}

/// After a bookmark the connection is lost without a word, and with it that something went.
#[test]
fn what_went_in_silence_is_found_by_the_next_list_and_told() {
    for kind in [Kind::Role, Kind::RoleBinding, Kind::Request] {
        let asked = question("deploy", "u-1");
        let mut scene = Scene::new(vec![asked.clone(), question("deploy-1", "u-11")]);
        scene.grant("g0", &asked, |_| ());
        scene.watch(seconds(1));
        scene.check(seconds(60), 0);
        scene.then(seconds(2), Step::Disturb(kind, WatchFault::Silence));
        let key = ("tools".to_owned(), "g0".to_owned());
        scene.then(seconds(1), Step::Write(kind, key, None, true));
        for _ in 0..9 {
            scene.check(seconds(10), 0);
        }
        let tally = scene.play();
        let said = |what: &str| tally.get(what).copied().unwrap_or_default();
        assert!(said("stream AllowedPod") >= 1, "{kind:?}: {tally:?}");
        assert!(said("news on a stream") >= 1, "{kind:?}: {tally:?}");
    }
}
