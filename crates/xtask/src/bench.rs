//! `cargo xtask bench`: the figures of docs/performance.md, all of one run.
//!
//! Owns: the choice of the programs for a table. Each program prints its rows and fails when a figure misses
//! its goal.

use std::{env, ffi::OsStr, fs, process, thread};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use e2e::{
    Cluster, ClusterName, Launcher, Progress, Target, Tool,
    images::{self, Image, Profile},
    install,
};
use serde_json::{Value, json};

/// Figures belong to a machine: nothing else should run on it meanwhile
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// The subject of the measurement
    subject: Subject,
    /// A running local cluster, for subjects that need one; it stays, with its objects, and without an audit
    /// log. For `mount` and `requests` the chart is installed on it. Otherwise a new cluster is made for the run
    #[arg(long, value_name = "NAME")]
    cluster: Option<ClusterName>,
    /// The long form alone. `mount`: approvals that meet the longest pauses of the kubelet, about an hour. `requests`:
    /// the memory and the failover with 10,000 requests, about 20 minutes
    #[arg(long)]
    long: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Subject {
    /// Access decisions, in the process
    Authz,
    /// The evaluation service beside a real API server
    Evaluation,
    /// From an approval to the running container, and what mounts cost on their node, with the chart installed
    Mount,
    /// The kubectl plugin: its tests of policies, its explanations, its size and its start beside kubectl's
    Plugin,
    /// The policy-controller beside a real API server
    Policies,
    /// From an approval to the grant, with the chart installed: the cost of the proof of a pipeline run
    Requests,
    /// The webhook, alone and behind a real API server
    Webhook,
    /// Checks that Rego decides: in the process, over the wire, and by a real OPA
    Rego,
}

/// A benchmark of a crate, optimised like what is delivered.
struct Program {
    package: &'static str,
    name: &'static str,
    /// The cargo profile of what is measured.
    profile: &'static str,
    /// Whether it is built static, as people download it.
    is_static: bool,
}

/// Cargo's profile of benchmarks, which is that of releases.
const BENCH: &str = "bench";

/// In the order of the table.
const AUTHZ: [Program; 2] = [
    Program {
        package: "authz",
        name: "time",
        profile: BENCH,
        is_static: false,
    },
    Program {
        package: "authz",
        name: "memory",
        profile: BENCH,
        is_static: false,
    },
];

/// They start release programs.
const EVALUATION: [Program; 1] = [Program::beside_an_api_server("evaluation")];
const MOUNT: [Program; 1] = [Program::beside_an_api_server("mount")];
const PLUGIN: [Program; 1] = [Program {
    package: "kubectl-connectors",
    name: "plugin",
    profile: "plugin",
    is_static: true,
}];
const POLICIES: [Program; 1] = [Program::beside_an_api_server("policies")];
const REQUESTS: [Program; 1] = [Program::beside_an_api_server("requests")];
const WEBHOOK: [Program; 1] = [Program::beside_an_api_server("webhook")];
const REGO: [Program; 1] = [Program::beside_an_api_server("rego")];

/// Something that a program is told: the variable that it reads, and its value.
type Beside<'a> = (&'static str, &'a OsStr);

impl Subject {
    const fn programs(self) -> &'static [Program] {
        match self {
            Self::Authz => &AUTHZ,
            Self::Evaluation => &EVALUATION,
            Self::Mount => &MOUNT,
            Self::Plugin => &PLUGIN,
            Self::Policies => &POLICIES,
            Self::Requests => &REQUESTS,
            Self::Webhook => &WEBHOOK,
            Self::Rego => &REGO,
        }
    }

    /// The measured process on the cluster; none without a cluster.
    const fn measured(self) -> Option<Measured> {
        match self {
            Self::Authz | Self::Plugin => None,
            Self::Evaluation | Self::Rego => Some(Measured::Service("evaluation-service")),
            Self::Policies => Some(Measured::Service("policy-controller")),
            Self::Mount => Some(Measured::Mounts),
            Self::Requests => Some(Measured::Installation),
            Self::Webhook => Some(Measured::Service("webhook")),
        }
    }
}

/// The measured processes on a cluster, from release builds.
#[derive(Clone, Copy)]
enum Measured {
    /// A service that the program starts beside the API server.
    Service(&'static str),
    /// The chart, with every service in a pod.
    Installation,
    /// The chart with room for a thousand held mounts, and pods that run.
    Mounts,
}

impl Measured {
    fn build(self) -> anyhow::Result<()> {
        match self {
            Self::Service(service) => build(service),
            Self::Installation | Self::Mounts => {
                Ok(images::build(&Image::SERVICES, Profile::Release).map(drop)?)
            }
        }
    }

    /// Prepares a cluster that is up: the chart, and the image of pods that run.
    fn set(self, cluster: &ClusterName) -> anyhow::Result<()> {
        match self {
            Self::Service(_) => Ok(()),
            Self::Installation => install(cluster, &json!({})),
            Self::Mounts => {
                for archive in images::build(&[Image::Workload], Profile::Release)? {
                    found(cluster)?.load(&archive)?;
                }
                let more = json!({
                    "approval": {"schedulingGate": "Set"},
                    "csiNode": {"maxHeld": 1100, "maxHeldPerNamespace": 1100},
                });
                install(cluster, &more)
            }
        }
    }
}

fn found(cluster: &ClusterName) -> anyhow::Result<Cluster> {
    Cluster::find(cluster)?.context("the cluster is not up")
}

/// Installs the chart from release builds, with approvals on.
fn install(cluster: &ClusterName, more: &Value) -> anyhow::Result<()> {
    let target = Target::of(found(cluster)?);
    let mut values = json!({
        "approval": {"enabled": true}, "checks": {"configMaps": true},
        "requestController": {"maxRequestsPerNamespace": 1000},
    });
    install::merge(&mut values, more);
    let progress = Progress::default();
    Ok(install::install(
        &target,
        Profile::Release,
        &values,
        &progress,
    )?)
}

pub(crate) fn run(args: &BenchArgs) -> anyhow::Result<()> {
    let programs = args.subject.programs();
    let has_long_form = matches!(args.subject, Subject::Mount | Subject::Requests);
    anyhow::ensure!(
        has_long_form || !args.long,
        "only `mount` and `requests` have a long form"
    );
    for program in programs {
        program.run(&["--no-run"], &[])?;
    }
    if let Subject::Rego = args.subject {
        // Now, and not between the rows of a table or inside the network of a cluster.
        e2e::cluster::opa(&Progress::default())?;
    }
    let Some(measured) = args.subject.measured() else {
        anyhow::ensure!(args.cluster.is_none(), "what is measured needs no cluster");
        if let Subject::Plugin = args.subject {
            let kubectl = e2e::cluster::kubectl(&Progress::default())?;
            return print(programs, &[("KUBECTL", kubectl.as_os_str())]);
        }
        return print(programs, &[]);
    };
    measured.build()?;
    let run = |cluster: &ClusterName| {
        measured.set(cluster)?;
        let mut beside = vec![on(cluster)];
        if args.long {
            beside.push((e2e::LONG_FORM, "1".as_ref()));
        }
        print(programs, &beside)
    };
    match &args.cluster {
        Some(cluster) => run(cluster),
        None => on_own_cluster(run),
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
fn print(programs: &[Program], beside: &[Beside<'_>]) -> anyhow::Result<()> {
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
            profile: BENCH,
            is_static: false,
        }
    }

    fn run(&self, more: &[&str], beside: &[Beside<'_>]) -> anyhow::Result<()> {
        let Self {
            package,
            name,
            profile,
            is_static,
        } = self;
        let mut cargo = Tool::ending_with_us(env!("CARGO")).dir(e2e::repository());
        let bench = ["bench", "--locked", "--quiet", "--all-features"];
        let which = ["--package", package, "--bench", name, "--profile", profile];
        let mut which: Vec<String> = which.map(str::to_owned).into();
        for (variable, it) in beside {
            cargo = cargo.env(variable, it);
        }
        if *is_static {
            let (variable, compiler) = images::STATIC_CC;
            cargo = cargo.env(variable, compiler);
            which.extend(["--target".to_owned(), images::static_target()]);
        }
        Ok(cargo.args(bench).args(which).args(more).run()?)
    }
}

/// The machine of the figures, in words.
fn machine() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then_some(value.trim())
    });
    format!("{cores} cores, {}", model.unwrap_or("unknown processor"))
}
