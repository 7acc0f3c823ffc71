//! Decides whether a refused pod gets a volume with the error. Such a volume stays until the pod ends, so the refusal
//! must be final as well. The refusal is read from the API server itself.

use connectors_api::{
    AccessRequest, AccessResource,
    pod_wish::{asks_the_same, attributes::OnRejected},
};

use super::Driver;
use crate::{
    error::{PublishError, Unreachable},
    error_file::ErrorFile,
    evaluator::Evaluator,
    kubernetes::{Kubernetes, Lookup, NoAnswer, review},
    mounter::Mounter,
    refusal::{AccessRefusal, is_for_good},
    volume::Wish,
};

/// A refusal that is final.
pub(super) struct Rejection {
    /// The file for the pod.
    pub(super) file: ErrorFile,
    /// The text for its event.
    pub(super) text: String,
}

impl<E: Evaluator, K: Kubernetes, M: Mounter> Driver<E, K, M> {
    /// The file for a pod that is not admitted because of this error. Returns the error where the mount fails: access
    /// may still come, or the error is not the answer of a request.
    pub(super) async fn error_file(
        &self,
        wish: &Wish,
        error: PublishError,
    ) -> Result<Rejection, PublishError> {
        let PublishError::Denied(refusal) = &error else {
            return Err(error);
        };
        let wanted = match wish.options.on_rejected {
            OnRejected::Fail => false,
            OnRejected::ErrorFile => refusal.is_for_good(),
        };
        if !wanted {
            return Err(error);
        }
        match self.stays(wish, refusal).await {
            Ok(true) => {
                let text = error.text();
                let file = ErrorFile::of(refusal, &text);
                Ok(Rejection { file, text })
            }
            // The next call gets the answer of its time.
            Ok(false) => Err(error),
            Err(NoAnswer) => Err(PublishError::Unreachable {
                connector: refusal.connector.clone(),
                trouble: Unreachable::Kubernetes,
            }),
        }
    }

    /// True if the request exists and is over, and no other permission exists.
    async fn stays(&self, wish: &Wish, refusal: &AccessRefusal) -> Result<bool, NoAnswer> {
        let connector = &refusal.connector;
        let name = &refusal.request.name;
        let found = self.kubernetes.request(&connector.namespace, name).await?;
        let Lookup::Found(found) = found else {
            return Ok(false);
        };
        let ours = wish.request(connector);
        if !asks_the_same(&found, &ours) || !is_over(&found, &refusal.request.uid) {
            return Ok(false);
        }
        // The first look may be as old as the call. Other authorizers than RBAC may know more now.
        let standing = AccessResource::standing(wish.permission);
        let question = review(&wish.pod, connector, &standing);
        Ok(!self.kubernetes.review_access(question).await?)
    }
}

/// The request is the one that was seen, and was not reset.
fn is_over(found: &AccessRequest, uid: &str) -> bool {
    let phase = found.status.as_ref().and_then(|status| status.phase);
    found.metadata.uid.as_deref() == Some(uid)
        && found.metadata.deletion_timestamp.is_none()
        && phase.is_some_and(is_for_good)
}
