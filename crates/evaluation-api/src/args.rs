//! The arguments of a service that calls the evaluation service. They are flattened into the arguments of the
//! service.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ClientConfig;
use tokio::sync::watch;

use crate::client::ClientSettings;

/// The URL of the evaluation service, and the token for it.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct EvaluationArgs {
    /// The URL of the evaluation service
    #[arg(
        long = "evaluation-url",
        value_name = "URL",
        default_value = "https://evaluation-service.connectors-system.svc:8443"
    )]
    pub url: String,

    /// The file with the token for the evaluation service, of audience connectors-evaluation; read again for
    /// each call
    #[arg(
        long = "evaluation-token",
        value_name = "FILE",
        default_value = "/var/run/secrets/connectors-evaluation/token"
    )]
    pub token: PathBuf,
}

impl EvaluationArgs {
    /// Settings of a client that trusts the roots of this configuration.
    #[must_use]
    pub fn settings(self, tls: watch::Receiver<Arc<ClientConfig>>) -> ClientSettings {
        let Self { url, token } = self;
        ClientSettings {
            url,
            tls,
            token_file: token,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::EvaluationArgs;

    #[derive(Debug, Parser)]
    struct Service {
        #[command(flatten)]
        evaluation: EvaluationArgs,
    }

    fn parse(args: &[&str]) -> EvaluationArgs {
        let service = Service::try_parse_from(["service"].iter().chain(args)).unwrap();
        service.evaluation
    }

    #[test]
    fn the_declaration_is_sound() {
        Service::command().debug_assert();
    }

    #[test]
    fn everything_has_a_default_for_a_pod_in_a_cluster_and_can_be_given() {
        let EvaluationArgs { url, token } = parse(&[]);
        assert_eq!(url, "https://evaluation-service.connectors-system.svc:8443");
        assert_eq!(
            token.to_str(),
            Some("/var/run/secrets/connectors-evaluation/token")
        );
        let given = parse(&["--evaluation-url=https://u:1", "--evaluation-token=/t"]);
        let expected = EvaluationArgs {
            url: "https://u:1".to_owned(),
            token: "/t".into(),
        };
        assert_eq!(given, expected);
    }
    #[test]
    fn the_settings_are_those_of_the_arguments() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = rustls::ClientConfig::builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let (sender, tls) = tokio::sync::watch::channel(std::sync::Arc::new(config));
        let args = parse(&["--evaluation-url=https://u:1", "--evaluation-token=/t"]);
        let settings = args.settings(tls);
        assert_eq!(settings.url, "https://u:1");
        assert_eq!(settings.token_file.to_str(), Some("/t"));
        assert!(settings.tls.same_channel(&sender.subscribe()));
    }
}
