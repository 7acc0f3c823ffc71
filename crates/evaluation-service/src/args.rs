//! The arguments of the process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use jiff::SignedDuration;
use service_kit::args::CommonArgs;

use crate::caller_quotas::CallerLimits;
use rego_workers::ModuleLimits;

/// Answers access questions from watch caches and evaluates approval checks; changes nothing.
#[derive(Clone, Debug, Parser)]
#[command(name = "evaluation-service", version)]
pub struct Args {
    /// The flags of every service.
    #[command(flatten)]
    pub common: CommonArgs,

    /// Where the gRPC API is served, over TLS
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:8443")]
    pub listen_address: SocketAddr,

    /// A Unix socket on which the gRPC API is served as well, without TLS and tokens: who can open it is
    /// trusted as the user that runs the service
    #[arg(long, value_name = "PATH")]
    pub listen_socket: Option<PathBuf>,

    /// The serving certificate, in PEM; followed when it changes
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/connectors/tls/tls.crt"
    )]
    pub tls_certificate: PathBuf,

    /// The key of the serving certificate, in PEM; followed when it changes
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/connectors/tls/tls.key"
    )]
    pub tls_key: PathBuf,

    /// A second audience that the tokens of pods may have: that of the tokens that volumes hold. Empty: none
    #[arg(long, value_name = "AUDIENCE", default_value = "")]
    pub proxy_audience: String,

    /// How long ago the service may have heard from the API server and still answer about access
    #[arg(long, value_name = "DURATION", default_value = "3m", value_parser = max_staleness)]
    pub max_staleness: Duration,

    /// How many calls of one caller are answered at the same time; more are refused
    #[arg(long, value_name = "NUMBER", default_value_t = 128, value_parser = clap::value_parser!(u16).range(8..=4096))]
    pub calls_per_caller: u16,

    /// How many streams one caller may have open at the same time; more are refused
    #[arg(long, value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=256))]
    pub streams_per_caller: u16,

    /// How many Rego evaluations run at the same time, each in a process of its own
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub rego_workers: u16,

    /// How long one Rego evaluation may take
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = rego_timeout)]
    pub rego_timeout: Duration,

    /// How much memory one Rego worker may use, in MiB of address space
    #[arg(long, value_name = "MIB", default_value_t = 128, value_parser = clap::value_parser!(u64).range(32..=4096))]
    pub rego_memory: u64,

    /// The longest answer of a Rego evaluation, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16 * 1024, value_parser = clap::value_parser!(u32).range(1024..=1024 * 1024))]
    pub rego_output_size: u32,

    /// The longest Rego module that is evaluated, in bytes; a policy holds at most 16384
    #[arg(long, value_name = "BYTES", default_value_t = 16 * 1024, value_parser = clap::value_parser!(u32).range(1..=16 * 1024))]
    pub rego_module_size: u32,
}

impl Args {
    /// The limits of one caller.
    #[must_use]
    pub fn caller_limits(&self) -> CallerLimits {
        CallerLimits {
            calls: self.calls_per_caller.into(),
            streams: self.streams_per_caller.into(),
        }
    }

    /// The limits of a Rego module.
    #[must_use]
    pub fn rego_limits(&self) -> ModuleLimits {
        let size = |bytes: u32| usize::try_from(bytes).unwrap_or(usize::MAX);
        ModuleLimits {
            workers: self.rego_workers.into(),
            time: self.rego_timeout,
            memory: self.rego_memory * 1024 * 1024,
            output: size(self.rego_output_size),
            module: size(self.rego_module_size),
        }
    }
}

/// A worker needs some time even to start.
const SHORTEST: Duration = Duration::from_millis(10);
/// No caller waits longer.
const LONGEST: Duration = Duration::from_secs(10);

fn rego_timeout(text: &str) -> Result<Duration, String> {
    let hint = "write a duration between 10ms and 10s, such as 500ms or 1s";
    between(SHORTEST, LONGEST, text, hint)
}

/// A quiet API server sends something on a watch about once a minute.
const LEAST_STALENESS: Duration = Duration::from_secs(90);
/// A higher limit would let a removed permission count for more than an hour.
const MOST_STALENESS: Duration = Duration::from_hours(1);

fn max_staleness(text: &str) -> Result<Duration, String> {
    let hint = "write a duration between 90s and 1h, such as 3m: a quiet API server says something about once a minute";
    between(LEAST_STALENESS, MOST_STALENESS, text, hint)
}

fn between(least: Duration, most: Duration, text: &str, hint: &str) -> Result<Duration, String> {
    let duration: Option<SignedDuration> = text.parse().ok();
    let duration = duration.and_then(|duration| Duration::try_from(duration).ok());
    let duration = duration.filter(|duration| (least..=most).contains(duration));
    duration.ok_or_else(|| hint.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(["evaluation-service"].iter().chain(arguments))
    }

    #[test]
    fn the_declaration_is_sound_and_everything_has_a_default() {
        Args::command().debug_assert();
        let limits = parse(&[]).unwrap().rego_limits();
        let expected = ModuleLimits {
            workers: 2,
            time: Duration::from_secs(1),
            memory: 128 << 20,
            output: 16 << 10,
            module: 16 << 10,
        };
        assert_eq!(limits, expected);
        let expected = CallerLimits {
            calls: 128,
            streams: 8,
        };
        assert_eq!(parse(&[]).unwrap().caller_limits(), expected);
    }

    #[test]
    fn staleness_leaves_room_for_a_bookmark_a_minute() {
        let staleness = |argument: &str| parse(&[argument]).map(|args| args.max_staleness);
        assert_eq!(parse(&[]).unwrap().max_staleness, Duration::from_mins(3));
        let least = staleness("--max-staleness=90s").unwrap();
        assert_eq!(least, LEAST_STALENESS);
        for wrong in ["89s", "0s", "-3m", "2h", "3"] {
            assert!(staleness(&format!("--max-staleness={wrong}")).is_err());
        }
    }

    #[test]
    fn limits_cannot_be_switched_off() {
        for wrong in [
            "--calls-per-caller=0",
            "--streams-per-caller=1",
            "--rego-workers=0",
            "--rego-timeout=0s",
            "--rego-timeout=1h",
            "--rego-timeout=-1s",
            "--rego-timeout=1",
            "--rego-memory=0",
            "--rego-output-size=0",
            "--rego-module-size=0",
            "--rego-module-size=16385",
        ] {
            assert!(parse(&[wrong]).is_err(), "{wrong}");
        }
        let limits = parse(&["--rego-timeout=250ms", "--rego-workers=5"]);
        let limits = limits.unwrap().rego_limits();
        assert_eq!(
            (limits.time, limits.workers),
            (Duration::from_millis(250), 5)
        );
    }
}
