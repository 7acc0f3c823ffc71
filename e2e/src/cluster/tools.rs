//! The cluster's own programs, and a few others, built by the ordinary Go client from the modules under `e2e/tools`.
//!
//! Each module is built once into the cache, under a key made of everything that decides the result.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::layout::{Layout, cache_dir, repository};
use crate::{
    command::{CommandError, Tool},
    hex::hex,
    progress::Progress,
};

/// The Kubernetes release that `e2e/tools/kubernetes` pins; a test holds the two together.
pub(crate) const KUBERNETES_VERSION: &str = "v1.35.4";

/// Why the tools are not there.
#[derive(Debug, thiserror::Error)]
pub enum ToolsError {
    /// A file of the module or the cache.
    #[error("cannot use {path}")]
    File {
        /// Which file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The Go client failed.
    #[error("cannot build the tools of module {module}")]
    Build {
        /// The folder's name under `e2e/tools`.
        module: &'static str,
        /// The client's own words.
        #[source]
        source: CommandError,
    },
}

/// One Go module that pins tools, or is one.
struct Module {
    name: &'static str,
    /// The packages that Go builds: the tools that it pins, or its own program.
    builds: &'static str,
    /// The output file when the module pins one tool; with several, Go names them.
    single: Option<&'static str>,
    /// Go's packages whose variables carry the version.
    version_packages: &'static [&'static str],
    /// Build tags, which leave out parts that are not needed here.
    tags: &'static str,
}

/// All tools that a module pins.
const PINNED_TOOLS: &str = "tool";
/// The program in the module's folder.
const OWN_PROGRAM: &str = ".";

const MODULES: [Module; 3] = [
    Module {
        name: "etcd",
        builds: PINNED_TOOLS,
        single: Some("etcd"),
        version_packages: &[],
        tags: "",
    },
    Module {
        name: "kubernetes",
        builds: PINNED_TOOLS,
        single: None,
        version_packages: &[
            "k8s.io/component-base/version",
            "k8s.io/client-go/pkg/version",
        ],
        tags: "",
    },
    Module {
        name: "coredns",
        builds: PINNED_TOOLS,
        single: Some("coredns"),
        version_packages: &[],
        tags: "",
    },
];

/// Not part of a cluster: it is built when something is first installed or rendered.
const HELM: Module = Module {
    name: "helm",
    builds: PINNED_TOOLS,
    single: Some("helm"),
    version_packages: &[],
    tags: "",
};

/// Finds Helm in the cache, or builds it.
pub(crate) fn helm(progress: &Progress) -> Result<PathBuf, ToolsError> {
    Ok(HELM.ensure(progress)?.join("helm"))
}

/// Not part of a cluster: the tool that the documents recommend to callers of the evaluation service.
const GRPCURL: Module = Module {
    name: "grpcurl",
    builds: PINNED_TOOLS,
    single: Some("grpcurl"),
    version_packages: &[],
    tags: "",
};

/// Finds grpcurl in the cache, or builds it.
pub fn grpcurl(progress: &Progress) -> Result<PathBuf, ToolsError> {
    Ok(GRPCURL.ensure(progress)?.join("grpcurl"))
}

/// Not part of a cluster: the program for comparison with the evaluation of checks.
const OPA: Module = Module {
    name: "opa",
    builds: PINNED_TOOLS,
    single: Some("opa"),
    version_packages: &[],
    tags: "",
};

/// Finds the kubectl of the pinned Kubernetes in the cache, or builds all tools of a cluster.
pub fn kubectl(progress: &Progress) -> Result<PathBuf, ToolsError> {
    Ok(Tools::ensure(progress)?.path("kubectl"))
}

/// Finds the server of Open Policy Agent in the cache, or builds it.
pub fn opa(progress: &Progress) -> Result<PathBuf, ToolsError> {
    Ok(OPA.ensure(progress)?.join("opa"))
}

/// Not part of a cluster: it scrapes one, and its `promtool` tests rules. It is built with one way to find targets and
/// without its pages.
const PROMETHEUS: Module = Module {
    name: "prometheus",
    builds: PINNED_TOOLS,
    single: None,
    version_packages: &[],
    tags: "remove_all_sd,enable_kubernetes_sd",
};

/// The folder with `prometheus` and `promtool`, in the cache; built if need be.
pub fn prometheus(progress: &Progress) -> Result<PathBuf, ToolsError> {
    PROMETHEUS.ensure(progress)
}

/// Not part of a cluster: the program for comparison with the templates of classes.
const TEMPLATE: Module = Module {
    name: "template",
    builds: OWN_PROGRAM,
    single: Some("template"),
    version_packages: &[],
    tags: "",
};

/// Finds the program that renders with Go's own packages in the cache, or builds it.
pub fn template(progress: &Progress) -> Result<PathBuf, ToolsError> {
    Ok(TEMPLATE.ensure(progress)?.join("template"))
}

/// Not part of a cluster: the conformance suite that the CSI driver is held to.
const SANITY: Module = Module {
    name: "sanity",
    builds: OWN_PROGRAM,
    single: Some("sanity"),
    version_packages: &[],
    tags: "",
};

/// Finds the program that runs csi-sanity in the cache, or builds it.
pub fn sanity(progress: &Progress) -> Result<PathBuf, ToolsError> {
    Ok(SANITY.ensure(progress)?.join("sanity"))
}

/// Not part of a cluster: a client of registries and of Maven repositories, for tests of the files that pods mount.
const CLIENTS: Module = Module {
    name: "clients",
    builds: OWN_PROGRAM,
    single: Some("tool-client"),
    version_packages: &[],
    tags: "",
};

/// Finds the client of registries and of Maven repositories in the cache, or builds it.
pub(crate) fn clients(progress: &Progress) -> Result<PathBuf, ToolsError> {
    Ok(CLIENTS.ensure(progress)?.join("tool-client"))
}

/// The directories of all built tools.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Tools {
    dirs: Vec<PathBuf>,
}

impl Tools {
    /// Finds the tools in the cache, and builds the missing ones.
    pub(crate) fn ensure(progress: &Progress) -> Result<Self, ToolsError> {
        let dirs = MODULES
            .iter()
            .map(|module| module.ensure(progress))
            .collect::<Result<_, _>>()?;
        Ok(Self { dirs })
    }

    /// The tools with which a cluster was started, even if the sources have changed since.
    pub(crate) fn of_cluster(layout: &Layout) -> Result<Self, ToolsError> {
        let path = layout.tools_file();
        let text = fs::read(&path).map_err(at(&path))?;
        serde_json::from_slice(&text).map_err(|source| at(&path)(source.into()))
    }

    /// Remembers these tools as a cluster's own.
    pub(crate) fn remember(&self, layout: &Layout) -> Result<(), ToolsError> {
        let path = layout.tools_file();
        let text = serde_json::to_vec(self).map_err(|source| at(&path)(source.into()))?;
        fs::write(&path, text).map_err(at(&path))
    }

    /// A tool's path; every name that is asked for is one that a module pins.
    pub(crate) fn path(&self, tool: &str) -> PathBuf {
        let built = self.dirs.iter().map(|dir| dir.join(tool));
        built
            .into_iter()
            .find(|path| path.is_file())
            .unwrap_or_else(|| PathBuf::from(tool))
    }

    pub(crate) fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }
}

impl Module {
    fn ensure(&self, progress: &Progress) -> Result<PathBuf, ToolsError> {
        let source = repository().join("e2e/tools").join(self.name);
        let parent = cache_dir().join("tools");
        let ldflags = self.ldflags();
        let target = parent.join(format!("{}-{}", self.name, self.key(&source, &ldflags)?));
        if target.is_dir() {
            return Ok(target);
        }
        fs::create_dir_all(&parent).map_err(at(&parent))?;
        let _lock = lock(&parent.join(format!("{}.lock", self.name)))?;
        if target.is_dir() {
            return Ok(target); // another process built it while we waited
        }
        progress.step(
            &format!(
                "building the tools of e2e/tools/{} with Go (once; minutes)",
                self.name
            ),
            || self.build(&source, &target, &ldflags),
        )?;
        Ok(target)
    }

    fn build(&self, source: &Path, target: &Path, ldflags: &str) -> Result<(), ToolsError> {
        // Built beside its place and moved there at the end, so that an interrupted build leaves no half tool.
        let unfinished = target.with_extension("unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(at(&unfinished))?;
        }
        fs::create_dir_all(&unfinished).map_err(at(&unfinished))?;
        let output = match self.single {
            Some(file) => unfinished.join(file),
            None => unfinished.join(""),
        };
        Tool::ending_with_us("go")
            .dir(source)
            .env("CGO_ENABLED", "0")
            .env("GOFLAGS", "-mod=readonly -buildvcs=false -trimpath")
            .args(["build", "-tags", self.tags, "-ldflags", ldflags, "-o"])
            .args([output.as_os_str(), self.builds.as_ref()])
            .run()
            .map_err(|source| ToolsError::Build {
                module: self.name,
                source,
            })?;
        fs::rename(&unfinished, target).map_err(at(target))
    }

    /// Without the version the API server calls itself v0.0.0 and clients' version checks fail.
    fn ldflags(&self) -> String {
        let mut numbers = KUBERNETES_VERSION.trim_start_matches('v').split('.');
        let (major, minor) = (numbers.next().unwrap_or("0"), numbers.next().unwrap_or("0"));
        let variables = self.version_packages.iter().map(|package| {
            format!(" -X {package}.gitVersion={KUBERNETES_VERSION} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}")
        });
        format!("-s -w{}", variables.collect::<String>())
    }

    fn key(&self, source: &Path, ldflags: &str) -> Result<String, ToolsError> {
        let go_version = Tool::new("go")
            .dir(source)
            .args(["env", "GOVERSION", "GOARCH"])
            .output()
            .map_err(|source| ToolsError::Build {
                module: self.name,
                source,
            })?;
        let mut digest = Sha256::new();
        let mut files = vec!["go.mod", "go.sum"];
        if self.builds == OWN_PROGRAM {
            files.push("main.go");
        }
        for file in files {
            let path = source.join(file);
            digest.update(fs::read(&path).map_err(at(&path))?);
        }
        digest.update(ldflags);
        digest.update(self.tags);
        digest.update(go_version);
        Ok(hex(&digest.finalize())[..16].to_owned())
    }
}

/// Waits for an exclusive lock; it is released when the file is closed, also by a crash.
fn lock(path: &Path) -> Result<File, ToolsError> {
    let file = File::create(path).map_err(at(path))?;
    file.lock().map_err(at(path))?;
    Ok(file)
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> ToolsError {
    let path = path.to_path_buf();
    move |source| ToolsError::File { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_the_module_pins() {
        let go_mod = repository().join("e2e/tools/kubernetes/go.mod");
        let text = fs::read_to_string(go_mod).unwrap();
        assert!(text.contains(&format!("k8s.io/kubernetes {KUBERNETES_VERSION}")));
        let staging = KUBERNETES_VERSION.replacen("v1", "v0", 1);
        let replaced = text.lines().filter(|line| line.contains(" => "));
        assert!(replaced.clone().count() > 20);
        for line in replaced {
            assert!(line.ends_with(&staging), "{line}");
        }
    }
}
