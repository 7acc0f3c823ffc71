//! Reads the examined objects, in a number of calls that does not depend on the number of objects.

use authz::RbacIndex;
use connectors_api::config::CONFIG_MAP;
use connectors_api::labels::MANAGED_BY;
use connectors_api::names::CSI_DRIVER;
use connectors_api::{AccessPolicy, AccessRequest, Connector, names};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
use k8s_openapi::api::storage::v1::CSIDriver;
use service_kit::watches::Plain;

use crate::reads::{ClusterReads, Found, ReadResult, Strict};
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
    /// The roles of the cluster and their bindings.
    pub rbac: Option<RbacIndex>,
    /// The connectors of the scope.
    pub connectors: Option<Vec<Found<Connector>>>,
    /// The policies of the scope.
    pub policies: Option<Vec<Found<AccessPolicy>>>,
    /// The requests of the scope.
    pub requests: Option<Vec<Found<AccessRequest>>>,
    /// The RoleBindings of the product in the scope.
    pub bindings: Option<Vec<Found<RoleBinding>>>,
}

/// Reads the objects, and reports the failed reads.
pub(super) async fn read(
    reads: &ClusterReads,
    namespace: &str,
    system_namespace: &str,
) -> (DoctorRead, Vec<MissedRead>) {
    let system = system_namespace;
    let (config, deployments, daemon_sets, leases, driver, mutating, validating) = tokio::join!(
        reads.one::<ConfigMap, Plain>(system, CONFIG_MAP),
        reads.all::<Deployment, Plain>(system, WORKLOADS),
        reads.all::<DaemonSet, Plain>(system, WORKLOADS),
        reads.all::<Lease, Plain>(system, ""),
        reads.one_of_cluster::<CSIDriver>(CSI_DRIVER),
        reads.one_of_cluster::<MutatingWebhookConfiguration>(WEBHOOKS),
        reads.one_of_cluster::<ValidatingWebhookConfiguration>(WEBHOOKS),
    );
    let managed = format!("{MANAGED_BY}={}", names::MANAGED_BY);
    let (admission, admission_bindings, cluster_roles, cluster_bindings, connectors, policies) = tokio::join!(
        reads.all_of_cluster::<ValidatingAdmissionPolicy>(),
        reads.all_of_cluster::<ValidatingAdmissionPolicyBinding>(),
        reads.all_of_cluster::<ClusterRole>(),
        reads.all_of_cluster::<ClusterRoleBinding>(),
        reads.all::<Connector, Plain>(namespace, ""),
        reads.all::<AccessPolicy, Strict>(namespace, ""),
    );
    // A request records its grant before the binding is written. In this order no binding seems to belong to nothing.
    let bindings = reads.all::<RoleBinding, Plain>(namespace, &managed).await;
    let requests = reads.all::<AccessRequest, Strict>(namespace, "").await;

    let mut unread = Vec::new();
    let rbac = match (
        known(cluster_roles, &mut unread),
        known(cluster_bindings, &mut unread),
    ) {
        (Some(roles), Some(bound)) => {
            let mut index = RbacIndex::default();
            // An object that cannot be indexed grants nothing.
            for role in roles.iter().flatten() {
                let _ = index.apply(role);
            }
            for binding in bound.iter().flatten() {
                let _ = index.apply(binding);
            }
            Some(index)
        }
        _ => None,
    };
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
        rbac,
        connectors: known(connectors, &mut unread),
        policies: known(policies, &mut unread),
        requests: known(requests, &mut unread),
        bindings: known(bindings, &mut unread),
    };
    (read, unread)
}

/// Objects of Kubernetes' own kinds. One that cannot be parsed is left out.
fn all<K>(read: ReadResult<Vec<Found<K>>>, unread: &mut Vec<MissedRead>) -> Option<Vec<K>> {
    Some(known(read, unread)?.into_iter().flatten().collect())
}

/// One object. One that cannot be parsed counts as absent, because it has no effect.
fn one<K>(read: ReadResult<Option<Found<K>>>, unread: &mut Vec<MissedRead>) -> Presence<K> {
    Presence::of(read.map(|found| found.and_then(Result::ok)), unread)
}
