//! The real program: how it starts, says how it is, and ends.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, KeyPair};
use rustix::process::{Pid, Signal, kill_process};

const CHART: &str = include_str!("../../../charts/connectors-approval/templates/_helpers.tpl");
const ALLOCATOR: &str = "_RJEM_MALLOC_CONF";

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evaluation-service"));
    command.stdin(Stdio::null());
    command
}

fn certificates(directory: &Path) -> Vec<String> {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    fs::write(directory.join("tls.crt"), certificate.pem()).unwrap();
    fs::write(directory.join("tls.key"), key.serialize_pem()).unwrap();
    let argument = |flag: &str, name: &str| format!("--{flag}={}", directory.join(name).display());
    vec![
        argument("tls-certificate", "tls.crt"),
        argument("tls-key", "tls.key"),
        argument("kubeconfig", "config"),
        "--listen-address=127.0.0.1:0".to_owned(),
        "--admin-address=127.0.0.1:0".to_owned(),
    ]
}

/// Of a cluster that does not answer.
fn kubeconfig(directory: &Path) {
    let config = r#"{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}"#;
    fs::write(directory.join("config"), config).unwrap();
}

fn failed(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    assert_eq!(status.code(), Some(1));
    String::from_utf8(stderr).unwrap()
}

#[test]
fn it_does_not_start_without_a_certificate_and_names_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = certificates(directory.path());
    kubeconfig(directory.path());
    fs::remove_file(directory.path().join("tls.crt")).unwrap();
    let said = failed(program().args(arguments));
    assert!(said.contains("tls.crt"), "{said}");
}

#[test]
fn the_allocator_takes_the_settings_of_the_chart_and_those_of_a_worker() {
    let line = CHART.lines().find(|it| it.contains(ALLOCATOR)).unwrap();
    let settings = line.split('"').nth(1).unwrap();
    let complaints = |settings: &str| {
        let output = program().arg("--help").env(ALLOCATOR, settings).output();
        String::from_utf8(output.unwrap().stderr).unwrap()
    };
    assert_eq!(complaints(settings), "");
    let (variable, of_worker) = rego_workers::WORKER_ALLOCATOR;
    assert_eq!((variable, complaints(of_worker).as_str()), (ALLOCATOR, ""));
    let unknown = complaints(&format!("{settings},unknown:1"));
    assert!(unknown.contains("unknown:1"), "{unknown}");
}

#[test]
fn it_does_not_start_without_a_cluster() {
    let directory = tempfile::tempdir().unwrap();
    let said = failed(program().args(certificates(directory.path())));
    assert!(said.contains("cannot use the kubeconfig"), "{said}");
}

#[test]
fn without_its_lists_it_is_alive_and_not_ready_and_ends_when_told() {
    let directory = tempfile::tempdir().unwrap();
    kubeconfig(directory.path());
    let mut process = program()
        .args(certificates(directory.path()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut line = |wanted: &str| {
        let mut lines = lines.by_ref().map(Result::unwrap);
        lines.find(|line| line.contains(wanted)).unwrap()
    };
    let admin = line("serving health and metrics");
    let address = admin.split("address=").nth(1).unwrap().trim().to_owned();
    line("watch interrupted");
    let get = |path: &str| {
        let mut connection = TcpStream::connect(&address).unwrap();
        write!(connection, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get("/healthz").starts_with("HTTP/1.0 200"));
    // A watch may fail before its neighbours are there, so that the start itself has to be waited for.
    let started = Instant::now();
    let ready = loop {
        let ready = get("/readyz");
        assert!(ready.starts_with("HTTP/1.0 503"), "{ready}");
        if !ready.contains("waiting for start") {
            break ready;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{ready}");
        thread::sleep(Duration::from_millis(20));
    };
    for part in [
        "accessrequests",
        "accesspolicies",
        "configuration",
        "connectors",
        "namespaces",
    ] {
        assert!(ready.contains(part), "{ready}");
    }
    assert!(get("/metrics").contains("connectors_evaluation_streams 0"));
    let pid = Pid::from_raw(process.id().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(process.wait().unwrap().success());
}
