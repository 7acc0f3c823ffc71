//! The authorizers of a service in their order, and the evidence behind the answer.

use crate::{
    Attributes, Authorizer, AuthorizerDecision, Learning, RbacIndex, SystemMasters, Verdict,
};

/// Authorizers in the order in which they are asked: the first yes or no counts. A chain without links allows nothing.
///
/// A further authorizer is one more [`ChainLink::Other`].
#[derive(Debug)]
pub struct Chain {
    /// The objects of RBAC.
    pub rbac: RbacIndex,
    /// The order.
    pub links: Vec<ChainLink>,
}

/// An authorizer of a chain.
#[derive(Debug)]
pub enum ChainLink {
    /// RBAC, as the caller reads it from the index.
    Rbac,
    /// Another one, and its name in answers.
    Other(&'static str, Box<dyn Authorizer>),
}

/// The answer of a chain.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum ChainAnswer<B> {
    /// RBAC allows it, and this is the evidence.
    AllowedByRbac(B),
    /// Another authorizer allows it.
    Allowed(Opinion),
    /// Another authorizer refuses it.
    Denied(Opinion),
    /// No authorizer decides it, so it is not allowed.
    NoOpinion,
}

/// The decision of an authorizer other than RBAC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// The name of the authorizer in the chain.
    pub authorizer: &'static str,
    /// Its reason, for people.
    pub reason: String,
}

impl Default for Chain {
    /// The order of Kubernetes: superusers, then RBAC.
    fn default() -> Self {
        Self {
            rbac: RbacIndex::default(),
            links: vec![
                ChainLink::Other("SystemMasters", Box::new(SystemMasters)),
                ChainLink::Rbac,
            ],
        }
    }
}

impl Chain {
    /// The answer to a question. A caller may accept fewer bindings than RBAC does, so it searches the index itself.
    pub fn answer<'a, B>(
        &'a self,
        attributes: &Attributes<'_>,
        mut rbac: impl FnMut(&'a RbacIndex) -> Option<B>,
    ) -> ChainAnswer<B> {
        for link in &self.links {
            let (authorizer, verdict) = match link {
                ChainLink::Rbac => match rbac(&self.rbac) {
                    Some(evidence) => return ChainAnswer::AllowedByRbac(evidence),
                    None => continue,
                },
                ChainLink::Other(name, authorizer) => (*name, authorizer.authorize(attributes)),
            };
            let Verdict { decision, reason } = verdict;
            match decision {
                AuthorizerDecision::Allow => {
                    return ChainAnswer::Allowed(Opinion { authorizer, reason });
                }
                AuthorizerDecision::Deny => {
                    return ChainAnswer::Denied(Opinion { authorizer, reason });
                }
                AuthorizerDecision::NoOpinion => {}
            }
        }
        ChainAnswer::NoOpinion
    }

    /// Everything that authorizers have to ask elsewhere before they know the answer to a question.
    #[must_use]
    pub fn learn(&self, attributes: &Attributes<'_>) -> Vec<Learning> {
        let links = self.links.iter();
        let learning = links.filter_map(|link| match link {
            ChainLink::Rbac => None,
            ChainLink::Other(_, authorizer) => authorizer.learn(attributes),
        });
        learning.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Target, User};

    #[derive(Debug)]
    struct Fixed(AuthorizerDecision);

    impl Authorizer for Fixed {
        fn authorize(&self, _: &Attributes<'_>) -> Verdict {
            Verdict {
                decision: self.0,
                reason: "so it is".to_owned(),
            }
        }
    }

    #[derive(Debug)]
    struct Asks;

    impl Authorizer for Asks {
        fn authorize(&self, _: &Attributes<'_>) -> Verdict {
            Verdict::no_opinion(String::new())
        }
        fn learn(&self, _: &Attributes<'_>) -> Option<Learning> {
            Some(Box::pin(std::future::ready(())))
        }
    }

    const ALLOWS: (&str, AuthorizerDecision) = ("allows", AuthorizerDecision::Allow);
    const DENIES: (&str, AuthorizerDecision) = ("denies", AuthorizerDecision::Deny);
    const UNSURE: (&str, AuthorizerDecision) = ("unsure", AuthorizerDecision::NoOpinion);
    /// The place of RBAC.
    const RBAC: (&str, AuthorizerDecision) = ("", AuthorizerDecision::NoOpinion);

    fn question(user: &User) -> Attributes<'_> {
        Attributes {
            user,
            verb: "get",
            target: Target::Path("/healthz"),
        }
    }

    fn ask(chain: &Chain, user: &User, binding: Option<&'static str>) -> ChainAnswer<&'static str> {
        chain.answer(&question(user), |_| binding)
    }

    fn answer(
        links: &[(&'static str, AuthorizerDecision)],
        binding: Option<&'static str>,
    ) -> ChainAnswer<&'static str> {
        let links = links.iter().map(|(name, decision)| match *name {
            "" => ChainLink::Rbac,
            name => ChainLink::Other(name, Box::new(Fixed(*decision))),
        });
        let chain = Chain {
            links: links.collect(),
            ..Chain::default()
        };
        ask(&chain, &User::default(), binding)
    }

    fn opinion(authorizer: &'static str) -> Opinion {
        let reason = "so it is".to_owned();
        Opinion { authorizer, reason }
    }

    #[test]
    fn the_first_yes_or_no_decides_and_names_its_authorizer() {
        let by_rbac = ChainAnswer::AllowedByRbac("b");
        for (links, expected) in [
            (
                &[UNSURE, ALLOWS, DENIES, RBAC][..],
                ChainAnswer::Allowed(opinion("allows")),
            ),
            (
                &[UNSURE, DENIES, ALLOWS, RBAC],
                ChainAnswer::Denied(opinion("denies")),
            ),
            (&[UNSURE, RBAC, DENIES, ALLOWS], by_rbac),
        ] {
            assert_eq!(answer(links, Some("b")), expected);
        }
        let denied = ChainAnswer::Denied(opinion("denies"));
        assert_eq!(answer(&[RBAC, DENIES, ALLOWS], None), denied);
    }

    #[test]
    fn without_an_opinion_or_an_authorizer_nothing_is_allowed() {
        assert_eq!(answer(&[UNSURE, RBAC], None), ChainAnswer::NoOpinion);
        assert_eq!(answer(&[UNSURE], Some("b")), ChainAnswer::NoOpinion);
        assert_eq!(answer(&[], Some("b")), ChainAnswer::NoOpinion);
    }

    #[test]
    fn superusers_come_before_rbac_and_nothing_waits() {
        let chain = Chain::default();
        let master = User {
            name: "root".to_owned(),
            groups: vec![SystemMasters::GROUP.to_owned()],
        };
        let ChainAnswer::Allowed(opinion) = ask(&chain, &master, Some("b")) else {
            panic!("not allowed");
        };
        assert_eq!(opinion.authorizer, "SystemMasters");
        assert_eq!(
            ask(&chain, &User::default(), Some("b")),
            ChainAnswer::AllowedByRbac("b")
        );
        assert!(chain.learn(&question(&master)).is_empty());
    }

    #[test]
    fn what_any_authorizer_has_to_ask_elsewhere_is_waited_for() {
        let unsure = Fixed(AuthorizerDecision::NoOpinion);
        let chain = Chain {
            links: vec![
                ChainLink::Other("asks", Box::new(Asks)),
                ChainLink::Rbac,
                ChainLink::Other("knows", Box::new(unsure)),
                ChainLink::Other("asks too", Box::new(Asks)),
            ],
            ..Chain::default()
        };
        assert_eq!(chain.learn(&question(&User::default())).len(), 2);
    }
}
