//! Answers about checks, kept for the same question. Controllers repeat their questions after each restart and in
//! each round.
//!
//! Owns: which answers are kept. Refuses to know: the rights of callers to an answer.
//!
//! Invariant: an answer goes to exactly the bytes for which it was found, so a caller cannot make a question that
//! gets another question's answer. Only reproducible answers are kept: an answer depends only on its question, unless
//! a limit or an accident affected it.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use evaluation_api::v1::{Candidates, EvaluateChecksRequest, EvaluateChecksResponse};
use prost::Message;
use service_kit::cache::{Bounds, Cache};

/// Answers that are kept.
const MOST: usize = 4096;
/// Bytes of all questions and answers that are kept.
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// The longest question that is kept. A longer one would evict too many others.
const LONGEST: usize = 256 * 1024;
/// The approximate memory of an entry beside its texts.
const OVERHEAD: usize = 512;

/// Answers to questions.
#[derive(Debug)]
pub struct AnswerCache(Cache<QuestionBytes, Arc<CachedAnswer>>);

/// The whole question.
#[derive(Debug, PartialEq)]
struct QuestionBytes(Arc<EvaluateChecksRequest>);

// It contains bytes, texts and numbers.
impl Eq for QuestionBytes {}

impl Hash for QuestionBytes {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let EvaluateChecksRequest {
            policy,
            context_object,
            connector,
            candidates,
            stage,
            lineage,
            creators_since,
        } = &*self.0;
        (policy, context_object, connector, stage, lineage).hash(hasher);
        let time = creators_since.as_ref();
        time.map(|it| (it.seconds, it.nanos)).hash(hasher);
        for Candidates {
            check,
            objects,
            shared_fields,
        } in candidates
        {
            (check, objects, shared_fields).hash(hasher);
        }
    }
}

/// An answer.
#[derive(Debug)]
pub struct CachedAnswer {
    /// The namespace in which the caller needs the permission.
    pub namespace: String,
    /// The answer.
    pub answer: EvaluateChecksResponse,
}

impl Default for AnswerCache {
    fn default() -> Self {
        Self(Cache::new(Bounds {
            entries: MOST,
            bytes: MOST_BYTES,
            age: None,
        }))
    }
}

impl AnswerCache {
    /// The answer to this very question.
    #[must_use]
    pub fn recall(&self, asked: &Arc<EvaluateChecksRequest>) -> Option<Arc<CachedAnswer>> {
        self.0.get(&QuestionBytes(Arc::clone(asked)))
    }

    /// Whether a question is short enough to be kept.
    #[must_use]
    pub fn keeps(asked: &EvaluateChecksRequest) -> bool {
        asked.encoded_len() <= LONGEST
    }

    /// Keeps an answer. Evicts others when there are too many.
    pub fn remember(
        &self,
        asked: Arc<EvaluateChecksRequest>,
        namespace: String,
        answer: EvaluateChecksResponse,
    ) {
        let bytes = asked.encoded_len() + namespace.len() + answer.encoded_len() + OVERHEAD;
        if bytes <= 2 * LONGEST {
            let known = Arc::new(CachedAnswer { namespace, answer });
            self.0.put(QuestionBytes(asked), known, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

    use evaluation_api::access::wire_time;
    use evaluation_api::v1::CheckVerdict;
    use jiff::Timestamp;

    use super::*;

    fn question(object: &str) -> Arc<EvaluateChecksRequest> {
        Arc::new(EvaluateChecksRequest {
            policy: b"policy".to_vec(),
            context_object: b"pod".to_vec(),
            connector: "harbor".to_owned(),
            candidates: vec![Candidates {
                check: "gate".to_owned(),
                objects: vec![object.as_bytes().to_vec()],
                shared_fields: vec![],
            }],
            stage: 1,
            lineage: vec![],
            creators_since: None,
        })
    }

    fn answer(verdict: CheckVerdict) -> EvaluateChecksResponse {
        EvaluateChecksResponse {
            verdict: verdict.into(),
            ..EvaluateChecksResponse::default()
        }
    }

    fn knows(cache: &AnswerCache, asked: &Arc<EvaluateChecksRequest>) -> bool {
        cache.recall(asked).is_some()
    }

    fn keep(cache: &AnswerCache, object: &str) {
        let namespace = "tools".to_owned();
        cache.remember(question(object), namespace, answer(CheckVerdict::Passed));
    }

    #[test]
    fn the_same_question_gets_the_same_answer_and_its_namespace() {
        let cache = AnswerCache::default();
        assert!(!knows(&cache, &question("a")));
        keep(&cache, "a");
        let known = cache.recall(&question("a")).unwrap();
        assert_eq!(known.namespace, "tools");
        assert_eq!(known.answer, answer(CheckVerdict::Passed));
        let texts = question("a").encoded_len() + "tools".len() + known.answer.encoded_len();
        assert_eq!(cache.0.size(), (1, texts + OVERHEAD));
    }

    type Change = fn(&mut EvaluateChecksRequest);

    #[test]
    fn any_other_byte_is_another_question() {
        let cache = AnswerCache::default();
        keep(&cache, "a");
        let changes: [Change; 12] = [
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
            |it| it.lineage.push(b"run".to_vec()),
            |it| it.creators_since = Some(wire_time(Timestamp::UNIX_EPOCH)),
        ];
        let hashing = RandomState::new();
        let hash = |asked: &Arc<_>| hashing.hash_one(QuestionBytes(Arc::clone(asked)));
        for change in changes {
            let mut other = question("a");
            change(Arc::make_mut(&mut other));
            assert!(!knows(&cache, &other), "{other:?}");
            // Otherwise one caller could make each search of the cache slow.
            assert_ne!(hash(&other), hash(&question("a")), "{other:?}");
        }
    }

    #[test]
    fn a_flood_stays_within_the_bounds() {
        let cache = AnswerCache::default();
        keep(&cache, "again and again");
        for number in 0..2 * MOST {
            keep(&cache, &number.to_string());
            assert!(knows(&cache, &question("again and again")));
            let (entries, bytes) = cache.0.size();
            assert!(entries <= MOST && bytes <= MOST_BYTES);
        }
    }

    #[test]
    fn a_long_question_is_not_kept() {
        let long = question(&"x".repeat(LONGEST));
        assert!(!AnswerCache::keeps(&long) && AnswerCache::keeps(&question("a")));
        let cache = AnswerCache::default();
        for number in 0..100 {
            keep(&cache, &format!("{number}{}", "x".repeat(LONGEST - 100)));
            let (_, bytes) = cache.0.size();
            assert!((LONGEST..=MOST_BYTES).contains(&bytes), "{bytes}");
        }
    }
}
