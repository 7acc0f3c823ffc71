//! `cargo xtask bench`: the figures of docs/performance.md, all of one run.
//!
//! Owns: which programs make a table. Each program prints its rows and fails when a figure misses what it must be.

use std::{ffi::OsStr, fs, process, thread};

use clap::{Args, ValueEnum};
use e2e::{Cluster, ClusterName, Launcher, Progress, Tool};

/// Figures belong to a machine: nothing else should run on it meanwhile
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// What is measured
    subject: Subject,
    /// A local cluster that is up, for what needs one; it stays, with its objects, and without an audit log.
    /// Otherwise a new one is made for the run
    #[arg(long, value_name = "NAME")]
    cluster: Option<ClusterName>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Subject {
    /// Access decisions, in the process
    Authz,
    /// The evaluation service beside a real API server
    Evaluation,
    /// The policy-controller beside a real API server
    Policies,
    /// The webhook, alone and behind a real API server
    Webhook,
    /// Checks that Rego decides: in the process, over the wire, and by a real OPA
    Rego,
}

/// A benchmark of a crate, optimised as what ships is.
struct Program {
    package: &'static str,
    name: &'static str,
}

/// In the order of the table.
const AUTHZ: [Program; 2] = [
    Program {
        package: "authz",
        name: "time",
    },
    Program {
        package: "authz",
        name: "memory",
    },
];

/// They start release programs.
const EVALUATION: [Program; 1] = [Program::beside_an_api_server("evaluation")];
const POLICIES: [Program; 1] = [Program::beside_an_api_server("policies")];
const WEBHOOK: [Program; 1] = [Program::beside_an_api_server("webhook")];
const REGO: [Program; 1] = [Program::beside_an_api_server("rego")];

/// What a program compares with: the variable that it looks at, and what is in it.
type Beside<'a> = (&'static str, &'a OsStr);

impl Subject {
    const fn programs(self) -> &'static [Program] {
        match self {
            Self::Authz => &AUTHZ,
            Self::Evaluation => &EVALUATION,
            Self::Policies => &POLICIES,
            Self::Webhook => &WEBHOOK,
            Self::Rego => &REGO,
        }
    }

    /// The service that is measured beside an API server.
    const fn service(self) -> Option<&'static str> {
        match self {
            Self::Authz => None,
            Self::Evaluation | Self::Rego => Some("evaluation-service"),
            Self::Policies => Some("policy-controller"),
            Self::Webhook => Some("webhook"),
        }
    }
}

pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<()> {
    let programs = args.subject.programs();
    for program in programs {
        program.run(&["--no-run"], None)?;
    }
    if let Subject::Rego = args.subject {
        // Now, and not between the rows of a table or inside the network of a cluster.
        e2e::cluster::opa(&Progress::default())?;
    }
    match (args.subject.service(), &args.cluster) {
        (None, None) => print(programs, None),
        (None, Some(_)) => anyhow::bail!("what is measured needs no cluster"),
        (Some(service), Some(cluster)) => {
            build(service)?;
            print(programs, Some(on(cluster)))
        }
        (Some(service), None) => {
            build(service)?;
            on_own_cluster(|cluster| print(programs, Some(on(cluster))))
        }
    }
}

fn on(cluster: &ClusterName) -> Beside<'_> {
    ("E2E_CLUSTER", cluster.as_str().as_ref())
}

/// Runs something on a cluster that is gone afterwards.
fn on_own_cluster(run: impl FnOnce(&ClusterName) -> anyhow::Result<()>) -> anyhow::Result<()> {
    // Of a name that a test run knows as a leftover, should this process be killed.
    let name: ClusterName = format!("e2e-{}-bench", process::id()).parse()?;
    let mut launcher = Launcher::this_program(&["cluster"])?;
    launcher.end_with_parent = true;
    Cluster::up(&name, &launcher, &Progress::default())?;
    let ran = run(&name);
    let ended = Cluster::down(&name);
    ran?;
    Ok(ended?)
}

fn build(service: &str) -> anyhow::Result<()> {
    let cargo = Tool::ending_with_us(env!("CARGO")).dir(e2e::repository());
    let build = ["build", "--release", "--locked", "--quiet"];
    Ok(cargo.args(build).args(["--package", service]).run()?)
}

/// Prints the rows of all programs, and fails when one of them does.
fn print(programs: &[Program], beside: Option<Beside<'_>>) -> anyhow::Result<()> {
    println!("{}\n", machine());
    println!("| what | is | must | aim |\n|---|---|---|---|");
    let missed: Vec<&str> = programs
        .iter()
        .filter(|program| program.run(&[], beside).is_err())
        .map(|program| program.name)
        .collect();
    anyhow::ensure!(
        missed.is_empty(),
        "missed figures of: {}",
        missed.join(", ")
    );
    Ok(())
}

impl Program {
    const fn beside_an_api_server(name: &'static str) -> Self {
        Self {
            package: "e2e",
            name,
        }
    }

    fn run(&self, more: &[&str], beside: Option<Beside<'_>>) -> anyhow::Result<()> {
        let Self { package, name } = self;
        let mut cargo = Tool::ending_with_us(env!("CARGO")).dir(e2e::repository());
        let bench = ["bench", "--locked", "--quiet"];
        let which = ["--package", package, "--bench", name];
        if let Some((variable, it)) = beside {
            cargo = cargo.env(variable, it);
        }
        Ok(cargo.args(bench).args(which).args(more).run()?)
    }
}

/// What the figures were taken on, in words.
fn machine() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then_some(value.trim())
    });
    format!("{cores} cores, {}", model.unwrap_or("unknown processor"))
}
