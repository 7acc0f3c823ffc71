//! The judgement. Each rule has a file of its own; the module above describes its requirements.

mod fresh;
mod last;
mod revoked;
mod shape;
mod tenants;

use jiff::{SignedDuration, Timestamp};

use super::{
    Settings,
    facts::{Facts, Mark, Request},
    grant::Grant,
    observer::Declared,
    report::{Revocation, Rule, Violation},
};

/// Everything that a judgement is made from.
pub(super) struct Case<'a> {
    pub(super) facts: &'a Facts,
    pub(super) settings: &'a Settings,
    pub(super) declared: &'a Declared,
    pub(super) end: Timestamp,
}

impl<'a> Case<'a> {
    /// The grants that are to be judged.
    pub(super) fn grants(&self) -> impl Iterator<Item = &'a Grant> {
        let namespaces = self.settings.namespaces.as_ref();
        let of_these = move |namespace: &str| namespaces.is_none_or(|all| all.contains(namespace));
        self.facts
            .grants
            .iter()
            .filter(move |grant| of_these(&grant.namespace))
    }

    fn request(&self, grant: &Grant) -> Option<&'a Request> {
        self.facts.requests.get(grant.request_uid())
    }
}

/// The findings of the rules.
#[derive(Debug, Default)]
pub(super) struct Judgement {
    pub(super) violations: Vec<Violation>,
    pub(super) revocations: Vec<Revocation>,
    pub(super) ended: usize,
    pub(super) open: usize,
    pub(super) races: usize,
}

pub(super) fn judge(case: &Case<'_>) -> Judgement {
    let mut judgement = Judgement::default();
    fresh::judge(case, &mut judgement);
    revoked::judge(case, &mut judgement);
    tenants::judge(case, &mut judgement);
    shape::judge(case, &mut judgement);
    last::judge(case, &mut judgement);
    judgement
}

impl Judgement {
    fn against(&mut self, rule: Rule, grant: &Grant, what: String, shown_by: &[&Mark]) {
        let calls = [&grant.mark].into_iter().chain(shown_by.iter().copied());
        self.violations.push(Violation {
            rule,
            about: grant.to_string(),
            what,
            shown_by: calls.map(|mark| mark.audit.clone()).collect(),
        });
    }
}

/// From one moment to another.
fn between(from: Timestamp, to: Timestamp) -> SignedDuration {
    to.duration_since(from)
}
