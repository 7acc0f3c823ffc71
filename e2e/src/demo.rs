//! The demo: the whole story on a real node, with the very commands a person would type.

mod controllers;
mod story;

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    cluster::UpError,
    command::CommandError,
    images::{self, Image, Profile, programs_dir},
    install::{self, InstallError},
    progress::Progress,
    target::{Kubectl, Target},
    wait::TimedOut,
};
use controllers::Controllers;
use story::Story;

/// Where the demo plays.
const NAMESPACE: &str = "connectors-approval-demo";
/// Says that the namespace is the demo's own; no other is ever deleted.
const LABEL: &str = "app.kubernetes.io/managed-by=connectors-approval-demo";
/// The beginning of the event of the waiting pod, as the README shows it.
pub const WAITING_EVENT: &str = "connector connectors-approval-demo/prod-harbor: policy approved-runs: check approval: \
     ApprovalTask connectors-approval-demo/release-wait waits for its approvers alice: ";
const CONNECTOR: &str = include_str!("../demo/connector.yaml");
const POLICY: &str = include_str!("../demo/policy.yaml");
const POLICY_TOO_WIDE: &str = include_str!("../demo/policy-too-wide.yaml");
const PIPELINE_RUN: &str = include_str!("../demo/pipeline-run.yaml");
const POD: &str = include_str!("../demo/pod.yaml");
const APPROVER: &str = include_str!("../demo/approver.yaml");

/// Why the story did not play to its end.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// No cluster.
    #[error(transparent)]
    Up(#[from] UpError),
    /// The system could not be installed.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// A command failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// Nothing to play on.
    #[error(
        "the chart is not installed on this cluster, or its feature is off; install it with \
         --set approval.enabled=true (docs/install.md)"
    )]
    NotInstalled,
    /// A foreign namespace has the name.
    #[error(
        "namespace {NAMESPACE} is there already and is not the demo's (it lacks the label {LABEL}); delete or rename it"
    )]
    NamespaceTaken,
    /// The demo plays Tekton itself.
    #[error(
        "the kinds of Tekton are on this cluster already, and the demo plays Tekton's controllers itself; play it on \
         another cluster, or `cargo xtask test tekton --kubeconfig FILE` on this one"
    )]
    TektonThere,
    /// The pods of the run are no YAML.
    #[error("e2e/demo/pod.yaml cannot be read")]
    Pod(#[from] serde_yaml::Error),
    /// The plugin says something else than the story.
    #[error("`kubectl connectors {words}` does not say `{wanted}`:\n{output}")]
    PluginSays {
        /// The command line.
        words: String,
        /// The expected text.
        wanted: String,
        /// The output.
        output: String,
    },
    /// Something did not happen.
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
    /// Something happened that must not.
    #[error("the API server accepted a policy that opens a connector for every pod")]
    TooWideAccepted,
    /// The API server says something about access that must not be.
    #[error("the API server {} that {who} may use the connector", if *.allowed { "says" } else { "does not say" })]
    Access {
        /// The account.
        who: String,
        /// The answer of the API server.
        allowed: bool,
    },
    /// The container did not print the expected content.
    #[error("`{fact}` is not among what the container found in its volume:\n{output}")]
    Facts {
        /// The expected text.
        fact: &'static str,
        /// The output.
        output: String,
    },
}

/// Plays the story on a cluster that is up, and leaves it up.
pub fn play(target: &Target, workload_image: &str, progress: &Progress) -> Result<(), DemoError> {
    let kubectl = target.kubectl();
    println!(
        "\nThe system: five services, the custom resources, and the rules that the API server itself enforces."
    );
    if target.local().is_some() {
        load_workload(target, progress)?;
        install::install(target, Profile::Dev, &values(), progress)?;
    } else {
        expect_installation(kubectl)?;
    }
    show(
        kubectl,
        "get deployments,daemonsets --namespace connectors-system",
    )?;

    println!(
        "\nA connector, and who may use it when: pods of a pipeline run as `deployer`, once alice has approved that run."
    );
    let mut pod_spec: Value = serde_yaml::from_str(POD)?;
    pod_spec["containers"][0]["image"] = workload_image.into();
    let controllers = progress.step("create them", || {
        start_over(kubectl)?;
        let controllers = Controllers::start(kubectl, &pod_spec)?;
        kubectl.apply(CONNECTOR)?;
        kubectl.apply(POLICY)?;
        kubectl.apply(APPROVER)?;
        kubectl.run(&format!(
            "create serviceaccount deployer --namespace {NAMESPACE}"
        ))?;
        Ok::<_, DemoError>(controllers)
    })?;
    show(
        kubectl,
        &format!("get connectors,accesspolicies --namespace {NAMESPACE}"),
    )?;

    println!("\nA policy by which one approval would open the connector for every pod is refused:");
    match kubectl.apply(POLICY_TOO_WIDE) {
        Ok(_) => return Err(DemoError::TooWideAccepted),
        Err(CommandError::Failed { output, .. }) => println!("{output}"),
        Err(other) => return Err(other.into()),
    }
    let story = Story {
        kubectl,
        pod_spec: &pod_spec,
        progress,
    };
    story.wait_at_the_door()?;
    story.let_in()?;
    story.forger()?;
    story.end()?;
    if target.local().is_none() {
        controllers.remove(kubectl)?;
    }
    println!("\n{}", next_steps(target, progress));
    Ok(())
}

fn load_workload(target: &Target, progress: &Progress) -> Result<(), DemoError> {
    let Some(cluster) = target.local() else {
        return Ok(()); // its nodes pull the images
    };
    progress.step("build and load the demo's pod", || {
        for archive in
            images::build(&[Image::Workload], Profile::Dev).map_err(InstallError::Images)?
        {
            cluster.load(&archive)?;
        }
        Ok(())
    })
}

/// A foreign cluster is left as it is: the demo plays on the existing installation.
fn expect_installation(kubectl: &Kubectl) -> Result<(), DemoError> {
    let words = "get configmap connectors-config --namespace connectors-system --ignore-not-found \
         -o jsonpath={.data.enable-connectors-approval}";
    match kubectl.run(words)?.as_str() {
        "true" => Ok(()),
        _ => Err(DemoError::NotInstalled),
    }
}

/// The values that the demo needs.
fn values() -> Value {
    json!({
        "approval": {"enabled": true},
        "log": {"format": "text"},
    })
}

/// The demo can be played again and again: its earlier objects are removed first.
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
            let kubectl = target.kubectl();
            let config = kubectl.kubeconfig().display();
            let programs = kubectl.program().parent().unwrap_or(Path::new("."));
            let (programs, plugin) = (programs.display(), programs_dir());
            let plugin = plugin.display();
            format!(
                "Done in {time}. The cluster stays up. docs/tutorial.md goes on from here, with this kubectl and the plugin:
  export KUBECONFIG={config}
  export PATH={programs}:{plugin}:$PATH
Or try:
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
