//! The NetworkPolicies of the chart, and whether something enforces them.

use super::{DoctorFinding, DoctorRead, DoctorSeverity, DoctorWord};

/// The services whose ports the chart's NetworkPolicies guard.
const GUARDED: [&str; 2] = ["evaluation-service", "webhook"];
/// The names of DaemonSets that enforce NetworkPolicies.
const ENFORCING: [&str; 14] = [
    "anetd",
    "antrea-agent",
    "azure-npm",
    "calico-node",
    "canal",
    "cilium",
    "kube-ovn-cni",
    "kube-router",
    "ovnkube-node",
    "ovs-ovn",
    "rke2-calico-node",
    "rke2-canal",
    "sdn",
    "weave-net",
];

pub(super) fn examine(read: &DoctorRead) -> Vec<DoctorFinding> {
    let Some(policies) = &read.network_policies else {
        return Vec::new();
    };
    if super::installation::is_nowhere(read) {
        return Vec::new();
    }
    let system = &read.system_namespace;
    let missing: Vec<_> = GUARDED
        .into_iter()
        .filter(|name| {
            let mut names = policies.iter().map(|it| it.metadata.name.as_deref());
            !names.any(|it| it == Some(name))
        })
        .collect();
    if !missing.is_empty() {
        let finding = DoctorFinding::new(
            DoctorSeverity::Hint,
            DoctorWord::NetworkOpen,
            format!("Namespace {system}"),
            format!(
                "the chart's NetworkPolicy {} is not there: unless something else guards them, every pod of the cluster reaches the ports of these services",
                missing.join(" and ")
            ),
            "set the chart's networkPolicy.enabled, or guard the ports in another way",
        );
        return vec![finding.with_command(format!(
            "{} --set networkPolicy.enabled=true",
            super::installation::upgrade(read)
        ))];
    }
    let Some(agents) = &read.agents else {
        return Vec::new();
    };
    let is_enforced = agents.iter().any(|it| {
        let name = it.metadata.name.as_deref().unwrap_or_default();
        let ready = it.status.as_ref().map_or(0, |it| it.number_ready);
        ENFORCING.contains(&name) && ready > 0
    });
    if is_enforced {
        return Vec::new();
    }
    let finding = DoctorFinding::new(
        DoctorSeverity::Hint,
        DoctorWord::NetworkOpen,
        format!("NetworkPolicy {system}/{}", GUARDED[0]),
        "no DaemonSet of the cluster is known to enforce NetworkPolicies: they may be without effect",
        "find out whether the network enforces them: the command prints `reached` where it does not, and anything else says nothing",
    );
    vec![finding.with_command(format!(
        "kubectl -n default run network-test --rm -i --restart=Never --image=busybox -- sh -c 'nc -z -w 3 evaluation-service.{system} 8443 && echo reached'"
    ))]
}
