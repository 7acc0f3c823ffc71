//! The command line.

mod answers;
mod policies;
mod questions;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueHint};

pub use answers::{AnswerArgs, AnswerTarget, ObjectWord};
pub use policies::{
    ConvertArgs, CoverageArgs, LintArgs, PolicyArgs, PolicyCommand, SimulateArgs, TestArgs,
};
pub use questions::{
    CanIArgs, CompletedWords, CompletionArgs, DoctorArgs, ExplainArgs, GrantsArgs, RequestsArgs,
    ScopeArgs, TopArgs, WhoCanArgs,
};
pub use words::{CompletedBy, ExplainTarget, WrittenAccount, WrittenConnector};
use words::{namespace, seconds};

use crate::exit::ExitWord;
use crate::output::Format;

/// Why does my pod wait, who can help, what would this policy do?
///
/// Reads the Kubernetes API as you, and needs no service of the installation. What you may not read is named, and the rest
/// is answered. Only `approve` and `reject` write.
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
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::Other,
        global = true,
        help_heading = "Cluster"
    )]
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
    /// List the requests of a namespace of connectors (short: areq)
    #[command(after_help = REQUESTS, alias = "areq")]
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
    /// Approve what a pod waits for, as you, after showing what this opens
    #[command(after_help = APPROVE)]
    Approve(AnswerArgs),
    /// Reject what a pod waits for, as you, after showing what this ends
    #[command(after_help = REJECT)]
    Reject(AnswerArgs),
    /// Look at policies in files, and test them without a cluster
    Policy(PolicyArgs),
    /// Turn policies and volumes of the other product of these kinds into those of this one
    #[command(after_help = CONVERT)]
    Convert(ConvertArgs),
    /// Print a script that completes commands and flags in a shell
    #[command(after_help = COMPLETION)]
    Completion(CompletionArgs),
    /// Print what may stand in place of the last word, for kubectl
    #[command(name = "__complete", hide = true, disable_help_flag = true)]
    Complete(CompletedWords),
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

  # What mends the findings, to read and then to apply
  kubectl connectors doctor -n payments --fix-plan

The exit code is 1 if there is an error or a warning, and 3 if you may not read everything.";

const APPROVE: &str = "\
Examples:
  # The approval that the pod build-1 waits for
  kubectl connectors approve pod/build-1 -n team-a

  # An approval by its name, and then wait until the requests were granted
  kubectl connectors approve changerequest/chg-42 -n team-a --wait

  # In a script
  kubectl connectors approve approvaltask/run-wait -n team-a --message reviewed --yes

Without a terminal and without --yes nothing is written, and the exit code is 2.";

const REJECT: &str = "\
Examples:
  # Refuse the pod build-1
  kubectl connectors reject pod/build-1 -n team-a

  # Withdraw an approval: what rests on it ends
  kubectl connectors reject changerequest/chg-42 -n team-a --wait=30

Without a terminal and without --yes nothing is written, and the exit code is 2.";

const CONVERT: &str = "\
Examples:
  # The policies of a cluster, with the ConfigMaps that they refer to
  kubectl connectors convert policies.yaml templates.yaml > converted.yaml

  # A directory of manifests; notes for a program
  kubectl connectors convert deploy -o json

The exit code is 1 if an object cannot be converted. It is left out, and the others are printed.";

const COMPLETION: &str = "\
Examples:
  # For the program itself, in this bash
  source <(kubectl-connectors completion bash)

  # For `kubectl connectors`, in each shell that completes kubectl
  kubectl-connectors completion kubectl > /usr/local/bin/kubectl_complete-connectors
  chmod +x /usr/local/bin/kubectl_complete-connectors";

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

    /// Flags among the words are words.
    #[test]
    fn words_to_complete_are_taken_as_they_are() {
        let args = [
            "__complete",
            "--",
            "-n",
            "a",
            "explain",
            "--as-group",
            "-h",
            "",
        ];
        let PluginCommand::Complete(words) = parse(&args).unwrap().command else {
            panic!("another command");
        };
        assert_eq!(words.words, args[2..]);
        assert!(parse(&["__complete"]).is_ok());
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
}
