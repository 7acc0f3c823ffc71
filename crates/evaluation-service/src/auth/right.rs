//! The rights that a caller can have. Each call asks for its own where it is answered: `service`, `batch`, `stream`.

/// The verb of every right.
pub(super) const VERB: &str = "create";
/// The resource of every right.
pub(super) const EVALUATIONS: &str = "evaluations";

/// A right, which is a verb of RBAC: to `create` evaluations in a namespace, or a part of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Whether one pod may use a connector. Node plugins ask this, each node with a token of its own.
    Mount,
    /// Everything.
    Everything,
}

impl Right {
    /// The subresource of evaluations that the right is about.
    #[must_use]
    pub const fn subresource(self) -> Option<&'static str> {
        match self {
            Self::Mount => Some("mount"),
            Self::Everything => None,
        }
    }

    /// The rights of which one is enough, the most likely first.
    pub(super) const fn enough(self) -> &'static [Self] {
        match self {
            Self::Mount => &[Self::Mount, Self::Everything],
            Self::Everything => &[Self::Everything],
        }
    }
}
