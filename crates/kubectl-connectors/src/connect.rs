//! The cluster and the user of the command line.

use std::fmt;
use std::io;
use std::path::PathBuf;

use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use service_kit::client::{self, ConnectError};
use thiserror::Error;

use crate::args::CommonFlags;

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum NoCluster {
    /// The kubeconfig cannot be used.
    #[error("cannot use {0}")]
    Kubeconfig(KubeconfigName, #[source] KubeconfigError),
    /// The kubeconfig is no YAML, or no kubeconfig. The parser quotes the lines around the error, which may hold a token.
    #[error("{0} is no kubeconfig that can be parsed: kubectl config view shows where")]
    Unparsed(KubeconfigName),
    /// There is no kubeconfig, and this is no pod.
    #[error("there is no kubeconfig, and this is no pod: name a file with --kubeconfig")]
    None(#[source] InClusterError),
    /// The configuration makes no client.
    #[error(transparent)]
    Client(#[from] ConnectError),
}

/// The source of the kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeconfigName {
    /// A file of the command line.
    File(PathBuf),
    /// The files of `KUBECONFIG`, or that of the home directory.
    Usual,
}

impl fmt::Display for KubeconfigName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "the kubeconfig {}", path.display()),
            Self::Usual => f.write_str("the kubeconfig of KUBECONFIG or ~/.kube/config"),
        }
    }
}

impl NoCluster {
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "only the parser quotes the file"
    )]
    fn of(name: KubeconfigName, error: KubeconfigError) -> Self {
        match error {
            KubeconfigError::Parse(_) => Self::Unparsed(name),
            error => Self::Kubeconfig(name, error),
        }
    }
}

/// A cluster, as one user.
pub struct Connection {
    /// The client.
    pub client: Client,
    /// The namespace of the command line, otherwise that of the context.
    pub namespace: String,
}

/// Connects, without sending anything yet.
pub async fn connect(flags: &CommonFlags) -> Result<Connection, NoCluster> {
    let mut config = config(flags).await?;
    if let Some(namespace) = &flags.namespace {
        config.default_namespace.clone_from(namespace);
    }
    if let Some(user) = &flags.as_user {
        let auth = &mut config.auth_info;
        auth.impersonate = Some(user.clone());
        auth.impersonate_groups = Some(flags.as_groups.clone());
        // The UID in the kubeconfig belongs to the user that it impersonates.
        auth.impersonate_uid = None;
        auth.impersonate_user_extra = None;
    }
    let namespace = config.default_namespace.clone();
    Ok(Connection {
        client: client::of_config(config)?,
        namespace,
    })
}

async fn config(flags: &CommonFlags) -> Result<Config, NoCluster> {
    let options = KubeConfigOptions {
        context: flags.context.clone(),
        cluster: flags.cluster.clone(),
        user: flags.user.clone(),
    };
    let (name, kubeconfig) = match &flags.kubeconfig {
        Some(path) => (
            KubeconfigName::File(path.clone()),
            Kubeconfig::read_from(path),
        ),
        None => (KubeconfigName::Usual, Kubeconfig::read()),
    };
    let failed = |error| NoCluster::of(name.clone(), error);
    match kubeconfig {
        Ok(kubeconfig) => {
            let config = Config::from_custom_kubeconfig(kubeconfig, &options);
            config.await.map_err(failed)
        }
        // kubectl does the same in a pod.
        Err(error)
            if name == KubeconfigName::Usual && flags.context.is_none() && is_absent(&error) =>
        {
            Config::incluster().map_err(NoCluster::None)
        }
        Err(error) => Err(failed(error)),
    }
}

/// True when there is no file at all.
#[allow(
    clippy::wildcard_enum_match_arm,
    reason = "every other error is about a file that is there"
)]
fn is_absent(error: &KubeconfigError) -> bool {
    match error {
        KubeconfigError::FindPath => true,
        KubeconfigError::ReadConfig(error, _) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser as _;

    use super::*;
    use crate::args::Args;

    const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
current-context: one
contexts:
- {name: one, context: {cluster: c, user: u, namespace: home}}
- {name: two, context: {cluster: c, user: u}}
clusters:
- {name: c, cluster: {server: 'https://localhost:1'}}
users:
- {name: u, user: {token: hunter2, as: boss, as-groups: [bosses]}}
";

    async fn of_file(text: &str, args: &[&str]) -> Result<Config, NoCluster> {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("config");
        fs::write(&path, text).unwrap();
        let path = path.to_str().unwrap().to_owned();
        let fixed = ["kubectl-connectors", "version", "--kubeconfig", &path];
        let args = Args::try_parse_from(fixed.iter().chain(args)).unwrap();
        config(&args.common).await
    }

    async fn configured(args: &[&str]) -> Result<Config, NoCluster> {
        of_file(KUBECONFIG, args).await
    }

    #[tokio::test]
    async fn the_namespace_is_that_of_the_context() {
        let namespace = async |args: &[&str]| configured(args).await.unwrap().default_namespace;
        assert_eq!(namespace(&[]).await, "home");
        assert_eq!(namespace(&["--context", "two"]).await, "default");
    }

    #[tokio::test]
    async fn a_context_that_is_not_there_is_an_error_that_names_the_file() {
        let error = configured(&["--context", "three"]).await.unwrap_err();
        assert!(error.to_string().starts_with("cannot use the kubeconfig /"));
        let text = service_kit::report(&error);
        assert!(
            text.contains("three") && !text.contains("hunter2"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_kubeconfig_that_cannot_be_parsed_is_not_quoted() {
        let broken = KUBECONFIG.replace("token: hunter2", "token: {hunter2: [");
        let error = of_file(&broken, &[]).await.unwrap_err();
        assert!(matches!(error, NoCluster::Unparsed(_)), "{error:?}");
        assert!(!service_kit::report(&error).contains("hunter2"));
    }
}
