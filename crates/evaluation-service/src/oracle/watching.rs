//! One stream, as its caller has it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evaluation_api::access::AccessAnswer;
use evaluation_api::refusal::Reason;
use evaluation_api::v1::{
    Subscribe, Unsubscribe, WatchAccessRequest, WatchAccessResponse, watch_access_request::Action,
    watch_access_response::Event,
};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, Streaming};

use super::judge::While;
use super::stage::{Stage, with_token};
use crate::clock;

/// A question has its first answer, or its refusal, by then, however slow reviews are.
const FIRST: Duration = Duration::from_secs(15);
/// No stream is ended for its age before that.
const AGE: Duration = Duration::from_mins(5);

struct Subscribed {
    question: usize,
    since: Timestamp,
    until: Option<Timestamp>,
    last: Option<AccessAnswer>,
    is_refused: bool,
}

#[derive(Default)]
struct State {
    questions: BTreeMap<u64, Subscribed>,
    /// Whose the token was when the stream began.
    owners: Vec<Option<usize>>,
    is_open: bool,
    is_over: bool,
}

pub(super) struct Watching {
    stage: Arc<Stage>,
    place: usize,
    says: mpsc::UnboundedSender<WatchAccessRequest>,
    state: Arc<Mutex<State>>,
    reader: JoinHandle<()>,
}

/// Hangs up.
impl Drop for Watching {
    fn drop(&mut self) {
        self.reader.abort();
        self.stage.give_back(self.place);
    }
}

impl Watching {
    pub(super) fn open(stage: &Arc<Stage>, token: usize) -> Self {
        let (says, said) = mpsc::unbounded_channel();
        let heard: Arc<Mutex<State>> = Arc::default();
        let place = stage.take(token, true);
        let reader = Reader {
            stage: Arc::clone(stage),
            state: Arc::clone(&heard),
            token,
            place,
            opened: clock::now(),
        };
        Self {
            stage: Arc::clone(stage),
            place,
            says,
            state: heard,
            reader: tokio::spawn(reader.read(said)),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.is_open && !state.is_over
    }

    fn say(&self, action: Action) {
        // An error says that the stream is over.
        let _ = self.says.send(WatchAccessRequest {
            action: Some(action),
        });
    }

    pub(super) fn subscribe(&self, stage: &Stage, id: u64, question: usize) {
        let subscribed = Subscribed {
            question,
            since: clock::now(),
            until: None,
            last: None,
            is_refused: false,
        };
        self.state.lock().unwrap().questions.insert(id, subscribed);
        let question = Some(stage.asked(question));
        self.say(Action::Subscribe(Subscribe { id, question }));
    }

    /// Ends the oldest question.
    pub(super) fn unsubscribe(&self) {
        let mut state = self.state.lock().unwrap();
        let mut questions = state.questions.iter_mut();
        if let Some((id, oldest)) = questions.find(|it| it.1.until.is_none()) {
            oldest.until = Some(clock::now());
            self.say(Action::Unsubscribe(Unsubscribe { id: *id }));
        }
    }

    /// Whether what was said last still holds.
    pub(super) fn look(&self, stage: &Stage) {
        let heard = self.state.lock().unwrap();
        if !heard.is_open || heard.is_over {
            return;
        }
        let now = clock::now();
        let mut said = Vec::new();
        for (id, it) in &heard.questions {
            if it.until.is_some() || it.is_refused {
                continue;
            }
            let question = &stage.questions[it.question];
            match &it.last {
                Some(last) => said.push((question, last)),
                None if it.since + FIRST < now => {
                    let what = format_args!("question {id} of a stream, {question:?}");
                    stage.note(what, Err(format!("no answer since {}", it.since)));
                }
                None => {}
            }
        }
        let verdicts = stage.judge.last(&said, now);
        for ((question, last), verdict) in said.iter().zip(verdicts) {
            let what = format_args!("the last answer on a stream to {question:?}, {last:?}");
            stage.note(what, verdict);
            let namespace = &question.connector.0;
            stage.note(what, stage.judge.may_watch(&heard.owners, namespace, now));
        }
    }
}

/// The side of a stream that hears.
struct Reader {
    stage: Arc<Stage>,
    state: Arc<Mutex<State>>,
    token: usize,
    place: usize,
    opened: Timestamp,
}

impl Reader {
    async fn read(self, said: mpsc::UnboundedReceiver<WatchAccessRequest>) {
        let said = UnboundedReceiverStream::new(said);
        let request = with_token(said, self.token);
        let opened = self.stage.client(self.token).watch_access(request).await;
        let result = match opened {
            Ok(response) => self.hear(response.into_inner()).await,
            Err(status) => Err(status),
        };
        self.stage.give_back(self.place);
        self.state.lock().unwrap().is_over = true;
        let status = match result {
            Ok(()) => {
                return self
                    .stage
                    .note("a stream", Err("ends by itself".to_owned()));
            }
            Err(status) => status,
        };
        let now = clock::now();
        if Reason::of(&status) == Some(Reason::StreamTooOld) && self.opened + AGE <= now {
            return self.stage.count("StreamTooOld");
        }
        let when = While {
            from: now
                .min(self.opened + Duration::from_secs(12))
                .max(now - Duration::from_secs(1)),
            to: now,
        };
        let what = format_args!("a stream since {}", self.opened);
        let about = (self.token, "", true);
        self.stage.refused(what, &status, self.place, about, when);
    }

    async fn hear(&self, mut heard: Streaming<WatchAccessResponse>) -> Result<(), Status> {
        {
            let mut state = self.state.lock().unwrap();
            state.is_open = true;
            let from = self.opened - Duration::from_secs(12);
            let api = self.stage.judge.api.state();
            state.owners = api.callers.owners(self.token, from, clock::now());
        }
        while let Some(WatchAccessResponse { id, event }) = heard.message().await? {
            self.event(id, event);
        }
        Ok(())
    }

    fn event(&self, id: u64, event: Option<Event>) {
        let now = clock::now();
        let stage = &self.stage;
        let mut heard = self.state.lock().unwrap();
        let owners = heard.owners.clone();
        let it = heard.questions.get_mut(&id).unwrap();
        let question = &stage.questions[it.question];
        let what = format_args!("question {id} of a stream, {question:?}");
        if it.until.is_some_and(|until| until < now) || it.is_refused {
            stage.note(what, Err("is told of though it is over".to_owned()));
        }
        let namespace = &question.connector.0;
        match event.unwrap() {
            Event::Answer(answer) => {
                let answer = AccessAnswer::try_from(answer).unwrap();
                stage.count_answer("stream", &answer);
                if it.last.is_some() {
                    stage.count("news on a stream");
                }
                let when = While { from: now, to: now };
                let verdict = stage.judge.answer(question, &answer, when);
                stage.note(format_args!("{what}: {answer:?}"), verdict);
                stage.note(what, stage.judge.may_watch(&owners, namespace, now));
                it.last = Some(answer);
            }
            Event::Refusal(refusal) => {
                stage.count("refusal on a stream");
                it.is_refused = true;
                let reason = Reason::from_word(&refusal.reason);
                let is_right = reason == Some(Reason::NamespaceForbidden)
                    && stage.judge.may_not_watch(&owners, namespace, now);
                let verdict = if is_right {
                    Ok(())
                } else {
                    Err(format!("{refusal:?}"))
                };
                stage.note(what, verdict);
            }
        }
    }
}
