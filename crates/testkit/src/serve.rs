//! One call from its arrival to its answer: it is numbered, given its fault, executed, and logged.

use std::{future::pending, io, sync::Arc, time::Duration};

use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Bytes;
use kube::client::Body;
use serde_json::Value;
use tokio::{
    task::yield_now,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    caller::Caller,
    dispatch::{self, Answer},
    events::Events,
    faults::{CallFault, CallPoint, Verb},
    garbage, list, meta,
    record::{CallRecord, What},
    refusal::Refusal,
    request::{Asked, Target},
    state::Shared,
};

/// The limit of waiting for a version that does not exist yet.
const FRESHNESS: Duration = Duration::from_secs(3);

type Sent = Response<UnsyncBoxBody<Bytes, io::Error>>;
type Answered = Result<Sent, io::Error>;

/// Serves one call of a caller.
pub(crate) async fn serve(shared: Arc<Shared>, caller: Caller, request: Request<Body>) -> Answered {
    let (parts, body) = request.into_parts();
    let body = body.collect_bytes().await.map_err(io::Error::other)?;
    let Some(asked) = Asked::of(&parts) else {
        return Ok(refused(&Refusal::method_not_allowed()));
    };
    let mut call = Call::new(shared, caller, asked, &body);
    if call.is_killed() {
        call.note(None, false);
        return pending().await;
    }
    let faults = call.shared.lock().faults.clone();
    call.record.fault = faults.on_call(&call.record.point);
    yield_now().await;
    let answered = match call.record.fault.clone() {
        CallFault::Refuse { code, retry_after } => {
            let refusal = Refusal::of_code(code, retry_after);
            call.record.answer = Some(Arc::new(refusal.status()));
            call.note(Some(code), false);
            Ok(refused(&refusal))
        }
        CallFault::LoseRequest => {
            call.note(None, false);
            Err(io::ErrorKind::ConnectionReset.into())
        }
        CallFault::HangBefore => {
            call.note(None, false);
            pending().await
        }
        CallFault::KillBefore => {
            call.note(None, false);
            call.shared.kill(&call.caller.process);
            pending().await
        }
        CallFault::Delay(time) => {
            // A request on its way arrives even if the caller stops waiting for the answer.
            let late = tokio::spawn(async move {
                sleep(time).await;
                let answered = call.carry_out(true).await;
                (call, answered)
            });
            let (late, answered) = late.await.map_err(io::Error::other)?;
            call = late;
            Ok(answered)
        }
        CallFault::LoseAnswer => {
            call.carry_out(false).await;
            Err(io::ErrorKind::ConnectionReset.into())
        }
        CallFault::HangAfter => {
            call.carry_out(false).await;
            pending().await
        }
        CallFault::KillAfter => {
            call.carry_out(false).await;
            call.shared.kill(&call.caller.process);
            pending().await
        }
        CallFault::Garbage => {
            call.carry_out(true).await;
            Ok(json_response(
                200,
                Bytes::from_static(b"<html>not the API server</html>"),
            ))
        }
        CallFault::None => Ok(call.carry_out(true).await),
    };
    yield_now().await;
    if call.is_killed() {
        call.unanswered();
        return pending().await;
    }
    call.is_answered = true;
    answered
}

/// A call in progress. When the caller stops waiting, the log says that there was no answer.
struct Call {
    shared: Arc<Shared>,
    caller: Caller,
    asked: Asked,
    /// The parse error of a body that is not JSON.
    unreadable: Option<String>,
    record: CallRecord,
    /// Its position in the log.
    noted: Option<usize>,
    is_answered: bool,
}

impl Call {
    fn new(shared: Arc<Shared>, caller: Caller, asked: Asked, body: &Bytes) -> Self {
        let parsed = (!body.is_empty()).then(|| serde_json::from_slice::<Value>(body));
        let (body, unreadable) = match parsed {
            None => (None, None),
            Some(Ok(body)) => (Some(Arc::new(body)), None),
            Some(Err(error)) => (None, Some(error.to_string())),
        };
        let mut point = CallPoint {
            process: caller.process.clone(),
            user: caller.user.clone(),
            verb: asked.verb,
            resource: String::new(),
            subresource: None,
            namespace: String::new(),
            name: String::new(),
            nth: 0,
            index: 0,
        };
        match &asked.target {
            Target::Path(path) => point.resource.clone_from(path),
            Target::Resource(on) => {
                let in_body = body.as_deref().map_or("", meta::name);
                let name = if on.name.is_empty() {
                    in_body
                } else {
                    &on.name
                };
                point.resource.clone_from(&on.plural);
                point.subresource = (!on.subresource.is_empty()).then(|| on.subresource.clone());
                point.namespace.clone_from(&on.namespace);
                name.clone_into(&mut point.name);
            }
        }
        let mut state = shared.lock();
        let record = CallRecord {
            point: state.number_call(point),
            query: asked.query.clone(),
            begun: state.store.clock.elapsed(),
            body,
            code: None,
            carried_out: false,
            fault: CallFault::None,
            answer: None,
        };
        drop(state);
        Self {
            shared,
            caller,
            asked,
            unreadable,
            record,
            noted: None,
            is_answered: false,
        }
    }

    fn is_killed(&self) -> bool {
        self.shared.lock().killed.contains(&self.caller.process)
    }

    async fn carry_out(&mut self, is_answered: bool) -> Sent {
        let streams_list = self.asked.is_set("sendInitialEvents");
        if matches!(self.asked.verb, Verb::Get | Verb::List) || streams_list {
            self.wait_until_fresh().await;
        }
        if self.is_killed() {
            self.note(None, false);
            return pending().await;
        }
        let answer = if let Some(error) = &self.unreadable {
            Err(Refusal::bad_request(error.clone()))
        } else {
            let mut state = self.shared.lock();
            let body = self.record.body.as_deref();
            dispatch::answer(&mut state, &self.caller, &self.asked, body)
        };
        let (code, mut response) = match answer {
            Err(refusal) => {
                self.record.answer = Some(Arc::new(refusal.status()));
                (refusal.code(), refused(&refusal))
            }
            Ok(Answer::Object(code, object)) => {
                let text = Bytes::from(object.to_string());
                self.record.answer = Some(object);
                (code, json_response(code, text))
            }
            Ok(Answer::NoSuchPath) => (404, text_response(404, "404 page not found\n")),
            Ok(Answer::Watch(watch, gone)) => {
                let events = Events::new(self.shared.clone(), self.caller.clone(), *watch, gone);
                (200, stream_response(events))
            }
        };
        let time = self.shared.lock().store.clock.http_date();
        if let Ok(time) = http::HeaderValue::from_str(&time) {
            response.headers_mut().insert(http::header::DATE, time);
        }
        self.note(is_answered.then_some(code), true);
        if self.asked.verb.writes() {
            self.shared.changed.notify_waiters();
            garbage::collect_soon(&self.shared);
        }
        response
    }

    /// A read with a minimum version waits for it, but only for a short time.
    async fn wait_until_fresh(&self) {
        let wanted = list::not_older_than(&self.asked);
        let until = Instant::now() + FRESHNESS;
        while wanted > self.shared.lock().visible(&self.caller.process) && Instant::now() < until {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            let soon = Instant::now() + Duration::from_millis(50);
            tokio::select! {
                biased;
                () = changed => {}
                () = sleep_until(soon.min(until)) => {}
            }
        }
    }

    /// Writes the call into the log.
    fn note(&mut self, code: Option<u16>, carried_out: bool) {
        self.record.code = code;
        self.record.carried_out = carried_out;
        let mut state = self.shared.lock();
        self.noted = Some(state.store.log.len());
        state.store.note(What::Call(self.record.clone()));
    }

    /// Marks the logged call as not answered.
    fn unanswered(&mut self) {
        let mut state = self.shared.lock();
        let entry = self.noted.and_then(|it| state.store.log.get_mut(it));
        if let Some(What::Call(record)) = entry.map(|it| &mut it.what) {
            record.code = None;
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.noted.is_none() {
            self.note(None, false);
        } else if !self.is_answered {
            self.unanswered();
        }
    }
}

fn refused(refusal: &Refusal) -> Sent {
    let text = Bytes::from(refusal.status().to_string());
    let mut response = json_response(refusal.code(), text);
    if let Some(seconds) = refusal.retry_after() {
        let headers = response.headers_mut();
        headers.insert(http::header::RETRY_AFTER, seconds.into());
    }
    response
}

fn json_response(code: u16, body: Bytes) -> Sent {
    whole(code, "application/json", body)
}

fn text_response(code: u16, body: &'static str) -> Sent {
    let body = Bytes::from_static(body.as_bytes());
    whole(code, "text/plain; charset=utf-8", body)
}

fn whole(code: u16, content_type: &'static str, body: Bytes) -> Sent {
    let body = Full::new(body).map_err(|never| match never {});
    response(code, content_type, body.boxed_unsync())
}

fn stream_response(events: Events) -> Sent {
    let body = StreamBody::new(events.into_stream());
    response(200, "application/json", UnsyncBoxBody::new(body))
}

fn response(code: u16, content_type: &'static str, body: UnsyncBoxBody<Bytes, io::Error>) -> Sent {
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).expect("a status has three digits");
    let content_type = http::HeaderValue::from_static(content_type);
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, content_type);
    response
}
