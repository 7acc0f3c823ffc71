//! What the checks of a policy say: their objects are collected, and the evaluation service is asked.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use connectors_api::{
    AccessRequest, access_policy::ObjectKind, access_request::MatchedPolicy,
    check_selector::CompiledPolicy, reason::AccessCheckReady,
};
use evaluation_api::v1::{
    Candidates, EvaluateChecksRequest, EvaluateChecksResponse, EvaluationStage,
};
use kube::core::ApiResource;
use serde_json::Value;
use service_kit::{chance, report};
use tokio::time::timeout;
use tracing::warn;

use super::{
    ObserveError, Observer, Via,
    remembered::{Digest, Question},
    sources::text,
};
use crate::{
    api::{Name, NotListed},
    caches::KindState,
    check_kinds,
    dynamic::{self, Found as KindFound},
    evaluator::Unanswered,
    plan::{
        grant,
        held::{self, Looked},
        select::{self, Found, Trouble, Wanted},
    },
    seen::{Held, Judged},
};

/// An answer that was wrong must not last. Each is remembered for its own time, so that a sweep, which looks at
/// everything, does not ask everything at once.
const REMEMBERED: Duration = Duration::from_mins(15);
const SPREAD: Duration = Duration::from_mins(30);
/// An answer that comes later is too old to grant on anyway.
const LIMIT: Duration = Duration::from_secs(4);
/// Questions about the policies of one namespace that are open at the same time, before and after a grant each: fewer
/// than the evaluation service takes of one caller, so that slow modules of one namespace leave room to the others.
pub(super) const ASKED_FOR_ONE: usize = 3;

impl Observer {
    /// What the checks of a policy say before a grant.
    pub(super) async fn judge(
        &self,
        request: &AccessRequest,
        compiled: &CompiledPolicy,
        pod: &Value,
        via: Via,
    ) -> Result<Judged, ObserveError> {
        let policy = &compiled.policy;
        let wanted = select::wanted(compiled, pod);
        let mut found = Vec::new();
        let namespace = &request.spec.context.object_ref.namespace;
        for wanted in &wanted {
            found.push(self.find(wanted, namespace, via).await?);
        }
        let candidates: Vec<_> = wanted
            .iter()
            .zip(&found)
            .filter_map(|(wanted, found)| {
                let objects = found.as_ref().ok().filter(|it| !it.is_empty())?;
                Some(Candidates {
                    check: wanted.check.clone(),
                    objects: objects.iter().map(bytes).collect(),
                })
            })
            .collect();
        if candidates.is_empty() {
            return Ok(Judged::Answered(select::answer(
                request, &wanted, &found, None,
            )));
        }
        let question = EvaluateChecksRequest {
            policy: bytes(&Value::Object(select::snapshot(policy))),
            context_object: bytes(pod),
            connector: request.spec.connector_ref.name.clone(),
            candidates,
            stage: EvaluationStage::BeforeGrant.into(),
        };
        let uid = policy.metadata.uid.clone().unwrap_or_default();
        let said = self.ask(request, &uid, question, via).await;
        Ok(said.answer().map_or(Judged::Unanswered, |said| {
            Judged::Answered(select::answer(request, &wanted, &found, Some(said)))
        }))
    }

    /// Whether what was granted on still holds.
    pub(super) async fn held(
        &self,
        request: &AccessRequest,
        entry: &MatchedPolicy,
        pod: &Value,
        via: Via,
    ) -> Held {
        let mut looked = BTreeMap::new();
        let mut candidates: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for reference in held::to_look_at(entry).unwrap_or_default() {
            let Some(object) = &reference.ref_ else {
                continue;
            };
            let Some(uid) = object.uid.clone() else {
                continue;
            };
            let kind = ObjectKind {
                api_version: object.api_version.clone(),
                kind: object.kind.clone(),
            };
            let namespace = &request.spec.context.object_ref.namespace;
            let name = Name::new(namespace, &object.name);
            let found = self.look(&kind, &name, &uid, via).await;
            if let Looked::There(object) = &found {
                let objects = candidates.entry(reference.name.clone()).or_default();
                objects.push(bytes(object));
            }
            looked.insert(uid, found);
        }
        let mut said = Said::Nothing;
        if !candidates.is_empty() {
            let question = EvaluateChecksRequest {
                policy: bytes(&Value::Object(entry.policy.0.clone())),
                context_object: bytes(pod),
                connector: request.spec.connector_ref.name.clone(),
                candidates: candidates
                    .into_iter()
                    .map(|(check, objects)| Candidates { check, objects })
                    .collect(),
                stage: EvaluationStage::AfterGrant.into(),
            };
            let uid = grant::identity(entry).map_or("", |(_, uid)| uid);
            said = self.ask(request, uid, question, via).await;
        }
        match (held::held(entry, &looked, said.answer()), said) {
            // It will be refused every time: nobody ever says that it holds.
            (Held::Unknown, Said::Refused) => Held::Lapsed {
                verdict: AccessCheckReady::AccessCheckFailed,
                message: "what approved is too large to be evaluated, or not valid".to_owned(),
            },
            (held, _) => held,
        }
    }

    /// Asks, unless exactly this was asked before. What is granted on is always asked anew.
    async fn ask(
        &self,
        request: &AccessRequest,
        policy: &str,
        question: EvaluateChecksRequest,
        via: Via,
    ) -> Said {
        let name = Name::of(request);
        let key = Question {
            request: name.clone(),
            policy: policy.to_owned(),
            stage: question.stage,
        };
        let asker = &request.spec.context.object_ref.namespace;
        let digest = Digest::of(&question);
        let now = (self.clock)().mono;
        let known = match via {
            Via::Caches => self.answers.get(&key, &digest),
            Via::Api => None,
        };
        if let Some((answer, until)) = &known
            && now < *until
        {
            return Said::This(Arc::clone(answer));
        }
        let checks: Vec<_> = question
            .candidates
            .iter()
            .map(|it| it.check.clone())
            .collect();
        match self.evaluate(&name.namespace, question).await {
            Ok(said) => {
                let answer = Arc::new(said);
                if is_about(&checks, &answer) {
                    let until = now + REMEMBERED + SPREAD.mul_f64(chance::fraction());
                    let kept = Arc::clone(&answer);
                    self.answers.put(asker, key, digest, kept, until);
                } else {
                    self.answers.remove(asker, &key);
                }
                Said::This(answer)
            }
            Err(error) => {
                warn!(request = %name, error = report(&error), "checks not evaluated");
                if error.is_refusal() {
                    self.answers.remove(asker, &key);
                    return Said::Refused;
                }
                // Nothing says otherwise: what was said to the very same question stands.
                known.map_or(Said::Nothing, |(answer, _)| Said::This(answer))
            }
        }
    }

    /// The wait for the namespace's turn counts: an answer that comes late is of no use.
    async fn evaluate(
        &self,
        namespace: &str,
        question: EvaluateChecksRequest,
    ) -> Result<EvaluateChecksResponse, Unanswered> {
        let stage = question.stage;
        let asked = async {
            let _turn = self.turns.take((namespace.to_owned(), stage)).await;
            self.evaluator.evaluate(question).await
        };
        timeout(LIMIT, asked)
            .await
            .unwrap_or(Err(Unanswered::Late(LIMIT)))
    }

    async fn find(
        &self,
        wanted: &Wanted,
        namespace: &str,
        via: Via,
    ) -> Result<Found, ObserveError> {
        let selection = match &wanted.selection {
            Ok(selection) => selection,
            Err(problem) => return Ok(Err((Trouble::SelectorInvalid, problem.clone()))),
        };
        let resource = match self.resource(&wanted.kind, via).await? {
            Ok(resource) => resource,
            Err(trouble) => return Ok(Err(trouble)),
        };
        if via == Via::Caches && resource.is_complete {
            let state = self.world.read();
            let objects = state.kinds.get(&wanted.kind).into_iter();
            let objects = objects.flat_map(|it| it.in_namespace(namespace));
            let found = objects.filter(|it| selection.selects(it) && !is_going(it));
            let found = found.map(|it| Value::clone(it)).collect();
            let cache = state.kinds.get(&wanted.kind);
            let useless = cache.into_iter().flat_map(|it| it.useless_in(namespace));
            // Only its labels are known.
            let useless = useless.filter(|it| selection.may_select(it) && !is_going(it));
            return Ok(match useless.map(|it| Value::clone(it)).next() {
                Some(object) => Err(says_nothing(&wanted.kind, &object)),
                None => Ok(found),
            });
        }
        let labels = selection.labels.to_string();
        let listed = self
            .live
            .objects(&resource.resource, namespace, &labels)
            .await;
        Ok(match listed {
            Ok(objects) => {
                let found = objects.into_iter();
                let found: Vec<_> = found
                    .filter(|it| selection.selects(it) && !is_going(it))
                    .collect();
                match found.iter().find(|it| check_kinds::is_too_large(it)) {
                    Some(object) => Err(says_nothing(&wanted.kind, object)),
                    None => Ok(found),
                }
            }
            Err(NotListed::Missing) => Err(missing(&wanted.kind)),
            Err(NotListed::Forbidden) => Err(forbidden(
                &resource.resource.plural,
                &resource.resource.group,
            )),
            Err(NotListed::Unreadable(name)) => Err((
                Trouble::ObjectUnreadable,
                format!("{} {name} cannot be read", wanted.kind.kind),
            )),
            Err(NotListed::Call(error)) => return Err(error.into()),
        })
    }

    /// An object of the evidence.
    async fn look(&self, kind: &ObjectKind, name: &Name, uid: &str, via: Via) -> Looked {
        let resource = match self.resource(kind, via).await {
            Ok(Ok(resource)) => resource,
            // With the kind its objects went.
            Ok(Err((Trouble::KindMissing, _))) => return Looked::Gone,
            Ok(Err(_)) | Err(_) => return Looked::Unknown,
        };
        if via == Via::Caches && resource.is_complete {
            let state = self.world.read();
            let cache = state.kinds.get(kind);
            if cache.is_some_and(|it| it.is_useless(name)) {
                return Looked::Useless;
            }
            let found = cache.and_then(|it| it.get(name));
            return looked(found.map(|it| Value::clone(it)), uid);
        }
        match self.live.object(&resource.resource, name).await {
            Ok(Some(Ok(object))) if check_kinds::is_too_large(&object) => Looked::Useless,
            Ok(Some(Ok(object))) => looked(Some(object), uid),
            // It is there and says nothing: nothing it said before counts.
            Ok(Some(Err(_))) => Looked::Useless,
            Ok(None) => Looked::Gone,
            Err(error) => {
                warn!(object = %name, error = report(&error), "evidence not looked at");
                Looked::Unknown
            }
        }
    }

    async fn resource(
        &self,
        kind: &ObjectKind,
        via: Via,
    ) -> Result<Result<Known, (Trouble, String)>, ObserveError> {
        if let Err(problem) = check_kinds::may_be_check(kind) {
            return Ok(Err((Trouble::KindRefused, problem)));
        }
        let state = self.world.read().kinds.get(kind).map(|it| it.state.clone());
        Ok(match state {
            Some(KindState::Watching(resource)) => Ok(Known {
                resource,
                is_complete: true,
            }),
            Some(KindState::Listing(resource)) => Ok(Known {
                resource,
                is_complete: false,
            }),
            // It may have come since it was last looked for.
            Some(KindState::Missing) if via == Via::Api => {
                let found = timeout(LIMIT, dynamic::find(self.live.client(), kind)).await;
                match found.unwrap_or(None) {
                    Some(KindFound::Readable(resource)) => Ok(Known {
                        resource,
                        is_complete: false,
                    }),
                    Some(KindFound::Not(_)) => Err(missing(kind)),
                    None => return Err(ObserveError::KindStarting(kind.kind.clone())),
                }
            }
            // Which kinds are refused is said above.
            Some(KindState::Missing | KindState::Refused) => Err(missing(kind)),
            Some(KindState::Forbidden { plural, group }) => Err(forbidden(&plural, &group)),
            Some(KindState::NotNamespaced) => Err((
                Trouble::KindNotNamespaced,
                format!("objects of kind {} are in no namespace", kind.kind),
            )),
            Some(KindState::Starting) | None => {
                return Err(ObserveError::KindStarting(kind.kind.clone()));
            }
        })
    }
}

/// Whether an answer speaks of every check that has objects. One that does not is none to be remembered.
fn is_about(asked: &[String], answer: &EvaluateChecksResponse) -> bool {
    let is_answered = |it: &String| answer.checks.iter().any(|check| check.check == *it);
    asked.iter().all(is_answered)
}

/// What the evaluation service said to a question.
enum Said {
    This(Arc<EvaluateChecksResponse>),
    /// That it is none, whenever it is asked.
    Refused,
    Nothing,
}

impl Said {
    fn answer(&self) -> Option<&EvaluateChecksResponse> {
        match self {
            Self::This(said) => Some(said),
            Self::Refused | Self::Nothing => None,
        }
    }
}

struct Known {
    resource: ApiResource,
    is_complete: bool,
}

fn looked(found: Option<Value>, uid: &str) -> Looked {
    match found {
        Some(object) if text(&object, "/metadata/uid") == Some(uid) && !is_going(&object) => {
            Looked::There(object)
        }
        Some(_) | None => Looked::Gone,
    }
}

/// What is being deleted counts as deleted.
fn is_going(object: &Value) -> bool {
    let going = object.pointer("/metadata/deletionTimestamp");
    going.is_some_and(|it| !it.is_null())
}

fn missing(kind: &ObjectKind) -> (Trouble, String) {
    let ObjectKind { api_version, kind } = kind;
    let message = format!("there is no kind {kind} of {api_version} in this cluster");
    (Trouble::KindMissing, message)
}

fn says_nothing(kind: &ObjectKind, object: &Value) -> (Trouble, String) {
    let name = text(object, "/metadata/name").unwrap_or_default();
    let message = format!(
        "{} {name} cannot be read, or is too large to be a check",
        kind.kind
    );
    (Trouble::ObjectUnreadable, message)
}

/// With what would help. The ClusterRole that the controller has is put together from others: what is
/// written into it does not stay there.
fn forbidden(plural: &str, group: &str) -> (Trouble, String) {
    let message = format!(
        "{plural} may not be read; add the kind to the chart's checks.kinds, or label \
         connectors.alauda.io/aggregate-to-check-reader: \"true\" a ClusterRole with the rule \
         {{apiGroups: [\"{group}\"], resources: [\"{plural}\"], verbs: [get, list, watch]}}"
    );
    (Trouble::KindForbidden, message)
}

fn bytes(object: &Value) -> Vec<u8> {
    object.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    #[test]
    fn who_may_not_read_a_kind_is_told_what_helps() {
        let (trouble, message) = super::forbidden("approvaltasks", "example.com");
        assert_eq!(trouble, super::Trouble::KindForbidden);
        for part in [
            "approvaltasks may not be read",
            "checks.kinds",
            "connectors.alauda.io/aggregate-to-check-reader: \"true\"",
            "apiGroups: [\"example.com\"], resources: [\"approvaltasks\"]",
        ] {
            assert!(message.contains(part), "{message}");
        }
        assert!(!message.contains("connectors-check-reader"), "{message}");
    }
}
