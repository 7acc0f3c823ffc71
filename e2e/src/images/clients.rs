//! The image with the clients of tools, and with the front that they call in tests.
//!
//! curl and git are those of this machine, as containerd is: its distribution chooses their release, and corrects them.
//! kubectl is the cluster's own, and the Go client comes from the module `e2e/tools/clients`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use super::{
    Archive, Entry, Image, ImageError, accounts, entry, libraries, oci, programs_dir, store,
    stripped,
};
use crate::{
    cluster::{preflight, tools},
    command::{Tool, find_program},
    progress::Progress,
};

/// The programs of this machine.
const OF_MACHINE: [&str; 2] = ["curl", "git"];
/// What git starts for a repository behind HTTP, with the program that each is a copy of.
const OF_GIT: [(&str, &str); 3] = [
    ("git-remote-http", "git-remote-http"),
    ("git-remote-https", "git-remote-http"),
    ("git-http-fetch", "git-http-fetch"),
];

/// Makes the image in the cache. The programs of this workspace are built already.
pub fn clients(kubectl: &Path, progress: &Progress) -> Result<Archive, ImageError> {
    preflight::install_clients()?;
    let (mut programs, mut copies) = (BTreeMap::new(), Vec::new());
    for name in ["workload", "tool-front"] {
        let copy = stripped(&programs_dir().join(name))?;
        programs.insert(name.to_owned(), copy.path().to_owned());
        copies.push(copy);
    }
    programs.insert("kubectl".to_owned(), kubectl.to_owned());
    programs.insert("tool-client".to_owned(), tools::clients(progress)?);
    programs.extend(of_machine()?);
    let entries = entries(&programs)?;
    let image = Image::Clients;
    let bytes =
        oci::archive(&image.reference(), "workload", &entries).map_err(ImageError::Archive)?;
    store(image, bytes)
}

/// curl and git, by their paths in the image.
fn of_machine() -> Result<BTreeMap<String, PathBuf>, ImageError> {
    let mut programs = BTreeMap::new();
    for name in OF_MACHINE {
        let program = find_program(name).ok_or(ImageError::Missing(name))?;
        programs.insert(format!("usr/bin/{name}"), program);
    }
    let helpers = Tool::new("git").args(["--exec-path"]).output();
    let helpers = helpers.map_err(ImageError::Git)?;
    let helpers = helpers.trim();
    for (name, program) in OF_GIT {
        let inside = format!("{}/{name}", helpers.trim_start_matches('/'));
        programs.insert(inside, Path::new(helpers).join(program));
    }
    Ok(programs)
}

/// The programs, and once the libraries that any of them needs.
fn entries(programs: &BTreeMap<String, PathBuf>) -> Result<Vec<Entry>, ImageError> {
    let mut entries = accounts();
    let mut shared = BTreeSet::new();
    for (inside, program) in programs {
        entries.push(entry(inside.clone(), program)?);
        shared.extend(libraries::of(program)?);
    }
    for library in shared {
        entries.push(entry(super::inside(&library), &library)?);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_two_programs_is_in_the_image_once() {
        let program = std::env::current_exe().unwrap();
        let programs = ["a", "b"].map(|name| (name.to_owned(), program.clone()));
        let entries = entries(&programs.into()).unwrap();
        let paths: Vec<_> = entries.iter().map(|it| it.path.as_str()).collect();
        assert!(paths.contains(&"a") && paths.contains(&"b"), "{paths:?}");
        let libc = paths.iter().filter(|it| it.contains("libc.so"));
        assert_eq!(libc.count(), 1, "{paths:?}");
    }
}
