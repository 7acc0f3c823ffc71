//! The RBAC of a namespace, and the subjects that it allows something.

use authz::{RbacIndex, ResourceRequest, Subject, SystemMasters, Target};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use service_kit::{reviews, watches::Plain};

use crate::reads::ClusterReads;
use crate::unread::MissedRead;

/// The limit of subjects that an answer names.
const MOST: usize = 64;

/// The RBAC of the cluster and of one namespace.
#[derive(Debug, Default)]
pub struct RbacRead {
    /// The roles and bindings that could be read.
    pub index: RbacIndex,
    /// Whether these are all roles and bindings.
    pub is_whole: bool,
}

/// Reads the RBAC in four calls. Failed reads are added to `unread`.
pub async fn read(reads: &ClusterReads, namespace: &str, unread: &mut Vec<MissedRead>) -> RbacRead {
    let (roles, bindings, cluster_roles, cluster_bindings) = tokio::join!(
        reads.all::<Role, Plain>(namespace, ""),
        reads.all::<RoleBinding, Plain>(namespace, ""),
        reads.all_of_cluster::<ClusterRole>(),
        reads.all_of_cluster::<ClusterRoleBinding>(),
    );
    let mut rbac = RbacRead {
        index: RbacIndex::default(),
        is_whole: true,
    };
    macro_rules! add {
        ($($read:expr),+) => {$(
            match $read {
                // An object that cannot be read grants nothing, also for the API server.
                Ok(found) => for object in found.iter().flatten() {
                    rbac.is_whole &= rbac.index.apply(object).is_ok();
                },
                Err(problem) => {
                    rbac.is_whole = false;
                    unread.push(problem);
                }
            }
        )+};
    }
    add!(roles, bindings, cluster_roles, cluster_bindings);
    rbac
}

/// The users, groups and accounts that may write an object, or its status, without those of the cluster itself.
#[must_use]
pub fn writers(index: &RbacIndex, object: ResourceRequest<'_>) -> Vec<String> {
    let mut is_cut = false;
    let mut found: Vec<Subject> = Vec::new();
    for verb in ["update", "patch"] {
        let who = index.who_can(verb, Target::Resource(object), MOST, |_| true);
        is_cut |= who.is_cut;
        found.extend(who.subjects);
    }
    found.retain(|it| !is_of_the_cluster(it) && !is_controller(it));
    found.sort();
    found.dedup();
    is_cut |= found.len() > MOST;
    found.truncate(MOST);
    let mut told: Vec<_> = found.iter().map(subject).collect();
    told.extend(is_cut.then(|| "others, which are too many to list".to_owned()));
    told
}

/// The control plane, the nodes, and the group that may do everything. Other names that begin with `system:` can be of
/// anything: `system:anonymous` is every caller without a name.
pub(crate) fn is_of_the_cluster(subject: &Subject) -> bool {
    match subject {
        Subject::User(name) => {
            name.starts_with("system:kube-")
                || name.starts_with("system:node:")
                || **name == *"system:apiserver"
        }
        Subject::Group(name) => **name == *SystemMasters::GROUP,
        Subject::ServiceAccount { .. } => false,
    }
}

/// The controllers of the cluster itself, which may write every object.
fn is_controller(subject: &Subject) -> bool {
    matches!(subject, Subject::ServiceAccount { namespace, .. } if **namespace == *"kube-system")
}

/// Groups that the cluster makes, and that contain tenants.
pub(crate) fn is_everybody(group: &str) -> bool {
    group == "system:authenticated"
        || group == "system:unauthenticated"
        || group == reviews::ACCOUNTS
}

/// A subject as people write it.
#[must_use]
pub fn subject(subject: &Subject) -> String {
    match subject {
        Subject::User(name) => format!("user {name}"),
        Subject::Group(name) => format!("group {name}"),
        Subject::ServiceAccount { namespace, name } => {
            format!("ServiceAccount {namespace}/{name}")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bind(index: &mut RbacIndex, name: &str, resource: &str, subjects: &Value) {
        let role: Role = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "apps"},
            "rules": [{"apiGroups": ["itsm.example.com"], "resources": [resource], "verbs": ["patch"]}],
        }))
        .unwrap();
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "apps"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": subjects,
        }))
        .unwrap();
        index.apply(&role).unwrap();
        index.apply(&binding).unwrap();
    }

    #[test]
    fn writers_are_those_of_the_subresource_without_the_cluster_itself() {
        let mut index = RbacIndex::default();
        let people = json!([
            {"kind": "Group", "name": "qa"}, {"kind": "User", "name": "alice"},
            {"kind": "ServiceAccount", "namespace": "itsm", "name": "bridge"},
            {"kind": "Group", "name": "system:authenticated"},
            {"kind": "Group", "name": "system:masters"}, {"kind": "User", "name": "system:kube-scheduler"},
            {"kind": "ServiceAccount", "namespace": "kube-system", "name": "generic-garbage-collector"},
        ]);
        bind(&mut index, "status", "changerequests/status", &people);
        bind(
            &mut index,
            "spec",
            "changerequests",
            &json!([{"kind": "User", "name": "bob"}]),
        );
        let object = ResourceRequest {
            group: "itsm.example.com",
            resource: "changerequests",
            subresource: "status",
            namespace: "apps",
            name: "chg-42",
            ..ResourceRequest::default()
        };
        assert_eq!(
            writers(&index, object),
            [
                "user alice",
                "group qa",
                "group system:authenticated",
                "ServiceAccount itsm/bridge"
            ]
        );
        let spec = ResourceRequest {
            subresource: "",
            ..object
        };
        assert_eq!(writers(&index, spec), ["user bob"]);
    }

    #[test]
    fn only_the_control_plane_the_nodes_and_masters_are_of_the_cluster() {
        let user = |name: &str| Subject::User(name.into());
        let group = |name: &str| Subject::Group(name.into());
        for (subject, expected) in [
            (user("system:kube-controller-manager"), true),
            (user("system:node:one"), true),
            (user("system:apiserver"), true),
            (group("system:masters"), true),
            (user("system:anonymous"), false),
            (user("system:serviceaccount:ci:deployer"), false),
            (group("system:nodes"), false),
            (group("system:unauthenticated"), false),
            (group("system:serviceaccounts:ci"), false),
        ] {
            assert_eq!(is_of_the_cluster(&subject), expected, "{subject:?}");
        }
    }

    #[test]
    fn writers_that_are_too_many_to_list_are_told() {
        let mut index = RbacIndex::default();
        let people: Vec<_> = (0..=MOST)
            .map(|number| json!({"kind": "User", "name": format!("user-{number}")}))
            .collect();
        bind(&mut index, "all", "changerequests", &json!(people));
        let object = ResourceRequest {
            group: "itsm.example.com",
            resource: "changerequests",
            namespace: "apps",
            name: "chg-42",
            ..ResourceRequest::default()
        };
        let writers = writers(&index, object);
        assert_eq!(writers.len(), MOST + 1);
        assert!(writers[MOST].starts_with("others"), "{writers:?}");
    }
}
