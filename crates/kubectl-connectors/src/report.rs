//! The content of `-o json`, in one versioned schema. Fields may be added. None changes its meaning or goes away
//! within a version.

use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::AnswerShown;
use crate::can_i::CanIShown;
use crate::convert::Conversion;
use crate::doctor::Diagnosis;
use crate::doctor::plan::FixPlan;
use crate::explain::Explanation;
use crate::grants::GrantList;
use crate::lint::LintReport;
use crate::policy_test::TestReport;
use crate::policy_test::coverage::CoverageReport;
use crate::requests::RequestList;
use crate::simulate::Simulation;
use crate::terms::API_VERSION;
use crate::top::TopList;
use crate::unread::MissedRead;
use crate::who_can::WhoCanShown;

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Always `cli.connectors.alauda.io/v1`.
    pub api_version: &'static str,
    /// The answer, by the command that was asked.
    #[serde(flatten)]
    pub body: ReportBody,
    /// The failed reads. The answer was given without them.
    pub unread: Vec<MissedRead>,
}

/// The answer, by the command that was asked.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind")]
pub enum ReportBody {
    /// Of `explain`.
    Explanation(Explanation),
    /// Of `requests`.
    RequestList(RequestList),
    /// Of `grants`.
    GrantList(GrantList),
    /// Of `who-can`.
    WhoCan(WhoCanShown),
    /// Of `can-i`.
    CanI(CanIShown),
    /// Of `top`.
    Top(TopList),
    /// Of `doctor`.
    Diagnosis(Diagnosis),
    /// Of `doctor --fix-plan`.
    FixPlan(FixPlan),
    /// Of `approve` and `reject`.
    Answer(AnswerShown),
    /// Of `policy lint`.
    PolicyLint(LintReport),
    /// Of `policy test`.
    PolicyTestReport(TestReport),
    /// Of `policy coverage`.
    PolicyCoverage(CoverageReport),
    /// Of `policy simulate`.
    Simulation(Simulation),
    /// Of `convert`.
    Conversion(Conversion),
}

impl Report {
    /// An answer, and the failed reads. Each failed read is reported once.
    #[must_use]
    pub fn new(body: ReportBody, mut unread: Vec<MissedRead>) -> Self {
        unread.sort();
        unread.dedup();
        Self {
            api_version: API_VERSION,
            body,
            unread,
        }
    }
}
