//! Tekton Pipelines and manual-approval-gate on an existing cluster, for the tests that play on them.

use std::{collections::BTreeSet, process, time::Duration};

use serde_json::json;

use crate::{
    command::CommandError,
    install::NAMESPACE,
    target::Kubectl,
    wait::{Deadline, TimedOut, poll},
};

/// The kinds of Tekton Pipelines.
const OF_TEKTON: [&str; 3] = [
    "customruns.tekton.dev",
    "pipelineruns.tekton.dev",
    "taskruns.tekton.dev",
];
/// The kinds of the gate. The first is enough for the tests.
const OF_THE_GATE: [&str; 2] = [
    "approvaltasks.openshift-pipelines.org",
    "approvalrequests.openshift-pipelines.org",
];
/// Labels the definitions of `pipelines`: no controller of Tekton acts on their objects.
pub const STAND_IN: &str = "connectors-approval/stand-in";
/// How long both controllers may take to begin a run.
const PATIENCE: Duration = Duration::from_mins(1);

/// Why the tests cannot play.
#[derive(Debug, thiserror::Error)]
pub enum TektonError {
    /// A kind is not served.
    #[error(
        "the cluster does not serve {kinds}: install Tekton Pipelines and manual-approval-gate (docs/development.md)"
    )]
    NotServed {
        /// Its resources.
        kinds: String,
    },
    /// This project is not there.
    #[error(
        "the chart is not installed on this cluster, or its feature is off: install it with --set approval.enabled=true \
         (docs/install.md)"
    )]
    NotInstalled,
    /// Nothing makes the children of a run.
    #[error(
        "the kinds of Tekton Pipelines are served, but no controller makes the children of a run"
    )]
    NoTekton(#[source] TimedOut),
    /// Nothing makes an approval.
    #[error(
        "the kinds of manual-approval-gate are served, but no controller makes the approval of a run"
    )]
    NoGate(#[source] TimedOut),
    /// A command failed.
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// The definitions of these kinds on a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipelineKinds {
    /// It has none of them.
    None,
    /// Those that are there are stand-ins.
    StandIns,
    /// Tekton's or the gate's own.
    Foreign,
}

/// Looks which definitions of these kinds are on a cluster.
pub fn kinds_on(kubectl: &Kubectl) -> Result<PipelineKinds, CommandError> {
    let names = [OF_TEKTON.as_slice(), &OF_THE_GATE].concat().join(" ");
    let found = |words: String| -> Result<BTreeSet<String>, CommandError> {
        let names = kubectl.run(&words)?;
        Ok(names.split_whitespace().map(str::to_owned).collect())
    };
    let all = found(format!("get crd {names} --ignore-not-found -o name"))?;
    let own = found(format!("get crd --selector {STAND_IN} -o name"))?;
    Ok(if all.is_empty() {
        PipelineKinds::None
    } else if all.is_subset(&own) {
        PipelineKinds::StandIns
    } else {
        PipelineKinds::Foreign
    })
}

/// Finds both and this project on a cluster. A definition alone is not enough: tests that play both controllers leave
/// theirs behind. So a run is begun, in a namespace of its own.
pub fn expect_installed(kubectl: &Kubectl) -> Result<(), TektonError> {
    let kinds = OF_TEKTON.iter().chain(&OF_THE_GATE[..1]);
    let mut missing = Vec::new();
    for kind in kinds {
        let found = kubectl.run(&format!("get crd {kind} --ignore-not-found -o name"))?;
        if found.is_empty() {
            missing.push(*kind);
        }
    }
    if !missing.is_empty() {
        let kinds = missing.join(", ");
        return Err(TektonError::NotServed { kinds });
    }
    let switch = kubectl.run(&format!(
        "get configmap connectors-config --namespace {NAMESPACE} --ignore-not-found \
         -o jsonpath={{.data.enable-connectors-approval}}"
    ))?;
    if switch != "true" {
        return Err(TektonError::NotInstalled);
    }
    let namespace = format!("tekton-answers-{}", process::id());
    kubectl.create_namespace(&namespace, &[])?;
    let answers = begin(kubectl, &namespace);
    kubectl.run(&format!("delete namespace {namespace} --wait=false"))?;
    answers
}

fn begin(kubectl: &Kubectl, namespace: &str) -> Result<(), TektonError> {
    let run = json!({
        "apiVersion": "tekton.dev/v1", "kind": "PipelineRun",
        "metadata": {"name": "run", "namespace": namespace},
        "spec": {"pipelineSpec": {"tasks": [{
            "name": "wait",
            "taskRef": {"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask"},
            "params": [{"name": "approvers", "value": ["alice"]}],
        }]}},
    });
    kubectl.run_with_input("create -f -", &run.to_string())?;
    let is_there = |kind: &str| {
        let words = format!("get {kind} --namespace {namespace} --ignore-not-found -o name");
        poll(kind, Deadline::after(PATIENCE), || {
            match kubectl.run(&words) {
                Ok(found) if !found.is_empty() => Ok(()),
                Ok(_) => Err(format!("no {kind}")),
                Err(error) => Err(error.to_string()),
            }
        })
    };
    is_there("customruns.tekton.dev/run-wait").map_err(TektonError::NoTekton)?;
    is_there("approvaltasks.openshift-pipelines.org/run-wait").map_err(TektonError::NoGate)
}
