//! The pages that the API server calls.

/// What is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    MutateAccessRequests,
    ValidateAccessRequests,
    ValidateAccessPolicies,
    MutateConnectors,
}

impl Page {
    pub(crate) const ALL: [Self; 4] = [
        Self::MutateAccessRequests,
        Self::ValidateAccessRequests,
        Self::ValidateAccessPolicies,
        Self::MutateConnectors,
    ];

    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::MutateAccessRequests => "/mutate/accessrequests",
            Self::ValidateAccessRequests => "/validate/accessrequests",
            Self::ValidateAccessPolicies => "/validate/accesspolicies",
            Self::MutateConnectors => "/mutate/connectors",
        }
    }

    /// For metrics and logs.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::MutateAccessRequests => "mutate-accessrequests",
            Self::ValidateAccessRequests => "validate-accessrequests",
            Self::ValidateAccessPolicies => "validate-accesspolicies",
            Self::MutateConnectors => "mutate-connectors",
        }
    }

    /// Whether the user matters. A connector is labelled for every user, and never refused.
    pub(crate) const fn is_about_users(self) -> bool {
        match self {
            Self::MutateAccessRequests
            | Self::ValidateAccessRequests
            | Self::ValidateAccessPolicies => true,
            Self::MutateConnectors => false,
        }
    }
}
