//! The arguments of `policy`.

use std::path::PathBuf;

use clap::Subcommand;

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

The exit code is 1 if an answer is another one than expected.";

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
