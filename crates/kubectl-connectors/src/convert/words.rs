//! The words of a conversion: what changes in meaning, and why an object is refused.

use schemars::JsonSchema;
use serde::Serialize;

use crate::explained_words::explained_words;

explained_words! {
    /// The possible changes in meaning.
    NoteWord {
        /// A permission needs no right to `get` the connector, be it standing or by checks. There, it was nothing without that right.
        ReadRightNotAsked,
        /// With several objects, one rejected and one undecided, the pod waits, and a later yes counts. There, it was rejected.
        RejectionWaits,
        /// A connector has both class labels by its class, written or not. There, only written labels counted.
        ClassLabelsAreImplied,
        /// A Rego module reads its input as one version of that product gives it. Under the other, it may never have passed.
        ModuleOfOneVersion,
        /// A Rego module reads fields that it does not see for pods of other namespaces, so that `not` would hold.
        FieldsNotShared,
        /// Only service accounts of the policy's namespace may ask, until `requesters` names others. There, every pod could ask.
        RequestersAreHome,
        /// An ApprovalTask counts only if it is proven to belong to the pod's own pipeline run.
        ProofAdded,
        /// An approval that leaves its passing state takes the access back, whatever the next state is.
        ApprovalMayLapse,
        /// While a pod waits, a change of the policy reaches it. There, the policy was frozen at the first match.
        PolicyNotFrozen,
        /// Names and labels are both given. Here, an object must satisfy both.
        NamesAndLabels,
        /// Namespaces are selected by a label that the chart value `policies.namespaceSelectorKeys` must list first.
        NamespaceKeysNeeded,
        /// A group counts if the ApprovalTask lists it, and then its members do.
        GroupMembersCount,
        /// The chart value `checks.kinds` must list the kind before checks can read it.
        KindNeedsRights,
        /// The text of a ConfigMap is copied into the policy. Later changes of the ConfigMap do not reach it.
        TemplateCopied,
        /// An empty list or selector beside one that selects is left out.
        EmptyPartLeftOut,
        /// A Rego module reads the conditions `Ready` and `Succeeded`. Without it, `status.state` would decide here.
        StateByConditions,
        /// A Rego module keeps its rules, gets another package, and a last rule with the answer in this product's words.
        ModuleAdapted,
        /// The module of the built-in template is left out: state and approvals of the ApprovalTask decide. What else the module asked is lost.
        ModuleReplaced,
        /// The volume asks for the permission `proxy`, which every mount needed there. A mount without it asks for `apis`.
        VolumeAsksForProxy,
        /// A refused pod starts and finds `.error.json`, as it did there. The default here is a mount that fails.
        ErrorFileAsked,
        /// `token.expiration` asks for no lifetime: it is refused if the tokens of the installation live shorter. They are renewed.
        TokenIsRenewed,
        /// A file that two classes write is refused. There, the class of the last connector won.
        ClassFilesCollide,
        /// The file `ca.cert` is not made. `ca.crt` has its content.
        FileGone,
        /// Images are not pulled through connectors: the annotation and the label for that have no effect.
        ImagePullLeftOut,
        /// Owner references and finalizers name what only the old cluster had. They are left out.
        OwnersLeftOut,
        /// The object has the form of this product already, and is printed as it is.
        AlreadyConverted,
        /// A request is about one pod that waited or ran there. It is left out.
        RequestLeftOut,
        /// Nothing in the object is converted. It is left out.
        NothingToConvert,
    }
}

/// The effect of a change on access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum NoteEffect {
    /// More may get access than before.
    Wider,
    /// Fewer get access than before, or something must be set up first.
    Narrower,
    /// The same get access, or the change is about something else.
    Other,
}

impl NoteEffect {
    /// The effect as it is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Wider => "wider",
            Self::Narrower => "narrower",
            Self::Other => "note",
        }
    }
}

impl NoteWord {
    /// The effect of the change on access.
    #[must_use]
    pub const fn effect(self) -> NoteEffect {
        match self {
            Self::ReadRightNotAsked
            | Self::RejectionWaits
            | Self::ClassLabelsAreImplied
            | Self::ModuleOfOneVersion
            | Self::FieldsNotShared
            | Self::ModuleReplaced => NoteEffect::Wider,
            Self::RequestersAreHome
            | Self::ProofAdded
            | Self::ApprovalMayLapse
            | Self::NamesAndLabels
            | Self::NamespaceKeysNeeded
            | Self::GroupMembersCount
            | Self::KindNeedsRights
            | Self::ClassFilesCollide => NoteEffect::Narrower,
            Self::PolicyNotFrozen
            | Self::TemplateCopied
            | Self::EmptyPartLeftOut
            | Self::StateByConditions
            | Self::ModuleAdapted
            | Self::VolumeAsksForProxy
            | Self::ErrorFileAsked
            | Self::TokenIsRenewed
            | Self::FileGone
            | Self::ImagePullLeftOut
            | Self::OwnersLeftOut
            | Self::AlreadyConverted
            | Self::RequestLeftOut
            | Self::NothingToConvert => NoteEffect::Other,
        }
    }
}

explained_words! {
    /// The possible reasons of a refusal.
    RefusalWord {
        /// A file cannot be read, or is no YAML.
        FileUnreadable,
        /// A field is unknown to the other product, missing, or of another type.
        FieldUnreadable,
        /// The object was being deleted when it was exported.
        BeingDeleted,
        /// A ConfigMap that the policy refers to is not among the files, in the namespace where templates count.
        TemplateMissing,
        /// Two ConfigMaps of that name and namespace are among the files.
        TemplateAmbiguous,
        /// A ConfigMap has no text under the key of its use, or one that is no YAML.
        TemplateUnreadable,
        /// An empty list or selector would select everything. It has to be written out.
        EmptySelectsEverything,
        /// A service account by name in every namespace, or in namespaces by label: no subject says that here.
        AccountsByNamespaceLabel,
        /// A name that no service account or namespace can have.
        NameInvalid,
        /// A rule is about another resource than `connectors/proxy`, which alone opened mounts there.
        OtherPermission,
        /// A check has both `ref` and `spec`, or neither.
        ReferenceOrSpec,
        /// A requirement on labels of check objects that is no equality.
        ExpressionUnsayable,
        /// A parameter that the built-in template does not have. It would restrict nothing.
        ParameterUnknown,
        /// Approvers that cannot be said: none, in another form, or only their number.
        ApproversUnsayable,
        /// A check that never passes there. What it should ask for is not known.
        NeverPassed,
        /// A Rego module whose meaning could change with its new package or its new input.
        ModuleUnsayable,
        /// A policy inside another object, such as a template of objects.
        PolicyNested,
        /// A kind of pipeline runs for which no proof is known here.
        ProofUnavailable,
        /// The converted policy would be refused by the webhook.
        NotAccepted,
        /// A volume that no mount accepts here.
        VolumeUnreadable,
        /// A volume by a claim. The driver serves inline volumes only.
        VolumeNotInline,
    }
}
