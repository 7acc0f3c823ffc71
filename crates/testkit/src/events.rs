//! The stream of a watch: waits for lines, applies faults to them, and sends them.

use std::{future::pending, sync::Arc, time::Duration};

use futures::{Stream, stream};
use hyper::body::{Bytes, Frame};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    caller::Caller,
    faults::{EventFault, EventPoint},
    meta,
    record::{SentRecord, What},
    refusal::{Reason, Refusal},
    state::Shared,
    watch::{Line, Watch, error_line},
};

/// The interval of bookmarks.
const BETWEEN_BOOKMARKS: Duration = Duration::from_mins(1);
/// The time between the last bookmark and the end of the watch.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// A running watch.
pub(crate) struct Events {
    shared: Arc<Shared>,
    caller: Caller,
    watch: Watch,
    /// The number of removals of the kind at the start of the watch.
    gone: usize,
    ends: Instant,
    bookmark: Option<Instant>,
    /// A line that is sent a second time, without asking for faults.
    again: Option<Line>,
    /// A line was dropped, and the client is to learn of it.
    lost: bool,
    over: bool,
}

/// The next step of the stream.
enum Next {
    Line(Line, EventPoint),
    Wait(Instant),
    End,
    Dead,
}

impl Events {
    pub(crate) fn new(shared: Arc<Shared>, caller: Caller, watch: Watch, gone: usize) -> Self {
        let ends = Instant::now() + watch.lasts;
        let mut events = Self {
            shared,
            caller,
            gone,
            ends,
            bookmark: None,
            again: None,
            lost: false,
            over: false,
            watch,
        };
        events.bookmark = events.next_bookmark();
        events
    }

    /// The lines as a response body.
    pub(crate) fn into_stream(self) -> impl Stream<Item = std::io::Result<Frame<Bytes>>> {
        stream::unfold(self, |mut events| async {
            let text = events.next().await?;
            Some((Ok(Frame::data(Bytes::from(text))), events))
        })
    }

    async fn next(&mut self) -> Option<String> {
        if self.over {
            return None;
        }
        if let Some(refusal) = self.watch.expired.take() {
            return Some(self.end_with(&refusal));
        }
        if self.is_killed() {
            return pending().await;
        }
        if let Some(line) = self.again.take() {
            return Some(self.text(&line));
        }
        loop {
            let shared = self.shared.clone();
            // Enabled before `look`, so that a change after it wakes the stream.
            let mut changed = std::pin::pin!(shared.changed.notified());
            changed.as_mut().enable();
            match self.look() {
                Next::Line(line, point) => {
                    let fault = if self.lost {
                        EventFault::Gone
                    } else {
                        self.fault(&point)
                    };
                    if let EventFault::Delay(time) = fault {
                        sleep(time).await;
                        if self.is_killed() {
                            return pending().await;
                        }
                    }
                    self.note(&line, point, &fault);
                    if let Some(sent) = self.send(line, fault).await {
                        return sent;
                    }
                }
                Next::Wait(until) => {
                    tokio::select! {
                        biased;
                        () = changed => {}
                        () = sleep_until(until) => {}
                    }
                }
                Next::End => return None,
                Next::Dead => pending().await,
            }
        }
    }

    fn look(&mut self) -> Next {
        let mut state = self.shared.lock();
        if state.killed.contains(&self.caller.process) {
            return Next::Dead;
        }
        let now = Instant::now();
        let visible = state.visible(&self.caller.process);
        self.watch.advance(&state.store, visible);
        let due = self.bookmark.is_some_and(|at| at <= now);
        let line = self
            .watch
            .lines
            .pop_front()
            .or_else(|| due.then(|| self.watch.bookmark(false)));
        if due && line.is_some() {
            self.bookmark = self.next_bookmark();
        }
        let place = (
            self.watch.kind.group.clone(),
            self.watch.kind.plural.clone(),
        );
        if let Some(line) = line {
            let at = (
                meta::text(&line.object, "namespace"),
                meta::name(&line.object),
            );
            let point = state.event_point(&self.caller, &place.1, line.kind, at);
            return Next::Line(line, point);
        }
        let gone = state.gone.get(&place).copied().unwrap_or_default();
        if now >= self.ends || gone != self.gone {
            return Next::End;
        }
        let appears = state.visible_at(&self.caller.process, self.watch.position);
        let appears = appears.map(|at| state.store.clock.instant(at));
        let until = [appears, self.bookmark].into_iter().flatten();
        Next::Wait(until.fold(self.ends, Instant::min))
    }

    /// Called without the lock, because the faults may use the server.
    fn fault(&self, point: &EventPoint) -> EventFault {
        let faults = self.shared.lock().faults.clone();
        faults.on_event(point)
    }

    fn note(&self, line: &Line, point: EventPoint, fault: &EventFault) {
        self.shared.lock().store.note(What::Sent(SentRecord {
            point,
            version: line.version,
            fault: fault.clone(),
            object: line.object.clone(),
        }));
    }

    /// None when nothing was sent and the watch continues; `Some(None)` when it is over.
    async fn send(&mut self, line: Line, fault: EventFault) -> Option<Option<String>> {
        match fault {
            EventFault::None | EventFault::Delay(_) => Some(Some(self.text(&line))),
            EventFault::Drop => {
                self.lost = true;
                None
            }
            EventFault::Twice => {
                let text = self.text(&line);
                self.again = Some(line);
                Some(Some(text))
            }
            EventFault::Gone => {
                let refusal = Refusal::new(Reason::Expired, "too old resource version");
                Some(Some(self.end_with(&refusal)))
            }
            EventFault::Close => {
                self.over = true;
                Some(None)
            }
            EventFault::Silence => pending().await,
            EventFault::KillBefore => {
                self.shared.kill(&self.caller.process);
                pending().await
            }
        }
    }

    fn text(&self, line: &Line) -> String {
        line.text(self.watch.shown_as.as_ref())
    }

    fn is_killed(&self) -> bool {
        self.shared.lock().killed.contains(&self.caller.process)
    }

    fn end_with(&mut self, refusal: &Refusal) -> String {
        self.over = true;
        error_line(refusal)
    }

    fn next_bookmark(&self) -> Option<Instant> {
        let now = Instant::now();
        let last = self.ends.checked_sub(LAST_BOOKMARK)?;
        (self.watch.bookmarks && now < last).then(|| (now + BETWEEN_BOOKMARKS).min(last))
    }
}
