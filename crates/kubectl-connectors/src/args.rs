//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use connectors_api::access_request::Phase;
use connectors_api::names::{is_dns_label, is_dns_subdomain};
use connectors_api::{Permission, pod_wish};

use crate::exit::ExitWord;
use crate::output::Format;
use crate::policy_test::report::TestFormat;
use crate::terms::NamespacedName;

/// Why does my pod wait, who can help, what would this policy do?
///
/// Reads the Kubernetes API as you, and needs no service of the installation. What you may not read is named, and the rest
/// is answered.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-connectors",
    bin_name = "kubectl connectors",
    version,
    propagate_version = true,
    disable_help_subcommand = true,
    after_help = exit_codes()
)]
pub struct Args {
    /// The cluster, the user and the form of the output
    #[command(flatten)]
    pub common: CommonFlags,

    /// The question
    #[command(subcommand)]
    pub command: PluginCommand,
}

fn exit_codes() -> String {
    let line = |word: ExitWord| format!("  {}  {}\n", word.code(), word.about());
    let lines: String = ExitWord::ALL.into_iter().map(line).collect();
    format!("Exit codes:\n{lines}")
}

/// Flags that every command has.
#[derive(Debug, clap::Args)]
pub struct CommonFlags {
    /// The kubeconfig file; without it those of KUBECONFIG, or ~/.kube/config
    #[arg(long, value_name = "FILE", global = true, help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME", global = true, help_heading = "Cluster")]
    pub context: Option<String>,

    /// The cluster of the kubeconfig
    #[arg(long, value_name = "NAME", global = true, help_heading = "Cluster")]
    pub cluster: Option<String>,

    /// The user of the kubeconfig
    #[arg(long, value_name = "NAME", global = true, help_heading = "Cluster")]
    pub user: Option<String>,

    /// The namespace; without it that of the context
    #[arg(
        short,
        long,
        value_name = "NAMESPACE",
        value_parser = namespace,
        global = true,
        help_heading = "Cluster"
    )]
    pub namespace: Option<String>,

    /// The user to impersonate, such as system:serviceaccount:NAMESPACE:NAME
    #[arg(
        long = "as",
        value_name = "USER",
        global = true,
        help_heading = "Cluster"
    )]
    pub as_user: Option<String>,

    /// A group to impersonate; may be given several times
    #[arg(
        long = "as-group",
        value_name = "GROUP",
        requires = "as_user",
        global = true,
        help_heading = "Cluster"
    )]
    pub as_groups: Vec<String>,

    /// How long one call to the API server may take, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "30",
        value_parser = seconds,
        global = true,
        help_heading = "Cluster"
    )]
    pub request_timeout: Duration,

    /// The namespace of the installation
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = "connectors-system",
        value_parser = namespace,
        global = true,
        help_heading = "Cluster"
    )]
    pub system_namespace: String,

    /// The form of the output
    #[arg(short, long, value_enum, default_value_t = Format::Table, global = true)]
    pub output: Format,
}

/// A question.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Say why a pod waits for a connector, who can help, and what to type next
    #[command(after_help = EXPLAIN)]
    Explain(ExplainArgs),
    /// List the requests of a namespace of connectors
    #[command(after_help = REQUESTS, visible_alias = "areq")]
    Requests(RequestsArgs),
    /// List the grants that are in force: who approved, since when, and what ends them
    #[command(after_help = GRANTS)]
    Grants(GrantsArgs),
    /// List who may use a connector now, and by what
    #[command(after_help = WHO_CAN)]
    WhoCan(WhoCanArgs),
    /// Say whether you, a service account or a pod may use a connector now
    #[command(after_help = CAN_I)]
    CanI(CanIArgs),
    /// Show what waits longest, by the namespace of the pods
    #[command(after_help = TOP)]
    Top(TopArgs),
    /// Say what is wrong with the installation and with what it grants, and what mends it
    #[command(after_help = DOCTOR)]
    Doctor(DoctorArgs),
    /// Look at policies in files, and test them without a cluster
    Policy(PolicyArgs),
    /// Print a script that completes commands and flags in a shell
    #[command(after_help = COMPLETION)]
    Completion(CompletionArgs),
    /// Print the JSON schema of `-o json`
    Schema,
    /// Print the version
    Version,
}

const EXPLAIN: &str = "\
Examples:
  # Why does the pod build-1 wait?
  kubectl connectors explain pod/build-1 -n team-a

  # What became of a request, and why?
  kubectl connectors explain areq/prod-harbor-2f6d0a -n payments

  # Would a pod of this service account get the connector?
  kubectl connectors explain connector/prod-harbor -n payments --as-account team-a/builder

The exit code is 0 when access is there, 1 when it waits or is refused.";

const REQUESTS: &str = "\
Examples:
  # The requests for the connectors of namespace payments
  kubectl connectors requests -n payments

  # Those that wait, of all namespaces, and then each change
  kubectl connectors requests -A --phase Pending --watch";

const GRANTS: &str = "\
Examples:
  # Which pods have access to connectors of namespace payments, and until when?
  kubectl connectors grants -n payments

  # Who approved, for an audit
  kubectl connectors grants -A -o json";

const WHO_CAN: &str = "\
Examples:
  kubectl connectors who-can prod-harbor -n payments
  kubectl connectors who-can payments/prod-harbor --permission proxy";

const CAN_I: &str = "\
Examples:
  # May you?
  kubectl connectors can-i prod-harbor -n payments

  # May a service account, at any time?
  kubectl connectors can-i payments/prod-harbor --as-account team-a/builder

  # May a pod now? In a script:
  kubectl connectors can-i payments/prod-harbor --pod team-a/build-1 && echo yes

The exit code is 0 for yes, 1 for no, and 3 when it could not be asked.";

const TOP: &str = "\
Examples:
  # What waits longest for connectors of any namespace?
  kubectl connectors top -A";

const DOCTOR: &str = "\
Examples:
  # The installation, and the policies, requests and grants of all namespaces
  kubectl connectors doctor -A

  # The same for one namespace of connectors, for a program
  kubectl connectors doctor -n payments -o json

The exit code is 1 if there is an error or a warning, and 3 if you may not read everything.";

const LINT: &str = "\
Examples:
  # What the webhook would say about policies, with line and column
  kubectl connectors policy lint policies/*.yaml

  # In a script: warnings fail too
  kubectl connectors policy lint --strict policy.yaml

The exit code is 1 if the webhook would refuse a policy.";

const TEST: &str = "\
Examples:
  # Every PolicyTest in the directory and below it
  kubectl connectors policy test policies

  # For a CI system
  kubectl connectors policy test policies --format junit

The exit code is 1 if an answer is another one than expected.";

const COMPLETION: &str = "\
Examples:
  # For the program itself, in this bash
  source <(kubectl-connectors completion bash)";

/// The arguments of `explain`.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// pod/NAME, areq/NAME or connector/NAME; NAME alone is a pod
    #[arg(value_name = "TARGET", value_parser = explain_target)]
    pub target: ExplainTarget,

    /// The service account that asks for a connector, as NAME or NAMESPACE/NAME
    #[arg(long, value_name = "ACCOUNT", value_parser = account)]
    pub as_account: Option<WrittenAccount>,

    /// The permission that is asked for: apis or proxy
    #[arg(long, value_name = "PERMISSION", default_value = "apis", value_parser = permission)]
    pub permission: Permission,
}

/// The namespaces of connectors that are asked about.
#[derive(Debug, clap::Args)]
pub struct ScopeArgs {
    /// All namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
}

impl ScopeArgs {
    /// The namespace; empty for all.
    #[must_use]
    pub fn of<'a>(&self, namespace: &'a str) -> &'a str {
        if self.all_namespaces { "" } else { namespace }
    }
}

/// The arguments of `requests`.
#[derive(Debug, clap::Args)]
pub struct RequestsArgs {
    /// The namespaces
    #[command(flatten)]
    pub scope: ScopeArgs,

    /// Only requests for this connector
    #[arg(long, value_name = "NAME")]
    pub connector: Option<String>,

    /// Only requests in this phase: Pending, Granted, Rejected, Revoked, Invalid or Ended
    #[arg(long, value_name = "PHASE", value_parser = phase)]
    pub phase: Option<Phase>,

    /// Only requests of pods of this namespace
    #[arg(long, value_name = "NAMESPACE", value_parser = namespace)]
    pub pod_namespace: Option<String>,

    /// Print each change after the list
    #[arg(short, long)]
    pub watch: bool,
}

/// The arguments of `grants`.
#[derive(Debug, clap::Args)]
pub struct GrantsArgs {
    /// The namespaces
    #[command(flatten)]
    pub scope: ScopeArgs,

    /// Only grants for this connector
    #[arg(long, value_name = "NAME")]
    pub connector: Option<String>,
}

/// The arguments of `who-can`.
#[derive(Debug, clap::Args)]
pub struct WhoCanArgs {
    /// The connector, as NAME or NAMESPACE/NAME
    #[arg(value_name = "CONNECTOR", value_parser = written_connector)]
    pub connector: WrittenConnector,

    /// The permission: apis or proxy
    #[arg(long, value_name = "PERMISSION", default_value = "apis", value_parser = permission)]
    pub permission: Permission,

    /// The verb; a mount asks for *
    #[arg(long, value_name = "VERB", default_value = "*")]
    pub verb: String,
}

/// The arguments of `can-i`.
#[derive(Debug, clap::Args)]
pub struct CanIArgs {
    /// The connector, as NAME or NAMESPACE/NAME
    #[arg(value_name = "CONNECTOR", value_parser = written_connector)]
    pub connector: WrittenConnector,

    /// Ask for this service account, as NAME or NAMESPACE/NAME
    #[arg(long, value_name = "ACCOUNT", value_parser = account, conflicts_with = "pod")]
    pub as_account: Option<WrittenAccount>,

    /// Ask for this pod, as NAME or NAMESPACE/NAME
    #[arg(long, value_name = "POD", value_parser = account)]
    pub pod: Option<WrittenAccount>,

    /// The permission: apis or proxy
    #[arg(long, value_name = "PERMISSION", default_value = "apis", value_parser = permission)]
    pub permission: Permission,

    /// The verb; a mount asks for *
    #[arg(long, value_name = "VERB", default_value = "*")]
    pub verb: String,
}

/// The arguments of `top`.
#[derive(Debug, clap::Args)]
pub struct TopArgs {
    /// The namespaces
    #[command(flatten)]
    pub scope: ScopeArgs,

    /// How many namespaces are listed
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    pub limit: usize,
}

/// The arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub struct DoctorArgs {
    /// The namespaces
    #[command(flatten)]
    pub scope: ScopeArgs,
}

/// The arguments of `policy`.
#[derive(Debug, clap::Args)]
pub struct PolicyArgs {
    /// The question about policies
    #[command(subcommand)]
    pub command: PolicyCommand,
}

/// A question about policies in files.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Say what is wrong or suspicious about policies in files, as the webhook judges them
    #[command(after_help = LINT)]
    Lint(LintArgs),
    /// Compare what policies say about objects in files with what is expected
    #[command(after_help = TEST)]
    Test(TestArgs),
}

/// The arguments of `policy lint`.
#[derive(Debug, clap::Args)]
pub struct LintArgs {
    /// Files of YAML or JSON; objects of other kinds in them are skipped
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// Warnings fail too
    #[arg(long)]
    pub strict: bool,
}

/// The arguments of `policy test`.
#[derive(Debug, clap::Args)]
pub struct TestArgs {
    /// A directory of objects and tests
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,

    /// The form of the report, where -o is table
    #[arg(long, value_enum, default_value_t = TestFormat::Text)]
    pub format: TestFormat,
}

/// The arguments of `completion`.
#[derive(Debug, clap::Args)]
pub struct CompletionArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// The target of an explanation. Its namespace is that of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplainTarget {
    /// A pod.
    Pod(String),
    /// An access request.
    Request(String),
    /// A connector.
    Connector(String),
}

/// A connector as it is written: without a namespace, that of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenConnector(String);

impl WrittenConnector {
    /// Its namespace and name, in this namespace if it names none.
    #[must_use]
    pub fn within(&self, namespace: &str) -> NamespacedName {
        let (namespace, name) = self.0.split_once('/').unwrap_or((namespace, &self.0));
        NamespacedName::new(namespace, name)
    }
}

fn written_connector(text: &str) -> Result<WrittenConnector, String> {
    match pod_wish::connector("namespace", text) {
        Ok(_) => Ok(WrittenConnector(text.to_owned())),
        Err(_) => Err("write a connector as NAME or NAMESPACE/NAME".to_owned()),
    }
}

fn phase(text: &str) -> Result<Phase, String> {
    let mut all = Phase::ALL.iter();
    let found = all.find(|it| it.as_str().eq_ignore_ascii_case(text));
    found.copied().ok_or_else(|| {
        let all: Vec<_> = Phase::ALL.iter().map(|it| it.as_str()).collect();
        format!("write one of {}", all.join(", "))
    })
}

/// A service account as it is written: without a namespace, that of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenAccount {
    /// Its namespace, if one is written.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl WrittenAccount {
    /// Its namespace and name, in this namespace if it names none.
    #[must_use]
    pub fn within(&self, namespace: &str) -> NamespacedName {
        let namespace = self.namespace.as_deref().unwrap_or(namespace);
        NamespacedName::new(namespace, &self.name)
    }
}

fn explain_target(text: &str) -> Result<ExplainTarget, String> {
    let (kind, name) = text.split_once('/').unwrap_or(("pod", text));
    let target: fn(String) -> ExplainTarget = match kind {
        "pod" | "pods" | "po" => ExplainTarget::Pod,
        "areq" | "accessrequest" | "accessrequests" => ExplainTarget::Request,
        "connector" | "connectors" | "conn" => ExplainTarget::Connector,
        _ => {
            return Err(format!(
                "`{kind}` cannot be explained: write pod/NAME, areq/NAME or connector/NAME"
            ));
        }
    };
    if is_dns_subdomain(name) {
        Ok(target(name.to_owned()))
    } else {
        Err(format!("`{name}` is no name of an object"))
    }
}

/// A service account, as NAME, NAMESPACE/NAME or system:serviceaccount:NAMESPACE:NAME.
pub(crate) fn account(text: &str) -> Result<WrittenAccount, String> {
    let short = text.strip_prefix("system:serviceaccount:");
    let (namespace, name) = match short {
        Some(rest) => rest
            .split_once(':')
            .map_or((None, rest), |(a, b)| (Some(a), b)),
        None => text
            .split_once('/')
            .map_or((None, text), |(a, b)| (Some(a), b)),
    };
    let is_valid = namespace.is_none_or(is_dns_label) && is_dns_subdomain(name);
    if is_valid && (short.is_none() || namespace.is_some()) {
        Ok(WrittenAccount {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        })
    } else {
        Err("write a service account as NAME or NAMESPACE/NAME".to_owned())
    }
}

pub(crate) fn permission(text: &str) -> Result<Permission, String> {
    Permission::from_segment(text).ok_or_else(|| "write apis or proxy".to_owned())
}

fn namespace(text: &str) -> Result<String, String> {
    if is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err("not the name of a namespace".to_owned())
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text);
    match number.parse() {
        Ok(seconds @ 1..=3600) => Ok(Duration::from_secs(seconds)),
        Ok(_) | Err(_) => Err("write seconds between 1 and 3600, such as 30 or 30s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(args: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(["kubectl-connectors"].iter().chain(args))
    }

    #[test]
    fn the_declaration_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn flags_stand_before_or_after_the_command_as_for_kubectl() {
        for args in [
            &["-n", "a", "--context", "c", "explain", "pod/x"][..],
            &["explain", "pod/x", "-n", "a", "--context=c"],
        ] {
            let parsed = parse(args).unwrap();
            assert_eq!(parsed.common.namespace.as_deref(), Some("a"));
            assert_eq!(parsed.common.context.as_deref(), Some("c"));
        }
        let parsed = parse(&[
            "--as",
            "alice",
            "--as-group=qa",
            "--as-group",
            "dev",
            "version",
        ]);
        let common = parsed.unwrap().common;
        assert_eq!(common.as_user.as_deref(), Some("alice"));
        assert_eq!(common.as_groups, ["qa", "dev"]);
        assert!(parse(&["--as-group", "qa", "version"]).is_err());
    }

    #[test]
    fn a_target_is_a_kind_and_a_name() {
        let target = |text: &str| explain_target(text);
        for pod in ["x", "pod/x", "po/x", "pods/x"] {
            assert_eq!(target(pod), Ok(ExplainTarget::Pod("x".to_owned())));
        }
        assert_eq!(target("areq/x"), Ok(ExplainTarget::Request("x".to_owned())));
        assert_eq!(
            target("conn/x"),
            Ok(ExplainTarget::Connector("x".to_owned()))
        );
        for (wrong, told) in [
            ("secret/x", "write pod/NAME"),
            ("pod/", "is no name"),
            ("pod/a b", "is no name"),
            ("", "is no name"),
        ] {
            assert!(target(wrong).unwrap_err().contains(told), "{wrong}");
        }
    }

    #[test]
    fn an_account_is_written_in_three_ways() {
        for (text, namespace) in [
            ("builder", None),
            ("team-a/builder", Some("team-a")),
            ("system:serviceaccount:team-a:builder", Some("team-a")),
        ] {
            let found = account(text).unwrap();
            assert_eq!(found.name, "builder");
            assert_eq!(found.namespace.as_deref(), namespace);
            let within = found.within("home");
            assert_eq!(within.namespace, namespace.unwrap_or("home"));
        }
        for wrong in ["", "a/b/c", "A/b", "system:serviceaccount:b"] {
            assert!(account(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_connector_is_written_with_or_without_its_namespace() {
        let within = |text: &str| written_connector(text).unwrap().within("home").to_string();
        assert_eq!(within("harbor"), "home/harbor");
        assert_eq!(within("tools/harbor"), "tools/harbor");
        for wrong in ["", "/", "a/b/c", "A"] {
            assert!(written_connector(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_phase_is_written_in_any_case() {
        assert_eq!(phase("pending"), Ok(Phase::Pending));
        assert!(phase("open").unwrap_err().contains("Pending, Granted"));
    }

    #[test]
    fn a_timeout_is_given_in_seconds() {
        assert_eq!(seconds("5"), Ok(Duration::from_secs(5)));
        assert_eq!(seconds("5s"), Ok(Duration::from_secs(5)));
        for wrong in ["", "0", "-1", "5m", "4000"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
