//! The parts of the test command.

use std::{
    cell::OnceCell,
    fmt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use clap::ValueEnum;
use e2e::{
    Cluster, ClusterName, Launcher, Progress, Target, Tool,
    images::{self, Image, Profile},
    install, tekton,
};
use serde_json::{Value, json};

use super::{
    programs,
    runner::{self, Summary},
    times::Budget,
};
use crate::{book, campaign, crdgen, fuzz, layers, mutants, pinned_tool::PinnedTool, protogen};

/// The release of cargo-deny; a new one may bring new findings, so it is pinned like the toolchain.
const CARGO_DENY: PinnedTool = PinnedTool {
    name: "cargo-deny",
    version: "0.20.2",
    features: &[],
};

/// Most tests on a node wait for pods. How many really run at a time is decided where they take their turns
/// (`e2e/tests/gate/support/turns.rs`).
const WAITING_TESTS: &str = "64";

/// The tests of [`Part::Hostile`], which are in one program with those of [`Part::Gate`].
const HOSTILE_TESTS: &str = "hostile::";

/// Those of [`Part::Tekton`], in the same program.
const TEKTON_TESTS: &str = "tekton::";

/// The program with the tests of [`Part::Gate`].
const GATE: &str = "--workspace --all-features --test gate";

/// Clusters of test runs are named after the run's process.
const RUN_PREFIX: &str = "e2e-";

/// One part, in the order in which all of them run: parts that fail fast come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Part {
    /// The sources are formatted
    Fmt,
    /// The linter finds nothing
    Clippy,
    /// Dependencies: bans, licences, sources
    Deny,
    /// The rules about dependencies, modules, names and comments
    Layers,
    /// Generated files equal the output of their generators
    Drift,
    /// The documents as a book, whose links all lead somewhere
    Book,
    /// Everything that later parts run is compiled
    Build,
    /// Unit and property tests; no cluster
    Unit,
    /// Templates of classes beside Go's own text/template and sprig; no cluster
    Templates,
    /// The CSI driver's own program: csi-sanity calls it, and a thousand calls are held at once; no cluster
    Driver,
    /// The request-controller, broken at 600 points of its scenarios; no cluster
    Campaign,
    /// Some planted faults, chosen by the commit: the tests that they name find them; no cluster
    Mutants,
    /// The evaluators on random inputs, 10 seconds for each of them; no cluster
    Fuzz,
    /// The custom resources, the chart and their rules on a real API server
    Api,
    /// The whole system on the real node: pods wait, are let in, and lose their access
    Gate,
    /// An unrelated tenant is granted and revoked in time while another does its worst
    Hostile,
    /// The evaluation service while its surroundings fail, and the commands of the documents for its callers
    Evaluation,
    /// Real pods on the real node, and the local cluster itself: killed, restarted, two at once
    E2e,
    /// Honest and forged runs of pipelines by Tekton Pipelines and manual-approval-gate themselves. Only on a cluster
    /// that has both: with --kubeconfig, and never in a run of all parts
    Tekton,
}

/// When a part of a complete run is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// After the part before it, on the run's cluster if it needs one.
    Own,
    /// Beside this part, as a process with a cluster of its own.
    Beside(Part),
    /// In the time that the parts on a cluster do not use, as a process of the lowest priority. It needs no cluster, and
    /// computes in simulated time or for a fixed one.
    Spare,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("?", |value| value.get_name()))
    }
}

impl Part {
    /// Whether the part runs tests, which can be chosen by a filter.
    pub(crate) fn has_tests(self) -> bool {
        match self {
            Self::Unit
            | Self::Templates
            | Self::Driver
            | Self::Api
            | Self::Gate
            | Self::Evaluation
            | Self::E2e
            | Self::Tekton => true,
            Self::Fmt
            | Self::Clippy
            | Self::Deny
            | Self::Layers
            | Self::Drift
            | Self::Book
            | Self::Build
            | Self::Campaign
            | Self::Mutants
            | Self::Fuzz
            | Self::Hostile => false,
        }
    }

    /// Whether a run of all parts includes it. The others need a cluster that the project cannot make.
    pub(crate) fn is_in_every_run(self) -> bool {
        self != Self::Tekton
    }

    /// When a run of all parts carries this one out.
    pub(crate) fn turn(self) -> Turn {
        match self {
            Self::Campaign | Self::Mutants | Self::Fuzz => Turn::Spare,
            // Most of it makes clusters of its own, and the part beside it waits most of the time.
            Self::E2e => Turn::Beside(Self::Evaluation),
            Self::Fmt
            | Self::Clippy
            | Self::Deny
            | Self::Layers
            | Self::Drift
            | Self::Book
            | Self::Build
            | Self::Unit
            | Self::Templates
            | Self::Driver
            | Self::Api
            | Self::Gate
            | Self::Hostile
            | Self::Evaluation
            | Self::Tekton => Turn::Own,
        }
    }

    /// Whether the part uses the run's cluster.
    pub(crate) fn is_on_cluster(self) -> bool {
        matches!(
            self,
            Self::Api | Self::Gate | Self::Hostile | Self::Evaluation | Self::E2e | Self::Tekton
        )
    }

    /// Minutes that the part may take on two processors: warm, cold.
    pub(crate) fn budget(self) -> Budget {
        let [warm, cold] = match self {
            Self::Fmt | Self::Layers | Self::Drift => [0.3, 0.5],
            Self::Deny => [0.2, 4.0],
            Self::Book => [0.2, 3.0],
            Self::Clippy => [3.0, 6.0],
            Self::Build => [4.0, 9.0],
            Self::Unit => [3.5, 3.5],
            Self::Templates => [0.5, 1.5],
            Self::Driver => [1.0, 3.0],
            Self::Campaign => [20.0, 30.0],
            Self::Mutants => [15.0, 25.0],
            Self::Fuzz => [20.0, 25.0],
            Self::Api => [4.5, 17.0],
            Self::Gate => [11.0, 12.0],
            Self::Hostile => [1.5, 1.5],
            Self::Evaluation => [2.5, 3.5],
            Self::E2e => [2.8, 3.0],
            Self::Tekton => [10.0, 15.0],
        };
        Budget::of(warm, cold)
    }

    /// Carries the part out, adds the tests that ran.
    pub(crate) fn run(self, context: &Context, summary: &mut Summary) -> anyhow::Result<()> {
        match self {
            Self::Fmt => cargo("fmt --all --check"),
            Self::Clippy => clippy("--workspace").and_then(|()| clippy_of_cluster_tests()),
            Self::Deny => deny(),
            Self::Layers => layers::run(),
            Self::Drift => crdgen::run(true).and(protogen::run(true)),
            Self::Book => book::run(),
            Self::Build => {
                images::build_programs()?;
                cargo("test --workspace --lib --tests --all-features --locked --no-run")?;
                // As for the linter: those that need a cluster.
                cargo("test --workspace --test * --all-features --locked --no-run")
            }
            Self::Unit => {
                let everything = context.cargo_test("--workspace --all-features");
                let programs = programs::run(everything, context.filter.as_deref(), summary);
                let documents = context.tests("--workspace --all-features --doc");
                programs.and(runner::run(documents, summary))
            }
            Self::Templates => templates(context, summary),
            Self::Driver => {
                images::build_programs()?;
                let tests = context.tests("--workspace --all-features --test driver");
                runner::run(tests, summary)
            }
            Self::Campaign => campaign::test(),
            Self::Mutants => mutants::test(),
            Self::Fuzz => fuzz::test(),
            Self::Api => {
                let mut selection = "--workspace --all-features --test api".to_owned();
                if context.kubeconfig.is_none() {
                    // They install and remove the chart, which an existing cluster may be using.
                    selection.push_str(" --test chart");
                }
                runner::run(context.tests_on_cluster(&selection)?, summary)
            }
            Self::Gate => gate(context, summary),
            Self::Hostile => hostile(context, summary),
            Self::Evaluation => {
                let target = context.target()?;
                if target.local().is_some() {
                    install_services(target, Profile::Dev, &json!({}))?;
                } else {
                    images::build(&[Image::EvaluationService], Profile::Dev)?;
                }
                let selection = "--workspace --all-features --test evaluation";
                let mut tests = context.tests_on_cluster(selection)?;
                // They only wait for minutes that cannot be shortened, so all run at once.
                tests.env("RUST_TEST_THREADS", WAITING_TESTS);
                runner::run(tests, summary)
            }
            Self::E2e => {
                let pods = context.tests_on_cluster("--workspace --all-features --test node")?;
                let pods = runner::run(pods, summary);
                if context.kubeconfig.is_some() {
                    return pods; // an existing cluster is not ours to break
                }
                let cluster = context.tests("--workspace --all-features --test cluster");
                pods.and(runner::run(cluster, summary))
            }
            Self::Tekton => {
                anyhow::ensure!(
                    context.kubeconfig.is_some(),
                    "`tekton` runs only on a cluster that has Tekton Pipelines and manual-approval-gate: give it with \
                     --kubeconfig FILE"
                );
                tekton::expect_installed(context.target()?.kubectl())?;
                let Some(chosen) = context.chosen_of(TEKTON_TESTS)? else {
                    return Ok(()); // the report says that no test matches
                };
                let mut tests = context.on_cluster(context.cargo_test(GATE))?;
                tests.env("RUST_TEST_THREADS", WAITING_TESTS);
                tests.arg("--").args(chosen);
                runner::run(tests, summary)
            }
        }
    }
}

fn gate(context: &Context, summary: &mut Summary) -> anyhow::Result<()> {
    let target = context.target()?;
    if target.local().is_some() {
        install_services(target, Profile::Dev, &json!({}))?;
    }
    if let Some(cluster) = target.local() {
        // Pods use the files that they mount with these programs.
        let kubectl = target.kubectl().program();
        cluster.load(&images::clients(kubectl, &Progress::default())?)?;
    }
    // A session of it is one of the tests. These features are those of the tests: nothing is built twice.
    cargo("build --workspace --all-features --bin kubectl-connectors --locked")?;
    let mut tests = context.tests_on_cluster(GATE)?;
    tests.env("RUST_TEST_THREADS", WAITING_TESTS);
    // They are a part of their own.
    if context.filter.is_none() {
        tests.arg("--");
    }
    tests.args(["--skip", HOSTILE_TESTS, "--skip", TEKTON_TESTS]);
    let gate = runner::run(tests, summary);
    if context.filter.is_some() {
        return gate; // not everything was tried
    }
    // It judges the calls that the services made during the tests before.
    let power = context.tests_on_cluster("--workspace --all-features --test power")?;
    gate.and(runner::run(power, summary))
}

fn hostile(context: &Context, summary: &mut Summary) -> anyhow::Result<()> {
    let target = context.target()?;
    if target.local().is_some() {
        let profile = if context.long {
            Profile::Release
        } else {
            Profile::Dev
        };
        // Like a cluster that cannot show a certificate: every client that reaches the port may
        // ask.
        let open = json!({"clientCA": {"configMap": ""}, "clientNames": []});
        install_services(target, profile, &json!({"webhook": open}))?;
    }
    let hostile = context.cargo_test(GATE);
    let mut hostile = context.on_cluster(hostile)?;
    hostile.args(["--", HOSTILE_TESTS]);
    runner::run(hostile, summary)
}

/// The shared state of the parts: the choices of the command line, and one cluster for all that need one.
pub(crate) struct Context {
    pub(crate) filter: Option<String>,
    pub(crate) long: bool,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) workload_image: String,
    pub(crate) launcher: Launcher,
    pub(crate) target: OnceCell<Target>,
}

impl Context {
    fn cargo_test(&self, selection: &str) -> Command {
        let mut command = Command::new(env!("CARGO"));
        command
            .current_dir(e2e::repository())
            .args(["test", "--locked", "--no-fail-fast"])
            .args(selection.split(' '));
        if self.long {
            command.env(e2e::LONG_FORM, "1");
        }
        command
    }

    fn tests(&self, selection: &str) -> Command {
        let mut command = self.cargo_test(selection);
        if let Some(filter) = &self.filter {
            command.arg("--").arg(filter);
        }
        command
    }

    fn tests_on_cluster(&self, selection: &str) -> anyhow::Result<Command> {
        self.on_cluster(self.tests(selection))
    }

    /// The arguments that choose, of the tests in a module of [`GATE`], those that the filter names; none when there is
    /// no such test.
    fn chosen_of(&self, module: &str) -> anyhow::Result<Option<Vec<String>>> {
        let Some(filter) = &self.filter else {
            return Ok(Some(vec![module.to_owned()]));
        };
        let mut list = self.cargo_test(GATE);
        list.args(["--", module, "--list", "--format", "terse"]);
        let listed = list.output().context("the list of tests")?;
        anyhow::ensure!(listed.status.success(), "the tests cannot be listed");
        let listed = String::from_utf8_lossy(&listed.stdout);
        let tests = listed.lines().filter_map(|it| it.strip_suffix(": test"));
        let chosen = tests.filter(|it| it.contains(filter)).map(str::to_owned);
        let mut chosen: Vec<_> = chosen.collect();
        if chosen.is_empty() {
            return Ok(None);
        }
        chosen.push("--exact".to_owned());
        Ok(Some(chosen))
    }

    /// The same tests with the data of the run's cluster.
    fn on_cluster(&self, mut command: Command) -> anyhow::Result<Command> {
        let target = self.target()?;
        command
            .env("E2E_KUBECONFIG", target.kubectl().kubeconfig())
            .env("E2E_KUBECTL", target.kubectl().program())
            .env("E2E_WORKLOAD_IMAGE", &self.workload_image);
        if let Some(cluster) = target.local() {
            command.env("E2E_CLUSTER", cluster.name().as_str());
            // The part before may have killed the API server a moment ago.
            cluster.settle()?;
        }
        Ok(command)
    }

    fn target(&self) -> anyhow::Result<&Target> {
        if let Some(target) = self.target.get() {
            return Ok(target);
        }
        // Named after this run, so that two runs do not meet.
        let name: ClusterName = format!("{RUN_PREFIX}{}", std::process::id()).parse()?;
        let target = Target::get(
            self.kubeconfig.clone(),
            &name,
            &self.launcher,
            &Progress::default(),
        )?;
        if let Some(cluster) = target.local() {
            for archive in images::build(&[Image::Workload], Profile::Dev)? {
                cluster.load(&archive)?;
            }
        }
        Ok(self.target.get_or_init(|| target))
    }

    /// Ends the cluster if this run started one.
    pub(crate) fn end(&self) -> anyhow::Result<()> {
        match self.target.get().and_then(Target::local) {
            Some(cluster) => Ok(Cluster::down(cluster.name())?),
            None => Ok(()),
        }
    }
}

/// Takes down the clusters of runs that were interrupted.
pub(crate) fn remove_leftovers() -> anyhow::Result<()> {
    for name in Cluster::names()? {
        let run = name
            .as_str()
            .strip_prefix(RUN_PREFIX)
            .and_then(|rest| rest.split('-').next());
        if run.is_some_and(|run| !Path::new("/proc").join(run).exists()) {
            println!("removing cluster {name}, which an interrupted run left");
            Cluster::down(&name)?;
        }
    }
    Ok(())
}

/// The tests ask a program of Go's, which is built here.
fn templates(context: &Context, summary: &mut Summary) -> anyhow::Result<()> {
    let program = e2e::cluster::template(&Progress::default())?;
    let mut tests = context.tests("--workspace --all-features --test live");
    tests.env("TEXT_TEMPLATE_ORACLE", program);
    runner::run(tests, summary)
}

fn install_services(target: &Target, profile: Profile, more: &Value) -> anyhow::Result<()> {
    let mut values = values_of_scenarios();
    install::merge(&mut values, more);
    install::install(target, profile, &values, &Progress::default())?;
    // The scenarios wait at their mounts. The tests of the scheduling gate turn it on.
    target.kubectl().run(concat!(
        "--namespace connectors-system patch configmap connectors-config --type=merge ",
        r#"--patch={"data":{"scheduling-gate":"Release"}}"#
    ))?;
    Ok(())
}

/// The installation for the scenarios: the feature on, and their kinds of approvals readable.
fn values_of_scenarios() -> Value {
    json!({
        "approval": {"enabled": true, "schedulingGate": "Set"},
        "checks": {
            "configMaps": true,
            "kinds": [
                {"apiGroup": "e2e.example.com", "resources": ["signoffs", "latecomers"]},
                {"apiGroup": "openshift-pipelines.org", "resources": ["approvaltasks", "approvalrequests"]},
                {"apiGroup": "tekton.dev", "resources": ["pipelineruns", "taskruns", "customruns"]},
            ],
        },
        "tekton": {"creators": {"enabled": true}},
        "requestController": {"shards": 2},
        "policies": {"namespaceSelectorKeys": ["kubernetes.io/metadata.name", "project", "cpaas.io/project"]},
        "log": {"filter": "debug,hyper=info,h2=info,tower=info,rustls=info,kube_client=info", "format": "text"},
    })
}

/// The linter on every target of these packages, but for tests that need a cluster.
pub(crate) fn clippy(packages: &str) -> anyhow::Result<()> {
    cargo(&format!(
        "clippy {packages} --lib --bins --examples --benches --tests --all-features --locked -- --deny warnings"
    ))
}

/// The linter on the tests that need a cluster: `--tests` leaves them out, and beside it cargo does not listen to
/// `--test`.
pub(crate) fn clippy_of_cluster_tests() -> anyhow::Result<()> {
    cargo("clippy --workspace --test * --all-features --locked -- --deny warnings")
}

pub(crate) fn cargo(words: &str) -> anyhow::Result<()> {
    let tool = Tool::new(env!("CARGO")).dir(e2e::repository());
    Ok(tool.args(words.split(' ')).run()?)
}

/// The advisory database is no part of it, since it can only be had from the network and changes by itself.
fn deny() -> anyhow::Result<()> {
    let tool = Tool::new(CARGO_DENY.program()?).dir(e2e::repository());
    Ok(tool
        .args(["--workspace", "check", "bans", "licenses", "sources"])
        .run()?)
}
