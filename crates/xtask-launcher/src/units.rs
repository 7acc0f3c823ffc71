//! The dependencies in a target directory.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

/// Cargo's folder with a record for each thing that it compiled; a profile's folder is known by it.
const RECORDS: &str = ".fingerprint";
/// Cargo's folders with compiled dependencies, and with the output of build scripts.
const RESULTS: [&str; 2] = ["deps", "build"];
/// How deep profiles lie: `debug`, `x86_64-unknown-linux-gnu/release`, `fuzz/x86_64-unknown-linux-gnu/release`.
const DEPTH: usize = 3;

/// The folders of profiles below a target directory, relative to it.
pub(crate) fn profiles(target: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    search(target, Path::new(""), DEPTH, &mut found)?;
    Ok(found)
}

fn search(root: &Path, at: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let folder = root.join(at);
    if folder.join(RECORDS).is_dir() {
        found.push(at.to_path_buf());
        return Ok(());
    }
    if depth == 0 {
        return Ok(());
    }
    for name in names(&folder)? {
        if folder.join(&name).is_dir() {
            search(root, &at.join(name), depth - 1, found)?;
        }
    }
    Ok(())
}

/// The entries of a profile's folder that belong to dependencies, relative to it: records last, since cargo believes them.
pub(crate) fn of_dependencies(profile: &Path, own: &BTreeSet<String>) -> io::Result<Vec<PathBuf>> {
    let records: Vec<String> = names(&profile.join(RECORDS))?
        .into_iter()
        .filter(|record| hash_of(record).is_some_and(|(name, _)| !own.contains(name)))
        .collect();
    let hashes: BTreeSet<&str> = records
        .iter()
        .filter_map(|record| hash_of(record).map(|(_, hash)| hash))
        .collect();
    let mut entries = Vec::new();
    for folder in RESULTS {
        for name in names(&profile.join(folder))? {
            let stem = name.split('.').next().unwrap_or_default();
            if hash_of(stem).is_some_and(|(_, hash)| hashes.contains(hash)) {
                entries.push(Path::new(folder).join(name));
            }
        }
    }
    let records = records.iter().map(|record| Path::new(RECORDS).join(record));
    entries.extend(records);
    Ok(entries)
}

/// How many dependencies these entries are.
pub(crate) fn count(entries: &[PathBuf]) -> usize {
    let is_record = |entry: &&PathBuf| entry.starts_with(RECORDS);
    entries.iter().filter(is_record).count()
}

/// `serde-0123456789abcdef`: the package and the hash of all inputs of its compilation.
fn hash_of(name: &str) -> Option<(&str, &str)> {
    let (package, hash) = name.rsplit_once('-')?;
    let is_hash = hash.len() == 16 && hash.bytes().all(|it| it.is_ascii_hexdigit());
    is_hash.then_some((package, hash))
}

/// The packages of the workspaces of this repository: their folders' manifests name them.
pub(crate) fn own_packages(repository: &Path) -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut open = vec![(repository.to_path_buf(), 0)];
    while let Some((folder, depth)) = open.pop() {
        if let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) {
            found.extend(name_of(&manifest));
        }
        // `e2e/workload` and `crates/authz` are the deepest.
        if depth == 2 {
            continue;
        }
        for name in names(&folder)? {
            let inside = folder.join(&name);
            if inside.is_dir() && !name.starts_with('.') && name != "target" {
                open.push((inside, depth + 1));
            }
        }
    }
    Ok(found)
}

fn name_of(manifest: &str) -> Option<String> {
    let (_, package) = manifest.split_once("[package]")?;
    let line = package.lines().find(|line| line.starts_with("name"))?;
    let (_, name) = line.split_once('"')?;
    let (name, _) = name.split_once('"')?;
    Some(name.to_owned())
}

pub(crate) fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        // A name that is not text is no file of cargo's.
        names.extend(entry?.file_name().into_string().ok());
    }
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_hash_is_told_from_other_names() {
        assert_eq!(
            hash_of("serde-0123456789abcdef"),
            Some(("serde", "0123456789abcdef"))
        );
        assert_eq!(
            hash_of("libring_core-0123456789abcdef").map(|it| it.1),
            Some("0123456789abcdef")
        );
        for name in [
            "serde",
            "rand-core",
            "serde-0123456789abcde",
            "serde-0123456789abcdeg",
        ] {
            assert_eq!(hash_of(name), None, "{name}");
        }
    }

    #[test]
    fn every_package_of_the_repository_is_its_own() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .nth(2)
            .unwrap();
        let own = own_packages(repository).unwrap();
        let workspace = fs::read_to_string(repository.join("Cargo.toml")).unwrap();
        let (_, members) = workspace.split_once("members = [").unwrap();
        let (members, _) = members.split_once(']').unwrap();
        for member in members.split('"').skip(1).step_by(2) {
            let manifest = fs::read_to_string(repository.join(member).join("Cargo.toml")).unwrap();
            assert!(own.contains(&name_of(&manifest).unwrap()), "{member}");
        }
        // A workspace of its own.
        assert!(own.contains("fuzz"));
    }
}
