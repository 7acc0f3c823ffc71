//! Messages: a byte that says which one, then the message as it comes over the wire.

use std::collections::BTreeMap;
use std::fmt::Debug;

use connectors_api::judge::{PolicyQuestion, Stage, prepare};
use connectors_api::reason::AccessCheckReady;
use connectors_api::shared_fields::FieldPath;
use connectors_api::validate;
use evaluation_api::access::{
    AccessAnswer, AccessQuestion, AccessTarget, AskedAtOnce, Decision, TokenAnswer, TokenQuestion,
    WhoCan,
};
use evaluation_api::refusal::QuestionRefusal;
use evaluation_api::v1::{self, AccessDecision};
use evaluation_api::verdict;
use jiff::Timestamp;
use prost::Message;
use serde_json::Value;

/// A message that converts has the same content on the wire again. A yes is only ever made of a yes.
pub fn check(data: &[u8]) {
    let Some((which, message)) = data.split_first() else {
        return;
    };
    // The byte is readable in the files of the corpus.
    match which {
        b'a' => decoded(message, |it: v1::CheckAccessRequest| {
            it.question.into_iter().for_each(question);
        }),
        b'b' => batch(message),
        b'c' => decoded(message, |it: v1::WatchAccessRequest| match it.action {
            Some(v1::watch_access_request::Action::Subscribe(subscribe)) => {
                subscribe.question.into_iter().for_each(question);
            }
            Some(v1::watch_access_request::Action::Unsubscribe(_)) | None => {}
        }),
        b'd' => decoded(message, comes_back::<v1::WhoCanRequest, AccessTarget>),
        b'e' => decoded(message, comes_back::<v1::ReviewTokenRequest, TokenQuestion>),
        b'f' => decoded(message, explain),
        b'g' => decoded(message, |it| evaluate(&it)),
        b'h' => decoded(message, |it: v1::ValidatePolicyRequest| look_at(&it)),
        b'i' => decoded(message, |it: v1::CheckAccessResponse| {
            it.answer.into_iter().for_each(answer);
        }),
        b'j' => decoded(message, |it: v1::WatchAccessResponse| match it.event {
            Some(v1::watch_access_response::Event::Answer(it)) => answer(it),
            Some(v1::watch_access_response::Event::Refusal(it)) => drop(QuestionRefusal::from(it)),
            None => {}
        }),
        b'k' => decoded(message, comes_back::<v1::WhoCanResponse, WhoCan>),
        b'l' => decoded(message, token_answer),
        b'm' => decoded(message, |it: v1::EvaluateChecksResponse| {
            if verdict::all_known(&it).is_ok() {
                assert!(verdict::from_wire(it.verdict).is_ok());
            }
        }),
        _ => {}
    }
}

fn decoded<M: Message + Default>(message: &[u8], check: impl FnOnce(M)) {
    if let Ok(message) = M::decode(message) {
        check(message);
    }
}

/// A parsed value converts to the wire and back without a change.
fn comes_back<W: From<T>, T: TryFrom<W, Error: Debug + PartialEq> + Clone + PartialEq + Debug>(
    wire: W,
) {
    if let Ok(understood) = T::try_from(wire) {
        assert_eq!(T::try_from(W::from(understood.clone())), Ok(understood));
    }
}

/// The parser of borrowed texts and the generated type read the same batch.
fn batch(message: &[u8]) {
    let read = AskedAtOnce::read(message, usize::MAX);
    let Ok(wire) = v1::BatchCheckAccessRequest::decode(message) else {
        assert!(read.is_err());
        return;
    };
    let v1::BatchCheckAccessRequest { questions, details } = wire;
    let owned: Vec<Result<AccessQuestion, _>> =
        questions.iter().map(|it| it.clone().try_into()).collect();
    let questions_read = owned
        .iter()
        .map(|it| it.as_ref().map(AccessQuestion::borrowed));
    let expected = AskedAtOnce {
        questions: questions_read
            .map(|it| it.map_err(|error| *error))
            .collect(),
        details,
    };
    assert_eq!(read, Ok(expected));
    questions.into_iter().for_each(question);
}

fn question(wire: v1::AccessQuestion) {
    comes_back::<_, AccessQuestion>(wire.clone());
    let understood: Result<AccessQuestion, _> = wire.try_into();
    if let Ok(AccessQuestion {
        subject,
        connector,
        verb,
        ..
    }) = understood
    {
        for name in [
            subject.namespace,
            subject.name,
            connector.namespace,
            connector.name,
            verb,
        ] {
            assert!(!name.is_empty());
        }
    }
}

fn explain(request: v1::ExplainRequest) {
    let v1::ExplainRequest {
        subject,
        connector,
        permission,
        pod,
    } = request;
    let verb = "*".to_owned();
    question(v1::AccessQuestion {
        subject,
        connector,
        permission,
        verb,
        pod,
    });
}

fn answer(wire: v1::AccessAnswer) {
    let (said, has_binding, phase) = (
        wire.decision,
        wire.binding.is_some(),
        wire.request.as_ref().map(|request| request.phase),
    );
    comes_back::<_, AccessAnswer>(wire.clone());
    if let Ok(answer) = AccessAnswer::try_from(wire) {
        let expected = match answer.decision {
            Decision::Denied => AccessDecision::Denied,
            Decision::AllowedStanding(_) => AccessDecision::AllowedStanding,
            Decision::AllowedPod(_) => AccessDecision::AllowedPod,
        };
        assert_eq!(said, i32::from(expected));
        assert!(has_binding || !answer.is_allowed());
        let granted = Some(v1::RequestPhase::Granted.into());
        assert!(phase == granted || expected != AccessDecision::AllowedPod);
    }
}

fn token_answer(wire: v1::ReviewTokenResponse) {
    wire.answer.clone().into_iter().for_each(answer);
    comes_back::<_, TokenAnswer>(wire);
}

/// As the service reads it, but for the namespaces of callers.
fn evaluate(request: &v1::EvaluateChecksRequest) {
    let json = |bytes: &Vec<u8>| serde_json::from_slice::<Value>(bytes).ok();
    let stage = match v1::EvaluationStage::try_from(request.stage) {
        Ok(v1::EvaluationStage::BeforeGrant) => Stage::BeforeGrant,
        Ok(v1::EvaluationStage::AfterGrant) => Stage::AfterGrant,
        Ok(v1::EvaluationStage::Unspecified) | Err(_) => return,
    };
    let (Some(policy), Some(context)) = (json(&request.policy), json(&request.context_object))
    else {
        return;
    };
    let (mut candidates, mut shared) = (BTreeMap::new(), BTreeMap::new());
    for v1::Candidates {
        check,
        objects,
        shared_fields,
    } in &request.candidates
    {
        let paths = shared_fields.iter().map(|it| FieldPath::parse(it));
        let Ok(paths) = paths.collect::<Result<Vec<_>, _>>() else {
            return;
        };
        shared.insert(check.clone(), paths);
        let Some(objects) = objects.iter().map(json).collect::<Option<Vec<_>>>() else {
            return;
        };
        candidates.insert(check.clone(), objects);
    }
    let lineage = request.lineage.iter().map(json);
    let Some(lineage) = lineage.collect::<Option<Vec<_>>>() else {
        return;
    };
    let since = request.creators_since;
    let since = since.map(|it| Timestamp::new(it.seconds, it.nanos));
    let Ok(creators_since) = since.transpose() else {
        return;
    };
    let connector = request.connector.clone();
    let question = PolicyQuestion {
        policy,
        context,
        connector,
        candidates,
        shared,
        lineage,
        creators_since,
        stage,
    };
    let Ok(prepared) = question.read().and_then(prepare) else {
        return;
    };
    let asks_rego = prepared.rego_jobs().next().is_some();
    // No Rego worker answers about the modules: that is a failure of their checks.
    let judgement = prepared.finish([]);
    let passed = AccessCheckReady::AccessCheckPassed;
    if judgement.verdict == passed {
        assert!(!asks_rego);
        assert!(!judgement.checks.is_empty());
        for check in &judgement.checks {
            let yes = |object: &connectors_api::judge::ObjectJudgement| object.verdict == passed;
            assert!(
                check.verdict == passed && check.objects.iter().any(yes),
                "{check:?}"
            );
        }
    }
    assert!(
        judgement.rules.is_none() || (judgement.verdict == passed && stage == Stage::BeforeGrant)
    );
}

fn look_at(request: &v1::ValidatePolicyRequest) {
    if let Ok(policy) = serde_json::from_slice(&request.policy) {
        let validated = validate::policy(&policy);
        assert!(validated.findings.len() <= 1_000);
    }
}
