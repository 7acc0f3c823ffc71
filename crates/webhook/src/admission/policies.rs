//! Admission of policies: what is wrong with them, and whether their authors hold what they hand out.
//!
//! Findings that depend on the policy alone are made here, by the rules that every service reads policies by. Rego runs
//! in the evaluation service and nowhere else, so only a policy with Rego needs that service.

mod judge;

use std::{net::IpAddr, sync::Arc};

use connectors_api::{
    AccessPolicy, AccessPolicySpec,
    access_policy::{MOST_SELECTORS, SubjectForm},
    config::{DefaultRequesters, REQUESTERS_OPEN},
    parse,
    validate::{self, Validated},
};
use kube::Resource;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use service_kit::quota::Quota;
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use super::{
    ReviewScope, counted,
    lookups::{Lookups, NoLookup},
};
use crate::{
    evaluator::Evaluator,
    metrics::Limit,
    peer_quota::{PeerLimits, PeerQuota},
    review::{AdmissionAnswer, Operation, ReviewedObject, Text},
    review_memory::Room,
};
use judge::{Author, Defect, MOST_NAMED, PolicyVerdict};

const WRITTEN: ReviewScope = ReviewScope {
    resource: || AccessPolicy::plural(&()),
    kind: "access policies",
    deed: "write",
    operations: &[Operation::Create, Operation::Update],
};

/// Policies of one address whose Rego is run at the same time. The evaluation service has two places for all policies
/// that are written, and one that is not slow takes milliseconds there.
const REGO_OF_PEER: usize = 1;

/// Judges policies.
#[derive(Clone)]
pub(crate) struct PolicyAdmission {
    lookups: Lookups,
    evaluator: Evaluator,
    /// Rego runs in few places, and takes its time there.
    pub(crate) rego: PeerQuota,
}

impl PolicyAdmission {
    pub(crate) fn new(lookups: Lookups, evaluator: Evaluator, limits: &PeerLimits) -> Self {
        Self {
            lookups,
            evaluator,
            rego: limits.quota(Limit::Rego, Quota::per_tenant(REGO_OF_PEER)),
        }
    }

    /// Lets pass what can be read, works, and hands out nothing that its author could not change.
    pub(crate) async fn validate(
        &self,
        request: &ReviewedObject,
        room: &Arc<Room>,
        deadline: Instant,
    ) -> AdmissionAnswer {
        let text = match WRITTEN.object(request) {
            Ok(Some(text)) => text,
            Ok(None) => return AdmissionAnswer::allowed(),
            Err(refusal) => return AdmissionAnswer::Refused(refusal),
        };
        if is_spec_unchanged(request, text) {
            return AdmissionAnswer::allowed();
        }
        let read = match timeout_at(deadline, read(text.clone(), Arc::clone(room))).await {
            Ok(Ok(read)) => read,
            Ok(Err(problem)) => return PolicyVerdict::default().and(problem).answer(),
            Err(_) => {
                return PolicyVerdict::default().and(Defect::NobodyInTime).answer();
            }
        };
        let author = timeout_at(deadline, self.author(request, &read.object)).await;
        let author = author.unwrap_or(Author::NoAnswer);
        let told = self
            .of_configuration(request.peer, &read.object, deadline)
            .await;
        let mut verdict = self.look(request.peer, read, &author, deadline).await;
        verdict.author(author);
        for words in told {
            verdict.warn(&words);
        }
        // What is refused anyway is not counted.
        if request.operation == Operation::Create && verdict.lets_pass() {
            let namespace = request.namespace.as_deref().unwrap_or_default();
            let count = counted(
                self.lookups.count_policies(request.peer, namespace),
                deadline,
            )
            .await;
            verdict.room(count);
        }
        verdict.answer()
    }

    /// The warnings that depend on the configuration: pods of every namespace may ask, or a subject
    /// selects namespaces by a label that the installation does not name.
    async fn of_configuration(
        &self,
        peer: IpAddr,
        policy: &Value,
        deadline: Instant,
    ) -> Vec<String> {
        let granted = policy.pointer("/spec/checkGrantedPermission");
        // {} counts as absent.
        let granted = granted
            .and_then(Value::as_object)
            .filter(|it| !it.is_empty());
        let names_nobody = granted.is_some_and(|it| !it.contains_key("requesters"));
        let selecting = selecting(policy);
        if !names_nobody && selecting.is_empty() {
            return Vec::new();
        }
        let Ok(Some(known)) = timeout_at(deadline, self.lookups.configuration(peer)).await else {
            return Vec::new();
        };
        let is_open = names_nobody && known.default_requesters() == DefaultRequesters::Any;
        let foreign = selecting.iter().filter_map(|(place, form)| {
            let foreign = known.namespace_keys().admit(form.namespaces()?).err()?;
            Some(format!(
                "spec.defaultPermission.bindingTemplate.subjects[{place}].{foreign}; until then it means nobody"
            ))
        });
        let open = is_open.then(|| REQUESTERS_OPEN.to_owned());
        open.into_iter().chain(foreign).collect()
    }

    /// All findings about the policy. Rego costs time that other reviews wait for. So it runs only if the author may hand
    /// out everything that the policy does.
    async fn look(
        &self,
        peer: IpAddr,
        read: PolicyReview,
        author: &Author,
        deadline: Instant,
    ) -> PolicyVerdict {
        let PolicyReview { object, validated } = read;
        let Validated { findings, modules } = validated;
        let ours = PolicyVerdict::found(findings.into_iter().map(Into::into));
        if modules.is_empty() || !author.may() {
            return ours;
        }
        let findings = async {
            // Until the answer: what waits here is not sent yet.
            let _turn = self.rego.take(peer, 1).await;
            self.evaluator.findings(&object).await
        };
        match timeout_at(deadline, findings).await {
            // It reads the whole policy by the same rules, and runs the Rego besides. One of another version may know
            // more than we do, and lets nothing through that we would not.
            Ok(Ok(findings)) => PolicyVerdict::found(findings).or_else_of(ours),
            Ok(Err(unjudged)) => ours.and(Defect::Unjudged(unjudged)),
            Err(_) => ours.and(Defect::NobodyInTime),
        }
    }

    /// Whether the author may change the connectors that the policy is about.
    async fn author(&self, request: &ReviewedObject, object: &Value) -> Author {
        // What cannot be read is about nothing; it is refused for that.
        let spec = object.get("spec").map(parse::spec);
        let Some(Ok(AccessPolicySpec { connector, .. })) = spec else {
            return Author::Unasked;
        };
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let lookups = &self.lookups;
        match lookups.may_update_connectors(request, namespace).await {
            Ok(true) => return Author::MayAll,
            Ok(false) => {}
            Err(NoLookup) => return Author::NoAnswer,
        }
        match connector.names {
            None => Author::MayNotAll,
            Some(names) => {
                let denied = lookups
                    .connectors_denied(request, namespace, names, MOST_NAMED + 1)
                    .await;
                denied.map_or(Author::NoAnswer, Author::MayBut)
            }
        }
    }
}

/// The subjects of the standing permission that select namespaces, by their place. Nothing of a policy that cannot be
/// read, which is refused, or that has more than it may.
fn selecting(policy: &Value) -> Vec<(usize, SubjectForm)> {
    let spec = policy.get("spec").and_then(|it| parse::spec(it).ok());
    let Some(given) = spec.and_then(|it: AccessPolicySpec| it.default_permission) else {
        return Vec::new();
    };
    let forms = given
        .binding_template
        .subjects
        .iter()
        .map(SubjectForm::try_from);
    let selecting = forms.enumerate().filter_map(|(place, form)| {
        let form = form.ok().filter(|it| it.namespaces().is_some())?;
        Some((place, form))
    });
    selecting.take(MOST_SELECTORS).collect()
}

/// A policy, and what it says of itself.
struct PolicyReview {
    object: Value,
    validated: Validated,
}

/// Looks at a policy on a thread where no other review waits: a large one takes a while. It goes on when the caller has
/// hung up, and keeps its text and its memory until then.
async fn read(text: Text, room: Arc<Room>) -> Result<PolicyReview, Defect> {
    let reading = spawn_blocking(move || {
        let _room = room;
        let object: Value = serde_json::from_str(text.get()).map_err(|_| Defect::TooDeep)?;
        let validated = validate::policy(&object);
        Ok(PolicyReview { object, validated })
    });
    // It ends without an answer when it panics.
    reading.await.unwrap_or(Err(Defect::NobodyInTime))
}

/// The spec, as text.
#[derive(Deserialize)]
struct PolicySpecText<'a> {
    #[serde(borrow)]
    spec: &'a RawValue,
}

/// Labels and finalizers are for people and for the API server, and were not judged when the policy came either. The
/// API server writes the same spec in the same way.
fn is_spec_unchanged(request: &ReviewedObject, text: &Text) -> bool {
    let old = request.old_object.as_ref().and_then(spec);
    request.operation == Operation::Update && old.is_some() && old == spec(text)
}

fn spec(text: &Text) -> Option<&str> {
    let read: PolicySpecText<'_> = serde_json::from_str(text.get()).ok()?;
    Some(read.spec.get())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{runtime::Builder, time::Instant};

    use super::*;
    use crate::{
        peer_quota::PeerLimits,
        review_memory::{POLICIES, Scales},
    };

    /// The text of a policy is read even if its caller has hung up.
    #[test]
    fn the_room_of_a_policy_is_taken_until_it_was_read_whoever_waits() {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (go, waits) = std::sync::mpsc::channel::<()>();
            let busy = spawn_blocking(move || waits.recv());
            let scales = Scales::new(POLICIES, &PeerLimits::for_tests());
            let peer = [10, 0, 0, 1].into();
            let deadline = Instant::now() + Duration::from_secs(10);
            let room = scales.tree(peer, 64 * 1024, deadline).await.unwrap();
            {
                let reads = read(Text::for_tests("{}"), Arc::new(room));
                let mut reads = std::pin::pin!(reads);
                assert!(futures::poll!(&mut reads).is_pending());
            }
            assert_eq!(scales.taken(), [0, 64]);
            go.send(()).unwrap();
            busy.await.unwrap().unwrap();
            while scales.taken() != [0, 0] {
                tokio::task::yield_now().await;
            }
        });
    }
}
