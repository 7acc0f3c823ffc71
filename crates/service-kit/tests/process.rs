//! A real process with real signals: this test starts itself again and ends what it started.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use prometheus::Registry;
use rustix::process::{Pid, Signal, kill_process};
use rustls::crypto::CryptoProvider;
use service_kit::{
    admin::Admin,
    readiness::Readiness,
    shutdown::{Tasks, signals},
    telemetry::{self, LogFormat, TelemetryError},
    tls,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Prints the lines of a service for which the test waits.
#[tokio::test]
#[ignore = "the process under test, started by the tests"]
async fn service() {
    telemetry::init("error", LogFormat::Text).unwrap();
    let twice = telemetry::init("error", LogFormat::Text);
    assert!(matches!(twice, Err(TelemetryError::Twice(_))));
    let (readiness, start) = Readiness::starting();
    let admin = Admin::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = admin.address();
    admin.start(readiness.clone(), Registry::new());
    let signals = signals().unwrap();

    let mut tasks = Tasks::new();
    let stop = tasks.stop();
    tasks.spawn("work", async move {
        stop.stopped().await;
        let mut connection = TcpStream::connect(address).await?;
        connection
            .write_all(b"GET /readyz HTTP/1.0\r\n\r\n")
            .await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        println!("says {}", answer.lines().last().unwrap_or_default());
        // Ends when the test closes this process' standard input.
        tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
        Ok::<(), std::io::Error>(())
    });
    start.ready();
    println!("says started");
    tasks
        .run(signals, &readiness, Duration::from_mins(1))
        .await
        .exit();
}

struct Service {
    process: Child,
    lines: Box<dyn Iterator<Item = String>>,
}

impl Service {
    fn start() -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "service"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let words = |line: String| line.split_once("says ").map(|(_, word)| word.to_owned());
        let lines = Box::new(output.lines().map(Result::unwrap).filter_map(words));
        Self { process, lines }
    }

    fn says(&mut self, expected: &str) {
        assert_eq!(self.lines.next().as_deref(), Some(expected));
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Waits for the end of the process and keeps its standard input open:
    /// `Child::wait` would close it, and the service would drain instead.
    fn code(mut self) -> Option<i32> {
        let input = self.process.stdin.take();
        let status = self.process.wait().unwrap();
        drop(input);
        status.code()
    }
}

/// It is asked here, because no other test of this process makes a connection, which would choose one by itself.
#[test]
fn the_provider_of_cryptography_is_installed_once_for_all() {
    assert!(CryptoProvider::get_default().is_none());
    for _ in 0..2 {
        tls::install_provider();
        assert!(CryptoProvider::get_default().is_some());
    }
}

#[test]
fn a_signal_makes_unready_drains_and_ends_with_success() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut service = Service::start();
        service.says("started");
        service.signal(signal);
        service.says("stopping");
        drop(service.process.stdin.take());
        assert_eq!(service.code(), Some(0));
    }
}

#[test]
fn a_second_signal_ends_at_once_with_failure() {
    let mut service = Service::start();
    service.says("started");
    service.signal(Signal::TERM);
    service.says("stopping");
    service.signal(Signal::TERM);
    assert_eq!(service.code(), Some(1));
}
