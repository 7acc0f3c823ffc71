//! The trait of an authorizer, and the union of several.

use std::fmt;
use std::pin::Pin;

use crate::Attributes;

/// The decision of an authorizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthorizerDecision {
    /// The access is allowed.
    Allow,
    /// The access is refused, and no further authorizer is asked.
    Deny,
    /// This authorizer does not decide the access; the next one may. Without a next one the access is not
    /// allowed.
    NoOpinion,
}

/// A decision and why it was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Verdict {
    /// The decision. [`Decision::Allow`] is the only yes.
    pub decision: AuthorizerDecision,
    /// A text for people; empty when there is nothing to say. It never affects a decision.
    pub reason: String,
}

impl Verdict {
    /// Allows the access.
    pub const fn allow(reason: String) -> Self {
        Self {
            decision: AuthorizerDecision::Allow,
            reason,
        }
    }

    /// Refuses the access; later authorizers are not asked.
    pub const fn deny(reason: String) -> Self {
        Self {
            decision: AuthorizerDecision::Deny,
            reason,
        }
    }

    /// Leaves the decision to later authorizers.
    pub const fn no_opinion(reason: String) -> Self {
        Self {
            decision: AuthorizerDecision::NoOpinion,
            reason,
        }
    }

    /// True for [`Decision::Allow`] only.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        matches!(self.decision, AuthorizerDecision::Allow)
    }
}

/// The wait of an authorizer for something that it has to ask elsewhere.
pub type Learning = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Answers access questions from memory, without blocking.
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// The answer as of now.
    fn authorize(&self, attributes: &Attributes<'_>) -> Verdict;

    /// For an authorizer that asks elsewhere, for example over the network: brings the answer to a question into
    /// memory. None where it is there, or was asked for in vain a moment ago.
    ///
    /// A question that gets a no is asked again after this wait. Until then, an authorizer that may allow has no
    /// opinion, and one that may refuse refuses.
    fn learn(&self, _attributes: &Attributes<'_>) -> Option<Learning> {
        None
    }
}

/// Authorizers in the order in which they are asked: the first yes or no counts.
///
/// When no authorizer decides, the reasons of all are kept, each on its own line.
#[derive(Clone, Copy, Debug)]
pub struct Union<'a>(pub &'a [&'a dyn Authorizer]);

impl Authorizer for Union<'_> {
    fn authorize(&self, attributes: &Attributes<'_>) -> Verdict {
        let mut reasons = String::new();
        for authorizer in self.0 {
            let verdict = authorizer.authorize(attributes);
            match verdict.decision {
                AuthorizerDecision::Allow | AuthorizerDecision::Deny => return verdict,
                AuthorizerDecision::NoOpinion => {}
            }
            if !reasons.is_empty() && !verdict.reason.is_empty() {
                reasons.push('\n');
            }
            reasons.push_str(&verdict.reason);
        }
        Verdict::no_opinion(reasons)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Target, User};

    #[derive(Debug)]
    struct Says(Verdict);

    impl Authorizer for Says {
        fn authorize(&self, _: &Attributes<'_>) -> Verdict {
            self.0.clone()
        }
    }

    fn allow(reason: &str) -> Verdict {
        Verdict::allow(reason.to_owned())
    }
    fn deny(reason: &str) -> Verdict {
        Verdict::deny(reason.to_owned())
    }
    fn unsure(reason: &str) -> Verdict {
        Verdict::no_opinion(reason.to_owned())
    }

    fn union<const N: usize>(verdicts: [Verdict; N]) -> Verdict {
        let says = verdicts.map(Says);
        let chain = says.each_ref().map(|one| one as &dyn Authorizer);
        Union(&chain).authorize(&Attributes {
            user: &User::default(),
            verb: "get",
            target: Target::Path("/healthz"),
        })
    }

    #[test]
    fn the_first_yes_or_no_decides_and_speaks_alone() {
        assert_eq!(union([unsure("a"), allow("b"), deny("c")]), allow("b"));
        assert_eq!(union([unsure("a"), deny("b"), allow("c")]), deny("b"));
        assert_eq!(union([allow(""), deny("b")]), allow(""));
    }

    #[test]
    fn without_an_opinion_all_reasons_are_kept() {
        assert_eq!(
            union([unsure("a"), unsure(""), unsure("b")]),
            unsure("a\nb")
        );
        assert_eq!(union([unsure("a"), unsure("b")]), unsure("a\nb"));
        assert_eq!(union([unsure(""), unsure("b")]), unsure("b"));
        assert_eq!(union([unsure("a"), unsure("")]), unsure("a"));
    }

    #[test]
    fn nobody_to_ask_is_no_yes() {
        let verdict = union([]);
        assert_eq!(verdict, unsure(""));
        assert!(!verdict.is_allowed());
    }
}
