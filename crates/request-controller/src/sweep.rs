//! The rule about managed objects, applied to all of them: at the start before anything else, and every
//! few minutes, for whatever no event told.

use std::collections::{BTreeSet, HashMap};

use connectors_api::{AccessRequest, labels, names};
use tracing::info;

use crate::{
    api::Name,
    plan::grant::keep,
    reconcile::{ReconcileError, Reconciler},
    seen::GrantKind,
};

/// What a sweep found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Roles and RoleBindings that are managed for requests.
    pub managed: usize,
    /// Of these, removed.
    pub removed: usize,
    /// Of these, should go and are still there.
    pub left: usize,
}

/// What is managed for requests; the policy-controller's objects have no such UID.
fn ours() -> String {
    format!(
        "{}={},{}",
        labels::MANAGED_BY,
        names::MANAGED_BY,
        labels::ACCESS_REQUEST_UID
    )
}

impl Reconciler {
    /// Removes every managed object that no request describes.
    pub async fn sweep(&self) -> Result<Swept, ReconcileError> {
        let mut managed = Vec::new();
        for kind in GrantKind::ALL {
            managed.extend(self.live.grants(kind, &ours()).await?);
        }
        // Read after the objects: what describes an object is always written before it.
        let requests: HashMap<String, AccessRequest> = self
            .live
            .requests()
            .await?
            .into_iter()
            .filter_map(Result::ok)
            .filter_map(|request| Some((request.metadata.uid.clone()?, request)))
            .collect();
        let now = (self.clock)().wall;
        let stray: BTreeSet<Name> = managed
            .iter()
            .filter(|object| {
                let uid = object.label(labels::ACCESS_REQUEST_UID).unwrap_or_default();
                !keep(object, requests.get(uid), now)
            })
            .map(|object| Name::in_metadata(&object.metadata))
            .collect();
        let mut swept = Swept {
            managed: managed.len(),
            ..Swept::default()
        };
        let mut failed = None;
        for name in &stray {
            // One object that cannot be removed must not save the others.
            match self.grant(name).await {
                Ok(removed) => swept.removed += removed,
                Err(error) => failed = Some(error),
            }
        }
        for object in &managed {
            let name = Name::in_metadata(&object.metadata);
            let is_stuck = object.metadata.deletion_timestamp.is_some();
            if is_stuck && self.live.grant(object.kind(), &name).await?.is_some() {
                swept.left += 1;
            }
        }
        self.metrics
            .orphaned
            .set(swept.left.try_into().unwrap_or(i64::MAX));
        if let Some(error) = failed {
            return Err(error);
        }
        info!(?swept, "swept");
        Ok(swept)
    }
}
