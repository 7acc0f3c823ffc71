//! The writes, each bound to what was read before it.
//!
//! An object that exists is written under the version that was read, so that of two processes that
//! would replace it at once only one does. One that does not exist is created by an apply under a
//! manager of this process alone and without force: the second writer gets a conflict.

use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration},
        core::v1::{ConfigMap, Secret},
    },
};
use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use service_kit::{
    retry::{CallError, RetryPolicy},
    watches::Guarded,
};
use thiserror::Error;

use super::{
    CertificateStore,
    observe::{
        AUTHORITY, BUNDLE, BUNDLE_KEY, CHANGED, Observed, TLS_KEYS, Version, WebhookConfiguration,
    },
    plan::{CertificateStep, Server},
    x509::{self, Authority, MakeError, RootCertificate},
};

/// The owner of the fields of existing objects.
const MANAGER: &str = "webhook";

/// Why a step was not taken.
#[derive(Debug, Error)]
pub(crate) enum ApplyError {
    /// There is nothing to store.
    #[error("cannot make what has to be stored")]
    Make(#[from] MakeError),
    /// The API server did not take it.
    #[error(transparent)]
    Write(#[from] CallError),
}

impl ApplyError {
    /// True if another writer was faster: the stored object has to be read again.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Self::Make(_) => false,
            Self::Write(call) => call.status() == Some(409),
        }
    }
}

/// Takes a step.
pub(crate) async fn apply(
    store: &CertificateStore,
    observed: &Observed,
    step: &CertificateStep,
    now: Timestamp,
) -> Result<(), ApplyError> {
    match step {
        CertificateStep::MakeAuthority => {
            let [certificate, key] = Authority::make(&store.namespace, now)?.pems();
            secret(
                store,
                AUTHORITY,
                observed.authority.as_ref(),
                [certificate, key],
            )
            .await?;
        }
        CertificateStep::Publish(roots) => {
            publish(store, observed.bundle.as_ref(), roots, now).await?;
        }
        CertificateStep::Announce(roots) => announce(store, observed, roots).await?,
        CertificateStep::Issue(server) => {
            // The plan names a server only under an authority.
            let Some(authority) = &observed.stored.authority else {
                return Ok(());
            };
            let names = server.names(&store.namespace);
            let pems = authority.issue(&names, now)?.pems();
            let mut versions = Server::ALL.into_iter().zip(&observed.serving);
            let version = versions.find(|(known, _)| known == server);
            let version = version.and_then(|(_, version)| version.as_ref());
            secret(store, server.secret(), version, pems).await?;
        }
        CertificateStep::Rest => {}
    }
    Ok(())
}

async fn secret(
    store: &CertificateStore,
    name: &str,
    version: Option<&Version>,
    pems: [String; 2],
) -> Result<(), CallError> {
    let mut data = serde_json::Map::new();
    for (key, pem) in TLS_KEYS.into_iter().zip(pems) {
        data.insert(key.to_owned(), json!(ByteString(pem.into_bytes())));
    }
    let object = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(store, name, version),
        "type": "kubernetes.io/tls",
        "data": data,
    });
    write::<Secret>(store, "secret", name, version, &object).await
}

async fn publish(
    store: &CertificateStore,
    version: Option<&Version>,
    roots: &[RootCertificate],
    now: Timestamp,
) -> Result<(), CallError> {
    let mut metadata = metadata(store, BUNDLE, version);
    metadata["annotations"] = json!({ CHANGED: now });
    let object = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": { BUNDLE_KEY: x509::bundle(roots) },
    });
    write::<ConfigMap>(store, "configmap", BUNDLE, version, &object).await
}

fn metadata(store: &CertificateStore, name: &str, version: Option<&Version>) -> Value {
    let mut metadata = json!({
        "name": name,
        "namespace": store.namespace,
        "labels": { "app.kubernetes.io/part-of": "connectors-approval" },
    });
    if let Some(version) = version {
        // With the UID nothing is written to a new object of the name, and none is made when it is gone.
        metadata["uid"] = json!(version.uid);
        metadata["resourceVersion"] = json!(version.resource_version);
    }
    metadata
}

async fn write<K>(
    store: &CertificateStore,
    kind: &str,
    name: &str,
    version: Option<&Version>,
    object: &Value,
) -> Result<(), CallError>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api: Api<Guarded<K>> = Api::namespaced(store.client.clone(), &store.namespace);
    let params = match version {
        Some(_) => PatchParams::apply(MANAGER).force(),
        None => PatchParams::apply(&store.creator),
    };
    let call = format!("apply {kind} {name}");
    let patch = Patch::Apply(object);
    store
        .policy
        .call(call, || api.patch(name, &params, &patch))
        .await
        .map(drop)
}

async fn announce(
    store: &CertificateStore,
    observed: &Observed,
    roots: &[RootCertificate],
) -> Result<(), CallError> {
    if let Some(configuration) = &observed.mutating {
        let api: Api<Guarded<MutatingWebhookConfiguration>> = Api::all(store.client.clone());
        let name = &store.mutating;
        bind(&api, &store.policy, name, configuration, roots).await?;
    }
    if let Some(configuration) = &observed.validating {
        let api: Api<Guarded<ValidatingWebhookConfiguration>> = Api::all(store.client.clone());
        let name = &store.validating;
        bind(&api, &store.policy, name, configuration, roots).await?;
    }
    Ok(())
}

/// A strategic merge finds webhooks by name and touches nothing but what is said here.
async fn bind<K>(
    api: &Api<Guarded<K>>,
    policy: &RetryPolicy,
    name: &str,
    configuration: &WebhookConfiguration,
    roots: &[RootCertificate],
) -> Result<(), CallError>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned,
{
    let bundle = ByteString(x509::bundle(roots).into_bytes());
    let webhooks: Vec<_> = configuration
        .ours
        .iter()
        .map(|hook| json!({ "name": hook, "clientConfig": { "caBundle": bundle } }))
        .collect();
    let Version {
        uid,
        resource_version,
    } = &configuration.version;
    let patch = Patch::Strategic(json!({
        "metadata": { "uid": uid, "resourceVersion": resource_version },
        "webhooks": webhooks,
    }));
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    policy
        .call(format!("patch webhook configuration {name}"), || {
            api.patch(name, &params, &patch)
        })
        .await
        .map(drop)
}
