//! The configuration of the installation.

use std::time::Duration;

use testkit::ChangeRecord;

use super::history::text;
use crate::stage::SYSTEM;

const CONFIG_MAP: &str = "connectors-config";

/// The configuration of the installation at one point in time.
#[derive(Default)]
pub(super) struct Configured {
    /// Whether approvals are enabled: the last valid value counts.
    pub(super) on: bool,
    /// Whether a policy without requesters accepts every account.
    pub(super) anybody: bool,
    /// The time of the last change, if it was after the start.
    pub(super) changed: Option<Duration>,
}

impl Configured {
    /// Applies a change of a `ConfigMap`, if it is the installation's.
    pub(super) fn learn(&mut self, at: Duration, change: &ChangeRecord) {
        let Some(after) = &change.after else {
            return;
        };
        if change.namespace != SYSTEM || change.name != CONFIG_MAP {
            return;
        }
        match text(after, "/data/enable-connectors-approval") {
            "true" => self.on = true,
            "false" => self.on = false,
            _ => {}
        }
        self.anybody = text(after, "/data/default-requesters") == "Any";
        if at > Duration::ZERO {
            self.changed = Some(at);
        }
    }
}
