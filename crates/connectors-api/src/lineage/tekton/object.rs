//! One object as the API server returned it, and the objects between pod and approval.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    Absent, LineageReason, LineageStep, LinkKind, MOST_OBJECTS, MissingLink, ProofStop, refused,
};
use crate::object_ref::ObjectRef;

/// The API group of Tekton Pipelines.
const TEKTON: &str = "tekton.dev";

/// The kinds between pod and approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(clippy::enum_variant_names, reason = "they are the names of the kinds")]
pub(crate) enum RunKind {
    /// Runs a task in a pod.
    TaskRun,
    /// Runs a custom task, such as an approval.
    CustomRun,
    /// Runs a pipeline.
    PipelineRun,
}

impl RunKind {
    /// Each of them.
    pub(crate) const ALL: [Self; 3] = [Self::TaskRun, Self::CustomRun, Self::PipelineRun];

    /// Group and version that are read.
    pub(crate) const fn api_version(self) -> &'static str {
        match self {
            Self::TaskRun | Self::PipelineRun => "tekton.dev/v1",
            Self::CustomRun => "tekton.dev/v1beta1",
        }
    }

    /// The kind's name.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::TaskRun => "TaskRun",
            Self::CustomRun => "CustomRun",
            Self::PipelineRun => "PipelineRun",
        }
    }

    /// The kind as the lineage names it.
    pub(super) const fn link(self) -> LinkKind {
        LinkKind {
            api_version: self.api_version(),
            kind: self.as_str(),
        }
    }

    /// True for a reference to this kind, in any version.
    pub(super) fn is(self, reference: &Value) -> bool {
        let group = text(reference, "/apiVersion").split_once('/');
        text(reference, "/kind") == self.as_str() && group.is_some_and(|(it, _)| it == TEKTON)
    }
}

/// An object with a complete identity.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkObject<'a> {
    pub(super) value: &'a Value,
    api_version: &'a str,
    kind: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
    resource_version: &'a str,
    pub(super) created: Timestamp,
}

/// A reference to the controller of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct ControllerRef<'a> {
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

/// Messages contain names only, never more of the object.
impl fmt::Display for LinkObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// The text at a place; empty when there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The list at a place; empty when there is none.
pub(super) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

/// True if a value exists at the place. Go writes an empty text for no value.
pub(super) fn is_set(value: &Value, pointer: &str) -> bool {
    value
        .pointer(pointer)
        .is_some_and(|it| !it.is_null() && it != "")
}

impl<'a> LinkObject<'a> {
    /// The object, if its identity is complete.
    pub(super) fn read(value: &'a Value) -> LineageStep<Self> {
        let unreadable = || {
            let message = "an object lacks apiVersion, kind, namespace, name, UID, resourceVersion or \
                           creationTimestamp";
            refused(LineageReason::Unreadable, message.to_owned())
        };
        let Ok(created) = text(value, "/metadata/creationTimestamp").parse() else {
            return unreadable();
        };
        let object = Self {
            value,
            api_version: text(value, "/apiVersion"),
            kind: text(value, "/kind"),
            namespace: text(value, "/metadata/namespace"),
            name: text(value, "/metadata/name"),
            uid: text(value, "/metadata/uid"),
            resource_version: text(value, "/metadata/resourceVersion"),
            created,
        };
        let Self {
            value: _,
            api_version,
            kind,
            namespace,
            name,
            uid,
            resource_version,
            created: _,
        } = object;
        let parts = [api_version, kind, namespace, name, uid, resource_version];
        if parts.contains(&"") {
            return unreadable();
        }
        Ok(object)
    }

    pub(super) fn reference(&self) -> ObjectRef {
        ObjectRef {
            api_version: self.api_version.to_owned(),
            kind: self.kind.to_owned(),
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            uid: self.uid.to_owned(),
            resource_version: self.resource_version.to_owned(),
        }
    }

    pub(super) fn is_kind(&self, api_version: &str, kind: &str) -> bool {
        self.api_version == api_version && self.kind == kind
    }

    pub(super) fn text(&self, pointer: &str) -> &'a str {
        text(self.value, pointer)
    }

    pub(super) fn list(&self, pointer: &str) -> &'a [Value] {
        list(self.value, pointer)
    }

    /// The controller, if it is the only one and of that kind.
    pub(super) fn controller(&self, kind: RunKind) -> Option<ControllerRef<'a>> {
        let owners = self.list("/metadata/ownerReferences").iter();
        let is_controller = |it: &&Value| it.pointer("/controller") == Some(&Value::Bool(true));
        let mut controllers = owners.filter(is_controller);
        let owner = controllers.next().filter(|it| kind.is(it))?;
        let owner = ControllerRef {
            name: text(owner, "/name"),
            uid: text(owner, "/uid"),
        };
        let is_whole = !owner.name.is_empty() && !owner.uid.is_empty();
        (is_whole && controllers.next().is_none()).then_some(owner)
    }

    /// Creation times have a resolution of one second, so equal ones prove no order.
    pub(super) fn is_older_than(&self, other: &Self) -> bool {
        self.created < other.created
    }

    pub(super) fn is_not_going(&self) -> LineageStep {
        if is_set(self.value, "/metadata/deletionTimestamp") {
            let message = format!("{self} is being deleted");
            return refused(LineageReason::BeingDeleted, message);
        }
        Ok(())
    }

    /// The status of the condition `Succeeded`: yes, no, or not known yet.
    pub(super) fn succeeded(&self) -> Option<bool> {
        let conditions = self.list("/status/conditions").iter();
        let mut succeeded = conditions.filter(|it| text(it, "/type") == "Succeeded");
        match text(succeeded.next()?, "/status") {
            "True" => Some(true),
            "False" => Some(false),
            _ => None,
        }
    }

    /// A wait for a field of an object of one of the kinds between pod and approval.
    pub(super) fn lacks<T>(&self, kind: RunKind, field: &'static str) -> LineageStep<T> {
        Err(ProofStop::Waiting(vec![MissingLink {
            api_version: kind.api_version(),
            kind: kind.as_str(),
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            uid: Some(self.uid.to_owned()),
            what: Absent::Field(field),
        }]))
    }
}

/// The objects between pod and approval.
pub(super) struct LinkObjects<'a> {
    namespace: &'a str,
    objects: BTreeMap<(RunKind, &'a str), LinkObject<'a>>,
}

impl<'a> LinkObjects<'a> {
    pub(super) fn read(values: &'a [Value], namespace: &'a str) -> LineageStep<Self> {
        if values.len() > MOST_OBJECTS {
            let message = format!("more than {MOST_OBJECTS} objects are between pod and approval");
            return refused(LineageReason::TooLarge, message);
        }
        let mut objects = BTreeMap::new();
        for value in values {
            let object = LinkObject::read(value)?;
            let kind = RunKind::ALL
                .into_iter()
                .find(|it| object.is_kind(it.api_version(), it.as_str()));
            let Some(kind) = kind else {
                let message = format!("{object} is of a kind or version that no lineage contains");
                return refused(LineageReason::Unreadable, message);
            };
            if object.namespace != namespace {
                let message = format!("{object} is in another namespace than the pod");
                return refused(LineageReason::OtherNamespace, message);
            }
            if objects.insert((kind, object.name), object).is_some() {
                let message = format!("{object} was given twice");
                return refused(LineageReason::Unreadable, message);
            }
        }
        Ok(Self { namespace, objects })
    }

    /// The object of a name, or a wait for it.
    pub(super) fn named(
        &self,
        kind: RunKind,
        name: &str,
        uid: Option<&str>,
    ) -> LineageStep<LinkObject<'a>> {
        self.objects.get(&(kind, name)).copied().ok_or_else(|| {
            ProofStop::Waiting(vec![MissingLink {
                api_version: kind.api_version(),
                kind: kind.as_str(),
                namespace: self.namespace.to_owned(),
                name: name.to_owned(),
                uid: uid.map(str::to_owned),
                what: Absent::Object,
            }])
        })
    }

    /// The owner, exactly.
    pub(super) fn owned(
        &self,
        kind: RunKind,
        owner: ControllerRef<'_>,
    ) -> LineageStep<LinkObject<'a>> {
        let object = self.named(kind, owner.name, Some(owner.uid))?;
        if object.uid != owner.uid {
            let message = format!("{object} is not the one that the owner reference means");
            return refused(LineageReason::OwnerReplaced, message);
        }
        Ok(object)
    }
}
