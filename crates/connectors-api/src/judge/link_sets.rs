//! The objects of each lineage, among those that were read for all checks of a policy.

use serde_json::Value;

use super::candidate::{ProofNeeded, proof_needed};
use super::policy::PolicyCheck;
use crate::lineage::{Lineage, distinct};

/// The objects between the pod and the approvals, by lineage.
pub(super) struct LinkSets {
    all: Vec<Value>,
    /// Those of each lineage, if the policy needs several.
    own: Vec<(&'static dyn Lineage, Vec<Value>)>,
}

impl LinkSets {
    /// The kinds of another lineage are left out. Objects of no known kind stay, because each lineage refuses them. A
    /// policy with a single lineage costs no copy.
    pub(super) fn of(checks: &[PolicyCheck], all: Vec<Value>) -> Self {
        let needed = checks.iter().map(|it| proof_needed(&it.check));
        let lineages = distinct(needed.filter_map(ProofNeeded::lineage));
        let own_of = |lineage: &'static dyn Lineage| {
            let is_of_others = |object: &&Value| {
                let mut others = lineages.iter().filter(|it| **it != lineage);
                !is_of(lineage, object) && others.any(|it| is_of(*it, object))
            };
            let own = all.iter().filter(|it| !is_of_others(it)).cloned();
            (lineage, own.collect())
        };
        let own = match lineages.as_slice() {
            [] | [_] => Vec::new(),
            several => several.iter().copied().map(own_of).collect(),
        };
        Self { all, own }
    }

    /// The objects of a lineage.
    pub(super) fn get(&self, lineage: &'static dyn Lineage) -> &[Value] {
        let own = self.own.iter().find(|(it, _)| *it == lineage);
        own.map_or(&self.all, |(_, own)| own)
    }
}

fn is_of(lineage: &'static dyn Lineage, object: &Value) -> bool {
    let text = |field| object.get(field).and_then(Value::as_str);
    let mut kinds = lineage.kinds().iter();
    kinds.any(|it| text("apiVersion") == Some(it.api_version) && text("kind") == Some(it.kind))
}
