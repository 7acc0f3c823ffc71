//! The arguments of the process.

use std::{path::PathBuf, time::Duration};

use clap::Parser;
use connectors_api::PositiveDuration;
use evaluation_api::args::EvaluationArgs;
use service_kit::args::CommonArgs;

use crate::shards::ShardCount;

/// Follows access requests and their approvals, grants access to one pod and revokes it.
#[derive(Clone, Debug, Parser)]
#[command(name = "request-controller", version, about, max_term_width = 100)]
pub struct Args {
    /// The arguments of every service.
    #[command(flatten)]
    pub common: CommonArgs,
    /// The name of this replica: that of its pod
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub identity: String,
    /// The address of the evaluation service, and the credentials for it.
    #[command(flatten)]
    pub evaluation: EvaluationArgs,
    /// The file with the CA of the evaluation service; read again when it changes
    #[arg(long, value_name = "FILE", default_value = "/etc/connectors/ca/ca.crt")]
    pub evaluation_ca: PathBuf,
    /// How often everything managed is compared with the requests, such as 5m
    #[arg(long, value_name = "TIME", default_value = "5m")]
    pub sweep_interval: PositiveDuration,
    /// How long a decided request is kept after its pod is gone, such as 168h
    #[arg(long, value_name = "TIME", default_value = "168h")]
    pub retention: PositiveDuration,
    /// How many requests of the pods of one namespace may wait at a time in one connector's namespace
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_requests_per_namespace: u32,
    /// Into how many shards the namespaces are divided, each with a leader of its own: 1, 2, 4, 8 or 16. The same in all
    /// replicas
    #[arg(long, value_name = "COUNT", default_value_t = ShardCount::ONE)]
    pub shards: ShardCount,
}

impl Args {
    /// How often everything managed is compared with the requests.
    #[must_use]
    pub fn sweep_every(&self) -> Duration {
        Duration::try_from(self.sweep_interval.get()).unwrap_or(Duration::from_mins(5))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_declaration_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn only_the_identity_has_no_default() {
        let args = Args::try_parse_from(["x", "--identity", "me"]).unwrap();
        assert_eq!(args.sweep_every(), Duration::from_mins(5));
        assert_eq!(args.retention.get(), jiff::SignedDuration::from_hours(168));
        assert_eq!(args.common.namespace, "connectors-system");
    }

    #[test]
    fn a_wrong_number_of_shards_is_refused_with_the_argument_and_the_numbers() {
        let with = |text: &str| Args::try_parse_from(["x", "--identity=me", text]);
        assert_eq!(with("--shards=4").unwrap().shards.get(), 4);
        for text in ["--shards=0", "--shards=3", "--shards=32", "--shards=many"] {
            let refused = with(text).unwrap_err().to_string();
            for word in ["--shards", "1, 2, 4, 8 or 16"] {
                assert!(refused.contains(word), "{text}: {refused}");
            }
        }
    }

    #[test]
    fn no_limit_can_be_switched_off_by_zero() {
        for argument in [
            "--retention=0s",
            "--sweep-interval=0s",
            "--max-requests-per-namespace=0",
        ] {
            assert!(
                Args::try_parse_from(["x", "--identity=me", argument]).is_err(),
                "{argument}"
            );
        }
    }
}
