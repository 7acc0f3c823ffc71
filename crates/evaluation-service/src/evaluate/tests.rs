use allocation_counter::measure;
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
    let (memory, slots) = (Arc::<JsonMemory>::default(), Slots::new(1));
    let pool = WorkerPool::without_workers();
    let slot = slots.take("tools", Purpose::New).await.unwrap();
    let asked = Arc::new(asked(2 * SHORT));
    let policy = ParsedPolicies::default().find(&asked.policy).unwrap();
    {
        let programs = Arc::default();
        let mut judges = std::pin::pin!(judge(policy, &asked, &programs, &pool, &slot, &memory));
        while pool.waiting() == 0 {
            assert!(futures::poll!(&mut judges).is_pending());
            tokio::task::yield_now().await;
        }
        assert!(!memory.is_free(), "its objects are in memory");
    }
    assert!(memory.is_free());
}

/// The memory, the slots and the workers of a service that can run no module.
fn without_workers() -> (Arc<JsonMemory>, Slots, WorkerPool) {
    let pool = WorkerPool::without_workers();
    (Arc::<JsonMemory>::default(), Slots::new(1), pool)
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
    let judged = judge(policy, &asked, &Arc::default(), &pool, &slot, &memory)
        .await
        .unwrap();
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
        let judged = judge(
            policy,
            &Arc::new(asked),
            &Arc::default(),
            &pool,
            &slot,
            &memory,
        )
        .await;
        let refused = match judged {
            Ok(_) => None,
            Err(Refused::TooMuchRego(jobs)) => Some(jobs),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(refused, expected);
    }
}

/// Only a worker could say anything else about the module than what its program says here.
fn program() -> NativeProgram {
    let output = json!({"state": {"path": ["data", "text"]}, "message": null});
    let rules = json!({"rules": [[{"steps": [], "output": output}]], "default": null});
    serde_json::from_value(rules).unwrap()
}

/// The module of the policy in the fixtures.
const MODULE: &str = "package approval\noutput := {}";

#[tokio::test(start_paused = true)]
async fn modules_with_a_program_are_evaluated_without_a_worker_short_or_long() {
    let (memory, slots, pool) = without_workers();
    let slot = slots.take("tools", Purpose::New).await.unwrap();
    let _busy = slot.worker().await;
    let programs = Arc::new(NativePrograms::default());
    programs.keep("tools", MODULE, Some(program()));
    for (length, certain) in [(1, true), (63, true), (64, false), (2 * SHORT, false)] {
        let mut asked = asked(length);
        let objects = &mut asked.candidates[0].objects;
        *objects = vec![objects[0].clone(); 3];
        let policy = ParsedPolicies::default().find(&asked.policy).unwrap();
        let asked = Arc::new(asked);
        let judged = judge(policy, &asked, &programs, &pool, &slot, &memory).await;
        let judged = judged.unwrap();
        assert_eq!((judged.native, judged.is_certain), (3, certain), "{length}");
        let said = &judged.answer.checks[0].objects[0];
        let state = if certain {
            "x".repeat(length)
        } else {
            String::new()
        };
        assert_eq!(said.state, state, "{said:?}");
    }
    assert!(memory.is_free());
}

/// A program is of one namespace, and one that is not certain leaves the object to a worker.
#[tokio::test(start_paused = true)]
async fn other_modules_and_odd_objects_wait_for_a_worker() {
    let (memory, slots, pool) = without_workers();
    let slot = slots.take("tools", Purpose::New).await.unwrap();
    let _busy = slot.worker().await;
    let odd = json!({"$serde_json::private::Number": "1"});
    let (usual, odd) = (json!("x"), json!({"text": odd}));
    for (namespace, module, text, native) in [
        ("tools", MODULE, &usual, 1),
        ("other", MODULE, &usual, 0),
        ("tools", "package approval\noutput := {} ", &usual, 0),
        ("tools", MODULE, &odd, 0),
    ] {
        let programs = Arc::new(NativePrograms::default());
        programs.keep(namespace, module, Some(program()));
        let mut asked = asked(1);
        let mut object: Value = serde_json::from_slice(&asked.candidates[0].objects[0]).unwrap();
        object["data"]["text"] = text.clone();
        asked.candidates[0].objects = vec![bytes(&object)];
        let policy = ParsedPolicies::default().find(&asked.policy).unwrap();
        let asked = Arc::new(asked);
        let judged = judge(policy, &asked, &programs, &pool, &slot, &memory).await;
        assert_eq!(
            judged.unwrap().native,
            native,
            "{namespace} {module} {text}"
        );
    }
}

/// The states of three objects of one identity, of which the program reads only a part.
#[tokio::test(start_paused = true)]
async fn objects_with_one_identity_are_in_the_order_of_all_that_they_say() {
    let (memory, slots, pool) = without_workers();
    let slot = slots.take("tools", Purpose::New).await.unwrap();
    let programs = Arc::new(NativePrograms::default());
    programs.keep("tools", MODULE, Some(program()));
    let mut asked = asked(1);
    let object: Value = serde_json::from_slice(&asked.candidates[0].objects[0]).unwrap();
    let object = |data: Value| {
        let mut object = object.clone();
        object["data"] = data;
        bytes(&object)
    };
    asked.candidates[0].objects = vec![
        object(json!({"other": "2", "text": "approved"})),
        object(json!({"other": "3", "text": "pending"})),
        object(json!({"other": "1", "text": "rejected"})),
    ];
    let policy = ParsedPolicies::default().find(&asked.policy).unwrap();
    let asked = Arc::new(asked);
    let judged = judge(policy, &asked, &programs, &pool, &slot, &memory).await;
    let objects = &judged.unwrap().answer.checks[0].objects;
    let states: Vec<_> = objects.iter().map(|it| it.state.as_str()).collect();
    assert_eq!(states, ["rejected", "approved", "pending"]);
}

#[test]
fn a_worker_gets_the_whole_object_and_the_whole_pod() {
    let one = json!([{"path": ["data", "number"]}, {"whole": 1}]);
    let output = json!({"state": {"text": "approved"}, "message": null});
    let body = json!({"steps": [{"equal": one}], "output": output});
    let program = json!({"rules": [[body]], "default": null});
    let programs = NativePrograms::default();
    let program = serde_json::from_value(program).unwrap();
    programs.keep("tools", MODULE, Some(program));
    let mut asked = asked(1);
    let mut pod: Value = serde_json::from_slice(&asked.context_object).unwrap();
    pod["spec"] = json!({"containers": [{"name": "a"}]});
    asked.context_object = bytes(&pod);
    let mut object: Value = serde_json::from_slice(&asked.candidates[0].objects[0]).unwrap();
    // A program is not certain of fractions.
    for (number, is_certain) in [(json!(1), true), (json!(1.5), false)] {
        object["data"] = json!({"number": number, "other": "b"});
        asked.candidates[0].objects = vec![bytes(&object)];
        let policy = ParsedPolicies::default().find(&asked.policy).unwrap();
        let prepared = prepare(policy, &asked, &programs).unwrap();
        assert_eq!(prepared.answered[0].is_some(), is_certain);
        let job = prepared.prepared.rego_jobs().next().unwrap();
        let is_whole = (job.input, job.context) == (&object, &pod);
        assert_eq!(is_whole, !is_certain, "{job:?}");
    }
}

/// The allocations for a question with so many objects, each with so many fields that no check reads, as the pod.
fn allocations(objects: usize, fields: usize) -> u64 {
    let programs = NativePrograms::default();
    programs.keep("tools", MODULE, Some(program()));
    let field = |number: usize| (format!("f{number}"), json!({"a": ["b", {"c": 1.5}]}));
    let unread: Value = (0..fields).map(field).collect();
    let mut asked = asked(1);
    let mut pod: Value = serde_json::from_slice(&asked.context_object).unwrap();
    pod["spec"] = json!({"containers": [unread]});
    asked.context_object = bytes(&pod);
    let mut object: Value = serde_json::from_slice(&asked.candidates[0].objects[0]).unwrap();
    let named = |number: usize| {
        object["metadata"]["name"] = format!("object-{number:04}").into();
        object["metadata"]["annotations"] = unread.clone();
        object["data"]["unread"] = unread.clone();
        bytes(&object)
    };
    asked.candidates[0].objects = (0..objects).map(named).collect();
    let policies = ParsedPolicies::default();
    let read = policies.find(&asked.policy).unwrap().read(&asked.policy);
    policies.keep(&asked.policy, read.unwrap());
    let policy = policies.find(&asked.policy).unwrap();
    let cost = measure(|| {
        let prepared = prepare(policy, &asked, &programs).unwrap();
        assert!(prepared.answered.iter().all(Option::is_some));
        let answer = prepared
            .prepared
            .finish(prepared.answered.into_iter().flatten());
        assert_eq!(answer.checks[0].objects.len(), objects);
    });
    cost.count_total
}

#[test]
fn what_no_check_reads_of_an_object_costs_no_allocation() {
    assert_eq!(allocations(8, 200), allocations(8, 2));
}

#[test]
fn a_further_object_costs_no_second_pod_and_no_second_policy() {
    let [one, many] = [1, 64].map(|objects| allocations(objects, 2));
    let further = (many - one) / 63;
    assert!(further <= MOST_OF_OBJECT, "{one} {many}");
}

/// The most allocations for a further object.
const MOST_OF_OBJECT: u64 = 60;
