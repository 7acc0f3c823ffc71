//! The cluster and the user of the command line.

use std::env;
use std::fmt;
use std::io;
use std::path::PathBuf;

use kube::config::{
    AuthInfo, InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError, NoProxyError,
};
use kube::{Client, Config};
use service_kit::client;
use thiserror::Error;

use crate::args::CommonFlags;
use crate::proxy;
use crate::secrecy;

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum NoCluster {
    /// The kubeconfig cannot be used.
    #[error("cannot use {0}")]
    Kubeconfig(KubeconfigName, #[source] KubeconfigError),
    /// The kubeconfig is no YAML, or no kubeconfig. The parser quotes the lines around the error, which may hold a token.
    #[error("{0} is no kubeconfig that can be parsed: kubectl config view shows where")]
    Unparsed(KubeconfigName),
    /// The client cannot read `NO_PROXY`. kubectl ignores the entries that it cannot read.
    #[error(
        "cannot use NO_PROXY or no_proxy: write one comma between two entries, and none before the first or after the last"
    )]
    NoProxy(#[source] NoProxyError),
    /// There is no kubeconfig, and this is no pod.
    #[error("there is no kubeconfig, and this is no pod: name a file with --kubeconfig")]
    None(#[source] InClusterError),
    /// The configuration makes no client. The text quotes no secret of the kubeconfig.
    #[error("{0}")]
    Client(String),
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
        reason = "the other errors quote no value of the file"
    )]
    fn of(name: KubeconfigName, error: KubeconfigError) -> Self {
        match error {
            KubeconfigError::Parse(_) => Self::Unparsed(name),
            KubeconfigError::ParseNoProxy(error) => Self::NoProxy(error),
            error @ KubeconfigError::ParseProxyUrl(_) => Self::Client(secrecy::told(&error, None)),
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
    /// The user entry of the kubeconfig; none in a pod.
    pub user: Option<String>,
}

/// Nothing of the user that the kubeconfig impersonates stays beside the user of the command line.
fn impersonate(auth: &mut AuthInfo, flags: &CommonFlags) {
    let Some(user) = &flags.as_user else { return };
    auth.impersonate = Some(user.clone());
    auth.impersonate_groups = Some(flags.as_groups.clone());
    auth.impersonate_uid = None;
    auth.impersonate_user_extra = None;
}

/// Connects, without sending anything yet.
pub async fn connect(flags: &CommonFlags) -> Result<Connection, NoCluster> {
    let (mut config, user) = config(flags).await?;
    if let Some(namespace) = &flags.namespace {
        config.default_namespace.clone_from(namespace);
    }
    impersonate(&mut config.auth_info, flags);
    let namespace = config.default_namespace.clone();
    let client = client::of_config(config)
        .map_err(|error| NoCluster::Client(secrecy::told(&error, user.as_deref())))?;
    Ok(Connection {
        client,
        namespace,
        user,
    })
}

/// The configuration, and the name of its user entry.
async fn config(flags: &CommonFlags) -> Result<(Config, Option<String>), NoCluster> {
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
            let (user, proxy) = entries(&kubeconfig, &options);
            let config = Config::from_custom_kubeconfig(kubeconfig, &options);
            let mut config = config.await.map_err(failed)?;
            let variable = |name: &str| env::var(name).ok();
            // The client compares `NO_PROXY` with the proxy, and not with the cluster.
            let proxy = proxy::of_server(&config.cluster_url, proxy.as_deref(), variable);
            let proxy = proxy.map(|it| it.parse()).transpose();
            config.proxy_url = proxy.map_err(|it| failed(KubeconfigError::ParseProxyUrl(it)))?;
            Ok((config, user))
        }
        // kubectl does the same in a pod.
        Err(error)
            if name == KubeconfigName::Usual && flags.context.is_none() && is_absent(&error) =>
        {
            let config = Config::incluster().map_err(NoCluster::None)?;
            Ok((config, None))
        }
        Err(error) => Err(failed(error)),
    }
}

/// The name of the user entry, and the proxy of the cluster entry.
fn entries(
    kubeconfig: &Kubeconfig,
    options: &KubeConfigOptions,
) -> (Option<String>, Option<String>) {
    let context = options.context.as_ref();
    let context = context.or(kubeconfig.current_context.as_ref());
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|it| Some(&it.name) == context);
    let context = context.and_then(|it| it.context.as_ref());
    let user = options.user.clone();
    let user = user.or_else(|| context.and_then(|it| it.user.clone()));
    let cluster = options.cluster.as_ref();
    let cluster = cluster.or_else(|| context.map(|it| &it.cluster));
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|it| Some(&it.name) == cluster);
    let cluster = cluster.and_then(|it| it.cluster.as_ref());
    (user, cluster.and_then(|it| it.proxy_url.clone()))
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
        let (mut config, _) = config(&args.common).await?;
        impersonate(&mut config.auth_info, &args.common);
        Ok(config)
    }

    async fn configured(args: &[&str]) -> Result<Config, NoCluster> {
        of_file(KUBECONFIG, args).await
    }

    #[tokio::test]
    async fn a_user_of_the_command_line_takes_nothing_over_from_the_one_of_the_kubeconfig() {
        let text = KUBECONFIG.replace(
            "as-groups: [bosses]",
            "as-groups: [bosses], as-uid: boss-uid, as-user-extra: {k: [v]}",
        );
        for (args, user, groups) in [
            (&[][..], "boss", &["bosses"][..]),
            (&["--as", "alice"], "alice", &[]),
            (&["--as", "alice", "--as-group", "dev"], "alice", &["dev"]),
        ] {
            let auth = of_file(&text, args).await.unwrap().auth_info;
            assert_eq!(auth.impersonate.as_deref(), Some(user));
            assert_eq!(auth.impersonate_groups.unwrap(), groups, "{user}");
            let is_of_file = user == "boss";
            assert_eq!(auth.impersonate_uid.is_some(), is_of_file);
            assert_eq!(auth.impersonate_user_extra.is_some(), is_of_file);
        }
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

    #[test]
    fn a_no_proxy_that_the_client_cannot_read_is_no_fault_of_the_kubeconfig() {
        let error = KubeconfigError::ParseNoProxy(NoProxyError::EmptyValue);
        let told = NoCluster::of(KubeconfigName::Usual, error).to_string();
        assert!(told.starts_with("cannot use NO_PROXY"), "{told}");
        assert!(!told.contains("kubeconfig"), "{told}");
    }

    #[tokio::test]
    async fn the_proxy_of_the_kubeconfig_is_used_also_for_this_machine() {
        let own = KUBECONFIG.replace(
            "server: 'https://localhost:1'",
            "server: 'https://localhost:1', proxy-url: 'http://own:1'",
        );
        let proxy = async |text: &str| of_file(text, &[]).await.unwrap().proxy_url;
        assert_eq!(proxy(&own).await.unwrap(), "http://own:1");
        assert_eq!(proxy(KUBECONFIG).await, None);
    }

    /// The plugin's arguments, its variables and its output may hold secrets.
    #[tokio::test]
    async fn a_plugin_for_credentials_that_fails_is_not_quoted() {
        let plugin = "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never, \
                      args: [-c, 'echo hunter2; exit 1', hunter2], env: [{name: TOKEN, value: hunter2}]}";
        let text = KUBECONFIG.replace("token: hunter2", plugin);
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("config");
        fs::write(&path, &text).unwrap();
        let path = path.to_str().unwrap();
        let args = ["kubectl-connectors", "version", "--kubeconfig", path];
        let args = Args::try_parse_from(args).unwrap();
        let Err(error) = connect(&args.common).await else {
            panic!("connected");
        };
        let text = service_kit::report(&error);
        assert!(
            text.starts_with("user entry `u` of the kubeconfig"),
            "{text}"
        );
        assert!(text.contains("kubectl get ns"), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[tokio::test]
    async fn a_proxy_that_cannot_be_used_is_not_quoted() {
        for url in ["socks9://me:hunter2@proxy:1", "http://me:hunter2@[proxy"] {
            let server = "server: 'https://api.example.com'";
            let text = KUBECONFIG.replace(
                "server: 'https://localhost:1'",
                &format!("{server}, proxy-url: '{url}'"),
            );
            let error = match of_file(&text, &[]).await {
                Ok(config) => {
                    let error = client::of_config(config).err().unwrap();
                    secrecy::told(&error, None)
                }
                Err(error) => service_kit::report(&error),
            };
            assert!(error.contains("HTTPS_PROXY"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    const TWO: &str = "
apiVersion: v1
kind: Config
current-context: one
contexts:
- {name: one, context: {cluster: c, user: u, namespace: home}}
- {name: two, context: {cluster: d, user: v}}
clusters:
- {name: c, cluster: {server: 'https://localhost:1'}}
- {name: d, cluster: {server: 'https://localhost:2', proxy-url: 'http://own:1'}}
users:
- {name: u, user: {token: token-u}}
- {name: v, user: {token: token-v}}
";

    /// Each flag names one part, and the context gives the others.
    #[tokio::test]
    async fn a_flag_takes_the_place_of_one_part_of_the_context() {
        for (args, namespace, user, port, proxy) in [
            (&[][..], "home", "u", 1, None),
            (
                &["--context", "two"],
                "default",
                "v",
                2,
                Some("http://own:1/"),
            ),
            (&["--user", "v"], "home", "v", 1, None),
            (&["--cluster", "d"], "home", "u", 2, Some("http://own:1/")),
            (
                &["--context", "two", "--cluster", "c"],
                "default",
                "v",
                1,
                None,
            ),
            (&["-n", "work"], "work", "u", 1, None),
            (
                &["--context", "two", "-n", "work", "--user", "u"],
                "work",
                "u",
                2,
                Some("http://own:1/"),
            ),
        ] {
            let place = tempfile::tempdir().unwrap();
            let path = place.path().join("config");
            fs::write(&path, TWO).unwrap();
            let path = path.to_str().unwrap();
            let fixed = ["kubectl-connectors", "version", "--kubeconfig", path];
            let flags = Args::try_parse_from(fixed.iter().chain(args)).unwrap();
            let (config, of_entry) = config(&flags.common).await.unwrap();
            assert_eq!(config.cluster_url.port_u16(), Some(port), "{args:?}");
            let found = config.proxy_url.map(|it| it.to_string());
            assert_eq!(found.as_deref(), proxy, "{args:?}");
            assert_eq!(of_entry.as_deref(), Some(user), "{args:?}");
            let connection = connect(&flags.common).await;
            let Ok(connection) = connection else {
                panic!("{args:?}");
            };
            assert_eq!(connection.namespace, namespace, "{args:?}");
            assert_eq!(connection.user.as_deref(), Some(user), "{args:?}");
        }
    }

    /// A pod's own account would answer for the file that is not there.
    #[tokio::test]
    async fn a_file_that_is_named_and_not_there_is_an_error() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("none");
        let path = path.to_str().unwrap();
        let args = ["kubectl-connectors", "version", "--kubeconfig", path];
        let args = Args::try_parse_from(args).unwrap();
        let Err(error) = connect(&args.common).await else {
            panic!("connected");
        };
        let told = error.to_string();
        assert!(told.starts_with("cannot use the kubeconfig /"), "{told}");
    }
}
