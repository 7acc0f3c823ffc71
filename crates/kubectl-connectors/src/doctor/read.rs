//! Reads the examined objects, in a number of calls that does not depend on the number of objects.

use authz::{RbacIndex, RbacObject};
use connectors_api::config::CONFIG_MAP;
use connectors_api::labels::MANAGED_BY;
use connectors_api::names::CSI_DRIVER;
use connectors_api::{AccessPolicy, AccessRequest, Connector, names};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::api::storage::v1::CSIDriver;
use service_kit::watches::Plain;
use tokio::time::Instant;

use super::narrow::RbacObjects;
use crate::reads::{ClusterReads, Found, ReadResult, ServerTime, Strict};
use crate::unread::{MissedRead, Presence, known};

/// The name of the webhook configurations of the chart.
const WEBHOOKS: &str = "connectors-approval";
/// The label of every workload of the chart.
const WORKLOADS: &str = "app.kubernetes.io/name=connectors-approval";

/// The objects that were read. None where a read failed. Then they are not judged.
#[derive(Debug, Default)]
pub struct DoctorRead {
    /// The namespace of the installation.
    pub system_namespace: String,
    /// Its settings.
    pub config: Presence<ConfigMap>,
    /// Its Deployments.
    pub deployments: Option<Vec<Deployment>>,
    /// Its DaemonSets.
    pub daemon_sets: Option<Vec<DaemonSet>>,
    /// The leases of its namespace.
    pub leases: Option<Vec<Lease>>,
    /// Its driver.
    pub driver: Presence<CSIDriver>,
    /// Its webhooks, mutating.
    pub mutating: Presence<MutatingWebhookConfiguration>,
    /// Its webhooks, validating.
    pub validating: Presence<ValidatingWebhookConfiguration>,
    /// The admission policies of the cluster.
    pub rules: Option<Vec<ValidatingAdmissionPolicy>>,
    /// Their bindings.
    pub rule_bindings: Option<Vec<ValidatingAdmissionPolicyBinding>>,
    /// The NetworkPolicies of the installation.
    pub network_policies: Option<Vec<NetworkPolicy>>,
    /// All DaemonSets of the cluster, among which are those of its network.
    pub agents: Option<Vec<DaemonSet>>,
    /// The time by the API server beside that of this machine, if it named one.
    pub clocks: Option<ClocksRead>,
    /// The time from there to the last read. A controller may have renewed its lease as much later.
    pub took: SignedDuration,
    /// The roles and bindings that others wrote.
    pub rbac_objects: RbacObjects,
    /// The roles of the cluster and their bindings.
    pub rbac: Option<RbacIndex>,
    /// The roles of the cluster and of the scope, and the bindings of the scope alone.
    pub rbac_of_scope: Option<RbacIndex>,
    /// The connectors of the scope.
    pub connectors: Option<Vec<Found<Connector>>>,
    /// The policies of the scope.
    pub policies: Option<Vec<Found<AccessPolicy>>>,
    /// The requests of the scope.
    pub requests: Option<Vec<Found<AccessRequest>>>,
    /// The RoleBindings of the product in the scope.
    pub bindings: Option<Vec<Found<RoleBinding>>>,
}

/// The time by the API server, and by this machine around the call that named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClocksRead {
    /// The time by the API server.
    pub server: Timestamp,
    /// The time of this machine before the call.
    pub before: Timestamp,
    /// The time of this machine after the call.
    pub after: Timestamp,
}

impl ClocksRead {
    fn of(answer: ServerTime, here: impl Fn(Instant) -> Timestamp) -> Self {
        Self {
            server: answer.time,
            before: here(answer.asked),
            after: here(answer.answered),
        }
    }
}

/// Reads the objects, and reports the failed reads. It begins at this time of this machine.
pub(super) async fn read(
    reads: &ClusterReads,
    namespace: &str,
    system_namespace: &str,
    now: Timestamp,
) -> (DoctorRead, Vec<MissedRead>) {
    let begun = Instant::now();
    let here = |at: Instant| now + elapsed(begun, at);
    let system = system_namespace;
    let (server_time, network_policies, agents) = tokio::join!(
        reads.server_time(),
        reads.all::<NetworkPolicy, Plain>(system, ""),
        reads.all::<DaemonSet, Plain>("", ""),
    );
    let (config, deployments, daemon_sets, leases, driver, mutating, validating) = tokio::join!(
        reads.one::<ConfigMap, Plain>(system, CONFIG_MAP),
        reads.all::<Deployment, Plain>(system, WORKLOADS),
        reads.all::<DaemonSet, Plain>(system, WORKLOADS),
        reads.all::<Lease, Plain>(system, ""),
        reads.one_of_cluster::<CSIDriver>(CSI_DRIVER),
        reads.one_of_cluster::<MutatingWebhookConfiguration>(WEBHOOKS),
        reads.one_of_cluster::<ValidatingWebhookConfiguration>(WEBHOOKS),
    );
    let (admission, admission_bindings, cluster_roles, cluster_bindings, roles, connectors) = tokio::join!(
        reads.all_of_cluster::<ValidatingAdmissionPolicy>(),
        reads.all_of_cluster::<ValidatingAdmissionPolicyBinding>(),
        reads.all_of_cluster::<ClusterRole>(),
        reads.all_of_cluster::<ClusterRoleBinding>(),
        reads.all::<Role, Plain>(namespace, ""),
        reads.all::<Connector, Plain>(namespace, ""),
    );
    // A binding is written after the policy and the request that it belongs to. In this order no binding seems to belong to
    // nothing.
    let bindings = reads.all::<RoleBinding, Plain>(namespace, "").await;
    let (policies, requests) = tokio::join!(
        reads.all::<AccessPolicy, Strict>(namespace, ""),
        reads.all::<AccessRequest, Strict>(namespace, ""),
    );

    let mut unread = Vec::new();
    let server_time = known(server_time, &mut unread).flatten();
    let took = elapsed(server_time.map_or(begun, |it| it.asked), Instant::now());
    let cluster_roles = known(cluster_roles, &mut unread);
    let cluster_bindings = known(cluster_bindings, &mut unread);
    let roles = known(roles, &mut unread);
    let bindings = known(bindings, &mut unread);
    let rbac = index(
        cluster_roles.as_deref(),
        Some(&[]),
        cluster_bindings.as_deref(),
    );
    let rbac_of_scope = index(
        cluster_roles.as_deref(),
        roles.as_deref(),
        bindings.as_deref(),
    );
    let parted = bindings.map(|all| all.into_iter().partition::<Vec<_>, _>(is_managed));
    let (bindings, of_others) = parted.unzip();
    let policies = known(policies, &mut unread);
    let read = DoctorRead {
        system_namespace: system.to_owned(),
        config: one(config, &mut unread),
        deployments: all(deployments, &mut unread),
        daemon_sets: all(daemon_sets, &mut unread),
        leases: all(leases, &mut unread),
        driver: one(driver, &mut unread),
        mutating: one(mutating, &mut unread),
        validating: one(validating, &mut unread),
        rules: all(admission, &mut unread),
        rule_bindings: all(admission_bindings, &mut unread),
        network_policies: all(network_policies, &mut unread),
        agents: all(agents, &mut unread),
        clocks: server_time.map(|it| ClocksRead::of(it, here)),
        took,
        rbac_objects: RbacObjects {
            cluster_roles: readable(cluster_roles),
            cluster_bindings: readable(cluster_bindings),
            roles: readable(roles),
            bindings: readable(of_others),
        },
        rbac,
        rbac_of_scope,
        connectors: known(connectors, &mut unread),
        policies,
        requests: known(requests, &mut unread),
        bindings,
    };
    (read, unread)
}

/// The objects that can be read.
fn readable<K>(objects: Option<Vec<Found<K>>>) -> Vec<K> {
    objects.into_iter().flatten().flatten().collect()
}

fn elapsed(from: Instant, until: Instant) -> SignedDuration {
    let time = until.saturating_duration_since(from);
    SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX)
}

/// The rights that bindings give, if these and all roles were read.
fn index<B: RbacObject>(
    cluster_roles: Option<&[Found<ClusterRole>]>,
    roles: Option<&[Found<Role>]>,
    bindings: Option<&[Found<B>]>,
) -> Option<RbacIndex> {
    let (cluster_roles, roles, bindings) = (cluster_roles?, roles?, bindings?);
    let mut index = RbacIndex::default();
    add(&mut index, cluster_roles);
    add(&mut index, roles);
    add(&mut index, bindings);
    Some(index)
}

/// Adds roles or bindings. One that cannot be indexed grants nothing.
fn add<K: RbacObject>(index: &mut RbacIndex, objects: &[Found<K>]) {
    for object in objects.iter().flatten() {
        let _ = index.apply(object);
    }
}

/// True for a binding of the product. An unreadable one may be.
fn is_managed(binding: &Found<RoleBinding>) -> bool {
    let metadata = match binding {
        Ok(binding) => &binding.metadata,
        Err(unreadable) => &unreadable.metadata,
    };
    let labels = metadata.labels.as_ref();
    labels.and_then(|it| it.get(MANAGED_BY)).map(String::as_str) == Some(names::MANAGED_BY)
}

/// Objects of Kubernetes' own kinds. One that cannot be parsed is left out.
fn all<K>(read: ReadResult<Vec<Found<K>>>, unread: &mut Vec<MissedRead>) -> Option<Vec<K>> {
    Some(known(read, unread)?.into_iter().flatten().collect())
}

/// One object. One that cannot be parsed counts as absent, because it has no effect.
fn one<K>(read: ReadResult<Option<Found<K>>>, unread: &mut Vec<MissedRead>) -> Presence<K> {
    Presence::of(read.map(|found| found.and_then(Result::ok)), unread)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn policies_and_requests_are_listed_after_the_bindings_that_are_written_for_them() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let client = testing::client(move |call| {
            seen.lock().unwrap().push(call.uri().path().to_owned());
            (200, json!({"metadata": {}, "items": []}))
        });
        let reads = ClusterReads::new(client, None, Duration::from_secs(5));
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        let (_, _) = Box::pin(read(&reads, "tools", "system", now)).await;
        let asked = asked.lock().unwrap();
        let place = |of: &str| {
            let found = asked.iter().position(|it| it.ends_with(of));
            found.unwrap_or_else(|| panic!("{of}: {asked:?}"))
        };
        let bindings = place("/namespaces/tools/rolebindings");
        assert!(bindings < place("/accesspolicies"), "{asked:?}");
        assert!(bindings < place("/accessrequests"), "{asked:?}");
    }
}
