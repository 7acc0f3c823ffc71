//! The questions of one stream: which of them a change may affect, and their last answers.

#[cfg(test)]
pub(crate) mod tests;
mod weights;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use std::sync::Arc;

use evaluation_api::access::{AccessAnswer, AccessQuestion};
use evaluation_api::v1;
use prost::Message;
use sha2::{Digest, Sha256};

use crate::error::Refused;
use crate::stream_memory::{StreamMemory, UNPROVEN};
use crate::world::{ChangeMarks, WorldChange};

/// Questions that a stream carries at the same time.
pub(crate) const MOST_OPEN: usize = 10_000;
/// The ids that one stream may use. They may not be used twice, so they are remembered.
const MOST_IDS: usize = 200_000;

/// The questions of a stream.
#[derive(Debug)]
pub(crate) struct Questions {
    memory: StreamMemory,
    marks: Arc<ChangeMarks>,
    open: HashMap<u64, Box<OpenQuestion>>,
    ids: HashSet<u64>,
    /// Each key of a question, with its id.
    by_key: BTreeSet<(u64, u64)>,
    by_namespace: HashMap<String, Namespace>,
    /// The namespaces without a recent review of the caller's right, in a fair order. New namespaces keep none of
    /// them from its turn.
    unreviewed: BTreeMap<u64, String>,
    /// The next number in that order.
    turn: u64,
    /// The questions to be checked.
    dirty: BTreeSet<u64>,
    /// The largest numbers of questions and namespaces so far.
    most: (usize, usize),
}

/// A namespace in the questions.
#[derive(Debug, Default)]
struct Namespace {
    ids: BTreeSet<u64>,
    /// Its questions are not checked before the caller may ask them.
    is_allowed: bool,
    /// Its place among the namespaces to be reviewed.
    turn: Option<u64>,
}

#[derive(Debug)]
struct OpenQuestion {
    question: AccessQuestion,
    said: Option<AnswerDigest>,
}

/// The digest of an answer, independent of time, in a fixed number of bytes.
#[derive(Debug, PartialEq, Eq)]
struct AnswerDigest([u8; 32]);

impl AnswerDigest {
    fn of(answer: &AccessAnswer) -> Self {
        let mut told: v1::AccessAnswer = answer.clone().into();
        told.fresh_as_of = None;
        Self(Sha256::digest(told.encode_to_vec()).into())
    }
}

impl Questions {
    pub(crate) fn new(memory: StreamMemory, marks: Arc<ChangeMarks>) -> Self {
        Self {
            memory,
            marks,
            open: HashMap::new(),
            ids: HashSet::new(),
            by_key: BTreeSet::new(),
            by_namespace: HashMap::new(),
            unreviewed: BTreeMap::new(),
            turn: 0,
            dirty: BTreeSet::new(),
            most: (0, 0),
        }
    }

    /// Weighs a question that will be added: the memory that it returns at its end, and the places that stay.
    fn weigh(&self, question: &AccessQuestion) -> (usize, usize) {
        let mut weight = (weights::question(question), 0);
        if self.open.len() >= self.most.0 {
            weight.1 += weights::QUESTION_PLACE;
        }
        if !self.has_namespace(&question.connector.namespace) {
            weight.0 += weights::NAMESPACE;
            if self.by_namespace.len() >= self.most.1 {
                weight.1 += weights::NAMESPACE_PLACE;
            }
        }
        weight
    }

    /// Takes an id, for good. Every error except a lack of memory ends the stream, because afterwards answers under
    /// this id would be ambiguous.
    pub(crate) fn take_id(&mut self, id: u64) -> Result<(), Refused> {
        if self.ids.contains(&id) {
            return Err(Refused::IdTwice(id));
        }
        if self.ids.len() >= MOST_IDS {
            return Err(Refused::TooManyIds);
        }
        if self.memory.grow(weights::ID) {
            self.ids.insert(id);
            Ok(())
        } else if self.memory.is_proven() {
            // Other callers have the memory. The stream continues, and the id stays free.
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
        if !self.memory.grow(going + staying) {
            return Err(Refused::TooManyQuestions);
        }
        let keys = self.marks.mark(&question);
        self.by_key.extend(keys.iter().map(|key| (key, id)));
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
        self.open
            .insert(id, Box::new(OpenQuestion { question, said }));
        let now = (self.open.len(), self.by_namespace.len());
        self.most = (self.most.0.max(now.0), self.most.1.max(now.1));
        Ok(())
    }

    /// Forgets a question. An unknown one is ignored.
    pub(crate) fn close(&mut self, id: u64) {
        let Some(open) = self.open.remove(&id) else {
            return;
        };
        let question = open.question;
        self.dirty.remove(&id);
        for key in self.marks.keys_of(&question).iter() {
            self.by_key.remove(&(key, id));
        }
        let name = &question.connector.namespace;
        if let Some(namespace) = self.by_namespace.get_mut(name) {
            namespace.ids.remove(&id);
            if namespace.ids.is_empty() {
                let turn = namespace.turn;
                self.by_namespace.remove(name);
                if let Some(turn) = turn {
                    self.unreviewed.remove(&turn);
                }
            }
        }
        // Its places stay.
        let (going, _) = self.weigh(&question);
        self.memory.shrink(going);
    }

    /// True when nothing is allowed yet, and the questions so far fill the limit, so that the next one waits.
    pub(crate) fn is_unproven_and_full(&self) -> bool {
        !self.memory.is_proven() && self.memory.weight() >= UNPROVEN - weights::LARGEST
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// The next namespace for a review of the caller's right.
    pub(crate) fn next_unreviewed(&mut self) -> Option<String> {
        let (_, namespace) = self.unreviewed.pop_first()?;
        if let Some(found) = self.by_namespace.get_mut(&namespace) {
            found.turn = None;
        }
        Some(namespace)
    }

    /// Reviews again, because a right may have been removed.
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

    /// The caller may ask about a namespace: its waiting questions are checked.
    pub(crate) fn allow(&mut self, namespace: &str) {
        if let Some(namespace) = self.by_namespace.get_mut(namespace)
            && !namespace.is_allowed
        {
            namespace.is_allowed = true;
            self.dirty.extend(&namespace.ids);
            self.memory.prove();
        }
    }

    /// The caller may not ask, or no longer. Every question about the namespace ends.
    pub(crate) fn refuse(&mut self, namespace: &str) -> BTreeSet<u64> {
        let namespace = self.by_namespace.get(namespace);
        let ids = namespace.map(|it| it.ids.clone()).unwrap_or_default();
        for id in &ids {
            self.close(*id);
        }
        ids
    }

    /// A change happened.
    pub(crate) fn touch(&mut self, change: &WorldChange) {
        match change {
            WorldChange::Keys(keys) => {
                let named = keys
                    .iter()
                    .flat_map(|key| self.by_key.range((*key, 0)..=(*key, u64::MAX)));
                self.dirty.extend(named.map(|(_, id)| id));
            }
            WorldChange::Namespace(namespace) => {
                let namespace = self.by_namespace.get(namespace);
                self.dirty
                    .extend(namespace.into_iter().flat_map(|it| &it.ids));
            }
            WorldChange::Everything => self.dirty.extend(self.open.keys()),
        }
    }

    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Checks the open questions until one has a new answer, but not more than `most`. A question without an answer
    /// is checked again.
    pub(crate) fn news(
        &mut self,
        most: usize,
        answer: impl FnMut(&AccessQuestion) -> Option<AccessAnswer>,
    ) -> Option<(u64, AccessAnswer)> {
        let mut unanswered = Vec::new();
        let news = self.next_news(most, answer, &mut unanswered);
        self.dirty.extend(unanswered);
        news
    }

    fn next_news(
        &mut self,
        most: usize,
        mut answer: impl FnMut(&AccessQuestion) -> Option<AccessAnswer>,
        unanswered: &mut Vec<u64>,
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
            let Some(now) = answer(&open.question) else {
                unanswered.push(id);
                continue;
            };
            let said = Some(AnswerDigest::of(&now));
            if open.said != said {
                open.said = said;
                return Some((id, now));
            }
        }
        None
    }
}
