//! How large the model is, how much may happen, and what is broken on purpose.

/// How large the model is, and how much may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Pods with different names: 1 or 2.
    pub pods: usize,
    /// Policies: 1 or 2.
    pub policies: usize,
    /// What people do, what becomes of pods, and time that passes, at most.
    pub happenings: u8,
    /// Crashes, calls that fail or are not answered, reads that get old, at most.
    pub faults: u8,
    /// Whether falling behind is among the faults: the caches of a controller stop for a while.
    pub lag: bool,
    /// Whether people make requests too, so that a pod may have several.
    pub twins: bool,
    /// Whether people do nothing but make and delete requests, and decide.
    pub only_requests: bool,
    /// Whether people give and take a standing permission and decide, and nothing else happens but the end of a pod.
    pub standing: bool,
    /// Where it begins: once from each.
    pub starts: &'static [Start],
    /// Nothing new is explored after so many states.
    pub most: usize,
    /// Threads.
    pub threads: usize,
    /// What is broken on purpose.
    pub mutation: Option<Mutation>,
}

/// Where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The node plugin has asked for every pod.
    pub asked: bool,
    /// Every check says yes.
    pub approved: bool,
}

/// A guard that is taken out, to see whether the rules notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// What caches show is granted on.
    GrantsFromCaches,
    /// How old the reads are is not looked at before a write.
    ForgetsAge,
    /// After the write the request is not read again.
    SkipsConfirm,
    /// Nobody holds the rule against managed objects by themselves.
    NeverEnforces,
    /// A pod is taken for another one of its name.
    ComparesNames,
    /// What was heard of a standing permission ends a request without another question.
    EndsOnHearsay,
}

impl Settings {
    /// Two pods, two policies, one thing that happens and one fault, anywhere.
    pub const FULL: Self = Self {
        pods: 2,
        policies: 2,
        happenings: 1,
        faults: 1,
        lag: false,
        twins: false,
        only_requests: false,
        standing: false,
        starts: &[Start {
            asked: true,
            approved: true,
        }],
        most: 10_000_000,
        threads: 2,
        mutation: None,
    };

    /// One pod, two policies: seconds.
    pub const SMALL: Self = Self {
        pods: 1,
        faults: 0,
        starts: &[
            Start {
                asked: true,
                approved: true,
            },
            Start {
                asked: false,
                approved: false,
            },
        ],
        most: 200_000,
        ..Self::FULL
    };

    /// One pod that waits, one policy, and a standing permission that comes and goes.
    pub const STANDING: Self = Self {
        pods: 1,
        policies: 1,
        happenings: 4,
        faults: 0,
        standing: true,
        starts: &[Start {
            asked: true,
            approved: false,
        }],
        ..Self::FULL
    };

    /// All that is worth exploring: each names what it adds to the others. All but the last are exhausted.
    pub const ALL: [(&'static str, Self); 12] = [
        ("small", Self::SMALL),
        (
            "pods",
            Self {
                pods: 2,
                most: 10_000_000,
                ..Self::SMALL
            },
        ),
        (
            "crashes",
            Self {
                happenings: 0,
                ..Self::FULL
            },
        ),
        (
            "faults",
            Self {
                pods: 1,
                ..Self::FULL
            },
        ),
        (
            "lag",
            Self {
                pods: 1,
                policies: 1,
                lag: true,
                ..Self::FULL
            },
        ),
        (
            "happenings",
            Self {
                pods: 1,
                policies: 1,
                happenings: 2,
                faults: 0,
                ..Self::FULL
            },
        ),
        (
            "twins",
            Self {
                pods: 1,
                policies: 1,
                happenings: 2,
                faults: 0,
                twins: true,
                ..Self::FULL
            },
        ),
        (
            "requests",
            Self {
                pods: 1,
                policies: 1,
                happenings: 3,
                faults: 0,
                twins: true,
                only_requests: true,
                ..Self::FULL
            },
        ),
        (
            "late requests",
            Self {
                pods: 1,
                policies: 1,
                happenings: 3,
                lag: true,
                twins: true,
                only_requests: true,
                ..Self::FULL
            },
        ),
        ("standing", Self::STANDING),
        (
            "standing and faults",
            Self {
                happenings: 3,
                faults: 1,
                lag: true,
                ..Self::STANDING
            },
        ),
        ("full", Self::FULL),
    ];
}
