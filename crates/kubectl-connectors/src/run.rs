//! From the command line to what is printed.

use std::fmt;

use clap::CommandFactory as _;
use connectors_api::AccessRequest;
use connectors_api::connector::Selectable;
use connectors_api::labels::MANAGED_BY;
use connectors_api::names;
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::RoleBinding;
use schemars::schema_for;
use service_kit::report as chain;
use service_kit::watches::{Labelled, Plain};

use crate::args::{
    Args, CanIArgs, CommonFlags, GrantsArgs, PluginCommand, PolicyCommand, RequestsArgs, TopArgs,
    WhoCanArgs,
};
use crate::can_i::{self, Asking, CanIQuestion};
use crate::connect::{self, Connection};
use crate::doctor;
use crate::exit::ExitWord;
use crate::explain::{self, ExplainError, NothingToExplain};
use crate::files::{self, ObjectFile};
use crate::grants;
use crate::lint;
use crate::modules::Modules;
use crate::output::{self, Colours, Format, Tone};
use crate::policy_test::{self, report::TestFormat};
use crate::rbac;
use crate::reads::{ClusterReads, Found, Strict};
use crate::report::{Report, ReportBody};
use crate::requests::{self, RequestFilter};
use crate::terms::NamespacedName;
use crate::top;
use crate::unread::{MissedRead, Presence, UnreadWhy};
use crate::who_can::{self, WhoCanQuestion};

/// The environment of the program.
pub struct RunPlace {
    /// Runs Rego.
    pub modules: Modules,
    /// Whether the output is a terminal.
    pub colours: Colours,
    /// The clock.
    pub now: fn() -> Timestamp,
    /// Prints while a command continues. False when there is no reader any more.
    pub print: Box<dyn Fn(&str) -> bool>,
}

impl fmt::Debug for RunPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunPlace").finish_non_exhaustive()
    }
}

/// The output of a command, and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// For standard output.
    pub output: String,
    /// For standard error.
    pub errors: String,
    /// How it ended.
    pub exit: ExitWord,
}

impl Outcome {
    /// An outcome with only an error.
    #[must_use]
    pub fn error(exit: ExitWord, why: &str) -> Self {
        Self {
            output: String::new(),
            errors: format!("error: {}\n", output::shown(why)),
            exit,
        }
    }

    fn said(output: impl Into<String>) -> Self {
        Self {
            output: output.into(),
            errors: String::new(),
            exit: ExitWord::Yes,
        }
    }

    fn unread(unread: &MissedRead) -> Self {
        Self::error(ExitWord::Unknown, &unread.message)
    }
}

/// Runs a command.
pub async fn run(args: Args, place: &RunPlace) -> Outcome {
    let Args { common, command } = args;
    let question = match command {
        PluginCommand::Completion(args) => return completion(args.shell),
        PluginCommand::Schema => return schema(),
        PluginCommand::Version => {
            return Outcome::said(format!(
                "kubectl-connectors {}\n",
                env!("CARGO_PKG_VERSION")
            ));
        }
        PluginCommand::Policy(args) => return policy(&args.command, common.output, place).await,
        question @ (PluginCommand::Explain(_)
        | PluginCommand::Requests(_)
        | PluginCommand::Grants(_)
        | PluginCommand::WhoCan(_)
        | PluginCommand::CanI(_)
        | PluginCommand::Top(_)
        | PluginCommand::Doctor(_)) => question,
    };
    match connect::connect(&common).await {
        Ok(connection) => ask(&question, &common, connection, place).await,
        Err(error) => Outcome::error(ExitWord::Unknown, &chain(&error)),
    }
}

/// Runs a command on a cluster.
pub async fn ask(
    command: &PluginCommand,
    common: &CommonFlags,
    connection: Connection,
    place: &RunPlace,
) -> Outcome {
    let Connection {
        client,
        namespace,
        user,
    } = connection;
    let asked = Question {
        reads: ClusterReads::new(client, user, common.request_timeout),
        namespace,
        system_namespace: &common.system_namespace,
        place,
        format: common.output,
        now: (place.now)(),
    };
    match command {
        PluginCommand::Explain(args) => {
            let report = explain::explain(
                &asked.reads,
                &place.modules,
                args,
                &asked.namespace,
                asked.system_namespace,
                asked.now,
            );
            match report.await {
                Ok((explanation, unread)) => {
                    asked.printed(&Report::new(ReportBody::Explanation(explanation), unread))
                }
                Err(error) => not_explained(&error),
            }
        }
        PluginCommand::Requests(args) => asked.requests(args).await,
        PluginCommand::Grants(args) => asked.grants(args).await,
        PluginCommand::WhoCan(args) => asked.who_can(args).await,
        PluginCommand::CanI(args) => asked.can_i(args).await,
        PluginCommand::Top(args) => asked.top(args).await,
        PluginCommand::Doctor(args) => {
            let scope = args.scope.of(&asked.namespace);
            let system = asked.system_namespace;
            let found = doctor::doctor(&asked.reads, scope, system, asked.now);
            let (diagnosis, unread) = found.await;
            asked.printed(&Report::new(ReportBody::Diagnosis(diagnosis), unread))
        }
        PluginCommand::Policy(_)
        | PluginCommand::Completion(_)
        | PluginCommand::Schema
        | PluginCommand::Version => Outcome::error(ExitWord::Usage, "this command asks no cluster"),
    }
}

/// The values that all commands that ask a cluster share.
struct Question<'a> {
    reads: ClusterReads,
    namespace: String,
    system_namespace: &'a str,
    place: &'a RunPlace,
    format: Format,
    now: Timestamp,
}

impl Question<'_> {
    async fn all_requests(&self, namespace: &str) -> Result<Vec<Found<AccessRequest>>, MissedRead> {
        self.reads.all::<AccessRequest, Strict>(namespace, "").await
    }

    async fn requests(&self, args: &RequestsArgs) -> Outcome {
        let namespace = args.scope.of(&self.namespace);
        let filter = RequestFilter {
            connector: args.connector.clone(),
            phase: args.phase,
            pod_namespace: args.pod_namespace.clone(),
        };
        if args.watch {
            return self.watch(namespace, &filter).await;
        }
        match self.all_requests(namespace).await {
            Ok(found) => {
                let listed = requests::list(&found, &filter, self.now);
                self.printed(&Report::new(ReportBody::RequestList(listed), Vec::new()))
            }
            Err(unread) => Outcome::unread(&unread),
        }
    }

    /// Prints the list, and then each change, until there is no reader or the API server gives up.
    async fn watch(&self, namespace: &str, filter: &RequestFilter) -> Outcome {
        let mut is_first = true;
        let each = |found: Vec<Found<AccessRequest>>| {
            let now = (self.place.now)();
            let listed = requests::list(&found, filter, now);
            let is_head = std::mem::take(&mut is_first);
            if listed.requests.is_empty() && !is_head {
                return true;
            }
            let text = match self.format {
                Format::Table if is_head => requests::text(&listed, self.place.colours),
                Format::Table => requests::lines(&listed, self.place.colours),
                Format::Json | Format::Yaml => {
                    let report = Report::new(ReportBody::RequestList(listed), Vec::new());
                    match self.text(&report) {
                        Ok(text) if self.format == Format::Yaml => format!("---\n{text}"),
                        Ok(text) => text,
                        Err(error) => error,
                    }
                }
            };
            (self.place.print)(&text)
        };
        let followed = self.reads.follow::<AccessRequest, Strict>(namespace, each);
        match followed.await {
            Ok(()) => Outcome::said(""),
            Err(unread) => Outcome::unread(&unread),
        }
    }

    async fn grants(&self, args: &GrantsArgs) -> Outcome {
        let namespace = args.scope.of(&self.namespace);
        let managed = format!("{MANAGED_BY}={}", names::MANAGED_BY);
        // The requests come last: a binding is written after its request.
        let bindings = self.reads.all::<RoleBinding, Plain>(namespace, &managed);
        let bindings = bindings.await;
        let requests = self.all_requests(namespace).await;
        let requests = match requests {
            Ok(requests) => requests,
            Err(unread) => return Outcome::unread(&unread),
        };
        let (bindings, unread) = match bindings {
            Ok(bindings) => (Some(bindings), Vec::new()),
            Err(unread) => (None, vec![unread]),
        };
        let connector = args.connector.as_deref();
        let listed = grants::list(&requests, bindings.as_deref(), connector, self.now);
        self.printed(&Report::new(ReportBody::GrantList(listed), unread))
    }

    /// An error if there is no such connector. A connector that could not be read may be there.
    async fn connector(
        &self,
        name: &NamespacedName,
        unread: &mut Vec<MissedRead>,
    ) -> Result<(), Outcome> {
        let NamespacedName { namespace, name } = name;
        let found = self.reads.one::<Selectable, Labelled>(namespace, name);
        match Presence::of(found.await, unread) {
            Presence::Absent => {
                let why = format!(
                    "there is no connector {namespace}/{name}: `kubectl -n {namespace} get connectors` lists those that there \
                     are"
                );
                Err(Outcome::error(ExitWord::Unknown, &why))
            }
            Presence::Unread | Presence::There(_) => Ok(()),
        }
    }

    async fn who_can(&self, args: &WhoCanArgs) -> Outcome {
        let connector = args.connector.within(&self.namespace);
        let mut unread = Vec::new();
        if let Err(missing) = self.connector(&connector, &mut unread).await {
            return missing;
        }
        let rbac = rbac::read(&self.reads, &connector.namespace, &mut unread).await;
        let requests = match self.all_requests(&connector.namespace).await {
            Ok(found) => Some(found.into_iter().flatten().collect::<Vec<_>>()),
            Err(problem) => {
                unread.push(problem);
                None
            }
        };
        let question = WhoCanQuestion {
            namespace: &connector.namespace,
            connector: &connector.name,
            permission: args.permission,
            verb: &args.verb,
        };
        let who = who_can::who_can(question, &rbac, requests.as_deref(), self.now);
        self.printed(&Report::new(ReportBody::WhoCan(who), unread))
    }

    async fn can_i(&self, args: &CanIArgs) -> Outcome {
        let who = match (&args.as_account, &args.pod) {
            (_, Some(pod)) => Asking::Pod(pod.within(&self.namespace)),
            (Some(account), None) => Asking::Account(account.within(&self.namespace)),
            (None, None) => Asking::User,
        };
        let connector = args.connector.within(&self.namespace);
        let mut missed = Vec::new();
        if let Err(missing) = self.connector(&connector, &mut missed).await {
            return missing;
        }
        let question = CanIQuestion {
            who,
            connector,
            permission: args.permission,
            verb: args.verb.clone(),
        };
        let answer = can_i::can_i(&self.reads, question, self.system_namespace, self.now);
        match answer.await {
            Ok((shown, mut unread)) => {
                unread.extend(missed);
                unread.sort();
                unread.dedup();
                self.printed(&Report::new(ReportBody::CanI(shown), unread))
            }
            Err(error) => not_explained(&error),
        }
    }

    async fn top(&self, args: &TopArgs) -> Outcome {
        match self.all_requests(args.scope.of(&self.namespace)).await {
            Ok(found) => {
                let listed = requests::list(&found, &RequestFilter::default(), self.now);
                let top = top::top(&listed, args.limit);
                self.printed(&Report::new(ReportBody::Top(top), Vec::new()))
            }
            Err(unread) => Outcome::unread(&unread),
        }
    }

    fn text(&self, report: &Report) -> Result<String, String> {
        match self.format {
            Format::Table => Ok(table(report, self.place.colours, self.now)),
            Format::Json | Format::Yaml => for_programs(report, self.format),
        }
    }

    /// A report in the requested form. Failed reads are written to standard error, and are in the report for programs
    /// too.
    fn printed(&self, report: &Report) -> Outcome {
        let mut errors = String::new();
        for unread in &report.unread {
            let head = match unread.why {
                UnreadWhy::Forbidden | UnreadWhy::Unauthorized => "not readable",
                UnreadWhy::NotServed | UnreadWhy::Failed => "not read",
            };
            let line = format!("{head}: {}", unread.message);
            errors.push_str(&self.place.colours.paint(Tone::Open, &line));
            errors.push('\n');
        }
        match self.text(report) {
            Ok(output) => Outcome {
                output,
                errors,
                exit: exit(report),
            },
            Err(error) => Outcome::error(ExitWord::Unknown, &error),
        }
    }
}

/// A report for programs.
fn for_programs(report: &Report, format: Format) -> Result<String, String> {
    match format {
        Format::Yaml => output::yaml(report).map_err(|error| error.to_string()),
        Format::Json | Format::Table => output::json(report).map_err(|error| error.to_string()),
    }
}

/// Questions about files. They need no cluster.
async fn policy(command: &PolicyCommand, format: Format, place: &RunPlace) -> Outcome {
    let now = (place.now)();
    let (text, body, exit) = match command {
        PolicyCommand::Lint(args) => {
            let files: Vec<_> = args.files.iter().map(|it| ObjectFile::read(it)).collect();
            let report = lint::lint(&files, &place.modules).await;
            let (text, exit) = (
                lint::text(&report, place.colours),
                lint::exit(&report, args.strict),
            );
            (text, ReportBody::PolicyLint(report), exit)
        }
        PolicyCommand::Test(args) => {
            let directories = match files::of_directory(&args.directory) {
                Ok(directories) => directories,
                Err(problem) => return Outcome::error(ExitWord::Usage, &problem.message),
            };
            let report = policy_test::test(&directories, &place.modules, now).await;
            if report.cases.is_empty() && report.problems.is_empty() {
                let message = format!(
                    "{} holds no document of kind PolicyTest",
                    args.directory.display()
                );
                return Outcome::error(ExitWord::Usage, &message);
            }
            let text = match args.format {
                TestFormat::Text => policy_test::report::text(&report, place.colours),
                TestFormat::Tap => policy_test::report::tap(&report),
                TestFormat::Junit => policy_test::report::junit(&report),
            };
            let exit = policy_test::report::exit(&report);
            (text, ReportBody::PolicyTestReport(report), exit)
        }
    };
    let output = match format {
        Format::Table => Ok(text),
        Format::Json | Format::Yaml => for_programs(&Report::new(body, Vec::new()), format),
    };
    let (errors, exit) = match place.modules.not_run() {
        Some(why) => {
            let line = format!("not known: {why}; the plugin runs Rego on Linux");
            let line = place.colours.paint(Tone::Open, &line);
            (line + "\n", ExitWord::Unknown)
        }
        None => (String::new(), exit),
    };
    match output {
        Ok(output) => Outcome {
            output,
            errors,
            exit,
        },
        Err(error) => Outcome::error(ExitWord::Unknown, &error),
    }
}

fn not_explained(error: &ExplainError) -> Outcome {
    match error {
        ExplainError::NoAccount => Outcome::error(
            ExitWord::Usage,
            "name the service account that asks for the connector: --as-account NAMESPACE/NAME",
        ),
        ExplainError::Nothing(NothingToExplain::Missing(message)) => {
            Outcome::error(ExitWord::Unknown, message)
        }
        ExplainError::Nothing(NothingToExplain::Unread(unread)) => Outcome::unread(unread),
    }
}

/// How a program should interpret a report.
fn exit(report: &Report) -> ExitWord {
    match &report.body {
        ReportBody::Explanation(explanation) => explain::exit(explanation),
        ReportBody::CanI(shown) => can_i::exit(shown),
        ReportBody::RequestList(_) | ReportBody::Top(_) => ExitWord::Yes,
        ReportBody::GrantList(_) if report.unread.is_empty() => ExitWord::Yes,
        ReportBody::WhoCan(who) if who.complete && who.pods.is_some() => ExitWord::Yes,
        ReportBody::GrantList(_) | ReportBody::WhoCan(_) => ExitWord::Unknown,
        ReportBody::Diagnosis(diagnosis) => doctor::exit(diagnosis, report.unread.is_empty()),
        ReportBody::PolicyLint(report) => lint::exit(report, false),
        ReportBody::PolicyTestReport(report) => policy_test::report::exit(report),
    }
}

fn table(report: &Report, colours: Colours, now: Timestamp) -> String {
    match &report.body {
        ReportBody::Explanation(explanation) => explain::text::text(explanation, now, colours),
        ReportBody::RequestList(listed) => requests::text(listed, colours),
        ReportBody::GrantList(listed) => grants::text(listed, now, colours),
        ReportBody::WhoCan(who) => who_can::text(who, now, colours),
        ReportBody::CanI(shown) => can_i::text(shown, colours),
        ReportBody::Top(top) => top::text(top, colours),
        ReportBody::Diagnosis(diagnosis) => {
            doctor::text(diagnosis, report.unread.is_empty(), colours)
        }
        ReportBody::PolicyLint(report) => lint::text(report, colours),
        ReportBody::PolicyTestReport(report) => policy_test::report::text(report, colours),
    }
}

fn completion(shell: clap_complete::Shell) -> Outcome {
    let mut script = Vec::new();
    let mut command = Args::command();
    clap_complete::generate(shell, &mut command, "kubectl-connectors", &mut script);
    Outcome::said(String::from_utf8_lossy(&script))
}

fn schema() -> Outcome {
    match output::json(&schema_for!(Report)) {
        Ok(schema) => Outcome::said(schema),
        Err(error) => Outcome::error(ExitWord::Unknown, &error.to_string()),
    }
}
