//! The findings about a policy, by its rules here and by the evaluation service.

use connectors_api::validate::{self, Severity};

/// Something to say about a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdmissionFinding {
    pub(crate) path: String,
    pub(crate) is_error: bool,
    pub(crate) message: String,
    pub(crate) fix: String,
}

impl From<validate::Finding> for AdmissionFinding {
    fn from(finding: validate::Finding) -> Self {
        let validate::Finding {
            path,
            code: _,
            severity,
            message,
            fix,
        } = finding;
        Self {
            path,
            is_error: severity == Severity::Error,
            message,
            fix,
        }
    }
}

impl std::fmt::Display for AdmissionFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            path, message, fix, ..
        } = self;
        write!(f, "{path}: {message}")?;
        if fix.is_empty() {
            Ok(())
        } else {
            write!(f, " ({fix})")
        }
    }
}
