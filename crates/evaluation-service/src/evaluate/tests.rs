use serde_json::{Value, json};

use super::{policies::ParsedPolicies, *};
use crate::{
    fixtures,
    slots::{Purpose, Slots},
};

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into()
}

/// A question with an object of so many bytes, that a module judges.
fn asked(length: usize) -> EvaluateChecksRequest {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "deploy", "namespace": "tools", "uid": "u", "labels": {"run": "r"}},
    });
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"text": "x".repeat(length)},
        "metadata": {"name": "a", "namespace": "tools", "uid": "o", "resourceVersion": "1", "labels": {"run": "r"}},
    });
    EvaluateChecksRequest {
        policy: bytes(&serde_json::to_value(fixtures::policy("p")).unwrap()),
        context_object: bytes(&pod),
        connector: "harbor".to_owned(),
        candidates: vec![v1::Candidates {
            check: "gate".to_owned(),
            objects: vec![bytes(&object)],
            shared_fields: vec![],
        }],
        stage: v1::EvaluationStage::BeforeGrant.into(),
        lineage: vec![],
        creators_since: None,
    }
}

#[tokio::test]
async fn what_a_large_question_takes_is_taken_until_it_is_judged() {
    let (memory, slots) = (JsonMemory::default(), Slots::new(1));
    let pool = WorkerPool::without_workers();
    let slot = slots.take("tools", Purpose::New).await.unwrap();
    let asked = Arc::new(asked(2 * SHORT));
    let policy = ParsedPolicies::default().find(&asked.policy).unwrap();
    {
        let mut judges = std::pin::pin!(judge(policy, &asked, &pool, &slot, &memory));
        while pool.waiting() == 0 {
            assert!(futures::poll!(&mut judges).is_pending());
            tokio::task::yield_now().await;
        }
        assert!(!memory.is_free(), "its objects are in memory");
    }
    assert!(memory.is_free());
}

/// The memory, the slots and the workers of a service that can run no module.
fn without_workers() -> (JsonMemory, Slots, WorkerPool) {
    let pool = WorkerPool::without_workers();
    (JsonMemory::default(), Slots::new(1), pool)
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_lacks_modules_is_not_told_again_for_the_same_question() {
    // The namespace has its workers busy until the time of the call is over.
    let (memory, slots, pool) = without_workers();
    let slot = slots.take("tools", Purpose::New).await.unwrap();
    let _busy = slot.worker().await;
    let asked = Arc::new(asked(1));
    let policy = ParsedPolicies::default().find(&asked.policy).unwrap();
    let began = tokio::time::Instant::now();
    let judged = judge(policy, &asked, &pool, &slot, &memory).await.unwrap();
    assert_eq!(began.elapsed(), ALL_REGO);
    assert!(!judged.is_certain);
}

#[tokio::test(start_paused = true)]
async fn a_question_with_too_many_objects_for_modules_is_refused_as_a_whole() {
    let (memory, slots, pool) = without_workers();
    let slot = slots.take("tools", Purpose::New).await.unwrap();
    let _busy = slot.worker().await;
    for (count, expected) in [(MOST_REGO, None), (MOST_REGO + 1, Some(MOST_REGO + 1))] {
        let mut asked = asked(1);
        let objects = &mut asked.candidates[0].objects;
        *objects = vec![objects[0].clone(); count];
        let policy = ParsedPolicies::default().find(&asked.policy).unwrap();
        let judged = judge(policy, &Arc::new(asked), &pool, &slot, &memory).await;
        let refused = match judged {
            Ok(_) => None,
            Err(Refused::TooMuchRego(jobs)) => Some(jobs),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(refused, expected);
    }
}
