//! The current wants of a policy. The rules are those of `connectors-api`.

pub use connectors_api::standing::{
    NoSubject, RbacSubject, StandingPermission, WantedPermissions, WantedRule, WrongRule, wanted,
};

#[cfg(test)]
mod tests;
