//! The arguments of this service.

use std::{net::SocketAddr, path::PathBuf};

use evaluation_api::args::EvaluationArgs;
use service_kit::args::CommonArgs;

/// Admission of policies and requests, and the certificates of the installation
#[derive(Clone, Debug, PartialEq, Eq, clap::Parser)]
#[command(name = "webhook", version)]
pub struct Args {
    /// The arguments of every service.
    #[command(flatten)]
    pub common: CommonArgs,

    /// Where the API server is served
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8443")]
    pub listen_address: SocketAddr,

    /// Lets in only who shows a client certificate that an authority in this file (PEM) signed; without it, anybody.
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,

    /// A common name that the client certificate may have; may be given several times. Without it, any name
    #[arg(long, value_name = "NAME", requires = "client_ca_file")]
    pub client_name: Vec<String>,

    /// The user name of the node plugin, which may ask for the pods of its node
    #[arg(
        long,
        value_name = "USER",
        default_value = "system:serviceaccount:connectors-system:csi-node"
    )]
    pub node_plugin_account: String,

    /// The mutating webhook configuration that calls this service, and is told which certificates to trust
    #[arg(long, value_name = "NAME", default_value = "connectors-approval")]
    pub mutating_configuration: String,

    /// The validating webhook configuration that calls this service, and is told which certificates to trust
    #[arg(long, value_name = "NAME", default_value = "connectors-approval")]
    pub validating_configuration: String,

    /// Where the evaluation service is, and what it is shown.
    #[command(flatten)]
    pub evaluation: EvaluationArgs,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Args;

    #[test]
    fn the_declaration_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn everything_has_a_default_for_a_pod_in_a_cluster() {
        let args = Args::try_parse_from(["webhook"]).unwrap();
        assert_eq!(args.common.namespace, "connectors-system");
        assert_eq!(args.listen_address, ([0, 0, 0, 0], 8443).into());
        let account = "system:serviceaccount:connectors-system:csi-node";
        assert_eq!(args.node_plugin_account, account);
        assert_eq!(args.mutating_configuration, "connectors-approval");
        assert_eq!(args.validating_configuration, "connectors-approval");
        assert_eq!((args.client_ca_file, args.client_name.len()), (None, 0));
    }

    #[test]
    fn names_of_clients_need_an_authority() {
        Args::try_parse_from(["webhook", "--client-name=a"]).unwrap_err();
        let given = [
            "webhook",
            "--client-ca-file=/f",
            "--client-name=a",
            "--client-name=b",
        ];
        let args = Args::try_parse_from(given).unwrap();
        assert_eq!(args.client_ca_file, Some("/f".into()));
        assert_eq!(args.client_name, ["a", "b"]);
    }

    #[test]
    fn everything_can_be_given() {
        let args = Args::try_parse_from([
            "webhook",
            "--namespace=n",
            "--listen-address=127.0.0.1:1",
            "--node-plugin-account=a",
            "--mutating-configuration=m",
            "--validating-configuration=v",
        ])
        .unwrap();
        let given = [
            &args.common.namespace,
            &args.node_plugin_account,
            &args.mutating_configuration,
            &args.validating_configuration,
        ];
        assert_eq!(given, ["n", "a", "m", "v"]);
        assert_eq!(args.listen_address, ([127, 0, 0, 1], 1).into());
    }
}
