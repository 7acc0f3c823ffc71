//! The questions of one stream: which of them a change can make a difference to, and what was said last.

use std::collections::{BTreeSet, HashMap, HashSet};

use evaluation_api::access::{AccessAnswer, AccessQuestion};

use crate::error::Refused;
use crate::world::{Change, Tuple};

/// Questions that a stream carries at the same time.
pub(crate) const MOST_OPEN: usize = 10_000;
/// Ids that a stream ever saw: they may not be used twice, so they are remembered.
const MOST_IDS: usize = 200_000;

/// The questions of a stream.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: HashMap<u64, Open>,
    ids: HashSet<u64>,
    by_tuple: HashMap<Tuple, BTreeSet<u64>>,
    by_namespace: HashMap<String, BTreeSet<u64>>,
    /// To be looked at.
    dirty: BTreeSet<u64>,
}

#[derive(Debug)]
struct Open {
    question: AccessQuestion,
    /// Not looked at before the caller may ask about its namespace.
    is_allowed: bool,
    said: Option<AccessAnswer>,
}

impl Questions {
    /// Takes an id, for good. An error ends the stream: nobody could tell afterwards what an answer
    /// under this id is about.
    pub(crate) fn take_id(&mut self, id: u64) -> Result<(), Refused> {
        if self.ids.len() >= MOST_IDS {
            return Err(Refused::TooManyIds);
        }
        if self.ids.insert(id) {
            Ok(())
        } else {
            Err(Refused::IdTwice(id))
        }
    }

    /// Takes a question under an id that was taken for it.
    pub(crate) fn open(
        &mut self,
        id: u64,
        question: AccessQuestion,
        is_allowed: bool,
    ) -> Result<(), Refused> {
        if self.open.len() >= MOST_OPEN {
            return Err(Refused::TooManyQuestions);
        }
        if let Some(tuple) = Tuple::of_question(&question) {
            self.by_tuple.entry(tuple).or_default().insert(id);
        }
        let namespace = question.connector.namespace.clone();
        self.by_namespace.entry(namespace).or_default().insert(id);
        if is_allowed {
            self.dirty.insert(id);
        }
        let open = Open {
            question,
            is_allowed,
            said: None,
        };
        self.open.insert(id, open);
        Ok(())
    }

    /// Forgets a question; one that is unknown is ignored.
    pub(crate) fn close(&mut self, id: u64) {
        let Some(Open { question, .. }) = self.open.remove(&id) else {
            return;
        };
        self.dirty.remove(&id);
        if let Some(tuple) = Tuple::of_question(&question) {
            remove(&mut self.by_tuple, &tuple, id);
        }
        remove(&mut self.by_namespace, &question.connector.namespace, id);
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Namespaces that somebody asks about.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &String> {
        self.by_namespace.keys()
    }

    pub(crate) fn has_namespace(&self, namespace: &str) -> bool {
        self.by_namespace.contains_key(namespace)
    }

    /// The caller may ask about a namespace: what waited for that is looked at.
    pub(crate) fn allow(&mut self, namespace: &str) {
        let ids = self.by_namespace.get(namespace).into_iter().flatten();
        for id in ids {
            if let Some(open) = self.open.get_mut(id)
                && !open.is_allowed
            {
                open.is_allowed = true;
                self.dirty.insert(*id);
            }
        }
    }

    /// The caller may not, or not any more. Every question about the namespace is over.
    pub(crate) fn refuse(&mut self, namespace: &str) -> BTreeSet<u64> {
        let ids = self.by_namespace.get(namespace).cloned();
        let ids = ids.unwrap_or_default();
        for id in &ids {
            self.close(*id);
        }
        ids
    }

    /// Something changed.
    pub(crate) fn touch(&mut self, change: &Change) {
        match change {
            Change::Tuple(tuple) => {
                let ids = self.by_tuple.get(tuple).into_iter().flatten();
                self.dirty.extend(ids);
            }
            Change::Namespace(namespace) => {
                let ids = self.by_namespace.get(namespace).into_iter().flatten();
                self.dirty.extend(ids);
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
            let Some(open) = self.open.get_mut(&id).filter(|open| open.is_allowed) else {
                continue;
            };
            let now = answer(&open.question);
            let is_news = open
                .said
                .as_ref()
                .is_none_or(|before| !now.says_the_same_as(before));
            if is_news {
                open.said = Some(now.clone());
                return Some((id, now));
            }
        }
        None
    }
}

fn remove<K: Eq + std::hash::Hash>(index: &mut HashMap<K, BTreeSet<u64>>, key: &K, id: u64) {
    if let Some(ids) = index.get_mut(key) {
        ids.remove(&id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use evaluation_api::access::Decision;

    use super::*;
    use crate::fixtures::question;

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
        let mut questions = Questions::default();
        for (id, namespace, uid) in [(1, "tools", "a"), (2, "tools", "b"), (3, "other", "a")] {
            questions.take_id(id).unwrap();
            questions.open(id, about(namespace, uid), true).unwrap();
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
        let mut questions = Questions::default();
        for id in 0..=MOST_OPEN as u64 {
            let opened = questions.open(id, question(), true);
            assert_eq!(opened.is_ok(), id < MOST_OPEN as u64);
        }
        for id in 0..=MOST_IDS as u64 {
            assert_eq!(questions.take_id(id).is_ok(), id < MOST_IDS as u64);
        }
    }

    #[test]
    fn a_question_waits_until_its_namespace_is_allowed() {
        let mut questions = Questions::default();
        questions.open(1, about("tools", "a"), false).unwrap();
        questions.open(2, about("other", "a"), false).unwrap();
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
