//! Reads for the scheduling gate of a pod.

use k8s_openapi::api::{authorization::v1::SubjectAccessReviewSpec, core::v1::Pod};
use service_kit::{retry::CallError, reviews};

use super::{Live, MaybeObject};
use crate::api::{GatedPodFields, Name};

impl Live {
    /// A pod with its gates and the volumes of drivers.
    pub async fn gated_pod(&self, name: &Name) -> MaybeObject<Pod> {
        self.get::<Pod, GatedPodFields>(name).await
    }

    /// Whether the API server's authorizers allow something. There may be others than RBAC.
    pub async fn may(&self, question: &SubjectAccessReviewSpec) -> Result<bool, CallError> {
        let attributes = question.resource_attributes.clone().unwrap_or_default();
        reviews::may(&self.client, &self.policy, question.into(), &attributes).await
    }
}
