//! Modules that would take a process down, all the time from one caller, while a thousand others go about
//! their business.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use evaluation_api::access::AccessQuestion;
use evaluation_api::client::Client;
use evaluation_api::v1::CheckVerdict;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::check::{Check, STATES};
use crate::grants::Question;
use crate::list::{self, Bomb};
use crate::support::load::Caller;

/// Bombs of the caller that are on their way at one time: as many calls as one namespace may have open.
const AT_ONCE: usize = 5;
/// Before the next one, when there was no place for one.
const PAUSE: Duration = Duration::from_millis(200);
/// Between two looks at the memory.
const LOOK: Duration = Duration::from_millis(20);

/// A caller that asks about access.
#[derive(Clone)]
pub(crate) struct Asker {
    pub(crate) client: Client,
    pub(crate) questions: Arc<[Question]>,
}

impl Caller for Asker {
    async fn call(&self, number: usize) {
        let Question {
            asked, is_allowed, ..
        } = &self.questions[number % self.questions.len()];
        let asked: AccessQuestion = asked.clone();
        let answer = self.client.check_access(asked).await.unwrap();
        assert_eq!(answer.is_allowed(), *is_allowed);
    }
}

/// A controller, which asks about checks, never twice about the same.
#[derive(Clone)]
pub(crate) struct Controller {
    pub(crate) client: Client,
    pub(crate) check: Check,
    pub(crate) asked: Arc<AtomicUsize>,
}

impl Caller for Controller {
    async fn call(&self, _: usize) {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let object = self.check.object(number).to_string();
        let asked = self.check.question(number, object.as_bytes());
        let answer = self.client.evaluate_checks(asked).await.unwrap();
        let is_passed = answer.verdict() == CheckVerdict::Passed;
        assert_eq!(
            is_passed,
            STATES[number % STATES.len()] == "approved",
            "{answer:?}"
        );
    }
}

/// The caller with the bombs.
pub(crate) struct Bomber {
    pub(crate) client: Client,
    pub(crate) check: Check,
    pub(crate) next: AtomicUsize,
    /// How often each bomb ended with each reason.
    pub(crate) ended: Mutex<BTreeMap<&'static str, usize>>,
}

impl Bomber {
    /// Runs until it is told to stop. Calls on their way end first.
    pub(crate) async fn run(self: Arc<Self>, stop: Arc<AtomicBool>) {
        let mut running = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (bomber, stop) = (Arc::clone(&self), Arc::clone(&stop));
            running.spawn(async move {
                let bombs = list::all();
                while !stop.load(Ordering::Relaxed) {
                    let number = bomber.next.fetch_add(1, Ordering::Relaxed);
                    bomber.throw(&bombs[number % bombs.len()], number).await;
                }
            });
        }
        running.join_all().await;
    }

    /// One bomb, which ends with its own reason.
    async fn throw(&self, bomb: &Bomb, number: usize) {
        let check = self.check.clone().with_module(&bomb.module);
        let object = check.object(number).to_string();
        let asked = check.question(number, object.as_bytes());
        let answer = match self.client.evaluate_checks(asked).await {
            Ok(answer) => answer,
            // Its own bombs are in its way.
            Err(error) if error.may_pass() => {
                eprintln!("{}: {error}", bomb.name);
                return sleep(PAUSE).await;
            }
            Err(error) => panic!("{}: {error}", bomb.name),
        };
        assert_eq!(answer.verdict(), CheckVerdict::Failed, "{}", bomb.name);
        let why = &answer.checks[0].objects[0].message;
        // Within the second that the service gives, time may run out before memory does.
        let is_own = |reason: &&str| why.contains(*reason);
        let is_late = bomb.reason == [list::MEMORY] && why.contains(list::TIME);
        assert!(
            bomb.reason.iter().any(is_own) || is_late,
            "{}: {why}",
            bomb.name
        );
        *self.ended.lock().unwrap().entry(bomb.name).or_default() += 1;
    }
}

/// The resident memory of a process and of its children, measured again and again.
pub(crate) struct Watched {
    stop: Arc<AtomicBool>,
    looking: thread::JoinHandle<f64>,
}

impl Watched {
    pub(crate) fn begin(process: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let looking = thread::spawn(move || {
            let mut most = 0.0_f64;
            while !ended.load(Ordering::Relaxed) {
                most = most.max(resident(process));
                thread::sleep(LOOK);
            }
            most
        });
        Self { stop, looking }
    }

    /// The most that there was, in MB.
    pub(crate) fn end(self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        self.looking.join().unwrap()
    }
}

/// The current sum of all of them. A process that has ended counts zero.
fn resident(process: u32) -> f64 {
    let tasks = fs::read_dir(format!("/proc/{process}/task"))
        .into_iter()
        .flatten();
    let children = tasks.flatten().filter_map(|task| {
        let children = fs::read_to_string(task.path().join("children")).ok()?;
        Some(
            children
                .split_whitespace()
                .filter_map(|it| it.parse().ok())
                .collect::<Vec<u32>>(),
        )
    });
    let of_one = |process: u32| {
        let text = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
        let pages: f64 = text.split_whitespace().nth(1)?.parse().ok()?;
        Some(pages * 4096.0 / 1e6)
    };
    let all = children.flatten().chain([process]);
    all.filter_map(of_one).sum()
}
