//! The arguments of commands about policies in files.

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueHint};

use super::questions::ScopeArgs;
use super::words::{self, WrittenPolicy};
use crate::convert::ShippedVersion;
use crate::policy_test::report::TestFormat;

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

  # Again after each change of a file
  kubectl connectors policy test policies --watch

The exit code is 1 if an answer is another one than expected.";

/// The arguments of `policy`.
#[derive(Debug, clap::Args)]
pub struct PolicyArgs {
    /// The question about policies
    #[command(subcommand)]
    pub command: PolicyCommand,
}

impl PolicyArgs {
    /// The directory whose changes are followed.
    #[must_use]
    pub fn watched(&self) -> Option<&Path> {
        match &self.command {
            PolicyCommand::Test(args) if args.watch => Some(&args.directory),
            PolicyCommand::Test(_)
            | PolicyCommand::Lint(_)
            | PolicyCommand::Coverage(_)
            | PolicyCommand::Simulate(_) => None,
        }
    }

    /// True for a question that needs a cluster.
    #[must_use]
    pub const fn asks_cluster(&self) -> bool {
        match self.command {
            PolicyCommand::Simulate(_) => true,
            PolicyCommand::Lint(_) | PolicyCommand::Test(_) | PolicyCommand::Coverage(_) => false,
        }
    }
}

const COVERAGE: &str = "\
Examples:
  # Which requesters, checks and rules does no PolicyTest reach?
  kubectl connectors policy coverage policies

The exit code is 1 if a part is not reached.";

const SIMULATE: &str = "\
Examples:
  # Which waiting pods would be let in or refused, and which accounts would gain or lose a permission?
  kubectl connectors policy simulate -f policies/payments.yaml -n payments

  # Which grants would end with a policy?
  kubectl connectors policy simulate --delete approved-changes -n payments

  # Policies of several namespaces, for a program
  kubectl connectors policy simulate -f policies -A -o json

It writes nothing. The exit code is 0 if nothing would change, 1 if something would, and 3 if you may not read everything.";

/// A question about policies in files.
#[derive(Debug, Subcommand)]
pub enum PolicyCommand {
    /// Say what is wrong or suspicious about policies in files, as the webhook judges them
    #[command(after_help = LINT)]
    Lint(LintArgs),
    /// Compare what policies say about objects in files with what is expected
    #[command(after_help = TEST)]
    Test(TestArgs),
    /// Say which parts of policies in files no test reaches
    #[command(after_help = COVERAGE)]
    Coverage(CoverageArgs),
    /// Say what policies in files would change in the cluster: for the requests, and for standing permissions
    #[command(after_help = SIMULATE)]
    Simulate(SimulateArgs),
}

/// The arguments of `policy simulate`.
#[derive(Debug, clap::Args)]
pub struct SimulateArgs {
    /// A file or directory of policies; may be given several times
    #[arg(
        short,
        long = "filename",
        value_name = "FILE",
        value_hint = ValueHint::Other,
        required_unless_present = "deleted"
    )]
    pub files: Vec<PathBuf>,

    /// A policy that would be deleted, as NAME or NAMESPACE/NAME; may be given several times
    #[arg(long = "delete", value_name = "NAME", value_parser = words::written_policy)]
    pub deleted: Vec<WrittenPolicy>,

    /// The namespaces of the policies
    #[command(flatten)]
    pub scope: ScopeArgs,
}

/// The arguments of `policy lint`.
#[derive(Debug, clap::Args)]
pub struct LintArgs {
    /// Files of YAML or JSON; objects of other kinds in them are skipped
    #[arg(value_name = "FILE", value_hint = ValueHint::Other, required = true)]
    pub files: Vec<PathBuf>,

    /// Warnings fail too
    #[arg(long)]
    pub strict: bool,
}

/// The arguments of `policy test`.
#[derive(Debug, clap::Args)]
pub struct TestArgs {
    /// A directory of objects and tests
    #[arg(value_name = "DIR", value_hint = ValueHint::Other)]
    pub directory: PathBuf,

    /// The form of the report, where -o is table
    #[arg(long, value_enum, default_value_t = TestFormat::Text)]
    pub format: TestFormat,

    /// Test again after each change of a file, which is looked for every second
    #[arg(short, long)]
    pub watch: bool,
}

/// The arguments of `policy coverage`.
#[derive(Debug, clap::Args)]
pub struct CoverageArgs {
    /// A directory of objects and tests
    #[arg(value_name = "DIR", value_hint = ValueHint::Other)]
    pub directory: PathBuf,
}

/// The arguments of `convert`.
#[derive(Debug, clap::Args)]
pub struct ConvertArgs {
    /// Files or directories of YAML or JSON; - is standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::Other, required = true)]
    pub files: Vec<PathBuf>,

    /// The version of the other product that the policies come from; 1.12 stands for those before it too
    #[arg(long, value_name = "VERSION", value_enum)]
    pub from: Option<ShippedVersion>,

    /// The ConfigMap connectors-approvals-in-pipeline is as the other product installs it: its Rego is replaced
    #[arg(long)]
    pub template_is_unchanged: bool,
}
