//! The size of the model, the limits of events and faults, and deliberate defects.

/// The size of the model, and the limits of events and faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Pods with different names: 1 or 2.
    pub pods: usize,
    /// Policies: 1 or 2.
    pub policies: usize,
    /// The limit of events: actions of people, changes of pods, and passing of time.
    pub happenings: u8,
    /// The limit of faults: crashes, calls that fail or are not answered, reads that become too old.
    pub faults: u8,
    /// Whether the caches of a controller may fall behind, as a fault.
    pub lag: bool,
    /// Whether people create requests too, so that a pod may have several.
    pub twins: bool,
    /// Whether people only create and delete requests, and decide.
    pub only_requests: bool,
    /// Whether people only give and take a standing permission and decide, and the only other event is the
    /// end of a pod.
    pub standing: bool,
    /// Whether each pod name is in a shard of its own, led by one controller, which may hand it over, as a fault.
    pub shards: bool,
    /// The initial states.
    pub starts: &'static [Start],
    /// The limit of states; no new ones are explored beyond it.
    pub most: usize,
    /// Threads.
    pub threads: usize,
    /// The deliberate defect.
    pub mutation: Option<Mutation>,
}

/// An initial state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The node plugin has created a request for every pod.
    pub asked: bool,
    /// The checks of so many of the pods are approved, those of the others wait.
    pub approved: usize,
}

/// A guard that is removed, to test that the rules detect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Grants are based on cached reads.
    GrantsFromCaches,
    /// The age of reads is not checked before a write.
    ForgetsAge,
    /// The confirmation of a grant compares nothing.
    SkipsConfirm,
    /// Managed objects are never checked against the rule about them.
    NeverEnforces,
    /// A pod is identified by its name only.
    ComparesNames,
    /// An approval of the first pod counts for every pod.
    BelievesOthers,
    /// A cached answer about a standing permission ends a request without another question.
    EndsOnHearsay,
}

impl Settings {
    /// Two pods, two policies, one event and one fault at any point.
    pub const FULL: Self = Self {
        pods: 2,
        policies: 2,
        happenings: 1,
        faults: 1,
        lag: false,
        twins: false,
        only_requests: false,
        standing: false,
        shards: false,
        starts: &[Start {
            asked: true,
            approved: 2,
        }],
        most: 10_000_000,
        threads: 2,
        mutation: None,
    };

    /// One pod, two policies; takes seconds.
    pub const SMALL: Self = Self {
        pods: 1,
        faults: 0,
        starts: &[
            Start {
                asked: true,
                approved: 2,
            },
            Start {
                asked: false,
                approved: 0,
            },
        ],
        most: 200_000,
        ..Self::FULL
    };

    /// One pod, whose shard moves twice, or once beside another fault.
    pub const SHARDS: Self = Self {
        pods: 1,
        policies: 1,
        faults: 2,
        shards: true,
        ..Self::FULL
    };

    /// One waiting pod, one policy, and a standing permission that is given and taken.
    pub const STANDING: Self = Self {
        pods: 1,
        policies: 1,
        happenings: 4,
        faults: 0,
        standing: true,
        starts: &[Start {
            asked: true,
            approved: 0,
        }],
        ..Self::FULL
    };

    /// Two pods that wait, as those of two runs of one pipeline, and an approval of the first one alone.
    pub const ONE_APPROVAL: Self = Self {
        pods: 2,
        policies: 1,
        faults: 0,
        starts: &[Start {
            asked: true,
            approved: 1,
        }],
        ..Self::FULL
    };

    /// All configurations worth exploring: each name says how it extends the others. All but the last are
    /// exhausted.
    pub const ALL: [(&'static str, Self); 14] = [
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
            "one approval",
            Self {
                happenings: 2,
                ..Self::ONE_APPROVAL
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
        ("shards", Self::SHARDS),
        ("full", Self::FULL),
    ];
}
