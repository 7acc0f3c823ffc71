//! What goes wrong in a run, and the text by which it can be made to go wrong again.

mod text;

use crate::evaluator::{Hearsay, Mood, Rumour, Spell};

pub use text::NoPlan;

/// So many failures in a row are overcome within seconds.
pub const FEW: usize = 4;

/// A scenario, and what goes wrong in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Plan {
    /// The scenario's name.
    pub scenario: String,
    /// What goes wrong; nothing in the run that others are compared with.
    pub faults: Vec<Fault>,
}

/// One thing that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// At a call to the API server, and at as many equal ones after it.
    Call {
        /// Which call.
        at: CallId,
        /// What happens to it.
        what: CallTrouble,
        /// How many times in a row.
        times: usize,
    },
    /// At one line of a watch.
    Event {
        /// Which line.
        at: EventId,
        /// What happens to it.
        what: EventTrouble,
    },
    /// The evaluator misbehaves.
    Evaluator {
        /// How.
        mood: Mood,
        /// From which question on.
        from: usize,
        /// For how many.
        questions: usize,
    },
    /// The evaluator misbehaves when it is asked about standing permissions.
    Standing {
        /// How.
        hearsay: Hearsay,
        /// From which call on.
        from: usize,
        /// For how many.
        calls: usize,
    },
    /// Watches are fed by an API server that is behind by that many versions.
    Lag(u64),
    /// Two processes lead, all the time.
    TwoLeaders,
    /// Another tenant is as busy as it may be, and every call takes time.
    NoisyNeighbour,
    /// Nothing collects what has lost its owner.
    NoGarbageCollection,
    /// The wall clock jumps by an hour, before that step.
    ClockJump {
        /// The step, from 0.
        step: usize,
        /// Into the future or the past.
        forward: bool,
    },
    /// The leader is gone for a minute, from before that step on.
    NodeLost {
        /// The step, from 0.
        step: usize,
    },
    /// From before that step on nothing can be recorded in a request: somebody is always faster, or it is forbidden.
    Unrecorded {
        /// The step, from 0.
        step: usize,
        /// Forbidden, and not a conflict.
        forbidden: bool,
    },
    /// From before that step on nobody can delete a Role, or a `RoleBinding`: something refuses it each time.
    Kept {
        /// The step, from 0.
        step: usize,
        /// Which of the two.
        what: Undeletable,
    },
    /// The process is killed before that step, and started again.
    Restart {
        /// The step, from 0.
        step: usize,
    },
}

/// A call to the API server, by what it is about and which of equal ones it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId {
    /// Verb.
    pub verb: String,
    /// Resource, with its subresource behind a dot.
    pub resource: String,
    /// Namespace; empty for all.
    pub namespace: String,
    /// Name; empty for a list.
    pub name: String,
    /// How many equal calls came before.
    pub nth: usize,
}

/// A line of a watch, by what it is about and which of equal ones it is.
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
    /// How many equal lines came before.
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
    /// What happens to a call.
    CallTrouble {
        /// The process dies before it is carried out.
        KillBefore = "kill-before",
        /// The process dies when it was carried out, before it hears of it.
        KillAfter = "kill-after",
        /// The connection breaks before it is carried out.
        LoseRequest = "lose-request",
        /// It is carried out, and the answer is lost.
        LoseAnswer = "lose-answer",
        /// It is not carried out, and nobody says so.
        HangBefore = "hang-before",
        /// It is carried out, and nobody says so.
        HangAfter = "hang-after",
        /// It is carried out after four seconds.
        Late = "late",
        /// The answer is no JSON.
        Garbage = "garbage",
        /// 403
        Forbidden = "403",
        /// 410, as when what a list goes on from was compacted.
        Expired = "410",
        /// 409
        Conflict = "409",
        /// 429, with a time to wait.
        TooMany = "429",
        /// 500
        Internal = "500",
        /// 503
        Unavailable = "503",
        /// 504, as after a request that etcd may have carried out.
        GatewayTimeout = "504",
    }
}

words! {
    /// What cannot be deleted any more.
    Undeletable {
        /// Roles.
        Roles = "roles",
        /// Role bindings.
        RoleBindings = "rolebindings",
    }
}

words! {
    /// What happens to a line of a watch.
    EventTrouble {
        /// It never comes; the stream ends with 410 at the next line.
        Drop = "drop",
        /// It comes twice.
        Twice = "twice",
        /// It and what follows on this stream come two seconds late.
        Late = "late",
        /// It and what follows on this stream come a minute late.
        VeryLate = "very-late",
        /// The stream ends with 410 instead.
        Gone = "gone",
        /// The stream just ends.
        Close = "close",
        /// Nothing comes any more, and nobody says so.
        Silence = "silence",
        /// The process dies.
        Kill = "kill",
    }
}

impl Fault {
    /// Whether it takes minutes until everything is as if it had not been: somebody has to find out by
    /// himself, or pauses between attempts have grown long.
    #[must_use]
    pub const fn is_lasting(&self) -> bool {
        match self {
            Self::Call { times, .. } => *times > FEW,
            Self::Event { what, .. } => matches!(
                what,
                EventTrouble::Silence | EventTrouble::Drop | EventTrouble::VeryLate
            ),
            // What it said is remembered for minutes, or asked again after one.
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

    /// Whether what it leads to is another story: what is refused for good after a grant, or left out of
    /// the answer, ends the grant; so do rules for another pod, where it has to be written again.
    #[must_use]
    pub fn tells_another_story(&self, timed: bool) -> bool {
        // Where time itself is part of the story, whatever takes or moves it changes the story.
        let moves_time = matches!(self, Self::ClockJump { .. }) || self.is_lasting();
        timed && moves_time || self.lies() || self.is_refused_for_ever()
    }

    /// Whether a process loses what it knew.
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

    /// Whether it is about what the evaluation service says.
    #[must_use]
    pub const fn is_evaluators(&self) -> bool {
        matches!(self, Self::Evaluator { .. } | Self::Standing { .. })
    }

    /// Whether something is refused from then on, as often as it is tried.
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

    /// The spell over the evaluator, if this is one.
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

    /// What is rumoured about standing permissions, if this is it.
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
    /// The run that others are compared with.
    #[must_use]
    pub fn undisturbed(scenario: &str) -> Self {
        Self {
            scenario: scenario.to_owned(),
            faults: Vec::new(),
        }
    }

    /// Whether another tenant is as busy as it may be.
    #[must_use]
    pub fn has_neighbour(&self) -> bool {
        self.faults.contains(&Fault::NoisyNeighbour)
    }

    /// Whether the wall clock jumps in it.
    #[must_use]
    pub fn jumps(&self) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|it| matches!(it, Fault::ClockJump { .. }))
    }

    /// The same with one fault.
    #[must_use]
    pub fn with(scenario: &str, fault: Fault) -> Self {
        Self {
            scenario: scenario.to_owned(),
            faults: vec![fault],
        }
    }
}
