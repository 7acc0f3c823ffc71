//! Which faults a change asks for.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
};

use jiff::civil::Date;

use super::fault::Fault;
use crate::changes;

/// The faults of files that changed, and so many others, which are always the same at one commit.
pub(super) fn by_change(all: &[Fault], others: usize) -> anyhow::Result<Vec<&Fault>> {
    let root = e2e::repository();
    let base = changes::branch_point(&root)?;
    let files: BTreeSet<PathBuf> = changes::files(&root, &base)?.into_iter().collect();
    let chosen = choose(all, &files, others, &changes::head(&root)?);
    let touched = chosen.iter().filter(|it| is_in(it, &files)).count();
    println!(
        "{} files have changed since {base}: {touched} faults are in them, {} others are tried",
        files.len(),
        chosen.len() - touched
    );
    Ok(chosen)
}

/// So many faults, those without a day first, and then those of the earliest days.
pub(super) fn by_age<'a>(
    all: &'a [Fault],
    days: &BTreeMap<&str, Date>,
    count: usize,
) -> Vec<&'a Fault> {
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by_key(|it| (days.get(it.name.as_str()), &it.name));
    all.truncate(count);
    all
}

/// How many faults a test run tries, and in how many packages.
pub(super) struct Sample {
    pub(super) faults: usize,
    pub(super) packages: usize,
}

/// A sample of the faults, always the same at one commit. Each fault has its turn at some commit.
pub(super) fn by_commit<'a>(all: &'a [Fault], sample: &Sample) -> anyhow::Result<Vec<&'a Fault>> {
    let head = changes::head(&e2e::repository())?;
    let chosen = sample.of(all, &head);
    println!(
        "{} of {} faults, chosen by commit {head}",
        chosen.len(),
        all.len()
    );
    Ok(chosen)
}

impl Sample {
    fn of<'a>(&self, all: &'a [Fault], seed: &str) -> Vec<&'a Fault> {
        let mut places = BTreeSet::new();
        let mut chosen = choose(all, &BTreeSet::new(), usize::MAX, seed);
        chosen.retain(|it| {
            places.contains(&it.place())
                || places.len() < self.packages && places.insert(it.place())
        });
        chosen.truncate(self.faults);
        chosen
    }
}

fn choose<'a>(
    all: &'a [Fault],
    files: &BTreeSet<PathBuf>,
    others: usize,
    seed: &str,
) -> Vec<&'a Fault> {
    let (mut chosen, mut rest): (Vec<_>, Vec<_>) = all.iter().partition(|it| is_in(it, files));
    rest.sort_by_cached_key(|it| {
        let mut hasher = DefaultHasher::new();
        (seed, &it.name).hash(&mut hasher);
        hasher.finish()
    });
    chosen.extend(rest.into_iter().take(others));
    chosen
}

/// Whether a fault, or the file that describes it, is among these files.
fn is_in(fault: &Fault, files: &BTreeSet<PathBuf>) -> bool {
    let described = Path::new(super::fault::FOLDER).join(format!("{}.toml", fault.name));
    files.contains(Path::new(&fault.file)) || files.contains(&described)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(faults: &[&Fault]) -> Vec<String> {
        faults.iter().map(|it| it.name.clone()).collect()
    }

    #[test]
    fn faults_of_changed_files_come_first_and_then_some_by_the_commit() {
        let all = super::super::fault::all(&e2e::repository()).unwrap();
        let file = PathBuf::from("crates/request-controller/src/plan/pace.rs");
        let described =
            PathBuf::from("crates/campaign/mutants/foreign-pods-are-told-everything.toml");
        let files = BTreeSet::from([file.clone(), described]);
        let of_files = all
            .iter()
            .filter(|it| {
                Path::new(&it.file) == file || it.name == "foreign-pods-are-told-everything"
            })
            .count();
        assert!(of_files > 1);
        let chosen = choose(&all, &files, 10, "a");
        assert_eq!(chosen.len(), of_files + 10);
        assert!(chosen[..of_files].iter().all(|it| is_in(it, &files)));
        let chosen = names(&chosen);
        assert_eq!(chosen, names(&choose(&all, &files, 10, "a")));
        let other = names(&choose(&all, &files, 10, "b"));
        assert_eq!(chosen[..of_files], other[..of_files]);
        assert_ne!(chosen[of_files..], other[of_files..]);
    }

    #[test]
    fn a_sample_is_of_few_packages_and_of_other_ones_at_another_commit() {
        let all = super::super::fault::all(&e2e::repository()).unwrap();
        let sample = |faults, packages| Sample { faults, packages };
        let places = |seed: &str| {
            let chosen = sample(6, 2).of(&all, seed);
            assert!(chosen.len() <= 6);
            let places = chosen.iter().map(|it| it.place());
            places.collect::<BTreeSet<_>>()
        };
        let mut seen = BTreeSet::new();
        for seed in 0..100 {
            let places = places(&seed.to_string());
            assert!((1..=2).contains(&places.len()), "{places:?}");
            seen.extend(places);
        }
        assert!(seen.len() > 8, "{seen:?}");
        assert_eq!(sample(0, 2).of(&all, "a").len(), 0);
        assert_eq!(sample(6, 0).of(&all, "a").len(), 0);
    }

    #[test]
    fn without_a_change_others_alone_are_tried_and_never_more_than_there_are() {
        let all = super::super::fault::all(&e2e::repository()).unwrap();
        let none = BTreeSet::new();
        assert_eq!(choose(&all, &none, 0, "a").len(), 0);
        assert_eq!(choose(&all, &none, 3, "a").len(), 3);
        assert_eq!(choose(&all, &none, usize::MAX, "a").len(), all.len());
    }
}
