use std::sync::Arc;

use allocation_counter::measure;
use evaluation_api::access::{Decision, Gating, Requestable};
use proptest::prelude::*;

use super::weights::{BLOCK, NAMESPACE_PLACE, QUESTION_PLACE};
use super::*;
use crate::caller_identity::CallerIdentity;
use crate::fixtures::question;
use crate::world::QuestionKeys;

fn unproven() -> StreamMemory {
    StreamMemory::new(Arc::default(), Arc::new(CallerIdentity::Local(0)))
}

fn questions() -> Questions {
    questions_of(&QuestionKeys::default(), std::iter::empty())
}

fn said(reason: &str) -> AccessAnswer {
    AccessAnswer {
        decision: Decision::Denied,
        reason: reason.to_owned(),
        request: None,
        fresh_as_of: None,
        gating: Gating::On,
        requestable: Requestable::Unknown,
    }
}

/// A stream that may ask, with these questions under the ids from zero.
pub(crate) fn questions_of(
    keys: &QuestionKeys,
    asked: impl Iterator<Item = AccessQuestion>,
) -> Questions {
    let mut memory = unproven();
    memory.prove();
    let mut questions = Questions::new(memory, Arc::new(ChangeMarks::new(keys.clone())));
    for (id, asked) in (0..).zip(asked) {
        let namespace = asked.connector.namespace.clone();
        questions.open(id, asked).unwrap();
        questions.allow(&namespace);
    }
    questions
}

/// What is said when everything has this reason.
fn news(questions: &mut Questions, reason: &str) -> Vec<u64> {
    let mut ids = Vec::new();
    while questions.is_dirty() {
        let news = questions.news(1, |_| Some(said(reason)));
        ids.extend(news.map(|(id, _)| id));
    }
    ids
}

fn about(namespace: &str, uid: &str) -> AccessQuestion {
    let mut asked = question();
    asked.connector.namespace = namespace.to_owned();
    asked.pod.as_mut().unwrap().uid = uid.to_owned();
    asked
}

fn three() -> Questions {
    let mut questions = questions();
    for (id, namespace, uid) in [(1, "tools", "a"), (2, "tools", "b"), (3, "other", "a")] {
        questions.take_id(id).unwrap();
        questions.open(id, about(namespace, uid)).unwrap();
        questions.allow(namespace);
    }
    questions
}

#[test]
fn a_new_question_is_answered_and_then_only_what_changed() {
    let mut questions = three();
    assert_eq!(news(&mut questions, "x"), [1, 2, 3]);
    questions.touch(&WorldChange::Everything);
    assert!(news(&mut questions, "x").is_empty());
    questions.touch(&WorldChange::Everything);
    assert_eq!(news(&mut questions, "y"), [1, 2, 3]);
}

#[test]
fn a_change_concerns_its_own_questions() {
    let mut questions = three();
    news(&mut questions, "x");
    questions.touch(&WorldChange::Namespace("tools".to_owned()));
    assert_eq!(news(&mut questions, "y"), [1, 2]);
    // The last key is that of the tuple.
    let keys = questions.marks.keys_of(&about("tools", "b"));
    let keys: Vec<u64> = keys.iter().collect();
    let [standing, of_pod, of_tuple] = keys.try_into().unwrap();
    for (key, concerned) in [(of_tuple, &[2][..]), (of_pod, &[1, 2]), (standing, &[1, 2])] {
        questions.touch(&WorldChange::Keys([key].into()));
        assert_eq!(news(&mut questions, &key.to_string()), concerned);
        questions.touch(&WorldChange::Keys([key.wrapping_add(1)].into()));
        assert!(!questions.is_dirty());
    }
    questions.touch(&WorldChange::Namespace("nobody's".to_owned()));
    assert!(!questions.is_dirty());
}

#[test]
fn a_question_without_an_answer_is_looked_at_again_and_holds_up_no_other() {
    let mut questions = three();
    let unknown = |asked: &AccessQuestion| asked.connector.namespace == "tools";
    let looked = questions.news(3, |asked| (!unknown(asked)).then(|| said("x")));
    assert_eq!(looked.map(|it| it.0), Some(3));
    assert_eq!(news(&mut questions, "x"), [1, 2]);
}

/// However many are looked at in vain before it has its turn.
#[test]
fn the_one_answer_that_changed_is_found_wherever_it_is() {
    const AT_ONCE: usize = 64;
    for count in [1, 2, 63, 64, 65, 127, 128, 129, 1000] {
        let mut questions = questions();
        for id in 0..count {
            questions.take_id(id).unwrap();
            let question = about("tools", &format!("pod-{id}"));
            questions.open(id, question).unwrap();
        }
        questions.allow("tools");
        news(&mut questions, "x");
        for changed in [0, count / 2, count - 1] {
            let uid = format!("pod-{changed}");
            for reason in ["y", "x"] {
                questions.touch(&WorldChange::Everything);
                let mut said_anew = Vec::new();
                while questions.is_dirty() {
                    let answer = |question: &AccessQuestion| {
                        let is_changed = question.pod.as_ref().unwrap().uid == uid;
                        Some(said(if is_changed { reason } else { "x" }))
                    };
                    said_anew.extend(questions.news(AT_ONCE, answer).map(|it| it.0));
                }
                assert_eq!(said_anew, [changed], "of {count}");
            }
        }
    }
}

#[test]
fn an_id_is_used_once_even_if_its_question_is_over() {
    let mut questions = three();
    questions.close(1);
    questions.close(1);
    questions.close(77);
    assert!(matches!(questions.take_id(1), Err(Refused::IdTwice(1))));
    assert!(matches!(questions.take_id(2), Err(Refused::IdTwice(2))));
    assert!(questions.take_id(4).is_ok());
    questions.touch(&WorldChange::Everything);
    assert_eq!(news(&mut questions, "x"), [2, 3]);
    for id in [2, 3] {
        questions.close(id);
    }
    assert!(questions.by_key.is_empty() && questions.by_namespace.is_empty());
}

#[test]
fn there_is_an_end_to_questions_and_to_ids() {
    let mut questions = questions();
    for id in 0..=MOST_OPEN as u64 {
        let opened = questions.open(id, question());
        assert_eq!(opened.is_ok(), id < MOST_OPEN as u64);
    }
    for id in 0..=MOST_IDS as u64 {
        assert_eq!(questions.take_id(id).is_ok(), id < MOST_IDS as u64);
    }
}

/// The names of a node's pods and connectors.
fn of_a_node(number: usize) -> AccessQuestion {
    let mut asked = question();
    asked.subject.namespace = format!("team-{:03}-development", number % 40);
    asked.subject.name = format!("pipeline-runner-{number}");
    asked.connector.namespace = format!("connectors-{:03}", number % 40);
    asked.connector.name = format!("harbor-production-{:02}", number % 25);
    let pod = asked.pod.as_mut().unwrap();
    pod.name = format!("build-and-push-image-{number:05}-pod-7c9d4f");
    pod.uid = format!("0b5b0f7e-93f6-4b7f-8d0e-{number:012}");
    asked
}

/// Opens questions and answers them, twice over; then ends most of them. At most so many bytes are in memory
/// meanwhile, and the weight is this.
fn taken(asked: &[AccessQuestion], message: &str) -> (usize, usize) {
    let mut weight = 0;
    // Each stream has as many, with and without questions.
    let marks = Arc::new(ChangeMarks::new(QuestionKeys::default()));
    let info = measure(|| {
        let mut memory = unproven();
        memory.prove();
        let mut questions = Questions::new(memory, Arc::clone(&marks));
        for (id, asked) in (0..).zip(asked) {
            questions.take_id(id).unwrap();
            questions.open(id, asked.clone()).unwrap();
            questions.allow(&asked.connector.namespace);
        }
        news(&mut questions, message);
        questions.touch(&WorldChange::Everything);
        news(&mut questions, "other");
        weight = questions.memory.weight();
        for id in 3..asked.len() as u64 {
            questions.close(id);
        }
    });
    (usize::try_from(info.bytes_max).unwrap(), weight)
}

#[test]
fn ten_thousand_questions_of_a_node_take_ten_mebibytes() {
    const STATED: usize = 10 * 1024 * 1024;
    let asked: Vec<_> = (0..MOST_OPEN).map(of_a_node).collect();
    let (taken, weight) = taken(&asked, &"x".repeat(200));
    assert!(taken <= weight && weight <= STATED, "{taken} of {weight}");
}

#[test]
fn what_is_said_takes_as_much_however_long_it_is() {
    let asked: Vec<_> = (0..1000).map(of_a_node).collect();
    let (long, _) = taken(&asked, &"x".repeat(20_000));
    let (short, _) = taken(&asked, "x");
    // One answer is on its way.
    assert!(long <= short + 100_000, "{long} and {short}");
}

/// Each question is about another namespace, and the tables have their places already.
#[test]
fn a_namespace_takes_no_more_than_it_weighs_with_the_overhead_of_its_blocks() {
    let mut questions = questions();
    let asked: Vec<_> = (0..500)
        .map(|id| about(&format!("{id:063}"), "a"))
        .collect();
    let open = |questions: &mut Questions| {
        for (id, asked) in (0..).zip(&asked) {
            questions.open(id, asked.clone()).unwrap();
        }
    };
    open(&mut questions);
    (0..500).for_each(|id| questions.close(id));
    let before = questions.memory.weight();
    let info = measure(|| open(&mut questions));
    let block = i64::try_from(BLOCK).unwrap();
    let taken = info.bytes_current + info.count_current * block;
    let weight = questions.memory.weight() - before;
    let weight = i64::try_from(weight).unwrap();
    assert!(taken <= weight, "{taken} of {weight}");
}

#[test]
fn tables_that_stay_large_stay_weighed() {
    let mut questions = questions();
    let all = |questions: &mut Questions, ids: std::ops::Range<u64>| {
        for id in ids.clone() {
            questions
                .open(id, about(&format!("n{id:04}"), "a"))
                .unwrap();
        }
        let most = questions.memory.weight();
        ids.for_each(|id| questions.close(id));
        (most, questions.memory.weight())
    };
    let first = all(&mut questions, 0..500);
    assert!(questions.by_namespace.capacity() >= 500);
    assert_eq!(first.1, 500 * (QUESTION_PLACE + NAMESPACE_PLACE));
    assert_eq!(all(&mut questions, 500..1000), first);
}

#[test]
fn who_has_no_room_for_a_question_may_end_another() {
    let mut questions = questions();
    let memory = &mut questions.memory;
    while memory.grow(1024) {}
    assert!(matches!(
        questions.open(1, question()),
        Err(Refused::TooManyQuestions)
    ));
    while questions.memory.grow(1) {}
    assert!(matches!(
        questions.take_id(1),
        Err(Refused::TooManyQuestions)
    ));
    assert!(questions.by_namespace.is_empty() && questions.by_key.is_empty());
    questions.memory.shrink(8 * 1024);
    assert!(questions.open(1, question()).is_ok());
}

proptest! {
    #[test]
    fn no_question_takes_more_than_it_weighs(
        parts in prop::collection::vec((0_usize..64, 0_usize..254, any::<bool>()), 1..400),
    ) {
        let asked: Vec<_> = parts.iter().zip(0..).map(|((short, long, is_new), number)| {
            let mut asked = of_a_node(if *is_new { number } else { 0 });
            asked.connector.namespace = format!("{}{:.short$}", if *is_new { number } else { 0 }, "n".repeat(60));
            asked.connector.name = "c".repeat(*long);
            asked.subject.name = "s".repeat(*long);
            asked
        }).collect();
        let (taken, weight) = taken(&asked, "x");
        // Four places of the smallest table, a node of each tree.
        prop_assert!(taken <= weight + 2048, "{} of {}", taken, weight);
    }
}

#[test]
fn who_may_ask_nothing_yet_asks_little_and_goes_on_when_he_may() {
    let mut questions = Questions::new(
        unproven(),
        Arc::new(ChangeMarks::new(QuestionKeys::default())),
    );
    let mut id = 0;
    while !questions.is_unproven_and_full() {
        let mut longest = about(&format!("{id:063}"), &"u".repeat(63));
        for name in [&mut longest.subject.name, &mut longest.connector.name] {
            *name = "n".repeat(253);
        }
        longest.pod.as_mut().unwrap().name = "p".repeat(253);
        longest.subject.namespace = "s".repeat(63);
        longest.verb = "v".repeat(63);
        questions.take_id(id).unwrap();
        questions.open(id, longest).unwrap();
        id += 1;
    }
    assert!(id > 10, "{id}");
    while questions.take_id(id).is_ok() {
        id += 1;
    }
    assert!(matches!(questions.take_id(id), Err(Refused::TooManyIds)));
    questions.allow(&format!("{:063}", 0));
    assert!(!questions.is_unproven_and_full());
    questions.take_id(id).unwrap();
    questions.open(id, question()).unwrap();
}

#[test]
fn a_namespace_is_reviewed_once_while_anybody_asks_about_it() {
    let mut questions = questions();
    for id in 0..4 {
        let namespace = if id == 3 { "other" } else { "tools" };
        questions.open(id, about(namespace, "a")).unwrap();
    }
    assert_eq!(questions.next_unreviewed().as_deref(), Some("tools"));
    assert_eq!(questions.next_unreviewed().as_deref(), Some("other"));
    assert_eq!(questions.next_unreviewed(), None);
    questions.review_again();
    questions.review_again();
    questions.close(3);
    questions.close(0);
    assert_eq!(questions.next_unreviewed().as_deref(), Some("tools"));
    assert_eq!(questions.next_unreviewed(), None);
    questions.open(4, about("other", "a")).unwrap();
    assert_eq!(questions.next_unreviewed().as_deref(), Some("other"));
    questions.review_again();
    questions.open(6, about("a-later-one", "a")).unwrap();
    let third = std::iter::repeat_with(|| questions.next_unreviewed().unwrap()).nth(2);
    assert_eq!(third.as_deref(), Some("a-later-one"));
    questions.open(5, about("gone", "a")).unwrap();
    questions.close(5);
    assert_eq!(questions.next_unreviewed(), None);
}

#[test]
fn a_question_waits_until_its_namespace_is_allowed() {
    let mut questions = questions();
    questions.open(1, about("tools", "a")).unwrap();
    questions.open(2, about("other", "a")).unwrap();
    questions.touch(&WorldChange::Everything);
    assert!(news(&mut questions, "x").is_empty());
    questions.allow("tools");
    assert_eq!(news(&mut questions, "x"), [1]);
    assert_eq!(questions.refuse("other"), BTreeSet::from([2]));
    assert_eq!(questions.refuse("nobody's"), BTreeSet::new());
    questions.allow("other");
    assert!(!questions.is_dirty());
    assert_eq!(questions.len(), 1);
}
