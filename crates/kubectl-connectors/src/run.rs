//! From the command line to what is printed.

mod question;
mod watch;

use std::fmt;

use jiff::Timestamp;
use schemars::schema_for;
use service_kit::report as chain;

use crate::answer::{self, Consent};
use crate::approval_write::ApprovalAnswer;
use crate::args::{Args, CommonFlags, ConvertArgs, PluginCommand, PolicyArgs, PolicyCommand};
use crate::can_i;
use crate::completion;
use crate::connect::{self, Connection};
use crate::convert::{self, ConvertPlace, ShippedFacts};
use crate::doctor;
use crate::exit::ExitWord;
use crate::explain::{self, ExplainError, NothingToExplain};
use crate::files::{self, ObjectFile};
use crate::grants;
use crate::lint;
use crate::modules::Modules;
use crate::output::{self, Colours, Format, Tone};
use crate::policy_test::{self, report::TestFormat};
use crate::reads::ClusterReads;
use crate::report::{Report, ReportBody};
use crate::requests;
use crate::simulate;
use crate::top;
use crate::unread::MissedRead;
use crate::who_can;
use crate::writes::AnswerWriter;
use question::Question;

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
    /// Shows a text on the terminal, and asks whether to go on.
    pub ask: Box<dyn Fn(&str) -> Consent>,
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
        PluginCommand::Completion(args) => return Outcome::said(completion::script(args.by)),
        PluginCommand::Complete(args) => {
            return Outcome::said(completion::of_kubectl(&args.words));
        }
        PluginCommand::Schema => return schema(),
        PluginCommand::Version => {
            return Outcome::said(format!(
                "kubectl-connectors {}\n",
                env!("CARGO_PKG_VERSION")
            ));
        }
        PluginCommand::Policy(args) if !args.asks_cluster() => {
            let format = common.output;
            let run = || policy(&args.command, format, place);
            return match args.watched() {
                Some(directory) => Box::pin(watch::watch(directory, format, place, run)).await,
                None => run().await,
            };
        }
        PluginCommand::Convert(args) => return converted(&args, &common, place).await,
        question @ (PluginCommand::Explain(_)
        | PluginCommand::Requests(_)
        | PluginCommand::Grants(_)
        | PluginCommand::WhoCan(_)
        | PluginCommand::CanI(_)
        | PluginCommand::Top(_)
        | PluginCommand::Doctor(_)
        | PluginCommand::Approve(_)
        | PluginCommand::Reject(_)
        | PluginCommand::Policy(_)) => question,
    };
    match connect::connect(&common).await {
        Ok(connection) => Box::pin(ask(&question, &common, connection, place)).await,
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
        writer: AnswerWriter::new(client.clone(), user.clone(), common.request_timeout),
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
            let body = if args.fix_plan {
                ReportBody::FixPlan(doctor::plan::plan(diagnosis, unread.is_empty()))
            } else {
                ReportBody::Diagnosis(diagnosis)
            };
            asked.printed(&Report::new(body, unread))
        }
        PluginCommand::Policy(PolicyArgs {
            command: PolicyCommand::Simulate(args),
        }) => asked.simulate(args).await,
        PluginCommand::Approve(args) => asked.answer(ApprovalAnswer::Approve, args, common).await,
        PluginCommand::Reject(args) => asked.answer(ApprovalAnswer::Reject, args, common).await,
        PluginCommand::Policy(_)
        | PluginCommand::Convert(_)
        | PluginCommand::Completion(_)
        | PluginCommand::Complete(_)
        | PluginCommand::Schema
        | PluginCommand::Version => Outcome::error(ExitWord::Usage, "this command asks no cluster"),
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
        PolicyCommand::Coverage(args) => {
            let directories = match files::of_directory(&args.directory) {
                Ok(directories) => directories,
                Err(problem) => return Outcome::error(ExitWord::Usage, &problem.message),
            };
            let report = policy_test::coverage::coverage(&directories, &place.modules, now).await;
            if report.policies.is_empty() && report.problems.is_empty() {
                let message = format!("{} holds no AccessPolicy", args.directory.display());
                return Outcome::error(ExitWord::Usage, &message);
            }
            let text = policy_test::coverage::text(&report, place.colours);
            let exit = policy_test::coverage::exit(&report);
            (text, ReportBody::PolicyCoverage(report), exit)
        }
        PolicyCommand::Simulate(_) => {
            return Outcome::error(ExitWord::Usage, "this command asks a cluster");
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

/// Objects on standard output, notes and refusals on standard error; for programs all in one report.
async fn converted(args: &ConvertArgs, common: &CommonFlags, place: &RunPlace) -> Outcome {
    let mut read = Vec::new();
    for path in &args.files {
        if path.as_os_str() == "-" {
            read.push(ObjectFile::read_input());
        } else if path.is_dir() {
            match files::of_directory(path) {
                Ok(directories) => read.extend(directories.into_iter().flatten()),
                Err(problem) => return Outcome::error(ExitWord::Usage, &problem.message),
            }
        } else {
            read.push(ObjectFile::read(path));
        }
    }
    let namespaces = ConvertPlace {
        namespace: common.namespace.as_deref().unwrap_or("default"),
        templates: &common.system_namespace,
        facts: ShippedFacts {
            from: args.from,
            template_is_unchanged: args.template_is_unchanged,
        },
    };
    let conversion = convert::convert(&read, namespaces, &place.modules).await;
    if let Some(why) = place.modules.not_run() {
        let why = format!("{why}; the plugin runs Rego on Linux");
        return Outcome::error(ExitWord::Unknown, &why);
    }
    let exit = convert::exit(&conversion);
    let (output, errors) = match common.output {
        Format::Table => {
            let errors = convert::text(&conversion, place.colours);
            let output = convert::manifests(&conversion).map_err(|error| error.to_string());
            (output, errors)
        }
        Format::Json | Format::Yaml => {
            let report = Report::new(ReportBody::Conversion(conversion), Vec::new());
            (for_programs(&report, common.output), String::new())
        }
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
        ReportBody::WhoCan(who)
            if who.complete && who.pods.is_some() && report.unread.is_empty() =>
        {
            ExitWord::Yes
        }
        ReportBody::GrantList(_) | ReportBody::WhoCan(_) => ExitWord::Unknown,
        ReportBody::Diagnosis(diagnosis) => doctor::exit(diagnosis, report.unread.is_empty()),
        ReportBody::FixPlan(plan) => doctor::plan::exit(plan),
        ReportBody::Answer(shown) => answer::exit(shown),
        ReportBody::PolicyLint(report) => lint::exit(report, false),
        ReportBody::PolicyTestReport(report) => policy_test::report::exit(report),
        ReportBody::PolicyCoverage(report) => policy_test::coverage::exit(report),
        ReportBody::Simulation(simulation) => simulate::exit(simulation),
        ReportBody::Conversion(conversion) => convert::exit(conversion),
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
        ReportBody::Answer(shown) => answer::text::text(shown, now, colours),
        ReportBody::FixPlan(plan) => doctor::plan::text(plan),
        ReportBody::PolicyLint(report) => lint::text(report, colours),
        ReportBody::PolicyTestReport(report) => policy_test::report::text(report, colours),
        ReportBody::PolicyCoverage(report) => policy_test::coverage::text(report, colours),
        ReportBody::Simulation(simulation) => simulate::text::text(simulation, colours),
        ReportBody::Conversion(conversion) => convert::text(conversion, colours),
    }
}

fn schema() -> Outcome {
    match output::json(&schema_for!(Report)) {
        Ok(schema) => Outcome::said(schema),
        Err(error) => Outcome::error(ExitWord::Unknown, &error.to_string()),
    }
}
