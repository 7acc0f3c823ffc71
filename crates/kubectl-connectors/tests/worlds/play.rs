//! One world from its begin to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use connectors_api::access_request::Phase;
use kubectl_connectors::exit::ExitWord;
use kubectl_connectors::files::ObjectFile;
use kubectl_connectors::lint;
use kubectl_connectors::modules::Modules;
use kubectl_connectors::policy_test;
use kubectl_connectors::reads::ClusterReads;
use kubectl_connectors::simulate::{
    self, ForecastWord, SimulatedWord, Simulation, SimulationProblem, SimulationScope,
};
use kubectl_connectors::terms::NamespacedName;
use serde_json::Value;
use tempfile::TempDir;
use testkit::Caller;

use crate::cluster::Cluster;
use crate::compare::{self, Happened};
use crate::files;
use crate::tally::Tally;
use crate::world::{Ask, World};
use crate::written::AskSeen;

/// The limit of one call of the plugin.
const CALL: Duration = Duration::from_secs(10);

/// Every difference between the plugin and the controllers.
pub(crate) async fn play(world: &World, modules: &Modules, tally: &mut Tally) -> Vec<String> {
    for mark in &world.marks {
        tally.add(format!("world: {mark}"));
    }
    let cluster = Cluster::of(world).await;
    cluster.meet(world).await;
    let names: BTreeMap<Ask, String> = world
        .asks
        .iter()
        .map(|it| (it.clone(), cluster.name_of(it)))
        .collect();
    let (before, standing_before) = (cluster.asks(&world.asks).await, cluster.standing());
    let files = accepted(&world.files, modules, tally).await;
    let refused = files.len() < world.files.len();
    let foretold = in_real_time(foretell(&cluster, &world.files, &world.removed, modules)).await;
    let mut wrong = Vec::new();
    let simulation = match foretold {
        Ok(simulation) if !refused => simulation,
        Ok(_) => return vec!["a file that the webhook refuses was simulated".to_owned()],
        Err(SimulationProblem::Lint(_)) if refused => {
            match in_real_time(foretell(&cluster, &files, &world.removed, modules)).await {
                Ok(simulation) => simulation,
                Err(problem) => return vec![format!("nothing is simulated: {problem:?}")],
            }
        }
        Err(problem) => return vec![format!("nothing is simulated: {problem:?}")],
    };
    wrong.extend(states(&simulation, &cluster, &files, &world.removed, tally));
    let has_grants = before.values().any(|it| it.phase == Some(Phase::Granted));
    cluster.apply(&files, &world.removed, has_grants).await;
    let happened = Happened {
        before,
        after: cluster.asks(&world.asks).await,
        standing_before,
        standing_after: cluster.standing(),
    };
    wrong.extend(compare::compare(&simulation, &happened, &names, tally));
    if simulate::exit(&simulation) == ExitWord::Unknown {
        wrong.push(format!("the simulation is not complete: {simulation:#?}"));
    }
    if simulation.changes_nothing() {
        tally.add("nothing changes");
    }
    let exit = simulate::exit(&simulation);
    tally.add(format!("exit: {exit:?}"));
    let has_problem = !simulation.problems.is_empty();
    let is_told = has_problem || !simulation.requests.is_empty();
    let may_be = match exit {
        ExitWord::Yes => !is_told && !happened.has_change(),
        ExitWord::No | ExitWord::Usage | ExitWord::Unknown => is_told || happened.has_change(),
    };
    if !may_be {
        wrong.push(format!("the exit code is {}", exit.code()));
    }
    cluster.start_over(&world.asks).await;
    let anew = cluster.asks(&world.asks).await;
    // After such an event a new request can become another one though the policies stay.
    let is_quiet = world.meanwhile.is_empty();
    let granted = |ask: &Ask| {
        let before = &happened.before[ask];
        let is_granted = before.phase == Some(Phase::Granted) && before.word.is_some();
        (is_quiet && is_granted).then_some(before)
    };
    wrong.extend(compare_anew(&simulation, &anew, granted, &names, tally));
    if let Some(text) = files::written(&cluster.server, world, &anew, tally) {
        wrong.extend(in_real_time(tested(&cluster, &text, modules)).await);
    }
    wrong.extend(cluster.end());
    wrong
}

/// The word for each policy of a file is that of the cluster.
fn states(
    simulation: &Simulation,
    cluster: &Cluster,
    files: &[Value],
    removed: &[(String, String)],
    tally: &mut Tally,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in files {
        let text = |field: &str| file["metadata"][field].as_str().unwrap();
        let (namespace, name) = (text("namespace"), text("name"));
        let there = cluster.server.get("accesspolicies", namespace, name);
        let expected = match &there {
            None => SimulatedWord::New,
            Some(there) if there["spec"] == file["spec"] => SimulatedWord::Same,
            Some(_) => SimulatedWord::Changed,
        };
        let mut told = simulation.policies.iter();
        let told = told.find(|it| it.name.namespace == namespace && it.name.name == name);
        if told.map(|it| it.state) != Some(expected) {
            wrong.push(format!(
                "policy {namespace}/{name} is {expected:?}, and the simulation says {told:?}"
            ));
        }
        tally.add(format!("policy of a file: {expected:?}"));
    }
    let deleted = simulation.policies.iter();
    let deleted = deleted.filter(|it| it.state == SimulatedWord::Deleted);
    let deleted: BTreeSet<_> = deleted
        .map(|it| (it.name.namespace.clone(), it.name.name.clone()))
        .collect();
    let expected: BTreeSet<_> = removed.iter().cloned().collect();
    for _ in &deleted {
        tally.add("policy: Deleted");
    }
    if deleted != expected {
        wrong.push(format!(
            "{expected:?} are deleted, and the simulation says {deleted:?}"
        ));
    }
    wrong
}

/// The program that runs Rego answers on the clock of this machine.
async fn in_real_time<T>(asked: impl Future<Output = T>) -> T {
    tokio::time::resume();
    let answer = asked.await;
    tokio::time::pause();
    answer
}

fn file(place: &Path, name: &str, text: &str) -> ObjectFile {
    let path = place.join(name);
    fs::write(&path, text).unwrap();
    ObjectFile::read(&path)
}

fn policy_files(place: &TempDir, policies: &[Value]) -> Vec<ObjectFile> {
    let policies = policies.iter().enumerate();
    policies
        .map(|(number, it)| file(place.path(), &format!("{number}.yaml"), &it.to_string()))
        .collect()
}

/// The policies that `policy lint` and the webhook accept.
async fn accepted(policies: &[Value], modules: &Modules, tally: &mut Tally) -> Vec<Value> {
    let place = tempfile::tempdir().unwrap();
    let mut accepted = Vec::new();
    for (policy, file) in policies.iter().zip(policy_files(&place, policies)) {
        let linted = in_real_time(lint::lint(&[file], modules)).await;
        if linted.errors == 0 {
            accepted.push(policy.clone());
        } else {
            tally.add("policy of a file: refused");
        }
    }
    accepted
}

async fn foretell(
    cluster: &Cluster,
    policies: &[Value],
    removed: &[(String, String)],
    modules: &Modules,
) -> Result<Simulation, SimulationProblem> {
    let place = tempfile::tempdir().unwrap();
    let files = policy_files(&place, policies);
    let reads = ClusterReads::new(cluster.server.client(&Caller::admin()), None, CALL);
    let deleted = removed.iter();
    let deleted: Vec<_> = deleted
        .map(|(namespace, name)| NamespacedName::new(namespace, name))
        .collect();
    let scope = SimulationScope {
        deleted: &deleted,
        namespace: campaign::stage::TOOLS,
        is_all: true,
        system_namespace: campaign::stage::SYSTEM,
    };
    let now = cluster.server.now();
    let simulated = Box::pin(simulate::simulate(&reads, modules, &files, scope, now)).await;
    simulated.map(|(simulation, _)| simulation)
}

/// A new request of a granted pod becomes what the forecast says of it. Without a forecast it becomes what the granted one
/// is.
fn compare_anew<'a>(
    simulation: &Simulation,
    seen: &BTreeMap<Ask, AskSeen>,
    granted: impl Fn(&Ask) -> Option<&'a AskSeen>,
    names: &BTreeMap<Ask, String>,
    tally: &mut Tally,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (ask, after) in seen {
        let has_forecast = compare::anew(simulation, ask, names).next().is_some();
        if let Some(before) = granted(ask).filter(|_| !has_forecast) {
            tally.add("anew: as it was");
            let has_same_rules =
                before.word != Some(ForecastWord::Granted) || before.rules == after.rules;
            if before.word != after.word || !has_same_rules {
                wrong.push(format!(
                    "anew {ask:?}: without a forecast\nbefore {before:#?}\nafter {after:#?}"
                ));
            }
        }
        for forecast in compare::anew(simulation, ask, names) {
            tally.add(format!(
                "anew: {:?} → {:?}",
                forecast.before, forecast.after
            ));
            let rules = forecast.rules_after.iter();
            let rules: Vec<_> = rules
                .map(|it| (it.resources.clone(), it.verbs.clone()))
                .collect();
            let is_granted = forecast.after == ForecastWord::Granted;
            if Some(forecast.after) != after.word
                || is_granted && rules != compare::all_rules(&after.rules)
            {
                wrong.push(format!(
                    "anew {ask:?}: forecast {forecast:#?}\nafter {after:#?}"
                ));
            }
        }
    }
    wrong
}

async fn tested(cluster: &Cluster, text: &str, modules: &Modules) -> Vec<String> {
    let place = tempfile::tempdir().unwrap();
    let files = vec![file(place.path(), "world.yaml", text)];
    let report = policy_test::test(&[files], modules, cluster.server.now()).await;
    let mut wrong: Vec<String> = report
        .problems
        .iter()
        .map(|it| format!("policy test: {it:?}"))
        .collect();
    for case in &report.cases {
        let shall_fail = case.case.starts_with(files::WRONG);
        if case.differences.is_empty() == shall_fail {
            wrong.push(format!("policy test: {case:#?}"));
        }
    }
    wrong
}
