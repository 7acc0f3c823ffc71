//! Answers to several questions in one call.

use super::{AccessAnswer, AnswerError};
use crate::refusal::QuestionRefusal;
use crate::v1::{self, AccessDecision};

/// Yes or no, without the basis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permitted {
    /// No permission was found.
    No,
    /// Allowed by a standing permission.
    Standing,
    /// Allowed by a permission of this pod.
    Pod,
}

impl Permitted {
    /// True for a yes.
    #[must_use]
    pub const fn is_allowed(self) -> bool {
        match self {
            Self::Standing | Self::Pod => true,
            Self::No => false,
        }
    }
}

/// The decisions, one per question.
pub(crate) fn decisions(
    response: v1::BatchCheckAccessResponse,
    questions: usize,
) -> Result<Vec<Result<Permitted, QuestionRefusal>>, AnswerError> {
    let v1::BatchCheckAccessResponse {
        decisions,
        answers: _,
        refusals,
        fresh_as_of: _,
        gating: _,
    } = response;
    paired(decisions, refusals, questions, permitted)
}

/// The complete answers, one per question.
pub(crate) fn details(
    response: v1::BatchCheckAccessResponse,
    questions: usize,
) -> Result<Vec<Result<AccessAnswer, QuestionRefusal>>, AnswerError> {
    let v1::BatchCheckAccessResponse {
        decisions: _,
        answers,
        refusals,
        fresh_as_of: _,
        gating: _,
    } = response;
    paired(answers, refusals, questions, AccessAnswer::try_from)
}

fn permitted(decision: i32) -> Result<Permitted, AnswerError> {
    match AccessDecision::try_from(decision) {
        Ok(AccessDecision::Denied) => Ok(Permitted::No),
        Ok(AccessDecision::AllowedStanding) => Ok(Permitted::Standing),
        Ok(AccessDecision::AllowedPod) => Ok(Permitted::Pod),
        Ok(AccessDecision::Unspecified) | Err(_) => Err(AnswerError::Decision(decision)),
    }
}

/// A refusal takes precedence over an answer at its position.
fn paired<W, T>(
    answers: Vec<W>,
    refusals: Vec<v1::BatchRefusal>,
    questions: usize,
    read: impl Fn(W) -> Result<T, AnswerError>,
) -> Result<Vec<Result<T, QuestionRefusal>>, AnswerError> {
    if answers.len() != questions {
        return Err(AnswerError::Count);
    }
    let mut refused: Vec<Option<QuestionRefusal>> = Vec::new();
    if !refusals.is_empty() {
        refused.resize(questions, None);
    }
    for v1::BatchRefusal { question, refusal } in refusals {
        let place = usize::try_from(question).ok();
        let place = place.and_then(|place| refused.get_mut(place));
        *place.ok_or(AnswerError::Count)? = Some(refusal.unwrap_or_default().into());
    }
    let mut refused = refused.into_iter();
    let read = |answer| match refused.next().flatten() {
        Some(refusal) => Ok(Err(refusal)),
        None => read(answer).map(Ok),
    };
    answers.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    mod paired;

    fn response(decisions: &[i32], refused: &[u32]) -> v1::BatchCheckAccessResponse {
        let refusal = |question: &u32| v1::BatchRefusal {
            question: *question,
            refusal: Some(v1::Refusal {
                code: 7,
                ..v1::Refusal::default()
            }),
        };
        v1::BatchCheckAccessResponse {
            decisions: decisions.to_vec(),
            refusals: refused.iter().map(refusal).collect(),
            ..v1::BatchCheckAccessResponse::default()
        }
    }

    #[test]
    fn each_question_has_its_decision_or_its_refusal() {
        let read = decisions(response(&[1, 0, 2, 3], &[1]), 4).unwrap();
        let allowed: Vec<_> = read
            .iter()
            .map(|one| one.as_ref().map(|it| it.is_allowed()).ok())
            .collect();
        assert_eq!(allowed, [Some(false), None, Some(true), Some(true)]);
        assert_eq!(
            read[1].as_ref().unwrap_err().code,
            tonic::Code::PermissionDenied
        );
    }

    #[test]
    fn answers_that_do_not_fit_the_questions_are_none() {
        for (answer, error) in [
            (response(&[1], &[]), AnswerError::Count),
            (response(&[1, 1, 1], &[]), AnswerError::Count),
            (response(&[1, 1], &[2]), AnswerError::Count),
            (response(&[1, 0], &[]), AnswerError::Decision(0)),
            (response(&[1, 4], &[]), AnswerError::Decision(4)),
        ] {
            assert_eq!(decisions(answer, 2), Err(error));
        }
        // A refusal counts even if the answer at its position is a yes.
        assert!(decisions(response(&[2, 2], &[0]), 2).unwrap()[0].is_err());
    }
}
