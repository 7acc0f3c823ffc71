//! The questions of one stream: which of them a change can make a difference to, and what was said last.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hash, RandomState};
use std::mem::size_of;

use evaluation_api::access::{AccessAnswer, AccessQuestion};
use evaluation_api::v1;
use prost::Message;
use sha2::{Digest, Sha256};

use crate::error::Refused;
use crate::watched::{UNPROVEN, Watched};
use crate::world::{About, Change};

/// Questions that a stream carries at the same time.
pub(crate) const MOST_OPEN: usize = 10_000;
/// Ids that a stream ever saw: they may not be used twice, so they are remembered.
const MOST_IDS: usize = 200_000;

/// What the allocator adds to a block.
const BLOCK: usize = 24;
/// A set of ids has its first block with room for eleven; a full one falls into two that are half full.
const IDS: usize = 11 * size_of::<u64>() + 16 + BLOCK;
/// What an id that was seen takes, while the table of ids grows.
const ID: usize = growing(size_of::<u64>());
/// What a question takes besides its text: itself, and the ids that are kept for what it is about and among those
/// that are to be looked at.
const QUESTION: usize = size_of::<Open>() + 8 * BLOCK + 2 * IDS;
/// Its places in tables, which stay as large as they ever were.
const QUESTION_PLACE: usize =
    growing(size_of::<(u64, Box<Open>)>()) + growing(size_of::<(u64, BTreeSet<u64>)>());
/// What a namespace takes that is asked about: its ids, and its name here and where it is known whether it may be.
const NAMESPACE: usize = IDS + 2 * (LONGEST_LABEL + BLOCK);
const LONGEST_LABEL: usize = 63;
/// Its places in tables.
const NAMESPACE_PLACE: usize = 2 * growing(size_of::<(String, Namespace)>());

/// No question takes more, with all that it brings and names as long as they may be.
const LARGEST: usize = 4096;

/// What an entry takes of a table that grows: more than half of the new one is empty, and the old one is there still.
const fn growing(entry: usize) -> usize {
    (entry + 1) * 24 / 7
}

/// The questions of a stream.
#[derive(Debug)]
pub(crate) struct Questions {
    watched: Watched,
    hashing: RandomState,
    open: HashMap<u64, Box<Open>>,
    ids: HashSet<u64>,
    /// By the hash of what they are about. Where two hashes meet, one question too many is looked at.
    by_tuple: HashMap<u64, BTreeSet<u64>>,
    by_namespace: HashMap<String, Namespace>,
    /// Of those, the ones about which nobody has found out whether the caller may ask, or not lately: whoever is
    /// always asking about something new keeps none of them from its turn.
    unreviewed: BTreeMap<u64, String>,
    /// The next one's number in that order.
    turn: u64,
    /// To be looked at.
    dirty: BTreeSet<u64>,
    /// As many questions and namespaces as there ever were at one time.
    most: (usize, usize),
}

/// A namespace that somebody asks about.
#[derive(Debug, Default)]
struct Namespace {
    ids: BTreeSet<u64>,
    /// Its questions are not looked at before the caller may ask them.
    is_allowed: bool,
    /// Its place among those that are to be reviewed.
    turn: Option<u64>,
}

#[derive(Debug)]
struct Open {
    question: AccessQuestion,
    said: Option<Said>,
}

/// An answer, whenever it was found, in so many bytes however much it says.
#[derive(Debug, PartialEq, Eq)]
struct Said([u8; 32]);

impl Said {
    fn of(answer: &AccessAnswer) -> Self {
        let mut told: v1::AccessAnswer = answer.clone().into();
        told.fresh_as_of = None;
        Self(Sha256::digest(told.encode_to_vec()).into())
    }
}

impl Open {
    fn weight(question: &AccessQuestion) -> usize {
        let AccessQuestion {
            subject,
            connector,
            permission: _,
            verb,
            pod,
        } = question;
        let pod = pod
            .iter()
            .map(|pod| pod.name.capacity() + pod.uid.capacity());
        let names = [
            &subject.namespace,
            &subject.name,
            &connector.namespace,
            &connector.name,
            verb,
        ];
        let names: usize = names.into_iter().map(String::capacity).sum();
        QUESTION + names + pod.sum::<usize>()
    }
}

impl Questions {
    pub(crate) fn new(watched: Watched) -> Self {
        Self {
            watched,
            hashing: RandomState::new(),
            open: HashMap::new(),
            ids: HashSet::new(),
            by_tuple: HashMap::new(),
            by_namespace: HashMap::new(),
            unreviewed: BTreeMap::new(),
            turn: 0,
            dirty: BTreeSet::new(),
            most: (0, 0),
        }
    }

    /// Weighs a question that is about to be there: what goes with it, and the places that stay.
    fn weigh(&self, question: &AccessQuestion) -> (usize, usize) {
        let mut weight = (Open::weight(question), 0);
        if self.open.len() >= self.most.0 {
            weight.1 += QUESTION_PLACE;
        }
        if !self.has_namespace(&question.connector.namespace) {
            weight.0 += NAMESPACE;
            if self.by_namespace.len() >= self.most.1 {
                weight.1 += NAMESPACE_PLACE;
            }
        }
        weight
    }

    /// Takes an id, for good. Every error but that there is no room ends the stream: nobody could tell
    /// afterwards what an answer under this id is about.
    pub(crate) fn take_id(&mut self, id: u64) -> Result<(), Refused> {
        if self.ids.contains(&id) {
            return Err(Refused::IdTwice(id));
        }
        if self.ids.len() >= MOST_IDS {
            return Err(Refused::TooManyIds);
        }
        if self.watched.grow(ID) {
            self.ids.insert(id);
            Ok(())
        } else if self.watched.is_proven() {
            // Others have the room. What is on the stream goes on, and the id stays free.
            Err(Refused::TooManyQuestions)
        } else {
            Err(Refused::TooManyIds)
        }
    }

    /// Takes a question under an id that was taken for it.
    pub(crate) fn open(&mut self, id: u64, question: AccessQuestion) -> Result<(), Refused> {
        if self.open.len() >= MOST_OPEN {
            return Err(Refused::TooManyQuestions);
        }
        let (going, staying) = self.weigh(&question);
        if !self.watched.grow(going + staying) {
            return Err(Refused::TooManyQuestions);
        }
        if let Some(about) = About::of_question(&question) {
            let hash = self.hashing.hash_one(about);
            self.by_tuple.entry(hash).or_default().insert(id);
        }
        let name = &question.connector.namespace;
        if !self.has_namespace(name) {
            let new = Namespace {
                turn: Some(self.turn),
                ..Namespace::default()
            };
            self.by_namespace.insert(name.clone(), new);
            self.unreviewed.insert(self.turn, name.clone());
            self.turn += 1;
        }
        let namespace = self.by_namespace.entry(name.clone()).or_default();
        namespace.ids.insert(id);
        if namespace.is_allowed {
            self.dirty.insert(id);
        }
        let said = None;
        self.open.insert(id, Box::new(Open { question, said }));
        let now = (self.open.len(), self.by_namespace.len());
        self.most = (self.most.0.max(now.0), self.most.1.max(now.1));
        Ok(())
    }

    /// Forgets a question; one that is unknown is ignored.
    pub(crate) fn close(&mut self, id: u64) {
        let Some(open) = self.open.remove(&id) else {
            return;
        };
        let question = open.question;
        self.dirty.remove(&id);
        if let Some(about) = About::of_question(&question) {
            let hash = self.hashing.hash_one(about);
            remove(&mut self.by_tuple, &hash, id, |ids| ids);
        }
        let namespace = &question.connector.namespace;
        let gone = remove(&mut self.by_namespace, namespace, id, |it| &mut it.ids);
        if let Some(turn) = gone.and_then(|gone| gone.turn) {
            self.unreviewed.remove(&turn);
        }
        // Its places stay.
        let (going, _) = self.weigh(&question);
        self.watched.shrink(going);
    }

    /// True when nothing was found to be allowed yet, and so much was asked that the next question waits for that.
    pub(crate) fn is_unproven_and_full(&self) -> bool {
        !self.watched.is_proven() && self.watched.weight() >= UNPROVEN - LARGEST
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// A namespace about which has to be found out whether the caller may ask.
    pub(crate) fn next_unreviewed(&mut self) -> Option<String> {
        let (_, namespace) = self.unreviewed.pop_first()?;
        if let Some(found) = self.by_namespace.get_mut(&namespace) {
            found.turn = None;
        }
        Some(namespace)
    }

    /// What was allowed once need not be allowed any more.
    pub(crate) fn review_again(&mut self) {
        for (name, namespace) in &mut self.by_namespace {
            if namespace.turn.is_none() {
                namespace.turn = Some(self.turn);
                self.unreviewed.insert(self.turn, name.clone());
                self.turn += 1;
            }
        }
    }

    fn has_namespace(&self, namespace: &str) -> bool {
        self.by_namespace.contains_key(namespace)
    }

    /// The caller may ask about a namespace: what waited for that is looked at.
    pub(crate) fn allow(&mut self, namespace: &str) {
        if let Some(namespace) = self.by_namespace.get_mut(namespace)
            && !namespace.is_allowed
        {
            namespace.is_allowed = true;
            self.dirty.extend(&namespace.ids);
            self.watched.prove();
        }
    }

    /// The caller may not, or not any more. Every question about the namespace is over.
    pub(crate) fn refuse(&mut self, namespace: &str) -> BTreeSet<u64> {
        let namespace = self.by_namespace.get(namespace);
        let ids = namespace.map(|it| it.ids.clone()).unwrap_or_default();
        for id in &ids {
            self.close(*id);
        }
        ids
    }

    /// Something changed.
    pub(crate) fn touch(&mut self, change: &Change) {
        match change {
            Change::Tuple(tuple) => {
                let hash = self.hashing.hash_one(tuple.about());
                let ids = self.by_tuple.get(&hash).into_iter().flatten();
                self.dirty.extend(ids);
            }
            Change::Namespace(namespace) => {
                let namespace = self.by_namespace.get(namespace);
                self.dirty
                    .extend(namespace.into_iter().flat_map(|it| &it.ids));
            }
            Change::Everything => self.dirty.extend(self.open.keys()),
        }
    }

    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Looks at what is to be looked at until something new is to be said, but not at more than `most`.
    pub(crate) fn news(
        &mut self,
        most: usize,
        answer: impl Fn(&AccessQuestion) -> AccessAnswer,
    ) -> Option<(u64, AccessAnswer)> {
        for _ in 0..most {
            let id = self.dirty.pop_first()?;
            let Some(open) = self.open.get_mut(&id) else {
                continue;
            };
            let namespace = self.by_namespace.get(&open.question.connector.namespace);
            if !namespace.is_some_and(|it| it.is_allowed) {
                continue;
            }
            let now = answer(&open.question);
            let said = Some(Said::of(&now));
            if open.said != said {
                open.said = said;
                return Some((id, now));
            }
        }
        None
    }
}

/// Takes an id out of its set, and what has the set out of the index when it was the last.
fn remove<K: Eq + Hash, V>(
    index: &mut HashMap<K, V>,
    key: &K,
    id: u64,
    ids: impl Fn(&mut V) -> &mut BTreeSet<u64>,
) -> Option<V> {
    let ids = ids(index.get_mut(key)?);
    ids.remove(&id);
    if ids.is_empty() {
        return index.remove(key);
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use allocation_counter::measure;
    use evaluation_api::access::Decision;
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::question;
    use crate::world::Tuple;

    fn questions() -> Questions {
        let mut watched = Watched::new(Arc::default(), Arc::default());
        watched.prove();
        Questions::new(watched)
    }

    fn said(reason: &str) -> AccessAnswer {
        AccessAnswer {
            decision: Decision::Denied,
            reason: reason.to_owned(),
            request: None,
            fresh_as_of: None,
        }
    }

    /// What is said when everything has this reason.
    fn news(questions: &mut Questions, reason: &str) -> Vec<u64> {
        let mut ids = Vec::new();
        while questions.is_dirty() {
            let news = questions.news(1, |_| said(reason));
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
        questions.touch(&Change::Everything);
        assert!(news(&mut questions, "x").is_empty());
        questions.touch(&Change::Everything);
        assert_eq!(news(&mut questions, "y"), [1, 2, 3]);
    }

    #[test]
    fn a_change_concerns_its_own_questions() {
        let mut questions = three();
        news(&mut questions, "x");
        questions.touch(&Change::Namespace("tools".to_owned()));
        assert_eq!(news(&mut questions, "y"), [1, 2]);
        let tuple = Tuple::of_question(&about("tools", "b")).unwrap();
        questions.touch(&Change::Tuple(tuple));
        assert_eq!(news(&mut questions, "z"), [2]);
        questions.touch(&Change::Namespace("nobody's".to_owned()));
        assert!(!questions.is_dirty());
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
        questions.touch(&Change::Everything);
        assert_eq!(news(&mut questions, "x"), [2, 3]);
        for id in [2, 3] {
            questions.close(id);
        }
        assert!(questions.by_tuple.is_empty() && questions.by_namespace.is_empty());
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
        let info = measure(|| {
            let mut questions = questions();
            for (id, asked) in (0..).zip(asked) {
                questions.take_id(id).unwrap();
                questions.open(id, asked.clone()).unwrap();
                questions.allow(&asked.connector.namespace);
            }
            news(&mut questions, message);
            questions.touch(&Change::Everything);
            news(&mut questions, "other");
            weight = questions.watched.weight();
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

    #[test]
    fn tables_that_stay_large_stay_weighed() {
        let mut questions = questions();
        let all = |questions: &mut Questions, ids: std::ops::Range<u64>| {
            for id in ids.clone() {
                questions
                    .open(id, about(&format!("n{id:04}"), "a"))
                    .unwrap();
            }
            let most = questions.watched.weight();
            ids.for_each(|id| questions.close(id));
            (most, questions.watched.weight())
        };
        let first = all(&mut questions, 0..500);
        assert!(questions.by_namespace.capacity() >= 500);
        assert_eq!(first.1, 500 * (QUESTION_PLACE + NAMESPACE_PLACE));
        assert_eq!(all(&mut questions, 500..1000), first);
    }

    #[test]
    fn who_has_no_room_for_a_question_may_end_another() {
        let mut questions = questions();
        let watched = &mut questions.watched;
        while watched.grow(1024) {}
        assert!(matches!(
            questions.open(1, question()),
            Err(Refused::TooManyQuestions)
        ));
        while questions.watched.grow(1) {}
        assert!(matches!(
            questions.take_id(1),
            Err(Refused::TooManyQuestions)
        ));
        assert!(questions.by_namespace.is_empty() && questions.by_tuple.is_empty());
        questions.watched.shrink(8 * 1024);
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
        let mut questions = Questions::new(Watched::new(Arc::default(), Arc::default()));
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
        questions.touch(&Change::Everything);
        assert!(news(&mut questions, "x").is_empty());
        questions.allow("tools");
        assert_eq!(news(&mut questions, "x"), [1]);
        assert_eq!(questions.refuse("other"), BTreeSet::from([2]));
        assert_eq!(questions.refuse("nobody's"), BTreeSet::new());
        questions.allow("other");
        assert!(!questions.is_dirty());
        assert_eq!(questions.len(), 1);
    }
}
