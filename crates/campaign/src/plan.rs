//! The faults of a run, and the text with which it can be repeated.

mod text;

use crate::evaluator::{Hearsay, Mood, Rumour, Spell};

pub use text::NoPlan;

/// Up to this many consecutive failures are overcome within seconds.
pub const FEW: usize = 4;

/// A scenario, and the faults in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Plan {
    /// The scenario's name.
    pub scenario: String,
    /// The faults; none in the reference run.
    pub faults: Vec<Fault>,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// A call to the API server fails, and so do the following equal calls.
    Call {
        /// The call.
        at: CallId,
        /// The kind of failure.
        what: CallTrouble,
        /// The number of consecutive failures.
        times: usize,
    },
    /// One line of a watch is affected.
    Event {
        /// The line.
        at: EventId,
        /// The kind of fault.
        what: EventTrouble,
    },
    /// The evaluator misbehaves.
    Evaluator {
        /// The misbehaviour.
        mood: Mood,
        /// The first affected question.
        from: usize,
        /// The number of affected questions.
        questions: usize,
    },
    /// The evaluator misbehaves when it is asked about standing permissions.
    Standing {
        /// The misbehaviour.
        hearsay: Hearsay,
        /// The first affected call.
        from: usize,
        /// The number of affected calls.
        calls: usize,
    },
    /// Watches are served by an API server that lags behind by this many versions.
    Lag(u64),
    /// Two processes lead, all the time.
    TwoLeaders,
    /// Another tenant causes the maximum load, and every call takes time.
    NoisyNeighbour,
    /// Objects without an owner are not collected.
    NoGarbageCollection,
    /// The wall clock jumps by an hour, before this step.
    ClockJump {
        /// The step, from 0.
        step: usize,
        /// True for a jump into the future, false into the past.
        forward: bool,
    },
    /// The node of the leader is lost for a minute, from before this step on.
    NodeLost {
        /// The step, from 0.
        step: usize,
    },
    /// From before this step on, every attempt to record something in a request fails: with a conflict, or as
    /// forbidden.
    Unrecorded {
        /// The step, from 0.
        step: usize,
        /// True for forbidden, false for a conflict.
        forbidden: bool,
    },
    /// From before this step on, every deletion of a Role, or of a `RoleBinding`, is refused.
    Kept {
        /// The step, from 0.
        step: usize,
        /// The kind that is affected.
        what: Undeletable,
    },
    /// The process is killed before this step, and restarted.
    Restart {
        /// The step, from 0.
        step: usize,
    },
}

/// A call to the API server, identified by its target and its number among equal calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    /// Verb.
    pub verb: String,
    /// Resource, with its subresource after a dot.
    pub resource: String,
    /// Namespace; empty for all.
    pub namespace: String,
    /// Name; empty for a list.
    pub name: String,
    /// The number of equal calls before it.
    pub nth: usize,
}

/// A line of a watch, identified by its object and its number among equal lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId {
    /// The kind of event.
    pub kind: String,
    /// Resource.
    pub resource: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The number of equal lines before it.
    pub nth: usize,
}

macro_rules! words {
    ($(#[$outer:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$inner])* $variant,)+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The word in a plan's identifier.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.as_str() == word)
            }
        }
    };
}

words! {
    /// The kind of failure of a call.
    CallTrouble {
        /// The process is killed before the call is executed.
        KillBefore = "kill-before",
        /// The process is killed after the call is executed, before it gets the answer.
        KillAfter = "kill-after",
        /// The connection breaks before the call is executed.
        LoseRequest = "lose-request",
        /// The call is executed, and the answer is lost.
        LoseAnswer = "lose-answer",
        /// The call is neither executed nor answered.
        HangBefore = "hang-before",
        /// The call is executed but never answered.
        HangAfter = "hang-after",
        /// The call is executed after four seconds.
        Late = "late",
        /// The answer is not JSON.
        Garbage = "garbage",
        /// 403
        Forbidden = "403",
        /// 410, as for a list whose continue token was compacted.
        Expired = "410",
        /// 409
        Conflict = "409",
        /// 429, with a retry time.
        TooMany = "429",
        /// 500
        Internal = "500",
        /// 503
        Unavailable = "503",
        /// 504, as for a request that etcd may have executed.
        GatewayTimeout = "504",
    }
}

words! {
    /// The objects that cannot be deleted any more.
    Undeletable {
        /// Roles.
        Roles = "roles",
        /// Role bindings.
        RoleBindings = "rolebindings",
    }
}

words! {
    /// The kind of fault of a watch line.
    EventTrouble {
        /// It is dropped; the stream ends with 410 at the next line.
        Drop = "drop",
        /// It is sent twice.
        Twice = "twice",
        /// It and all that follows on this stream is two seconds late.
        Late = "late",
        /// It and all that follows on this stream is a minute late.
        VeryLate = "very-late",
        /// The stream ends with 410 instead.
        Gone = "gone",
        /// The stream ends.
        Close = "close",
        /// Nothing more is sent, but the stream stays open.
        Silence = "silence",
        /// The process is killed.
        Kill = "kill",
    }
}

impl Fault {
    /// True when the effects last for minutes: a process must detect the fault by itself, or its backoff has
    /// grown long.
    #[must_use]
    pub const fn is_lasting(&self) -> bool {
        match self {
            Self::Call { times, .. } => *times > FEW,
            Self::Event { what, .. } => matches!(
                what,
                EventTrouble::Silence | EventTrouble::Drop | EventTrouble::VeryLate
            ),
            // Its answer is cached for minutes, or asked for again after a minute.
            Self::Evaluator { .. } | Self::Standing { .. } => true,
            Self::Lag(_)
            | Self::TwoLeaders
            | Self::NoisyNeighbour
            | Self::NoGarbageCollection
            | Self::ClockJump { .. }
            | Self::NodeLost { .. }
            | Self::Unrecorded { .. }
            | Self::Kept { .. }
            | Self::Restart { .. } => false,
        }
    }

    /// True when the fault may change the outcome of the scenario. A final refusal after a grant, or an
    /// object missing from the answer, ends the grant. So do rules for another pod, if the grant has to be
    /// written again.
    #[must_use]
    pub fn tells_another_story(&self, timed: bool) -> bool {
        // In a scenario about time, every fault that takes or moves time changes the outcome.
        let moves_time = matches!(self, Self::ClockJump { .. }) || self.is_lasting();
        timed && moves_time || self.lies() || self.is_refused_for_ever()
    }

    /// True when a process loses its memory.
    #[must_use]
    pub const fn ends_a_process(&self) -> bool {
        matches!(
            self,
            Self::Call {
                what: CallTrouble::KillBefore | CallTrouble::KillAfter,
                ..
            } | Self::Event {
                what: EventTrouble::Kill,
                ..
            } | Self::NodeLost { .. }
                | Self::Restart { .. }
        )
    }

    /// True when it affects the answers of the evaluation service.
    #[must_use]
    pub const fn is_evaluators(&self) -> bool {
        matches!(self, Self::Evaluator { .. } | Self::Standing { .. })
    }

    /// True when something is refused from then on, however often it is tried.
    #[must_use]
    pub const fn is_refused_for_ever(&self) -> bool {
        matches!(self, Self::Unrecorded { .. } | Self::Kept { .. })
    }

    fn lies(&self) -> bool {
        self.spell().is_some_and(|it| match it.mood {
            Mood::Refuses
            | Mood::BareYes
            | Mood::OtherPod
            | Mood::OnlyYes
            | Mood::OtherChecks
            | Mood::Empty => true,
            Mood::Away
            | Mood::Busy
            | Mood::Slow
            | Mood::StillPending
            | Mood::Silent
            | Mood::UnknownVerdict => false,
        })
    }

    /// The spell of the evaluator, if this is one.
    #[must_use]
    pub const fn spell(&self) -> Option<Spell> {
        match *self {
            Self::Evaluator {
                mood,
                from,
                questions,
            } => Some(Spell {
                mood,
                from,
                questions,
            }),
            Self::Call { .. }
            | Self::Event { .. }
            | Self::Standing { .. }
            | Self::Lag(_)
            | Self::TwoLeaders
            | Self::NoisyNeighbour
            | Self::NoGarbageCollection
            | Self::ClockJump { .. }
            | Self::NodeLost { .. }
            | Self::Unrecorded { .. }
            | Self::Kept { .. }
            | Self::Restart { .. } => None,
        }
    }

    /// The rumour about standing permissions, if this is one.
    #[must_use]
    pub const fn rumour(&self) -> Option<Rumour> {
        match *self {
            Self::Standing {
                hearsay,
                from,
                calls,
            } => Some(Rumour {
                hearsay,
                from,
                calls,
            }),
            Self::Call { .. }
            | Self::Event { .. }
            | Self::Evaluator { .. }
            | Self::Lag(_)
            | Self::TwoLeaders
            | Self::NoisyNeighbour
            | Self::NoGarbageCollection
            | Self::ClockJump { .. }
            | Self::NodeLost { .. }
            | Self::Unrecorded { .. }
            | Self::Kept { .. }
            | Self::Restart { .. } => None,
        }
    }
}

impl Plan {
    /// The reference run.
    #[must_use]
    pub fn undisturbed(scenario: &str) -> Self {
        Self {
            scenario: scenario.to_owned(),
            faults: Vec::new(),
        }
    }

    /// True when another tenant causes the maximum load.
    #[must_use]
    pub fn has_neighbour(&self) -> bool {
        self.faults.contains(&Fault::NoisyNeighbour)
    }

    /// True when the wall clock jumps.
    #[must_use]
    pub fn jumps(&self) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|it| matches!(it, Fault::ClockJump { .. }))
    }

    /// A plan with one fault.
    #[must_use]
    pub fn with(scenario: &str, fault: Fault) -> Self {
        Self {
            scenario: scenario.to_owned(),
            faults: vec![fault],
        }
    }
}
