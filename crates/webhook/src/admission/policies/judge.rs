//! The answer about a policy: pure, from its findings and the rights of its author.

use connectors_api::policy_order::MOST_PER_NAMESPACE;
use thiserror::Error;

use crate::{
    evaluator::Unjudged,
    finding::AdmissionFinding,
    review::{AdmissionAnswer, AdmissionRefusal, RefusalStatus},
};

/// Connectors that a refusal names.
pub(super) const MOST_NAMED: usize = 8;

/// The rights of the author, as the API server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// Nothing: there was nothing to ask.
    Unasked,
    /// It did not answer.
    NoAnswer,
    /// He may change every connector of the namespace.
    MayAll,
    /// He may not, and the policy is about connectors that it does not name.
    MayNotAll,
    /// He may change the connectors that the policy names, but for these, and perhaps for more if they are more than
    /// a refusal names.
    MayBut(Vec<String>),
}

impl Author {
    /// Whether he may hand out what the policy does.
    pub(crate) fn may(&self) -> bool {
        match self {
            Self::MayAll => true,
            Self::MayBut(names) => names.is_empty(),
            Self::Unasked | Self::NoAnswer | Self::MayNotAll => false,
        }
    }
}

/// A defect of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Defect {
    #[error("the object is nested too deeply to be read")]
    TooDeep,
    #[error("{0}")]
    Found(AdmissionFinding),
    #[error(
        "spec.connector: you may not update every connector of the namespace, and a policy hands out only what its author \
         may change; name those that you may, in spec.connector.names"
    )]
    NotAll,
    #[error(
        "spec.connector.names: you may not update {}, and a policy hands out only what its author may change",
        named(.0)
    )]
    Not(Vec<String>),
    #[error(transparent)]
    Unjudged(Unjudged),
    #[error("the policy cannot be judged in time; try again")]
    NobodyInTime,
    #[error("what you may do cannot be looked up now; try again")]
    NoAnswer,
    #[error(
        "the namespace has {MOST_PER_NAMESPACE} access policies, as many as a namespace may have; delete those that it does \
         not need, or put several into one"
    )]
    TooMany,
    #[error("the access policies of the namespace cannot be counted now; try again")]
    Uncounted,
}

impl Defect {
    /// The table of what each problem is on the wire.
    const fn status(&self) -> RefusalStatus {
        match self {
            Self::TooDeep | Self::Found(_) | Self::Unjudged(Unjudged::Refused(_)) => {
                RefusalStatus::Invalid
            }
            Self::NotAll | Self::Not(_) | Self::TooMany => RefusalStatus::Forbidden,
            Self::Unjudged(Unjudged::NoAnswer | Unjudged::NotLet | Unjudged::Unknown)
            | Self::NobodyInTime
            | Self::NoAnswer
            | Self::Uncounted => RefusalStatus::Unavailable,
        }
    }
}

fn named(connectors: &[String]) -> String {
    let (first, rest) = connectors.split_at(connectors.len().min(MOST_NAMED));
    let first = first.join(", ");
    // An author without a right to so many is asked about no further one.
    if rest.is_empty() {
        first
    } else {
        format!("{first} and more")
    }
}

/// Everything that is to be said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PolicyVerdict {
    problems: Vec<Defect>,
    warnings: Vec<String>,
}

impl PolicyVerdict {
    /// The findings.
    pub(crate) fn found(findings: impl IntoIterator<Item = AdmissionFinding>) -> Self {
        let mut verdict = Self::default();
        for finding in findings {
            if finding.is_error {
                verdict.problems.push(Defect::Found(finding));
            } else {
                verdict.warnings.push(finding.to_string());
            }
        }
        verdict
    }

    /// The same, unless nothing is wrong in it and something is in another one.
    pub(crate) fn or_else_of(self, other: Self) -> Self {
        if self.problems.is_empty() && !other.problems.is_empty() {
            other
        } else {
            self
        }
    }

    /// The same, and one more problem.
    pub(crate) fn and(mut self, problem: Defect) -> Self {
        self.problems.push(problem);
        self
    }

    pub(crate) fn author(&mut self, author: Author) {
        match author {
            Author::MayAll => {}
            // Of what cannot be read that is said already.
            Author::Unasked if !self.problems.is_empty() => {}
            Author::MayBut(names) if names.is_empty() => {}
            Author::MayBut(names) => self.problems.push(Defect::Not(names)),
            Author::MayNotAll => self.problems.push(Defect::NotAll),
            Author::Unasked | Author::NoAnswer => self.problems.push(Defect::NoAnswer),
        }
    }

    /// Whether nothing is wrong so far.
    pub(crate) const fn lets_pass(&self) -> bool {
        self.problems.is_empty()
    }

    /// Whether the namespace has room for one more policy beside those of this number; none where they could not be
    /// counted.
    pub(crate) fn room(&mut self, count: Option<usize>) {
        match count {
            Some(count) if count < MOST_PER_NAMESPACE => {}
            Some(_) => self.problems.push(Defect::TooMany),
            None => self.problems.push(Defect::Uncounted),
        }
    }

    /// One more thing that is legal and surely not meant.
    pub(crate) fn warn(&mut self, words: &str) {
        self.warnings.push(words.to_owned());
    }

    /// All problems in one refusal; warnings only where there is none.
    pub(crate) fn answer(self) -> AdmissionAnswer {
        let Self { problems, warnings } = self;
        // What will not change outweighs what may: an author who tries again should be able to succeed.
        let Some(status) = problems.iter().map(Defect::status).max() else {
            return AdmissionAnswer::Allowed {
                patch: None,
                warnings,
            };
        };
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        AdmissionAnswer::Refused(AdmissionRefusal {
            status,
            message: lines.join("; "),
        })
    }
}

#[cfg(test)]
mod tests;
