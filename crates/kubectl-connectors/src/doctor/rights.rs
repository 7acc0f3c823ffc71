//! Rights around the product: subjects that need no approval.

use std::collections::BTreeMap;

use authz::{AllowedBy, Attributes, RbacIndex, ResourceRequest, Subject, Target};
use connectors_api::{Permission, names};

use super::{DoctorFinding, DoctorRead, DoctorSeverity, DoctorWord};
use crate::rbac;

/// The limit of examined subjects.
const MOST: usize = 64;
/// The verb of every mount.
const ANY_VERB: &str = "*";
/// The user of callers without a name.
const ANONYMOUS: &str = "system:anonymous";
/// An access to an unnamed connector. A rule that names connectors does not allow it.
const fn every_connector(permission: Permission) -> Target<'static> {
    Target::Resource(ResourceRequest {
        group: names::GROUP,
        resource: names::CONNECTORS,
        subresource: permission.as_str(),
        namespace: "",
        name: "",
        field_selector: None,
        label_selector: None,
    })
}

pub(super) fn examine(read: &DoctorRead) -> Vec<DoctorFinding> {
    let Some(index) = &read.rbac else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut holders: BTreeMap<(Subject, String), Vec<Permission>> = BTreeMap::new();
    for permission in Permission::ALL.iter().copied() {
        let target = every_connector(permission);
        let who = index.who_can(ANY_VERB, target, MOST, |_| true);
        if who.is_cut {
            found.push(DoctorFinding::new(
                DoctorSeverity::Warning,
                DoctorWord::RightsTooWide,
                "ClusterRoleBindings",
                format!("more than {MOST} subjects may use {permission} of every connector; the others are not listed"),
                "take the subjects out of the bindings, or narrow their roles",
            ));
        }
        for subject in who.subjects {
            if rbac::is_of_the_cluster(&subject) || is_ours(&subject, &read.system_namespace) {
                continue;
            }
            for binding in bindings(index, &subject, permission) {
                let key = (subject.clone(), binding);
                holders.entry(key).or_default().push(permission);
            }
        }
    }
    let each = holders.iter();
    found.extend(each.map(|((subject, binding), of)| finding(subject, binding, of)));
    found
}

/// The controllers hold every right that they grant.
fn is_ours(subject: &Subject, system_namespace: &str) -> bool {
    matches!(subject, Subject::ServiceAccount { namespace, .. } if **namespace == *system_namespace)
}

/// The names of the bindings of the cluster that allow it.
fn bindings(index: &RbacIndex, subject: &Subject, permission: Permission) -> Vec<String> {
    let user = subject.alone();
    let grants = index.allowing(&Attributes {
        user: &user,
        verb: ANY_VERB,
        target: every_connector(permission),
    });
    let name = |AllowedBy { binding, .. }: AllowedBy<'_>| binding.name().to_owned();
    let mut names: Vec<_> = grants.take(MOST).map(name).collect();
    names.sort();
    names.dedup();
    names
}

fn finding(subject: &Subject, binding: &str, permissions: &[Permission]) -> DoctorFinding {
    let (severity, consequence) = match subject {
        Subject::Group(name) if rbac::is_everybody(name) => {
            (DoctorSeverity::Error, "no pod needs an approval")
        }
        Subject::User(name) if **name == *ANONYMOUS => {
            (DoctorSeverity::Error, "every caller without a name may")
        }
        Subject::ServiceAccount { .. } => (
            DoctorSeverity::Warning,
            "a pod that runs as it needs no approval, and whoever may create pods beside it can run one",
        ),
        Subject::Group(_) | Subject::User(_) => (
            DoctorSeverity::Hint,
            "this is as it should be for administrators of the cluster alone",
        ),
    };
    let permissions: Vec<_> = permissions.iter().map(|it| it.as_str()).collect();
    let finding = DoctorFinding::new(
        severity,
        DoctorWord::RightsTooWide,
        format!("ClusterRoleBinding {binding}"),
        format!(
            "{} may use {} of every connector: {consequence}",
            rbac::subject(subject),
            permissions.join(" and ")
        ),
        "take the subject out of the binding, or narrow its role",
    );
    finding.with_command(format!(
        "kubectl edit clusterrolebinding {}",
        crate::terms::shell(binding)
    ))
}
