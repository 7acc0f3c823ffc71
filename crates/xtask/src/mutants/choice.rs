//! Which faults a change asks for.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
};

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

/// So many faults, always the same at one commit.
pub(super) fn by_commit(all: &[Fault], count: usize) -> anyhow::Result<Vec<&Fault>> {
    let head = changes::head(&e2e::repository())?;
    println!("{count} of {} faults, chosen by commit {head}", all.len());
    Ok(choose(all, &BTreeSet::new(), count, &head))
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
    fn without_a_change_others_alone_are_tried_and_never_more_than_there_are() {
        let all = super::super::fault::all(&e2e::repository()).unwrap();
        let none = BTreeSet::new();
        assert_eq!(choose(&all, &none, 0, "a").len(), 0);
        assert_eq!(choose(&all, &none, 3, "a").len(), 3);
        assert_eq!(choose(&all, &none, usize::MAX, "a").len(), all.len());
    }
}
