//! The installation itself: settings, workloads, leaders, webhooks, driver.

use std::{collections::BTreeSet, iter};

use connectors_api::config::{
    CONFIG_MAP, DEFAULT_REQUESTERS, DefaultRequesters, Knowledge, REQUESTERS_OPEN,
};
use connectors_api::names::CSI_DRIVER;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::clocks::SKEW;
use super::commands::{logs, upgrade};
use super::{DoctorFinding, DoctorRead, DoctorSeverity, DoctorWord, FixObject, webhooks};
use crate::terms::{NamespacedName, shell, span};
use crate::unread::Presence;

/// The Deployments of the chart.
const DEPLOYMENTS: [&str; 4] = [
    "evaluation-service",
    "policy-controller",
    "request-controller",
    "webhook",
];
/// The DaemonSet of the chart.
const NODE_PLUGIN: &str = "csi-node";
/// The controller with one leader.
const LED: &str = "policy-controller";
/// The controller with a leader for each shard.
const SHARDED: &str = "request-controller";
/// Its argument with the number of shards.
const SHARDS: &str = "--shards=";
/// The number of shards that the chart allows.
const MOST_SHARDS: usize = 16;
/// The label of the version of the chart's application.
const VERSION: &str = "app.kubernetes.io/version";
pub(super) fn examine(read: &DoctorRead, now: Timestamp) -> Vec<DoctorFinding> {
    if is_nowhere(read) {
        let system = &read.system_namespace;
        let finding = DoctorFinding::new(
            DoctorSeverity::Error,
            DoctorWord::NotInstalled,
            format!("Namespace {system}"),
            "it holds no settings and no workload of Connectors Approval",
            "name the namespace of the installation with --system-namespace, or install the chart with your registry",
        );
        return vec![finding.with_command(format!(
            "helm upgrade --install connectors-approval charts/connectors-approval --namespace {} --create-namespace \
             --wait --set image.registry=REGISTRY",
            shell(system)
        ))];
    }
    let mut findings = settings(read);
    findings.extend(workloads(read));
    findings.extend(leaders(read, now));
    findings.extend(webhooks::examine(read, now));
    findings.extend(driver(read));
    findings
}

/// True when the namespace was read, and holds nothing of the installation.
pub(super) fn is_nowhere(read: &DoctorRead) -> bool {
    read.config == Presence::Absent
        && read.deployments.as_ref().is_some_and(Vec::is_empty)
        && read.daemon_sets.as_ref().is_some_and(Vec::is_empty)
}

fn settings(read: &DoctorRead) -> Vec<DoctorFinding> {
    let system = &read.system_namespace;
    let object = format!("ConfigMap {system}/{CONFIG_MAP}");
    let config = match &read.config {
        Presence::There(config) => Some(config),
        Presence::Absent => None,
        Presence::Unread => return Vec::new(),
    };
    let Some(config) = config else {
        let finding = DoctorFinding::new(
            DoctorSeverity::Error,
            DoctorWord::SettingsMissing,
            object,
            "it is missing: services keep what they know, and one that starts now stays unready",
            "install the chart's ConfigMap again",
        );
        return vec![finding.with_command(upgrade(read))];
    };
    let mut known = Knowledge::default();
    let problems = known.learn(&config.data.clone().unwrap_or_default());
    let mut findings: Vec<_> = problems
        .iter()
        .map(|problem| {
            DoctorFinding::new(
                DoctorSeverity::Error,
                DoctorWord::SettingInvalid,
                object.clone(),
                problem.to_string(),
                "correct the value of the chart, or the key",
            )
            .with_command(format!("kubectl -n {system} edit configmap {CONFIG_MAP}"))
        })
        .collect();
    if known.config().is_some_and(|it| !it.enabled) {
        let finding = DoctorFinding::new(
            DoctorSeverity::Warning,
            DoctorWord::ApprovalsOff,
            object.clone(),
            "approvals are off: every mount is let through, and nothing is granted",
            "turn them on when the policies are written",
        );
        findings
            .push(finding.with_command(format!("{} --set approval.enabled=true", upgrade(read))));
    }
    if known.default_requesters() == DefaultRequesters::Any {
        let finding = DoctorFinding::new(
            DoctorSeverity::Warning,
            DoctorWord::RequestersOpen,
            object,
            REQUESTERS_OPEN,
            "let only the service accounts of the policy's namespace ask by default; the next upgrade of the chart writes the \
             chart's value again",
        );
        let name = NamespacedName::new(system, CONFIG_MAP);
        let strict = json!({DEFAULT_REQUESTERS: DefaultRequesters::Namespace.as_str()});
        let manifest = FixObject::new("v1", "ConfigMap", name).with_field("data", strict);
        let command = format!(
            "{} --set approval.defaultRequesters=Namespace",
            upgrade(read)
        );
        findings.push(finding.with_command(command).with_object(manifest));
    }
    findings
}

/// The desired and the actual number of pods of a workload.
#[derive(Clone, Copy)]
struct PodCount {
    wanted: i32,
    ready: i32,
    updated: i32,
}

fn workloads(read: &DoctorRead) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    let mut versions = BTreeSet::new();
    let mut look = |kind: &str, name: &str, found: Option<(&ObjectMeta, PodCount)>| {
        let object = format!("{kind} {}/{name}", read.system_namespace);
        match found {
            None => {
                let finding = DoctorFinding::new(
                    DoctorSeverity::Error,
                    DoctorWord::ServiceMissing,
                    object,
                    "it is missing",
                    "install the chart again",
                );
                findings.push(finding.with_command(upgrade(read)));
            }
            Some((metadata, pods)) => {
                let labels = metadata.labels.as_ref();
                versions.extend(labels.and_then(|it| it.get(VERSION)).cloned());
                findings.extend(not_ready(read, object, name, pods));
            }
        }
    };
    if let Some(deployments) = &read.deployments {
        for name in DEPLOYMENTS {
            let mut all = deployments.iter();
            let it = all.find(|it| it.metadata.name.as_deref() == Some(name));
            let found = it.map(|it| {
                let status = it.status.as_ref();
                let pods = PodCount {
                    wanted: it.spec.as_ref().and_then(|it| it.replicas).unwrap_or(1),
                    ready: status.and_then(|it| it.ready_replicas).unwrap_or(0),
                    updated: status.and_then(|it| it.updated_replicas).unwrap_or(0),
                };
                (&it.metadata, pods)
            });
            look("Deployment", name, found);
        }
    }
    if let Some(sets) = &read.daemon_sets {
        let mut all = sets.iter();
        let it = all.find(|it| it.metadata.name.as_deref() == Some(NODE_PLUGIN));
        let found = it.map(|it| {
            let status = it.status.as_ref();
            let pods = PodCount {
                wanted: status.map_or(1, |it| it.desired_number_scheduled),
                ready: status.map_or(0, |it| it.number_ready),
                updated: status
                    .and_then(|it| it.updated_number_scheduled)
                    .unwrap_or(0),
            };
            (&it.metadata, pods)
        });
        look("DaemonSet", NODE_PLUGIN, found);
    }
    findings.extend(versions_apart(read, &versions));
    findings
}

fn not_ready(
    read: &DoctorRead,
    object: String,
    name: &str,
    pods: PodCount,
) -> Option<DoctorFinding> {
    let system = &read.system_namespace;
    let PodCount {
        wanted,
        ready,
        updated,
    } = pods;
    let (severity, message) = if wanted == 0 {
        (DoctorSeverity::Error, "it should have no pod".to_owned())
    } else if ready == 0 {
        (
            DoctorSeverity::Error,
            format!("none of {wanted} pods is ready"),
        )
    } else if ready < wanted {
        (
            DoctorSeverity::Warning,
            format!("{ready} of {wanted} pods are ready"),
        )
    } else if updated < wanted {
        (
            DoctorSeverity::Warning,
            format!("{updated} of {wanted} pods have its current form"),
        )
    } else {
        return None;
    };
    let finding = DoctorFinding::new(
        severity,
        DoctorWord::ServiceNotReady,
        object,
        message,
        "look at the events of its pods, and at their logs",
    );
    Some(finding.with_command(format!(
        "kubectl -n {system} describe pods -l app.kubernetes.io/component={name}"
    )))
}

fn versions_apart(read: &DoctorRead, versions: &BTreeSet<String>) -> Option<DoctorFinding> {
    let own = env!("CARGO_PKG_VERSION");
    let list = versions.iter().cloned().collect::<Vec<_>>().join(", ");
    let object = format!("Namespace {}", read.system_namespace);
    if versions.len() > 1 {
        let finding = DoctorFinding::new(
            DoctorSeverity::Warning,
            DoctorWord::VersionsApart,
            object,
            format!("its workloads are of the versions {list}"),
            "finish the upgrade",
        );
        return Some(finding.with_command(upgrade(read)));
    }
    let is_other = versions.iter().any(|it| it != own);
    is_other.then(|| {
        DoctorFinding::new(
            DoctorSeverity::Hint,
            DoctorWord::VersionsApart,
            object,
            format!("the installation is of version {list}, and this plugin of {own}: it may judge differently"),
            format!("install the plugin of version {list}, in the folder of that version's sources"),
        )
        .with_command("cargo install --locked --profile plugin --path crates/kubectl-connectors".to_owned())
    })
}

fn leaders(read: &DoctorRead, now: Timestamp) -> Vec<DoctorFinding> {
    let Some(leases) = &read.leases else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    let of_shards = (0..shards(read)).map(|shard| match shard {
        0 => (SHARDED, SHARDED.to_owned()),
        shard => (SHARDED, format!("{SHARDED}-{shard}")),
    });
    for (name, lease) in iter::once((LED, LED.to_owned())).chain(of_shards) {
        let object = format!("Lease {}/{lease}", read.system_namespace);
        let mut all = leases.iter();
        let lease = all.find(|it| it.metadata.name.as_ref() == Some(&lease));
        let spec = lease.and_then(|it| it.spec.as_ref());
        let renewed = spec.and_then(|it| it.renew_time.as_ref()).map(|it| it.0);
        let length = spec.and_then(|it| it.lease_duration_seconds).unwrap_or(0);
        let holder = spec.and_then(|it| it.holder_identity.as_deref());
        let Some(renewed) = renewed.filter(|_| holder.is_some_and(|it| !it.is_empty())) else {
            findings.push(leader_gone(read, object, name, "no replica leads"));
            continue;
        };
        let length = SignedDuration::from_secs(length.into());
        let over = now.duration_since(renewed) - length;
        if over > SKEW {
            let since = span(over.as_secs());
            let message = format!("no replica leads since {since}");
            findings.push(leader_gone(read, object, name, &message));
        } else if renewed.duration_since(now) > SKEW + read.took {
            let apart = span(renewed.duration_since(now).as_secs());
            let finding = DoctorFinding::new(
                DoctorSeverity::Warning,
                DoctorWord::ClocksApart,
                object,
                format!("its leader's clock is {apart} ahead of the API server's"),
                "synchronize the clocks of the nodes, among them that of the leader's pod; times of access are those of the \
                 controllers",
            );
            findings.push(finding.with_command(format!(
                "kubectl -n {} get pods -l app.kubernetes.io/component={name} -o wide",
                shell(&read.system_namespace)
            )));
        }
    }
    findings
}

/// The number of shards of the request-controller: one where its Deployment does not tell.
fn shards(read: &DoctorRead) -> usize {
    let mut deployments = read.deployments.iter().flatten();
    let sharded = deployments.find(|it| it.metadata.name.as_deref() == Some(SHARDED));
    let pod = sharded.and_then(|it| it.spec.as_ref()?.template.spec.as_ref());
    let containers = pod.into_iter().flat_map(|it| &it.containers);
    let mut arguments = containers.flat_map(|it| it.args.iter().flatten());
    let count = arguments.find_map(|it| it.strip_prefix(SHARDS)?.parse().ok());
    count.unwrap_or(1).min(MOST_SHARDS)
}

fn leader_gone(read: &DoctorRead, object: String, name: &str, message: &str) -> DoctorFinding {
    let does = match (name, shards(read)) {
        (SHARDED, 1) => "nothing is granted or revoked",
        (SHARDED, _) => "nothing is granted or revoked in the namespaces of this shard",
        _ => "standing permissions do not follow their policies",
    };
    let finding = DoctorFinding::new(
        DoctorSeverity::Error,
        DoctorWord::LeaderGone,
        object,
        format!("{message}: {does}"),
        "look at the logs of its pods",
    );
    finding.with_command(logs(read, name))
}

fn driver(read: &DoctorRead) -> Option<DoctorFinding> {
    let spec = match &read.driver {
        Presence::Unread => return None,
        Presence::Absent => None,
        Presence::There(driver) => Some(&driver.spec),
    };
    let message = match spec {
        None => "it is missing: no pod can mount a connector",
        Some(spec) if spec.pod_info_on_mount != Some(true) => {
            "podInfoOnMount is not true: a pod could name another pod, and csi-node refuses every mount"
        }
        Some(spec) if spec.requires_republish != Some(true) => {
            "requiresRepublish is not true: volumes are not emptied when access ends"
        }
        Some(_) => return None,
    };
    let finding = DoctorFinding::new(
        DoctorSeverity::Error,
        DoctorWord::DriverWrong,
        format!("CSIDriver {CSI_DRIVER}"),
        message,
        "install the chart's CSIDriver again",
    );
    let finding = finding.with_command(upgrade(read));
    if spec.is_none() {
        return Some(finding);
    }
    let right = json!({"podInfoOnMount": true, "requiresRepublish": true});
    let driver = FixObject::of_cluster("storage.k8s.io/v1", "CSIDriver", CSI_DRIVER);
    Some(finding.with_object(driver.with_field("spec", right)))
}
