//! The arguments of the questions to a cluster.

use connectors_api::Permission;
use connectors_api::access_request::Phase;

use super::words::{
    CompletedBy, ExplainTarget, WrittenAccount, WrittenConnector, account, explain_target,
    namespace, permission, phase, written_connector,
};

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

    /// Print what mends the findings, as a YAML stream: objects to apply, and commands as comments
    #[arg(long)]
    pub fix_plan: bool,
}

/// The arguments of `completion`.
#[derive(Debug, clap::Args)]
pub struct CompletionArgs {
    /// The shell, or `kubectl` for the program by which kubectl completes `kubectl connectors`
    #[arg(value_enum, value_name = "SHELL")]
    pub by: CompletedBy,
}

/// The arguments of `__complete`.
#[derive(Debug, clap::Args)]
pub struct CompletedWords {
    /// The words behind `kubectl connectors`, the last of which is completed
    #[arg(last = true)]
    pub words: Vec<String>,
}
