//! The parts of a next step.

use super::report::NextShown;
use crate::terms::{NamespacedName, shell};

/// The user who may change the objects of a policy's namespace.
pub(super) fn administrator(namespace: &str) -> String {
    format!("an administrator of namespace {namespace}")
}

/// The users who own the installation.
pub(super) const INSTALLER: &str = "an administrator of the installation";

/// A step with a command.
pub(super) fn command(
    who: impl Into<String>,
    command: String,
    effect: impl Into<String>,
) -> NextShown {
    NextShown {
        command: Some(command),
        who: who.into(),
        effect: effect.into(),
    }
}

/// A step without a command.
pub(super) fn none(effect: impl Into<String>) -> NextShown {
    NextShown {
        command: None,
        who: String::new(),
        effect: effect.into(),
    }
}

/// The command that answers, with a look at what the answer opens.
pub(super) fn approve(who: String, resource: &str, kind: &str, name: &NamespacedName) -> NextShown {
    command(
        who,
        format!(
            "kubectl connectors approve {resource}/{} -n {}",
            shell(&name.name),
            name.namespace
        ),
        format!("approves {kind} {name}"),
    )
}
