//! `explain`: why a pod waits, who can help, what ends the wait, and what to type next.

pub mod report;
pub mod text;

mod checks;
mod collect;
mod ends;
mod force;
pub mod foresee;
mod next;
mod next_checks;
mod next_run;
mod observe;
pub mod offline;
mod seen;
mod state;
mod steps;
mod tell;
pub mod under;

use connectors_api::access_request::MatchedPolicy;
use connectors_api::config::Knowledge;
use connectors_api::pod_wish::ConnectorKey;
use jiff::Timestamp;

pub use observe::NothingToExplain;
pub use report::Explanation;
use report::{AccessWord, EndShown};
use seen::Observed;
pub use text::end_text;

use crate::args::{ExplainArgs, ExplainTarget};
use crate::exit::ExitWord;
use crate::modules::Modules;
use crate::reads::ClusterReads;
use crate::terms::NamespacedName;
use crate::unread::MissedRead;

/// The verb of every mount.
const ANY_VERB: &str = "*";

/// Why a question cannot be answered.
#[derive(Debug, PartialEq, Eq)]
pub enum ExplainError {
    /// The command line names no account.
    NoAccount,
    /// The object is missing, or could not be read.
    Nothing(NothingToExplain),
}

/// The explanation of a target, at this time.
pub async fn explain(
    reads: &ClusterReads,
    modules: &Modules,
    args: &ExplainArgs,
    namespace: &str,
    system_namespace: &str,
    now: Timestamp,
) -> Result<(Explanation, Vec<MissedRead>), ExplainError> {
    let within = |name: &str| NamespacedName::new(namespace, name);
    let mut observed = match &args.target {
        ExplainTarget::Pod(name) => {
            of_waiting(reads, system_namespace, &WaitTarget::Pod(within(name))).await?
        }
        ExplainTarget::Request(name) => {
            of_waiting(reads, system_namespace, &WaitTarget::Request(within(name))).await?
        }
        ExplainTarget::Connector(name) => {
            let account = args.as_account.as_ref().ok_or(ExplainError::NoAccount)?;
            let account = account.within(namespace);
            let connector = ConnectorKey {
                namespace: namespace.to_owned(),
                name: name.clone(),
            };
            let permission = args.permission;
            observe::connector(reads, system_namespace, connector, permission, account).await
        }
    };
    collect::judge_all(reads, modules, &mut observed).await;
    let explanation = tell::explain(&observed, now);
    Ok((explanation, observed.unread))
}

/// A pod or a request that may wait.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitTarget {
    /// A pod.
    Pod(NamespacedName),
    /// A request.
    Request(NamespacedName),
}

async fn of_waiting(
    reads: &ClusterReads,
    system_namespace: &str,
    waiting: &WaitTarget,
) -> Result<Observed, ExplainError> {
    let observed = match waiting {
        WaitTarget::Pod(name) => {
            observe::pod(reads, system_namespace, name.clone(), ANY_VERB).await
        }
        WaitTarget::Request(name) => observe::request(reads, system_namespace, name.clone()).await,
    };
    observed.map_err(ExplainError::Nothing)
}

/// The settings of the installation; none if they could not be read.
pub async fn settings(
    reads: &ClusterReads,
    system_namespace: &str,
    unread: &mut Vec<MissedRead>,
) -> Option<Knowledge> {
    observe::settings(reads, system_namespace, unread).await
}

/// The explanation of a pod with a verb of its own, without a look at the objects of checks.
pub async fn of_pod_unjudged(
    reads: &ClusterReads,
    system_namespace: &str,
    pod: NamespacedName,
    verb: &str,
    now: Timestamp,
) -> Result<(Explanation, Vec<MissedRead>), ExplainError> {
    let observed = observe::pod(reads, system_namespace, pod, verb).await;
    let observed = observed.map_err(ExplainError::Nothing)?;
    let explanation = tell::explain(&observed, now);
    Ok((explanation, observed.unread))
}

/// The ends of the grant of one policy for one pod.
#[must_use]
pub fn ends_of_grant(policy: &MatchedPolicy, connector: &str) -> Vec<EndShown> {
    ends::of_one_grant(policy, connector)
}

/// How a program should interpret an explanation: yes only if there is access to every connector.
#[must_use]
pub fn exit(explanation: &Explanation) -> ExitWord {
    let words = explanation.accesses.iter().map(|it| match it.state {
        AccessWord::Standing | AccessWord::Granted | AccessWord::NotGated => ExitWord::Yes,
        AccessWord::NotInForce
        | AccessWord::Waits
        | AccessWord::Kept
        | AccessWord::Refused
        | AccessWord::Ended
        | AccessWord::CouldAsk
        | AccessWord::CannotAsk => ExitWord::No,
        AccessWord::Unknown => ExitWord::Unknown,
    });
    let words: Vec<_> = words.collect();
    if words.contains(&ExitWord::No) || !explanation.problems.is_empty() {
        ExitWord::No
    } else if words.contains(&ExitWord::Unknown) {
        ExitWord::Unknown
    } else {
        ExitWord::Yes
    }
}
