//! The one write of the plugin: an answer to an approval. All other calls are in [`crate::reads`].

use std::time::Duration;

use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::ApiResource;
use kube::{Api, Client};
use serde_json::Value;
use service_kit::retry::{Backoff, CallError, RetryPolicy};

use crate::approval_write::ApprovalWrite;
use crate::secrecy;
use crate::terms::NamespacedName;

/// Writes as one user.
#[derive(Clone)]
pub struct AnswerWriter {
    client: Client,
    calls: RetryPolicy,
    /// The user entry of the kubeconfig, for errors.
    user: Option<String>,
}

/// Why an answer is not known to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// The API server refused it, in these words.
    Refused(String),
    /// The object changed since it was read.
    Changed,
    /// There was no answer, or none that decides.
    Unknown(String),
}

impl AnswerWriter {
    /// A writer with a limit on the time of one call. Errors name the user entry of the kubeconfig.
    #[must_use]
    pub fn new(client: Client, user: Option<String>, timeout: Duration) -> Self {
        let calls = RetryPolicy {
            attempts: 1,
            attempt: timeout,
            total: timeout,
            pauses: Backoff::new(Duration::from_millis(100), Duration::from_secs(1)),
        };
        Self {
            client,
            calls,
            user,
        }
    }

    /// Writes an answer, once. A repetition would meet a changed object.
    pub async fn write(
        &self,
        resource: &ApiResource,
        name: &NamespacedName,
        write: &ApprovalWrite,
    ) -> Result<(), WriteFailure> {
        let NamespacedName { namespace, name } = name;
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, resource);
        let params = PatchParams::default();
        let patch: Patch<&Value> = Patch::Merge(&write.patch);
        let part = if write.is_status { "/status" } else { "" };
        let call = format!(
            "patch {}{part} {name} in namespace {namespace}",
            resource.plural
        );
        let attempt = || async {
            if write.is_status {
                api.patch_status(name, &params, &patch).await
            } else {
                api.patch(name, &params, &patch).await
            }
        };
        let written = self.calls.call(call, attempt).await;
        written.map(drop).map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &CallError) -> WriteFailure {
        match error.answer() {
            Some(status) if status.code == 409 => WriteFailure::Changed,
            // Credentials and load say nothing about the answer.
            Some(status)
                if (400..500).contains(&status.code) && !matches!(status.code, 401 | 408 | 429) =>
            {
                WriteFailure::Refused(status.message.clone())
            }
            Some(_) | None => WriteFailure::Unknown(secrecy::told(error, self.user.as_deref())),
        }
    }
}
