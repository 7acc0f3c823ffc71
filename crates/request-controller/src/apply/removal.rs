//! Removals: objects that no request describes are deleted, each independently of the success of the others.

use connectors_api::{AccessRequest, access_request::MatchedPolicy};
use tracing::warn;

use super::{Applier, ApplyError};
use crate::{
    api::Name,
    grant,
    plan::Action,
    seen::{GrantKind, Managed},
};

impl Applier {
    /// Carries out the removals of a plan, each independently of the success of the others.
    pub(super) async fn remove(
        &self,
        namespace: &str,
        actions: &[Action],
    ) -> Result<(), ApplyError> {
        let mut all = Ok(());
        for action in actions {
            if let Action::Remove { kind, name, uid } = action {
                let object = Name::new(namespace, name);
                all = all.and(self.writes.delete(*kind, &object, uid.as_deref()).await);
            }
        }
        all
    }

    /// Removes the managed objects under a name.
    pub(super) async fn remove_both(&self, name: &Name) -> Result<(), ApplyError> {
        let mut all = Ok(());
        for kind in GrantKind::ALL {
            all = all.and(self.remove_if(kind, name, |_| true).await.map(|_| ()));
        }
        all
    }

    /// Removes one managed object, if it exists and `should` returns true. Returns whether it was removed.
    async fn remove_if(
        &self,
        kind: GrantKind,
        name: &Name,
        should: impl Fn(&Managed) -> bool,
    ) -> Result<bool, ApplyError> {
        let found = self.live.grant(kind, name).await?;
        let Some(found) = found.filter(|it| it.is_ours() && should(it)) else {
            return Ok(false);
        };
        let uid = found.metadata.uid.as_deref();
        match self.writes.delete(kind, name, uid).await {
            Ok(()) => Ok(true),
            Err(ApplyError::Call(error)) => Err(ApplyError::Kept(
                kind.as_str(),
                name.clone(),
                Box::new(error),
            )),
            Err(error) => Err(error),
        }
    }

    /// Applies the rule about managed objects to the two objects under one name. Returns how many were removed.
    pub async fn enforce(
        &self,
        name: &Name,
        request: Option<&AccessRequest>,
    ) -> Result<usize, ApplyError> {
        let now = self.now();
        let should = |it: &Managed| !it.is_going() && !grant::keep(it, request, now);
        let (mut removed, mut failed) = (0, Ok(()));
        let mut stays = Vec::new();
        for kind in GrantKind::ALL {
            match self.remove_if(kind, name, should).await {
                Ok(false) => {}
                Ok(true) => {
                    warn!(kind = kind.as_str(), object = %name, "removed what no request describes");
                    removed += 1;
                }
                // A failed deletion must not prevent that of the other object.
                Err(error) => {
                    if matches!(error, ApplyError::Kept(..)) {
                        stays.push(kind);
                    }
                    failed = failed.and(Err(error));
                }
            }
        }
        // A Role changed by someone else takes effect while its RoleBinding exists, and the reverse.
        match stays.as_slice() {
            [GrantKind::Role] => self.loosen(GrantKind::RoleBinding, name).await?,
            [GrantKind::RoleBinding] => self.loosen(GrantKind::Role, name).await?,
            _ => {}
        }
        failed.map(|()| removed)
    }

    /// Removes one of the two objects unconditionally, because the other one cannot be removed.
    async fn loosen(&self, kind: GrantKind, name: &Name) -> Result<(), ApplyError> {
        let should = |it: &Managed| !it.is_going();
        let removed = self.remove_if(kind, name, should).await;
        removed.map(|_| ())
    }

    /// Removes both managed objects of every policy that ever granted or prepared a Role, and confirms that they are
    /// gone.
    pub(super) async fn make_sure_it_is_gone(
        &self,
        request: &AccessRequest,
    ) -> Result<(), ApplyError> {
        let own = Name::of(request);
        let uid = request.metadata.uid.as_deref().unwrap_or_default();
        let entries = request.status.iter().flat_map(|it| &it.policies);
        let mut all = Ok(());
        let has_objects = |it: &&MatchedPolicy| it.grant.is_some() || !it.prepared_rules.is_empty();
        for entry in entries.filter(has_objects) {
            let Some((_, policy)) = grant::identity(entry) else {
                continue;
            };
            let name = Name::new(&own.namespace, &grant::name(uid, policy));
            for kind in GrantKind::ALL {
                all = all.and(self.gone(kind, &name).await);
            }
        }
        all
    }

    async fn gone(&self, kind: GrantKind, name: &Name) -> Result<(), ApplyError> {
        for _ in 0..2 {
            if !self.remove_if(kind, name, |_| true).await? {
                return Ok(());
            }
        }
        match self.live.grant(kind, name).await?.filter(Managed::is_ours) {
            None => Ok(()),
            Some(_) => Err(ApplyError::Stuck(kind.as_str(), name.clone())),
        }
    }
}
