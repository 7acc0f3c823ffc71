//! What all tasks of a history share, and the calls among them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evaluation_api::access::AccessAnswer;
use evaluation_api::refusal::Reason;
use evaluation_api::v1::{self, AccessDecision, BatchCheckAccessRequest, CheckAccessRequest};
use jiff::Timestamp;
use tokio::time::timeout;
use tonic::{Request, Status};

use super::callers::{TOKENS, token};
use super::history::Asks;
use super::judge::{Judge, Verdict, While};
use super::reference::Question;
use super::service::{Client, LIMITS, Running};
use super::truth::Told;
use crate::clock;

/// No call takes longer.
const CALL: Duration = Duration::from_secs(31);
/// What was said how often: histories in which nothing happens prove nothing.
pub(super) type Tally = BTreeMap<String, usize>;

/// A call or a stream that takes a place of its caller's share.
#[derive(Clone, Copy)]
struct Taken {
    token: usize,
    from: Timestamp,
    to: Option<Timestamp>,
    is_stream: bool,
}

/// What all tasks of a history share.
pub(super) struct Stage {
    pub(super) questions: Vec<Question>,
    pub(super) judge: Judge,
    clients: Vec<Client>,
    taken: Mutex<Vec<Taken>>,
    wrong: Mutex<Vec<String>>,
    tally: Mutex<Tally>,
}

impl Stage {
    pub(super) fn new(questions: &[Question], judge: Judge, running: &Running) -> Self {
        Self {
            questions: questions.to_vec(),
            judge,
            clients: (0..TOKENS).map(|_| running.client()).collect(),
            taken: Mutex::default(),
            wrong: Mutex::default(),
            tally: Mutex::default(),
        }
    }

    /// What was wrong, and what was said how often.
    pub(super) fn result(&self) -> (Vec<String>, Tally) {
        let wrong = std::mem::take(&mut *self.wrong.lock().unwrap());
        let tally = std::mem::take(&mut *self.tally.lock().unwrap());
        (wrong, tally)
    }

    pub(super) fn client(&self, token: usize) -> Client {
        self.clients[token].clone()
    }

    pub(super) fn count(&self, what: impl Into<String>) {
        *self.tally.lock().unwrap().entry(what.into()).or_default() += 1;
    }

    pub(super) fn note(&self, what: impl fmt::Display, verdict: Verdict) {
        if let Err(why) = verdict {
            self.wrong
                .lock()
                .unwrap()
                .push(format!("{} {what}: {why}", clock::now()));
        }
    }

    /// Takes a place until what this gives is handed back.
    pub(super) fn take(&self, token: usize, is_stream: bool) -> usize {
        let mut places = self.taken.lock().unwrap();
        places.push(Taken {
            token,
            from: clock::now(),
            to: None,
            is_stream,
        });
        places.len() - 1
    }

    pub(super) fn give_back(&self, place: usize) {
        self.taken.lock().unwrap()[place]
            .to
            .get_or_insert(clock::now());
    }

    /// Whether a caller had all its places at a moment, but for this one.
    fn was_full(&self, place: usize) -> bool {
        let taken = self.taken.lock().unwrap();
        let this = taken[place];
        let state = self.judge.api.state();
        // Whose the token was when the place was taken.
        let places = |it: &Taken| {
            let from = it.from - Duration::from_secs(12);
            let owners = state.callers.owners(it.token, from, clock::now());
            let owners = owners.into_iter().flatten();
            owners.map(|it| state.callers.place(it)).collect::<Vec<_>>()
        };
        let mine = places(&this);
        let is_beside = |(number, it): &(usize, &Taken)| {
            *number != place
                && it.is_stream == this.is_stream
                && it.from <= clock::now()
                && it.to.is_none_or(|to| to >= this.from)
                && places(it).iter().any(|it| mine.contains(it))
        };
        let most = if this.is_stream {
            LIMITS.streams
        } else {
            LIMITS.calls
        };
        taken.iter().enumerate().filter(is_beside).count() >= most
    }

    /// A refusal of a call or stream that took this place.
    pub(super) fn refused(
        &self,
        what: impl fmt::Display,
        status: &Status,
        place: usize,
        about: (usize, &str, bool),
        when: While,
    ) {
        let reason = Reason::of(status);
        self.count(format!("{reason:?}"));
        let verdict = match reason {
            Some(Reason::TooManyCalls | Reason::TooManyStreams) if self.was_full(place) => Ok(()),
            _ => self.judge.refusal(reason, about, when),
        };
        self.note(
            format_args!("{what} of token {}, {status:?}", about.0),
            verdict,
        );
    }

    pub(super) fn asked(&self, question: usize) -> v1::AccessQuestion {
        wire(&self.questions[question])
    }

    pub(super) async fn check(self: Arc<Self>, asks: Asks) {
        let Asks {
            token,
            questions,
            patience,
        } = asks;
        let Some(number) = questions.first() else {
            return;
        };
        let question = &self.questions[*number];
        let request = CheckAccessRequest {
            question: Some(self.asked(*number)),
        };
        let (from, place) = (clock::now(), self.take(token, false));
        let mut client = self.client(token);
        let call = client.check_access(with_token(request, token));
        let result = timeout(patience.unwrap_or(CALL), call).await;
        self.give_back(place);
        let when = While {
            from,
            to: clock::now(),
        };
        let what = format_args!("check of {question:?} since {from}");
        let about = (token, question.connector.0.as_str(), true);
        match result {
            Err(_) if patience.is_some() => self.count("hung up"),
            Err(_) => self.note(what, Err("no answer".to_owned())),
            Ok(Err(status)) => self.refused(what, &status, place, about, when),
            Ok(Ok(response)) => {
                let answer = response.into_inner().answer.unwrap();
                let answer = AccessAnswer::try_from(answer).unwrap();
                self.count_answer("check", &answer);
                self.note(
                    what,
                    self.judge.may_ask(token, &question.connector.0, true, when),
                );
                let verdict = self.judge.answer(question, &answer, when);
                self.note(format_args!("{what}: {answer:?}"), verdict);
            }
        }
    }

    pub(super) fn count_answer(&self, call: &str, answer: &AccessAnswer) {
        let decision = format!("{:?}", answer.decision);
        let word = decision.split('(').next().unwrap_or_default();
        self.count(format!("{call} {word}"));
        self.count(format!("requestable {:?}", answer.requestable));
    }

    pub(super) async fn batch(self: Arc<Self>, asks: Asks, details: bool) {
        let Asks {
            token,
            questions,
            patience,
        } = asks;
        let request = BatchCheckAccessRequest {
            questions: questions.iter().map(|it| self.asked(*it)).collect(),
            details,
        };
        let (from, place) = (clock::now(), self.take(token, false));
        let mut client = self.client(token);
        let call = client.batch_check_access(with_token(request, token));
        let result = timeout(patience.unwrap_or(CALL), call).await;
        self.give_back(place);
        let when = While {
            from,
            to: clock::now(),
        };
        let what = format_args!("batch of {questions:?} since {from}");
        let response = match result {
            Err(_) if patience.is_some() => return self.count("hung up"),
            Err(_) => return self.note(what, Err("no answer".to_owned())),
            Ok(Err(status)) => {
                return self.refused(what, &status, place, (token, "", false), when);
            }
            Ok(Ok(response)) => response.into_inner(),
        };
        let fresh_as_of = response.fresh_as_of.map(|it| {
            let nanosecond = it.seconds * 1_000_000_000 + i64::from(it.nanos);
            Timestamp::from_nanosecond(nanosecond.into()).unwrap()
        });
        self.note(
            what,
            self.judge.common(fresh_as_of, response.gating.into(), when),
        );
        if response.decisions.len() != questions.len() {
            return self.note(what, Err("not as many answers as questions".to_owned()));
        }
        for (place, number) in (0..).zip(&questions) {
            let question = &self.questions[*number];
            let about = (token, question.connector.0.as_str(), false);
            let what = format_args!("{what}, {question:?}");
            let mut refusals = response.refusals.iter();
            if let Some(refusal) = refusals.find(|it| it.question == place) {
                let reason = &refusal.refusal.as_ref().unwrap().reason;
                let verdict = self.judge.refusal(Reason::from_word(reason), about, when);
                self.note(what, verdict);
                continue;
            }
            self.note(what, self.judge.may_ask(token, about.1, false, when));
            let place = usize::try_from(place).unwrap();
            let verdict = if details {
                let mut answer = AccessAnswer::try_from(response.answers[place].clone()).unwrap();
                // It is said once for all of them, where it is not said of each.
                answer.fresh_as_of = answer.fresh_as_of.or(fresh_as_of);
                self.count_answer("batch", &answer);
                self.judge.answer(question, &answer, when)
            } else {
                let told = match AccessDecision::try_from(response.decisions[place]).unwrap() {
                    AccessDecision::Denied => Told::No,
                    AccessDecision::AllowedStanding => Told::Standing(None),
                    AccessDecision::AllowedPod => Told::Pods(None),
                    AccessDecision::Unspecified => panic!("neither an answer nor a refusal"),
                };
                self.judge.decision(question, &told, when)
            };
            self.note(what, verdict);
        }
    }
}

fn wire(question: &Question) -> v1::AccessQuestion {
    let Question {
        subject: (namespace, name),
        connector,
        permission,
        verb,
        pod,
    } = question.clone();
    let (in_namespace, connector) = connector;
    v1::AccessQuestion {
        subject: Some(v1::ServiceAccount { namespace, name }),
        connector: Some(v1::Connector {
            namespace: in_namespace,
            name: connector,
        }),
        permission,
        verb,
        pod: pod.map(|(name, uid)| v1::Pod { name, uid }),
    }
}

pub(super) fn with_token<T>(message: T, number: usize) -> Request<T> {
    let mut request = Request::new(message);
    let value = format!("Bearer {}", token(number)).parse().unwrap();
    request.metadata_mut().insert("authorization", value);
    request
}
