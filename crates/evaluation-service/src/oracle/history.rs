//! Histories: what happens to objects, watches, callers, and what is asked meanwhile. All of it follows from a seed.

mod happens;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::api::{ListPlan, ReviewPlan, WatchFault};
use super::callers::{Right, TOKENS, identities};
use super::cluster::{Key, Kind};
use super::objects::Maker;
use super::reference::Question;

/// Streams that are open at the same time, at most.
pub(super) const STREAMS: usize = 4;

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// An object is written, or deleted; of what is written it is told whether it can be read.
    Write(Kind, Key, Option<Value>, bool),
    Disturb(Kind, WatchFault),
    List(Kind, ListPlan),
    Refuse(Kind, u16),
    Compact,
    Reviews(ReviewPlan),
    Token(usize, Option<usize>),
    Right(Right, bool),
    Check(Asks),
    Batch(Asks, bool),
    Open(usize, usize),
    Subscribe(usize, usize),
    Unsubscribe(usize),
    HangUp(usize),
}

/// Questions of a caller who may hang up after a while.
#[derive(Clone, Debug)]
pub(super) struct Asks {
    pub(super) token: usize,
    pub(super) questions: Vec<usize>,
    pub(super) patience: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct History {
    pub(super) questions: Vec<Question>,
    /// Each so long after the one before.
    pub(super) steps: Vec<(Duration, Step)>,
}

struct Writer {
    maker: Maker,
    now: Timestamp,
    questions: Vec<Question>,
    steps: Vec<(Duration, Step)>,
    objects: BTreeMap<(Kind, Key), Value>,
    wait: Duration,
    open: [bool; STREAMS],
}

const CONFIG: (&str, &str) = ("connectors-system", "connectors-config");

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Write(kind, (namespace, name), object, is_readable) = self else {
            return write!(f, "{self:?}");
        };
        write!(f, "{kind:?} {namespace}/{name}: ")?;
        match object {
            Some(object) if *is_readable => write!(f, "{object}"),
            Some(object) => write!(f, "unreadable {object}"),
            None => f.write_str("deleted"),
        }
    }
}

impl History {
    pub(super) fn of(seed: u64, begins: Timestamp, length: usize) -> Self {
        let mut maker = Maker::new(StdRng::seed_from_u64(seed));
        let first = maker.question();
        let mut questions = vec![first];
        while questions.len() < 8 {
            let of = questions[maker.dice.random_range(0..questions.len())].clone();
            let next = if maker.once_in(4) {
                maker.question()
            } else {
                maker.neighbour(&of)
            };
            questions.push(next);
        }
        let mut writer = Writer {
            maker,
            now: begins,
            questions,
            steps: Vec::new(),
            objects: BTreeMap::new(),
            wait: Duration::ZERO,
            open: [false; STREAMS],
        };
        writer.begin();
        while writer.steps.len() < length {
            writer.pause();
            writer.step();
        }
        Self {
            questions: writer.questions,
            steps: writer.steps,
        }
    }
}

impl Writer {
    fn push(&mut self, step: Step) {
        self.steps.push((std::mem::take(&mut self.wait), step));
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.maker.dice.random_range(0..=most))
    }

    fn pause(&mut self) {
        let most = [0, 50, 1500, 4000, 4000][self.maker.dice.random_range(0..5)];
        let most = if self.maker.once_in(25) { 45_000 } else { most };
        let pause = self.millis(most);
        self.wait += pause;
        self.now += pause;
    }

    fn question(&mut self) -> Question {
        let place = self.maker.dice.random_range(0..self.questions.len());
        self.questions[place].clone()
    }

    fn write(&mut self, kind: Kind, object: Value) {
        let text = |field: &str| {
            object["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let key = (text("namespace"), text("name"));
        self.objects.insert((kind, key.clone()), object.clone());
        self.push(Step::Write(kind, key, Some(object), true));
    }

    /// What is there at first: rights, the switch, connectors, more objects than fit a page.
    fn begin(&mut self) {
        for namespace in ["tools", "tools-1"] {
            for identity in 0..identities().len() {
                for is_everything in [true, false] {
                    let right = Right {
                        identity,
                        namespace: namespace.to_owned(),
                        is_everything,
                    };
                    let is_allowed = !self.maker.once_in(3);
                    self.push(Step::Right(right, is_allowed));
                }
            }
            for name in ["harbor", "harbor-2"] {
                let metadata = self.maker.metadata(namespace, name, &json!({}));
                self.write(Kind::Connector, json!({"metadata": metadata}));
            }
            let metadata = self.maker.metadata("", namespace, &json!({}));
            self.write(Kind::Namespace, json!({"metadata": metadata}));
        }
        let mut config = self.maker.config();
        config["data"]["enable-connectors-approval"] = "true".into();
        self.write(Kind::Config, config);
        for _ in 0..self.maker.dice.random_range(0..5) {
            self.grant();
            self.standing();
        }
    }

    fn step(&mut self) {
        match self.maker.dice.random_range(0..100) {
            0..8 => self.grant(),
            8..13 => self.standing(),
            13..30 => self.change(),
            30..36 => self.remove(),
            36..39 => {
                let question = self.question();
                let name = self.name("p");
                let policy = self.maker.policy(&name, &question);
                self.write(Kind::Policy, policy);
            }
            39..41 => {
                let config = self.maker.config();
                let is_there = !self.maker.once_in(4);
                let key = (CONFIG.0.to_owned(), CONFIG.1.to_owned());
                self.push(Step::Write(
                    Kind::Config,
                    key,
                    is_there.then_some(config),
                    true,
                ));
            }
            41..52 => self.trouble(),
            52..56 => self.callers(),
            56..75 => {
                let asks = self.asks(1);
                self.push(Step::Check(asks));
            }
            75..81 => {
                let count = self.maker.dice.random_range(0..12);
                let (asks, details) = (self.asks(count), self.maker.once_in(2));
                self.push(Step::Batch(asks, details));
            }
            81..85 => {
                let stream = self.maker.dice.random_range(0..STREAMS);
                self.open(stream);
            }
            85..94 => self.subscribe(),
            94..97 => {
                let stream = self.maker.dice.random_range(0..STREAMS);
                self.push(Step::Unsubscribe(stream));
            }
            _ => {
                let stream = self.maker.dice.random_range(0..STREAMS);
                self.open[stream] = false;
                self.push(Step::HangUp(stream));
            }
        }
    }

    fn open(&mut self, stream: usize) {
        let token = self.token();
        self.open[stream] = true;
        self.push(Step::Open(stream, token));
    }

    fn subscribe(&mut self) {
        let stream = self.maker.dice.random_range(0..STREAMS);
        if !self.open[stream] {
            self.open(stream);
        }
        for _ in 0..self.maker.dice.random_range(1..5) {
            let question = self.maker.dice.random_range(0..self.questions.len());
            self.push(Step::Subscribe(stream, question));
        }
    }

    fn name(&mut self, of: &str) -> String {
        format!("{of}{}", self.maker.dice.random_range(0..4))
    }

    fn token(&mut self) -> usize {
        if self.maker.once_in(3) {
            return self.maker.dice.random_range(0..TOKENS);
        }
        [0, 2][self.maker.dice.random_range(0..2)]
    }

    fn asks(&mut self, count: usize) -> Asks {
        let token = self.token();
        let all = self.questions.len();
        let questions = (0..count).map(|_| self.maker.dice.random_range(0..all));
        Asks {
            token,
            questions: questions.collect(),
            patience: self.maker.once_in(5).then(|| self.millis(1500)),
        }
    }
}
