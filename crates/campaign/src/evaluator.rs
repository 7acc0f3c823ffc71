//! The evaluator of checks: the real judge in this process, and the ways in which it can fail.

mod hearsay;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use connectors_api::{
    judge::{self, NeededParts, RegoAnswer, RegoFailure, RegoJob},
    rego::CheckModule,
};
use evaluation_api::{
    access::AccessQuestion,
    client::EvaluationCallError,
    judgement,
    v1::{
        CheckVerdict, EvaluateChecksRequest, EvaluateChecksResponse, EvaluationStage, GrantedRule,
    },
    verdict,
};
use evaluation_service::evaluate;
use evaluation_service::evaluate::policies::ParsedPolicies;
use futures::future::{BoxFuture, pending};
use request_controller::{
    evaluator::{Evaluator, Unanswered},
    seen::{MountAccess, StandingSeen},
};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep},
};
use tonic::{Code, Status};

use crate::{neighbour, stage::Stage};
use hearsay::standing;

pub use hearsay::{Hearsay, Rumour};

/// The number of questions that the service answers concurrently: more than one tenant may ask, and fewer
/// than two may.
const PLACES: usize = 8;

/// The misbehaviour of the evaluator during a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mood {
    /// It cannot be reached.
    Away,
    /// It reports that it is busy.
    Busy,
    /// It refuses the question as invalid.
    Refuses,
    /// It answers after three seconds, just within the deadline.
    Slow,
    /// It never answers.
    Silent,
    /// An approval without any evidence.
    BareYes,
    /// The correct verdict, with rules for another pod.
    OtherPod,
    /// A verdict that no version of the protocol defines.
    UnknownVerdict,
    /// Before a grant, it reports every check as pending, regardless of the objects. After a grant, it
    /// answers correctly.
    StillPending,
    /// The correct results for objects that approve, and nothing about the others.
    OnlyYes,
    /// An answer about checks that were not in the question.
    OtherChecks,
    /// An empty answer.
    Empty,
}

impl Mood {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Away,
        Self::Busy,
        Self::Refuses,
        Self::Slow,
        Self::Silent,
        Self::BareYes,
        Self::OtherPod,
        Self::UnknownVerdict,
        Self::StillPending,
        Self::OnlyYes,
        Self::OtherChecks,
        Self::Empty,
    ];

    /// The word in plans.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Away => "away",
            Self::Busy => "busy",
            Self::Refuses => "refuses",
            Self::Slow => "slow",
            Self::Silent => "silent",
            Self::BareYes => "bare-yes",
            Self::OtherPod => "other-pod",
            Self::UnknownVerdict => "unknown-verdict",
            Self::StillPending => "still-pending",
            Self::OnlyYes => "only-yes",
            Self::OtherChecks => "other-checks",
            Self::Empty => "empty",
        }
    }
}

/// A mood that affects some questions, from one question on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spell {
    /// The misbehaviour.
    pub mood: Mood,
    /// The first affected question, from 0.
    pub from: usize,
    /// The number of affected questions.
    pub questions: usize,
}

#[derive(Debug, Default)]
struct State {
    asked: usize,
    met: Vec<Instant>,
    over: bool,
    /// True once it has approved: after a grant, `StillPending` answers correctly.
    said_yes: bool,
    /// The number of calls about standing permissions.
    rumoured: usize,
}

/// The evaluator, shared by all processes of a run.
#[derive(Clone, Debug)]
pub struct Oracle {
    spell: Option<Spell>,
    rumour: Option<Rumour>,
    /// Limits the questions that are answered concurrently.
    places: Arc<Semaphore>,
    state: Arc<Mutex<State>>,
}

impl Oracle {
    /// An evaluator with this spell and this rumour, if any.
    #[must_use]
    pub fn new(spell: Option<Spell>, rumour: Option<Rumour>) -> Self {
        Self {
            spell,
            rumour,
            places: Arc::new(Semaphore::new(PLACES)),
            state: Arc::default(),
        }
    }

    /// The number of questions it was asked.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.state().asked
    }

    /// The number of calls about standing permissions.
    #[must_use]
    pub fn asked_for_standing(&self) -> usize {
        self.state().rumoured
    }

    /// The times of the questions that were affected.
    #[must_use]
    pub fn met(&self) -> Vec<Instant> {
        self.state().met.clone()
    }

    /// Ends the spell and the rumour, however many questions are left.
    pub fn relieve(&self) {
        self.state().over = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mood(&self) -> Option<Mood> {
        let mut state = self.state();
        let at = state.asked;
        state.asked += 1;
        let spell = self.spell?;
        let meets = (spell.from..spell.from + spell.questions).contains(&at);
        // The answer is cached for up to 45 minutes, so one is enough.
        let once = spell.mood == Mood::StillPending && (!state.met.is_empty() || state.said_yes);
        let is_over = state.over || once;
        if is_over || !meets {
            return None;
        }
        state.met.push(Instant::now());
        Some(spell.mood)
    }

    fn hearsay(&self) -> Option<Hearsay> {
        let mut state = self.state();
        let at = state.rumoured;
        state.rumoured += 1;
        let rumour = self.rumour?;
        let meets = (rumour.from..rumour.from + rumour.calls).contains(&at);
        if state.over || !meets {
            return None;
        }
        state.met.push(Instant::now());
        Some(rumour.hearsay)
    }
}

/// The evaluator as one process sees it.
pub struct Asked {
    /// The shared evaluator.
    pub oracle: Oracle,
    /// True when the process is dead, and receives no more answers.
    pub dead: Arc<AtomicBool>,
    /// The cluster, for correct answers.
    pub stage: Stage,
}

impl Evaluator for Asked {
    fn mounts(
        &self,
        _: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<MountAccess>, Unanswered>> {
        // No pod of the campaign waits with a scheduling gate.
        Box::pin(async { Err(refusal(Code::Unavailable)) })
    }

    fn standing(
        &self,
        questions: Vec<AccessQuestion>,
    ) -> BoxFuture<'_, Result<Vec<StandingSeen>, Unanswered>> {
        Box::pin(async move {
            let hearsay = self.oracle.hearsay();
            tokio::task::yield_now().await;
            let all = |it: StandingSeen| Ok(vec![it; questions.len()]);
            let answer = match hearsay {
                Some(Hearsay::Away) => Err(refusal(Code::Unavailable)),
                Some(Hearsay::Silent) => pending().await,
                Some(Hearsay::Slow) => {
                    sleep(Duration::from_secs(1)).await;
                    Ok(standing(&self.stage, &questions))
                }
                Some(Hearsay::Refuses) => all(StandingSeen::Unknown),
                Some(Hearsay::No) => all(StandingSeen::Absent),
                Some(Hearsay::Yes) => all(StandingSeen::There),
                Some(Hearsay::Nothing) => Ok(Vec::new()),
                None => Ok(standing(&self.stage, &questions)),
            };
            if self.dead.load(Ordering::SeqCst) {
                return pending().await;
            }
            answer
        })
    }

    fn evaluate(
        &self,
        question: EvaluateChecksRequest,
    ) -> BoxFuture<'_, Result<EvaluateChecksResponse, Unanswered>> {
        Box::pin(async move {
            if self.dead.load(Ordering::SeqCst) {
                return pending().await;
            }
            let mood = self.oracle.mood();
            tokio::task::yield_now().await;
            // In order of arrival, as in the service. Only questions about the neighbour's policies take
            // time.
            let _place = self.oracle.places.acquire().await;
            if neighbour::asks(&question.policy) {
                sleep(neighbour::QUESTION).await;
            }
            let answer = answer(mood, question).await;
            if answer
                .as_ref()
                .is_ok_and(|it| it.verdict == i32::from(CheckVerdict::Passed))
            {
                self.oracle.state().said_yes = true;
            }
            let answer = answer.and_then(|it| match verdict::all_known(&it) {
                Ok(()) => Ok(it),
                // As the client reports it.
                Err(unknown) => Err(EvaluationCallError::from(unknown).into()),
            });
            if self.dead.load(Ordering::SeqCst) {
                return pending().await;
            }
            answer
        })
    }
}

async fn answer(
    mood: Option<Mood>,
    question: EvaluateChecksRequest,
) -> Result<EvaluateChecksResponse, Unanswered> {
    let Some(mood) = mood else {
        return truth(&question);
    };
    let checks: Vec<String> = question
        .candidates
        .iter()
        .map(|it| it.check.clone())
        .collect();
    let yes = i32::from(CheckVerdict::Passed);
    match mood {
        Mood::Away => Err(refusal(Code::Unavailable)),
        Mood::Busy => Err(refusal(Code::ResourceExhausted)),
        Mood::Refuses => Err(refusal(Code::InvalidArgument)),
        Mood::Slow => {
            sleep(Duration::from_secs(3)).await;
            truth(&question)
        }
        Mood::Silent => pending().await,
        Mood::BareYes => Ok(EvaluateChecksResponse {
            verdict: yes,
            ..EvaluateChecksResponse::default()
        }),
        Mood::OtherPod => {
            let mut answer = truth(&question)?;
            answer.rules = vec![GrantedRule {
                verbs: vec!["*".to_owned()],
                resources: vec!["connectors/apis/v1/pod/apps/somebody-else".to_owned()],
            }];
            Ok(answer)
        }
        Mood::UnknownVerdict => {
            let mut answer = truth(&question)?;
            answer.verdict = 4711;
            for check in &mut answer.checks {
                check.verdict = 4711;
            }
            Ok(answer)
        }
        Mood::StillPending => {
            let before = question.stage == i32::from(EvaluationStage::BeforeGrant);
            let mut answer = truth(&question)?;
            if !before {
                return Ok(answer);
            }
            answer.verdict = CheckVerdict::Pending.into();
            for check in &mut answer.checks {
                check.verdict = CheckVerdict::Pending.into();
            }
            Ok(answer)
        }
        Mood::OnlyYes => {
            let mut question = question;
            for candidates in &mut question.candidates {
                candidates.objects.retain(|it| approves(it));
            }
            truth(&question)
        }
        Mood::OtherChecks => {
            let mut answer = truth(&question)?;
            answer.verdict = yes;
            for (index, check) in answer.checks.iter_mut().enumerate() {
                check.check = format!("not-{}", checks.get(index).cloned().unwrap_or_default());
                check.verdict = yes;
            }
            Ok(answer)
        }
        Mood::Empty => Ok(EvaluateChecksResponse::default()),
    }
}

/// An approximation that only searches for the word.
fn approves(object: &[u8]) -> bool {
    let word: &[u8] = br#""state":"approved""#;
    object.windows(word.len()).any(|it| it == word)
}

fn refusal(code: Code) -> Unanswered {
    Unanswered::Call(EvaluationCallError::Status {
        call: "evaluate checks",
        status: Box::new(Status::new(code, "under a spell")),
    })
}

/// The answer of the evaluation service, without the network.
fn truth(question: &EvaluateChecksRequest) -> Result<EvaluateChecksResponse, Unanswered> {
    let refused = || refusal(Code::InvalidArgument);
    let policy = ParsedPolicies::default().find(&question.policy);
    let policy = policy.map_err(|_| refused())?.read(&question.policy);
    let asked = evaluate::read(question, &NeededParts::ALL).map_err(|_| refused())?;
    let asked = asked.about(policy.map_err(|_| refused())?);
    let prepared = judge::prepare(asked).map_err(|_| refused())?;
    let answers: Vec<_> = prepared.rego_jobs().map(|job| rego(&job)).collect();
    Ok(judgement::to_wire(prepared.finish(answers)))
}

fn rego(job: &RegoJob<'_>) -> Result<RegoAnswer, RegoFailure> {
    let limit = Duration::from_secs(5);
    let failed = |error: &dyn std::error::Error| RegoFailure::Failed(error.to_string());
    let module = CheckModule::parse(job.module, limit).map_err(|error| failed(&error))?;
    let answer = module.evaluate(job.input, job.context);
    let answer = answer.map_err(|error| failed(&error))?;
    Ok(RegoAnswer {
        state: answer.state,
        message: answer.message,
    })
}
