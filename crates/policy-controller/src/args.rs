//! The arguments of the process.

use std::{path::PathBuf, time::Duration};

use clap::Parser;
use connectors_api::PositiveDuration;
use evaluation_api::args::EvaluationArgs;
use service_kit::args::CommonArgs;

use crate::seen::MostSelected;

/// Keeps the standing permissions of access policies in force.
#[derive(Clone, Debug, Parser)]
#[command(name = "policy-controller", version, about, max_term_width = 100)]
pub struct Args {
    /// The arguments of every service.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Identity of this process among the replicas: the name of its pod
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub identity: String,
    /// The address of the evaluation service, and the credentials for it.
    #[command(flatten)]
    pub evaluation: EvaluationArgs,
    /// The file with the CA of the evaluation service; read again when it changes
    #[arg(long, value_name = "FILE", default_value = "/etc/connectors/ca/ca.crt")]
    pub evaluation_ca: PathBuf,
    /// How often everything managed is compared with the policies, such as 5m
    #[arg(long, value_name = "TIME", default_value = "5m")]
    pub sweep_interval: PositiveDuration,
    /// How many subjects the selectors of one policy may find; with more, the policy gives no standing
    /// permission
    #[arg(long, value_name = "NUMBER", default_value_t = MostSelected::default().0)]
    pub max_selected_subjects: usize,
}

impl Args {
    /// How often everything managed is compared with the policies.
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
        assert_eq!(args.common.namespace, "connectors-system");
        assert_eq!(args.max_selected_subjects, 1000);
        assert!(Args::try_parse_from(["x", "--identity=me", "--sweep-interval=0s"]).is_err());
    }
}
