//! Answers about checks, for whoever asks the very same again: controllers do, after each of their
//! restarts and at each of their rounds.
//!
//! Owns: what is kept, and for how long. Refuses to know: who may hear an answer.
//!
//! Invariant: an answer goes to exactly the bytes that it was found for. They are compared, and not only
//! their hash, so nobody can make a question that gets the answer to another one. Only what would be found
//! again is kept: an answer depends on nothing but its question, unless a limit or an accident was in play.

use std::hash::Hash;
use std::sync::Arc;

use evaluation_api::v1::{Candidates, EvaluateChecksRequest, EvaluateChecksResponse};
use prost::Message;

use super::kept::{Entry, Kept};

/// Answers that are kept.
const MOST: usize = 4096;
/// Bytes of all questions and answers that are kept.
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// The longest question that is kept. A longer one would push out too many others.
const LONGEST: usize = 256 * 1024;
/// What an entry takes beside its texts, about.
const OVERHEAD: usize = 512;

/// Answers that hold as long as nobody forgets them.
#[derive(Debug, Default)]
pub struct Remembered(Kept<Known>);

/// An answer, and what it is the answer to.
#[derive(Debug)]
pub struct Known {
    asked: EvaluateChecksRequest,
    /// The namespace whose permission the question needs.
    pub namespace: String,
    /// The answer.
    pub answer: EvaluateChecksResponse,
}

impl Entry for Known {
    const MOST: usize = MOST;
    const MOST_BYTES: usize = MOST_BYTES;

    fn bytes(&self) -> usize {
        self.asked.encoded_len() + self.namespace.len() + self.answer.encoded_len() + OVERHEAD
    }
}

impl Remembered {
    /// The answer to this very question.
    #[must_use]
    pub fn recall(&self, asked: &EvaluateChecksRequest) -> Option<Arc<Known>> {
        let hash = self.hash(asked);
        let known = self.0.get(hash)?;
        (known.asked == *asked).then_some(known)
    }

    /// Whether a question is short enough to be kept.
    #[must_use]
    pub fn keeps(asked: &EvaluateChecksRequest) -> bool {
        asked.encoded_len() <= LONGEST
    }

    /// Keeps an answer, in the place of others when there are too many.
    pub fn remember(
        &self,
        asked: EvaluateChecksRequest,
        namespace: String,
        answer: EvaluateChecksResponse,
    ) {
        let hash = self.hash(&asked);
        let known = Known {
            asked,
            namespace,
            answer,
        };
        if known.bytes() <= 2 * LONGEST {
            self.0.put(hash, known);
        }
    }

    fn hash(&self, asked: &EvaluateChecksRequest) -> u64 {
        let EvaluateChecksRequest {
            policy,
            context_object,
            connector,
            candidates,
            stage,
        } = asked;
        self.0.hash(|hasher| {
            (policy, context_object, connector, stage).hash(hasher);
            for Candidates {
                check,
                objects,
                shared_fields,
            } in candidates
            {
                (check, objects, shared_fields).hash(hasher);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use evaluation_api::v1::CheckVerdict;

    use super::super::kept::{Generation, Generations};
    use super::*;

    fn question(object: &str) -> EvaluateChecksRequest {
        EvaluateChecksRequest {
            policy: b"policy".to_vec(),
            context_object: b"pod".to_vec(),
            connector: "harbor".to_owned(),
            candidates: vec![Candidates {
                check: "gate".to_owned(),
                objects: vec![object.as_bytes().to_vec()],
                shared_fields: vec![],
            }],
            stage: 1,
        }
    }

    fn answer(verdict: CheckVerdict) -> EvaluateChecksResponse {
        EvaluateChecksResponse {
            verdict: verdict.into(),
            ..EvaluateChecksResponse::default()
        }
    }

    fn knows(remembered: &Remembered, asked: &EvaluateChecksRequest) -> bool {
        remembered.recall(asked).is_some()
    }

    fn keep(remembered: &Remembered, object: &str) {
        let namespace = "tools".to_owned();
        remembered.remember(question(object), namespace, answer(CheckVerdict::Passed));
    }

    #[test]
    fn the_same_question_gets_the_same_answer_and_its_namespace() {
        let remembered = Remembered::default();
        assert!(!knows(&remembered, &question("a")));
        keep(&remembered, "a");
        let known = remembered.recall(&question("a")).unwrap();
        assert_eq!(known.namespace, "tools");
        assert_eq!(known.answer, answer(CheckVerdict::Passed));
    }

    type Change = fn(&mut EvaluateChecksRequest);

    #[test]
    fn any_other_byte_is_another_question() {
        let remembered = Remembered::default();
        keep(&remembered, "a");
        let changes: [Change; 10] = [
            |it| it.policy.push(b' '),
            |it| it.context_object.clear(),
            |it| it.connector.push('2'),
            |it| it.stage = 2,
            |it| it.candidates.clear(),
            |it| it.candidates[0].check.push('2'),
            |it| it.candidates[0].shared_fields.push("data".to_owned()),
            |it| it.candidates[0].objects[0][0] = b'b',
            |it| it.candidates[0].objects.push(b"a".to_vec()),
            |it| it.candidates.push(Candidates::default()),
        ];
        for change in changes {
            let mut other = question("a");
            change(&mut other);
            assert!(!knows(&remembered, &other), "{other:?}");
        }
    }

    /// Whoever finds two questions of one hash gets nobody's answer but his own.
    #[test]
    fn a_hash_that_is_the_same_is_not_enough() {
        let remembered = Remembered::default();
        let (own, other) = (question("own"), question("other"));
        let known = Known {
            asked: other,
            namespace: String::new(),
            answer: answer(CheckVerdict::Passed),
        };
        let hash = remembered.hash(&own);
        remembered.0.put(hash, known);
        assert!(!knows(&remembered, &own));
        keep(&remembered, "own");
        assert!(knows(&remembered, &own));
    }

    #[test]
    fn a_flood_pushes_out_what_is_not_asked_for_and_stays_within_the_bounds() {
        let remembered = Remembered::default();
        keep(&remembered, "never again");
        keep(&remembered, "again and again");
        for number in 0..2 * MOST {
            keep(&remembered, &number.to_string());
            assert!(knows(&remembered, &question("again and again")));
            let Generations { young, old } = &*remembered.0.lock();
            assert!(young.entries.len() + old.entries.len() <= MOST);
        }
        assert!(!knows(&remembered, &question("never again")));
    }

    #[test]
    fn bytes_are_bounded_whatever_the_number() {
        let remembered = Remembered::default();
        for number in 0..100 {
            keep(
                &remembered,
                &format!("{number}{}", "x".repeat(LONGEST - 100)),
            );
            let known = remembered.0.lock();
            let bytes = known.young.bytes + known.old.bytes;
            let counted = |generation: &Generation<Known>| -> usize {
                generation.entries.values().map(|known| known.bytes()).sum()
            };
            assert_eq!(counted(&known.young) + counted(&known.old), bytes);
            assert!(bytes <= MOST_BYTES, "{bytes}");
        }
        let long = question(&"x".repeat(LONGEST));
        assert!(!Remembered::keeps(&long) && Remembered::keeps(&question("a")));
    }
}
