//! An API server in virtual time that lists in small pages, tells changes, and fails as it is told to.

mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::{StreamExt, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::{Bytes, Frame};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::callers::Callers;
use super::cluster::{Cluster, Key, Kind};
use crate::clock;
use watch::{Connection, End, Open, Said, Watched, gone};

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// Objects of a page. Whoever asks for more gets no more.
const PAGE: usize = 3;

/// How a list goes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ListPlan {
    /// Before each page.
    pub(super) wait: Duration,
    /// What becomes of a page.
    pub(super) fault: Option<(usize, ListFault)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ListFault {
    Fails,
    Expired,
    Hangs,
    Breaks,
}

/// What becomes of an open watch.
#[derive(Clone, Copy, Debug)]
pub(super) enum WatchFault {
    /// The connection is lost without a word, and with it what was on its way.
    Silence,
    /// It ends, and what was on its way is lost.
    Cut,
    /// It ends with an error of the connection.
    Breaks,
    /// It tells that its version is too old.
    Gone,
    /// The next change comes as a line that is none.
    Garbage,
    /// What comes next comes this late.
    Lag(Duration),
    /// Nothing comes but changes.
    NoBookmarks,
}

/// How reviews go.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReviewPlan {
    pub(super) wait: Duration,
    pub(super) fails: bool,
}

struct Snapshot {
    kind: Kind,
    items: Vec<Value>,
    version: usize,
    as_of: Timestamp,
    plan: ListPlan,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) cluster: Cluster,
    pub(super) callers: Callers,
    open: Vec<Open>,
    lists: BTreeMap<usize, Snapshot>,
    list_plans: BTreeMap<Kind, VecDeque<ListPlan>>,
    refusals: BTreeMap<Kind, u16>,
    compacted: usize,
    reviews: ReviewPlan,
    /// When a review last went wrong or was late.
    pub(super) review_trouble: Option<Timestamp>,
}

/// The server. Clones are the same one.
#[derive(Clone, Default)]
pub(super) struct Api(Arc<Mutex<State>>);

impl Api {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.serve(request).await) }
        });
        kube::Client::new(service, "default")
    }

    async fn serve(&self, request: Request<Body>) -> Answer {
        let path = request.uri().path().to_owned();
        let plural = path.rsplit('/').next().unwrap();
        if *request.method() == Method::POST {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let review = serde_json::from_slice(&body).unwrap();
            return self.review(plural, review).await;
        }
        let kind = Kind::of_plural(plural);
        let query = request.uri().query().unwrap_or_default();
        let parameter = |name: &str| {
            let mut pairs = query.split('&').filter_map(|it| it.split_once('='));
            pairs.find(|it| it.0 == name).map(|it| it.1.to_owned())
        };
        if parameter("watch").is_some() {
            let version = parameter("resourceVersion").unwrap();
            return self.watch(kind, Cluster::of_resource_version(&version));
        }
        self.list(kind, parameter("continue")).await
    }

    async fn review(&self, plural: &str, mut review: Value) -> Answer {
        let plan = self.state().reviews;
        // What is true when it is asked is what is answered, however late.
        review["status"] = match plural {
            "tokenreviews" => {
                let token = review["spec"]["token"].as_str().unwrap();
                self.state().callers.review_token(token)
            }
            "subjectaccessreviews" => self.state().callers.review_access(&review["spec"]),
            other => panic!("nobody reviews {other}"),
        };
        let ReviewPlan { wait, fails } = plan;
        if fails || !wait.is_zero() {
            self.state().review_trouble = Some(clock::now() + wait);
        }
        sleep(wait).await;
        if fails {
            return status(500, "InternalError");
        }
        answer(201, review.to_string())
    }

    async fn list(&self, kind: Kind, next: Option<String>) -> Answer {
        let (id, page) = match next {
            Some(next) => {
                let (id, page) = next.split_once('-').unwrap();
                (id.parse().unwrap(), page.parse::<usize>().unwrap())
            }
            None => (self.state().begin_list(kind), 0),
        };
        let plan = self.state().lists[&id].plan;
        sleep(plan.wait).await;
        let fault = plan.fault.filter(|it| it.0 == page).map(|it| it.1);
        match fault {
            Some(ListFault::Fails) => return status(500, "InternalError"),
            Some(ListFault::Expired) => return status(410, "Expired"),
            Some(ListFault::Hangs) => pending().await,
            Some(ListFault::Breaks) | None => {}
        }
        let text = self.state().page(id, page, fault.is_none());
        let cut = if fault.is_some() {
            text.len() / 2
        } else {
            text.len()
        };
        answer(200, text[..cut].to_owned())
    }

    fn watch(&self, kind: Kind, since: usize) -> Answer {
        let mut state = self.state();
        if let Some(code) = state.refusals.remove(&kind) {
            return status(code, "TooManyRequests");
        }
        if since < state.compacted {
            return answer(200, format!("{}\n", gone()));
        }
        let (sender, items) = mpsc::unbounded_channel();
        let connection = Arc::new(Mutex::new(Connection::default()));
        let open = Open {
            kind,
            items: sender,
            state: Arc::clone(&connection),
        };
        for (version, event, object) in state.cluster.events(kind, since) {
            open.tell(event, &object, version);
        }
        state.open.push(open);
        let watched = Watched {
            api: self.clone(),
            kind,
            items,
            connection,
            rest: None,
        };
        let frames = stream::unfold(watched, async |mut watched| {
            let frame = watched.next().await?;
            Some((frame.map(|text| Frame::data(Bytes::from(text))), watched))
        });
        Response::new(BodyExt::boxed_unsync(StreamBody::new(frames.boxed())))
    }
}

impl State {
    pub(super) fn write(&mut self, kind: Kind, key: Key, object: Option<Value>, is_readable: bool) {
        let Some((event, object)) = self.cluster.write(kind, key, object, is_readable) else {
            return;
        };
        let version = self.cluster.version();
        self.open.retain(|it| !it.items.is_closed());
        for open in self.open.iter().filter(|it| it.kind == kind) {
            open.tell(event, &object, version);
        }
    }

    pub(super) fn plan_list(&mut self, kind: Kind, plan: ListPlan) {
        self.list_plans.entry(kind).or_default().push_back(plan);
    }

    pub(super) fn refuse_watch(&mut self, kind: Kind, code: u16) {
        self.refusals.insert(kind, code);
    }

    pub(super) fn plan_reviews(&mut self, plan: ReviewPlan) {
        self.reviews = plan;
    }

    pub(super) fn compact(&mut self) {
        self.compacted = self.cluster.version();
    }

    /// Nothing more goes wrong but what went wrong already.
    pub(super) fn recover(&mut self) {
        self.list_plans.clear();
        self.refusals.clear();
        self.reviews = ReviewPlan::default();
    }

    pub(super) fn disturb(&mut self, kind: Kind, fault: WatchFault) {
        self.open.retain(|it| !it.items.is_closed());
        for open in self.open.iter().filter(|it| it.kind == kind) {
            match fault {
                WatchFault::Gone => open.send(Said::Line(format!("{}\n", gone())), None),
                WatchFault::Breaks => open.send(Said::Broken, None),
                WatchFault::Silence
                | WatchFault::Cut
                | WatchFault::Garbage
                | WatchFault::Lag(_)
                | WatchFault::NoBookmarks => {}
            }
            let mut state = open.state.lock().unwrap();
            match fault {
                WatchFault::Silence => state.end = Some(End::Silent),
                WatchFault::Cut => state.end = Some(End::Cut),
                WatchFault::Lag(lag) => state.lag = lag,
                WatchFault::NoBookmarks => state.no_bookmarks = true,
                WatchFault::Garbage => state.garbles = true,
                WatchFault::Gone | WatchFault::Breaks => {}
            }
        }
        if matches!(fault, WatchFault::Cut) {
            // Whoever waits for the next line hears of the end.
            self.open.retain(|it| it.kind != kind);
        }
    }

    fn begin_list(&mut self, kind: Kind) -> usize {
        let plan = self.list_plans.entry(kind).or_default().pop_front();
        let id = self.lists.len();
        let snapshot = Snapshot {
            kind,
            items: self.cluster.objects(kind),
            version: self.cluster.version(),
            as_of: clock::now(),
            plan: plan.unwrap_or_default(),
        };
        self.lists.insert(id, snapshot);
        id
    }

    fn page(&mut self, id: usize, page: usize, is_whole: bool) -> String {
        let list = &self.lists[&id];
        let items: Vec<_> = list.items.iter().skip(page * PAGE).take(PAGE).collect();
        let is_last = list.items.len() <= (page + 1) * PAGE;
        let mut metadata = json!({"resourceVersion": Cluster::resource_version(list.version)});
        if !is_last {
            metadata["continue"] = format!("{id}-{}", page + 1).into();
        }
        let text = json!({"metadata": metadata, "items": items}).to_string();
        if is_last && is_whole {
            let (kind, version, as_of) = (list.kind, list.version, list.as_of);
            self.cluster.show(kind, version, as_of);
        }
        text
    }
}

fn status(code: u16, reason: &str) -> Answer {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "so it was planned", "reason": reason, "code": code,
    });
    answer(code, body.to_string())
}

fn answer(code: u16, body: String) -> Answer {
    let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
    let mut response = Response::new(BodyExt::boxed_unsync(body));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}
