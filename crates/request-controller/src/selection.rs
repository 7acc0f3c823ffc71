//! The objects that must be read for the checks of a policy.

pub use connectors_api::wanted_objects::{
    CheckTrouble, Selection, SelectsNothing, WantedObjects, kind_forbidden, kind_missing, wanted,
};

use crate::check_object::ObjectText;

/// True when a check's reason is an error of its policy, which is found before any object is read.
pub(crate) fn is_trouble_of_policy(word: &str) -> bool {
    let of_policy = [
        CheckTrouble::KindMissing,
        CheckTrouble::KindForbidden,
        CheckTrouble::KindRefused,
        CheckTrouble::KindNotNamespaced,
        CheckTrouble::SelectorInvalid,
    ];
    of_policy.iter().any(|it| it.as_str() == word)
}

/// The objects that one check selects.
#[derive(Clone, Debug, Default)]
pub struct CheckCandidates {
    /// Those that were read, as JSON.
    pub texts: Vec<ObjectText>,
    /// Why one of them, or what proves it, could not be read. It decides only where the others do not.
    pub unread: Option<(CheckTrouble, String)>,
}

/// The objects that one check selects, or why there can be none.
pub type FoundCandidates = Result<CheckCandidates, (CheckTrouble, String)>;
