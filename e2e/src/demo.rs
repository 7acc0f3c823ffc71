//! The demo: what the project does so far, played on a real node with the very commands a person would type.

use std::time::Duration;

use crate::{
    cluster::UpError,
    command::CommandError,
    images::{self, Image, ImageError},
    progress::Progress,
    target::{Kubectl, Target},
    wait::{Deadline, TimedOut, poll},
};

/// Where the demo plays.
const NAMESPACE: &str = "connectors-approval-demo";
/// Says that the namespace is the demo's own; no other is ever deleted.
const LABEL: &str = "app.kubernetes.io/managed-by=connectors-approval-demo";
const CONNECTOR: &str = include_str!("../demo/connector.yaml");
const POLICY: &str = include_str!("../demo/policy.yaml");
const POLICY_TOO_WIDE: &str = include_str!("../demo/policy-too-wide.yaml");
const POD: &str = include_str!("../demo/pod.yaml");

/// Why the story did not play to its end.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// No cluster.
    #[error(transparent)]
    Up(#[from] UpError),
    /// No image for the pod.
    #[error(transparent)]
    Images(#[from] ImageError),
    /// A command failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// Somebody else's namespace is in the way.
    #[error(
        "namespace {NAMESPACE} is there already and is not the demo's (it lacks the label {LABEL}); delete or rename it"
    )]
    NamespaceTaken,
    /// Something did not happen.
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
    /// Something happened that must not.
    #[error("the API server accepted a policy that opens a connector for every pod")]
    TooWideAccepted,
    /// The pod ended, but not as it should.
    #[error("the pod ended as {phase} and printed: {output}")]
    WrongEnd {
        /// Its phase.
        phase: String,
        /// Its output.
        output: String,
    },
}

/// Plays the story on a cluster that is up, and leaves it up.
pub fn play(target: &Target, workload_image: &str, progress: &Progress) -> Result<(), DemoError> {
    let kubectl = target.kubectl();
    if let Some(cluster) = target.local() {
        progress.step("make and load the demo's image", || {
            let program = images::build_programs()?.program(Image::Workload);
            Ok::<_, DemoError>(cluster.load(&images::make(Image::Workload, &program)?)?)
        })?;
    }
    println!("\nThe API: custom resources, and the rules that the API server itself enforces.");
    progress.step("install the CRDs and the admission policy", || {
        install(kubectl)
    })?;
    show(kubectl, "get crd -o name")?;

    println!("\nA connector, and who may use it when.");
    progress.step("create them", || {
        start_over(kubectl)?;
        kubectl.apply(CONNECTOR)?;
        kubectl.apply(POLICY)?;
        Ok::<_, DemoError>(())
    })?;
    show(
        kubectl,
        &format!("get connectors,accesspolicies --namespace {NAMESPACE}"),
    )?;

    println!("\nA policy by which one approval would open the connector for every pod is refused:");
    match kubectl.apply(POLICY_TOO_WIDE) {
        Ok(_) => return Err(DemoError::TooWideAccepted),
        Err(refusal) => println!("{refusal}"),
    }

    println!("\nA pod on the real kubelet.");
    progress.step("run a pod to its end", || {
        kubectl.apply(&POD.replace("WORKLOAD_IMAGE", workload_image))?;
        wait_for_pod(kubectl)
    })?;
    show(
        kubectl,
        &format!("get pod hello --namespace {NAMESPACE} -o wide"),
    )?;
    show(kubectl, &format!("logs hello --namespace {NAMESPACE}"))?;

    println!("\n{}", next_steps(target, progress));
    Ok(())
}

/// Applies what an installation needs, and waits until the API server serves it.
pub fn install(kubectl: &Kubectl) -> Result<(), CommandError> {
    let root = crate::repository();
    let crds = root.join("deploy/crds");
    for dir in [&crds, &root.join("deploy/admission")] {
        kubectl.run_on_file("apply --server-side --force-conflicts", dir)?;
    }
    kubectl.run_on_file("wait --for=condition=Established --timeout=60s", &crds)?;
    Ok(())
}

/// The demo can be played again and again: what it made before goes first.
fn start_over(kubectl: &Kubectl) -> Result<(), DemoError> {
    kubectl.run(&format!(
        "delete namespace --selector {LABEL} --ignore-not-found --wait"
    ))?;
    let found = kubectl.run(&format!(
        "get namespace {NAMESPACE} --ignore-not-found -o name"
    ))?;
    if !found.is_empty() {
        return Err(DemoError::NamespaceTaken);
    }
    Ok(kubectl.create_namespace(NAMESPACE, &[LABEL])?)
}

fn wait_for_pod(kubectl: &Kubectl) -> Result<(), DemoError> {
    let question = format!("get pod hello --namespace {NAMESPACE} -o jsonpath={{.status.phase}}");
    let phase = poll(
        "the pod's end",
        Deadline::after(Duration::from_mins(1)),
        || match kubectl.run(&question) {
            Ok(phase) if phase == "Succeeded" || phase == "Failed" => Ok(phase),
            Ok(phase) => Err(phase),
            Err(error) => Err(error.to_string()),
        },
    )?;
    let output = kubectl.run(&format!("logs hello --namespace {NAMESPACE}"))?;
    if phase == "Succeeded" && output.trim() == "hello from a real pod" {
        Ok(())
    } else {
        Err(DemoError::WrongEnd { phase, output })
    }
}

fn show(kubectl: &Kubectl, words: &str) -> Result<(), CommandError> {
    println!("$ kubectl {words}");
    println!("{}", kubectl.run(words)?.trim_end());
    Ok(())
}

fn next_steps(target: &Target, progress: &Progress) -> String {
    let time = progress.elapsed();
    match target.local() {
        None => format!("Done in {time}. The demo's objects are in namespace {NAMESPACE}."),
        Some(cluster) => {
            let name = cluster.name();
            format!(
                "Done in {time}. The cluster stays up; try:
  cargo xtask cluster kubectl --name {name} -- explain accesspolicy.spec.checkGrantedPermission --recursive
  cargo xtask cluster kubectl --name {name} -- get apol,conn,areq -A
  cargo xtask cluster status
  cargo xtask cluster kill kube-apiserver --name {name}    (and `restart` it)
  cargo xtask cluster down --name {name}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use connectors_api::{AccessPolicy, ConnectorClass, parse};
    use serde::Deserialize;

    use super::*;

    #[test]
    fn the_types_read_what_the_demo_creates() {
        let policy: serde_json::Value = serde_yaml::from_str(POLICY).unwrap();
        let policy: AccessPolicy = parse::object(&policy).unwrap();
        // A field in the wrong place would be stored by the API server and never be acted upon.
        let gated = policy.spec.check_granted_permission.unwrap();
        assert!(gated.spec.limits.is_some());

        let mut documents = serde_yaml::Deserializer::from_str(CONNECTOR);
        let class = serde_json::Value::deserialize(documents.next().unwrap()).unwrap();
        let class: ConnectorClass = parse::object(&class).unwrap();
        assert_eq!(
            class.metadata.name.as_deref(),
            Some("connectors-approval-demo")
        );
    }
}
