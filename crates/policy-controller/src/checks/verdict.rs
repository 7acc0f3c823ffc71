//! The verdict on the findings about a policy's checks, as one word and one sentence: pure.

use std::{collections::BTreeMap, fmt};

use connectors_api::{
    access_policy::{Check, ObjectKind},
    config::REQUESTERS_OPEN,
    judge::{ProofNeeded, proof_needed, without_proof},
    lineage::Lineage,
    policy_order::MOST_PER_CONNECTOR,
    policy_reason::ChecksValid,
};

use super::suspects::Extent;

/// The limit of named holders of a right.
pub(super) const MOST_NAMED: usize = 3;
/// Label of a `ClusterRole`: with it, the request-controller gets the rights of the role, and checks may read its kinds.
const READER_LABEL: &str = "connectors.alauda.io/aggregate-to-check-reader=true";

/// One word and one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChecksVerdict {
    /// The word.
    pub reason: ChecksValid,
    /// The sentence; empty if the word suffices.
    pub message: String,
}

/// The findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckFindings {
    /// The errors in the text of the checks, or in their Rego.
    pub wrong: Vec<String>,
    /// The reason why the Rego was not validated.
    pub unread: Option<String>,
    /// A connector for which older policies count, but this one does not.
    pub crowded: Option<String>,
    /// The kinds.
    pub kinds: BTreeMap<ObjectKind, KindFound>,
    /// Pods of every namespace may request access. This is the source of that rule.
    pub open: Option<OpenBy>,
    /// The rule that protects the recorded creators of pipeline runs.
    pub creators: AdmissionRule,
    /// The rule that limits each approver to the own answer.
    pub answers: AdmissionRule,
    /// These could use the access of an approved pod, if the checks need a proof.
    pub intruders: Holders,
    /// The extent of the inspection of accounts.
    pub extent: Extent,
}

/// The finding about an admission rule of the chart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmissionRule {
    /// No check relies on it.
    #[default]
    NotNeeded,
    /// It is in force.
    InForce,
    /// It is not.
    Missing,
    /// The API server does not answer.
    Unknown,
}

/// True for a check that excludes the creator of the pod's run from its approvers.
pub(super) fn excludes_creators(check: &Check) -> bool {
    let approvers = check.approvers.as_ref();
    approvers.is_some_and(|it| it.not_requester)
}

/// The source of the rule that pods of every namespace may request access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenBy {
    /// The installation, for policies that name no requesters.
    Installation,
    /// The policy itself.
    Policy,
}

/// The finding about a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindFound {
    /// The cluster does not have it.
    Missing,
    /// Its objects are in no namespace.
    ClusterScoped,
    /// The request-controller may not read it.
    NotReadable(Resource),
    /// It may.
    Readable {
        /// These could write one.
        forgers: Holders,
        /// These could delete an object whose withdrawal must be noticed.
        deleters: Holders,
    },
    /// The API server does not answer.
    Unknown,
}

/// A kind as it is requested.
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

/// The accounts that a pod of the requesters' namespaces can run as, and that have a right on approvals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// The first of them, as sentences.
    pub first: Vec<String>,
    /// There are more, or there may be: the accounts of later namespaces were not checked.
    pub may_be_more: bool,
}

/// The verdict. Problems that stop everything come first.
#[must_use]
pub fn verdict(checks: &[Check], found: &CheckFindings) -> ChecksVerdict {
    let says = |reason, message: String| ChecksVerdict { reason, message };
    if let Some((first, others)) = found.wrong.split_first() {
        let more = match others.len() {
            0 => String::new(),
            many => format!(", and {many} more"),
        };
        return says(ChecksValid::ChecksInvalid, format!("{first}{more}"));
    }
    if let Some(connector) = &found.crowded {
        let message = format!(
            "{MOST_PER_CONNECTOR} older policies with checks select connector {connector}, and no more count: by this one \
             nobody is let in there; delete policies that are not needed, or select other connectors"
        );
        return says(ChecksValid::TooManyPolicies, message);
    }
    for (index, check) in checks.iter().enumerate() {
        let ObjectKind { api_version, kind } = &check.selector.object_ref;
        let at = format!("spec.checkGrantedPermission.spec.checks[{index}]");
        let proof = proof_needed(check);
        if proof == ProofNeeded::Unavailable {
            let message = format!(
                "{at}: no lineage is known that proves that a {kind} belongs to the pod's pipeline run, so the check never \
                 passes; {} accepts it without proof",
                without_proof(check)
            );
            return says(ChecksValid::ProofUnavailable, message);
        }
        let at = format!("{at}.selector.objectRef");
        if let Some(verdict) = of_kind(&at, &check.selector.object_ref, found) {
            return verdict;
        }
        let at = format!("{at}: {api_version} {kind} needs a proof of its pipeline run");
        let mut between = proof
            .lineage()
            .into_iter()
            .flat_map(<dyn Lineage>::object_kinds);
        if let Some(verdict) = between.find_map(|it| of_kind(&at, &it, found)) {
            return verdict;
        }
    }
    if found.creators == AdmissionRule::Missing {
        let index = checks.iter().position(excludes_creators);
        let message = format!(
            "spec.checkGrantedPermission.spec.checks[{}].approvers.notRequester: no admission rule keeps the creators of \
             pipeline runs true, so the check never passes; ask the administrator to set the chart value \
             tekton.creators.enabled",
            index.unwrap_or_default()
        );
        return says(ChecksValid::CreatorsUnknown, message);
    }
    if let Some(why) = &found.unread {
        return says(ChecksValid::ChecksNotJudged, why.clone());
    }
    let is_unknown = |it: &KindFound| matches!(it, KindFound::Unknown);
    if found.kinds.values().any(is_unknown) || found.creators == AdmissionRule::Unknown {
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
    of_accounts(found)
}

/// The error for a kind that cannot be read.
fn of_kind(at: &str, kind: &ObjectKind, found: &CheckFindings) -> Option<ChecksVerdict> {
    let ObjectKind {
        api_version,
        kind: name,
    } = kind;
    let (reason, message) = match found.kinds.get(kind)? {
        KindFound::Missing => (
            ChecksValid::KindMissing,
            format!(
                "{at}: the cluster has no kind {name} of {api_version}; install what brings it, or correct the field"
            ),
        ),
        KindFound::ClusterScoped => (
            ChecksValid::KindNotNamespaced,
            format!(
                "{at}: objects of kind {name} are in no namespace, and checks are looked up in the pod's"
            ),
        ),
        KindFound::NotReadable(resource) => (
            ChecksValid::KindNotReadable,
            format!(
                "{at}: the request-controller may not read {resource}; {}",
                rule_for(resource)
            ),
        ),
        KindFound::Readable { .. } | KindFound::Unknown => return None,
    };
    Some(ChecksVerdict { reason, message })
}

/// The rights of the checked accounts.
fn of_accounts(found: &CheckFindings) -> ChecksVerdict {
    let says = |reason, message: String| ChecksVerdict { reason, message };
    let extent = if found.extent.is_whole() {
        String::new()
    } else {
        format!("; {}", found.extent)
    };
    let forgers = named(found, |it| match it {
        KindFound::Readable { forgers, .. } => Some(forgers),
        KindFound::Missing
        | KindFound::ClusterScoped
        | KindFound::NotReadable(_)
        | KindFound::Unknown => None,
    });
    if let Some(forgers) = forgers {
        let message = format!(
            "{forgers}: a pod in a namespace of the requesters can run as it, so who asks could approve; take these \
             rights away, or use a kind that only approvers may write{extent}"
        );
        return says(ChecksValid::ChecksForgeable, message);
    }
    let deleters = named(found, |it| match it {
        KindFound::Readable { deleters, .. } => Some(deleters),
        KindFound::Missing
        | KindFound::ClusterScoped
        | KindFound::NotReadable(_)
        | KindFound::Unknown => None,
    });
    if let Some(deleters) = deleters {
        let message = format!(
            "{deleters}: with latch Auto a deleted approval keeps what it let in, so who asks could delete it before it \
             is withdrawn; say latch: WhileHolds, or take these rights away{extent}"
        );
        return says(ChecksValid::ChecksDeletable, message);
    }
    let extent = (!found.extent.is_whole())
        .then(|| format!("{}: none of them could write an approval", found.extent));
    let hint = said([&found.intruders]).map(|intruders| {
        format!("hint: {intruders}: it can use what an approved pod may use, which no proof sees")
    });
    let answers = (found.answers == AdmissionRule::Missing).then(|| {
        "hint: no admission rule keeps the answers of approvers apart, so one approver can give the answer of another; ask \
         the administrator to set the chart values tekton.admission.enabled and tekton.admission.actions: [Deny]"
            .to_owned()
    });
    let parts: Vec<_> = extent.into_iter().chain(hint).chain(answers).collect();
    says(ChecksValid::ChecksValid, parts.join("; "))
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

/// The first holders of a right on any of the kinds; none if no account has it.
fn named(found: &CheckFindings, of: impl Fn(&KindFound) -> Option<&Holders>) -> Option<String> {
    said(found.kinds.values().filter_map(of))
}

/// The first of all holders, as one sentence; none if there are none.
fn said<'a>(all: impl IntoIterator<Item = &'a Holders>) -> Option<String> {
    let mut named = Vec::new();
    let mut may_be_more = false;
    for holders in all {
        named.extend(holders.first.iter().map(String::as_str));
        may_be_more |= holders.may_be_more && !holders.first.is_empty();
    }
    may_be_more |= named.len() > MOST_NAMED;
    named.truncate(MOST_NAMED);
    let more = if may_be_more {
        ", and perhaps others"
    } else {
        ""
    };
    (!named.is_empty()).then(|| format!("{}{more}", named.join("; ")))
}

#[cfg(test)]
mod tests;
