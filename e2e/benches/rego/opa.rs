//! Open Policy Agent as people run it: its own server, with the module loaded, asked over its REST API.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use connectors_api::check_state::ObjectState;
use evaluation_api::v1::CheckVerdict;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use serde::Deserialize;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::sleep;

use crate::support::connection::Connection;
use crate::ways::verdict;

/// How long it may take to be there.
const PATIENCE: Duration = Duration::from_secs(20);

/// A process of it, until this is dropped.
pub(crate) struct Opa {
    child: Child,
    address: String,
    socket: PathBuf,
}

/// One connection, kept from question to question.
pub(crate) struct Questions(Connection);

/// Its answer; no `result` if the rule is undefined.
#[derive(Deserialize)]
struct Answer {
    result: Option<Output>,
}

/// The only form of a module's answer that the services accept.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Output {
    state: Option<String>,
    #[serde(rename = "message")]
    _message: Option<String>,
}

impl Opa {
    /// With a module of version 0 of the language, as the sample is one, and without a word per question.
    pub(crate) fn start(program: &Path, module: &str, files: &Path) -> Self {
        let (policy, socket) = (files.join("check.rego"), files.join("opa.socket"));
        std::fs::write(&policy, module).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        // It does not outlive this process, however this ends.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(["run", "--server", "--v0-compatible", "--log-level=error"])
            .args(["--skip-version-check", "--addr", &address])
            .arg(format!("--addr=unix://{}", socket.display()))
            .arg(policy)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            child,
            address,
            socket,
        }
    }

    /// Over the loopback interface, as soon as it is there.
    pub(crate) async fn connect(&self) -> Questions {
        let began = Instant::now();
        loop {
            match TcpStream::connect(&self.address).await {
                Ok(stream) => {
                    stream.set_nodelay(true).unwrap();
                    return Questions(Connection::over(stream).await);
                }
                Err(error) => assert!(began.elapsed() < PATIENCE, "OPA: {error}"),
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Over its Unix socket, when it is there.
    pub(crate) async fn connect_to_socket(&self) -> Questions {
        let stream = UnixStream::connect(&self.socket).await.unwrap();
        Questions(Connection::over(stream).await)
    }
}

impl Drop for Opa {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Questions {
    /// The body of the request about an object, which may be no JSON.
    pub(crate) fn question(object: &str) -> Bytes {
        format!("{{\"input\":{object}}}").into()
    }

    /// The answer of the module, parsed as the services parse it.
    pub(crate) async fn ask(&mut self, question: Bytes) -> CheckVerdict {
        let request = Request::post("/v1/data/approval/output")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(question))
            .unwrap();
        let (status, answer) = self.0.send(request).await;
        match status {
            StatusCode::OK => state(&answer).map_or(CheckVerdict::Failed, |it| verdict(&it)),
            StatusCode::BAD_REQUEST => CheckVerdict::Failed,
            other => panic!("OPA: {other}: {answer:?}"),
        }
    }
}

fn state(answer: &[u8]) -> Option<ObjectState> {
    let Answer { result } = serde_json::from_slice(answer).ok()?;
    ObjectState::from_word(&result?.state.unwrap_or_default())
}
