//! The pages that the API server calls.

/// The pages that are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    MutateAccessRequests,
    ValidateAccessRequests,
    ValidateAccessPolicies,
    MutateConnectors,
    MutatePipelineRuns,
    MutatePods,
}

/// How much of a review's user is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UserPart {
    Nothing,
    Name,
    Whole,
}

impl Page {
    pub(crate) const ALL: [Self; 6] = [
        Self::MutateAccessRequests,
        Self::ValidateAccessRequests,
        Self::ValidateAccessPolicies,
        Self::MutateConnectors,
        Self::MutatePipelineRuns,
        Self::MutatePods,
    ];

    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::MutateAccessRequests => "/mutate/accessrequests",
            Self::ValidateAccessRequests => "/validate/accessrequests",
            Self::ValidateAccessPolicies => "/validate/accesspolicies",
            Self::MutateConnectors => "/mutate/connectors",
            Self::MutatePipelineRuns => "/mutate/pipelineruns",
            Self::MutatePods => "/mutate/pods",
        }
    }

    /// For metrics and logs.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::MutateAccessRequests => "mutate-accessrequests",
            Self::ValidateAccessRequests => "validate-accessrequests",
            Self::ValidateAccessPolicies => "validate-accesspolicies",
            Self::MutateConnectors => "mutate-connectors",
            Self::MutatePipelineRuns => "mutate-pipelineruns",
            Self::MutatePods => "mutate-pods",
        }
    }

    /// The part of the user that matters. Connectors, pipeline runs and pods are never refused for their writer.
    pub(crate) const fn user_part(self) -> UserPart {
        match self {
            Self::MutateAccessRequests
            | Self::ValidateAccessRequests
            | Self::ValidateAccessPolicies => UserPart::Whole,
            Self::MutateConnectors | Self::MutatePods => UserPart::Nothing,
            Self::MutatePipelineRuns => UserPart::Name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_and_logs_name_a_page_by_its_path() {
        for page in Page::ALL {
            let path = page.path().strip_prefix('/').unwrap();
            assert_eq!(page.word(), path.replace('/', "-"));
        }
    }
}
