//! The commands that ask a cluster.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use connectors_api::AccessRequest;
use connectors_api::connector::Selectable;
use connectors_api::labels::MANAGED_BY;
use connectors_api::names;
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::RoleBinding;
use service_kit::watches::{Labelled, Plain};

use super::{Outcome, RunPlace, exit, for_programs, not_explained, table};
use crate::answer::{self, AnswerClients, AnswerProblem, AnswerShown, AnswerWord};
use crate::approval_write::ApprovalAnswer;
use crate::args::{
    AnswerArgs, CanIArgs, CommonFlags, GrantsArgs, RequestsArgs, SimulateArgs, TopArgs, WhoCanArgs,
};
use crate::can_i::{self, Asking, CanIQuestion};
use crate::exit::ExitWord;
use crate::files;
use crate::grants;
use crate::lint;
use crate::output::{self, Format, Tone};
use crate::rbac;
use crate::reads::{ClusterReads, Found, Strict};
use crate::report::{Report, ReportBody};
use crate::requests::{self, RequestFilter};
use crate::simulate::{self, SimulationProblem, SimulationScope};
use crate::terms::NamespacedName;
use crate::top;
use crate::unread::{MissedRead, Presence, UnreadWhy};
use crate::who_can::{self, WhoCanQuestion};
use crate::writes::AnswerWriter;

/// The values that all commands that ask a cluster share.
pub(super) struct Question<'a> {
    pub(super) reads: ClusterReads,
    pub(super) writer: AnswerWriter,
    pub(super) namespace: String,
    pub(super) system_namespace: &'a str,
    pub(super) place: &'a RunPlace,
    pub(super) format: Format,
    pub(super) now: Timestamp,
}

impl Question<'_> {
    async fn all_requests(&self, namespace: &str) -> Result<Vec<Found<AccessRequest>>, MissedRead> {
        self.reads.all::<AccessRequest, Strict>(namespace, "").await
    }

    pub(super) async fn requests(&self, args: &RequestsArgs) -> Outcome {
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

    pub(super) async fn grants(&self, args: &GrantsArgs) -> Outcome {
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

    pub(super) async fn who_can(&self, args: &WhoCanArgs) -> Outcome {
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

    pub(super) async fn can_i(&self, args: &CanIArgs) -> Outcome {
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

    pub(super) async fn top(&self, args: &TopArgs) -> Outcome {
        match self.all_requests(args.scope.of(&self.namespace)).await {
            Ok(found) => {
                let listed = requests::list(&found, &RequestFilter::default(), self.now);
                let top = top::top(&listed, args.limit);
                self.printed(&Report::new(ReportBody::Top(top), Vec::new()))
            }
            Err(unread) => Outcome::unread(&unread),
        }
    }

    pub(super) async fn simulate(&self, args: &SimulateArgs) -> Outcome {
        let files = match files::of_paths(&args.files) {
            Ok(files) => files,
            Err(problem) => return Outcome::error(ExitWord::Usage, &problem.message),
        };
        let deleted = args.deleted.iter();
        // One policy may be named twice, with and without its namespace.
        let deleted: BTreeSet<_> = deleted.map(|it| it.within(&self.namespace)).collect();
        let deleted: Vec<_> = deleted.into_iter().collect();
        let scope = SimulationScope {
            deleted: &deleted,
            namespace: &self.namespace,
            is_all: args.scope.all_namespaces,
            system_namespace: self.system_namespace,
        };
        let modules = &self.place.modules;
        let simulated = simulate::simulate(&self.reads, modules, &files, scope, self.now);
        match Box::pin(simulated).await {
            Ok((simulation, unread)) => {
                self.printed(&Report::new(ReportBody::Simulation(simulation), unread))
            }
            Err(SimulationProblem::File(why)) => Outcome::error(ExitWord::Usage, &why),
            Err(SimulationProblem::Lint(linted)) => Outcome {
                output: String::new(),
                errors: lint::text(&linted, self.place.colours),
                exit: ExitWord::Usage,
            },
        }
    }

    pub(super) async fn answer(
        &self,
        answer: ApprovalAnswer,
        args: &AnswerArgs,
        common: &CommonFlags,
    ) -> Outcome {
        let colours = self.place.colours;
        let flags = common.typed_again();
        let clients = AnswerClients {
            flags: &flags,
            reads: &self.reads,
            writer: &self.writer,
            modules: &self.place.modules,
        };
        let ask = |shown: &AnswerShown| {
            let preview = answer::text::preview(shown, self.now, colours);
            (self.place.ask)(&format!("{preview}{} it? [y/N] ", answer.verb()))
        };
        let system = self.system_namespace;
        let answered = answer::answer(
            clients,
            answer,
            args,
            &self.namespace,
            system,
            self.now,
            ask,
        );
        match Box::pin(answered).await {
            Ok((shown, unread)) => {
                let problem = match shown.outcome {
                    AnswerWord::Written | AnswerWord::Already => None,
                    AnswerWord::StillAwaited
                    | AnswerWord::OtherEnd
                    | AnswerWord::NothingAwaited
                    | AnswerWord::Declined
                    | AnswerWord::NotAsked
                    | AnswerWord::EffectsUnknown
                    | AnswerWord::Refused
                    | AnswerWord::Changed
                    | AnswerWord::Unknown => Some(shown.because.clone()),
                };
                let report = Report::new(ReportBody::Answer(shown), unread);
                let mut outcome = self.printed(&report);
                if let Some(problem) = problem {
                    let _ = writeln!(outcome.errors, "error: {}", output::shown(&problem));
                }
                outcome
            }
            Err(AnswerProblem::Explain(error)) => not_explained(&error),
            Err(AnswerProblem::Missed(missed)) => Outcome::unread(&missed),
            Err(AnswerProblem::Usage(why)) => Outcome::error(ExitWord::Usage, &why),
            Err(AnswerProblem::No(why)) => Outcome::error(ExitWord::No, &why),
            Err(AnswerProblem::Already(shown)) => self.already(*shown),
        }
    }

    /// An answer that is there already.
    fn already(&self, shown: AnswerShown) -> Outcome {
        let because = output::shown(&shown.because) + "\n";
        let mut outcome = self.printed(&Report::new(ReportBody::Answer(shown), Vec::new()));
        match (self.format, outcome.exit) {
            (Format::Table, ExitWord::Yes) => outcome.output = because,
            (Format::Json | Format::Yaml, ExitWord::Yes) => {}
            (_, _) => {
                let _ = write!(outcome.errors, "error: {because}");
            }
        }
        outcome
    }

    fn text(&self, report: &Report) -> Result<String, String> {
        match self.format {
            Format::Table => Ok(table(report, self.place.colours, self.now)),
            Format::Json | Format::Yaml => for_programs(report, self.format),
        }
    }

    /// A report in the requested form. Failed reads are written to standard error, and are in the report for programs
    /// too.
    pub(super) fn printed(&self, report: &Report) -> Outcome {
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
