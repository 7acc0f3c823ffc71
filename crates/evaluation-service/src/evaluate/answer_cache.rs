//! Answers about checks, kept for the same question. Controllers repeat their questions after each restart and in
//! each round.
//!
//! Owns: which answers are kept. Refuses to know: the rights of callers to an answer.
//!
//! Invariant: an answer goes to exactly the bytes for which it was found, so a caller cannot make a question that
//! gets another question's answer. Only reproducible answers are kept: an answer depends only on its question, unless
//! a limit or an accident affected it.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use evaluation_api::v1::{Candidates, EvaluateChecksRequest, EvaluateChecksResponse};
use foldhash::fast::RandomState;
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
pub struct AnswerCache {
    answers: Cache<QuestionKey, Arc<CachedAnswer>>,
    hashing: RandomState,
}

/// A whole question, and the hash of its bytes, which is computed once. A cache that grows reads only the hash, and one that
/// finds an answer compares the bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionKey {
    hash: u64,
    asked: Arc<EvaluateChecksRequest>,
    bytes: usize,
}

// It contains bytes, texts and numbers.
impl Eq for QuestionKey {}

impl Hash for QuestionKey {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.hash.hash(hasher);
    }
}

/// The bytes of a question.
struct QuestionBytes<'a>(&'a EvaluateChecksRequest);

impl Hash for QuestionBytes<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let EvaluateChecksRequest {
            policy,
            context_object,
            connector,
            candidates,
            stage,
            lineage,
            creators_since,
        } = self.0;
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
        let answers = Cache::new(Bounds {
            entries: MOST,
            bytes: MOST_BYTES,
            age: None,
        });
        Self {
            answers,
            hashing: RandomState::default(),
        }
    }
}

impl AnswerCache {
    /// The key of a question in this cache. None for a question that is too long to be kept.
    #[must_use]
    pub fn key(&self, asked: &Arc<EvaluateChecksRequest>) -> Option<QuestionKey> {
        let bytes = asked.encoded_len();
        (bytes <= LONGEST).then(|| QuestionKey {
            hash: self.hashing.hash_one(QuestionBytes(asked)),
            asked: Arc::clone(asked),
            bytes,
        })
    }

    /// The answer to this very question.
    #[must_use]
    pub fn recall(&self, asked: &QuestionKey) -> Option<Arc<CachedAnswer>> {
        self.answers.get(asked)
    }

    /// Keeps an answer. Evicts others when there are too many.
    pub fn remember(&self, asked: QuestionKey, namespace: String, answer: EvaluateChecksResponse) {
        let bytes = asked.bytes + namespace.len() + answer.encoded_len() + OVERHEAD;
        if bytes <= 2 * LONGEST {
            let known = Arc::new(CachedAnswer { namespace, answer });
            self.answers.put(asked, known, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
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
        cache.recall(&cache.key(asked).unwrap()).is_some()
    }

    fn keep(cache: &AnswerCache, object: &str) {
        let namespace = "tools".to_owned();
        let key = cache.key(&question(object)).unwrap();
        cache.remember(key, namespace, answer(CheckVerdict::Passed));
    }

    #[test]
    fn the_same_question_gets_the_same_answer_and_its_namespace() {
        let cache = AnswerCache::default();
        assert!(!knows(&cache, &question("a")));
        keep(&cache, "a");
        let known = cache.recall(&cache.key(&question("a")).unwrap()).unwrap();
        assert_eq!(known.namespace, "tools");
        assert_eq!(known.answer, answer(CheckVerdict::Passed));
        let texts = question("a").encoded_len() + "tools".len() + known.answer.encoded_len();
        assert_eq!(cache.answers.size(), (1, texts + OVERHEAD));
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
        let hash = |asked: &Arc<_>| cache.key(asked).unwrap().hash;
        for change in changes {
            let mut other = question("a");
            change(Arc::make_mut(&mut other));
            assert!(!knows(&cache, &other), "{other:?}");
            // Two questions may have the same hash.
            let colliding = QuestionKey {
                asked: Arc::clone(&other),
                ..cache.key(&question("a")).unwrap()
            };
            assert!(cache.recall(&colliding).is_none(), "{other:?}");
            // Otherwise one caller could make each search of the cache slow.
            assert_ne!(hash(&other), hash(&question("a")), "{other:?}");
        }
    }

    /// Counts the bytes that are hashed.
    #[derive(Default)]
    struct CountingHasher(usize);

    impl Hasher for CountingHasher {
        fn write(&mut self, bytes: &[u8]) {
            self.0 += bytes.len();
        }

        fn finish(&self) -> u64 {
            0
        }
    }

    #[test]
    fn a_map_of_keys_does_not_read_the_questions() {
        let cache = AnswerCache::default();
        for length in [1, LONGEST / 2] {
            let mut hasher = CountingHasher::default();
            let key = cache.key(&question(&"x".repeat(length))).unwrap();
            key.hash(&mut hasher);
            assert_eq!(hasher.0, size_of::<u64>());
        }
    }

    #[test]
    fn a_flood_stays_within_the_bounds() {
        let cache = AnswerCache::default();
        keep(&cache, "again and again");
        for number in 0..2 * MOST {
            keep(&cache, &number.to_string());
            assert!(knows(&cache, &question("again and again")));
            let (entries, bytes) = cache.answers.size();
            assert!(entries <= MOST && bytes <= MOST_BYTES);
        }
    }

    #[test]
    fn a_long_question_is_not_kept() {
        let long = question(&"x".repeat(LONGEST));
        let cache = AnswerCache::default();
        assert_eq!(cache.key(&long), None);
        assert!(cache.key(&question("a")).is_some());
        for number in 0..100 {
            keep(&cache, &format!("{number}{}", "x".repeat(LONGEST - 100)));
            let (_, bytes) = cache.answers.size();
            assert!((LONGEST..=MOST_BYTES).contains(&bytes), "{bytes}");
        }
    }
}
