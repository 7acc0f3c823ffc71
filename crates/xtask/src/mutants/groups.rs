//! Faults in groups that are planted together, so that few builds judge all.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Range,
};

use anyhow::Context;

use super::fault::Fault;

/// Faults of which no two touch the same text.
#[derive(Default)]
struct Compatible<'a> {
    faults: Vec<&'a Fault>,
    places: Vec<(&'a str, Range<usize>)>,
}

impl<'a> Compatible<'a> {
    /// Whether the fault was added. The text that one fault writes must not be the text that another one seeks.
    fn add(&mut self, fault: &'a Fault, place: &Range<usize>) -> bool {
        let file = fault.file.as_str();
        let overlaps = self.places.iter().any(|(other, taken)| {
            *other == file && place.start <= taken.end && taken.start <= place.end
        });
        let writes = |one: &Fault, other: &Fault| one.replace.contains(&other.find);
        let confuses = self
            .faults
            .iter()
            .any(|other| other.file == file && (writes(fault, other) || writes(other, fault)));
        let fits = !overlaps && !confuses;
        if fits {
            self.faults.push(fault);
            self.places.push((file, place.clone()));
        }
        fits
    }
}

/// The faults in few groups, each of which can be planted at once.
pub(super) fn of<'a>(
    all: impl IntoIterator<Item = &'a Fault>,
    read: impl Fn(&str) -> anyhow::Result<String>,
) -> anyhow::Result<Vec<Vec<&'a Fault>>> {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let mut groups: Vec<Compatible<'_>> = Vec::new();
    for fault in all {
        let text = match texts.entry(&fault.file) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(read(&fault.file)?),
        };
        fault.planted_in(text)?;
        let start = text.find(&fault.find).context("planted_in has found it")?;
        let place = start..start + fault.find.len();
        if !groups.iter_mut().any(|it| it.add(fault, &place)) {
            let mut group = Compatible::default();
            group.add(fault, &place);
            groups.push(group);
        }
    }
    Ok(groups.into_iter().map(|it| it.faults).collect())
}

/// Asks about all at once, and about halves where that fails: adds each fault that fails alone.
pub(super) fn narrow<'a>(
    faults: &[&'a Fault],
    failed: &mut Vec<(&'a Fault, String)>,
    passes: &mut impl FnMut(&[&Fault]) -> anyhow::Result<Result<(), String>>,
) -> anyhow::Result<()> {
    match (faults, passes(faults)?) {
        (_, Ok(())) | ([], Err(_)) => {}
        ([fault], Err(why)) => failed.push((fault, why)),
        (_, Err(_)) => {
            let (first, second) = faults.split_at(faults.len() / 2);
            narrow(first, failed, passes)?;
            narrow(second, failed, passes)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::fault::Campaign;

    fn fault(name: &str, find: &str, replace: &str) -> Fault {
        Fault {
            name: name.to_owned(),
            breaks: "I1".to_owned(),
            says: "A door stays open.".to_owned(),
            file: "door.rs".to_owned(),
            find: find.to_owned(),
            replace: replace.to_owned(),
            package: "door".to_owned(),
            program: None,
            tests: Vec::new(),
            campaign: Campaign::Blind("No door.".to_owned()),
        }
    }

    fn named(faults: &[&Fault]) -> Vec<String> {
        faults.iter().map(|it| it.name.clone()).collect()
    }

    #[test]
    fn faults_that_touch_the_same_text_are_planted_apart() {
        let all = [
            fault("a", "one two", "x"),
            fault("b", "two", "y"),
            fault("c", "four", "z"),
            fault("d", "five", "the four"),
        ];
        let text = "one two three four - five";
        let groups = of(&all, |_| Ok(text.to_owned())).unwrap();
        let names: Vec<_> = groups.iter().map(|it| named(it)).collect();
        assert_eq!(names, [vec!["a", "c"], vec!["b", "d"]]);
    }

    #[test]
    fn a_fault_that_cannot_be_planted_is_an_error() {
        let all = [fault("a", "six", "x")];
        let error = of(&all, |_| Ok("one".to_owned())).unwrap_err();
        assert_eq!(error.to_string(), "a: the text stands 0 times in door.rs");
    }

    #[test]
    fn each_fault_that_fails_alone_is_named_and_no_other() {
        let all: Vec<_> = ["a", "b", "c", "d", "e"]
            .map(|it| fault(it, it, "x"))
            .into();
        let faults: Vec<_> = all.iter().collect();
        let mut failed = Vec::new();
        narrow(&faults, &mut failed, &mut |asked| {
            let bad = asked
                .iter()
                .any(|it| ["b", "e"].contains(&it.name.as_str()));
            Ok(if bad { Err("no".to_owned()) } else { Ok(()) })
        })
        .unwrap();
        let failed: Vec<_> = failed.iter().map(|(it, _)| *it).collect();
        assert_eq!(named(&failed), ["b", "e"]);
    }
}
