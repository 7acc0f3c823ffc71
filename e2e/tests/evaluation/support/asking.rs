//! Three askers that repeat the same question without pause, and give all answers to the judge: over the
//! socket, where answers depend on the caches alone; with a token, which has to be reviewed; and on streams.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use e2e::checker::now;
use evaluation_api::access::AccessQuestion;
use evaluation_api::client::Client as Asker;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tonic::transport::{Channel, Endpoint, Uri};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::judge::{Judge, Seen};

/// Pauses between two questions of one asker.
const PAUSE: Duration = Duration::from_millis(25);

pub(super) struct Asking {
    socket: Heard,
    caller: Heard,
    streams: [Heard; 2],
    stop: watch::Sender<bool>,
    running: Vec<JoinHandle<()>>,
}

/// The last answer of one asker.
type Heard = watch::Receiver<Option<Seen>>;

impl Asking {
    pub(super) fn start(
        judge: &Arc<Judge>,
        question: &AccessQuestion,
        local: &Asker,
        remote: &Asker,
        socket: PathBuf,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let mut running = Vec::new();
        let mut run = |asker: &Asker, kind: Kind| {
            let (say, heard) = watch::channel(None);
            let (asker, judge) = (asker.clone(), Arc::clone(judge));
            let (question, stopped) = (question.clone(), stopped.clone());
            running.push(tokio::spawn(async move {
                match kind {
                    Kind::Calls(health) => {
                        ask(&asker, health, &question, &judge, &say, stopped).await;
                    }
                    Kind::Stream => follow(&asker, &question, &judge, &say, stopped).await,
                }
            }));
            heard
        };
        let health = Some(health(socket));
        Self {
            socket: run(local, Kind::Calls(health)),
            caller: run(remote, Kind::Calls(None)),
            streams: [run(local, Kind::Stream), run(remote, Kind::Stream)],
            stop,
            running,
        }
    }

    pub(super) async fn until_socket(&self, seen: Seen, limit: Duration) {
        heard(&self.socket, "over the socket", seen, limit).await;
    }

    pub(super) async fn until_caller(&self, seen: Seen, limit: Duration) {
        heard(&self.caller, "with a token", seen, limit).await;
    }

    pub(super) async fn until_streams(&self, seen: Seen, limit: Duration) {
        let [one, two] = &self.streams;
        tokio::join!(
            heard(one, "on a stream over the socket", seen, limit),
            heard(two, "on a stream with a token", seen, limit),
        );
    }

    pub(super) async fn until_all(&self, seen: Seen, limit: Duration) {
        tokio::join!(
            heard(&self.socket, "over the socket", seen, limit),
            heard(&self.caller, "with a token", seen, limit),
            self.until_streams(seen, limit),
        );
    }

    /// Ends after all answers until now have been judged.
    pub(super) async fn stop(&self) {
        self.stop.send_replace(true);
        while !self.running.iter().all(JoinHandle::is_finished) {
            sleep(PAUSE).await;
        }
    }
}

enum Kind {
    /// Calls, and between them the question whether there are answers.
    Calls(Option<HealthClient<Channel>>),
    Stream,
}

async fn heard(heard: &Heard, where_: &str, wanted: Seen, limit: Duration) {
    let mut heard = heard.clone();
    let found = timeout(limit, heard.wait_for(|seen| *seen == Some(wanted)))
        .await
        .is_ok();
    let last = *heard.borrow();
    assert!(
        found,
        "waited {limit:?} for {wanted:?} {where_}, last heard {last:?}"
    );
}

async fn ask(
    asker: &Asker,
    mut health: Option<HealthClient<Channel>>,
    question: &AccessQuestion,
    judge: &Judge,
    say: &watch::Sender<Option<Seen>>,
    stopped: watch::Receiver<bool>,
) {
    while !*stopped.borrow() {
        let before = serves(&mut health).await;
        let sent = now();
        let answer = asker.check_access(question.clone()).await;
        let seen = judge.answer(sent, answer.as_ref());
        let after = serves(&mut health).await;
        let is_answer = matches!(seen, Seen::Allowed | Seen::AllowedThen | Seen::Denied);
        // Between two that differ either is right.
        if before == after && before.is_some_and(|serves| serves != is_answer) {
            judge.wrong(format!(
                "health said {before:?}, and the answer was {answer:?}"
            ));
        }
        say.send_replace(Some(seen));
        sleep(PAUSE).await;
    }
}

async fn follow(
    asker: &Asker,
    question: &AccessQuestion,
    judge: &Judge,
    say: &watch::Sender<Option<Seen>>,
    stopped: watch::Receiver<bool>,
) {
    let mut followed = asker.watcher().watch(question.clone());
    while !*stopped.borrow() {
        if let Some(event) = followed.latest() {
            say.send_replace(Some(judge.stands(&event)));
        }
        // Looked at in between, because a yes counts until something else is said.
        let _ = timeout(PAUSE * 4, followed.next()).await;
    }
}

async fn serves(health: &mut Option<HealthClient<Channel>>) -> Option<bool> {
    let asked = health.as_mut()?.check(HealthCheckRequest::default()).await;
    let status = asked.ok()?.into_inner().status();
    Some(status == ServingStatus::Serving)
}

fn health(socket: PathBuf) -> HealthClient<Channel> {
    let connector = tower::service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    HealthClient::new(endpoint.connect_with_connector_lazy(connector))
}
