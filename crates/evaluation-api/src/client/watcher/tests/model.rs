//! Any order of steps, compared with a naive list of questions and with a server that is strict.

use proptest::collection::vec;
use proptest::prelude::*;
use tokio::sync::watch::Receiver;

use super::*;
use crate::v1;

#[derive(Clone, Debug)]
enum Step {
    Ask,
    Drop(usize),
    Say,
    Answer(usize),
    Refuse(usize),
    Odd(usize),
    /// An answer to a question that was dropped, which was still on its way.
    Late(usize),
    Look(usize),
    Lose,
}

fn step() -> impl Strategy<Value = Step> {
    let any = 0..8_usize;
    prop_oneof![
        4 => Just(Step::Ask),
        3 => any.clone().prop_map(Step::Drop),
        6 => Just(Step::Say),
        3 => any.clone().prop_map(Step::Answer),
        1 => any.clone().prop_map(Step::Refuse),
        1 => any.clone().prop_map(Step::Odd),
        2 => any.clone().prop_map(Step::Late),
        2 => any.prop_map(Step::Look),
        1 => Just(Step::Lose),
    ]
}

/// A watched question, and what its subscriber must see.
struct Watched {
    id: u64,
    name: String,
    events: Receiver<Option<Event>>,
    latest: Option<Event>,
    is_news: bool,
}

/// The server's side of one stream.
#[derive(Default)]
struct Server {
    follows: BTreeMap<u64, String>,
    used: BTreeSet<u64>,
}

#[derive(Default)]
struct World {
    questions: WatchedQuestions,
    watched: Vec<Watched>,
    gone: Vec<u64>,
    server: Server,
    asked: usize,
    answered: usize,
}

fn answer(reason: &str) -> v1::AccessAnswer {
    v1::AccessAnswer {
        decision: v1::AccessDecision::Denied.into(),
        reason: reason.to_owned(),
        ..v1::AccessAnswer::default()
    }
}

impl World {
    fn ask(&mut self) {
        self.asked += 1;
        let name = format!("c-{}", self.asked);
        let (sender, events) = watch::channel(None);
        let id = self.questions.add(question(&name), sender);
        let is_new = self.watched.iter().all(|it| it.id != id) && !self.gone.contains(&id);
        assert!(is_new, "{id} was another question's");
        self.watched.push(Watched {
            id,
            name,
            events,
            latest: None,
            is_news: false,
        });
    }

    fn say(&mut self) -> bool {
        let has_something = self.questions.has_something_to_say();
        let Some(said) = self.questions.say() else {
            assert!(!has_something);
            return false;
        };
        assert!(has_something);
        match said.action.unwrap() {
            Action::Subscribe(Subscribe { id, question }) => {
                // As the service does: no id twice on a stream.
                assert!(self.server.used.insert(id), "{id} twice");
                let name = question.unwrap().connector.unwrap().name;
                let watched = self.watched.iter().find(|it| it.id == id);
                assert_eq!(watched.map(|it| &*it.name), Some(&*name));
                // What makes room is said before what takes some.
                let gone = self.server.follows.keys();
                let is_watched = |id: &u64| self.watched.iter().any(|it| it.id == *id);
                assert!(gone.clone().all(is_watched), "{gone:?}");
                self.server.follows.insert(id, name);
            }
            Action::Unsubscribe(Unsubscribe { id }) => {
                assert!(self.server.follows.remove(&id).is_some(), "{id}");
                assert!(self.gone.contains(&id), "{id}");
            }
        }
        true
    }

    fn hear(&mut self, id: u64, event: Option<WireEvent>, expected: Option<Event>) {
        self.questions.hear(WatchAccessResponse { id, event });
        if let Some(watched) = self.watched.iter_mut().find(|it| it.id == id) {
            watched.is_news = true;
            if expected.is_some() {
                watched.latest = expected;
            } else {
                let latest = watched.events.borrow().clone();
                let is_refused =
                    matches!(&latest, Some(Event::Refused(it)) if it.code == Code::Internal);
                assert!(is_refused, "{latest:?}");
                watched.latest = latest;
            }
        }
    }

    /// The id of one of these questions that the server follows.
    fn followed(&self, at: usize) -> Option<u64> {
        let ids: Vec<u64> = self.server.follows.keys().copied().collect();
        (!ids.is_empty()).then(|| ids[at % ids.len()])
    }

    fn take(&mut self, step: &Step) {
        self.answered += 1;
        let reason = self.answered.to_string();
        let told = AccessAnswer::try_from(answer(&reason)).unwrap();
        let told = Event::Answer(Box::new(told));
        match *step {
            Step::Ask => self.ask(),
            Step::Drop(at) if !self.watched.is_empty() => {
                let gone = self.watched.remove(at % self.watched.len());
                self.questions.remove(gone.id);
                self.gone.push(gone.id);
            }
            Step::Say => _ = self.say(),
            Step::Answer(at) => {
                if let Some(id) = self.followed(at) {
                    self.hear(id, Some(WireEvent::Answer(answer(&reason))), Some(told));
                }
            }
            Step::Refuse(at) => {
                if let Some(id) = self.followed(at) {
                    let refusal = v1::Refusal {
                        code: 8,
                        message: reason,
                        ..v1::Refusal::default()
                    };
                    let told = Event::Refused(refusal.clone().into());
                    self.hear(id, Some(WireEvent::Refusal(refusal)), Some(told));
                }
            }
            Step::Odd(at) => {
                if let Some(id) = self.followed(at) {
                    let odd = [None, Some(WireEvent::Answer(v1::AccessAnswer::default()))];
                    self.hear(id, odd[at % 2].clone(), None);
                }
            }
            Step::Late(at) if !self.gone.is_empty() => {
                let id = self.gone[at % self.gone.len()];
                self.hear(id, Some(WireEvent::Answer(answer("late"))), Some(told));
            }
            Step::Look(at) if !self.watched.is_empty() => {
                let at = at % self.watched.len();
                self.watched[at].events.borrow_and_update();
                self.watched[at].is_news = false;
            }
            Step::Drop(_) | Step::Late(_) | Step::Look(_) => {}
            Step::Lose => {
                self.questions.disconnected();
                for watched in &mut self.watched {
                    watched.is_news |= watched.latest != Some(Event::Disconnected);
                    watched.latest = Some(Event::Disconnected);
                }
                self.compare();
                // Nothing that is said between two streams is said on one of them.
                self.questions.start_over();
                self.server = Server::default();
            }
        }
        self.compare();
    }

    fn compare(&mut self) {
        assert_eq!(self.questions.is_empty(), self.watched.is_empty());
        for watched in &mut self.watched {
            assert_eq!(*watched.events.borrow(), watched.latest, "{}", watched.id);
            assert_eq!(watched.events.has_changed().unwrap(), watched.is_news);
        }
    }
}

proptest! {
    #[test]
    fn the_server_follows_what_is_watched_and_everybody_sees_their_own_answer(
        steps in vec(step(), 0..60),
    ) {
        let mut world = World::default();
        for step in &steps {
            world.take(step);
        }
        while world.say() {}
        let watched: BTreeMap<_, _> =
            world.watched.iter().map(|it| (it.id, it.name.clone())).collect();
        assert_eq!(world.server.follows, watched);
        // Each of them can still be answered.
        for at in 0..watched.len() {
            world.take(&Step::Answer(at));
        }
        let is_answered = |it: &Watched| matches!(it.latest, Some(Event::Answer(_)));
        assert!(world.watched.iter().all(is_answered));
        // After the end no subscriber has an answer, and none waits for one.
        world.questions.end();
        for mut watched in world.watched {
            assert_eq!(*watched.events.borrow_and_update(), Some(Event::Disconnected));
            assert!(watched.events.has_changed().is_err());
        }
        let (sender, events) = watch::channel(None);
        world.questions.add(question("late"), sender);
        assert!(events.has_changed().is_err());
        assert!(!world.questions.has_something_to_say());
    }
}

fn say_to(watcher: &AccessWatcher, id: u64, reason: &str) {
    let event = Some(WireEvent::Answer(answer(reason)));
    let response = WatchAccessResponse { id, event };
    watcher.table.lock().hear(response);
}

/// A subscriber that stops waiting in the middle misses nothing, and sees nothing twice.
#[tokio::test]
async fn a_wait_that_is_given_up_loses_no_event() {
    use tokio::time::{Duration, timeout};
    let watcher = AccessWatcher::of(Arc::default());
    let mut harbor = watcher.watch(question("harbor"));
    let id = harbor.id;
    assert_eq!(harbor.latest(), None);
    assert!(timeout(Duration::ZERO, harbor.next()).await.is_err());
    say_to(&watcher, id, "one");
    // To look at the latest takes nothing away.
    let latest = harbor.latest();
    assert!(latest.is_some());
    assert_eq!(harbor.next().await, latest);
    assert!(timeout(Duration::ZERO, harbor.next()).await.is_err());
    say_to(&watcher, id, "one");
    assert_eq!(harbor.next().await, latest);
    say_to(&watcher, id, "two");
    say_to(&watcher, id, "three");
    let Some(Event::Answer(last)) = harbor.next().await else {
        panic!("no answer");
    };
    assert_eq!(last.reason, "three");
    assert!(timeout(Duration::ZERO, harbor.next()).await.is_err());
    assert!(!format!("{watcher:?}").contains("harbor"));
}
