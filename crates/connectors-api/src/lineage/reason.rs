//! The reasons for a refusal, and the way out of each.

use crate::words::words;

words! {
    /// Why pod and approval are not proven to belong to one run.
    LineageReason {
        /// The objects are too many or too large to be judged.
        TooLarge,
        /// An object lacks its identity or creation time, is of another kind or version, or was given twice.
        Unreadable,
        /// An object is in another namespace than the pod.
        OtherNamespace,
        /// No TaskRun controls the pod.
        PodWithoutTaskRun,
        /// No PipelineRun controls the TaskRun.
        TaskRunWithoutRun,
        /// No CustomRun controls the ApprovalTask.
        ApprovalWithoutCustomRun,
        /// No PipelineRun controls the CustomRun.
        CustomRunWithoutRun,
        /// The owner was replaced by another object of its name.
        OwnerReplaced,
        /// Pod and approval belong to different runs.
        OtherRun,
        /// An object of the chain is being deleted.
        BeingDeleted,
        /// The run has ended.
        RunDone,
        /// The run was cancelled or stopped.
        RunCancelled,
        /// The run is the child of another run.
        RunOfRun,
        /// Another controller than Tekton's manages the run.
        RunManagedElsewhere,
        /// The run has no such pipeline task, or several.
        NoPipelineTask,
        /// The pipeline task makes children of another kind.
        OtherKindOfTask,
        /// The run skipped the pipeline task.
        TaskSkipped,
        /// The run does not list the child, or lists it for something else.
        NotAChild,
        /// The child does not have the name that Tekton derives.
        NotDerivedName,
        /// The pipeline task has more children than it calls for.
        TooManyChildren,
        /// The child was created before the run.
        ChildOlderThanRun,
        /// The child has other parameters.
        OtherParams,
        /// The child refers to another task, or contains another one.
        OtherTask,
        /// The child runs as another service account.
        OtherServiceAccount,
        /// The child has another pod template, or other settings for steps or sidecars.
        OtherPodTemplate,
        /// The child has other workspaces.
        OtherWorkspaces,
        /// The child has another setting, or one that this version does not know.
        OtherSettings,
        /// A value of the pipeline task cannot be resolved.
        ValueUnresolved,
        /// The matrix of the pipeline task cannot be read.
        MatrixUnreadable,
        /// The pod is not the current one of its TaskRun.
        PodNotCurrent,
        /// The pod was created before the TaskRun.
        PodOlderThanTaskRun,
        /// The pod runs as another service account than the TaskRun.
        PodServiceAccount,
        /// The TaskRun has ended, so nothing re-creates its pod.
        TaskRunDone,
        /// The CustomRun is of another custom task than an approval.
        NoApprovalAsked,
        /// The ApprovalTask does not have the name of its CustomRun.
        ApprovalName,
        /// The ApprovalTask was created before the CustomRun.
        ApprovalOlderThanCustomRun,
        /// The CustomRun failed or was cancelled.
        CustomRunEnded,
        /// The ApprovalTask has other approvers than the CustomRun's parameters.
        OtherApprovers,
        /// Fields of the ApprovalTask differ in nothing but case, so the gate's webhook may have judged others than these.
        AmbiguousFields,
        /// The ApprovalTask wants another number of approvals than the CustomRun's parameters.
        OtherApprovalCount,
        /// The ApprovalTask carries labels of another run or pipeline task.
        OtherLabels,
        /// The status says approved, but too few approvers said so, or one said no.
        QuorumNotMet,
        /// An approver said no.
        Rejected,
        /// The approvers did not decide in time, which the gate counts as a no.
        TimedOut,
        /// The state is a word that the gate does not write.
        StateUnknown,
    }
}

impl LineageReason {
    /// The way to an approval that counts: the next step that users are told.
    #[must_use]
    pub const fn way_out(self) -> &'static str {
        match self {
            Self::Rejected => "start a new run: the answer of its approvers is final for this one",
            Self::TimedOut => "start a new run, and have its approvers answer in time",
            Self::RunDone
            | Self::RunCancelled
            | Self::BeingDeleted
            | Self::CustomRunEnded
            | Self::TaskRunDone
            | Self::OwnerReplaced => "start a new run: no approval counts for one that is over",
            Self::PodWithoutTaskRun
            | Self::TaskRunWithoutRun
            | Self::PodNotCurrent
            | Self::PodOlderThanTaskRun
            | Self::PodServiceAccount => {
                "nothing for this pod: only the current pod of a task in a pipeline run is let in. Start a run whose task mounts \
                 the connector"
            }
            Self::OtherNamespace
            | Self::OtherRun
            | Self::ApprovalWithoutCustomRun
            | Self::CustomRunWithoutRun
            | Self::NoApprovalAsked
            | Self::ApprovalName
            | Self::ApprovalOlderThanCustomRun => {
                "nothing with this approval: the pod's run did not ask for it. The run's own approval counts, or that of a new run"
            }
            Self::RunOfRun => {
                "put approval and task into one run that no other run starts, and start it"
            }
            Self::RunManagedElsewhere => {
                "take spec.managedBy out of the run, so that Tekton itself runs it, and start it anew"
            }
            Self::ValueUnresolved | Self::MatrixUnreadable | Self::TooLarge => {
                "simplify the pipeline, and start a new run: this version cannot follow what the task is made of"
            }
            Self::Unreadable
            | Self::NoPipelineTask
            | Self::OtherKindOfTask
            | Self::TaskSkipped
            | Self::NotAChild
            | Self::NotDerivedName
            | Self::TooManyChildren
            | Self::ChildOlderThanRun
            | Self::OtherParams
            | Self::OtherTask
            | Self::OtherServiceAccount
            | Self::OtherPodTemplate
            | Self::OtherWorkspaces
            | Self::OtherSettings
            | Self::OtherApprovers
            | Self::AmbiguousFields
            | Self::OtherApprovalCount
            | Self::OtherLabels
            | Self::QuorumNotMet
            | Self::StateUnknown => {
                "start a new run, and find out who changed this one: it is not as Tekton and the gate write it"
            }
        }
    }
}
