//! The verdict of checks from the found objects and the answer of the evaluation service. Only this module knows its
//! protocol.

use std::collections::BTreeMap;

use connectors_api::{
    AccessRequest,
    access_policy::{Check, Latch, Match},
    access_request::{Approval, CheckRef, GrantedRule, MatchedPolicy, ObservedObject},
    check_verdict,
    judge::{ProofNeeded, proof_needed},
    lineage::Lineage,
    reason::AccessCheckReady,
    wanted_objects::CheckTrouble,
};
use evaluation_api::{
    v1::{self, EvaluateChecksResponse, LineageObject, ObjectResult},
    verdict::from_wire,
};

use crate::{
    grant,
    seen::{CheckSeen, EvidenceState, LeftOut, ObjectSeen, PolicyAnswer},
    selection::{FoundCandidates, WantedObjects},
    snapshot,
};

/// The limit of objects in one proof that a status lists. The run and the two ends come first.
const MOST_LINKS: usize = 16;

/// Combines the objects found for each check with the answer of the evaluation service. Without any object there is
/// no answer.
#[must_use]
pub fn answer(
    request: &AccessRequest,
    wanted: &[WantedObjects],
    found: &[FoundCandidates],
    said: Option<&EvaluateChecksResponse>,
) -> PolicyAnswer {
    let checks: Vec<CheckSeen> = wanted
        .iter()
        .zip(found)
        .map(|(wanted, found)| check(request, wanted, found, said))
        .collect();
    let mut verdict = check_verdict::of_checks(checks.iter().map(|check| check.verdict));
    let mut rules = Vec::new();
    let mut refusal = None;
    if verdict == AccessCheckReady::AccessCheckPassed {
        match granted(request, said) {
            Ok(granted) => rules = granted,
            Err(why) => {
                verdict = AccessCheckReady::AccessCheckFailed;
                refusal = Some(why);
            }
        }
    }
    PolicyAnswer {
        verdict,
        checks,
        rules,
        refusal,
    }
}

fn granted(
    request: &AccessRequest,
    said: Option<&EvaluateChecksResponse>,
) -> Result<Vec<GrantedRule>, String> {
    let Some(said) = said else {
        return Err("nothing was said about what is granted".to_owned());
    };
    if from_wire(said.verdict) != Ok(AccessCheckReady::AccessCheckPassed) {
        return Err("the checks pass one by one, but not together".to_owned());
    }
    let rules: Vec<_> = said
        .rules
        .iter()
        .map(|rule| GrantedRule {
            resources: rule.resources.clone(),
            verbs: rule.verbs.clone(),
        })
        .collect();
    if rules.is_empty() && !said.rules_message.is_empty() {
        return Err(said.rules_message.clone());
    }
    if grant::allowed(request, &rules) {
        Ok(rules)
    } else {
        Err("the policy's rules are not about this pod's use of connectors alone".to_owned())
    }
}

fn check(
    request: &AccessRequest,
    wanted: &WantedObjects,
    found: &FoundCandidates,
    said: Option<&EvaluateChecksResponse>,
) -> CheckSeen {
    let seen = |verdict, reason: &str, message: String, objects| CheckSeen {
        name: wanted.check.clone(),
        match_: wanted.match_,
        verdict,
        reason: reason.to_owned(),
        message,
        objects,
        left_out: LeftOut::default(),
    };
    let failed = |reason: &str, message: String| {
        seen(AccessCheckReady::AccessCheckFailed, reason, message, vec![])
    };
    let found = match found {
        Ok(found) => found,
        Err((trouble, message)) => return failed(trouble.as_str(), message.clone()),
    };
    if found.texts.is_empty() {
        if let Some((trouble, message)) = &found.unread {
            return failed(trouble.as_str(), message.clone());
        }
        let namespace = &request.spec.context.object_ref.namespace;
        return seen(
            AccessCheckReady::AccessCheckPending,
            "NoObjects",
            wanted.none_found(namespace),
            vec![],
        );
    }
    let said = said.and_then(|said| said.checks.iter().find(|said| said.check == wanted.check));
    let Some(said) = said else {
        return failed(
            CheckTrouble::NotSaid.as_str(),
            "the evaluation service left this check out".to_owned(),
        );
    };
    let judged = from_wire(said.verdict).unwrap_or(AccessCheckReady::AccessCheckFailed);
    let objects: Vec<_> = said.objects.iter().map(object).collect();
    let all_judged = said.objects.len() == found.texts.len();
    let passes = |it: &ObjectSeen| {
        let is_proven = has_proof(wanted.proof, &it.lineage);
        it.verdict == AccessCheckReady::AccessCheckPassed && is_proven
    };
    let borne_out = match wanted.match_ {
        Match::All => all_judged && objects.iter().all(passes),
        Match::Any => objects.iter().any(passes),
    };
    if judged == AccessCheckReady::AccessCheckPassed && !borne_out {
        return failed(
            CheckTrouble::NotSaid.as_str(),
            "the evaluation service did not say which objects let through".to_owned(),
        );
    }
    if let Some((trouble, message)) = &found.unread
        && !is_certain(wanted.match_, judged)
    {
        let failed = AccessCheckReady::AccessCheckFailed;
        return seen(failed, trouble.as_str(), message.clone(), objects);
    }
    seen(judged, &said.reason, said.message.clone(), objects)
}

/// True when the evidence of an object lists the proof that its check needs.
fn has_proof(needed: ProofNeeded, evidence: &[ObservedObject]) -> bool {
    match needed {
        ProofNeeded::No => true,
        ProofNeeded::By(lineage) => followed(lineage, evidence).is_some(),
        ProofNeeded::Unavailable => false,
    }
}

/// True when one object more changes nothing.
fn is_certain(match_: Match, judged: AccessCheckReady) -> bool {
    match match_ {
        Match::All => judged == AccessCheckReady::AccessCheckRejected,
        Match::Any => judged == AccessCheckReady::AccessCheckPassed,
    }
}

fn object(said: &ObjectResult) -> ObjectSeen {
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    ObjectSeen {
        object: ObservedObject {
            api_version: said.api_version.clone(),
            kind: said.kind.clone(),
            namespace: given(&said.namespace),
            name: said.name.clone(),
            uid: given(&said.uid),
            resource_version: given(&said.resource_version),
        },
        verdict: from_wire(said.verdict).unwrap_or(AccessCheckReady::AccessCheckFailed),
        state: said.state.clone(),
        reason: said.reason.clone(),
        message: said.message.clone(),
        approved_by: said.approved_by.clone(),
        approvals: said.approvals.iter().map(approval).collect(),
        lineage: said.lineage.iter().take(MOST_LINKS).map(link).collect(),
        run_creator: given(&said.run_creator),
    }
}

fn approval(said: &v1::Approval) -> Approval {
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    Approval {
        user: said.user.clone(),
        group: given(&said.group),
        message: given(&said.message),
    }
}

fn link(said: &LineageObject) -> ObservedObject {
    let given = |text: &String| (!text.is_empty()).then(|| text.clone());
    ObservedObject {
        api_version: said.api_version.clone(),
        kind: said.kind.clone(),
        namespace: given(&said.namespace),
        name: said.name.clone(),
        uid: given(&said.uid),
        resource_version: given(&said.resource_version),
    }
}

/// The current state of an object of the evidence.
#[derive(Clone, Debug, PartialEq)]
pub enum EvidenceLook {
    /// It exists, with its UID.
    There,
    /// It is gone, or another object has its name.
    Gone,
    /// It exists and is unreadable, or is too large to be a check.
    Useless,
    /// It could not be read.
    Unknown,
}

/// An object of the evidence to look up.
#[derive(Clone, Copy, Debug)]
pub struct FollowedRef<'a> {
    /// Its entry in the status.
    pub reference: &'a CheckRef,
    /// The lineage that proved it. None if its check asks for no proof.
    pub lineage: Option<&'static dyn Lineage>,
}

impl<'a> FollowedRef<'a> {
    /// The objects between pod and approval that the grant rests on, with their lineage.
    pub fn links(self) -> impl Iterator<Item = (&'static dyn Lineage, &'a ObservedObject)> {
        let of = |lineage| Some((lineage, followed(lineage, &self.reference.lineage)?));
        let links = self.lineage.and_then(of).into_iter();
        links.flat_map(|(lineage, links)| links.iter().map(move |it| (lineage, it)))
    }
}

/// The objects of the evidence to look up. None if the evidence is unreadable.
#[must_use]
pub fn to_look_at(entry: &MatchedPolicy) -> Option<Vec<FollowedRef<'_>>> {
    let checks = snapshot::frozen(&entry.policy.0)?.spec.checks;
    let followed = entry.check_refs.iter().filter_map(|reference| {
        let check = checks.iter().find(|it| it.name == reference.name);
        let is_once = check.is_some_and(|it| it.latch == Latch::Once);
        (!is_once).then_some(FollowedRef {
            reference,
            lineage: check.and_then(|it| proof_needed(it).lineage()),
        })
    });
    Some(followed.collect())
}

/// The objects between pod and approval that a grant rests on: one of each kind of the lineage, with which its evidence
/// begins. None if one of them is missing.
#[must_use]
pub fn followed<'a>(
    lineage: &'static dyn Lineage,
    evidence: &'a [ObservedObject],
) -> Option<&'a [ObservedObject]> {
    let kinds = lineage.kinds();
    let links = evidence.get(..kinds.len()).filter(|it| !it.is_empty())?;
    let mut pairs = links.iter().zip(kinds);
    let are_whole = pairs.all(|(link, kind)| link.kind == kind.kind && link.uid.is_some());
    are_whole.then_some(links)
}

/// Whether every check is still valid. Without any remaining object there is no answer of the evaluation service.
#[must_use]
pub fn held(
    entry: &MatchedPolicy,
    looked: &BTreeMap<String, EvidenceLook>,
    said: Option<&EvaluateChecksResponse>,
) -> EvidenceState {
    let Some(granted) = snapshot::frozen(&entry.policy.0) else {
        return EvidenceState::Lapsed {
            verdict: AccessCheckReady::AccessCheckFailed,
            check: None,
            message: "the evidence of the grant cannot be read".to_owned(),
        };
    };
    let mut unknown = false;
    for check in &granted.spec.checks {
        match one(check, &entry.check_refs, looked, said) {
            EvidenceState::Holds => {}
            EvidenceState::Unknown => unknown = true,
            lapsed @ EvidenceState::Lapsed { .. } => return lapsed,
        }
    }
    if unknown {
        EvidenceState::Unknown
    } else {
        EvidenceState::Holds
    }
}

/// The same when the evaluation service will always refuse the question: then no answer can confirm the grant.
#[must_use]
pub fn without_answer_for_good(held: EvidenceState) -> EvidenceState {
    match held {
        EvidenceState::Unknown => EvidenceState::Lapsed {
            check: None,
            verdict: AccessCheckReady::AccessCheckFailed,
            message: "what approved is too large to be evaluated, or not valid".to_owned(),
        },
        held @ (EvidenceState::Holds | EvidenceState::Lapsed { .. }) => held,
    }
}

fn one(
    check: &Check,
    refs: &[CheckRef],
    looked: &BTreeMap<String, EvidenceLook>,
    said: Option<&EvaluateChecksResponse>,
) -> EvidenceState {
    if check.latch == Latch::Once {
        return EvidenceState::Holds;
    }
    let lapsed = |verdict, why: &str| EvidenceState::Lapsed {
        verdict,
        check: Some(check.name.clone()),
        message: why.to_owned(),
    };
    let (mut there, mut gone, mut whole) = (0_usize, 0_usize, 0_usize);
    for reference in refs.iter().filter(|it| it.name == check.name) {
        let uid = reference.ref_.as_ref().and_then(|it| it.uid.as_ref());
        match uid.and_then(|uid| looked.get(uid)) {
            Some(EvidenceLook::There) => {
                there += 1;
                match links(check, reference, looked) {
                    EvidenceLook::There => whole += 1,
                    EvidenceLook::Gone => {}
                    EvidenceLook::Useless => {
                        let failed = AccessCheckReady::AccessCheckFailed;
                        let why = "an object between pod and approval cannot be read any more";
                        return lapsed(failed, why);
                    }
                    EvidenceLook::Unknown => return EvidenceState::Unknown,
                }
            }
            Some(EvidenceLook::Gone) => gone += 1,
            Some(EvidenceLook::Useless) => {
                let failed = AccessCheckReady::AccessCheckFailed;
                return lapsed(failed, "an object that approved cannot be read any more");
            }
            Some(EvidenceLook::Unknown) | None => return EvidenceState::Unknown,
        }
    }
    let pending = AccessCheckReady::AccessCheckPending;
    let needs_the_rest = match (check.match_, check.latch) {
        _ if there + gone == 0 => {
            return lapsed(pending, "the evidence names no object");
        }
        (Match::All, Latch::WhileHolds) if gone > 0 => {
            return lapsed(pending, "an object that approved was deleted");
        }
        (Match::Any, Latch::WhileHolds) if there == 0 => {
            return lapsed(pending, "every object that approved was deleted");
        }
        (Match::All, Latch::WhileHolds) if whole < there => {
            return lapsed(pending, "an object between pod and approval was deleted");
        }
        (Match::Any, Latch::WhileHolds) if whole == 0 => {
            let why = "between pod and every approval an object was deleted";
            return lapsed(pending, why);
        }
        // The deleted object had passed, and this latch ignores deletions.
        (Match::Any, Latch::Auto | Latch::Once) if gone > 0 => false,
        (Match::All | Match::Any, Latch::Auto | Latch::WhileHolds | Latch::Once) => there > 0,
    };
    if !needs_the_rest {
        return EvidenceState::Holds;
    }
    let Some(said) = said else {
        return EvidenceState::Unknown;
    };
    let result = said.checks.iter().find(|it| it.check == check.name);
    match result.map(|it| (from_wire(it.verdict), it)) {
        // An object that was left out may be the one that says no.
        Some((Ok(AccessCheckReady::AccessCheckPassed), it))
            if check.match_ == Match::All && it.objects.len() < there =>
        {
            EvidenceState::Unknown
        }
        Some((Ok(AccessCheckReady::AccessCheckPassed), _)) => EvidenceState::Holds,
        Some((Ok(verdict), it)) => lapsed(verdict, &it.message),
        Some((Err(_), _)) | None => lapsed(
            AccessCheckReady::AccessCheckFailed,
            "the evaluation service left it out",
        ),
    }
}

/// The state of the objects between the pod and an approval: the worst of them.
fn links(
    check: &Check,
    reference: &CheckRef,
    looked: &BTreeMap<String, EvidenceLook>,
) -> EvidenceLook {
    let links = match proof_needed(check) {
        ProofNeeded::No => return EvidenceLook::There,
        ProofNeeded::By(lineage) => followed(lineage, &reference.lineage),
        ProofNeeded::Unavailable => None,
    };
    let Some(links) = links else {
        // Evidence without a proof was never a reason to grant.
        return EvidenceLook::Useless;
    };
    let mut worst = EvidenceLook::There;
    for link in links {
        let uid = link.uid.as_ref();
        match uid.and_then(|uid| looked.get(uid)) {
            Some(EvidenceLook::There) => {}
            Some(EvidenceLook::Gone) => worst = EvidenceLook::Gone,
            Some(EvidenceLook::Useless) => return EvidenceLook::Useless,
            Some(EvidenceLook::Unknown) | None => return EvidenceLook::Unknown,
        }
    }
    worst
}

#[cfg(test)]
mod tests {
    use connectors_api::lineage::TEKTON;
    use serde_json::json;

    use super::*;

    fn link(kind: &str) -> ObservedObject {
        ObservedObject {
            kind: kind.to_owned(),
            uid: Some(format!("uid-{kind}")),
            ..ObservedObject::default()
        }
    }

    #[test]
    fn an_approval_that_needs_a_proof_passes_only_with_its_links() {
        let whole = ["PipelineRun", "TaskRun", "CustomRun"].map(link);
        for (proof, links, expected) in [
            (ProofNeeded::By(TEKTON), &whole[..], true),
            (ProofNeeded::By(TEKTON), &whole[..2], false),
            (ProofNeeded::By(TEKTON), &[], false),
            (ProofNeeded::Unavailable, &whole[..], false),
            (ProofNeeded::No, &[], true),
        ] {
            assert_eq!(has_proof(proof, links), expected, "{proof:?} {links:?}");
        }
    }

    #[test]
    fn of_an_object_everything_is_taken_over_and_what_is_empty_was_not_said() {
        let said = |group: &str, message: &str| v1::Approval {
            user: "bob".to_owned(),
            group: group.to_owned(),
            message: message.to_owned(),
        };
        let of = |group: Option<&str>, message: Option<&str>| Approval {
            user: "bob".to_owned(),
            group: group.map(str::to_owned),
            message: message.map(str::to_owned),
        };
        let named = |said: &str| LineageObject {
            name: "run".to_owned(),
            uid: said.to_owned(),
            ..LineageObject::default()
        };
        let seen = object(&ObjectResult {
            name: "a".to_owned(),
            uid: "u".to_owned(),
            verdict: v1::CheckVerdict::Passed.into(),
            state: "approved".to_owned(),
            approved_by: vec!["bob".to_owned()],
            approvals: vec![said("g", ""), said("", "m")],
            lineage: vec![named("r"), named("")],
            ..ObjectResult::default()
        });
        let run = |uid: Option<&str>| ObservedObject {
            name: "run".to_owned(),
            uid: uid.map(str::to_owned),
            ..ObservedObject::default()
        };
        let expected = ObjectSeen {
            object: ObservedObject {
                name: "a".to_owned(),
                uid: Some("u".to_owned()),
                ..ObservedObject::default()
            },
            verdict: AccessCheckReady::AccessCheckPassed,
            state: "approved".to_owned(),
            reason: String::new(),
            message: String::new(),
            approved_by: vec!["bob".to_owned()],
            approvals: vec![of(Some("g"), None), of(None, Some("m"))],
            lineage: vec![run(Some("r")), run(None)],
            run_creator: None,
        };
        assert_eq!(seen, expected);
    }

    /// One approval and its proof suffice, as long as both are there.
    #[test]
    fn a_check_of_which_any_object_suffices_lapses_with_the_last_approval_or_with_the_last_proof() {
        let check: Check = serde_json::from_value(json!({
            "name": "approval", "match": "Any", "latch": "WhileHolds", "selector": {
                "labels": {"a": "b"},
                "objectRef": {"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask"},
            },
        }))
        .unwrap();
        let named = |kind: &str, name: &str| ObservedObject {
            kind: kind.to_owned(),
            uid: Some(name.to_owned()),
            ..ObservedObject::default()
        };
        let refs = ["a", "b"].map(|name| CheckRef {
            name: "approval".to_owned(),
            ref_: Some(named("ApprovalTask", name)),
            lineage: vec![
                named("PipelineRun", "run"),
                named("TaskRun", "deploy"),
                named("CustomRun", &format!("wait-{name}")),
            ],
            status: None,
        });
        let said = EvaluateChecksResponse {
            checks: vec![v1::CheckResult {
                check: "approval".to_owned(),
                verdict: v1::CheckVerdict::Passed.into(),
                ..v1::CheckResult::default()
            }],
            ..EvaluateChecksResponse::default()
        };
        let lapsed = |why: &str| EvidenceState::Lapsed {
            verdict: AccessCheckReady::AccessCheckPending,
            check: Some("approval".to_owned()),
            message: why.to_owned(),
        };
        let proofs = "between pod and every approval an object was deleted";
        let all = ["a", "b", "run", "deploy", "wait-a", "wait-b"];
        for (gone, expected) in [
            (&[][..], EvidenceState::Holds),
            (&["a"], EvidenceState::Holds),
            (&["wait-a"], EvidenceState::Holds),
            (
                &["a", "b"],
                lapsed("every object that approved was deleted"),
            ),
            (&["wait-a", "wait-b"], lapsed(proofs)),
            (&["a", "wait-b"], lapsed(proofs)),
            (&["run"], lapsed(proofs)),
        ] {
            let looked = all.map(|it| {
                let is_gone = gone.contains(&it);
                let look = if is_gone {
                    EvidenceLook::Gone
                } else {
                    EvidenceLook::There
                };
                (it.to_owned(), look)
            });
            let held = one(&check, &refs, &looked.into(), Some(&said));
            assert_eq!(held, expected, "{gone:?}");
        }
    }

    #[test]
    fn a_grant_follows_the_run_and_both_ends_or_nothing() {
        let kinds = |lineage: &[ObservedObject]| {
            let followed = followed(TEKTON, lineage)?;
            Some(
                followed
                    .iter()
                    .map(|it| it.kind.clone())
                    .collect::<Vec<_>>(),
            )
        };
        let proof = ["PipelineRun", "TaskRun", "CustomRun"];
        let whole: Vec<_> = proof.iter().map(|it| link(it)).collect();
        assert_eq!(kinds(&whole), Some(proof.map(str::to_owned).to_vec()));
        let mut longer = whole.clone();
        longer.push(link("TaskRun"));
        assert_eq!(kinds(&longer), Some(proof.map(str::to_owned).to_vec()));
        for shorter in 0..3 {
            assert_eq!(kinds(&whole[..shorter]), None);
            let mut nameless = whole.clone();
            nameless[shorter].uid = None;
            assert_eq!(kinds(&nameless), None);
            let mut other = whole.clone();
            other[shorter].kind = "Pod".to_owned();
            assert_eq!(kinds(&other), None);
        }
    }
}
