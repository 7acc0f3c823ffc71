//! Tekton Pipelines and the manual approval gate.

use super::{ApprovalKind, KindRow, LineageKind, OTHER};
use crate::lineage;

/// The group of the manual approval gate.
const GATE: &str = "openshift-pipelines.org";
/// The group of Tekton Pipelines.
const TEKTON: &str = "tekton.dev";

pub(super) const ROWS: &[KindRow] = &[
    KindRow {
        group: GATE,
        kind: Some("ApprovalTask"),
        needs: ApprovalKind {
            proof: LineageKind::By(lineage::TEKTON),
            records_approvers: true,
            read_by_default: true,
            ..OTHER
        },
    },
    // A time window, for example. It is no child of a run, so labels and state decide.
    KindRow {
        group: GATE,
        kind: Some("ApprovalRequest"),
        needs: ApprovalKind {
            read_by_default: true,
            ..OTHER
        },
    },
    KindRow {
        group: GATE,
        kind: None,
        needs: ApprovalKind {
            proof: LineageKind::Unprovable,
            ..OTHER
        },
    },
    // PipelineRuns, TaskRuns and CustomRuns are read for the lineage of ApprovalTasks.
    KindRow {
        group: TEKTON,
        kind: None,
        needs: ApprovalKind {
            proof: LineageKind::Unprovable,
            read_by_default: true,
            ..OTHER
        },
    },
];
