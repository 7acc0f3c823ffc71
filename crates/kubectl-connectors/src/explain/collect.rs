//! Reads the objects of the checks that apply, and passes them to the shared judge.

use std::collections::BTreeMap;
use std::sync::Arc;

use authz::ResourceRequest;
use connectors_api::access_policy::{Check, ObjectKind};
use connectors_api::approval_kind::{may_approve, records_approvers};
use connectors_api::check_selector::CompiledPolicy;
use connectors_api::judge::{self, JudgeError, Judgement, PolicyQuestion, Stage, proof_needed};
use connectors_api::lineage::{Lineage, LineageQuestion, MOST_OBJECTS};
use connectors_api::reason::AccessCheckReady;
use connectors_api::shared_fields::{FieldPath, SharedFields};
use connectors_api::wanted_objects::{
    self, CheckTrouble, WantedObjects, kind_forbidden, kind_missing,
};
use connectors_api::{AccessPolicy, names};
use jiff::Timestamp;
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::seen::{
    CandidateRead, CheckProblem, CheckRead, KindRead, LinkRead, Observed, PolicyJudged, text,
};
use super::tell::to_judge;
use crate::modules::Modules;
use crate::rbac;
use crate::reads::{ClusterReads, KindServed, ReadResult, SomeObjects};
use crate::unread::{MissedRead, Presence};

/// The most objects of one check that are read.
const MOST_CANDIDATES: usize = 512;
/// The limit of rounds in which the judge names missing objects.
const MOST_ROUNDS: usize = 20;

/// The objects and policies that are looked at beside those that a wait needs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CheckLook<'a> {
    /// An object that was read before. A check whose objects cannot be listed may find it.
    pub(super) known: Option<&'a Value>,
    /// The policies that have not decided on a granted request are judged too.
    pub(super) is_granted_too: bool,
    /// Whether the output names who may write the state of awaited objects.
    pub(super) writers: WriterSearch,
    /// The account that reads the objects in the cluster, if its rights count.
    pub(super) reader: Option<&'a authz::User>,
}

/// The account that reads the objects of checks.
pub(super) fn reader(system_namespace: &str) -> authz::User {
    authz::User::service_account(system_namespace, "request-controller")
}

/// Judges the policies that apply and have not decided yet.
pub(super) async fn judge_all(reads: &ClusterReads, modules: &Modules, observed: &mut Observed) {
    let reader = reader(&observed.system_namespace);
    let look = CheckLook {
        reader: Some(&reader),
        ..CheckLook::default()
    };
    Box::pin(judge_these(reads, modules, observed, look)).await;
}

/// The same, with what else is looked at.
pub(super) async fn judge_these(
    reads: &ClusterReads,
    modules: &Modules,
    observed: &mut Observed,
    look: CheckLook<'_>,
) {
    let Some(pod) = observed.pod.as_ref().and_then(|it| it.object.clone()) else {
        return;
    };
    let shared = observed.settings.as_ref().map(|it| it.shared().clone());
    let mut collector = Collector {
        reads,
        modules,
        namespace: text(&pod, "/metadata/namespace")
            .unwrap_or_default()
            .to_owned(),
        pod,
        shared: shared.unwrap_or_default(),
        kinds: BTreeMap::new(),
        links: BTreeMap::new(),
        creators: None,
        rbac: None,
        writers: look.writers,
        known: look.known,
        reader: look.reader,
        unread: Vec::new(),
    };
    for (access, policy) in to_judge(observed, look.is_granted_too) {
        let Some(read) = observed.accesses.get_mut(access) else {
            continue;
        };
        let connector = read.connector.name.clone();
        let policies = read.policies.as_mut();
        let Some(read) = policies.and_then(|it| it.get_mut(policy)) else {
            continue;
        };
        // Of a second look under other policies.
        if read.judged.is_some() {
            continue;
        }
        if let Ok(policy) = &read.policy {
            let judged = Box::pin(collector.policy(policy, connector));
            read.judged = Some(judged.await);
        }
    }
    for (kind, served) in collector.kinds {
        if let Ok(KindServed::Namespaced {
            resource,
            has_status,
        }) = served
        {
            let resource = resource_name(&resource);
            observed.kinds.insert(
                kind,
                KindRead {
                    resource,
                    has_status,
                },
            );
        }
    }
    observed.unread.extend(collector.unread);
}

fn resource_name(resource: &ApiResource) -> String {
    if resource.group.is_empty() {
        resource.plural.clone()
    } else {
        format!("{}.{}", resource.plural, resource.group)
    }
}

/// True when a check with this selection finds an object in this namespace.
pub(super) fn is_found(object: &Value, wanted: &WantedObjects, namespace: &str) -> bool {
    let Ok(selection) = &wanted.selection else {
        return false;
    };
    let group = |api_version: &str| {
        let parts = api_version.split_once('/');
        parts.map_or_else(String::new, |(group, _)| group.to_owned())
    };
    let is = |pointer: &str, value: &str| text(object, pointer) == Some(value);
    let labels = object.pointer("/metadata/labels");
    let label = |key: &str| labels.and_then(|it| it.get(key)?.as_str());
    group(text(object, "/apiVersion").unwrap_or_default()) == group(&wanted.kind.api_version)
        && is("/kind", &wanted.kind.kind)
        && is("/metadata/namespace", namespace)
        && object.pointer("/metadata/deletionTimestamp").is_none()
        && selection.labels.match_found(label)
        && selection
            .fields
            .as_ref()
            .is_none_or(|it| it.matches(object))
}

/// A link by kind and name.
type LinkKey = (&'static str, &'static str, String);

/// The objects of a check that were listed and do not count.
#[derive(Debug, Default)]
struct UncountedObjects {
    /// Why some of them could not be read.
    unread: Option<String>,
    /// The name of one that is being deleted.
    going: Option<String>,
}

struct Collector<'a> {
    reads: &'a ClusterReads,
    modules: &'a Modules,
    pod: Value,
    /// The pod's namespace.
    namespace: String,
    shared: Arc<SharedFields>,
    /// The kinds that were asked for.
    kinds: BTreeMap<ObjectKind, ReadResult<KindServed>>,
    /// The objects of proofs that were asked for.
    links: BTreeMap<LinkKey, Presence<Value>>,
    /// The time since which an admission rule protects the creators of runs, once it was asked for.
    creators: Option<Presence<Timestamp>>,
    /// The RBAC of the pod's namespace, once it was asked for.
    rbac: Option<rbac::RbacRead>,
    writers: WriterSearch,
    /// An object that was read before.
    known: Option<&'a Value>,
    /// The account that reads the objects in the cluster, if its rights count.
    reader: Option<&'a authz::User>,
    unread: Vec<MissedRead>,
}

/// Whether the subjects are looked for that may write the state of awaited objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum WriterSearch {
    /// They are.
    #[default]
    Wanted,
    /// They do not matter, and neither does the right to read RBAC.
    LeftOut,
}

impl Collector<'_> {
    async fn policy(&mut self, policy: &AccessPolicy, connector: String) -> PolicyJudged {
        let compiled = CompiledPolicy::of(policy.clone(), None);
        let wanted = wanted_objects::wanted(&compiled, &self.pod, &self.shared);
        let mut checks = Vec::new();
        let mut lineage = BTreeMap::new();
        let mut needs_creators = false;
        for ((check, _), wanted) in compiled.checks().zip(wanted) {
            let mut read = self.check(check, wanted).await;
            if let Some(by) = proof_needed(check).lineage() {
                for candidate in read.found.iter_mut().flatten() {
                    self.prove(by, candidate, &mut lineage).await;
                }
            }
            needs_creators |= check.approvers.as_ref().is_some_and(|it| it.not_requester);
            checks.push(read);
        }
        let creators = if needs_creators {
            self.creators().await
        } else {
            Presence::Absent
        };
        let lineage: Vec<Value> = lineage.into_values().collect();
        let creators_since = creators.there().copied();
        let asked = Asked {
            pod: &self.pod,
            connector,
            shared: &self.shared,
            lineage: lineage.clone(),
            creators_since,
        };
        let question = asked.question(policy, &compiled, &checks);
        let judgement = judge(self.modules, question).await;
        let mut judged = PolicyJudged {
            checks,
            judgement,
            lineage,
            creators_since,
            lacks_creators: creators == Presence::Unread,
            not_run: self.modules.not_run().map(str::to_owned),
        };
        if self.writers == WriterSearch::Wanted {
            self.find_writers(&mut judged).await;
        }
        judged
    }

    async fn check(&mut self, check: &Check, wanted: WantedObjects) -> CheckRead {
        let module = check.has_module();
        let (found, listed) = match self.candidates(&wanted).await {
            Ok((found, listed)) => (Ok(found), listed),
            Err(problem) => (Err(problem), UncountedObjects::default()),
        };
        CheckRead {
            wanted,
            has_module: module,
            found,
            problem: listed.unread,
            going: listed.going,
        }
    }

    async fn candidates(
        &mut self,
        wanted: &WantedObjects,
    ) -> Result<(Vec<CandidateRead>, UncountedObjects), CheckProblem> {
        let kind = &wanted.kind;
        // No objects are read of a kind that is never an approval. The judge refuses the check.
        if !may_approve(kind) {
            return Ok((Vec::new(), UncountedObjects::default()));
        }
        let trouble = |word, message| Err(CheckProblem::Trouble(word, message));
        let selection = match &wanted.selection {
            Ok(selection) => selection,
            Err(nothing) => return trouble(CheckTrouble::SelectorInvalid, nothing.to_string()),
        };
        let resource = match self.served(kind).await {
            Ok(KindServed::Namespaced { resource, .. }) => resource,
            Ok(KindServed::Missing) => {
                return trouble(CheckTrouble::KindMissing, kind_missing(kind));
            }
            Ok(KindServed::ClusterScoped) => {
                let message = format!(
                    "objects of kind {} are in no namespace, and checks search the pod's namespace",
                    kind.kind
                );
                return trouble(CheckTrouble::KindNotNamespaced, message);
            }
            Err(unread) => return Err(CheckProblem::Unread(unread)),
        };
        if self.is_forbidden(&resource).await {
            let message = kind_forbidden(&resource.plural, &resource.group);
            return trouble(CheckTrouble::KindForbidden, message);
        }
        let labels = selection.labels.to_string();
        let listed = self
            .reads
            .objects(&resource, &self.namespace, &labels, MOST_CANDIDATES);
        let listed = match (listed.await, self.known) {
            (Ok(listed), _) => listed,
            (Err(missed), Some(known)) if is_found(known, wanted, &self.namespace) => SomeObjects {
                objects: vec![known.clone()],
                problem: Some(missed.message),
            },
            (Err(missed), _) => return Err(CheckProblem::Unread(missed)),
        };
        let is_selected = |object: &Value| {
            let fields = selection.fields.as_ref();
            fields.is_none_or(|it| it.matches(object))
        };
        let is_going = |it: &Value| it.pointer("/metadata/deletionTimestamp").is_some();
        let objects = listed.objects.into_iter().filter(is_selected);
        let (going, objects): (Vec<_>, Vec<_>) = objects.partition(is_going);
        let going = going.first().and_then(|it| text(it, "/metadata/name"));
        let left_out = UncountedObjects {
            unread: listed.problem,
            going: going.map(str::to_owned),
        };
        let candidate = |object| CandidateRead {
            object,
            links: Vec::new(),
            writers: None,
        };
        Ok((objects.into_iter().map(candidate).collect(), left_out))
    }

    /// True if it is known that the reader may not list the objects of a kind. A user without the right to ask takes the
    /// rights of the installation for granted.
    async fn is_forbidden(&self, resource: &ApiResource) -> bool {
        let Some(reader) = self.reader else {
            return false;
        };
        let review = self.reads.may_list(reader, resource).await;
        review.is_ok_and(|it| !it.allowed)
    }

    async fn served(&mut self, kind: &ObjectKind) -> ReadResult<KindServed> {
        if let Some(known) = self.kinds.get(kind) {
            return known.clone();
        }
        let served = self.reads.served(kind).await;
        self.kinds.insert(kind.clone(), served.clone());
        served
    }

    /// Reads the objects between the pod and an approval, as the judge asks for them.
    async fn prove(
        &mut self,
        by: &'static dyn Lineage,
        candidate: &mut CandidateRead,
        lineage: &mut BTreeMap<LinkKey, Value>,
    ) {
        for _ in 0..MOST_ROUNDS {
            let own = lineage.iter().filter(|((_, kind, _), _)| by.has_kind(kind));
            let objects: Vec<Value> = own.map(|(_, object)| object.clone()).collect();
            let question = LineageQuestion {
                pod: &self.pod,
                approval: &candidate.object,
                objects: &objects,
            };
            let verdict = by.judge(&question);
            let is_told = |key: &LinkKey| {
                let mut links = candidate.links.iter();
                links.any(|it| it.kind == key.1 && it.name == key.2)
            };
            let missing: Vec<LinkKey> = verdict
                .to_read()
                .map(|it| (it.api_version, it.kind, it.name.clone()))
                .filter(|key| !is_told(key))
                .collect();
            if missing.is_empty() || lineage.len() + missing.len() > MOST_OBJECTS {
                return;
            }
            for key in missing {
                let found = self.link(&key).await;
                candidate.links.push(LinkRead {
                    kind: key.1.to_owned(),
                    name: key.2.clone(),
                    is_there: match found {
                        Presence::Unread => None,
                        Presence::Absent => Some(false),
                        Presence::There(_) => Some(true),
                    },
                });
                if let Presence::There(object) = found {
                    lineage.insert(key, object);
                }
            }
        }
    }

    async fn link(&mut self, key: &LinkKey) -> Presence<Value> {
        if let Some(known) = self.links.get(key) {
            return known.clone();
        }
        let (api_version, kind, name) = key;
        let kind = ObjectKind {
            api_version: (*api_version).to_owned(),
            kind: (*kind).to_owned(),
        };
        let found = match self.served(&kind).await {
            Ok(KindServed::Namespaced { resource, .. }) => {
                let found = self.reads.object(&resource, &self.namespace, name).await;
                found.map(|it| it.and_then(Result::ok))
            }
            Ok(KindServed::Missing | KindServed::ClusterScoped) => Ok(None),
            Err(unread) => Err(unread),
        };
        let found = Presence::of(found, &mut self.unread);
        self.links.insert(key.clone(), found.clone());
        found
    }

    /// The time since which an admission rule protects the creators of runs.
    async fn creators(&mut self) -> Presence<Timestamp> {
        if let Some(known) = &self.creators {
            return known.clone();
        }
        let since = self.reads.creators_since().await;
        let since = Presence::of(since, &mut self.unread);
        self.creators = Some(since.clone());
        since
    }

    /// Finds the subjects that may write the state of the awaited objects, where these name no approvers.
    async fn find_writers(&mut self, judged: &mut PolicyJudged) {
        let Ok(judgement) = &judged.judgement else {
            return;
        };
        for (check, said) in judged.checks.iter_mut().zip(&judgement.checks) {
            let is_open = said.verdict == AccessCheckReady::AccessCheckPending;
            if !is_open || records_approvers(&check.wanted.kind) {
                continue;
            }
            let Ok(KindServed::Namespaced {
                resource,
                has_status,
            }) = self.served(&check.wanted.kind).await
            else {
                continue;
            };
            for candidate in check.found.iter_mut().flatten() {
                if self.rbac.is_none() {
                    let read = rbac::read(self.reads, &self.namespace, &mut self.unread).await;
                    self.rbac = Some(read);
                }
                let Some(rbac) = &self.rbac else {
                    continue;
                };
                let object = ResourceRequest {
                    group: &resource.group,
                    resource: &resource.plural,
                    subresource: if has_status { "status" } else { "" },
                    namespace: &self.namespace,
                    name: text(&candidate.object, "/metadata/name").unwrap_or_default(),
                    ..ResourceRequest::default()
                };
                let writers = rbac::writers(&rbac.index, object);
                candidate.writers = rbac.is_whole.then_some(writers);
            }
        }
    }
}

/// The judge's inputs beside the policy and the objects that its checks found.
pub(super) struct Asked<'a> {
    /// The whole pod.
    pub(super) pod: &'a Value,
    /// The connector.
    pub(super) connector: String,
    /// The fields of check objects that the installation shares.
    pub(super) shared: &'a SharedFields,
    /// The objects between pod and approvals.
    pub(super) lineage: Vec<Value>,
    /// The time since which an admission rule protects the creators of runs.
    pub(super) creators_since: Option<Timestamp>,
}

impl Asked<'_> {
    pub(super) fn question(
        self,
        policy: &AccessPolicy,
        compiled: &CompiledPolicy,
        checks: &[CheckRead],
    ) -> PolicyQuestion {
        PolicyQuestion {
            policy: kept(policy),
            context: self.pod.clone(),
            connector: self.connector,
            candidates: candidates(checks),
            shared: shared(compiled, self.shared),
            lineage: self.lineage,
            creators_since: self.creators_since,
            stage: Stage::BeforeGrant,
        }
    }
}

/// Judges a question, with its modules run in processes of their own.
pub(super) async fn judge(
    modules: &Modules,
    question: PolicyQuestion,
) -> Result<Judgement, JudgeError> {
    let prepared = judge::prepare(question.read()?)?;
    let mut answers = Vec::new();
    for job in prepared.rego_jobs() {
        answers.push(modules.evaluate(job).await);
    }
    Ok(prepared.finish(answers))
}

/// The policy, with the kind that a list leaves out.
fn kept(policy: &AccessPolicy) -> Value {
    let mut kept = json!(policy);
    kept["apiVersion"] = names::API_VERSION.into();
    kept["kind"] = "AccessPolicy".into();
    kept
}

fn candidates(checks: &[CheckRead]) -> BTreeMap<String, Vec<Value>> {
    let objects = |check: &CheckRead| {
        let found = check.found.iter().flatten();
        found.map(|it| it.object.clone()).collect()
    };
    let named = checks.iter();
    named
        .map(|check| (check.wanted.check.clone(), objects(check)))
        .collect()
}

fn shared(compiled: &CompiledPolicy, shared: &SharedFields) -> BTreeMap<String, Vec<FieldPath>> {
    let checks = compiled.checks();
    checks
        .map(|(check, _)| {
            let fields = shared.of(&check.selector.object_ref);
            (check.name.clone(), fields.to_vec())
        })
        .collect()
}

#[cfg(test)]
mod tests;
