//! Runs a script on a server, and records the answers.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::kinds::Resource;
use super::memory::Memory;
use super::normalise::{Seen, counts};
use super::step::{Action, Ask, Expected, Script, Step, TokenWish, Until, Who};
use super::transcript::{Transcript, describe};

/// The limit for anything that the server does asynchronously.
const PATIENCE: Duration = Duration::from_secs(90);
/// The limit for an answer or an awaited event.
const ANSWER: Duration = Duration::from_secs(20);
/// The time that a watch must stay silent after the awaited events.
const SILENCE: Duration = Duration::from_millis(300);
/// The pause between two polls.
const PAUSE: Duration = Duration::from_millis(50);

/// A server on which the script can run.
pub trait Server {
    /// A client for this caller.
    fn client(&self, who: &Who) -> Client;
    /// Returns when a new namespace has everything that controllers create in it.
    fn await_namespace(&self, name: &str) -> impl Future<Output = ()>;
    /// Issues a token of a service account that is bound to a pod.
    fn issue_token(&self, wish: &TokenWish) -> impl Future<Output = String>;
    /// Removes a kind with its objects.
    fn remove_kind(&self, kind: &Resource) -> impl Future<Output = ()>;
    /// Discards the history as far as possible: version 1 must be too old afterwards.
    fn forget_history(&self);
}

/// Runs the whole script. `run` must be a word that no other run on the same server uses.
pub async fn run<S: Server>(server: &S, script: &Script, run: &str) -> Transcript {
    let mut runner = Runner {
        server,
        run,
        clients: BTreeMap::new(),
        memory: Memory::default(),
        seen: Seen::default(),
        streams: BTreeMap::new(),
    };
    let mut transcript = Transcript::default();
    let mut group = "";
    for (index, step) in script.steps.iter().enumerate() {
        if step.group != group {
            group = step.group;
            runner.seen.forget();
        }
        let answer = runner.step(step).await;
        let hidden = answer.iter().map(|line| runner.seen.hide(line, run));
        transcript.push(describe(index, step), hidden.collect());
    }
    transcript
}

struct Runner<'a, S> {
    server: &'a S,
    run: &'a str,
    clients: BTreeMap<Who, Client>,
    memory: Memory,
    seen: Seen,
    streams: BTreeMap<&'static str, Stream>,
}

impl<S: Server> Runner<'_, S> {
    async fn step(&mut self, step: &Step) -> Vec<String> {
        match &step.action {
            Action::Ask(ask) => self.ask(step, ask, None).await,
            Action::AskUntil(ask, until) => self.ask(step, ask, Some(*until)).await,
            Action::Open(stream, ask) => self.open(step, stream, ask).await,
            Action::Read(stream, expected) => self.read(step, stream, *expected).await,
            Action::Close(stream) => {
                self.streams.remove(stream);
                Vec::new()
            }
            Action::AwaitNamespace(name) => {
                let name = self.memory.fill(name, self.run);
                self.server.await_namespace(&name).await;
                Vec::new()
            }
            Action::IssueToken(wish) => {
                let token = self
                    .server
                    .issue_token(&self.memory.fill_wish(wish, self.run))
                    .await;
                self.memory.keep_token(step, token);
                Vec::new()
            }
            Action::RemoveKind(kind) => {
                self.server.remove_kind(kind).await;
                Vec::new()
            }
            Action::ForgetHistory => {
                self.server.forget_history();
                Vec::new()
            }
        }
    }

    /// Sends a request, and repeats it until the answer is the awaited one.
    async fn ask(&mut self, step: &Step, ask: &Ask, until: Option<Until>) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = match timeout(ANSWER, self.whole(step, ask)).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(error)) => return vec![error],
                Err(_) => return vec!["no answer in time".to_owned()],
            };
            let (code, text) = answer;
            let body = serde_json::from_str::<Value>(&text);
            let is_awaited = match until {
                None => true,
                Some(Until::Code(wanted)) => code == wanted,
                Some(Until::No) => body.as_ref().is_ok_and(says_no),
                Some(Until::Marked) => body.as_ref().is_ok_and(is_marked),
            };
            if !is_awaited && Instant::now() < deadline {
                sleep(PAUSE).await;
                continue;
            }
            let Ok(body) = body else {
                let line = text.lines().next().unwrap_or_default().to_owned();
                return vec![format!("{code} text {line}")];
            };
            self.memory.keep(step, ask, &body);
            return self.seen.answer(code, &body, step.shows_managers);
        }
    }

    async fn whole(&mut self, step: &Step, ask: &Ask) -> Result<(u16, String), String> {
        let response = self.send(step, ask).await?;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await;
        let bytes = bytes.map_err(|error| format!("the answer broke off: {error}"))?;
        Ok((
            code,
            String::from_utf8_lossy(&bytes.to_bytes()).into_owned(),
        ))
    }

    async fn send(&mut self, step: &Step, ask: &Ask) -> Result<Response<Body>, String> {
        let request = self.request(ask).map_err(|error| error.to_string())?;
        let who = self.memory.fill_who(&step.who, self.run);
        let client = self.clients.entry(who);
        let client = client
            .or_insert_with_key(|who| self.server.client(who))
            .clone();
        let answer = client.send(request).await;
        answer.map_err(|error| format!("no answer: {error}"))
    }

    fn request(&self, ask: &Ask) -> Result<Request<Body>, http::Error> {
        let mut uri = self.memory.fill(&ask.path, self.run);
        for (index, (name, value)) in ask.query.iter().enumerate() {
            uri.push(if index == 0 { '?' } else { '&' });
            uri.push_str(name);
            uri.push('=');
            uri.push_str(&encoded(&self.memory.fill(value, self.run)));
        }
        let body = match &ask.body {
            Some(body) => self
                .memory
                .fill(&body.to_string(), self.run)
                .into_bytes()
                .into(),
            None => Body::empty(),
        };
        Request::builder()
            .method(ask.method)
            .uri(uri)
            .header(http::header::CONTENT_TYPE, ask.content_type)
            .header(http::header::ACCEPT, "application/json")
            .header(http::header::USER_AGENT, "script")
            .body(body)
    }

    async fn open(&mut self, step: &Step, stream: &'static str, ask: &Ask) -> Vec<String> {
        let response = match timeout(ANSWER, self.send(step, ask)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return vec![error],
            Err(_) => return vec!["no answer in time".to_owned()],
        };
        let code = response.status().as_u16();
        if code == 200 {
            self.streams
                .insert(stream, Stream::new(response.into_body()));
            return vec!["200".to_owned()];
        }
        let Ok(body) = response.into_body().collect().await else {
            return vec![format!("{code} and the answer broke off")];
        };
        let body = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
        self.seen.answer(code, &body, false)
    }

    async fn read(&mut self, step: &Step, stream: &'static str, expected: Expected) -> Vec<String> {
        let Some(open) = self.streams.get_mut(stream) else {
            return vec!["no such watch".to_owned()];
        };
        let (events, end) = open.read(expected).await;
        let mut events: Vec<_> = events.iter().filter(|event| counts(event)).collect();
        if step.any_order {
            events.sort_by_key(|event| event["object"]["metadata"]["name"].to_string());
        }
        let mut lines: Vec<_> = events
            .into_iter()
            .map(|event| self.seen.event(event))
            .collect();
        lines.push(end.to_owned());
        lines
    }
}

/// True when a token review does not authenticate the token.
fn says_no(review: &Value) -> bool {
    review.pointer("/status/authenticated") != Some(&Value::Bool(true))
}

fn is_marked(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// Escapes everything but letters, digits and `-._`: allowed everywhere, and readable enough.
fn encoded(value: &str) -> String {
    let bytes = value.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    });
    bytes.collect()
}

/// An open watch.
struct Stream {
    body: Body,
    rest: Vec<u8>,
    lines: VecDeque<Value>,
}

impl Stream {
    fn new(body: Body) -> Self {
        Self {
            body,
            rest: Vec::new(),
            lines: VecDeque::new(),
        }
    }

    /// The events until enough were read, and the state of the stream afterwards.
    async fn read(&mut self, expected: Expected) -> (Vec<Value>, &'static str) {
        let mut events = Vec::new();
        let limit = Instant::now() + ANSWER;
        loop {
            let enough = match expected {
                Expected::Events(count) => count_of(&events) >= count,
                Expected::End => false,
            };
            let deadline = if enough {
                Instant::now() + SILENCE
            } else {
                limit
            };
            match timeout_at(deadline, self.next()).await {
                Ok(Some(event)) => events.push(event),
                Ok(None) => return (events, "(ended)"),
                Err(_) if enough => return (events, "(open)"),
                Err(_) => return (events, "(nothing more in time)"),
            }
        }
    }

    /// The next event; none when the stream has ended.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.lines.pop_front() {
                return Some(event);
            }
            let frame = self.body.frame().await?.ok()?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            self.rest.extend_from_slice(&data);
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let event = serde_json::from_slice(&line);
                self.lines.push_back(event.unwrap_or(Value::Null));
            }
        }
    }
}

fn count_of(events: &[Value]) -> usize {
    events.iter().filter(|event| counts(event)).count()
}
