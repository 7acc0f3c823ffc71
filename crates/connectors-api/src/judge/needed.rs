//! The parts of a question that its judgement depends on. All other parts need not be read.
//!
//! Invariant: a judgement on the needed parts is the judgement on the whole, except for the order of twins
//! ([`Prepared::has_twins`](super::Prepared::has_twins)).

use super::GatedPolicy;
use super::candidate::proof_needed;
use crate::access_policy::{Check, CheckSelector};
use crate::approval_kind::records_approvers;
use crate::needed_fields::NeededFields;

/// The fields from which the identity of the asking pod is read, and the view that a policy of another namespace has of it.
const OF_POD: [&[&str]; 7] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "namespace"],
    &["metadata", "name"],
    &["metadata", "uid"],
    &["metadata", "labels"],
    &["spec", "serviceAccountName"],
];
/// The fields by which every object of a check is judged.
const OF_OBJECT: [&[&str]; 8] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "namespace"],
    &["metadata", "name"],
    &["metadata", "uid"],
    &["metadata", "resourceVersion"],
    &["metadata", "deletionTimestamp"],
    &["status", "state"],
];

/// The needed parts of the pod and of each check's objects.
#[derive(Clone, Debug)]
pub struct NeededParts<'a> {
    /// Of the pod.
    pub pod: NeededFields<'a>,
    /// Of the objects of each check, by its name.
    objects: Vec<(&'a str, NeededFields<'a>)>,
}

impl<'a> NeededParts<'a> {
    /// The whole pod and whole objects.
    pub const ALL: Self = Self {
        pod: NeededFields::ALL,
        objects: Vec::new(),
    };

    /// The needed part of a check's objects. Objects of a check that the policy does not have are needed as a whole.
    #[must_use]
    pub fn of_objects(&self, check: &str) -> &NeededFields<'a> {
        let known = self.objects.iter().find(|(name, _)| *name == check);
        known.map_or(&const { NeededFields::ALL }, |(_, needed)| needed)
    }

    /// Whether any part is left out.
    #[must_use]
    pub fn are_fewer(&self) -> bool {
        !self.pod.is_all() || self.objects.iter().any(|(_, needed)| !needed.is_all())
    }
}

/// The needed parts of a question about a policy. `paths` gives the paths of the fields that a module's program reads. A
/// module without a program may read everything, of the pod as well.
pub fn needed_parts<'a, P>(
    policy: &'a GatedPolicy,
    paths: impl Fn(&'a str) -> Option<P>,
) -> NeededParts<'a>
where
    P: Iterator<Item = &'a [String]>,
{
    let mut pod = NeededFields::NONE;
    for path in OF_POD {
        pod.add(path.iter().copied());
    }
    let mut objects = Vec::with_capacity(policy.checks.len());
    for of in &policy.checks {
        let read = of.module().map(&paths);
        if matches!(read, Some(None)) {
            return NeededParts::ALL;
        }
        let needed = if proof_needed(&of.check).lineage().is_some() {
            pod = NeededFields::ALL;
            NeededFields::ALL
        } else {
            let templates = of.selector.templates();
            templates.for_each(|template| template.fields().for_each(|fields| pod.add(fields)));
            let read = read.flatten().into_iter().flatten();
            of_objects(&of.check, read.map(|path| path.iter().map(String::as_str)))
        };
        objects.push((of.check.name.as_str(), needed));
    }
    NeededParts { pod, objects }
}

/// The needed fields of a check's objects, with those that its module reads.
fn of_objects<'a>(
    check: &'a Check,
    read: impl Iterator<Item = impl Iterator<Item = &'a str>>,
) -> NeededFields<'a> {
    let CheckSelector {
        labels,
        field_selector,
        object_ref,
    } = &check.selector;
    let mut needed = NeededFields::NONE;
    for path in OF_OBJECT {
        needed.add(path.iter().copied());
    }
    for label in labels.keys() {
        needed.add(["metadata", "labels", label]);
    }
    for path in field_selector.iter().flatten() {
        needed.add(path.0.split('.'));
    }
    if records_approvers(object_ref) {
        needed.add(["spec", "approvers"]);
        // Two names that differ only in case spoil the record.
        needed.add_names([]);
        needed.add_names(["spec"]);
    }
    read.for_each(|path| needed.add(path));
    needed
}

#[cfg(test)]
mod tests;
