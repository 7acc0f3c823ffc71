//! The answer before it is written: the object, the write, and its effects. It only reads.

use std::collections::{BTreeSet, VecDeque};

use connectors_api::AccessRequest;
use connectors_api::access_request::Phase;
use connectors_api::approval_kind::records_approvers;
use connectors_api::labels::CONTEXT_OBJECT_NAMESPACE;
use connectors_api::pod_grant::RequestFacts as _;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::core::ApiResource;
use serde_json::Value;

use super::find::{self, KindCounted, MeantObject};
use super::{
    AnswerEffect, AnswerProblem, AnswerShown, AnswerWord, AnsweredObject, EffectWord, effects,
};
use crate::approval_write::{self, AnswerRefusal, ApprovalAnswer, ApprovalWrite, WishedAnswer};
use crate::args::{AnswerArgs, AnswerTarget};
use crate::explain::foresee::{self, Foreseen};
use crate::explain::{ExplainError, NothingToExplain, WaitTarget};
use crate::modules::Modules;
use crate::reads::{ClusterReads, Found, KindServed, Strict};
use crate::terms::NamespacedName;
use crate::unread::MissedRead;

/// The limit of waiting requests whose checks are judged.
const MOST_JUDGED: usize = 16;
/// The limit of requests of one namespace of pods that are listed.
const MOST_LISTED: u32 = 512;

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
            let foreseen = place.foresee(waiting, "", None, &mut unread).await?;
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
    let counted = kinds.get(&meant.kind).cloned().unwrap_or_default();
    let (object, resource, has_status) = place.object(&meant).await?;
    let write = place
        .write(answer, args, &meant, &object, &counted, has_status)
        .await?;
    let mut shown = AnswerShown {
        answer,
        object: AnsweredObject {
            api_version: meant.kind.api_version.clone(),
            kind: meant.kind.kind.clone(),
            name: meant.name.clone(),
            state: state(&object).to_owned(),
        },
        writes: write.says.clone(),
        effects: Vec::new(),
        left_out: 0,
        policies: counted.by_state,
        outcome: AnswerWord::NotAsked,
        because: String::new(),
        asked: false,
        state_after: None,
        requests: Vec::new(),
    };
    place
        .find_effects(&mut shown, &object, &write, waiting, &named, &mut unread)
        .await?;
    Ok(PreparedAnswer {
        shown,
        resource,
        write,
        unread,
    })
}

/// The state of an object, as it is written.
pub(super) fn state(object: &Value) -> &str {
    let state = object.pointer("/status/state").and_then(Value::as_str);
    state.unwrap_or_default()
}

fn uid(object: &Value) -> &str {
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
    uid.unwrap_or_default()
}

impl AnswerPlace<'_> {
    fn within(&self, name: &str) -> NamespacedName {
        NamespacedName::new(self.namespace, name)
    }

    /// The accesses of a pod or a request, with the object of this UID as it is after the write.
    async fn foresee(
        &self,
        waiting: &WaitTarget,
        uid: &str,
        after: Option<&Value>,
        unread: &mut Vec<MissedRead>,
    ) -> Result<Foreseen, AnswerProblem> {
        let change = |object: &Value| after.filter(|_| foresee::has_uid(object, uid)).cloned();
        let foreseen = foresee::foresee(
            self.reads,
            self.modules,
            waiting,
            self.system_namespace,
            self.now,
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

    async fn write(
        &self,
        answer: ApprovalAnswer,
        args: &AnswerArgs,
        meant: &MeantObject,
        object: &Value,
        counted: &KindCounted,
        has_status: bool,
    ) -> Result<ApprovalWrite, AnswerProblem> {
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
        written.map_err(|refusal| {
            let message = format!("{told}: {refusal}");
            if matches!(refusal, AnswerRefusal::Already(_)) {
                AnswerProblem::Already(message)
            } else if refusal.is_usage() {
                AnswerProblem::Usage(message)
            } else {
                AnswerProblem::No(message)
            }
        })
    }

    /// Looks at the target, and at the requests of the pods of the object's namespace.
    async fn find_effects(
        &self,
        shown: &mut AnswerShown,
        object: &Value,
        write: &ApprovalWrite,
        target: Option<WaitTarget>,
        namespaces: &[&str],
        unread: &mut Vec<MissedRead>,
    ) -> Result<(), AnswerProblem> {
        let uid = uid(object);
        let of_pods = &shown.object.name.namespace;
        let (requests, is_cut) = self.requests(of_pods, namespaces, unread).await;
        let mut waiting: Vec<&AccessRequest> = requests
            .iter()
            .flatten()
            .filter(|it| matches!(it.phase(), None | Some(Phase::Pending)))
            .collect();
        waiting.sort_by_key(|it| (it.metadata.creation_timestamp.clone(), it.name_any()));
        let named = waiting.iter().map(|it| {
            let namespace = it.metadata.namespace.clone().unwrap_or_default();
            NamespacedName::new(namespace, it.name_any())
        });
        let mut queue: VecDeque<WaitTarget> = target.into_iter().collect();
        queue.extend(named.map(WaitTarget::Request));
        let mut judged: BTreeSet<NamespacedName> = BTreeSet::new();
        let mut looks = 0;
        let mut effects: Vec<AnswerEffect> = Vec::new();
        while let Some(target) = queue.pop_front() {
            if let WaitTarget::Request(name) = &target
                && judged.contains(name)
            {
                continue;
            }
            if looks >= MOST_JUDGED {
                let rest = queue.iter().chain([&target]);
                shown.left_out = rest.filter(|it| !is_judged(it, &judged)).count();
                break;
            }
            looks += 1;
            let foreseen = self.foresee(&target, uid, Some(&write.after), unread).await;
            let foreseen = match foreseen {
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
            let requests = foreseen.accesses.iter().filter_map(|it| {
                let request = it.now.request.as_ref()?;
                let namespace = &it.now.connector.namespace;
                Some(NamespacedName::new(namespace, &request.name))
            });
            judged.extend(requests);
            effects.extend(effects::of_waiting(&foreseen, uid));
        }
        shown.left_out += usize::from(is_cut);
        if shown.answer == ApprovalAnswer::Reject {
            let granted = requests
                .iter()
                .flatten()
                .filter(|it| it.phase() == Some(Phase::Granted));
            effects.extend(granted.filter_map(|it| effects::of_granted(it, uid)));
        }
        effects.sort_by(|a, b| {
            (a.effect, &a.pod, &a.connector).cmp(&(b.effect, &b.pod, &b.connector))
        });
        shown.effects = effects;
        Ok(())
    }

    /// The requests of the pods of a namespace: in all namespaces of connectors, or in those that are known.
    async fn requests(
        &self,
        of_pods: &str,
        namespaces: &[&str],
        unread: &mut Vec<MissedRead>,
    ) -> (Vec<Found<AccessRequest>>, bool) {
        let labels = format!("{CONTEXT_OBJECT_NAMESPACE}={of_pods}");
        let read = |namespace: &str| {
            let namespace = namespace.to_owned();
            let labels = labels.clone();
            async move {
                let reads = self.reads;
                let found = reads.first::<AccessRequest, Strict>(&namespace, &labels, MOST_LISTED);
                found.await
            }
        };
        let missed = match read("").await {
            Ok(found) => return found,
            Err(missed) => missed,
        };
        unread.push(missed);
        let (mut found, mut is_cut) = (Vec::new(), false);
        for namespace in namespaces {
            match read(namespace).await {
                Ok((some, is_some_cut)) => {
                    found.extend(some);
                    is_cut |= is_some_cut;
                }
                Err(missed) => unread.push(missed),
            }
        }
        (found, is_cut)
    }
}

fn is_judged(waiting: &WaitTarget, judged: &BTreeSet<NamespacedName>) -> bool {
    match waiting {
        WaitTarget::Request(name) => judged.contains(name),
        WaitTarget::Pod(_) => false,
    }
}

impl AnswerShown {
    /// The requests whose phase the answer changes.
    pub(super) fn awaited(&self) -> impl Iterator<Item = (&AnswerEffect, NamespacedName)> {
        let moves = |it: &&AnswerEffect| match it.effect {
            EffectWord::Opens | EffectWord::Refuses | EffectWord::TakesBack => true,
            EffectWord::MayTakeBack | EffectWord::Waits | EffectWord::Keeps => false,
        };
        self.effects.iter().filter(moves).filter_map(|it| {
            let name = it.request.clone()?;
            Some((it, NamespacedName::new(&it.connector.namespace, name)))
        })
    }
}
