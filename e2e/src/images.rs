//! Container images made offline: our own programs with the shared libraries they need, as OCI archives.
//!
//! No Docker, no base image, no shell inside. The same programs give the same bytes.

mod libraries;
mod oci;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

pub use libraries::LibrariesError;

use crate::{
    cluster::layout::{cache_dir, repository},
    command::{CommandError, Tool},
};
use oci::Entry;

/// An image of the local cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Image {
    /// What holds a pod's namespaces open.
    Pause,
    /// The test workload.
    Workload,
    /// The cluster's DNS.
    Coredns,
}

/// An image as a file that a container runtime can import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archive {
    /// Where it is.
    pub path: PathBuf,
    /// Under which name it will be known.
    pub reference: String,
}

/// Why an image could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The programs could not be built.
    #[error("cannot build the programs for the images")]
    Build(#[source] CommandError),
    /// A program's shared libraries could not be found.
    #[error(transparent)]
    Libraries(#[from] LibrariesError),
    /// The contents do not fit into an archive.
    #[error("cannot put the image together")]
    Archive(#[source] io::Error),
    /// A file could not be read or written.
    #[error("cannot use {path}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

impl Image {
    /// The images whose programs are in this repository.
    pub const OWN: [Self; 2] = [Self::Pause, Self::Workload];

    /// The image's short name, also its program's.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Workload => "workload",
            Self::Coredns => "coredns",
        }
    }

    /// The full name in pods; nothing is ever pulled under it.
    #[must_use]
    pub fn reference(self) -> String {
        format!("localhost/connectors-approval/{}:dev", self.name())
    }
}

/// The release binaries of this repository that go into images.
#[derive(Debug)]
pub struct Programs {
    dir: PathBuf,
}

impl Programs {
    /// The program of one of [`Image::OWN`].
    #[must_use]
    pub fn program(&self, image: Image) -> PathBuf {
        self.dir.join(image.name())
    }
}

/// Builds the release binaries with the cargo that runs us.
pub fn build_programs() -> Result<Programs, ImageError> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    // Cargo runs in another directory than we do, and for this machine whatever else is built for.
    let target = std::path::absolute(&target).unwrap_or(target);
    Tool::ending_with_us(cargo)
        .dir(repository())
        .without_env("CARGO_BUILD_TARGET")
        .args([
            "build",
            "--release",
            "--quiet",
            "--locked",
            "--package",
            "workload",
            "--target-dir",
        ])
        .args([&target])
        .run()
        .map_err(ImageError::Build)?;
    Ok(Programs {
        dir: target.join("release"),
    })
}

/// Makes the image of one program in the cache; an image that is there already is used as it is.
pub fn make(image: Image, program: &Path) -> Result<Archive, ImageError> {
    let bytes = oci::archive(&image.reference(), image.name(), &contents(image, program)?)
        .map_err(ImageError::Archive)?;
    let dir = cache_dir().join("images");
    let path = dir.join(format!(
        "{}-{}.tar",
        image.name(),
        &oci::digest(&bytes)[..16]
    ));
    let archive = Archive {
        path,
        reference: image.reference(),
    };
    if !archive.path.is_file() {
        fs::create_dir_all(&dir).map_err(at(&dir))?;
        // Moved into place whole, and under a name of this process: others may be making the same.
        let unfinished = dir.join(format!(
            "{}.{}.unfinished",
            image.name(),
            std::process::id()
        ));
        fs::write(&unfinished, bytes).map_err(at(&unfinished))?;
        fs::rename(&unfinished, &archive.path).map_err(at(&archive.path))?;
    }
    Ok(archive)
}

/// The files of an image: the program, what the loader needs, and who "nonroot" is.
fn contents(image: Image, program: &Path) -> Result<Vec<Entry>, ImageError> {
    let file = |inside: String, outside: &Path, mode| -> Result<Entry, ImageError> {
        let content = fs::read(outside).map_err(at(outside))?;
        Ok(Entry {
            path: inside,
            content,
            mode,
        })
    };
    let mut entries = vec![
        file(image.name().to_owned(), program, 0o755)?,
        Entry {
            path: "etc/passwd".to_owned(),
            content: b"root:x:0:0::/:/none\nnonroot:x:65532:65532::/:/none\n".to_vec(),
            mode: 0o644,
        },
        Entry {
            path: "etc/nsswitch.conf".to_owned(),
            content: b"hosts: files dns\n".to_vec(),
            mode: 0o644,
        },
    ];
    for library in libraries::of(program)? {
        let inside = library
            .display()
            .to_string()
            .trim_start_matches('/')
            .to_owned();
        entries.push(file(inside, &library, 0o755)?);
    }
    Ok(entries)
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> ImageError {
    let path = path.to_path_buf();
    move |source| ImageError::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_made_twice_is_the_same_to_the_byte() {
        let program = env::current_exe().unwrap();
        let make = || {
            let contents = contents(Image::Workload, &program).unwrap();
            oci::archive("localhost/x:dev", "x", &contents).unwrap()
        };
        assert!(make() == make());
    }

    #[test]
    fn a_dynamic_program_brings_its_loader_and_libraries() {
        let contents = contents(Image::Workload, &env::current_exe().unwrap()).unwrap();
        let paths: Vec<&str> = contents.iter().map(|entry| entry.path.as_str()).collect();
        assert!(
            paths.iter().any(|path| path.contains("libc.so")),
            "{paths:?}"
        );
        assert!(
            paths.iter().any(|path| path.contains("ld-linux")),
            "{paths:?}"
        );
    }
}
