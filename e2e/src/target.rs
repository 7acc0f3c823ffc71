//! The cluster that something runs on: the local one, or any whose kubeconfig is given.

use std::{
    ffi::OsString,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    cluster::{Cluster, Launcher, UpError, layout::ClusterName},
    command::{CommandError, Tool, last_lines},
    progress::Progress,
};

/// A cluster to work on.
#[derive(Debug)]
pub struct Target {
    kubectl: Kubectl,
    local: Option<Cluster>,
}

impl Target {
    /// An existing cluster by its kubeconfig, else the local one, brought up when it is down.
    pub fn get(
        kubeconfig: Option<PathBuf>,
        name: &ClusterName,
        launcher: &Launcher,
        progress: &Progress,
    ) -> Result<Self, UpError> {
        match kubeconfig {
            Some(file) => {
                let file = file
                    .canonicalize()
                    .map_err(|source| UpError::Kubeconfig { file, source })?;
                Ok(Self {
                    kubectl: Kubectl::new("kubectl", file),
                    local: None,
                })
            }
            None => Cluster::up(name, launcher, progress).map(Self::of),
        }
    }

    /// A local cluster that is up.
    #[must_use]
    pub fn of(cluster: Cluster) -> Self {
        Self {
            kubectl: cluster.kubectl(),
            local: Some(cluster),
        }
    }

    /// kubectl, pointed at this cluster.
    #[must_use]
    pub fn kubectl(&self) -> &Kubectl {
        &self.kubectl
    }

    /// The cluster when it is one of ours.
    #[must_use]
    pub fn local(&self) -> Option<&Cluster> {
        self.local.as_ref()
    }
}

/// The real kubectl with a kubeconfig.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    cache: Option<PathBuf>,
}

impl Kubectl {
    /// A kubectl program and the kubeconfig it uses.
    pub fn new(program: impl Into<PathBuf>, kubeconfig: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            kubeconfig: kubeconfig.into(),
            cache: None,
        }
    }

    /// Keeps kubectl's cache of the cluster elsewhere than in the home directory.
    #[must_use]
    pub fn with_cache(mut self, dir: PathBuf) -> Self {
        self.cache = Some(dir);
        self
    }

    /// The program itself.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The kubeconfig it uses.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The path of its cache of the cluster, when not in the home directory.
    #[must_use]
    pub fn cache(&self) -> Option<&Path> {
        self.cache.as_deref()
    }

    /// The bare command, for callers that attach it to a terminal.
    #[must_use]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        // kubectl accepts no flag before the name of a plugin.
        command.env("KUBECONFIG", &self.kubeconfig);
        if let Some(cache) = &self.cache {
            command.env("KUBECACHEDIR", cache);
        }
        command
    }

    /// The first arguments of every command line.
    fn flags(&self) -> Vec<OsString> {
        let mut flags = vec!["--kubeconfig".into(), self.kubeconfig.clone().into()];
        if let Some(cache) = &self.cache {
            flags.extend(["--cache-dir".into(), cache.clone().into()]);
        }
        flags
    }

    /// Runs a command line, its words separated by blanks, and gives its output.
    pub fn run(&self, words: &str) -> Result<String, CommandError> {
        self.run_with_input(words, "")
    }

    /// The same with something on standard input.
    pub fn run_with_input(&self, words: &str, input: &str) -> Result<String, CommandError> {
        self.run_on(words, None, input)
    }

    /// The same about a file or a folder of manifests.
    pub fn run_on_file(&self, words: &str, file: &Path) -> Result<String, CommandError> {
        self.run_on(words, Some(file), "")
    }

    fn run_on(
        &self,
        words: &str,
        file: Option<&Path>,
        input: &str,
    ) -> Result<String, CommandError> {
        let kubectl = Tool::ending_with_us(&self.program).args(self.flags());
        let mut command = kubectl.args(words.split(' ')).into_command();
        if let Some(file) = file {
            command.arg("--filename").arg(file);
        }
        let shown = file.map(|file| format!(" --filename {}", file.display()));
        let line = format!("kubectl {words}{}", shown.unwrap_or_default());
        let start = |source| CommandError::Start {
            line: line.clone(),
            source,
        };
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(start)?;
        if let Some(mut stdin) = child.stdin.take() {
            // kubectl may end before it has read everything; its own message then tells why.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(start)?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        } else {
            Err(CommandError::Failed {
                line,
                status: output.status,
                output: last_lines(&String::from_utf8_lossy(&output.stderr), 20),
            })
        }
    }

    /// Creates a namespace and waits until pods can be created in it.
    pub fn create_namespace(&self, name: &str, labels: &[&str]) -> Result<(), CommandError> {
        self.run(&format!("create namespace {name}"))?;
        for label in labels {
            self.run(&format!("label namespace {name} {label}"))?;
        }
        // Pods are refused until the namespace's default service account is there.
        self.run(&format!(
            "wait --for=create serviceaccount/default --namespace {name} --timeout=30s"
        ))?;
        Ok(())
    }

    /// Applies manifests.
    pub fn apply(&self, manifests: &str) -> Result<String, CommandError> {
        self.run_with_input("apply --server-side --force-conflicts -f -", manifests)
    }
}
