//! Helm, pinned like the cluster's own programs, and its uses in this project: it installs the chart, and
//! renders it.

use std::{io, path::PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    cluster::{
        Cluster, ToolsError,
        layout::{cache_dir, repository},
        pki::{WEBHOOK_CALLER, WEBHOOK_CALLERS},
        tools,
    },
    command::{CommandError, Tool},
    hex::hex,
    images::{self, Archive, Image, ImageError, Profile},
    progress::Progress,
    target::{Kubectl, Target},
};

/// The release's name.
pub const RELEASE: &str = "connectors-approval";

/// The namespace of the installation.
pub const NAMESPACE: &str = "connectors-system";

/// Images are loaded already, so it only waits for certificates, probes and one registration.
const PATIENCE: &str = "--timeout=3m";

/// Why the chart was not installed or rendered.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// There is no Helm.
    #[error(transparent)]
    Tools(#[from] ToolsError),
    /// The services' images could not be made.
    #[error(transparent)]
    Images(#[from] ImageError),
    /// Helm or ctr failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The values could not be handed over.
    #[error("cannot write the chart's values")]
    Values(#[source] io::Error),
    /// The output of Helm is not YAML.
    #[error("cannot read what the chart renders")]
    Rendered(#[source] serde_yaml::Error),
}

/// Installs the chart, or upgrades the installation, and waits until every pod is ready.
///
/// On a local cluster the services' images are built and loaded first; another cluster must be able to pull
/// them from the place in `values` (`image.registry`, `image.tag`). `values` override the values for a local
/// cluster.
pub fn install(
    target: &Target,
    profile: Profile,
    values: &Value,
    progress: &Progress,
) -> Result<(), InstallError> {
    let helm = Helm::get(progress)?;
    let mut given = json!({});
    if let Some(cluster) = target.local() {
        let archives = progress.step("build and load the services", || {
            load_services(cluster, profile)
        })?;
        given = local_values(cluster, &archives);
    }
    merge(&mut given, values);
    if let Some(callers) = target.local().and_then(Cluster::webhook_callers) {
        allow_callers(target.kubectl(), &callers)?;
    }
    progress.step("install the chart", || {
        helm.upgrade(target.kubectl(), &given, &["--wait", PATIENCE])
    })
}

/// Upgrades the installation to these values and keeps the others, as an administrator does. Waits until every pod is
/// ready.
pub fn upgrade(kubectl: &Kubectl, values: &Value) -> Result<(), InstallError> {
    let helm = Helm::get(&Progress::default())?;
    helm.upgrade(kubectl, values, &["--reuse-values", "--wait", PATIENCE])
}

/// Applies the custom resources and the one rule about them that needs no values, and waits until they are served.
pub fn api(kubectl: &Kubectl) -> Result<(), CommandError> {
    let crds = crds();
    let rule = chart().join("templates/admission/connector-namespace.yaml");
    for path in [&crds, &rule] {
        kubectl.run_on_file("apply --server-side --force-conflicts", path)?;
    }
    kubectl.run_on_file("wait --for=condition=Established --timeout=60s", &crds)?;
    Ok(())
}

/// Removes the installation of [`install`], except for the custom resources and the namespace.
pub fn uninstall(target: &Target, progress: &Progress) -> Result<(), InstallError> {
    let helm = Helm::get(progress)?.on(target.kubectl());
    let words = ["uninstall", RELEASE, "--namespace", NAMESPACE, "--wait"];
    helm.args(words).args([PATIENCE]).output()?;
    Ok(())
}

/// The chart's objects as Helm would apply them, without asking a cluster; further arguments are `helm template`'s.
pub fn render(values: &Value, args: &[&str]) -> Result<Vec<Value>, InstallError> {
    let helm = Helm::get(&Progress::default())?;
    let values = values_file(values)?;
    let words = ["template", RELEASE, "--namespace", NAMESPACE];
    let rendered = helm
        .tool()
        .args(words)
        .args([chart()])
        .args(["--values".as_ref(), values.path()])
        .args(args)
        .output()?;
    let documents = serde_yaml::Deserializer::from_str(&rendered)
        .map(Value::deserialize)
        .collect::<Result<Vec<_>, _>>()
        .map_err(InstallError::Rendered)?;
    Ok(documents
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

/// Where the chart is.
#[must_use]
pub fn chart() -> PathBuf {
    repository().join("charts").join(RELEASE)
}

/// Where the custom resources are, which `cargo xtask crdgen` writes.
#[must_use]
pub fn crds() -> PathBuf {
    chart().join("files/crds")
}

/// The chart's settings of the allocators, for programs that run without it.
pub fn allocator_settings() -> impl Iterator<Item = (&'static str, &'static str)> {
    let helpers = include_str!("../../charts/connectors-approval/templates/_helpers.tpl");
    helpers.lines().filter_map(|line| {
        let setting = line.strip_prefix("- {name: ")?.strip_suffix("\"}")?;
        setting.split_once(", value: \"")
    })
}

/// The pinned Helm.
#[derive(Debug, Clone)]
pub struct Helm {
    program: PathBuf,
}

impl Helm {
    /// Finds it in the cache, or builds it (once; a minute or two).
    pub fn get(progress: &Progress) -> Result<Self, ToolsError> {
        tools::helm(progress).map(|program| Self { program })
    }

    /// Helm without a cluster, with a home of its own: a person's repositories and plugins change nothing here.
    #[must_use]
    pub fn tool(&self) -> Tool {
        let home = cache_dir().join("helm");
        let mut tool = Tool::ending_with_us(&self.program);
        for (variable, dir) in [
            ("HELM_CACHE_HOME", "cache"),
            ("HELM_CONFIG_HOME", "config"),
            ("HELM_DATA_HOME", "data"),
        ] {
            tool = tool.env(variable, home.join(dir));
        }
        for variable in [
            "HELM_NAMESPACE",
            "HELM_DRIVER",
            "HELM_PLUGINS",
            "HELM_DEBUG",
        ] {
            tool = tool.without_env(variable);
        }
        tool.without_env("KUBECONFIG")
    }

    /// Helm on the cluster that this kubectl speaks to.
    #[must_use]
    pub fn on(&self, kubectl: &Kubectl) -> Tool {
        let tool = self.tool();
        let tool = match kubectl.cache() {
            Some(dir) => tool.env("KUBECACHEDIR", dir),
            None => tool,
        };
        tool.args(["--kubeconfig".as_ref(), kubectl.kubeconfig().as_os_str()])
    }

    fn upgrade(
        &self,
        kubectl: &Kubectl,
        values: &Value,
        args: &[&str],
    ) -> Result<(), InstallError> {
        let values = values_file(values)?;
        self.on(kubectl)
            .args(["upgrade", "--install", RELEASE])
            .args([chart()])
            .args(["--namespace", NAMESPACE, "--create-namespace"])
            // Tests and earlier demos may have applied the custom resources by themselves.
            .args(["--take-ownership", "--force-conflicts"])
            .args(["--values".as_ref(), values.path()])
            .args(args)
            .output()?;
        Ok(())
    }
}

fn load_services(cluster: &Cluster, profile: Profile) -> Result<Vec<Archive>, InstallError> {
    let archives = images::build(&Image::SERVICES, profile)?;
    for archive in &archives {
        cluster.load(archive)?;
    }
    Ok(archives)
}

/// Tells the webhook which authority signs the API server's certificate.
fn allow_callers(kubectl: &Kubectl, authority: &str) -> Result<(), CommandError> {
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": WEBHOOK_CALLERS, "namespace": NAMESPACE},
            "data": {"ca.crt": authority},
        },
    ]});
    kubectl.apply(&objects.to_string()).map(drop)
}

/// The values for a local cluster.
fn local_values(cluster: &Cluster, archives: &[Archive]) -> Value {
    // An archive's name changes with its content, its reference does not: this restarts the pods of an old one.
    let mut digest = Sha256::new();
    for archive in archives {
        digest.update(archive.path.as_os_str().as_encoded_bytes());
    }
    // A cluster that an earlier version made has no such authority.
    let callers = cluster.webhook_callers().map(|_| WEBHOOK_CALLERS);
    json!({
        "image": {
            "registry": images::REGISTRY,
            "tag": images::TAG,
            "pullPolicy": "Never",
        },
        "kubeletDir": cluster.kubelet_dir(),
        "webhook": {
            "clientCA": {"configMap": callers.unwrap_or_default()},
            "clientNames": callers.map(|_| WEBHOOK_CALLER).into_iter().collect::<Vec<_>>(),
        },
        "podAnnotations": {"connectors.alauda.io/images": &hex(&digest.finalize())[..16]},
    })
}

/// Puts the fields of `more` over those of `values`, as Helm does with several values files.
pub fn merge(values: &mut Value, more: &Value) {
    match (values, more) {
        (Value::Object(values), Value::Object(more)) => {
            for (key, value) in more {
                merge(values.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (values, more) => *values = more.clone(),
    }
}

fn values_file(values: &Value) -> Result<tempfile::NamedTempFile, InstallError> {
    let file = tempfile::NamedTempFile::new().map_err(InstallError::Values)?;
    serde_json::to_writer(file.as_file(), values)
        .map_err(|error| InstallError::Values(error.into()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_values_win_field_by_field() {
        let mut values = json!({"image": {"tag": "dev", "registry": "r"}, "list": [1, 2]});
        merge(
            &mut values,
            &json!({"image": {"tag": "v1"}, "list": [3], "new": null}),
        );
        let wanted = json!({"image": {"tag": "v1", "registry": "r"}, "list": [3], "new": null});
        assert_eq!(values, wanted);
    }
}
