//! Shows an answer, asks the user, writes it, and reads back.

use std::time::Duration;

use connectors_api::AccessRequest;
use connectors_api::access_request::Phase;
use connectors_api::pod_grant::RequestFacts as _;
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::prepare::{self, AnswerPlace, PreparedAnswer};
use super::{AnswerProblem, AnswerShown, AnswerWord, RequestAfter};
use crate::approval_write::ApprovalAnswer;
use crate::args::AnswerArgs;
use crate::modules::Modules;
use crate::reads::{ClusterReads, Strict};
use crate::terms::{NamespacedName, shell};
use crate::unread::MissedRead;
use crate::writes::{AnswerWriter, WriteFailure};

/// The pause between two looks at the requests.
const PAUSE: Duration = Duration::from_millis(500);

/// The user's word about a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Yes.
    Given,
    /// Anything else.
    Declined,
    /// There is no terminal to ask on.
    NoTerminal,
}

/// The cluster, as the user of the command reads and writes it.
#[derive(Clone, Copy)]
pub struct AnswerClients<'a> {
    /// Reads.
    pub reads: &'a ClusterReads,
    /// Writes.
    pub writer: &'a AnswerWriter,
    /// Runs Rego.
    pub modules: &'a Modules,
}

/// Answers an approval. `ask` shows the answer with its effects to the user.
pub async fn answer(
    clients: AnswerClients<'_>,
    answer: ApprovalAnswer,
    args: &AnswerArgs,
    namespace: &str,
    system_namespace: &str,
    now: Timestamp,
    ask: impl Fn(&AnswerShown) -> Consent,
) -> Result<(AnswerShown, Vec<MissedRead>), AnswerProblem> {
    let place = AnswerPlace {
        reads: clients.reads,
        modules: clients.modules,
        namespace,
        system_namespace,
        now,
    };
    let PreparedAnswer {
        mut shown,
        resource,
        write,
        mut unread,
    } = prepare::prepare(place, answer, args).await?;
    let consent = if args.yes {
        Consent::Given
    } else {
        ask(&shown)
    };
    let (outcome, because) = match consent {
        Consent::Declined => (AnswerWord::Declined, "nothing was written".to_owned()),
        Consent::NoTerminal => (AnswerWord::NotAsked, not_asked(&shown, args)),
        Consent::Given => {
            let written = clients.writer.write(&resource, &shown.object.name, &write);
            match written.await {
                Ok(()) => (AnswerWord::Written, String::new()),
                Err(WriteFailure::Refused(message)) => (AnswerWord::Refused, message),
                Err(WriteFailure::Changed) => {
                    let message = "it changed after it was read, and nothing was written: run the command again";
                    (AnswerWord::Changed, message.to_owned())
                }
                Err(WriteFailure::Unknown(message)) => (AnswerWord::Unknown, message),
            }
        }
    };
    shown.asked = !args.yes && consent != Consent::NoTerminal;
    shown.outcome = outcome;
    shown.because = because;
    if matches!(outcome, AnswerWord::Written | AnswerWord::Unknown) {
        let NamespacedName { namespace, name } = &shown.object.name;
        match clients.reads.object(&resource, namespace, name).await {
            Ok(Some(Ok(object))) => {
                shown.state_after = Some(prepare::state(&object).to_owned());
            }
            Ok(Some(Err(_)) | None) => {}
            Err(missed) => unread.push(missed),
        }
    }
    if outcome == AnswerWord::Written {
        read_back(clients.reads, &mut shown, args.wait, &mut unread).await;
    }
    Ok((shown, unread))
}

/// The sentence for a script.
fn not_asked(shown: &AnswerShown, args: &AnswerArgs) -> String {
    let NamespacedName { namespace, name } = &shown.object.name;
    let object = format!("{}/{name}", shown.object.kind.to_ascii_lowercase());
    let group = args.group.as_ref();
    let group = group.map_or_else(String::new, |it| format!(" --group {}", shell(it)));
    let message = args.message.as_ref();
    let message = message.map_or_else(String::new, |it| format!(" --message {}", shell(it)));
    format!(
        "nothing was written: there is no terminal to ask on. To write it without a question, type: kubectl connectors {} {} \
         -n {namespace}{group}{message} --yes",
        shown.answer.verb(),
        shell(&object)
    )
}

/// Reads the requests whose phase the answer changes, until each has another one or the time is over.
async fn read_back(
    reads: &ClusterReads,
    shown: &mut AnswerShown,
    wait: Option<Duration>,
    unread: &mut Vec<MissedRead>,
) {
    let before = shown.awaited().map(|(effect, name)| RequestAfter {
        name,
        before: effect.phase,
        after: effect.phase,
    });
    let mut requests: Vec<RequestAfter> = before.collect();
    let end = Instant::now() + wait.unwrap_or_default();
    loop {
        for request in requests.iter_mut().filter(|it| !it.has_moved()) {
            let NamespacedName { namespace, name } = &request.name;
            match reads.one::<AccessRequest, Strict>(namespace, name).await {
                Ok(Some(Ok(found))) => request.after = found.phase(),
                // A request that is gone awaits nothing.
                Ok(None) => request.after = Some(Phase::Ended),
                Ok(Some(Err(_))) => {}
                Err(missed) => unread.push(missed),
            }
        }
        let is_done = requests.iter().all(RequestAfter::has_moved);
        if is_done || Instant::now() >= end {
            if !is_done && wait.is_some() {
                shown.outcome = AnswerWord::StillAwaited;
                "the phase of a request did not change in time".clone_into(&mut shown.because);
            }
            break;
        }
        sleep(PAUSE).await;
    }
    shown.requests = requests;
}

impl RequestAfter {
    /// A request that was not looked at yet counts as pending.
    fn has_moved(&self) -> bool {
        let of = |phase: Option<Phase>| phase.unwrap_or(Phase::Pending);
        of(self.before) != of(self.after)
    }
}
