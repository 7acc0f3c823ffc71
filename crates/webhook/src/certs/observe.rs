//! Everything that is stored about certificates, read live.

use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingWebhookConfiguration, WebhookClientConfig,
        },
        core::v1::{ConfigMap, Secret},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use service_kit::{
    gets,
    retry::{CallError, RetryPolicy},
    watches::Guarded,
};

use super::{
    CertificateStore,
    plan::{Bundle, Server, StoredCertificates},
    x509::{Authority, RootCertificate, ServerIdentity},
};

/// The Secret of the authority.
pub(crate) const AUTHORITY: &str = "connectors-ca";
/// The `ConfigMap` of the bundle.
pub(crate) const BUNDLE: &str = "connectors-ca";
/// Its key.
pub(crate) const BUNDLE_KEY: &str = "ca.crt";
/// Annotation of `ConfigMap` `connectors-ca`: the time when the bundle was last changed.
pub(crate) const CHANGED: &str = "connectors.alauda.io/ca-changed";
/// The keys of a Secret of type `kubernetes.io/tls`: certificate and private key.
pub(crate) const TLS_KEYS: [&str; 2] = ["tls.crt", "tls.key"];

/// Which version of an object was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) uid: String,
    pub(crate) resource_version: String,
}

/// A webhook configuration as it was read.
#[derive(Clone, Debug)]
pub(crate) struct WebhookConfiguration {
    pub(crate) version: Version,
    /// The names of the webhooks in it that call this service.
    pub(crate) ours: Vec<String>,
}

/// The stored objects, and the versions that writes are bound to; `None` for an object that does not exist.
pub(crate) struct Observed {
    pub(crate) stored: StoredCertificates,
    pub(crate) authority: Option<Version>,
    pub(crate) bundle: Option<Version>,
    /// In the order of [`Server::ALL`].
    pub(crate) serving: [Option<Version>; 2],
    pub(crate) mutating: Option<WebhookConfiguration>,
    pub(crate) validating: Option<WebhookConfiguration>,
}

/// Reads all of it.
pub(crate) async fn observe(store: &CertificateStore) -> Result<Observed, CallError> {
    let secrets: Api<Guarded<Secret>> = Api::namespaced(store.client.clone(), &store.namespace);
    let config_maps: Api<Guarded<ConfigMap>> =
        Api::namespaced(store.client.clone(), &store.namespace);
    let [webhook, evaluation] = Server::ALL.map(Server::secret);
    let (authority, bundle, webhook, evaluation, mutating, validating) = tokio::try_join!(
        get(&secrets, &store.policy, "secret", AUTHORITY),
        get(&config_maps, &store.policy, "configmap", BUNDLE),
        get(&secrets, &store.policy, "secret", webhook),
        get(&secrets, &store.policy, "secret", evaluation),
        configuration::<MutatingWebhookConfiguration>(store, &store.mutating),
        configuration::<ValidatingWebhookConfiguration>(store, &store.validating),
    )?;
    let mut announced = Vec::new();
    let mut note = |read: Option<(WebhookConfiguration, Vec<Vec<RootCertificate>>)>| {
        read.map(|(configuration, roots)| {
            announced.extend(roots);
            configuration
        })
    };
    let (mutating, validating) = (note(mutating), note(validating));
    let stored = StoredCertificates {
        authority: pair(authority.as_ref(), Authority::read),
        bundle: bundle.as_ref().map(read_bundle).unwrap_or_default(),
        announced,
        serving: [&webhook, &evaluation].map(|secret| pair(secret.as_ref(), ServerIdentity::read)),
    };
    Ok(Observed {
        stored,
        authority: authority.as_ref().map(version),
        bundle: bundle.as_ref().map(version),
        serving: [&webhook, &evaluation].map(|secret| secret.as_ref().map(version)),
        mutating,
        validating,
    })
}

async fn get<K>(
    api: &Api<Guarded<K>>,
    policy: &RetryPolicy,
    kind: &str,
    name: &str,
) -> Result<Option<Guarded<K>>, CallError>
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned,
{
    policy
        .call(format!("get {kind} {name}"), || gets::find(api, name))
        .await
}

fn version<K: Resource>(object: &Guarded<K>) -> Version {
    let ObjectMeta {
        uid,
        resource_version,
        ..
    } = object.meta();
    Version {
        uid: uid.clone().unwrap_or_default(),
        resource_version: resource_version.clone().unwrap_or_default(),
    }
}

/// The content of a Secret, if it is of use.
fn pair<T>(
    secret: Option<&Guarded<Secret>>,
    read: impl FnOnce(&[u8], &[u8]) -> Option<T>,
) -> Option<T> {
    let data = secret?.object.as_ref().ok()?.data.as_ref()?;
    let [certificate, key] = TLS_KEYS.map(|key| data.get(key));
    read(&certificate?.0, &key?.0)
}

fn read_bundle(config_map: &Guarded<ConfigMap>) -> Bundle {
    let Ok(config_map) = &config_map.object else {
        return Bundle::default();
    };
    let text = config_map
        .data
        .as_ref()
        .and_then(|data| data.get(BUNDLE_KEY));
    let changed = config_map
        .metadata
        .annotations
        .as_ref()
        .and_then(|annotations| annotations.get(CHANGED))
        .and_then(|time| time.parse::<Timestamp>().ok());
    Bundle {
        roots: text
            .and_then(|text| RootCertificate::bundle(text.as_bytes()))
            .unwrap_or_default(),
        changed,
    }
}

/// The common part of the two kinds of configuration.
trait Hooks {
    const KIND: &str;
    fn hooks(&self) -> Vec<(&str, &WebhookClientConfig)>;
}

impl Hooks for MutatingWebhookConfiguration {
    const KIND: &str = "mutatingwebhookconfiguration";

    fn hooks(&self) -> Vec<(&str, &WebhookClientConfig)> {
        let hooks = self.webhooks.iter().flatten();
        hooks
            .map(|hook| (hook.name.as_str(), &hook.client_config))
            .collect()
    }
}

impl Hooks for ValidatingWebhookConfiguration {
    const KIND: &str = "validatingwebhookconfiguration";

    fn hooks(&self) -> Vec<(&str, &WebhookClientConfig)> {
        let hooks = self.webhooks.iter().flatten();
        hooks
            .map(|hook| (hook.name.as_str(), &hook.client_config))
            .collect()
    }
}

/// A configuration with webhooks of ours, and the roots of each; nothing if there is none, or it
/// cannot be read.
async fn configuration<K>(
    store: &CertificateStore,
    name: &str,
) -> Result<Option<(WebhookConfiguration, Vec<Vec<RootCertificate>>)>, CallError>
where
    K: Hooks + Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let api: Api<Guarded<K>> = Api::all(store.client.clone());
    let Some(read) = get(&api, &store.policy, K::KIND, name).await? else {
        return Ok(None);
    };
    let version = version(&read);
    let Ok(object) = &read.object else {
        return Ok(None);
    };
    let (mut ours, mut roots) = (Vec::new(), Vec::new());
    for (name, client) in object.hooks() {
        if calls_us(client, &store.namespace) {
            ours.push(name.to_owned());
            let ByteString(text) = client.ca_bundle.clone().unwrap_or_default();
            roots.push(RootCertificate::bundle(&text).unwrap_or_default());
        }
    }
    Ok((!ours.is_empty()).then_some((WebhookConfiguration { version, ours }, roots)))
}

fn calls_us(client: &WebhookClientConfig, namespace: &str) -> bool {
    client.service.as_ref().is_some_and(|service| {
        service.namespace == namespace && service.name == Server::Webhook.service()
    })
}
