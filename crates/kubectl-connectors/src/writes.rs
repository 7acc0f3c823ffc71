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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::testing;

    /// The result of a write to an API server that gives these answers in turn, and the number of calls.
    async fn written(answers: &'static [u16]) -> (Result<(), WriteFailure>, usize) {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let client = testing::client(move |_| {
            let call = counted.fetch_add(1, Ordering::SeqCst);
            let code = answers[call.min(answers.len() - 1)];
            let refusal = json!({
                "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "", "code": code,
            });
            let object =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
            (code, if code == 200 { object } else { refusal })
        });
        let writer = AnswerWriter::new(client, None, Duration::from_secs(5));
        let kind = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        let write = ApprovalWrite {
            patch: json!({"data": {"state": "approved"}}),
            is_status: false,
            after: json!({}),
            says: String::new(),
        };
        let name = NamespacedName::new("ci", "a");
        let outcome = writer.write(&kind, &name, &write).await;
        (outcome, calls.load(Ordering::SeqCst))
    }

    /// A write that was carried out and not answered would be met by its own repetition as a conflict.
    #[tokio::test(start_paused = true)]
    async fn an_answer_is_written_once_whatever_the_reply_is() {
        for answers in [&[504, 409][..], &[500, 200], &[429, 200], &[401, 200]] {
            let (outcome, calls) = written(answers).await;
            assert!(
                matches!(outcome, Err(WriteFailure::Unknown(_))),
                "{answers:?}: {outcome:?}"
            );
            assert_eq!(calls, 1, "{answers:?}");
        }
        assert_eq!(written(&[409]).await, (Err(WriteFailure::Changed), 1));
        let refused = Err(WriteFailure::Refused("no".to_owned()));
        assert_eq!(written(&[403]).await, (refused, 1));
        assert_eq!(written(&[200]).await, (Ok(()), 1));
    }

    /// What the API server says decides: of credentials, load and its own errors it is not known what became of the write.
    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_an_answer_and_trouble_is_none() {
        for code in [400, 403, 404, 405, 410, 413, 415, 422] {
            let refused = Err(WriteFailure::Refused("no".to_owned()));
            let answers: &'static [u16] = vec![code].leak();
            assert_eq!(written(answers).await, (refused, 1), "{code}");
        }
        for code in [401, 408, 429, 500, 501, 502, 503, 504] {
            let answers: &'static [u16] = vec![code].leak();
            let (outcome, calls) = written(answers).await;
            let is_unknown = matches!(outcome, Err(WriteFailure::Unknown(_)));
            assert!(is_unknown && calls == 1, "{code}: {outcome:?}");
        }
    }

    fn write(is_status: bool) -> ApprovalWrite {
        ApprovalWrite {
            patch: json!({"status": {"state": "approved"}}),
            is_status,
            after: json!({}),
            says: String::new(),
        }
    }

    /// A state beside its object would be dropped by the API server, which says that it was written.
    #[tokio::test]
    async fn a_state_is_written_where_the_kind_has_it_by_one_merge_patch() {
        for (is_status, path) in [
            (true, "/api/v1/namespaces/ci/configmaps/a/status"),
            (false, "/api/v1/namespaces/ci/configmaps/a"),
        ] {
            let (sender, asked) = std::sync::mpsc::channel();
            let client = testing::client(move |request| {
                let kind = request.headers().get("content-type").cloned();
                let path = request.uri().path().to_owned();
                sender.send((request.method().clone(), path, kind)).unwrap();
                let object =
                    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
                (200, object)
            });
            let writer = AnswerWriter::new(client, None, Duration::from_secs(5));
            let kind = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
            let name = NamespacedName::new("ci", "a");
            let written = writer.write(&kind, &name, &write(is_status)).await;
            assert_eq!(written, Ok(()));
            let asked: Vec<_> = asked.try_iter().collect();
            let merge = "application/merge-patch+json".parse().ok();
            assert_eq!(asked, [(http::Method::PATCH, path.to_owned(), merge)]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_without_an_answer_ends_with_its_limit_and_quotes_no_secret() {
        let kind = ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
        let name = NamespacedName::new("ci", "a");
        let limit = Duration::from_secs(5);
        let writer = AnswerWriter::new(testing::silent_client(), None, limit);
        let begin = tokio::time::Instant::now();
        let outcome = writer.write(&kind, &name, &write(false)).await;
        assert!(
            matches!(outcome, Err(WriteFailure::Unknown(_))),
            "{outcome:?}"
        );
        let waited = begin.elapsed();
        assert!(waited >= limit && waited < limit * 2, "{waited:?}");

        let client = testing::client_without_credentials("hunter2");
        let writer = AnswerWriter::new(client, Some("dev".to_owned()), limit);
        let outcome = writer.write(&kind, &name, &write(false)).await;
        let Err(WriteFailure::Unknown(told)) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(
            told.contains("user entry `dev`") && !told.contains("hunter2"),
            "{told}"
        );
    }
}
