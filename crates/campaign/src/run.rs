//! One run: a scenario, the controller and the faults, on virtual time.

mod patience;

use std::{sync::Arc, time::Duration};

use jiff::SignedDuration;
use service_kit::chance;
use testkit::{Entry, Lag};
use tokio::{
    sync::mpsc::{UnboundedSender, unbounded_channel},
    time::{Instant, sleep},
};

use crate::{
    evaluator::Oracle,
    inject::{Injector, Met},
    neighbour::{self, Neighbour},
    newcomer::{self, LATE},
    oracle::{self, EndState, Incident, Rule, Seen, Violation, Writes},
    plan::{Fault, Plan},
    process::{OTHER, Processes},
    scenario::{Scenario, Step},
    stage::{LOUD, SECOND_SYSTEM, SYSTEM, Stage},
};
use patience::{LAG, aftermath, allowance, recovery};

/// The time limit of what comes by time alone.
const LIMIT: Duration = Duration::from_hours(1);
/// The time limit of a step that may not be reached at all.
const PATIENCE: Duration = Duration::from_mins(5);
const GLANCE: Duration = Duration::from_millis(50);
/// The quiet time at the end, after which nothing at all may be written.
const CALM: Duration = Duration::from_mins(1);
/// A wait for a time on a clock that was set back takes this much longer.
const JUMP: Duration = Duration::from_mins(90);
/// The time during which nothing may be written then.
const IDLE: Duration = Duration::from_mins(10);
/// The limit of attempts of a process in that time, for each remaining object that is always refused: an
/// object that may be in effect is tried every ten seconds.
const MOST_ATTEMPTS: usize = 70;

/// The factor of attempts if an end can neither be carried out nor recorded: each attempt at the one involves
/// several at the other.
const RECORDS: usize = 7;
/// The limit of additional writes by two leaders that undo each other's work; each pauses after a dozen.
const UNDONE: usize = 60;

/// The time that a node is lost.
const NODE: Duration = Duration::from_mins(1);

/// The random seed, the same for every run.
const CHANCE: u64 = 1;

/// The result of a run.
pub struct Outcome {
    /// All calls and changes.
    pub log: Vec<Entry>,
    /// Violations of rules that need no other run.
    pub violations: Vec<Violation>,
    /// The coverage of the run.
    pub seen: Seen,
    /// Its final state.
    pub end: EndState,
    /// The writes.
    pub writes: Writes,
    /// The number of a neighbour's requests that are granted at the end.
    pub granted_beside: usize,
    /// The points for faults, and the faults that occurred.
    pub met: Met,
    /// The number of questions to the evaluator.
    pub asked: usize,
    /// The number of calls about standing permissions.
    pub asked_for_standing: usize,
}

/// Runs a plan of this scenario, on its own runtime.
pub fn run(scenario: &Scenario, plan: &Plan) -> std::io::Result<Outcome> {
    chance::fix(CHANCE);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    Ok(runtime.block_on(play(scenario, plan)))
}

async fn play(scenario: &Scenario, plan: &Plan) -> Outcome {
    let started = Instant::now();
    let stage = Stage::new();
    let (killed, deaths) = unbounded_channel();
    let injector = Injector::new(plan, killed.clone());
    let oracle = Oracle::new(
        plan.faults.iter().find_map(Fault::spell),
        plan.faults.iter().find_map(Fault::rumour),
    );
    (scenario.before)(&stage);
    stage.server.set_faults(Arc::clone(&injector) as Arc<_>);
    if plan.faults.contains(&Fault::NoGarbageCollection) {
        stage.server.collect_garbage(None);
    }
    let processes = Processes::new(stage.clone(), oracle.clone(), scenario.retention);
    let processes = processes.sharded(scenario.shards);
    let restarts = tokio::spawn(processes.clone().restart(deaths));
    let neighbour = plan.has_neighbour().then(|| Neighbour::of(&stage));
    start(scenario, &stage, &processes, plan);

    let mut told = Story {
        another: is_another_story(scenario, plan),
        started,
        stage: &stage,
        processes: &processes,
        plan,
        injector: &injector,
        neighbour,
        killed,
        incidents: Vec::new(),
        violations: Vec::new(),
    };
    told.tell(scenario).await;
    oracle.relieve();
    if scenario.timed && plan.jumps() {
        sleep(JUMP).await;
    }
    sleep(CALM + plan.faults.iter().map(aftermath).sum::<Duration>()).await;
    told.expect_that_it_lasts(scenario);
    told.expect_that_faults_are_over().await;
    let Story {
        mut incidents,
        mut violations,
        ..
    } = told;
    let idle_from = started.elapsed();
    // Later calls and events are not used as points for faults, because nothing should happen from here on.
    let mut met = injector.met();
    met.faults += oracle.met().len();
    sleep(IDLE).await;
    restarts.abort();

    let log = neighbour::without(stage.server.log(), &[LOUD, LATE]);
    let of_evaluator = plan.faults.iter().filter(|it| it.is_evaluators());
    let of_evaluator = of_evaluator.map(recovery).max().unwrap_or_default();
    incidents.extend(oracle.met().into_iter().map(|at| (at, of_evaluator)));
    let injected = injector.met().incidents.into_iter();
    let of_fault = |index: usize| plan.faults.get(index).map(recovery).unwrap_or_default();
    incidents.extend(injected.map(|(at, index)| (at, of_fault(index))));
    let incidents = incidents.into_iter().map(|(at, recovery)| Incident {
        at: at - started,
        recovery,
    });
    let (broken, seen) = oracle::judge(&log, &allowance(scenario, plan, incidents.collect()));
    violations.extend(broken);
    let end = started.elapsed();
    let mut complain = |rule, what| {
        violations.push(Violation {
            rule,
            at: end,
            what,
        });
    };
    let idle = Writes::since(&log, idle_from);
    let most = most_attempts(&stage, &processes, plan);
    if idle.attempts > most {
        let what = format!("since {idle_from:?} nothing happened, and it wrote {idle:?}");
        complain(Rule::Idle, what);
    }
    if injector.met().is_endless() {
        complain(
            Rule::Idle,
            "it calls again and again, without a pause".to_owned(),
        );
    }
    for what in processes.complaints() {
        complain(Rule::Process, what);
    }
    Outcome {
        violations,
        seen,
        end: EndState::of(&stage),
        writes: Writes::since(&log, Duration::ZERO),
        granted_beside: neighbour::granted(&stage, LOUD),
        met,
        asked: oracle.asked(),
        asked_for_standing: oracle.asked_for_standing(),
        log,
    }
}

/// The limit of write attempts while nothing happens: none, unless something is always refused.
fn most_attempts(stage: &Stage, processes: &Processes, plan: &Plan) -> usize {
    let refused = plan.faults.iter().filter(|it| it.is_refused_for_ever());
    let times = match refused.count() {
        0 => return 0,
        1 => 1,
        _ => RECORDS,
    };
    let left = ["accessrequests", "roles", "rolebindings"].map(|it| stage.list(it).len());
    MOST_ATTEMPTS * processes.alive().len() * left.into_iter().sum::<usize>() * times
}

/// True when a plan may change the outcome of its scenario.
#[must_use]
pub fn is_another_story(scenario: &Scenario, plan: &Plan) -> bool {
    let mut faults = plan.faults.iter();
    faults.any(|it| it.tells_another_story(scenario.timed))
}

/// The time limit of a step: that without faults, plus the time during which the faults have effects.
fn limit(usual: Duration, plan: &Plan) -> Duration {
    let felt = |fault: &Fault| aftermath(fault) + recovery(fault);
    usual + plan.faults.iter().map(felt).sum::<Duration>()
}

/// The number of additional writes if two processes lead that cannot know the same.
#[must_use]
pub fn undone(scenario: &Scenario, plan: &Plan) -> usize {
    let two = plan.faults.contains(&Fault::TwoLeaders);
    let has_forgotten = scenario.remembered && plan.faults.iter().any(Fault::ends_a_process);
    if two && (has_forgotten || scenario.learned) {
        UNDONE
    } else {
        0
    }
}

/// A scenario in progress.
struct Story<'a> {
    /// Whether the faults may change the outcome, so that only the rules are checked.
    another: bool,
    started: Instant,
    stage: &'a Stage,
    processes: &'a Processes,
    plan: &'a Plan,
    injector: &'a Injector,
    neighbour: Option<Neighbour>,
    killed: UnboundedSender<String>,
    /// Faults between steps, and the duration of their effects.
    incidents: Vec<(Instant, Duration)>,
    violations: Vec<Violation>,
}

impl Story<'_> {
    /// Runs every step, and awaits the end.
    async fn tell(&mut self, scenario: &Scenario) {
        let another = self.another;
        let by_time = limit(LIMIT, self.plan);
        let prompt = if another {
            PATIENCE
        } else {
            limit(scenario.usual, self.plan)
        };
        let end = if scenario.timed { by_time } else { prompt };
        if let Some(neighbour) = &self.neighbour {
            neighbour.settles(self.stage).await;
        }
        for (index, step) in scenario.steps.iter().enumerate() {
            if let Some(neighbour) = &self.neighbour {
                neighbour.stir().await;
            }
            self.before(index);
            match step {
                Step::Do(_, act) => act(self.stage),
                Step::Rest(time) => sleep(*time).await,
                Step::Until(what, is_so) => {
                    if !self.comes(what, *is_so, prompt).await {
                        return;
                    }
                }
                Step::InTime(what, is_so) => {
                    if !self.comes(what, *is_so, by_time).await {
                        return;
                    }
                }
            }
        }
        if !comes_true(self.stage, scenario.ends, end).await && !another {
            self.stuck(format!(
                "the end did not come: {}",
                EndState::of(self.stage)
            ));
        }
    }

    /// True if a condition is met in its time, or need not be.
    async fn comes(&mut self, what: &str, is_so: fn(&Stage) -> bool, limit: Duration) -> bool {
        let comes = comes_true(self.stage, is_so, limit).await || self.another;
        if !comes {
            self.stuck(format!("{what:?} did not come true within {limit:?}"));
        }
        comes
    }

    fn expect_that_it_lasts(&mut self, scenario: &Scenario) {
        let expected = self.violations.is_empty() && !self.another;
        if expected && !(scenario.ends)(self.stage) {
            self.stuck(format!(
                "the end did not last: {}",
                EndState::of(self.stage)
            ));
        }
    }

    /// Where a fault changed the story, such as a lie of the evaluation service, its end says nothing. A tenant that comes
    /// later is granted, unless something is refused for ever or granting is off.
    async fn expect_that_faults_are_over(&mut self) {
        let mut faults = self.plan.faults.iter();
        let are_over = faults.all(|it| !it.is_refused_for_ever());
        if !self.another || !are_over || !self.stage.is_enabled() {
            return;
        }
        newcomer::comes(self.stage);
        let limit = newcomer::SOON;
        if !comes_true(self.stage, newcomer::is_granted, limit).await {
            self.stuck(format!(
                "a request that came after all faults was not granted within {limit:?}"
            ));
        }
    }

    fn stuck(&mut self, what: String) {
        self.violations.push(Violation {
            rule: Rule::Stuck,
            at: self.started.elapsed(),
            what,
        });
    }

    /// Injects the faults before a step.
    fn before(&mut self, index: usize) {
        for fault in &self.plan.faults {
            match *fault {
                Fault::Restart { step } if step == index => {
                    for process in self.processes.kill_all() {
                        // The task that restarts it lives as long as the run.
                        let _ = self.killed.send(process);
                    }
                }
                Fault::NodeLost { step } if step == index => {
                    for process in self.processes.leading() {
                        self.processes.kill(&process);
                        let processes = self.processes.clone();
                        tokio::spawn(async move {
                            sleep(NODE).await;
                            processes.start_again(&process);
                        });
                    }
                }
                Fault::Unrecorded { step, forbidden } if step == index => {
                    self.injector.refuse_records(forbidden);
                }
                Fault::Kept { step, what } if step == index => {
                    self.injector.refuse_deletions(what);
                    // The cluster's own controllers cannot delete it either.
                    self.stage.server.collect_garbage(None);
                }
                Fault::ClockJump { step, forward } if step == index => {
                    let hours = if forward { 1 } else { -1 };
                    self.stage.jump(SignedDuration::from_hours(hours));
                }
                Fault::Restart { .. }
                | Fault::NodeLost { .. }
                | Fault::Unrecorded { .. }
                | Fault::Kept { .. }
                | Fault::ClockJump { .. }
                | Fault::Call { .. }
                | Fault::Event { .. }
                | Fault::Evaluator { .. }
                | Fault::Standing { .. }
                | Fault::Lag(_)
                | Fault::TwoLeaders
                | Fault::NoisyNeighbour
                | Fault::NoGarbageCollection => continue,
            }
            self.incidents.push((Instant::now(), recovery(fault)));
        }
    }
}

fn start(scenario: &Scenario, stage: &Stage, processes: &Processes, plan: &Plan) {
    let replicas = ["one", OTHER].into_iter().take(scenario.replicas);
    let mut places: Vec<_> = replicas.map(|pod| (SYSTEM, pod)).collect();
    if plan.faults.contains(&Fault::TwoLeaders) {
        // It has its own lease, so neither process ever learns of the other.
        places.push((SECOND_SYSTEM, "two"));
    }
    for (namespace, pod) in places {
        for fault in &plan.faults {
            if let Fault::Lag(versions) = fault {
                let lag = Lag {
                    versions: *versions,
                    at_most: LAG,
                };
                // The successors of the process lag behind, too.
                for generation in 0..4 {
                    stage
                        .server
                        .set_watch_lag(&format!("{pod}.{generation}"), Some(lag));
                }
            }
        }
        processes.start(namespace, pod);
    }
}

async fn comes_true(stage: &Stage, is_so: fn(&Stage) -> bool, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    while !is_so(stage) {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(GLANCE).await;
    }
    true
}
