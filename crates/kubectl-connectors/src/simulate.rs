//! `policy simulate`: what policies in files would change in a cluster. It only reads.
//!
//! The judge of the services answers for each request, under the policies that there are and under those of the files.
//! The rules of the policy-controller answer for the standing permissions.

mod forecast;
mod read;
mod standing;
pub mod text;

use connectors_api::Permission;
use connectors_api::access_request::Phase;
use schemars::JsonSchema;
use serde::Serialize;

pub use read::{SimulationProblem, SimulationScope, simulate};

use crate::exit::ExitWord;
use crate::explain::report::RuleShown;
use crate::terms::NamespacedName;

/// The changes that policies would make.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Simulation {
    /// The policies of the files, and those that would be deleted.
    pub policies: Vec<SimulatedPolicy>,
    /// The requests whose result would be another one.
    pub requests: Vec<RequestForecast>,
    /// The standing permissions that would begin or end.
    pub standing: Vec<StandingChange>,
    /// How many requests were looked at.
    pub looked_at: usize,
    /// How many requests wait or are granted, and were not looked at.
    pub left_out: usize,
    /// Faults of the policies, by which they give nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Whether everything was read that the answer depends on.
    pub complete: bool,
}

/// A policy of a file, or one that would be deleted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedPolicy {
    /// Namespace and name.
    #[serde(flatten)]
    pub name: NamespacedName,
    /// Whether there is one of its name.
    pub state: SimulatedWord,
}

/// Whether there is a policy of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum SimulatedWord {
    /// There is none.
    New,
    /// There is one with another spec.
    Changed,
    /// There is one with the same spec.
    Same,
    /// It would be deleted.
    Deleted,
}

/// The result of a request, before and afterwards. A granted request may have two: one of its grant, and one of a new
/// request of its pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestForecast {
    /// The request, in the namespace of the connector.
    pub request: String,
    /// The pod.
    pub pod: NamespacedName,
    /// The service account of the pod.
    pub account: NamespacedName,
    /// The connector.
    pub connector: NamespacedName,
    /// The permission.
    pub permission: Permission,
    /// The subject of the forecast. It tells the two forecasts of a granted request apart.
    pub about: ForecastAbout,
    /// The phase of the request now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// Under the policies that there are.
    pub before: ForecastWord,
    /// Under those of the files.
    pub after: ForecastWord,
    /// Why, as a sentence.
    pub because: String,
    /// The rules that the pod would get before. Of a grant: those that end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules_before: Vec<RuleShown>,
    /// The rules that the pod would get afterwards. Of a grant: those that it gets in addition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules_after: Vec<RuleShown>,
}

/// The subject of a forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum ForecastAbout {
    /// The request, which no policy has granted.
    Request,
    /// The grant of the request: what ends, and what is added.
    Grant,
    /// A new request of the pod, whose request is granted.
    NewRequest,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum ForecastWord {
    /// A standing permission of a policy covers the account.
    Standing,
    /// Every check of a policy passes.
    Granted,
    /// A policy applies, and its checks are not decided.
    Waits,
    /// A check of each policy that applies says no.
    Refused,
    /// No policy applies.
    NoPolicy,
    /// Something could not be read that decides.
    Unknown,
}

/// A standing permission that would begin or end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StandingChange {
    /// The namespace of the connectors.
    pub namespace: String,
    /// Begins or ends.
    pub change: StandingWord,
    /// The user, group or service account.
    pub holder: String,
    /// The resource of the rule.
    pub resource: String,
    /// The verb.
    pub verb: String,
    /// The connectors.
    pub connectors: Vec<String>,
}

/// Whether a standing permission begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum StandingWord {
    /// It begins.
    Gains,
    /// It ends.
    Loses,
}

impl Simulation {
    /// True when the policies would change nothing.
    #[must_use]
    pub fn changes_nothing(&self) -> bool {
        self.requests.is_empty() && self.standing.is_empty()
    }
}

/// No if something would change, or a policy would not give what it says.
#[must_use]
pub fn exit(simulation: &Simulation) -> ExitWord {
    if !simulation.complete || simulation.left_out > 0 {
        ExitWord::Unknown
    } else if simulation.changes_nothing() && simulation.problems.is_empty() {
        ExitWord::Yes
    } else {
        ExitWord::No
    }
}
