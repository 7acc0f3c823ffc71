//! Rights around the product: subjects that need no approval.

use authz::{AllowedBy, Attributes, RbacIndex, ResourceRequest, Subject, Target};
use connectors_api::names;

use super::{DoctorFinding, DoctorRead, DoctorSeverity, DoctorWord};
use crate::rbac;

/// The limit of examined subjects.
const MOST: usize = 64;
/// The verb of every mount.
const ANY_VERB: &str = "*";
/// An access to an unnamed connector. A rule that names connectors does not allow it.
const EVERY_CONNECTOR: Target<'_> = Target::Resource(ResourceRequest {
    group: names::GROUP,
    resource: names::CONNECTORS,
    subresource: "apis",
    namespace: "",
    name: "",
    field_selector: None,
    label_selector: None,
});

pub(super) fn examine(read: &DoctorRead) -> Vec<DoctorFinding> {
    let Some(index) = &read.rbac else {
        return Vec::new();
    };
    let who = index.who_can(ANY_VERB, EVERY_CONNECTOR, MOST, |_| true);
    let others = who
        .subjects
        .iter()
        .filter(|it| !rbac::is_of_the_cluster(it) && !is_ours(it, &read.system_namespace));
    others
        .flat_map(|subject| findings(index, subject))
        .collect()
}

/// The controllers hold every right that they grant.
fn is_ours(subject: &Subject, system_namespace: &str) -> bool {
    matches!(subject, Subject::ServiceAccount { namespace, .. } if **namespace == *system_namespace)
}

fn findings(index: &RbacIndex, subject: &Subject) -> Vec<DoctorFinding> {
    let (severity, consequence) = match subject {
        Subject::Group(name) if rbac::is_everybody(name) => {
            (DoctorSeverity::Error, "no pod needs an approval")
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
    let user = subject.alone();
    let grants = index.allowing(&Attributes {
        user: &user,
        verb: ANY_VERB,
        target: EVERY_CONNECTOR,
    });
    let finding = |AllowedBy { binding, .. }: AllowedBy<'_>| {
        let finding = DoctorFinding::new(
            severity,
            DoctorWord::RightsTooWide,
            format!("{} {}", binding.kind(), binding.name()),
            format!(
                "{} may use every connector: {consequence}",
                rbac::subject(subject)
            ),
            "take the subject out of the binding, or narrow its role",
        );
        finding.with_command(format!(
            "kubectl edit clusterrolebinding {}",
            crate::terms::shell(binding.name())
        ))
    };
    grants.take(MOST).map(finding).collect()
}
