//! The evaluation service and the API server, which answer from the truth of the moment, late, and sometimes not
//! at all.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use connectors_api::{AccessRequest, PodIdentity};
use evaluation_api::access::{
    AccessAnswer, AccessQuestion, BindingRef, Decision, Gating, RequestSeen, Requestable,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    disk::Disk,
    truth::{Asker, RequestFacts, Right, Says, Truth, Verb},
};
use crate::{
    evaluator::{AnswerStream, Evaluator},
    kubernetes::{EventWord, NoAnswer},
    testing::dice::Dice,
};

/// The longest that an answer takes.
pub(super) const LATE: Duration = Duration::from_millis(200);
/// In every token, so that it can be looked for.
pub(super) const SESAME: &str = "sesame";

/// What a pod was told.
#[derive(Clone, Debug)]
pub(super) struct Note {
    pub(super) process: usize,
    pub(super) pod: PodIdentity,
    pub(super) word: EventWord,
    pub(super) text: String,
}

/// A request that was posted.
#[derive(Clone, Debug)]
pub(super) struct Post {
    pub(super) at: Instant,
    pub(super) asker: Asker,
}

/// What both share with the judge.
pub(super) struct Shared {
    log: Mutex<Log>,
    truth: watch::Sender<Arc<Truth>>,
    disk: Arc<Mutex<Disk>>,
}

pub(super) struct Log {
    pub(super) began: Instant,
    /// Each holds until the next one.
    pub(super) versions: Vec<(Instant, Arc<Truth>)>,
    /// When a single call was left without an answer.
    pub(super) glitches: Vec<Instant>,
    pub(super) notes: Vec<Note>,
    pub(super) posts: Vec<Post>,
    pub(super) problems: Vec<String>,
    /// Of a hundred calls so many get no answer.
    pub(super) glitch_rate: usize,
    dice: Dice,
    requests: usize,
}

impl Shared {
    pub(super) fn new(dice: Dice, disk: Arc<Mutex<Disk>>) -> Arc<Self> {
        let truth = Arc::new(Truth::new());
        let log = Log {
            began: Instant::now(),
            versions: vec![(Instant::now(), Arc::clone(&truth))],
            glitches: Vec::new(),
            notes: Vec::new(),
            posts: Vec::new(),
            problems: Vec::new(),
            glitch_rate: 2,
            dice,
            requests: 0,
        };
        Arc::new(Self {
            log: Mutex::new(log),
            truth: watch::Sender::new(truth),
            disk,
        })
    }

    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn truth(&self) -> Arc<Truth> {
        Arc::clone(&self.truth.borrow())
    }

    /// From now on this is true.
    pub(super) fn change(&self, change: impl FnOnce(&mut Truth)) {
        let mut truth = Truth::clone(&self.truth());
        change(&mut truth);
        let truth = Arc::new(truth);
        let version = (Instant::now(), Arc::clone(&truth));
        self.log().versions.push(version);
        self.truth.send_replace(truth);
    }

    /// How many questions are followed.
    pub(super) fn followers(&self) -> usize {
        self.truth.receiver_count()
    }

    pub(super) fn problem(&self, problem: String) {
        self.log().problems.push(problem);
    }

    /// A new request, which no controller has looked at.
    pub(super) fn add_request(&self, name: &str, object: AccessRequest, squats: bool) {
        let asker = asker_of(&object);
        let number = {
            let mut log = self.log();
            log.requests += 1;
            log.requests
        };
        let facts = RequestFacts {
            uid: format!("request-{number}"),
            right: asker.right,
            pod_name: asker.pod_name,
            pod_uid: asker.pod_uid,
            phase: None,
            reason: None,
            being_deleted: false,
            squats,
            object,
        };
        let namespace = facts.object.metadata.namespace.clone().unwrap();
        self.change(|truth| {
            truth.requests.insert((namespace, name.to_owned()), facts);
        });
    }
}

/// Whose access a request is about.
pub(super) fn asker_of(request: &AccessRequest) -> Asker {
    let spec = &request.spec;
    let home = request.metadata.namespace.clone().unwrap_or_default();
    let pod = &spec.context.object_ref;
    Asker {
        right: Right {
            namespace: spec.subject.namespace.clone().unwrap_or_default(),
            account: spec.subject.name.clone(),
            connector: format!("{home}/{}", spec.connector_ref.name),
            permission: spec.permission,
        },
        pod_name: pod.name.clone(),
        pod_uid: pod.uid.clone().unwrap_or_default(),
    }
}

/// Both services as one process of the driver reaches them.
#[derive(Clone)]
pub(super) struct OfProcess {
    pub(super) shared: Arc<Shared>,
    pub(super) process: usize,
}

impl OfProcess {
    /// A process that is dead hears nothing and does nothing.
    async fn live(&self) {
        let process = {
            let disk = self.shared.disk.lock();
            let disk = disk.unwrap_or_else(PoisonError::into_inner);
            disk.points.send_modify(|points| *points += 1);
            disk.process
        };
        if process != self.process {
            std::future::pending::<()>().await;
        }
    }

    /// A call on its way. False when no answer comes.
    async fn travels(&self) -> bool {
        self.live().await;
        let (late, lost) = {
            let mut log = self.shared.log();
            let rate = log.glitch_rate;
            let late = match log.dice.below(4) {
                0 => log.dice.millis(0, 200).min(LATE),
                _ => Duration::from_millis(1),
            };
            (late, log.dice.percent(rate))
        };
        sleep(late).await;
        self.live().await;
        if lost {
            self.shared.log().glitches.push(Instant::now());
        }
        !lost
    }

    pub(super) async fn call(&self, verb: Verb) -> Result<Arc<Truth>, NoAnswer> {
        let arrived = self.travels().await;
        let truth = self.shared.truth();
        let answers = arrived && !truth.failing.contains(&verb);
        answers.then_some(truth).ok_or(NoAnswer)
    }

    fn answer(&self, truth: &Truth, question: &AccessQuestion) -> Option<AccessAnswer> {
        let pod = question.pod.as_ref()?;
        if question.verb != "*" {
            self.shared.problem(format!("verb {}", question.verb));
        }
        let asker = Asker {
            right: Right {
                namespace: question.subject.namespace.clone(),
                account: question.subject.name.clone(),
                connector: format!(
                    "{}/{}",
                    question.connector.namespace, question.connector.name
                ),
                permission: question.permission,
            },
            pod_name: pod.name.clone(),
            pod_uid: pod.uid.clone(),
        };
        let decision = match truth.says(&asker) {
            Says::Nothing => return None,
            Says::Standing => Decision::AllowedStanding(binding()),
            Says::Granted(_) => Decision::AllowedPod(binding()),
            Says::No(_) => Decision::Denied,
        };
        let request = truth.request_of(&asker).map(|(name, facts)| RequestSeen {
            name: name.to_owned(),
            uid: facts.uid.clone(),
            resource_version: "1".to_owned(),
            phase: facts.phase,
            check_reason: None,
            permission_reason: None,
            ready_reason: facts.reason,
            message: super::sentence(&asker.right.connector),
        });
        Some(AccessAnswer {
            decision,
            reason: String::new(),
            request,
            fresh_as_of: None,
            gating: Gating::Unknown,
            requestable: if truth.a_policy_accepts {
                Requestable::Yes
            } else {
                Requestable::No
            },
        })
    }
}

fn binding() -> BindingRef {
    BindingRef {
        kind: "RoleBinding".to_owned(),
        namespace: "tools".to_owned(),
        name: "binding".to_owned(),
        uid: "binding-uid".to_owned(),
    }
}

pub(super) struct Stream {
    of: OfProcess,
    question: AccessQuestion,
    truth: watch::Receiver<Arc<Truth>>,
    breaks: usize,
    /// Something was said, and this.
    began: bool,
    last: Option<AccessAnswer>,
}

impl AnswerStream for Stream {
    async fn next(&mut self) -> Option<AccessAnswer> {
        loop {
            self.of.live().await;
            let truth = Arc::clone(&self.truth.borrow_and_update());
            if truth.breaks != self.breaks {
                self.breaks = truth.breaks;
                // What it says after the break is said anew.
                self.truth.mark_changed();
                (self.began, self.last) = (true, None);
                return None;
            }
            let now = self.of.answer(&truth, &self.question);
            if !self.began || self.last != now {
                (self.began, self.last) = (true, now.clone());
                return now;
            }
            if self.truth.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Evaluator for OfProcess {
    type Watch = Stream;

    async fn ask(&self, question: AccessQuestion) -> Option<AccessAnswer> {
        let arrived = self.travels().await;
        self.answer(&self.shared.truth(), &question)
            .filter(|_| arrived)
    }

    fn follow(&self, question: AccessQuestion) -> Stream {
        let truth = self.shared.truth.subscribe();
        let breaks = truth.borrow().breaks;
        Stream {
            of: self.clone(),
            question,
            truth,
            breaks,
            began: false,
            last: None,
        }
    }
}
