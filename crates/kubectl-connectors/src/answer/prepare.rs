//! The answer before it is written: the object, the write, and its effects. It only reads.

use std::collections::{BTreeSet, VecDeque};

use connectors_api::AccessRequest;
use connectors_api::access_policy::ObjectKind;
use connectors_api::access_request::Phase;
use connectors_api::approval_kind::records_approvers;
use connectors_api::check_state::ObjectState;
use connectors_api::pod_grant::RequestFacts as _;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::core::ApiResource;
use serde_json::Value;

use super::find::{self, KindCounted, MeantObject, PolicyKey};
use super::{
    AnswerEffect, AnswerProblem, AnswerShown, AnswerWord, AnsweredObject, EffectWord, effects,
    requests,
};
use crate::approval_write::{self, AnswerRefusal, ApprovalAnswer, ApprovalWrite, WishedAnswer};
use crate::args::{AnswerArgs, AnswerTarget};
use crate::explain::foresee::{self, Foreseen};
use crate::explain::{ExplainError, NothingToExplain, WaitTarget};
use crate::modules::Modules;
use crate::reads::{ClusterReads, KindServed};
use crate::terms::NamespacedName;
use crate::unread::MissedRead;

/// The limit of requests whose checks are judged.
const MOST_JUDGED: usize = 64;

/// Why a script does not answer what a pod waits for: its labels select the approval.
const NOT_NAMED: &str = "--yes writes an approval that you name, and a tenant changes which one a pod or a request waits for: \
                         write KIND/NAME as the target, or add --only KIND/NAME";

/// The cluster and the settings of the command.
#[derive(Clone, Copy)]
pub(super) struct AnswerPlace<'a> {
    pub(super) reads: &'a ClusterReads,
    pub(super) modules: &'a Modules,
    pub(super) namespace: &'a str,
    pub(super) system_namespace: &'a str,
    pub(super) now: Timestamp,
}

/// An answer that can be written.
#[derive(Debug)]
pub(super) struct PreparedAnswer {
    pub(super) shown: AnswerShown,
    pub(super) resource: ApiResource,
    pub(super) write: ApprovalWrite,
    pub(super) unread: Vec<MissedRead>,
}

/// Finds the approval object, and what the answer to it would change.
pub(super) async fn prepare(
    place: AnswerPlace<'_>,
    answer: ApprovalAnswer,
    args: &AnswerArgs,
) -> Result<PreparedAnswer, AnswerProblem> {
    refuse_unnamed(args)?;
    // One look: a call that was answered is not made again.
    let reads = place.reads.remembering();
    let place = AnswerPlace {
        reads: &reads,
        ..place
    };
    let mut unread = Vec::new();
    let waiting = match &args.target {
        AnswerTarget::Pod(name) => Some(WaitTarget::Pod(place.within(name))),
        AnswerTarget::Request(name) => Some(WaitTarget::Request(place.within(name))),
        AnswerTarget::Object(_) => None,
    };
    // The namespaces of connectors that are known without the right to list in all.
    let mut namespaces = vec![place.namespace.to_owned()];
    let target = match &waiting {
        Some(waiting) => {
            let foreseen = place.foresee(waiting, None, &mut unread).await?;
            let of_connectors = foreseen.accesses.iter();
            namespaces.extend(of_connectors.map(|it| it.now.connector.namespace.clone()));
            Some(foreseen)
        }
        None => None,
    };
    namespaces.sort();
    namespaces.dedup();
    let named: Vec<&str> = namespaces.iter().map(String::as_str).collect();
    let policies = find::policies(place.reads, &named, &mut unread).await;
    let kinds = find::kinds_of(&policies);
    let meant = match (&args.target, &target) {
        (AnswerTarget::Object(object), _) => {
            if args.only.is_some() {
                let message = "--only is for pod/NAME and areq/NAME".to_owned();
                return Err(AnswerProblem::Usage(message));
            }
            MeantObject {
                kind: find::kind_named(place.reads, &object.kind, &kinds, &mut unread).await?,
                name: place.within(&object.name),
            }
        }
        (AnswerTarget::Pod(_) | AnswerTarget::Request(_), Some(foreseen)) => {
            find::awaited(foreseen, answer, args.only.as_ref())?
        }
        (AnswerTarget::Pod(_) | AnswerTarget::Request(_), None) => {
            return Err(AnswerProblem::No("there is nothing to answer".to_owned()));
        }
    };
    let counted = find::counted(&kinds, &meant.kind);
    let (object, resource, has_status) = place.object(&meant).await?;
    let mut shown = AnswerShown {
        answer,
        object: AnsweredObject {
            api_version: meant.kind.api_version.clone(),
            kind: meant.kind.kind.clone(),
            name: meant.name.clone(),
            state: state(&object),
        },
        writes: String::new(),
        effects: Vec::new(),
        left_out: 0,
        doubts: Vec::new(),
        beside: on_run(&meant.kind, answer),
        policies: counted.by_state.clone(),
        outcome: AnswerWord::NotAsked,
        because: String::new(),
        asked: false,
        state_after: None,
        requests: Vec::new(),
    };
    let written = place
        .write(answer, args, &meant, &object, &counted, has_status)
        .await?;
    let write = match written {
        Ok(write) => write,
        Err(because) => return Err(already(shown, because, args)),
    };
    shown.writes.clone_from(&write.says);
    let changed = ChangedObject {
        before: &object,
        after: &write.after,
    };
    let counting = find::counting(&policies, &meant.kind);
    place
        .find_effects(&mut shown, changed, waiting, &named, &counting, &mut unread)
        .await?;
    shown.doubts = doubts(&unread);
    refuse_modules_object(&shown)?;
    Ok(PreparedAnswer {
        shown,
        resource,
        write,
        unread,
    })
}

/// A script names the approval.
fn refuse_unnamed(args: &AnswerArgs) -> Result<(), AnswerProblem> {
    let is_named = args.only.is_some() || matches!(args.target, AnswerTarget::Object(_));
    if args.yes && !is_named {
        return Err(AnswerProblem::Usage(NOT_NAMED.to_owned()));
    }
    Ok(())
}

/// The answer that is there already. There is nothing to wait for.
fn already(mut shown: AnswerShown, because: String, args: &AnswerArgs) -> AnswerProblem {
    (shown.outcome, shown.because) = if args.wait.is_some() {
        let because = format!("{because}, and no request to wait for");
        (AnswerWord::NothingAwaited, because)
    } else {
        (AnswerWord::Already, because)
    };
    AnswerProblem::Already(Box::new(shown))
}

/// A state is not written if only Rego modules look at the object.
fn refuse_modules_object(shown: &AnswerShown) -> Result<(), AnswerProblem> {
    let mut effects = shown.effects.iter().peekable();
    if effects.peek().is_some() && effects.all(|it| it.is_by_module) {
        let object = format!("{} {}", shown.object.kind, shown.object.name);
        let policies = shown.effects.iter().flat_map(|it| it.policies.clone());
        let policies: Vec<_> = policies.collect();
        let message = find::by_module(&object, &policies.join(", "));
        return Err(AnswerProblem::No(message));
    }
    Ok(())
}

/// The failed reads on which effects depend. Reviews and RBAC say what accounts may do now.
fn doubts(unread: &[MissedRead]) -> Vec<String> {
    let matter = unread
        .iter()
        .filter(|it| !it.resource.ends_with(".authorization.k8s.io"));
    let mut doubts: Vec<String> = matter.map(|it| it.message.clone()).collect();
    doubts.sort();
    doubts.dedup();
    doubts
}

/// The object before and after the write.
#[derive(Clone, Copy)]
struct ChangedObject<'a> {
    before: &'a Value,
    after: &'a Value,
}

/// The state of an object, of the length that a status shows. Empty if there is none.
pub(super) fn state(object: &Value) -> String {
    match object.pointer("/status/state") {
        None | Some(Value::Null) => String::new(),
        Some(_) => match ObjectState::of(object) {
            Ok(state) => state.into(),
            Err(wrong) => wrong.to_string(),
        },
    }
}

/// The effect of an answer on the run that waits at the approval.
fn on_run(kind: &ObjectKind, answer: ApprovalAnswer) -> Option<String> {
    let told = match answer {
        ApprovalAnswer::Approve => "its pipeline run goes on once enough approvers have approved",
        ApprovalAnswer::Reject => "its pipeline run fails",
    };
    records_approvers(kind).then(|| told.to_owned())
}

fn uid(object: &Value) -> &str {
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
    uid.unwrap_or_default()
}

impl AnswerPlace<'_> {
    fn within(&self, name: &str) -> NamespacedName {
        NamespacedName::new(self.namespace, name)
    }

    /// The accesses of a pod or a request, with the object as it is after the write.
    async fn foresee(
        &self,
        waiting: &WaitTarget,
        changed: Option<ChangedObject<'_>>,
        unread: &mut Vec<MissedRead>,
    ) -> Result<Foreseen, AnswerProblem> {
        let change = |object: &Value| {
            let ChangedObject { before, after } = changed?;
            foresee::has_uid(object, uid(before)).then(|| after.clone())
        };
        let foreseen = foresee::foresee(
            self.reads,
            self.modules,
            waiting,
            self.system_namespace,
            self.now,
            changed.map(|it| it.before),
            &change,
        );
        let (foreseen, missed) = foreseen.await.map_err(AnswerProblem::Explain)?;
        unread.extend(missed);
        Ok(foreseen)
    }

    /// The object, its resource, and whether its status is written separately.
    async fn object(
        &self,
        meant: &MeantObject,
    ) -> Result<(Value, ApiResource, bool), AnswerProblem> {
        let MeantObject { kind, name } = meant;
        let (resource, has_status) = match self.reads.served(kind).await? {
            KindServed::Namespaced {
                resource,
                has_status,
            } => (*resource, has_status),
            KindServed::Missing | KindServed::ClusterScoped => {
                return Err(AnswerProblem::No(format!(
                    "the cluster serves no kind {} of {} with namespaces",
                    kind.kind, kind.api_version
                )));
            }
        };
        let found = self.reads.object(&resource, &name.namespace, &name.name);
        match found.await? {
            Some(Ok(object)) => Ok((object, resource, has_status)),
            Some(Err(_)) => {
                let message = format!("{} {name} cannot be read", kind.kind);
                Err(AnswerProblem::No(message))
            }
            None => {
                let message = format!("there is no {} {name}", kind.kind);
                Err(AnswerProblem::No(message))
            }
        }
    }

    /// The write, or the sentence that says that the answer is there.
    async fn write(
        &self,
        answer: ApprovalAnswer,
        args: &AnswerArgs,
        meant: &MeantObject,
        object: &Value,
        counted: &KindCounted,
        has_status: bool,
    ) -> Result<Result<ApprovalWrite, String>, AnswerProblem> {
        let MeantObject { kind, name } = meant;
        let wish = WishedAnswer {
            answer,
            group: args.group.as_deref(),
            message: args.message.as_deref(),
        };
        let told = format!("{} {name}", kind.kind);
        let written = if records_approvers(kind) {
            let user = self.reads.me().await?;
            approval_write::of_approver(object, &user, wish)
        } else {
            if let (true, Some(check)) = (counted.by_state.is_empty(), counted.by_module.first()) {
                let checks = format!("{}, check {}", check.policy, check.check);
                return Err(AnswerProblem::No(find::by_module(&told, &checks)));
            }
            approval_write::of_state(object, &kind.kind, has_status, wish)
        };
        let refusal = match written {
            Ok(write) => return Ok(Ok(write)),
            Err(refusal) => refusal,
        };
        let message = format!("{told}: {refusal}");
        if matches!(refusal, AnswerRefusal::Already(_)) {
            Ok(Err(message))
        } else if refusal.is_usage() {
            Err(AnswerProblem::Usage(message))
        } else {
            Err(AnswerProblem::No(message))
        }
    }

    /// Looks at the target, and at the requests of the pods of the object's namespace that these policies can change.
    async fn find_effects(
        &self,
        shown: &mut AnswerShown,
        changed: ChangedObject<'_>,
        target: Option<WaitTarget>,
        namespaces: &[&str],
        counting: &BTreeSet<PolicyKey>,
        unread: &mut Vec<MissedRead>,
    ) -> Result<(), AnswerProblem> {
        let uid = uid(changed.before);
        let of_pods = &shown.object.name.namespace;
        let (all, is_cut) = requests::of_pods(self.reads, of_pods, namespaces, unread).await;
        let answer = shown.answer;
        let (deciding, mut judged) = requests::parted(&all);
        let mut open: Vec<&AccessRequest> = deciding
            .iter()
            .copied()
            .filter(|it| requests::is_open(it, answer) && requests::can_change(it, counting))
            .collect();
        // Those that record the object come first: their number is not that of a tenant's pods.
        open.sort_by_key(|it| {
            (
                !requests::records(it, uid),
                it.phase() == Some(Phase::Granted),
                it.metadata.creation_timestamp.clone(),
                it.name_any(),
            )
        });
        let mut queue: VecDeque<WaitTarget> = target.into_iter().collect();
        queue.extend(
            open.iter()
                .map(|it| WaitTarget::Request(requests::name_of(it))),
        );
        let mut looks = 0;
        let mut effects: Vec<AnswerEffect> = Vec::new();
        while let Some(target) = queue.pop_front() {
            if is_judged(&target, &judged) {
                continue;
            }
            if looks >= MOST_JUDGED {
                let rest = queue.iter().chain([&target]);
                shown.left_out = rest.filter(|it| !is_judged(it, &judged)).count();
                break;
            }
            looks += 1;
            let foreseen = match self.foresee(&target, Some(changed), unread).await {
                Ok(foreseen) => foreseen,
                Err(AnswerProblem::Explain(ExplainError::Nothing(NothingToExplain::Unread(
                    missed,
                )))) => {
                    unread.push(missed);
                    continue;
                }
                // A request that is gone meanwhile waits for nothing.
                Err(AnswerProblem::Explain(_)) => continue,
                Err(problem) => return Err(problem),
            };
            let known = foreseen.accesses.iter().filter_map(|it| {
                let request = it.now.request.as_ref()?;
                let namespace = &it.now.connector.namespace;
                Some(NamespacedName::new(namespace, &request.name))
            });
            judged.extend(known);
            if let WaitTarget::Request(name) = target {
                judged.insert(name);
            }
            effects.extend(effects::of_waiting(&foreseen, uid));
        }
        shown.left_out += usize::from(is_cut);
        if answer == ApprovalAnswer::Reject {
            let granted = deciding
                .iter()
                .filter(|it| it.phase() == Some(Phase::Granted));
            effects.extend(granted.filter_map(|it| effects::of_granted(it, uid)));
        }
        effects.sort_by(|a, b| {
            (a.effect, &a.pod, &a.connector).cmp(&(b.effect, &b.pod, &b.connector))
        });
        shown.effects = effects;
        Ok(())
    }
}

fn is_judged(waiting: &WaitTarget, judged: &BTreeSet<NamespacedName>) -> bool {
    match waiting {
        WaitTarget::Request(name) => judged.contains(name),
        WaitTarget::Pod(_) => false,
    }
}

impl AnswerShown {
    /// The requests whose phase the answer changes, each with its phase afterwards.
    pub(super) fn awaited(&self) -> impl Iterator<Item = (&AnswerEffect, Phase, NamespacedName)> {
        let phase = |it: &AnswerEffect| match it.effect {
            EffectWord::Opens => Some(Phase::Granted),
            EffectWord::Refuses => Some(Phase::Rejected),
            EffectWord::TakesBack => Some(Phase::Revoked),
            EffectWord::Adds
            | EffectWord::NotKnown
            | EffectWord::MayTakeBack
            | EffectWord::Waits
            | EffectWord::Keeps => None,
        };
        self.effects.iter().filter_map(move |it| {
            let (phase, name) = (phase(it)?, it.request.clone()?);
            Some((
                it,
                phase,
                NamespacedName::new(&it.connector.namespace, name),
            ))
        })
    }
}
