//! Values that are remembered between reconciliations: the last version of pods, and the answers about checks.
//!
//! Both only save a repeated call, so both may be dropped at any time. Entries are charged to their tenant. They are
//! kept as text and digests, so that their size in memory is about that of their text.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evaluation_api::v1::EvaluateChecksResponse;
use prost::Message;
use serde_json::Value;
use service_kit::shared_cache::{CacheBounds, SharedCache};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::api::Name;

pub(super) const MIB: usize = 1024 * 1024;
/// The limits for pods, by their namespace. A pod that is not remembered costs one read by its name, as one that is larger than
/// the share does each time.
const PODS: CacheBounds = CacheBounds {
    share: 2 * MIB,
    total: 4 * MIB,
};
/// The limits for answers, by the namespace of the pod. An answer that is not remembered costs one question.
const ANSWERS: CacheBounds = CacheBounds {
    share: MIB,
    total: 2 * MIB,
};
/// The approximate size of an entry without its text.
const OVERHEAD: usize = 512;

/// Pods in the version that was last read, shared by all requests of a pod.
pub(super) struct Pods(Mutex<SharedCache<Arc<str>, RememberedPod>>);

struct RememberedPod {
    version: Box<str>,
    text: Box<str>,
}

impl Default for Pods {
    fn default() -> Self {
        Self(Mutex::new(SharedCache::new(PODS)))
    }
}

impl Pods {
    /// The pod with this UID, if the remembered version is this one.
    pub(super) fn get(&self, uid: &str, version: &str) -> Option<Value> {
        let mut pods = self.lock();
        let pod = pods.get(uid)?;
        (pod.version.as_ref() == version)
            .then(|| serde_json::from_str(&pod.text).ok())
            .flatten()
    }

    /// Keeps a pod that was just read.
    pub(super) fn put(&self, namespace: &str, uid: &str, pod: &Value) {
        let version = pod.pointer("/metadata/resourceVersion");
        let version = version.and_then(Value::as_str).unwrap_or_default();
        let pod_kept = RememberedPod {
            version: version.into(),
            text: pod.to_string().into(),
        };
        let bytes = pod_kept.text.len() + OVERHEAD;
        self.lock().put(namespace, uid.into(), bytes, pod_kept);
    }

    pub(super) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.lock().bytes()
    }

    fn lock(&self) -> MutexGuard<'_, SharedCache<Arc<str>, RememberedPod>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The key of a remembered answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AnswerKey {
    pub(super) request: Name,
    /// The UID of the policy.
    pub(super) policy: String,
    /// Before or after a grant.
    pub(super) stage: i32,
}

/// The digest of a whole question: different questions have different digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    /// The digest of these parts in this order. Each is preceded by its length, so that different lists have
    /// different digests.
    pub(super) fn of(parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            let part = part.as_ref();
            hash.update(part.len().to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    pub(super) const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The last answer to each question of a request, and the end of its validity: the same question has the same answer.
pub(super) struct RememberedAnswers(Mutex<SharedCache<Name, Box<[RememberedAnswer]>>>);

#[derive(Debug)]
struct RememberedAnswer {
    policy: Box<str>,
    stage: i32,
    digest: Digest,
    /// The message as it is sent: as a tree of values it would take several times as much.
    said: Box<[u8]>,
    until: Instant,
}

impl RememberedAnswer {
    fn answers(&self, question: &AnswerKey) -> bool {
        self.policy.as_ref() == question.policy && self.stage == question.stage
    }
}

impl Default for RememberedAnswers {
    fn default() -> Self {
        Self(Mutex::new(SharedCache::new(ANSWERS)))
    }
}

impl RememberedAnswers {
    /// The answer to exactly this question, and the end of its validity.
    pub(super) fn get(
        &self,
        question: &AnswerKey,
        digest: &Digest,
    ) -> Option<(EvaluateChecksResponse, Instant)> {
        let mut answers = self.lock();
        let mut known = answers.get(&question.request)?.iter();
        let same = known.find(|it| it.answers(question) && it.digest == *digest)?;
        let said = EvaluateChecksResponse::decode(same.said.as_ref()).ok()?;
        Some((said, same.until))
    }

    /// Keeps an answer, charged to the namespace of the pod.
    pub(super) fn put(
        &self,
        namespace: &str,
        question: &AnswerKey,
        digest: Digest,
        said: &EvaluateChecksResponse,
        until: Instant,
    ) {
        let answer = RememberedAnswer {
            policy: question.policy.as_str().into(),
            stage: question.stage,
            digest,
            said: said.encode_to_vec().into(),
            until,
        };
        self.change(namespace, question, Some(answer));
    }

    /// Drops one answer.
    pub(super) fn remove(&self, namespace: &str, question: &AnswerKey) {
        self.change(namespace, question, None);
    }

    /// Drops all answers for a request.
    pub(super) fn forget(&self, request: &Name) {
        self.lock().remove(request);
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.lock().bytes()
    }

    fn change(&self, namespace: &str, question: &AnswerKey, new: Option<RememberedAnswer>) {
        let mut answers = self.lock();
        let known = answers.remove(&question.request).unwrap_or_default();
        let others = known.into_iter().filter(|it| !it.answers(question));
        let all: Box<[_]> = others.chain(new).collect();
        if !all.is_empty() {
            let weight = |it: &RememberedAnswer| it.said.len() + OVERHEAD;
            let bytes = all.iter().map(weight).sum();
            answers.put(namespace, question.request.clone(), bytes, all);
        }
    }

    fn lock(&self) -> MutexGuard<'_, SharedCache<Name, Box<[RememberedAnswer]>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn question(policy: &str) -> AnswerKey {
        AnswerKey {
            request: Name::new("tools", "r"),
            policy: policy.to_owned(),
            stage: 1,
        }
    }

    fn digest(text: &str) -> Digest {
        Digest::of([text.as_bytes()])
    }

    #[test]
    fn a_pod_is_kept_once_in_the_version_that_was_read() {
        let pods = Pods::default();
        let pod = |version: &str| json!({"metadata": {"resourceVersion": version, "name": "p"}});
        pods.put("apps", "uid", &pod("1"));
        pods.put("apps", "uid", &pod("2"));
        assert_eq!(pods.bytes(), pod("2").to_string().len() + OVERHEAD);
        assert_eq!(pods.get("uid", "1"), None);
        assert_eq!(pods.get("uid", "2"), Some(pod("2")));
        assert_eq!(pods.get("other", "2"), None);
        pods.forget("uid");
        assert_eq!((pods.get("uid", "2"), pods.bytes()), (None, 0));
    }

    #[test]
    fn large_pods_of_one_namespace_stay_within_its_share() {
        let pods = Pods::default();
        let quiet = json!({"metadata": {"resourceVersion": "1"}});
        pods.put("quiet", "own", &quiet);
        let large = json!({"metadata": {"resourceVersion": "1"}, "spec": "x".repeat(MIB / 2)});
        for number in 0..100 {
            pods.put("loud", &number.to_string(), &large);
            assert!(pods.bytes() <= PODS.share + 2 * OVERHEAD);
        }
        let is_kept = |number: &i32| pods.get(&number.to_string(), "1").is_some();
        assert_eq!((0..100).filter(is_kept).collect::<Vec<_>>(), [97, 98, 99]);
        assert_eq!(pods.get("own", "1"), Some(quiet));
    }

    #[test]
    fn a_pod_that_is_larger_than_the_share_is_not_kept() {
        let pod = |padding: usize| json!({"metadata": {"resourceVersion": "1"}, "spec": "x".repeat(padding)});
        let around = pod(0).to_string().len() + OVERHEAD;
        for (more, is_kept) in [(0, true), (1, false)] {
            let pods = Pods::default();
            pods.put("apps", "uid", &pod(PODS.share - around + more));
            assert_eq!(pods.get("uid", "1").is_some(), is_kept, "{more}");
        }
    }

    #[test]
    fn a_digest_tells_the_same_text_in_other_parts_apart() {
        let of = |parts: &[&str]| Digest::of(parts.iter().map(|it| it.as_bytes()));
        assert_eq!(of(&["ab", "c"]), of(&["ab", "c"]));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["abc"]), of(&["abc", ""]));
        assert_ne!(of(&[]), of(&[""]));
    }

    #[test]
    fn an_answer_is_found_for_exactly_its_question() {
        let answers = RememberedAnswers::default();
        let until = Instant::now() + Duration::from_secs(1);
        let said = EvaluateChecksResponse {
            rules_message: "no".to_owned(),
            ..EvaluateChecksResponse::default()
        };
        answers.put("apps", &question("a"), digest("x"), &said, until);
        answers.put("apps", &question("b"), digest("y"), &said, until);
        assert_eq!(answers.bytes(), 2 * (said.encoded_len() + OVERHEAD));
        let found = |policy: &str, text: &str| {
            let found = answers.get(&question(policy), &digest(text));
            found.map(|(_, until)| until)
        };
        assert_eq!(found("a", "x"), Some(until));
        assert_eq!(found("b", "y"), Some(until));
        assert_eq!(found("a", "y"), None);
        assert_eq!(found("c", "x"), None);
        answers.remove("apps", &question("a"));
        assert_eq!((found("a", "x"), found("b", "y")), (None, Some(until)));
        answers.forget(&Name::new("tools", "r"));
        assert_eq!((found("b", "y"), answers.bytes()), (None, 0));
    }
}
