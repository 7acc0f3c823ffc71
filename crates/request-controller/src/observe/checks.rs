//! Collects the objects of a policy's checks, and asks the evaluation service to judge them.

use std::{borrow::Cow, collections::BTreeMap, sync::OnceLock, time::Duration};

use connectors_api::{
    AccessRequest,
    access_policy::ObjectKind,
    access_request::{MatchedPolicy, ObservedObject},
    check_selector::CompiledPolicy,
    judge::proof_needed,
    lineage::Lineage,
    reason::AccessCheckReady,
    shared_fields::{FieldPath, SharedFields},
};
use evaluation_api::LONGEST_MESSAGE;
use evaluation_api::access::wire_time;
use evaluation_api::v1::{
    Candidates, CheckVerdict, EvaluateChecksRequest, EvaluateChecksResponse, EvaluationStage,
};
use jiff::Timestamp;
use serde_json::Value;
use service_kit::{chance, report};
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use super::{
    ObserveError, Observer, Via,
    objects::{self, Look},
    remembered::{AnswerKey, Digest, MIB},
};
use crate::{
    api::Name,
    cache::Link,
    check_object::ObjectText,
    evaluator::Unanswered,
    evidence::{self, ListRoom},
    grant,
    seen::{EvidenceState, PolicyJudgement},
    selection::{self, CheckTrouble, FoundCandidates, WantedObjects},
    snapshot,
    verdict::{self, EvidenceLook, FollowedRef},
};

/// Answers are remembered for a limited time, because a wrong answer must not last. The time is randomized, so that a
/// sweep, which reconciles everything, does not repeat all questions at once.
const REMEMBERED: Duration = Duration::from_mins(15);
const SPREAD: Duration = Duration::from_mins(30);
/// The limit of objects that all checks of a policy select. The policy, the pod and the objects between them need the rest
/// of a message.
const MOST_TEXT: usize = LONGEST_MESSAGE - MIB;
/// A later answer would be too old for a grant anyway.
const LIMIT: Duration = Duration::from_secs(4);

impl Observer {
    /// Judges the checks of a policy before a grant. The answer has only the objects that a status can list in this
    /// room.
    pub(super) async fn judge(
        &self,
        request: &AccessRequest,
        compiled: &CompiledPolicy,
        pod: &WholePod,
        look: &Look,
        room: ListRoom,
    ) -> Result<PolicyJudgement, ObserveError> {
        let policy = &compiled.policy;
        let shared = self.world.read().shared();
        let wanted = seek(compiled, pod, &shared, look);
        let mut found = Vec::new();
        let namespace = &request.spec.context.object_ref.namespace;
        // Held until the answer has arrived, because large lists stay in memory for that time.
        let _turn = self.objects.turn(&wanted, namespace, look).await?;
        let mut objects = ObjectRoom::default();
        for wanted in &wanted {
            found.push(match objects.left() {
                Ok(()) => objects.take(self.objects.find(wanted, namespace, look).await?),
                Err(trouble) => Err(trouble),
            });
        }
        let lineage = self
            .lineage_of_checks(request, compiled, pod, &mut found, look)
            .await?;
        let candidates: Vec<_> = wanted
            .iter()
            .zip(&found)
            .filter_map(|(wanted, found)| {
                let found = found.as_ref().ok().filter(|it| !it.texts.is_empty())?;
                Some(CheckedObjects {
                    check: wanted.check.clone(),
                    shared_fields: texts(shared.of(&wanted.kind)),
                    texts: found.texts.clone(),
                })
            })
            .collect();
        let answered = |said: Option<&EvaluateChecksResponse>| {
            let answer = verdict::answer(request, &wanted, &found, said);
            PolicyJudgement::Answered(evidence::listable(answer, room))
        };
        if candidates.is_empty() {
            return Ok(answered(None));
        }
        let question = DraftQuestion {
            policy: bytes(&Value::Object(snapshot::snapshot(policy))),
            pod,
            connector: &request.spec.connector_ref.name,
            candidates,
            lineage,
            creators_since: self.creators_since(compiled, look.via).await?,
            stage: EvaluationStage::BeforeGrant,
        };
        let uid = policy.metadata.uid.clone().unwrap_or_default();
        let said = self.ask(request, &uid, question, look).await;
        Ok(said
            .answer()
            .map_or(PolicyJudgement::Unanswered, |said| answered(Some(said))))
    }

    /// Collects the objects that the proofs of a policy's checks need.
    async fn lineage_of_checks(
        &self,
        request: &AccessRequest,
        compiled: &CompiledPolicy,
        pod: &WholePod,
        found: &mut [FoundCandidates],
        look: &Look,
    ) -> Result<Vec<ObjectText>, ObserveError> {
        let name = Name::of(request);
        let mut links: Vec<ObjectText> = Vec::new();
        for ((check, _), found) in compiled.checks().zip(found) {
            let (Some(lineage), Ok(found)) = (proof_needed(check).lineage(), found) else {
                continue;
            };
            let approvals = &found.texts;
            let collected = self.lineage(lineage, &name, &pod.value, approvals, look);
            let collected = collected.await?;
            // Objects that two checks need are shared, so that pointers tell them apart.
            let is_new = |it: &ObjectText| !links.iter().any(|known| known.is(it));
            let new: Vec<_> = collected.texts.into_iter().filter(is_new).collect();
            links.extend(new);
            found.unread = found.unread.take().or(collected.trouble);
        }
        Ok(links)
    }

    /// True when the evidence of a grant is still valid.
    pub(super) async fn held(
        &self,
        request: &AccessRequest,
        entry: &MatchedPolicy,
        pod: &WholePod,
        look: &Look,
    ) -> EvidenceState {
        let mut looked = BTreeMap::new();
        let shared = self.world.read().shared();
        let mut candidates: BTreeMap<String, CheckedObjects> = BTreeMap::new();
        let followed = verdict::to_look_at(entry).unwrap_or_default();
        let namespace = &request.spec.context.object_ref.namespace;
        let runs = self
            .links_of_grant(request, &followed, &mut looked, look)
            .await;
        let end = |(lineage, run): &(&'static dyn Lineage, ObjectText)| {
            let run: Value = serde_json::from_str(&run.read()).ok()?;
            lineage.goes_on(&run).err()
        };
        if let Some(refusal) = runs.iter().find_map(end) {
            // Whatever became of the approvals, and whatever the latch says of their deletion.
            return EvidenceState::Lapsed {
                verdict: AccessCheckReady::AccessCheckFailed,
                check: None,
                message: refusal.message,
            };
        }
        for FollowedRef { reference, .. } in followed {
            let Some(object) = &reference.ref_ else {
                continue;
            };
            let Some(uid) = object.uid.clone() else {
                continue;
            };
            let kind = kind_of(object);
            let name = Name::new(namespace, &object.name);
            let (found, text) = self.objects.look(&kind, &name, &uid, look.via).await;
            if let Some(text) = text {
                let check = &reference.name;
                let one = candidates
                    .entry(check.clone())
                    .or_insert_with(|| CheckedObjects {
                        check: check.clone(),
                        texts: Vec::new(),
                        shared_fields: texts(shared.of(&kind)),
                    });
                one.texts.push(text);
            }
            looked.insert(uid, found);
        }
        let mut said = EvaluatorReply::Nothing;
        if !candidates.is_empty() {
            let question = DraftQuestion {
                policy: bytes(&Value::Object(entry.policy.0.clone())),
                pod,
                connector: &request.spec.connector_ref.name,
                candidates: candidates.into_values().collect(),
                lineage: runs.into_iter().map(|(_, run)| run).collect(),
                creators_since: None,
                stage: EvaluationStage::AfterGrant,
            };
            let uid = grant::identity(entry).map_or("", |(_, uid)| uid);
            said = self.ask(request, uid, question, look).await;
        }
        let held = verdict::held(entry, &looked, said.answer());
        match said {
            EvaluatorReply::Refused => verdict::without_answer_for_good(held),
            EvaluatorReply::This(_) | EvaluatorReply::Nothing => held,
        }
    }

    /// Looks up the objects between the pod and the approvals of a grant. Returns the runs that still exist.
    async fn links_of_grant(
        &self,
        request: &AccessRequest,
        followed: &[FollowedRef<'_>],
        looked: &mut BTreeMap<String, EvidenceLook>,
        look: &Look,
    ) -> Vec<(&'static dyn Lineage, ObjectText)> {
        let namespace = &request.spec.context.object_ref.namespace;
        let objects = followed.iter().flat_map(|it| it.links());
        let links: BTreeMap<_, _> = objects
            .filter_map(|(lineage, it)| {
                let name = Name::new(namespace, &it.name);
                let kind = kind_of(it);
                // Two lineages may lead through one object, and each asks its own question about it.
                let key = (it.uid.clone()?, lineage.name());
                Some((key, (lineage, Link { kind, name })))
            })
            .collect();
        let wanted = links.values().map(|(_, it)| it.clone()).collect();
        if let Err(error) = self.read_followed(&Name::of(request), wanted, look).await {
            warn!(request = %Name::of(request), error = report(&error), "lineage not looked at");
        }
        let mut runs = Vec::new();
        for ((uid, _), (lineage, link)) in links {
            let object = look.links.get(&link);
            let (state, text) = object.as_ref().map_or((EvidenceLook::Unknown, None), |it| {
                objects::looked(it, &uid)
            });
            if lineage.is_run(&link.kind.kind) {
                // A run that is being deleted counts as gone, and says itself that it ends.
                let going = object.filter(|it| it.uid() == Some(&uid));
                let run = text.or_else(|| going?.text().cloned());
                runs.extend(run.map(|it| (lineage, it)));
            }
            looked.insert(uid, state);
        }
        runs
    }

    /// Asks the evaluation service, unless the answer to exactly this question is remembered. A live observation
    /// always asks.
    async fn ask(
        &self,
        request: &AccessRequest,
        policy: &str,
        question: DraftQuestion<'_>,
        look: &Look,
    ) -> EvaluatorReply {
        let name = Name::of(request);
        let key = AnswerKey {
            request: name.clone(),
            policy: policy.to_owned(),
            stage: question.stage.into(),
        };
        let asker = &request.spec.context.object_ref.namespace;
        let digest = question.digest();
        let now = (self.clock)().mono;
        let known = match look.via {
            Via::Caches => self.answers.get(&key, &digest),
            Via::Api => None,
        };
        if let Some((answer, until)) = &known
            && now < *until
        {
            return EvaluatorReply::This(answer.clone());
        }
        let checks: Vec<_> = question
            .candidates
            .iter()
            .map(|it| (it.check.clone(), it.texts.len()))
            .collect();
        match self.evaluate(&name.namespace, question, look).await {
            Ok(said) => {
                if is_about(&checks, &said) {
                    let until = now + REMEMBERED + SPREAD.mul_f64(chance::fraction());
                    self.answers.put(asker, &key, digest, &said, until);
                } else {
                    self.answers.remove(asker, &key);
                }
                EvaluatorReply::This(said)
            }
            Err(error) => {
                warn!(request = %name, error = report(&error), "checks not evaluated");
                if error.is_refusal() {
                    self.answers.remove(asker, &key);
                    return EvaluatorReply::Refused;
                }
                // No new answer: the last answer to the identical question stays valid.
                known.map_or(EvaluatorReply::Nothing, |(answer, _)| {
                    EvaluatorReply::This(answer)
                })
            }
        }
    }

    /// The timeout includes the wait for the namespace's turn: a late answer is useless.
    async fn evaluate(
        &self,
        namespace: &str,
        question: DraftQuestion<'_>,
        look: &Look,
    ) -> Result<EvaluateChecksResponse, Unanswered> {
        let stage = question.stage;
        // A time in line says nothing about the namespace.
        let asked_at = OnceLock::new();
        let asked = async {
            let turn = self.turns.question(namespace, stage, look.has_turn);
            let _turn = turn.await;
            let _first = asked_at.set(Instant::now());
            // The objects are copied into the message only now. Waiting questions share them.
            self.evaluator.evaluate(question.into_message()).await
        };
        let until = look.until.min(Instant::now() + LIMIT);
        let said = timeout_at(until, asked).await;
        if stage == EvaluationStage::BeforeGrant
            && let Some(asked_at) = asked_at.get()
        {
            let now = (self.clock)().mono;
            self.turns.answered(namespace, asked_at.elapsed(), now);
        }
        said.unwrap_or(Err(Unanswered::Late(LIMIT)))
    }
}

/// The bytes of objects that the checks of one policy may still select. Without it each of them could hold as much as one
/// list may return, for a question that is too long to be sent.
struct ObjectRoom(usize);

impl Default for ObjectRoom {
    fn default() -> Self {
        Self(MOST_TEXT)
    }
}

impl ObjectRoom {
    /// The objects of a check, if there is room for all of them. Without it there is none for later checks either.
    fn take(&mut self, found: FoundCandidates) -> FoundCandidates {
        let found = found?;
        let bytes: usize = found.texts.iter().map(ObjectText::length).sum();
        self.0 = self.0.saturating_sub(bytes);
        self.left().map(|()| found)
    }

    fn left(&self) -> Result<(), (CheckTrouble, String)> {
        if self.0 > 0 {
            return Ok(());
        }
        let message = format!(
            "the objects of the policy's checks have more than {} MiB together, which is too much to be judged; select \
             fewer",
            MOST_TEXT / MIB
        );
        Err((CheckTrouble::ObjectUnreadable, message))
    }
}

/// A pod with all its fields, and its text, serialized once for all policies of a reconciliation.
pub(super) struct WholePod {
    pub(super) value: Value,
    text: OnceLock<(Vec<u8>, Digest)>,
}

impl From<Value> for WholePod {
    fn from(value: Value) -> Self {
        Self {
            value,
            text: OnceLock::new(),
        }
    }
}

impl WholePod {
    fn text(&self) -> &(Vec<u8>, Digest) {
        self.text.get_or_init(|| {
            let text = bytes(&self.value);
            let digest = Digest::of([text.as_slice()]);
            (text, digest)
        })
    }
}

/// The objects of one check, shared with the caches.
struct CheckedObjects {
    check: String,
    shared_fields: Vec<String>,
    texts: Vec<ObjectText>,
}

/// A question before it is copied into a message, which most reconciliations do not need.
struct DraftQuestion<'a> {
    policy: Vec<u8>,
    pod: &'a WholePod,
    connector: &'a str,
    candidates: Vec<CheckedObjects>,
    /// The objects between the pod and the approvals.
    lineage: Vec<ObjectText>,
    /// Since when a rule keeps the creators of pipeline runs true.
    creators_since: Option<Timestamp>,
    stage: EvaluationStage,
}

impl DraftQuestion<'_> {
    fn digest(&self) -> Digest {
        let (_, pod) = self.pod.text();
        let stage = i32::from(self.stage).to_be_bytes();
        let links = self.lineage.len().to_be_bytes();
        let creators = self.creators_since.map(|it| it.to_string());
        let creators = creators.unwrap_or_default();
        let fixed = [
            &self.policy,
            pod.as_bytes(),
            self.connector.as_bytes(),
            &stage,
            &links,
            creators.as_bytes(),
        ];
        let lineage = self.lineage.iter().map(ObjectText::bytes);
        let counts: Vec<_> = self
            .candidates
            .iter()
            .map(|it| [it.shared_fields.len(), it.texts.len()].map(usize::to_be_bytes))
            .collect();
        let candidates = self
            .candidates
            .iter()
            .zip(&counts)
            .flat_map(|(it, counts)| {
                let counts = counts.iter().map(<[u8; 8]>::as_slice);
                let fields = it.shared_fields.iter().map(String::as_bytes);
                let short = counts.chain([it.check.as_bytes()]).chain(fields);
                // One text at a time is in memory as a whole.
                let texts = it.texts.iter().map(ObjectText::bytes);
                short.map(Cow::Borrowed).chain(texts)
            });
        let fixed = fixed.into_iter().map(Cow::Borrowed);
        Digest::of(fixed.chain(lineage).chain(candidates))
    }

    fn into_message(self) -> EvaluateChecksRequest {
        let candidates = self.candidates.into_iter().map(|it| Candidates {
            check: it.check,
            shared_fields: it.shared_fields,
            objects: it.texts.iter().map(copied).collect(),
        });
        let lineage = self.lineage.iter().map(copied);
        EvaluateChecksRequest {
            policy: self.policy,
            context_object: self.pod.text().0.clone(),
            connector: self.connector.to_owned(),
            candidates: candidates.collect(),
            stage: self.stage.into(),
            lineage: lineage.collect(),
            creators_since: self.creators_since.map(wire_time),
        }
    }
}

/// True when an answer includes every check, and each that passes with all of its objects. Other answers are not remembered:
/// a grant would last as long as they do.
fn is_about(asked: &[(String, usize)], answer: &EvaluateChecksResponse) -> bool {
    let is_answered = |(name, objects): &(String, usize)| {
        let mut checks = answer.checks.iter();
        let passed = i32::from(CheckVerdict::Passed);
        checks.any(|it| it.check == *name && (it.verdict != passed || it.objects.len() == *objects))
    };
    asked.iter().all(is_answered)
}

/// The reaction of the evaluation service to a question.
enum EvaluatorReply {
    This(EvaluateChecksResponse),
    /// Refused: the same question will never be answered.
    Refused,
    Nothing,
}

impl EvaluatorReply {
    fn answer(&self) -> Option<&EvaluateChecksResponse> {
        match self {
            Self::This(said) => Some(said),
            Self::Refused | Self::Nothing => None,
        }
    }
}

fn kind_of(object: &ObservedObject) -> ObjectKind {
    ObjectKind {
        api_version: object.api_version.clone(),
        kind: object.kind.clone(),
    }
}

/// The objects that the checks of a policy select. The request is woken by them.
pub(super) fn seek(
    compiled: &CompiledPolicy,
    pod: &WholePod,
    shared: &SharedFields,
    look: &Look,
) -> Vec<WantedObjects> {
    let wanted = selection::wanted(compiled, &pod.value, shared);
    for wanted in &wanted {
        if let Ok(selection) = &wanted.selection {
            let selection = (wanted.kind.clone(), selection.labels.clone());
            look.links.seek(selection);
        }
    }
    wanted
}

fn copied(text: &ObjectText) -> Vec<u8> {
    text.bytes().into_owned()
}

fn texts(shared: &[FieldPath]) -> Vec<String> {
    shared.iter().map(FieldPath::text).collect()
}

fn bytes(object: &Value) -> Vec<u8> {
    object.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use evaluation_api::v1::{CheckResult, ObjectResult};
    use tonic::Code;

    use super::*;
    use crate::{selection::CheckCandidates, testing::Cluster};

    fn objects(bytes: usize) -> CheckCandidates {
        CheckCandidates {
            texts: vec!["x".repeat(bytes).into()],
            unread: None,
        }
    }

    #[test]
    fn checks_select_together_what_fits_into_a_message_and_then_say_why_no_more() {
        let mut room = ObjectRoom::default();
        assert!(room.take(Ok(CheckCandidates::default())).is_ok());
        assert!(room.take(Ok(objects(MOST_TEXT / 2))).is_ok());
        // Trouble of its own takes no room.
        let missing = (CheckTrouble::KindMissing, "missing".to_owned());
        assert_eq!(room.take(Err(missing.clone())).err(), Some(missing));
        assert!(room.take(Ok(objects(MOST_TEXT / 2 - 1))).is_ok());
        assert!(room.left().is_ok());
        let (trouble, message) = room.take(Ok(objects(1))).err().unwrap();
        assert_eq!(trouble, CheckTrouble::ObjectUnreadable);
        assert!(message.contains("more than 7 MiB together"), "{message}");
        // Not even the next one is listed.
        assert!(room.left().is_err());
        assert!(room.take(Ok(CheckCandidates::default())).is_err());
    }

    #[tokio::test]
    async fn an_answer_counts_until_its_time_is_up() {
        let cluster = Cluster::new();
        let controller = cluster.controller();
        let observer = &controller.observer;
        let request = cluster.server.named("accessrequests", "request").unwrap();
        let request: AccessRequest = serde_json::from_value(request).unwrap();
        let pod = WholePod::from(Value::Null);
        let look = Look::begin((Via::Caches, false), Arc::default());
        let question = || DraftQuestion {
            policy: Vec::new(),
            pod: &pod,
            connector: "harbor",
            candidates: Vec::new(),
            lineage: Vec::new(),
            creators_since: None,
            stage: EvaluationStage::BeforeGrant,
        };
        let ask = async || observer.ask(&request, "p-uid", question(), &look).await;
        assert!(ask().await.answer().is_some());
        let key = AnswerKey {
            request: Cluster::request(),
            policy: "p-uid".to_owned(),
            stage: EvaluationStage::BeforeGrant.into(),
        };
        let (_, until) = observer.answers.get(&key, &question().digest()).unwrap();
        // Whoever asks from now on has no answer.
        *cluster.refuses.lock().unwrap() = Some(Code::InvalidArgument);
        let before = until.checked_sub(Duration::from_nanos(1)).unwrap();
        for (now, is_remembered) in [(before, true), (until, false)] {
            cluster.now.lock().unwrap().mono = now;
            assert_eq!(ask().await.answer().is_some(), is_remembered);
        }
    }

    /// Each part of a question, so that no answer is taken for one about something else.
    #[test]
    fn a_question_is_the_same_only_if_each_of_its_parts_is() {
        type Change = fn(&mut DraftQuestion<'_>);
        let [pod, later] =
            ["1", "2"].map(|it| WholePod::from(serde_json::json!({"resourceVersion": it})));
        let candidates = |check: &str, field: &str, text: &str| CheckedObjects {
            check: check.to_owned(),
            shared_fields: vec![field.to_owned()],
            texts: vec![text.to_owned().into()],
        };
        let question = |pod| DraftQuestion {
            policy: b"policy".to_vec(),
            pod,
            connector: "harbor",
            candidates: vec![candidates("c", "data.a", "{}")],
            lineage: vec!["run".to_owned().into()],
            creators_since: None,
            stage: EvaluationStage::BeforeGrant,
        };
        let digest = question(&pod).digest();
        assert_eq!(question(&pod).digest(), digest);
        assert_ne!(question(&later).digest(), digest, "pod");
        let changes: [(&str, Change); 9] = [
            ("policy", |it| it.policy.push(0)),
            ("connector", |it| it.connector = "gitlab"),
            ("check", |it| it.candidates[0].check.push('c')),
            ("shared field", |it| {
                it.candidates[0].shared_fields[0].push('b');
            }),
            ("object", |it| {
                it.candidates[0].texts[0] = "[]".to_owned().into();
            }),
            ("objects", |it| it.candidates.clear()),
            ("lineage", |it| it.lineage[0] = "other".to_owned().into()),
            ("creators", |it| {
                it.creators_since = Some(Timestamp::UNIX_EPOCH);
            }),
            ("stage", |it| it.stage = EvaluationStage::AfterGrant),
        ];
        for (part, change) in changes {
            let mut other = question(&pod);
            change(&mut other);
            assert_ne!(other.digest(), digest, "{part}");
        }
    }

    #[test]
    fn an_answer_is_about_its_question_if_no_check_passes_without_all_of_its_objects() {
        let (passed, pending) = (CheckVerdict::Passed, CheckVerdict::Pending);
        for (check, verdict, objects, expected) in [
            ("a", passed, 2, true),
            ("a", passed, 1, false),
            ("a", passed, 3, false),
            ("a", pending, 0, true),
            ("b", passed, 2, false),
            ("b", pending, 2, false),
        ] {
            let answer = EvaluateChecksResponse {
                checks: vec![CheckResult {
                    check: check.to_owned(),
                    verdict: verdict.into(),
                    objects: vec![ObjectResult::default(); objects],
                    ..CheckResult::default()
                }],
                ..EvaluateChecksResponse::default()
            };
            let asked = [("a".to_owned(), 2)];
            let is_about = is_about(&asked, &answer);
            assert_eq!(is_about, expected, "{check} {verdict:?} {objects}");
        }
    }

    #[test]
    fn the_evaluation_service_gets_the_shared_fields_as_they_are_written() {
        let fields = ["data.verdict", "spec"];
        let paths = fields.map(|it| FieldPath::parse(it).unwrap());
        assert_eq!(texts(&paths), fields);
    }
}
