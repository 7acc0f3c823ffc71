//! `can-i`: may the user, a service account or a pod use a connector now?

use connectors_api::Permission;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::ExitWord;
use crate::explain::report::AccessWord;
use crate::explain::{self, ExplainError};
use crate::output::{Colours, Tone};
use crate::reads::{ClusterReads, ReadResult, ReviewOf};
use crate::terms::NamespacedName;
use crate::unread::MissedRead;

/// Whether the access is allowed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanIShown {
    /// The asker: the user, a service account, or a pod.
    pub who: String,
    /// The connector.
    pub connector: NamespacedName,
    /// The permission.
    pub permission: Permission,
    /// The verb.
    pub verb: String,
    /// The answer.
    pub answer: CanIWord,
    /// Why, as a sentence.
    pub because: String,
}

/// Whether the access is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum CanIWord {
    /// Yes.
    Yes,
    /// No.
    No,
    /// It could not be asked.
    Unknown,
}

/// The asker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asking {
    /// The user of the command.
    User,
    /// A service account.
    Account(NamespacedName),
    /// A pod, with its service account.
    Pod(NamespacedName),
}

/// A question about access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CanIQuestion {
    /// The asker.
    pub who: Asking,
    /// The connector.
    pub connector: NamespacedName,
    /// The permission.
    pub permission: Permission,
    /// The verb.
    pub verb: String,
}

impl CanIQuestion {
    fn review<'a>(&'a self, subresource: &'a str) -> ReviewOf<'a> {
        ReviewOf {
            verb: &self.verb,
            subresource,
            namespace: &self.connector.namespace,
            connector: &self.connector.name,
        }
    }

    fn answered(self, who: String, answer: CanIWord, because: String) -> CanIShown {
        let Self {
            who: _,
            connector,
            permission,
            verb,
        } = self;
        CanIShown {
            who,
            connector,
            permission,
            verb,
            answer,
            because,
        }
    }
}

/// Asks the API server's own authorizers. A pod may also have been granted access, which its request records.
pub async fn can_i(
    reads: &ClusterReads,
    question: CanIQuestion,
    system_namespace: &str,
    now: Timestamp,
) -> Result<(CanIShown, Vec<MissedRead>), ExplainError> {
    match question.who.clone() {
        Asking::User => {
            let review = question.review(question.permission.as_str());
            let review = reads.i_may(review).await;
            Ok(standing(
                question,
                "you".to_owned(),
                review.map(|it| (it.allowed, it.reason)),
            ))
        }
        Asking::Account(account) => {
            let user = authz::User::service_account(&account.namespace, &account.name);
            let review = question.review(question.permission.as_str());
            let review = reads.may(&user, review).await;
            let who = format!("ServiceAccount {account}");
            Ok(standing(
                question,
                who,
                review.map(|it| (it.allowed, it.reason)),
            ))
        }
        Asking::Pod(pod) => of_pod(reads, question, pod, system_namespace, now).await,
    }
}

fn standing(
    question: CanIQuestion,
    who: String,
    review: ReadResult<(bool, Option<String>)>,
) -> (CanIShown, Vec<MissedRead>) {
    match review {
        Ok((allowed, reason)) => {
            let answer = if allowed { CanIWord::Yes } else { CanIWord::No };
            let reason = reason.filter(|it| !it.is_empty());
            let because = match (allowed, reason) {
                (true, Some(reason)) => format!("a standing permission: {reason}"),
                (true, None) => "a standing permission".to_owned(),
                (false, _) => {
                    "no standing permission; a pod may be granted access by a request".to_owned()
                }
            };
            (question.answered(who, answer, because), Vec::new())
        }
        Err(unread) => {
            let because = unread.message.clone();
            (
                question.answered(who, CanIWord::Unknown, because),
                vec![unread],
            )
        }
    }
}

async fn of_pod(
    reads: &ClusterReads,
    question: CanIQuestion,
    pod: NamespacedName,
    system_namespace: &str,
    now: Timestamp,
) -> Result<(CanIShown, Vec<MissedRead>), ExplainError> {
    let who = format!("pod {pod}");
    let (explanation, unread) =
        explain::of_pod_unjudged(reads, system_namespace, pod, &question.verb, now).await?;
    let mut accesses = explanation.accesses.into_iter();
    let access = accesses
        .find(|it| it.connector == question.connector && it.permission == question.permission);
    let Some(access) = access else {
        let because = format!(
            "no volume of the pod names {} with permission {}",
            question.connector, question.permission
        );
        return Ok((question.answered(who, CanIWord::No, because), unread));
    };
    let (answer, because) = match access.state {
        AccessWord::Standing | AccessWord::Granted => (CanIWord::Yes, access.because),
        AccessWord::Unknown => (CanIWord::Unknown, access.because),
        AccessWord::NotInForce
        | AccessWord::NotGated
        | AccessWord::Kept
        | AccessWord::Waits
        | AccessWord::Refused
        | AccessWord::Ended
        | AccessWord::CouldAsk
        | AccessWord::CannotAsk => (CanIWord::No, access.because),
    };
    Ok((question.answered(who, answer, because), unread))
}

/// How a program should interpret the answer.
#[must_use]
pub const fn exit(shown: &CanIShown) -> ExitWord {
    match shown.answer {
        CanIWord::Yes => ExitWord::Yes,
        CanIWord::No => ExitWord::No,
        CanIWord::Unknown => ExitWord::Unknown,
    }
}

/// The same for people: the answer on a line of its own, as `kubectl auth can-i` prints it.
#[must_use]
pub fn text(shown: &CanIShown, colours: Colours) -> String {
    let (tone, word) = match shown.answer {
        CanIWord::Yes => (Tone::Good, "yes"),
        CanIWord::No => (Tone::Bad, "no"),
        CanIWord::Unknown => (Tone::Bad, "not known"),
    };
    let because = format!("{}: {}", shown.who, shown.because);
    format!(
        "{}\n{}\n",
        colours.paint(tone, word),
        colours.paint(Tone::Dim, &because)
    )
}
