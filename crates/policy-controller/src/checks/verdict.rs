//! What was found out about a policy's checks, in one word and one sentence: pure.

use std::{collections::BTreeMap, fmt};

use connectors_api::{
    access_policy::{Check, ObjectKind},
    config::REQUESTERS_OPEN,
    judge::needs_proof,
    policy_reason::ChecksValid,
};

/// As many forgers are named.
pub(super) const MOST_NAMED: usize = 3;
/// What lets the chart read more kinds.
const READER_LABEL: &str = "connectors.alauda.io/aggregate-to-check-reader=true";

/// One word and one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The word.
    pub reason: ChecksValid,
    /// The sentence; empty where the word says it all.
    pub message: String,
}

/// What was found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// What is wrong with the text of the checks, or with their Rego.
    pub wrong: Vec<String>,
    /// Nobody has looked at the Rego: why.
    pub unread: Option<String>,
    /// The kinds.
    pub kinds: BTreeMap<ObjectKind, KindFound>,
    /// Pods of every namespace may ask: who says so.
    pub open: Option<OpenBy>,
}

/// Who lets pods of every namespace ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenBy {
    /// The installation, of policies that name nobody.
    Installation,
    /// The policy itself.
    Policy,
}

/// What was found out about a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindFound {
    /// The cluster does not have it.
    Missing,
    /// Its objects are in no namespace.
    ClusterScoped,
    /// The request-controller may not read it.
    NotReadable(Resource),
    /// It may; and these could write it.
    Readable(Forgers),
    /// The API server does not answer.
    Unknown,
}

/// A kind as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// Its group; empty for the core group.
    pub group: String,
    /// Its plural.
    pub plural: String,
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, plural } = self;
        f.write_str(plural)?;
        if group.is_empty() {
            Ok(())
        } else {
            write!(f, ".{group}")
        }
    }
}

/// Who of those that may ask could write approvals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgers {
    /// The first of them, as sentences.
    pub first: Vec<String>,
    /// There are more, or there may be: not everybody was asked about.
    pub may_be_more: bool,
}

/// What it all means. What stops everything comes first.
#[must_use]
pub fn verdict(checks: &[Check], found: &Found) -> Verdict {
    let says = |reason, message: String| Verdict { reason, message };
    if let Some((first, others)) = found.wrong.split_first() {
        let more = match others.len() {
            0 => String::new(),
            many => format!(", and {many} more"),
        };
        return says(ChecksValid::ChecksInvalid, format!("{first}{more}"));
    }
    for (index, check) in checks.iter().enumerate() {
        let ObjectKind { api_version, kind } = &check.selector.object_ref;
        let at = format!("spec.checkGrantedPermission.spec.checks[{index}]");
        if needs_proof(check) {
            let message = format!(
                "{at}: this version cannot prove that a {kind} belongs to the pod's pipeline run, so the check never \
                 passes; provenance: None accepts it without proof"
            );
            return says(ChecksValid::ProofUnavailable, message);
        }
        match found.kinds.get(&check.selector.object_ref) {
            Some(KindFound::Missing) => {
                let message = format!(
                    "{at}.selector.objectRef: the cluster has no kind {kind} of {api_version}; install what brings it, \
                     or correct the field"
                );
                return says(ChecksValid::KindMissing, message);
            }
            Some(KindFound::ClusterScoped) => {
                let message = format!(
                    "{at}.selector.objectRef: objects of kind {kind} are in no namespace, and checks are looked up in \
                     the pod's"
                );
                return says(ChecksValid::KindNotNamespaced, message);
            }
            Some(KindFound::NotReadable(resource)) => {
                let message = format!(
                    "{at}.selector.objectRef: the request-controller may not read {resource}; {}",
                    rule_for(resource)
                );
                return says(ChecksValid::KindNotReadable, message);
            }
            Some(KindFound::Readable(_) | KindFound::Unknown) | None => {}
        }
    }
    if let Some(why) = &found.unread {
        return says(ChecksValid::ChecksNotJudged, why.clone());
    }
    let is_unknown = |it: &KindFound| matches!(it, KindFound::Unknown);
    if found.kinds.values().any(is_unknown) {
        let message = "the API server does not say what may be read and written".to_owned();
        return says(ChecksValid::ChecksNotJudged, message);
    }
    match found.open {
        Some(OpenBy::Installation) => {
            return says(ChecksValid::RequestersOpen, REQUESTERS_OPEN.to_owned());
        }
        Some(OpenBy::Policy) => {
            let message = "spec.checkGrantedPermission.requesters lets pods of every namespace ask, with approvals from \
                           their own namespaces; name accounts, or namespaces by label";
            return says(ChecksValid::RequestersOpen, message.to_owned());
        }
        None => {}
    }
    match forgeable(found) {
        Some(message) => says(ChecksValid::ChecksForgeable, message),
        None if found.kinds.values().any(was_cut) => {
            let message = "too many may ask to look at everybody: nobody of the first could write his own approval";
            says(ChecksValid::ChecksValid, message.to_owned())
        }
        None => says(ChecksValid::ChecksValid, String::new()),
    }
}

fn rule_for(Resource { group, plural }: &Resource) -> String {
    if group.is_empty() {
        return format!(
            "set checks.configMaps in the chart's values, if {plural} may be approvals"
        );
    }
    format!(
        "add {{apiGroup: {group}, resources: [{plural}]}} to checks.kinds in the chart's values, or get, list and watch of \
         it to a ClusterRole with the label {READER_LABEL}"
    )
}

fn was_cut(kind: &KindFound) -> bool {
    matches!(kind, KindFound::Readable(forgers) if forgers.may_be_more)
}

fn forgeable(found: &Found) -> Option<String> {
    let mut named = Vec::new();
    let mut may_be_more = false;
    for kind in found.kinds.values() {
        if let KindFound::Readable(forgers) = kind {
            named.extend(forgers.first.iter().map(String::as_str));
            may_be_more |= forgers.may_be_more && !forgers.first.is_empty();
        }
    }
    may_be_more |= named.len() > MOST_NAMED;
    named.truncate(MOST_NAMED);
    if named.is_empty() {
        return None;
    }
    let more = if may_be_more {
        ", and perhaps others"
    } else {
        ""
    };
    Some(format!(
        "{}{more}: who may ask for access could approve himself; take these rights away, or use a kind that only \
         approvers may write",
        named.join("; ")
    ))
}

#[cfg(test)]
mod tests;
