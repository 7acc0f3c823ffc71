//! The problems of each class, and those that were told.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
};

use connectors_api::class_reason::ClassEvent;

/// A class that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassRef {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// An event to write about a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToldOfClass {
    /// The event.
    pub event: ClassEvent,
    /// As a sentence.
    pub note: String,
}

/// The classes that have a problem, or were told about one. Others take no room.
#[derive(Debug, Default)]
pub struct ClassNotes {
    classes: BTreeMap<String, ClassNote>,
    /// The class that was told about last: the next one in the order of names has its turn.
    last: String,
}

#[derive(Debug)]
struct ClassNote {
    uid: String,
    /// The present problem; none when every template can be parsed.
    now: Option<String>,
    /// The problem that was told last, unless its end was told too.
    told: Option<String>,
}

impl ClassNotes {
    /// A class is there, with this problem or none.
    pub fn there(&mut self, name: &str, uid: &str, problem: Option<String>) {
        let known = self.classes.remove(name).filter(|it| it.uid == uid);
        let note = ClassNote {
            uid: uid.to_owned(),
            now: problem,
            told: known.and_then(|it| it.told),
        };
        if note.now.is_some() || note.told.is_some() {
            self.classes.insert(name.to_owned(), note);
        }
    }

    /// A class is gone, and nothing is left to tell about it.
    pub fn gone(&mut self, name: &str) {
        self.classes.remove(name);
    }

    /// The next event, which counts as told. Each class that is due has its turn before one has a second.
    pub fn next_due(&mut self) -> Option<(ClassRef, ToldOfClass)> {
        let is_due = |(_, note): &(&String, &ClassNote)| note.now != note.told;
        let after = (Excluded(self.last.clone()), Unbounded);
        let later = self.classes.range(after).find(is_due);
        let (name, _) = later.or_else(|| self.classes.iter().find(is_due))?;
        let name = name.clone();
        let mut note = self.classes.remove(&name)?;
        let class = ClassRef {
            name: name.clone(),
            uid: note.uid.clone(),
        };
        note.told.clone_from(&note.now);
        let told = match &note.now {
            Some(problem) => ToldOfClass {
                event: ClassEvent::TemplatesUnreadable,
                note: format!("no pod gets the file of such a template: {problem}"),
            },
            None => ToldOfClass {
                event: ClassEvent::TemplatesReadable,
                note: "all templates can be parsed".to_owned(),
            },
        };
        self.last.clone_from(&name);
        if note.told.is_some() {
            self.classes.insert(name, note);
        }
        Some((class, told))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A class has this problem, or none.
    fn write(notes: &mut ClassNotes, name: &str, uid: &str, problem: &str) {
        let problem = Some(problem.to_owned()).filter(|it| !it.is_empty());
        notes.there(name, uid, problem);
    }

    /// The next event, as the name of the class, the event and the end of the note.
    fn due(notes: &mut ClassNotes) -> Option<String> {
        let (class, told) = notes.next_due()?;
        let end = told.note.rsplit(": ").next().unwrap_or_default();
        Some(format!("{} {} {end}", class.name, told.event))
    }

    #[test]
    fn a_problem_is_told_once_and_so_is_its_end() {
        let mut notes = ClassNotes::default();
        write(&mut notes, "a", "1", "x");
        assert_eq!(due(&mut notes).unwrap(), "a TemplatesUnreadable x");
        // The class was written, and its templates are the same.
        write(&mut notes, "a", "1", "x");
        assert_eq!(due(&mut notes), None);
        write(&mut notes, "a", "1", "y");
        assert_eq!(due(&mut notes).unwrap(), "a TemplatesUnreadable y");
        write(&mut notes, "a", "1", "");
        assert_eq!(
            due(&mut notes).unwrap(),
            "a TemplatesReadable all templates can be parsed"
        );
        assert_eq!(due(&mut notes), None);
        assert!(notes.classes.is_empty());
        // The same mistake again is another one.
        write(&mut notes, "a", "1", "x");
        assert_eq!(due(&mut notes).unwrap(), "a TemplatesUnreadable x");
    }

    #[test]
    fn a_state_that_passed_before_its_turn_is_not_told() {
        let mut notes = ClassNotes::default();
        for number in 0..100 {
            write(&mut notes, "a", "1", &number.to_string());
        }
        assert_eq!(due(&mut notes).unwrap(), "a TemplatesUnreadable 99");
        write(&mut notes, "a", "1", "y");
        write(&mut notes, "a", "1", "99");
        assert_eq!(due(&mut notes), None);
        write(&mut notes, "b", "2", "x");
        write(&mut notes, "b", "2", "");
        write(&mut notes, "c", "3", "x");
        notes.gone("c");
        assert_eq!(due(&mut notes), None);
        assert_eq!(notes.classes.len(), 1);
    }

    #[test]
    fn a_new_class_under_an_old_name_is_told_about_anew() {
        let mut notes = ClassNotes::default();
        write(&mut notes, "a", "1", "x");
        due(&mut notes);
        write(&mut notes, "a", "2", "x");
        let (class, _) = notes.next_due().unwrap();
        assert_eq!(class.uid, "2");
        write(&mut notes, "a", "3", "");
        assert_eq!(due(&mut notes), None);
    }

    #[test]
    fn a_class_that_changes_without_end_delays_no_other() {
        let mut notes = ClassNotes::default();
        write(&mut notes, "b", "2", "x");
        write(&mut notes, "c", "3", "x");
        let mut told = String::new();
        for number in 0..4 {
            write(&mut notes, "a", "1", &number.to_string());
            told += &notes.next_due().unwrap().0.name;
        }
        assert_eq!(told, "abca");
    }
}
