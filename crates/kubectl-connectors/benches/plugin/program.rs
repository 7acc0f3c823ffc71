//! The program itself: its tests of policies, its size, and its start.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::{CONNECTORS, change, pod, policy};
use crate::median;
use crate::table::Table;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kubectl-connectors");
/// The variable with the path of kubectl.
const KUBECTL: &str = "KUBECTL";
const FEW: usize = 100;
const MANY: usize = 1_000;
/// Runs of a figure of a second.
const RUNS: usize = 5;
/// Starts of a figure.
const STARTS: usize = 41;

/// A module that reads the state as the duck type has it.
const MODULE: &str = r"package approval
import rego.v1
default output := {'state': 'pending'}
output := {'state': input.status.state} if input.status.state
";

pub(crate) fn policy_tests(table: &mut Table) {
    for (word, has_module) in [("", false), (", with Rego", true)] {
        let [few, many] = [FEW, MANY].map(|cases| tested(cases, has_module));
        let what = format!("policy test{word}, {MANY} cases, p50");
        table.at_most(&what, many, "ms", 1000.0, 300.0);
        let what = format!("policy test{word}: time at {MANY} / at {FEW} cases");
        table.at_most(&what, many / few, "×", 20.0, 10.0);
    }
}

/// The time of a run with so many cases, half of which have an approval.
fn tested(cases: usize, has_module: bool) -> f64 {
    let place = tempfile::tempdir().unwrap();
    let mut policy = policy("approved-changes", "payments");
    if has_module {
        let check = &mut policy["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
        check["state"] = json!({"rego": MODULE.replace('\'', "\"")});
    }
    let connector = json!({
        "apiVersion": CONNECTORS, "kind": "Connector", "metadata": {"name": "prod-harbor", "namespace": "payments"},
        "spec": {"connectorClassName": "oci"},
    });
    let case = |number: usize| {
        let is_approved = number.is_multiple_of(2);
        let (objects, access): (Vec<Value>, _) = if is_approved {
            (vec![change("chg-42", Some("approved"))], "Granted")
        } else {
            (Vec::new(), "Waits")
        };
        json!({
            "name": format!("case {number}"), "pod": "team-a/build-1", "connector": "payments/prod-harbor",
            "objects": objects, "expect": {"access": access},
        })
    };
    let test = json!({
        "apiVersion": "cli.connectors.alauda.io/v1", "kind": "PolicyTest",
        "cases": (0..cases).map(case).collect::<Vec<_>>(),
    });
    for (file, objects) in [
        ("world.yaml", vec![policy, pod("build-1"), connector]),
        ("test.yaml", vec![test]),
    ] {
        let texts: Vec<_> = objects
            .iter()
            .map(|it| serde_yaml::to_string(it).unwrap())
            .collect();
        fs::write(place.path().join(file), texts.join("---\n")).unwrap();
    }
    let path = place.path().to_str().unwrap();
    let run = || time_of(PROGRAM.as_ref(), &["policy", "test", path]);
    median((0..RUNS).map(|_| run()).collect())
}

pub(crate) fn size_and_start(table: &mut Table) {
    let size = fs::metadata(PROGRAM).unwrap().len() as f64 / 1e6;
    table.at_most("the program, stripped", size, "MB", 15.0, 10.0);
    table.at_most("loaders that the program needs", loaders(), "", 0.0, 0.0);
    let kubectl = env::var_os(KUBECTL).unwrap_or_else(|| "kubectl".into());
    let (mut own, mut others) = (Vec::new(), Vec::new());
    // In turns, so that both meet the same disturbances.
    for _ in 0..STARTS {
        own.push(time_of(PROGRAM.as_ref(), &["--version"]));
        others.push(time_of(&kubectl, &["version", "--client"]));
    }
    let (own, other) = (median(own), median(others));
    table.figure("start of the program (--version), p50", own, "ms");
    table.figure("kubectl version --client, p50", other, "ms");
    let what = "kubectl version --client / start of the program";
    table.at_least(what, other / own, "×", 1.0, 5.0);
}

/// The loaders that the headers of the program name. A static program has none: it runs under every libc.
fn loaders() -> f64 {
    /// The type of a header that names a loader.
    const INTERPRETER: u64 = 3;
    let file = fs::read(PROGRAM).unwrap();
    let number = |at: usize, bytes: usize| {
        let bytes = file[at..at + bytes].iter().rev();
        bytes.fold(0_u64, |number, byte| number << 8 | u64::from(*byte))
    };
    let place = |at: usize, bytes: usize| usize::try_from(number(at, bytes)).unwrap();
    assert!(file.starts_with(b"\x7fELF\x02\x01"), "a program of 64 bits");
    let (first, size, all) = (place(0x20, 8), place(0x36, 2), place(0x38, 2));
    assert!(all > 0, "a program without headers");
    let types = (0..all).map(|it| number(first + it * size, 4));
    types.filter(|it| *it == INTERPRETER).count() as f64
}

/// The time of a program that succeeds.
fn time_of(program: &OsStr, args: &[&str]) -> Duration {
    let mut command = Command::new(program);
    command.args(args).stdout(Stdio::null());
    let begun = Instant::now();
    let status = command.status().unwrap();
    let time = begun.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    time
}
