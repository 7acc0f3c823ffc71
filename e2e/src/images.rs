//! Container images made offline: our own programs with the shared libraries they need, as OCI archives.
//!
//! No Docker, no base image, no shell inside. The same programs give the same bytes.

mod clients;
mod libraries;
mod oci;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

pub use clients::clients;
pub use libraries::LibrariesError;

use crate::{
    cluster::{
        layout::{cache_dir, repository},
        preflight::PreflightError,
        tools::ToolsError,
    },
    command::{CommandError, Tool},
};
use oci::Entry;

/// Where the local cluster's images seem to come from; nothing there is ever asked.
pub const REGISTRY: &str = "localhost/connectors-approval";

/// The tag of every image of the local cluster.
pub const TAG: &str = "dev";

/// How long an archive that newer ones replaced stays in the cache: another process may be loading it.
const KEPT: Duration = Duration::from_hours(24);

/// An image of the local cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Image {
    /// The container that holds a pod's namespaces open.
    Pause,
    /// The test workload.
    Workload,
    /// The clients of tools, and the front that they call.
    Clients,
    /// The cluster's DNS.
    Coredns,
    /// One of the services that the chart installs.
    EvaluationService,
    /// One of the services that the chart installs.
    PolicyController,
    /// One of the services that the chart installs.
    RequestController,
    /// One of the services that the chart installs.
    Webhook,
    /// One of the services that the chart installs.
    CsiNode,
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
    /// A program could not be made smaller.
    #[error("cannot strip a program")]
    Strip(#[source] CommandError),
    /// A program's shared libraries could not be found.
    #[error(transparent)]
    Libraries(#[from] LibrariesError),
    /// A program of the image of clients is not there.
    #[error("there is no `{0}` in PATH")]
    Missing(&'static str),
    /// git did not say where its helpers are.
    #[error("cannot find the helpers of git")]
    Git(#[source] CommandError),
    /// The packages with the clients are not there.
    #[error(transparent)]
    Packages(#[from] PreflightError),
    /// A client could not be built.
    #[error(transparent)]
    Tools(#[from] ToolsError),
    /// The contents do not fit into an archive.
    #[error("cannot put the image together")]
    Archive(#[source] io::Error),
    /// A file could not be read or written.
    #[error("cannot use {path}")]
    File {
        /// Which file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl Image {
    /// The images that the chart installs.
    pub const SERVICES: [Self; 5] = [
        Self::EvaluationService,
        Self::PolicyController,
        Self::RequestController,
        Self::Webhook,
        Self::CsiNode,
    ];

    /// The images that the local cluster and the tests need besides; their programs are one package.
    pub const WORKLOADS: [Self; 2] = [Self::Pause, Self::Workload];

    /// The image's short name, also its program's.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Workload => "workload",
            Self::Clients => "clients",
            Self::Coredns => "coredns",
            Self::EvaluationService => "evaluation-service",
            Self::PolicyController => "policy-controller",
            Self::RequestController => "request-controller",
            Self::Webhook => "webhook",
            Self::CsiNode => "csi-node",
        }
    }

    /// The full name in pods; nothing is ever pulled under it.
    #[must_use]
    pub fn reference(self) -> String {
        format!("{REGISTRY}/{}:{TAG}", self.name())
    }
}

/// How programs are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// As a developer runs and tests them.
    Dev,
    /// As `deploy/images` makes them for production.
    Release,
}

/// The packages of `deploy/images/Dockerfile`: their programs are optimized as a whole, which takes a minute or more each.
const RELEASED: [&str; 12] = [
    "--release",
    "--bins",
    "--package",
    "evaluation-service",
    "--package",
    "policy-controller",
    "--package",
    "request-controller",
    "--package",
    "webhook",
    "--package",
    "workload",
];

/// The static program of `deploy/images/Dockerfile`, for [`static_target`].
const RELEASED_STATIC: [&str; 4] = ["--release", "--bins", "--package", "csi-node"];

impl Profile {
    /// The selection of packages for cargo. In the dev profile services are built like the tests, so that no
    /// crate is compiled twice.
    fn selection(self, images: &[Image]) -> &'static [&'static str] {
        let is_service = images.iter().any(|image| Image::SERVICES.contains(image));
        match self {
            Self::Release => &RELEASED,
            Self::Dev if is_service => {
                &["--workspace", "--all-features", "--bins", "--test", "node"]
            }
            Self::Dev => &["--package", "workload", "--bins"],
        }
    }

    /// Where cargo puts the program of an image.
    fn program(self, image: Image) -> PathBuf {
        let dir = match (self, image) {
            (Self::Dev, _) => PathBuf::from("debug"),
            (Self::Release, Image::CsiNode) => Path::new(&static_target()).join("release"),
            (Self::Release, _) => PathBuf::from("release"),
        };
        target_dir().join(dir).join(image.name())
    }
}

/// The target of static programs for this machine.
#[must_use]
pub fn static_target() -> String {
    format!("{}-unknown-linux-musl", env::consts::ARCH)
}

/// The compiler for the little C in the dependencies of a static program, as a variable for cargo. That C calls no
/// libc, so that the usual compiler serves.
pub const STATIC_CC: (&str, &str) = ("TARGET_CC", "cc");

/// Builds the programs of all images, and those of users and tests, with the cargo that runs us.
pub fn build_programs() -> Result<(), ImageError> {
    cargo_build(&Image::SERVICES, Profile::Dev)
}

fn cargo_build(images: &[Image], profile: Profile) -> Result<(), ImageError> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = |selection: &[&str]| {
        Tool::ending_with_us(&cargo)
            .dir(repository())
            .without_env("CARGO_BUILD_TARGET")
            .args(["build", "--locked"])
            .args(selection)
            .args(["--target-dir".as_ref(), target_dir().as_os_str()])
    };
    let run = |tool: Tool| tool.run().map_err(ImageError::Build);
    if profile == Profile::Release && images.contains(&Image::CsiNode) {
        let (variable, compiler) = STATIC_CC;
        let tool = build(&RELEASED_STATIC).args(["--target", &static_target()]);
        run(tool.env(variable, compiler))?;
    }
    run(build(profile.selection(images)))
}

/// Builds the programs of some images, and makes an archive of each, or finds it made.
pub fn build(images: &[Image], profile: Profile) -> Result<Vec<Archive>, ImageError> {
    cargo_build(images, profile)?;
    let archives = images.iter().map(|image| {
        let stripped = stripped(&profile.program(*image))?;
        make(*image, stripped.path())
    });
    archives.collect()
}

/// Where cargo puts our programs of the dev profile.
#[must_use]
pub fn programs_dir() -> PathBuf {
    target_dir().join("debug")
}

/// Cargo runs in another directory than this process, and always builds for this machine.
fn target_dir() -> PathBuf {
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    std::path::absolute(&target).unwrap_or(target)
}

/// A copy of a program without its debug information, which is most of a development build.
fn stripped(program: &Path) -> Result<tempfile::NamedTempFile, ImageError> {
    let copy = tempfile::NamedTempFile::new().map_err(at(&env::temp_dir()))?;
    Tool::new("strip")
        .args(["--strip-debug", "-o"])
        .args([copy.path(), program])
        .output()
        .map_err(ImageError::Strip)?;
    Ok(copy)
}

/// Makes the image of one program in the cache; an image that is there already is used as it is.
pub fn make(image: Image, program: &Path) -> Result<Archive, ImageError> {
    let bytes = oci::archive(&image.reference(), image.name(), &contents(image, program)?)
        .map_err(ImageError::Archive)?;
    store(image, bytes)
}

/// The archive of these bytes, in the cache.
fn store(image: Image, bytes: Vec<u8>) -> Result<Archive, ImageError> {
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
        remove_replaced(&dir, image);
    }
    Ok(archive)
}

/// Every build of a program is another archive. Old archives only take room, so a failure does not matter.
fn remove_replaced(dir: &Path, image: Image) {
    let is_of_image = |file: &fs::DirEntry| {
        let name = file.file_name().to_string_lossy().into_owned();
        let rest = name
            .strip_prefix(image.name())
            .and_then(|rest| rest.strip_prefix('-'));
        rest.and_then(|rest| rest.strip_suffix(".tar"))
            .is_some_and(|key| key.len() == 16)
    };
    let is_old = |file: &fs::DirEntry| {
        let age = file
            .metadata()
            .and_then(|data| data.modified())
            .map(|time| time.elapsed());
        matches!(age, Ok(Ok(age)) if age > KEPT)
    };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    for file in entries.filter(|file| is_of_image(file) && is_old(file)) {
        let _ = fs::remove_file(file.path());
    }
}

/// The files of an image: the program, the libraries of the loader, and the entry of the user "nonroot".
fn contents(image: Image, program: &Path) -> Result<Vec<Entry>, ImageError> {
    let mut entries = accounts();
    entries.push(entry(image.name().to_owned(), program)?);
    for library in libraries::of(program)? {
        entries.push(entry(inside(&library), &library)?);
    }
    Ok(entries)
}

/// A program or library of this machine.
fn entry(inside: String, outside: &Path) -> Result<Entry, ImageError> {
    let content = fs::read(outside).map_err(at(outside))?;
    Ok(Entry {
        path: inside,
        content,
        mode: 0o755,
    })
}

/// The path in an image of a file that is found there by its path here.
fn inside(path: &Path) -> String {
    path.display()
        .to_string()
        .trim_start_matches('/')
        .to_owned()
}

/// The users of an image, and where host names come from.
fn accounts() -> Vec<Entry> {
    let file = |path: &str, text: &str| Entry {
        path: path.to_owned(),
        content: text.as_bytes().to_vec(),
        mode: 0o644,
    };
    vec![
        file(
            "etc/passwd",
            "root:x:0:0::/:/none\nnonroot:x:65532:65532::/:/none\n",
        ),
        file("etc/nsswitch.conf", "hosts: files dns\n"),
    ]
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> ImageError {
    let path = path.to_path_buf();
    move |source| ImageError::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_builds_are_those_of_the_dockerfile() {
        let file = fs::read_to_string(repository().join("deploy/images/Dockerfile")).unwrap();
        let builds = file.split("cargo build ").skip(1).map(|build| {
            let ends = ["&&", "\n\n"].iter().filter_map(|it| build.find(it));
            let words = build[..ends.min().unwrap()].split_whitespace();
            let words = words.filter(|it| !["\\", "--locked"].contains(it));
            words.collect::<Vec<_>>()
        });
        let builds: Vec<_> = builds.collect();
        let mut released_static = RELEASED_STATIC.to_vec();
        released_static.splice(2..2, ["--target", "$target"]);
        assert_eq!(builds, [RELEASED.to_vec(), released_static]);
    }

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
