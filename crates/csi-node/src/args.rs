//! The driver's arguments.

use std::{path::PathBuf, time::Duration};

use connector_files::FileConflict;
use connectors_api::{PositiveDuration, duration::DurationError, names::CSI_DRIVER};
use evaluation_api::args::EvaluationArgs;
use service_kit::args::CommonArgs;

/// Holds pods at their volume mount until access to their connectors is there
#[derive(Clone, Debug, PartialEq, Eq, clap::Parser)]
#[command(version)]
pub struct Args {
    #[command(flatten)]
    pub(crate) common: CommonArgs,

    /// The node that this process runs on
    #[arg(long, value_name = "NODE", env = "NODE_NAME")]
    pub(crate) node_name: String,

    /// The name of the driver, which is also that of its `CSIDriver` object and of its socket's folder
    #[arg(long, value_name = "NAME", default_value = CSI_DRIVER, value_parser = driver_name)]
    pub(crate) driver_name: String,

    /// The kubelet's folder, under the same path here as on the node
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/kubelet")]
    pub(crate) kubelet_dir: PathBuf,

    /// The address of the evaluation service, and the token that it gets.
    #[command(flatten)]
    pub(crate) evaluation: EvaluationArgs,

    /// The certificates that the evaluation service is trusted by
    #[arg(long, value_name = "FILE", default_value = "/etc/connectors/ca/ca.crt")]
    pub(crate) evaluation_ca: PathBuf,

    /// How long a mount may be held; the kubelet gives up after two minutes
    #[arg(long, value_name = "DURATION", default_value = "115s", value_parser = duration)]
    pub(crate) hold: Duration,

    /// How many mounts may be held at a time; of one pod never more than 16
    #[arg(long, value_name = "NUMBER", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_held: u32,

    /// How many of these may be held for the pods of one namespace
    #[arg(long, value_name = "NUMBER", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) max_held_per_namespace: u32,

    /// How many MiB of memory the volumes of this node may take; their files are in the memory of this process
    #[arg(long, value_name = "NUMBER", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_volume_mebibytes: u32,

    /// How many of these the volumes of the pods of one namespace may take
    #[arg(long, value_name = "NUMBER", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) max_volume_mebibytes_per_namespace: u32,

    /// The audience of the pods' tokens that volumes hold. The `CSIDriver` object asks for it. Empty: no tokens
    #[arg(long, value_name = "AUDIENCE", default_value = "")]
    pub(crate) proxy_audience: String,

    /// How long such a token lives when it is new, as the `CSIDriver` object says
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub(crate) proxy_token_lifetime: Duration,

    /// How to handle a file that the classes of two connectors write, or different proxies of connectors
    #[arg(long, value_name = "RULE", default_value = "refuse")]
    pub(crate) file_conflict: ConflictArg,
}

/// How to handle a file that would be written twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ConflictArg {
    /// The volume is refused
    Refuse,
    /// The class of the last connector writes it
    LastWins,
}

impl From<ConflictArg> for FileConflict {
    fn from(rule: ConflictArg) -> Self {
        match rule {
            ConflictArg::Refuse => Self::Refuse,
            ConflictArg::LastWins => Self::LastWins,
        }
    }
}

/// A name that the kubelet accepts for a driver, and that can be the name of a folder.
fn driver_name(text: &str) -> Result<String, String> {
    if connectors_api::names::is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err("must be a name of lower-case letters, digits and hyphens".to_owned())
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let duration: PositiveDuration = text
        .parse()
        .map_err(|error: DurationError| error.to_string())?;
    // A positive duration has no other sign.
    Ok(duration.get().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    fn parse(args: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(["csi-node", "--node-name=node-1"].iter().chain(args))
    }

    #[test]
    fn the_declaration_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn everything_but_the_node_has_a_default_for_a_pod_in_a_cluster() {
        let args = parse(&[]).unwrap();
        assert_eq!(args.driver_name, "connectors-csi");
        assert_eq!(args.kubelet_dir, PathBuf::from("/var/lib/kubelet"));
        assert_eq!(args.hold, Duration::from_secs(115));
        assert_eq!((args.max_held, args.max_held_per_namespace), (512, 256));
        let memory = (
            args.max_volume_mebibytes,
            args.max_volume_mebibytes_per_namespace,
        );
        assert_eq!(memory, (128, 64));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for bad in [
            "--driver-name=a/b",
            "--driver-name=",
            "--hold=0s",
            "--hold=-1s",
            "--hold=long",
            "--max-held=0",
            "--max-held-per-namespace=0",
            "--max-volume-mebibytes=0",
            "--max-volume-mebibytes-per-namespace=0",
        ] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
    }
}
