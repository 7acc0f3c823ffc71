//! The kinds that can be approvals, and the needs of each: one table with a row per kind, and one file per
//! system.
//!
//! To add a kind, add a row to the file of its system. To add a system, add a file and name it in [`SYSTEMS`]. To add a
//! lineage, implement [`Lineage`] in the file of its system and name it in the row of its approvals: the judge and the
//! collectors of the request-controller and of the kubectl plugin know no system. The test system `made_up` is such a
//! file. The words for people speak of Tekton: reasons that another system needs are added to `lineage::reason`, with
//! the next step that the plugin's `explain` shows. The schema of a check repeats which kind records approvers.
//!
//! The row of a kind is found by group and kind, never by version. Groups are compared in lower case, as the API
//! server serves them: another spelling must not bypass a row. Kinds are compared exactly. A row for a kind precedes
//! the row for the rest of its group. A kind of a group without rows is [`OTHER`].

mod kubernetes;
#[cfg(test)]
pub(crate) mod made_up;
mod tekton;

use crate::access_policy::ObjectKind;
use crate::lineage::{Lineage, distinct};

/// The needs of a kind of approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalKind {
    /// Objects of the kind can be approvals.
    pub may_approve: bool,
    /// The proof that an object and the pod belong to one pipeline run.
    pub proof: LineageKind,
    /// The object records its approvers as an ApprovalTask does.
    pub records_approvers: bool,
    /// The installation may read the kind without a setting of its administrator.
    pub read_by_default: bool,
}

/// The proof that an object and the pod belong to one pipeline run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineageKind {
    /// No lineage is known for the kind. Labels and state decide.
    Unknown,
    /// The lineage of a system proves it.
    By(&'static dyn Lineage),
    /// The kind belongs to pipeline runs, but no lineage ends at it. A check that needs the proof never passes.
    Unprovable,
}

/// A row of the table.
struct KindRow {
    /// The API group in lower case; empty for the core group.
    group: &'static str,
    /// None: every kind of the group that has no row of its own.
    kind: Option<&'static str>,
    needs: ApprovalKind,
}

/// The rows of every system.
const SYSTEMS: &[&[KindRow]] = &[
    kubernetes::ROWS,
    tekton::ROWS,
    #[cfg(test)]
    made_up::ROWS,
];

/// A kind of a group that the table does not know. Its administrator decides whether it is read.
const OTHER: ApprovalKind = ApprovalKind {
    may_approve: true,
    proof: LineageKind::Unknown,
    records_approvers: false,
    read_by_default: false,
};

/// A kind that is never an approval.
const NEVER: ApprovalKind = ApprovalKind {
    may_approve: false,
    ..OTHER
};

/// The needs of a kind. A kind with a malformed group or version is never an approval.
#[must_use]
pub fn of(kind: &ObjectKind) -> ApprovalKind {
    let Some(group) = group(&kind.api_version) else {
        return NEVER;
    };
    let rows = || SYSTEMS.iter().copied().flatten();
    let of_group = |row: &&KindRow| row.group == group;
    let own = rows()
        .filter(of_group)
        .find(|row| row.kind == Some(kind.kind.as_str()));
    let rest = || rows().filter(of_group).find(|row| row.kind.is_none());
    own.or_else(rest).map_or(OTHER, |row| row.needs)
}

/// Every lineage.
pub fn lineages() -> impl Iterator<Item = &'static dyn Lineage> {
    let named = |row: &KindRow| match row.needs.proof {
        LineageKind::By(lineage) => Some(lineage),
        LineageKind::Unknown | LineageKind::Unprovable => None,
    };
    let rows = SYSTEMS.iter().copied().flatten();
    distinct(rows.filter_map(named)).into_iter()
}

/// True when objects of a kind can be approvals.
#[must_use]
pub fn may_approve(kind: &ObjectKind) -> bool {
    of(kind).may_approve
}

/// True when the objects of a kind belong to a pipeline run, which labels alone do not prove.
#[must_use]
pub fn has_lineage(kind: &ObjectKind) -> bool {
    match of(kind).proof {
        LineageKind::By(_) | LineageKind::Unprovable => true,
        LineageKind::Unknown => false,
    }
}

/// True when the objects of a kind record their approvers.
#[must_use]
pub fn records_approvers(kind: &ObjectKind) -> bool {
    of(kind).records_approvers
}

/// The group in lower case; empty for the core group, none when the text is malformed.
fn group(api_version: &str) -> Option<String> {
    let (group, version) = match api_version.split_once('/') {
        None => ("", api_version),
        Some(("", _)) => return None,
        Some(parts) => parts,
    };
    (!version.is_empty() && !version.contains('/')).then(|| group.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lineage::TEKTON;

    fn kind(api_version: &str, kind: &str) -> ObjectKind {
        ObjectKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    #[test]
    fn only_kinds_that_can_be_approvals_may_approve() {
        for (api_version, name, expected) in [
            ("v1", "ConfigMap", true),
            ("v1", "Secret", false),
            ("v1", "Pod", false),
            ("v1", "Event", false),
            ("v1", "Service", false),
            ("v1", "configmap", false),
            ("v1", "", false),
            ("", "ConfigMap", false),
            ("/v1", "ConfigMap", false),
            ("/", "ConfigMap", false),
            ("a/b/v1", "ConfigMap", false),
            ("example.com/", "Approval", false),
            ("example.com/v1", "Approval", true),
            ("example.com/v1", "Secret", true),
            ("openshift-pipelines.org/v1alpha1", "ApprovalTask", true),
            ("openshift-pipelines.org/v1alpha1", "ApprovalRequest", true),
            ("tekton.dev/v1", "PipelineRun", true),
            ("apps/v1", "Deployment", true),
            ("batch/v1", "Job", true),
            ("connectors.alauda.io/v1alpha1", "AccessRequest", false),
            ("connectors.alauda.io/v1", "Connector", false),
            ("not.connectors.alauda.io/v1", "Approval", true),
            ("rbac.authorization.k8s.io/v1", "RoleBinding", false),
            ("RBAC.authorization.k8s.io/v1", "Role", false),
            ("authentication.k8s.io/v1", "TokenReview", false),
            ("authorization.k8s.io/v1", "SubjectAccessReview", false),
            (
                "admissionregistration.k8s.io/v1",
                "ValidatingWebhookConfiguration",
                false,
            ),
            ("apiregistration.k8s.io/v1", "APIService", false),
        ] {
            let asked = kind(api_version, name);
            assert_eq!(may_approve(&asked), expected, "{api_version} {name}");
        }
    }

    #[test]
    fn group_and_kind_decide_which_lineage_proves_an_approval() {
        use LineageKind::{By, Unknown, Unprovable};
        for (api_version, name, proof) in [
            (
                "openshift-pipelines.org/v1alpha1",
                "ApprovalTask",
                By(TEKTON),
            ),
            ("OpenShift-Pipelines.org/v9", "ApprovalTask", By(TEKTON)),
            (
                "openshift-pipelines.org/v1alpha1",
                "ApprovalRequest",
                Unknown,
            ),
            ("openshift-pipelines.org/v1", "approvaltask", Unprovable),
            ("openshift-pipelines.org/v1", "Other", Unprovable),
            ("tekton.dev/v1", "PipelineRun", Unprovable),
            ("tekton.dev/v1", "TaskRun", Unprovable),
            ("tekton.dev/v1beta1", "CustomRun", Unprovable),
            ("not-tekton.dev/v1", "PipelineRun", Unknown),
            ("v1", "ConfigMap", Unknown),
            ("example.com/v1", "ApprovalTask", Unknown),
        ] {
            let asked = kind(api_version, name);
            assert_eq!(of(&asked).proof, proof, "{api_version} {name}");
            assert_eq!(
                has_lineage(&asked),
                proof != Unknown,
                "{api_version} {name}"
            );
        }
    }

    /// The evidence of a grant is followed by the kinds of its lineage, of which the first is the run.
    #[test]
    fn each_lineage_has_its_own_name_and_the_kind_of_its_runs() {
        let all: Vec<_> = lineages().collect();
        assert_eq!(all, [TEKTON, made_up::MADE_UP]);
        for (index, lineage) in all.iter().enumerate() {
            assert!(!all[..index].contains(lineage), "{lineage:?}");
            let kinds = lineage.kinds();
            assert!(kinds.first().is_some_and(|it| lineage.is_run(it.kind)));
            for (index, kind) in kinds.iter().enumerate() {
                assert!(!kinds[..index].contains(kind), "{kind:?}");
                assert!(lineage.has_kind(kind.kind), "{kind:?}");
            }
        }
    }

    #[test]
    fn only_an_approval_task_records_its_approvers() {
        for (api_version, name, expected) in [
            ("openshift-pipelines.org/v1alpha1", "ApprovalTask", true),
            ("openshift-pipelines.org/v1alpha1", "ApprovalRequest", false),
            ("example.com/v1", "ApprovalTask", false),
            ("v1", "ConfigMap", false),
        ] {
            assert_eq!(records_approvers(&kind(api_version, name)), expected);
        }
    }

    #[test]
    fn kinds_of_pipelines_and_of_their_gate_are_read_without_a_setting() {
        for (api_version, name, expected) in [
            ("openshift-pipelines.org/v1alpha1", "ApprovalTask", true),
            ("openshift-pipelines.org/v1alpha1", "ApprovalRequest", true),
            ("openshift-pipelines.org/v1alpha1", "Other", false),
            ("tekton.dev/v1", "PipelineRun", true),
            ("v1", "ConfigMap", false),
            ("example.com/v1", "Approval", false),
        ] {
            let needs = of(&kind(api_version, name));
            assert_eq!(needs.read_by_default, expected, "{api_version} {name}");
        }
    }

    #[test]
    fn the_kinds_of_two_rows_differ_and_their_groups_are_in_lower_case() {
        let rows: Vec<_> = SYSTEMS.iter().copied().flatten().collect();
        for (index, row) in rows.iter().enumerate() {
            assert_eq!(row.group, row.group.to_ascii_lowercase());
            let same = |other: &&KindRow| (other.group, other.kind) == (row.group, row.kind);
            assert!(!rows[..index].iter().copied().any(|it| same(&it)));
        }
    }

    #[test]
    fn what_never_approves_is_never_read_and_proves_nothing() {
        for row in SYSTEMS.iter().copied().flatten() {
            if !row.needs.may_approve {
                assert_eq!(row.needs, NEVER, "{} {:?}", row.group, row.kind);
            }
        }
    }
}
