//! `doctor`: every word is planted in an installation that is in order otherwise.

mod clocks;
mod plans;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use jiff::SignedDuration;
use k8s_openapi::ByteString;
use kubectl_connectors::doctor::{DoctorWord, OPTIONAL_RULES, RULES};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::{Value, json};
use testkit::Caller;

use crate::cluster::{CONNECTORS, Cluster, START, after, pod, policy};
use crate::documents::page_has;

const SYSTEM: &str = "connectors-system";
const LABELS: [&str; 2] = [
    "connectors.cpaas.io/connectorclass",
    "connectors.alauda.io/connectorclass",
];
const DOCTOR: [&str; 2] = ["doctor", "-A"];
/// The time from the begin of the cluster to the user's question.
const UNTIL_NOW: SignedDuration = SignedDuration::from_mins(12);

/// What is planted, and what is said about it.
struct Trouble {
    word: DoctorWord,
    severity: &'static str,
    plant: fn(&Cluster),
    object: &'static str,
    message: &'static str,
}

fn conditions(checks: (&str, &str)) -> Value {
    let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason, "message": "it says so", "lastTransitionTime": START});
    json!([
        condition("ConnectorsMatched", "True", "ConnectorsMatched"),
        condition("PermissionSynced", "True", "NoStandingPermission"),
        condition("ChecksValid", checks.0, checks.1),
        condition("Ready", checks.0, "Ready"),
    ])
}

fn rule(cluster: &Cluster, name: &str, actions: &Value) {
    cluster.put(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name}, "spec": {"failurePolicy": "Fail", "matchConstraints": {}},
    }));
    cluster.put(json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": actions},
    }));
}

fn webhooks(kind: &str, ca: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "connectors-approval"},
        "webhooks": [{
            "name": "x.connectors.alauda.io", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"caBundle": ca, "service": {"namespace": SYSTEM, "name": "webhook"}},
        }],
    })
}

/// The certificate of an authority with these times, as a webhook's configuration has it.
fn authority(from: (i32, u8, u8), until: (i32, u8, u8)) -> String {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.not_before = date_time_ymd(from.0, from.1, from.2);
    params.not_after = date_time_ymd(until.0, until.1, until.2);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    serde_json::to_value(ByteString(pem.into_bytes()))
        .unwrap()
        .as_str()
        .unwrap()
        .to_owned()
}

fn network(cluster: &Cluster, name: &str) {
    cluster.put(json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": SYSTEM, "labels": labels(name)},
        "spec": {"podSelector": {"matchLabels": {"app.kubernetes.io/component": name}}},
    }));
}

fn authority_of_webhook(cluster: &Cluster, from: (i32, u8, u8), until: (i32, u8, u8)) {
    let kind = "validatingwebhookconfigurations";
    cluster
        .server
        .change(kind, "", "connectors-approval", |it| {
            it["webhooks"][0]["clientConfig"]["caBundle"] = authority(from, until).into();
        });
}

/// An installation that is in order, with a policy, a pod that waits and a pod with a grant.
fn in_order() -> Cluster {
    let cluster = Cluster::waiting();
    for name in [
        "evaluation-service",
        "policy-controller",
        "request-controller",
        "webhook",
    ] {
        let labels = labels(name);
        cluster.put(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": SYSTEM, "labels": labels},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}},
            "status": {"readyReplicas": 2, "updatedReplicas": 2},
        }));
    }
    cluster.put(json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "csi-node", "namespace": SYSTEM, "labels": labels("csi-node")},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}}},
        "status": {"desiredNumberScheduled": 3, "numberReady": 3, "updatedNumberScheduled": 3,
            "currentNumberScheduled": 3, "numberMisscheduled": 0},
    }));
    for name in ["policy-controller", "request-controller"] {
        cluster.put(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": SYSTEM},
            "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15, "renewTime": lease_time(12)},
        }));
    }
    cluster.put(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "connectors-csi"},
        "spec": {"podInfoOnMount": true, "requiresRepublish": true},
    }));
    for kind in [
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    ] {
        cluster.put(webhooks(kind, &authority((2026, 2, 1), (2027, 2, 1))));
    }
    for name in ["evaluation-service", "webhook"] {
        network(&cluster, name);
    }
    cluster.put(json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "calico-node", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}}},
        "status": {"desiredNumberScheduled": 1, "numberReady": 1, "currentNumberScheduled": 1, "numberMisscheduled": 0},
    }));
    for name in RULES {
        rule(&cluster, name, &json!(["Deny"]));
    }
    cluster
        .server
        .change("connectors", "payments", "prod-harbor", |it| {
            for label in LABELS {
                it["metadata"]["labels"][label] = "oci".into();
            }
        });
    checks(&cluster, "True", "ChecksValid");
    cluster.looked_at();
    cluster.server.jump(UNTIL_NOW);
    cluster
}

/// Plants something as long ago as the installation.
fn long_ago(cluster: &Cluster, plant: impl FnOnce(&Cluster)) {
    cluster.server.jump(-UNTIL_NOW);
    plant(cluster);
    cluster.server.jump(UNTIL_NOW);
}

pub(crate) fn labels(name: &str) -> Value {
    json!({
        "app.kubernetes.io/name": "connectors-approval", "app.kubernetes.io/component": name,
        "app.kubernetes.io/version": env!("CARGO_PKG_VERSION"),
    })
}

/// Leases have times with microseconds.
fn lease_time(minutes: i64) -> String {
    after(minutes).replace('Z', ".000000Z")
}

fn checks(cluster: &Cluster, status: &str, reason: &str) {
    cluster.policy(|it| it["status"]["conditions"] = conditions((status, reason)));
}

fn config(cluster: &Cluster, key: &str, value: &str) {
    cluster
        .server
        .change("configmaps", SYSTEM, "connectors-config", |it| {
            it["data"][key] = value.into();
        });
}

fn deployment(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    cluster
        .server
        .change("deployments", SYSTEM, "webhook", change);
}

fn lease(cluster: &Cluster, minutes: i64) {
    cluster
        .server
        .change("leases", SYSTEM, "request-controller", |it| {
            it["spec"]["renewTime"] = lease_time(minutes).into();
        });
}

fn granted_request(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    let all = cluster.server.list("accessrequests");
    let of_pod = all
        .iter()
        .find(|it| it["spec"]["context"]["objectRef"]["name"] == "build-2");
    let name = of_pod.unwrap()["metadata"]["name"].as_str().unwrap();
    cluster
        .server
        .change("accessrequests", "payments", name, change);
}

fn may_everything(cluster: &Cluster, subject: &Value) {
    cluster.put(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "wide"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
    }));
    cluster.put(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "wide"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "wide"},
        "subjects": [subject],
    }));
}

#[allow(
    clippy::too_many_lines,
    reason = "a table, whose cells plant something each"
)]
fn troubles() -> Vec<Trouble> {
    let trouble = |word, severity, plant, object, message| Trouble {
        word,
        severity,
        plant,
        object,
        message,
    };
    vec![
        trouble(
            DoctorWord::NotInstalled,
            "Error",
            |it| {
                it.server.delete("configmaps", SYSTEM, "connectors-config");
                it.server.delete("daemonsets", SYSTEM, "csi-node");
                for name in [
                    "evaluation-service",
                    "policy-controller",
                    "request-controller",
                    "webhook",
                ] {
                    it.server.delete("deployments", SYSTEM, name);
                }
            },
            "Namespace connectors-system",
            "no settings and no workload",
        ),
        trouble(
            DoctorWord::SettingsMissing,
            "Error",
            |it| it.server.delete("configmaps", SYSTEM, "connectors-config"),
            "ConfigMap connectors-system/connectors-config",
            "it is missing",
        ),
        trouble(
            DoctorWord::SettingInvalid,
            "Error",
            |it| config(it, "enable-connectors-approval", "yes"),
            "ConfigMap connectors-system/connectors-config",
            "must be \"true\" or \"false\"",
        ),
        trouble(
            DoctorWord::ApprovalsOff,
            "Warning",
            |it| config(it, "enable-connectors-approval", "false"),
            "ConfigMap connectors-system/connectors-config",
            "every mount is let through",
        ),
        trouble(
            DoctorWord::RequestersOpen,
            "Warning",
            |it| config(it, "default-requesters", "Any"),
            "ConfigMap connectors-system/connectors-config",
            "lets pods of every namespace ask",
        ),
        trouble(
            DoctorWord::ServiceMissing,
            "Error",
            |it| it.server.delete("deployments", SYSTEM, "webhook"),
            "Deployment connectors-system/webhook",
            "it is missing",
        ),
        trouble(
            DoctorWord::ServiceNotReady,
            "Error",
            |it| deployment(it, |it| it["status"]["readyReplicas"] = 0.into()),
            "Deployment connectors-system/webhook",
            "none of 2 pods is ready",
        ),
        trouble(
            DoctorWord::ServiceNotReady,
            "Warning",
            |it| {
                it.server.change("daemonsets", SYSTEM, "csi-node", |it| {
                    it["status"]["numberReady"] = 2.into();
                });
            },
            "DaemonSet connectors-system/csi-node",
            "2 of 3 pods are ready",
        ),
        trouble(
            DoctorWord::VersionsApart,
            "Warning",
            |it| {
                deployment(it, |it| {
                    it["metadata"]["labels"]["app.kubernetes.io/version"] = "9.9.9".into();
                });
            },
            "Namespace connectors-system",
            "9.9.9",
        ),
        trouble(
            DoctorWord::LeaderGone,
            "Error",
            |it| lease(it, 2),
            "Lease connectors-system/request-controller",
            "no replica leads since 9m: nothing is granted or revoked",
        ),
        trouble(
            DoctorWord::LeaderGone,
            "Error",
            |it| {
                it.server.change("deployments", SYSTEM, "request-controller", |it| {
                    it["spec"]["template"]["spec"] = json!({"containers": [
                        {"name": "request-controller", "args": ["--log-level=info", "--shards=2"]},
                    ]});
                });
            },
            "Lease connectors-system/request-controller-1",
            "no replica leads: nothing is granted or revoked in the namespaces of this shard",
        ),
        trouble(
            DoctorWord::ClocksApart,
            "Warning",
            |it| lease(it, 15),
            "Lease connectors-system/request-controller",
            "3m ahead",
        ),
        trouble(
            DoctorWord::RuleNotInForce,
            "Error",
            |it| {
                let name = "grants-by-others.connectors.alauda.io";
                it.server
                    .delete("validatingadmissionpolicybindings", "", name);
            },
            "ValidatingAdmissionPolicy grants-by-others.connectors.alauda.io",
            "its binding is missing",
        ),
        trouble(
            DoctorWord::RuleNotInForce,
            "Warning",
            |it| {
                rule(
                    it,
                    "tekton-links.connectors.alauda.io",
                    &json!(["Warn", "Audit"]),
                );
            },
            "ValidatingAdmissionPolicy tekton-links.connectors.alauda.io",
            "only warns",
        ),
        trouble(
            DoctorWord::RuleNotInForce,
            "Error",
            |it| {
                it.put(json!({
                    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                    "metadata": {"name": "request-controller"},
                    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}],
                }));
                it.put(json!({
                    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                    "metadata": {"name": "request-controller"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                        "name": "request-controller"},
                    "subjects": [{"kind": "ServiceAccount", "namespace": SYSTEM, "name": "request-controller"}],
                }));
            },
            "ValidatingAdmissionPolicy pod-gates.connectors.alauda.io",
            "the request-controller may patch pods",
        ),
        trouble(
            DoctorWord::PipelinesUnguarded,
            "Hint",
            |it| {
                it.policy(|it| {
                    let check = &mut it["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
                    check["selector"]["objectRef"] =
                        json!({"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask"});
                });
            },
            "ValidatingAdmissionPolicy tekton-children.connectors.alauda.io",
            "no proof sees",
        ),
        trouble(
            DoctorWord::WebhookMissing,
            "Error",
            |it| {
                it.server
                    .delete("validatingwebhookconfigurations", "", "connectors-approval");
            },
            "ValidatingWebhookConfiguration connectors-approval",
            "accepted unseen",
        ),
        trouble(
            DoctorWord::WebhookUntrusted,
            "Error",
            |it| {
                let name = "connectors-approval";
                it.server
                    .change("mutatingwebhookconfigurations", "", name, |it| {
                        it["webhooks"][0]["clientConfig"]["caBundle"] = "".into();
                    });
            },
            "MutatingWebhookConfiguration connectors-approval",
            "no certificate authority",
        ),
        trouble(
            DoctorWord::CertificateOld,
            "Error",
            |it| authority_of_webhook(it, (2025, 1, 1), (2026, 2, 1)),
            "ValidatingWebhookConfiguration connectors-approval",
            "expired at 2026-02-01T00:00:00Z",
        ),
        trouble(
            DoctorWord::CertificateOld,
            "Warning",
            |it| authority_of_webhook(it, (2025, 4, 1), (2026, 4, 1)),
            "ValidatingWebhookConfiguration connectors-approval",
            "the webhook has not replaced it",
        ),
        trouble(
            DoctorWord::CertificateOld,
            "Error",
            |it| {
                let kind = "mutatingwebhookconfigurations";
                it.server.change(kind, "", "connectors-approval", |it| {
                    it["webhooks"][0]["clientConfig"]["caBundle"] = "Y2E=".into();
                });
            },
            "MutatingWebhookConfiguration connectors-approval",
            "cannot be read",
        ),
        trouble(
            DoctorWord::NetworkOpen,
            "Hint",
            |it| it.server.delete("networkpolicies", SYSTEM, "webhook"),
            "Deployment connectors-system/webhook",
            "no NetworkPolicy selects its pods",
        ),
        trouble(
            DoctorWord::NetworkOpen,
            "Hint",
            |it| {
                let name = "evaluation-service";
                it.server.change("networkpolicies", SYSTEM, name, |it| {
                    it["spec"]["policyTypes"] = json!(["Egress"]);
                });
            },
            "Deployment connectors-system/evaluation-service",
            "no NetworkPolicy selects its pods",
        ),
        trouble(
            DoctorWord::NetworkOpen,
            "Hint",
            |it| it.server.delete("daemonsets", "kube-system", "calico-node"),
            "Namespace connectors-system",
            "no DaemonSet of the cluster is known to enforce NetworkPolicies",
        ),
        trouble(
            DoctorWord::ClocksApart,
            "Warning",
            |it| it.server.jump(SignedDuration::from_mins(-5)),
            "the API server",
            "its clock, or that of a proxy before it, is 5m behind those of this machine and of the controllers",
        ),
        trouble(
            DoctorWord::ClocksApart,
            "Warning",
            |it| {
                it.server.jump(SignedDuration::from_mins(-20));
                for name in ["policy-controller", "request-controller"] {
                    it.server.change("leases", SYSTEM, name, |it| {
                        it["spec"]["renewTime"] = "2026-03-01T09:52:00.000000Z".into();
                    });
                }
            },
            "this machine",
            "its clock is 20m ahead of the API server's",
        ),
        trouble(
            DoctorWord::DriverWrong,
            "Error",
            |it| {
                it.server.change("csidrivers", "", "connectors-csi", |it| {
                    it["spec"]["podInfoOnMount"] = false.into();
                });
            },
            "CSIDriver connectors-csi",
            "podInfoOnMount",
        ),
        trouble(
            DoctorWord::PolicyUnreadable,
            "Error",
            |it| it.policy(|it| it["spec"]["conector"] = "x".into()),
            "AccessPolicy payments/approved-changes",
            "conector",
        ),
        trouble(
            DoctorWord::PolicyNotLookedAt,
            "Warning",
            |it| it.policy(|it| it["status"]["conditions"] = json!([])),
            "AccessPolicy payments/approved-changes",
            "has not looked at its current form",
        ),
        trouble(
            DoctorWord::PolicyNotInForce,
            "Error",
            |it| checks(it, "False", "KindMissing"),
            "AccessPolicy payments/approved-changes",
            "ChecksValid KindMissing: it says so",
        ),
        trouble(
            DoctorWord::PolicyQuestionable,
            "Warning",
            |it| checks(it, "True", "ChecksForgeable"),
            "AccessPolicy payments/approved-changes",
            "ChecksValid ChecksForgeable: it says so",
        ),
        trouble(
            DoctorWord::RequestUnreadable,
            "Warning",
            |it| granted_request(it, |it| it["spec"]["more"] = "x".into()),
            "AccessRequest payments/prod-harbor-",
            "every service ignores it",
        ),
        trouble(
            DoctorWord::RequestNotLookedAt,
            "Error",
            |it| {
                it.put(pod("build-3"));
                it.request("build-3");
            },
            "AccessRequest payments/prod-harbor-",
            "has not looked at it",
        ),
        trouble(
            DoctorWord::GrantNotRemoved,
            "Error",
            |it| {
                granted_request(it, |it| {
                    it["status"]["phase"] = "Revoked".into();
                    it["status"]["endedAt"] = after(3).into();
                });
            },
            "AccessRequest payments/prod-harbor-",
            "it is revoked",
        ),
        trouble(
            DoctorWord::GrantNotInForce,
            "Warning",
            |it| it.server.delete("rolebindings", "payments", "car-build-2"),
            "AccessRequest payments/prod-harbor-",
            "policy approved-changes granted to pod team-a/build-2",
        ),
        trouble(
            DoctorWord::GrantOverdue,
            "Error",
            |it| {
                granted_request(it, |it| {
                    it["status"]["policies"][0]["grant"]["expiresAt"] = after(5).into();
                });
            },
            "AccessRequest payments/prod-harbor-",
            "over since 7m",
        ),
        trouble(
            DoctorWord::GrantOrphaned,
            "Error",
            |it| {
                long_ago(it, |it| {
                    it.bind(
                        "build-9",
                        "build-9",
                        "uid-of-no-request",
                        "uid-approved-changes",
                    );
                });
            },
            "RoleBinding payments/car-build-9",
            "the request that it was written for is not there",
        ),
        trouble(
            DoctorWord::GrantOrphaned,
            "Error",
            |it| {
                long_ago(it, |it| {
                    it.put(json!({
                        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                        "metadata": {"name": "standing-9", "namespace": "payments", "labels": {
                            "app.kubernetes.io/managed-by": "connectors-approval",
                            "connectors.alauda.io/accessPolicyUid": "uid-of-no-policy",
                        }},
                        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "standing-9"},
                    }));
                });
            },
            "RoleBinding payments/standing-9",
            "the policy that it was written for is not there",
        ),
        trouble(
            DoctorWord::ConnectorUnlabelled,
            "Hint",
            |it| {
                it.server
                    .change("connectors", "payments", "prod-harbor", |it| {
                        it["metadata"]["labels"][LABELS[0]] = "other".into();
                    });
            },
            "Connector payments/prod-harbor",
            "class oci",
        ),
        trouble(
            DoctorWord::RightsTooWide,
            "Error",
            |it| {
                may_everything(
                    it,
                    &json!({"kind": "Group", "name": "system:serviceaccounts"}),
                );
            },
            "ClusterRoleBinding wide",
            "group system:serviceaccounts may use apis and proxy of every connector: no pod needs an approval",
        ),
        trouble(
            DoctorWord::RightsTooWide,
            "Warning",
            |it| {
                may_everything(
                    it,
                    &json!({"kind": "ServiceAccount", "namespace": "ci", "name": "deployer"}),
                );
            },
            "ClusterRoleBinding wide",
            "ServiceAccount ci/deployer may use apis and proxy of every connector",
        ),
        trouble(
            DoctorWord::RightsTooWide,
            "Error",
            |it| may_everything(it, &json!({"kind": "User", "name": "system:anonymous"})),
            "ClusterRoleBinding wide",
            "user system:anonymous may use apis and proxy of every connector",
        ),
        trouble(
            DoctorWord::RightsTooWide,
            "Warning",
            |it| {
                let group = "system:serviceaccounts:ci";
                may_everything(it, &json!({"kind": "Group", "name": group}));
            },
            "ClusterRoleBinding wide",
            "group system:serviceaccounts:ci may use apis and proxy of every connector: no pod of that namespace",
        ),
        trouble(
            DoctorWord::RightsTooWide,
            "Warning",
            |it| {
                let user = "system:serviceaccount:ci:deployer";
                may_everything(it, &json!({"kind": "User", "name": user}));
            },
            "ClusterRoleBinding wide",
            "may use apis and proxy of every connector: a pod that runs as it needs no approval",
        ),
        trouble(
            DoctorWord::RightsTooWide,
            "Hint",
            |it| may_everything(it, &json!({"kind": "Group", "name": "admins"})),
            "ClusterRoleBinding wide",
            "group admins may use apis and proxy of every connector",
        ),
        trouble(
            DoctorWord::RightsTooWide,
            "Warning",
            |it| {
                it.put(json!({
                    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                    "metadata": {"name": "tools", "namespace": "payments"},
                    "rules": [{"apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"], "verbs": ["*"]}],
                }));
                it.put(json!({
                    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                    "metadata": {"name": "tools", "namespace": "payments"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tools"},
                    "subjects": [{"kind": "ServiceAccount", "namespace": "ci", "name": "deployer"}],
                }));
            },
            "RoleBinding payments/tools",
            "ServiceAccount ci/deployer may use apis of every connector of namespace payments: a pod",
        ),
    ]
}

/// While an authority is replaced, the bundle has both.
#[tokio::test]
async fn an_old_authority_beside_a_new_one_is_in_order() {
    let cluster = in_order();
    let bundle = |from, until| {
        let text: ByteString = serde_json::from_value(authority(from, until).into()).unwrap();
        text.0
    };
    let both = [
        bundle((2026, 2, 1), (2027, 2, 1)),
        bundle((2025, 1, 1), (2026, 2, 1)),
    ];
    let both = serde_json::to_value(ByteString(both.concat())).unwrap();
    let kind = "validatingwebhookconfigurations";
    cluster
        .server
        .change(kind, "", "connectors-approval", |it| {
            it["webhooks"][0]["clientConfig"]["caBundle"] = both;
        });
    let outcome = cluster.run(&DOCTOR).await;
    assert_eq!(outcome.output, "nothing to mend\n", "{outcome:?}");
}

#[tokio::test]
async fn an_installation_in_order_has_nothing_to_mend() {
    let cluster = in_order();
    let outcome = cluster.run(&DOCTOR).await;
    assert_eq!(outcome.output, "nothing to mend\n", "{outcome:?}");
    assert_eq!(outcome.errors, "");
    assert_eq!(outcome.exit.code(), 0);
}

#[tokio::test]
async fn every_word_is_found_where_it_is_planted_and_has_something_that_mends_it() {
    let mut problems = Vec::new();
    let mut words = BTreeSet::new();
    for trouble in troubles() {
        let cluster = in_order();
        (trouble.plant)(&cluster);
        words.insert(trouble.word);
        let report = cluster.json(&DOCTOR).await;
        let findings = report["findings"].as_array().unwrap();
        let text = |it: &Value, field: &str| it[field].as_str().unwrap_or_default().to_owned();
        let is_it = |it: &&Value| {
            text(it, "word") == trouble.word.as_str()
                && text(it, "severity") == trouble.severity
                && text(it, "object").starts_with(trouble.object)
                && text(it, "message").contains(trouble.message)
                && !text(it, "fix").is_empty()
        };
        if !findings.iter().any(|it| is_it(&it)) {
            problems.push(format!("{}: {findings:#?}", trouble.word.as_str()));
        }
        let outcome = cluster.run(&DOCTOR).await;
        let expected = u8::from(trouble.severity != "Hint");
        let is_told = outcome.output.contains(trouble.word.as_str());
        if outcome.exit.code() != expected || !is_told {
            problems.push(format!("{}: {outcome:?}", trouble.word.as_str()));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let all: BTreeSet<_> = DoctorWord::ALL.iter().copied().collect();
    assert_eq!(words, all);
}

/// A slow clock of this machine makes no leader seem ahead, and a fast one makes none seem gone.
#[tokio::test]
async fn the_clock_of_this_machine_accuses_no_controller() {
    for minutes in [-30, 30] {
        let cluster = in_order();
        cluster.server.jump(SignedDuration::from_mins(minutes));
        for name in ["policy-controller", "request-controller"] {
            cluster.server.change("leases", SYSTEM, name, |it| {
                it["spec"]["renewTime"] = lease_time(12 + minutes).into();
            });
        }
        let report = cluster.json(&DOCTOR).await;
        let findings = report["findings"].as_array().unwrap();
        let told = |word: &str| findings.iter().filter(|it| it["word"] == word).count();
        assert_eq!(
            (told("ClocksApart"), told("LeaderGone")),
            (1, 0),
            "{report}"
        );
    }
}

#[tokio::test]
async fn what_may_not_be_read_is_not_judged() {
    let cluster = Cluster::new();
    cluster.server.jump(UNTIL_NOW);
    let nobody = Caller {
        process: "dev".to_owned(),
        user: "dev".to_owned(),
        groups: vec!["system:authenticated".to_owned()],
    };
    let outcome = cluster.run_as(&nobody, &DOCTOR).await;
    assert_eq!(
        outcome.output, "nothing to mend in what you may read\n",
        "{outcome:?}"
    );
    assert_eq!(outcome.exit.code(), 3);
    let told =
        "you may not list accesspolicies.connectors.alauda.io; ask an administrator of the cluster";
    assert!(outcome.errors.contains(told), "{}", outcome.errors);
}

#[tokio::test]
async fn a_doctor_makes_as_many_calls_whatever_the_number_of_requests() {
    let mut calls = Vec::new();
    for others in [0, 300] {
        let cluster = in_order();
        for number in 0..others {
            cluster.put(json!({
                "apiVersion": CONNECTORS, "kind": "Connector",
                "metadata": {"name": format!("tool-{number}"), "namespace": "payments"},
                "spec": {"connectorClassName": "oci"},
            }));
            cluster.put(policy(&format!("policy-{number}"), "payments"));
            cluster.put(pod(&format!("other-{number}")));
            cluster.request(&format!("other-{number}"));
        }
        let before = cluster.calls();
        cluster.run(&DOCTOR).await;
        calls.push(cluster.calls() - before);
    }
    assert_eq!(calls[0], calls[1]);
    assert!(calls[0] <= 20, "{calls:?}");
}

/// The names of the admission policies of the chart.
fn of_the_chart() -> BTreeSet<String> {
    let folder = "../../charts/connectors-approval/templates/admission";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut names = BTreeSet::new();
    for file in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let lines = text.lines().map(str::trim);
        let written = lines.filter_map(|line| {
            let name = line
                .strip_prefix("name: ")
                .or_else(|| line.strip_prefix("{{- $name := \""))
                .or_else(|| line.strip_prefix("{{- $name = \""))?;
            let name = name.trim_end_matches("\" }}");
            name.ends_with(".connectors.alauda.io")
                .then(|| name.to_owned())
        });
        names.extend(written);
    }
    names
}

#[test]
fn the_rules_that_are_looked_for_are_those_of_the_chart() {
    let looked_for: BTreeSet<_> = RULES
        .iter()
        .chain(&OPTIONAL_RULES)
        .map(|it| (*it).to_owned())
        .collect();
    assert_eq!(looked_for, of_the_chart());
}

#[test]
fn the_words_of_the_documentation_are_those_of_the_doctor() {
    let mut table = "| word | meaning |\n|---|---|\n".to_owned();
    for word in DoctorWord::ALL {
        writeln!(table, "| `{}` | {} |", word.as_str(), word.about().trim()).unwrap();
    }
    page_has("doctor", &table);
}
