//! Shows an answer, asks the user, writes it, and reads back.

use std::time::Duration;

use connectors_api::AccessRequest;
use connectors_api::access_request::Phase;
use connectors_api::pod_grant::RequestFacts as _;
use jiff::Timestamp;
use tokio::time::{Instant, sleep, timeout_at};

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
/// The limit of one look at the requests.
const ONE_LOOK: Duration = Duration::from_secs(10);

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
    /// The flags of the command line that say which cluster is meant, and as which user.
    pub flags: &'a str,
}

/// How often an object that changes meanwhile is read and answered with `--yes`.
const TRIES: usize = 3;

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
    let mut tries = 1;
    loop {
        let answered = Box::pin(answer_once(clients, place, answer, args, &ask)).await?;
        let (shown, _) = &answered;
        // Nothing was written, and no user has read effects that may be others now. Another approver may have answered, or
        // the controller behind the approval.
        if shown.outcome != AnswerWord::Changed || !args.yes || tries == TRIES {
            return Ok(answered);
        }
        tries += 1;
    }
}

/// Reads the approval, and answers it if it stays as it was read.
async fn answer_once(
    clients: AnswerClients<'_>,
    place: AnswerPlace<'_>,
    answer: ApprovalAnswer,
    args: &AnswerArgs,
    ask: &impl Fn(&AnswerShown) -> Consent,
) -> Result<(AnswerShown, Vec<MissedRead>), AnswerProblem> {
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
    let is_known = shown.knows_effects();
    let (outcome, because) = match consent {
        Consent::Declined => (AnswerWord::Declined, "nothing was written".to_owned()),
        Consent::NoTerminal => (AnswerWord::NotAsked, not_asked(&shown, args, clients.flags)),
        Consent::Given if args.yes && !is_known => {
            (AnswerWord::EffectsUnknown, NOT_KNOWN.to_owned())
        }
        // The user takes time to read, in which tenants go on.
        Consent::Given if !args.yes && !is_as_shown(place, answer, args, &shown).await => {
            (AnswerWord::Changed, OTHER_EFFECTS.to_owned())
        }
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
                shown.state_after = Some(prepare::state(&object));
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

/// The sentence for a script that must not write.
const NOT_KNOWN: &str = "nothing was written: not all of its effects are known, and --yes writes only if they are. Ask for \
                         the missing rights, or type it on a terminal without --yes";
/// The sentence for a user that read a preview which is not true any more.
const OTHER_EFFECTS: &str = "nothing was written: a pod, a policy or a request changed after it was shown, and with it the \
                             effects: run the command again";

/// True when another look finds the effects that were shown.
async fn is_as_shown(
    place: AnswerPlace<'_>,
    answer: ApprovalAnswer,
    args: &AnswerArgs,
    shown: &AnswerShown,
) -> bool {
    let again = Box::pin(prepare::prepare(place, answer, args)).await;
    again.is_ok_and(|it| it.shown.has_effects_of(shown))
}

/// The sentence for a script.
fn not_asked(shown: &AnswerShown, args: &AnswerArgs, flags: &str) -> String {
    let NamespacedName { namespace, name } = &shown.object.name;
    let kind = shown.object.kind.to_ascii_lowercase();
    let group = shown.object.api_version.split_once('/');
    let kind = group.map_or_else(|| kind.clone(), |(group, _)| format!("{kind}.{group}"));
    let object = format!("{kind}/{name}");
    let wait = args.wait.map(|it| format!(" --wait={}", it.as_secs()));
    let wait = wait.unwrap_or_default();
    let group = args.group.as_ref();
    let group = group.map_or_else(String::new, |it| format!(" --group {}", shell(it)));
    let message = args.message.as_ref();
    let message = message.map_or_else(String::new, |it| format!(" --message {}", shell(it)));
    format!(
        "nothing was written: there is no terminal to ask on. To write it without a question, type: kubectl connectors {} {} \
         -n {namespace}{flags}{group}{message}{wait} --yes",
        shown.answer.verb(),
        shell(&object)
    )
}

/// A request that an answer decides.
struct AwaitedRequest {
    seen: RequestAfter,
    /// Its phase, if the effects come true.
    expected: Phase,
    /// The last read failed.
    missed: Option<MissedRead>,
}

impl AwaitedRequest {
    async fn read(&mut self, reads: &ClusterReads) {
        let NamespacedName { namespace, name } = &self.seen.name;
        let found = reads.one::<AccessRequest, Strict>(namespace, name).await;
        self.missed = None;
        match found {
            Ok(Some(Ok(found))) => self.seen.after = found.phase(),
            // A request that is gone awaits nothing.
            Ok(None) => self.seen.after = Some(Phase::Ended),
            Ok(Some(Err(_))) => {}
            Err(missed) => self.missed = Some(missed),
        }
    }

    /// A request that was not looked at yet counts as pending.
    fn is_decided(&self) -> bool {
        let of = |phase: Option<Phase>| phase.unwrap_or(Phase::Pending);
        let after = of(self.seen.after);
        after != Phase::Pending && after != of(self.seen.before)
    }

    fn is_as_expected(&self) -> bool {
        let is_over = self.expected == Phase::Revoked && self.seen.after == Some(Phase::Ended);
        is_over || self.seen.after == Some(self.expected)
    }
}

/// Reads the requests that the answer decides: once, or until each is decided or the time is over.
async fn read_back(
    reads: &ClusterReads,
    shown: &mut AnswerShown,
    wait: Option<Duration>,
    unread: &mut Vec<MissedRead>,
) {
    let awaited = shown
        .awaited()
        .map(|(effect, expected, name)| AwaitedRequest {
            seen: RequestAfter {
                name,
                before: effect.phase,
                after: effect.phase,
            },
            expected,
            missed: None,
        });
    let mut requests: Vec<AwaitedRequest> = awaited.collect();
    let end = Instant::now() + wait.unwrap_or(ONE_LOOK);
    loop {
        for request in requests.iter_mut().filter(|it| !it.is_decided()) {
            if timeout_at(end, request.read(reads)).await.is_err() {
                break;
            }
        }
        let is_done = requests.iter().all(AwaitedRequest::is_decided);
        if is_done || wait.is_none() || Instant::now() >= end {
            break;
        }
        sleep(PAUSE).await;
    }
    if wait.is_some()
        && let Some((outcome, because)) = after_wait(&requests)
    {
        shown.outcome = outcome;
        shown.because = because;
    }
    unread.extend(requests.iter().filter_map(|it| it.missed.clone()));
    shown.requests = requests.into_iter().map(|it| it.seen).collect();
}

/// Why a wait did not end as the effects say.
fn after_wait(requests: &[AwaitedRequest]) -> Option<(AnswerWord, String)> {
    if requests.is_empty() {
        let because = "it is written, and there is no request to wait for";
        return Some((AnswerWord::NothingAwaited, because.to_owned()));
    }
    let decided = requests.iter().filter(|it| it.is_decided());
    let other = decided.filter(|it| !it.is_as_expected()).map(|it| {
        let phase = it.seen.after.map_or("unknown", |it| it.as_str());
        let expected = it.expected.as_str();
        format!("request {} is {phase}, and not {expected}", it.seen.name)
    });
    let other: Vec<_> = other.collect();
    if !other.is_empty() {
        return Some((AnswerWord::OtherEnd, other.join("; ")));
    }
    let mut open = requests.iter().filter(|it| !it.is_decided());
    let first = open.next()?;
    let because = match &first.missed {
        Some(missed) => format!("request {} could not be read: {missed}", first.seen.name),
        None => format!("request {} was not decided in time", first.seen.name),
    };
    Some((AnswerWord::StillAwaited, because))
}

#[cfg(test)]
mod tests;
