//! The decisions and the answers of a batch, compared with a second reading of the same response.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// What each question is told: a word, or the code of its refusal. None when the whole response is of no use.
fn expected(
    decisions: &[i32],
    refusals: &[(u32, i32)],
    questions: usize,
) -> Option<Vec<Result<Permitted, i32>>> {
    if decisions.len() != questions {
        return None;
    }
    if refusals.iter().any(|(at, _)| *at as usize >= questions) {
        return None;
    }
    let mut told = Vec::new();
    for (number, decision) in decisions.iter().enumerate() {
        let refusal = refusals.iter().rev().find(|(at, _)| *at as usize == number);
        told.push(match (refusal, decision) {
            (Some((_, code)), _) => Err(*code),
            (None, 1) => Ok(Permitted::No),
            (None, 2) => Ok(Permitted::Standing),
            (None, 3) => Ok(Permitted::Pod),
            (None, _) => return None,
        });
    }
    Some(told)
}

fn refusals(refused: &[(u32, i32)]) -> Vec<v1::BatchRefusal> {
    let refusal = |(question, code): &(u32, i32)| v1::BatchRefusal {
        question: *question,
        refusal: Some(v1::Refusal {
            code: *code,
            message: format!("because of {code}"),
            reason: "NAMESPACE_FORBIDDEN".to_owned(),
            metadata: std::collections::HashMap::new(),
        }),
    };
    refused.iter().map(refusal).collect()
}

fn answer(decision: i32, number: usize) -> v1::AccessAnswer {
    v1::AccessAnswer {
        decision,
        reason: number.to_string(),
        binding: Some(v1::Binding::default()),
        request: Some(v1::Request {
            phase: v1::RequestPhase::Granted.into(),
            ..v1::Request::default()
        }),
        ..v1::AccessAnswer::default()
    }
}

fn code<T>(told: Result<T, QuestionRefusal>) -> Result<T, i32> {
    told.map_err(|refusal| {
        let code = i32::from(refusal.code);
        assert_eq!(refusal.message, format!("because of {code}"));
        assert_eq!(
            refusal.reason,
            Some(crate::refusal::Reason::NamespaceForbidden)
        );
        code
    })
}

proptest! {
    #[test]
    fn each_question_is_told_its_own_or_nobody_anything(
        decisions in vec(prop_oneof![8 => 1..=3_i32, 1 => -1..=5_i32], 0..6),
        refused in vec((0..6_u32, 1..=16_i32), 0..4),
        questions in 0..6_usize,
        fits in prop::bool::weighted(0.8),
    ) {
        let questions = if fits { decisions.len() } else { questions };
        let expected = expected(&decisions, &refused, questions);
        // The answers must not stand in for the decisions, nor the other way round.
        let response = v1::BatchCheckAccessResponse {
            decisions: decisions.clone(),
            answers: vec![answer(2, 99); 3],
            refusals: refusals(&refused),
            ..v1::BatchCheckAccessResponse::default()
        };
        let told = super::decisions(response, questions).ok();
        let told = told.map(|all| all.into_iter().map(code).collect::<Vec<_>>());
        prop_assert_eq!(&told, &expected);

        let answers = decisions.iter().enumerate().map(|(number, it)| answer(*it, number));
        let response = v1::BatchCheckAccessResponse {
            decisions: vec![2; 3],
            answers: answers.collect(),
            refusals: refusals(&refused),
            ..v1::BatchCheckAccessResponse::default()
        };
        let told = details(response, questions).ok();
        let told = told.map(|all| all.into_iter().map(code).enumerate().map(|(number, told)| told.map(|it| {
            assert_eq!(it.reason, number.to_string());
            match it.decision {
                crate::access::Decision::Denied => Permitted::No,
                crate::access::Decision::AllowedStanding(_) => Permitted::Standing,
                crate::access::Decision::AllowedPod(_) => Permitted::Pod,
            }
        })).collect::<Vec<_>>());
        prop_assert_eq!(told, expected);
    }
}

#[test]
fn only_a_permission_is_a_yes() {
    for (permitted, is_allowed) in [
        (Permitted::No, false),
        (Permitted::Standing, true),
        (Permitted::Pod, true),
    ] {
        assert_eq!(permitted.is_allowed(), is_allowed);
    }
}

/// A place that is only right in part of its bits belongs to no question.
#[test]
fn a_refusal_of_no_question_spoils_the_response() {
    for at in [2, 3, 256, 65_536, u32::MAX] {
        let response = v1::BatchCheckAccessResponse {
            decisions: vec![1, 2],
            answers: vec![answer(1, 0), answer(2, 1)],
            refusals: refusals(&[(at, 7)]),
            ..v1::BatchCheckAccessResponse::default()
        };
        let told = super::decisions(response.clone(), 2);
        assert_eq!(told, Err(AnswerError::Count), "{at}");
        assert_eq!(details(response, 2), Err(AnswerError::Count), "{at}");
    }
    // One that says nothing refuses all the same.
    let response = v1::BatchCheckAccessResponse {
        decisions: vec![2],
        refusals: vec![v1::BatchRefusal {
            question: 0,
            refusal: None,
        }],
        ..v1::BatchCheckAccessResponse::default()
    };
    let told = super::decisions(response, 1).unwrap().remove(0);
    assert_eq!(told.unwrap_err().code, tonic::Code::Unknown);
}

/// In an answer with details, the place of a refused question has no content.
#[test]
fn an_empty_answer_is_none_unless_its_question_is_refused() {
    let response = |refused: &[(u32, i32)]| v1::BatchCheckAccessResponse {
        answers: vec![answer(2, 0), v1::AccessAnswer::default(), answer(1, 2)],
        refusals: refusals(refused),
        ..v1::BatchCheckAccessResponse::default()
    };
    let told = details(response(&[(1, 7)]), 3).unwrap();
    let told: Vec<_> = told
        .into_iter()
        .map(|it| it.map(|it| it.reason).ok())
        .collect();
    let text = |it: &str| Some(it.to_owned());
    assert_eq!(told, [text("0"), None, text("2")]);
    assert_eq!(details(response(&[]), 3), Err(AnswerError::Decision(0)));
    assert_eq!(
        details(response(&[(0, 7), (2, 7)]), 3),
        Err(AnswerError::Decision(0))
    );
}
