//! Standing permissions: the correct answer, and wrong ones.

use evaluation_api::access::{AccessQuestion, Decision};
use evaluation_service::{access_decision, world};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use request_controller::seen::StandingSeen;

use crate::stage::Stage;

/// The misbehaviour of the evaluator when it is asked about standing permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hearsay {
    /// The service cannot be reached.
    Away,
    /// It never answers.
    Silent,
    /// It answers after a second.
    Slow,
    /// It refuses every question.
    Refuses,
    /// It reports that there is none.
    No,
    /// Once, it reports one for every account. A service that repeats this is believed.
    Yes,
    /// An answer without a matching question.
    Nothing,
}

impl Hearsay {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Away,
        Self::Silent,
        Self::Slow,
        Self::Refuses,
        Self::No,
        Self::Yes,
        Self::Nothing,
    ];

    /// The word in plans.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Away => "away",
            Self::Silent => "silent",
            Self::Slow => "slow",
            Self::Refuses => "refuses",
            Self::No => "no",
            Self::Yes => "yes",
            Self::Nothing => "nothing",
        }
    }
}

/// A misbehaviour that affects some calls, from one call on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rumour {
    /// The misbehaviour.
    pub hearsay: Hearsay,
    /// The first affected call, from 0.
    pub from: usize,
    /// The number of affected calls.
    pub calls: usize,
}

/// The answer of the evaluation service about standing permissions, from the existing Roles and bindings.
pub(super) fn standing(stage: &Stage, questions: &[AccessQuestion]) -> Vec<StandingSeen> {
    let mut known = world::World::default();
    for role in stage.server.list("roles") {
        let role: Option<Role> = serde_json::from_value(role).ok();
        let _ = role.map(|it| known.chain.rbac.apply(&it));
    }
    for binding in stage.server.list("rolebindings") {
        let binding: Option<RoleBinding> = serde_json::from_value(binding).ok();
        let _ = binding.map(|it| known.chain.rbac.apply(&it));
    }
    let says =
        |question| match access_decision::answer(&known, question, stage.server.now()).decision {
            Decision::AllowedStanding(_) => StandingSeen::There,
            Decision::AllowedPod(_) | Decision::Denied => StandingSeen::Absent,
        };
    questions.iter().map(says).collect()
}
