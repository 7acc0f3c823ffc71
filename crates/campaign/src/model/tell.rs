//! The result of an exploration as text.

use std::{fmt, time::Duration};

use stateright::{Checker, Expectation, Model, Path};

use super::{
    Action, Call, Happening, Protocol, Settings, State,
    doing::{Applying, Doing, Read, Step, Sweep},
    is_broken, objects,
    world::{Kind, RequestId},
};

/// The result of an exploration.
#[derive(Clone, Debug)]
pub struct Report {
    /// The explored configuration.
    pub settings: Settings,
    /// Steps that were tried.
    pub states: usize,
    /// Different states.
    pub unique: usize,
    /// The longest of the shortest paths.
    pub depth: usize,
    /// The duration.
    pub seconds: f64,
    /// True when there was nothing left to explore.
    pub exhausted: bool,
    /// Different statuses of requests.
    pub statuses: usize,
    /// Different observations that the real `plan` decided on.
    pub decisions: usize,
    /// The result of each rule.
    pub properties: Vec<Outcome>,
}

/// The result of one rule.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rule.
    pub name: &'static str,
    /// True if it must hold in every state, false if in at least one.
    pub always: bool,
    /// Whether it holds.
    pub holds: bool,
    /// The steps to an example or a counterexample, if one was found.
    pub path: Vec<String>,
}

impl Report {
    pub(super) fn of(checker: &impl Checker<Protocol>, exhausted: bool, took: Duration) -> Self {
        let protocol = checker.model();
        let found = checker.discoveries();
        let properties = protocol.properties().into_iter().map(|property| {
            let path = found.get(property.name);
            Outcome {
                name: property.name,
                always: property.expectation != Expectation::Sometimes,
                holds: !is_broken(&property.expectation, path.is_some()),
                path: path
                    .map(|path| lines(protocol, path.clone()))
                    .unwrap_or_default(),
            }
        });
        Self {
            settings: protocol.settings,
            states: checker.state_count(),
            unique: checker.unique_state_count(),
            depth: checker.max_depth(),
            seconds: took.as_secs_f64(),
            exhausted,
            statuses: protocol.tables.statuses(),
            decisions: protocol.tables.decisions(),
            properties: properties.collect(),
        }
    }

    /// True when every rule holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.properties.iter().all(|it| it.holds)
    }

    /// The rules that do not hold.
    pub fn broken(&self) -> impl Iterator<Item = &Outcome> {
        self.properties.iter().filter(|it| !it.holds)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings {
            pods,
            policies,
            happenings,
            faults,
            twins,
            most,
            ..
        } = self.settings;
        let twins = if twins { ", people ask too" } else { "" };
        writeln!(
            f,
            "{pods} pods, {policies} policies, 1 connector, 2 controllers; at most {happenings} acts of people, \
             pods and time, and {faults} faults{twins}"
        )?;
        let whole = if self.exhausted {
            "all of them"
        } else {
            "not all of them"
        };
        writeln!(
            f,
            "{} states ({whole}; the limit is {most}), {} steps, depth {}, {} statuses, {} decisions, {:.1} s",
            self.unique, self.states, self.depth, self.statuses, self.decisions, self.seconds
        )?;
        for Outcome {
            name,
            always,
            holds,
            path,
        } in &self.properties
        {
            let word = match (always, holds) {
                (true, true) => "holds".to_owned(),
                (true, false) => "BROKEN".to_owned(),
                (false, true) => format!("seen after {} steps", path.len()),
                (false, false) if self.exhausted => "NEVER SEEN".to_owned(),
                (false, false) => "NOT SEEN".to_owned(),
            };
            writeln!(f, "  {word:<22} {name}")?;
        }
        for broken in self.broken().filter(|it| it.always) {
            writeln!(f, "\n{} is broken by:", broken.name)?;
            for line in &broken.path {
                writeln!(f, "  {line}")?;
            }
        }
        Ok(())
    }
}

fn lines(protocol: &Protocol, path: Path<State, Action>) -> Vec<String> {
    let steps = path.into_vec();
    let mut lines: Vec<_> = steps
        .iter()
        .filter_map(|(state, action)| Some(line(protocol, state, action.as_ref()?)))
        .collect();
    if let Some((last, _)) = steps.last() {
        for (id, stored) in last.world.all_requests() {
            let known = protocol.tables.status(stored.status);
            let phase = known
                .phase
                .map_or("new", connectors_api::access_request::Phase::as_str);
            lines.push(format!("= request {} is {phase}", request(id)));
        }
        for (id, policy, there) in last.world.all_grants() {
            for kind in Kind::ALL.into_iter().filter(|kind| there.has(*kind)) {
                lines.push(format!(
                    "= {kind:?} of policy {policy} for {} is there",
                    request(id)
                ));
            }
        }
    }
    lines
}

fn request(id: RequestId) -> String {
    format!("{} ({})", objects::request_name(id.name), id.incarnation)
}

pub(super) fn line(protocol: &Protocol, state: &State, action: &Action) -> String {
    let who = |c: usize| format!("controller {}", state.controllers[c].who.0 + 1);
    match *action {
        Action::Happens(what) => happening(what),
        Action::Look(c, id) => {
            format!(
                "{} takes up {}, whose live read is the first",
                who(c),
                request(id)
            )
        }
        Action::Enforce(c, id, policy) => {
            format!(
                "{} reads {} for its objects of policy {policy}",
                who(c),
                request(id)
            )
        }
        Action::Goes(c, call) => {
            let end = match call {
                Call::Done => "",
                Call::Refused => ", which fails",
                Call::Unheard => ", and hears that it failed",
            };
            format!(
                "{} {}{end}",
                who(c),
                doing(protocol, &state.controllers[c].doing)
            )
        }
        Action::Silence(c) => format!("the evaluation service does not answer {}", who(c)),
        Action::Crash(c) => format!("{} dies and starts again", who(c)),
        Action::Ages(c) => format!("what {} has read is older than five seconds", who(c)),
        Action::HandsOver(c, slot) => {
            format!("{} hands the shard of pod name {slot} over", who(c))
        }
        Action::Drops(c) => format!("{} drops work of a shard that it does not lead", who(c)),
        Action::FallsBehind(c) => format!("the caches of {} stop moving", who(c)),
        Action::CatchesUp(c) => format!("the caches of {} catch up", who(c)),
    }
}

fn happening(what: Happening) -> String {
    match what {
        Happening::PluginAsks(slot) => format!("the node plugin asks for pod {slot}"),
        Happening::SomebodyAsks(name) => {
            format!("a user creates request {}", objects::request_name(name))
        }
        Happening::Says(slot, policy, check) => {
            format!("the check of policy {policy} for pod {slot} is {check:?}")
        }
        Happening::EditsPolicy(policy) => format!("policy {policy} is edited"),
        Happening::DeletesPolicy(policy) => format!("policy {policy} is deleted"),
        Happening::DeletesRequest(name) => {
            format!("request {} is deleted", objects::request_name(name))
        }
        Happening::DeletesBinding(id, policy) => {
            format!(
                "the binding of policy {policy} for {} is deleted by hand",
                request(id)
            )
        }
        Happening::DeletesConnector => "the connector is deleted".to_owned(),
        Happening::MakesConnector => "another connector takes its name".to_owned(),
        Happening::PodFinishes(slot) => format!("pod {slot} runs to its end"),
        Happening::PodGoes(slot) => format!("pod {slot} is deleted"),
        Happening::PodIsReplaced(slot) => format!("another pod takes the name of pod {slot}"),
        Happening::GivesStanding => "the account of the pods gets a standing permission".to_owned(),
        Happening::TakesStanding => "it loses the standing permission".to_owned(),
        Happening::MinutePasses => "a minute passes".to_owned(),
        Happening::TimePasses => "eight days pass".to_owned(),
    }
}

fn doing(protocol: &Protocol, doing: &Doing) -> String {
    match doing {
        Doing::Idle => "rests".to_owned(),
        Doing::Sweeping(Sweep::Started) => "lists everything managed".to_owned(),
        Doing::Sweeping(Sweep::Listed(_)) => "lists the requests".to_owned(),
        Doing::Sweeping(Sweep::Strays(_)) => "reads the request of a stray".to_owned(),
        Doing::Enforcing(work) | Doing::Sweeping(Sweep::Enforcing(_, work)) => {
            format!(
                "removes the {:?} of {}, unless described",
                work.next,
                request(work.id)
            )
        }
        Doing::Reading(work) => match work.next {
            Read::Pod => "reads the pod".to_owned(),
            Read::Rest => "reads objects, twins, connector and policies".to_owned(),
            Read::Standing => "asks for a standing permission".to_owned(),
            Read::Check(policy) => format!("reads the check of policy {policy}"),
        },
        Doing::Applying(work) => writing(protocol, work),
    }
}

fn writing(protocol: &Protocol, work: &Applying) -> String {
    let plan = protocol.tables.plan(work.plan);
    let phase = |status: u16| {
        let phase = protocol.tables.status(status).phase;
        phase.map_or("new", connectors_api::access_request::Phase::as_str)
    };
    let of = |i: u8| plan.grants.get(usize::from(i)).map_or(0, |it| it.0);
    match &work.step {
        Step::Status => format!("writes status {}", plan.status.map_or("", phase)),
        Step::Remove(i) => match plan.removes.get(usize::from(*i)) {
            Some((kind, policy)) => format!("deletes the {kind:?} of policy {policy}"),
            None => "deletes nothing".to_owned(),
        },
        Step::Create(i, kind) => format!("posts the {kind:?} of policy {}", of(*i)),
        Step::Prepare(i) => match plan.prepares.get(usize::from(*i)) {
            Some((policy, _)) => format!("posts the Role of policy {policy} in advance"),
            None => "posts nothing".to_owned(),
        },
        Step::Adopt(i, kind) => format!("reads the {kind:?} of policy {} that is there", of(*i)),
        Step::Clear(i, kind) => format!("deletes the {kind:?} of policy {} in its way", of(*i)),
        Step::NotWritten => "writes status that nothing was granted".to_owned(),
        Step::Gone(..) => "makes sure that an object is gone".to_owned(),
        Step::Finished => "writes status that nothing is left".to_owned(),
        Step::DeleteRequest => "deletes the request".to_owned(),
        Step::Confirm(_) => "asks the request whether it still wants the grant".to_owned(),
        Step::ConfirmWrite(_, status) => format!("writes status {}", phase(*status)),
        Step::Enforce(..) => "takes back one of the objects".to_owned(),
    }
}
