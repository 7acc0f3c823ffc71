//! The arguments that every service has. A service flattens them into its own.

use std::{net::SocketAddr, path::PathBuf};

use crate::telemetry::LogFormat;

/// The logs of a process, the address of its admin server, its cluster, and the namespace of its installation.
///
/// A service destructures it without `..`, so that an unused argument is a compiler warning.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct CommonArgs {
    /// Log filter: a level, or levels per module, for example `info,kube_runtime=warn`
    #[arg(long, value_name = "FILTER", default_value = "info")]
    pub log_filter: String,

    /// The form of the log lines
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,

    /// Where /healthz, /readyz and /metrics are served
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:9090")]
    pub admin_address: SocketAddr,

    /// The kubeconfig of the cluster; without it, the cluster that this process runs in
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The namespace of the installation, with its configuration, leases and certificates
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "POD_NAMESPACE",
        default_value = "connectors-system"
    )]
    pub namespace: String,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::CommonArgs;
    use crate::telemetry::LogFormat;

    #[derive(Debug, Parser)]
    struct Service {
        #[command(flatten)]
        common: CommonArgs,
    }

    fn parse(args: &[&str]) -> Result<CommonArgs, clap::Error> {
        Service::try_parse_from(["service"].iter().chain(args)).map(|service| service.common)
    }

    #[test]
    fn the_declaration_is_sound() {
        Service::command().debug_assert();
    }

    #[test]
    fn everything_has_a_default_for_a_pod_in_a_cluster() {
        let expected = CommonArgs {
            log_filter: "info".to_owned(),
            log_format: LogFormat::Text,
            admin_address: ([0, 0, 0, 0], 9090).into(),
            kubeconfig: None,
            namespace: "connectors-system".to_owned(),
        };
        assert_eq!(parse(&[]).unwrap(), expected);
    }

    #[test]
    fn everything_can_be_given() {
        let args = [
            "--log-filter=debug",
            "--log-format=json",
            "--admin-address=127.0.0.1:1",
            "--kubeconfig=/k",
            "--namespace=n",
        ];
        let expected = CommonArgs {
            log_filter: "debug".to_owned(),
            log_format: LogFormat::Json,
            admin_address: ([127, 0, 0, 1], 1).into(),
            kubeconfig: Some("/k".into()),
            namespace: "n".to_owned(),
        };
        assert_eq!(parse(&args).unwrap(), expected);
    }

    #[test]
    fn an_address_without_a_port_is_refused() {
        assert!(parse(&["--admin-address=127.0.0.1"]).is_err());
    }
}
