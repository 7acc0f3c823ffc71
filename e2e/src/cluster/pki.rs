//! Certificate authorities, certificates and kubeconfigs of one cluster.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use serde_json::json;

use super::{
    config::{ADMIN, net},
    layout::Layout,
};

/// Why the cluster has no certificates.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A key or certificate could not be made.
    #[error("cannot make the certificate for {subject}")]
    Certificate {
        /// Its common name.
        subject: String,
        /// The library's reason.
        #[source]
        source: rcgen::Error,
    },
    /// A file could not be written.
    #[error("cannot write {path}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

type Authority = CertifiedIssuer<'static, KeyPair>;

/// The subject of a certificate.
struct Identity<'a> {
    /// The files' name below `pki/`.
    file: &'a str,
    common_name: &'a str,
    organization: Option<&'a str>,
    /// Addresses and names; with none it is a client certificate only.
    serves: &'a [&'a str],
}

/// Kubernetes' group of superusers.
const MASTERS: Option<&str> = Some("system:masters");

/// The authority of the callers of admission webhooks, and the name of its files.
pub(crate) const WEBHOOK_CALLERS: &str = "webhook-callers";
/// The API server's name to admission webhooks, and the name of its files.
pub(crate) const WEBHOOK_CALLER: &str = "webhook-caller";

/// Writes everything that the components and the cluster's users prove themselves with.
pub(crate) fn write(layout: &Layout, node: &str) -> Result<(), PkiError> {
    let cluster = authority(layout, "ca", "kubernetes-ca")?;
    let etcd = authority(layout, "etcd-ca", "etcd-ca")?;
    let front_proxy = authority(layout, "front-proxy-ca", "front-proxy-ca")?;
    let webhook_callers = authority(layout, WEBHOOK_CALLERS, WEBHOOK_CALLERS)?;

    let api_names = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "localhost",
        "127.0.0.1",
        net::NODE_IP,
        net::API_SERVICE_IP,
    ];
    let local = ["localhost", "127.0.0.1", net::NODE_IP];
    let kubelet_names = [node, net::NODE_IP, "127.0.0.1"];
    let system_node = format!("system:node:{node}");
    let client = |file, common_name, organization| Identity {
        file,
        common_name,
        organization,
        serves: &[],
    };
    let server = |file, common_name, serves| Identity {
        file,
        common_name,
        organization: None,
        serves,
    };

    let issue = |authority: &Authority, identity: Identity<'_>| issue(layout, authority, &identity);
    issue(&etcd, server("etcd", "etcd", &local))?;
    issue(
        &etcd,
        client("apiserver-etcd-client", "kube-apiserver", None),
    )?;
    issue(
        &front_proxy,
        client("front-proxy-client", "front-proxy-client", None),
    )?;
    issue(
        &webhook_callers,
        client(WEBHOOK_CALLER, WEBHOOK_CALLER, None),
    )?;
    issue(&cluster, server("apiserver", "kube-apiserver", &api_names))?;
    issue(
        &cluster,
        client(
            "apiserver-kubelet-client",
            "kube-apiserver-kubelet-client",
            MASTERS,
        ),
    )?;
    issue(
        &cluster,
        server(
            "controller-manager-serving",
            "kube-controller-manager",
            &local,
        ),
    )?;
    issue(
        &cluster,
        server("scheduler-serving", "kube-scheduler", &local),
    )?;
    issue(
        &cluster,
        server("kubelet-serving", &system_node, &kubelet_names),
    )?;
    issue(&cluster, client(ADMIN, ADMIN, MASTERS))?;
    issue(
        &cluster,
        client("controller-manager", "system:kube-controller-manager", None),
    )?;
    issue(&cluster, client("scheduler", "system:kube-scheduler", None))?;
    issue(&cluster, client("kube-proxy", "system:kube-proxy", None))?;
    issue(
        &cluster,
        client("kubelet", &system_node, Some("system:nodes")),
    )?;
    service_account_key(layout)
}

/// Writes the kubeconfig of one client certificate for an API server address.
pub(crate) fn write_kubeconfig(
    layout: &Layout,
    identity: &str,
    server: &str,
    file: &Path,
) -> Result<(), PkiError> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "local",
        "clusters": [{"name": "local", "cluster": {
            "server": server,
            "certificate-authority": layout.pki("ca.crt"),
        }}],
        "users": [{"name": identity, "user": {
            "client-certificate": layout.pki(&format!("{identity}.crt")),
            "client-key": layout.pki(&format!("{identity}.key")),
        }}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": identity}}],
    });
    // JSON is YAML, and every reader of kubeconfigs takes it.
    write_private(file, &format!("{config:#}\n"))
}

fn authority(layout: &Layout, file: &str, common_name: &str) -> Result<Authority, PkiError> {
    let certificate = |source| PkiError::Certificate {
        subject: common_name.to_owned(),
        source,
    };
    let key = KeyPair::generate().map_err(certificate)?;
    let key_pem = key.serialize_pem();
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let authority = CertifiedIssuer::self_signed(params, key).map_err(certificate)?;
    write_private(&layout.path(&format!("pki/{file}.key")), &key_pem)?;
    write_private(&layout.path(&format!("pki/{file}.crt")), &authority.pem())?;
    Ok(authority)
}

fn issue(layout: &Layout, authority: &Authority, identity: &Identity<'_>) -> Result<(), PkiError> {
    let certificate = |source| PkiError::Certificate {
        subject: identity.common_name.to_owned(),
        source,
    };
    let names: Vec<String> = identity.serves.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).map_err(certificate)?;
    params
        .distinguished_name
        .push(DnType::CommonName, identity.common_name);
    if let Some(organization) = identity.organization {
        params
            .distinguished_name
            .push(DnType::OrganizationName, organization);
    }
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    if !identity.serves.is_empty() {
        params
            .extended_key_usages
            .push(ExtendedKeyUsagePurpose::ServerAuth);
    }
    let key = KeyPair::generate().map_err(certificate)?;
    let signed = params.signed_by(&key, authority).map_err(certificate)?;
    let file = |ending| layout.path(&format!("pki/{}.{ending}", identity.file));
    write_private(&file("key"), &key.serialize_pem())?;
    write_private(&file("crt"), &signed.pem())
}

fn service_account_key(layout: &Layout) -> Result<(), PkiError> {
    let key = KeyPair::generate().map_err(|source| PkiError::Certificate {
        subject: "service accounts".to_owned(),
        source,
    })?;
    write_private(
        &layout.path("pki/service-account.key"),
        &key.serialize_pem(),
    )?;
    write_private(
        &layout.path("pki/service-account.pub"),
        &key.public_key_pem(),
    )
}

fn write_private(path: &Path, text: &str) -> Result<(), PkiError> {
    let write = || -> io::Result<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        io::Write::write_all(&mut options.open(path)?, text.as_bytes())
    };
    write().map_err(|source| PkiError::Write {
        path: path.to_path_buf(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_are_readable_by_their_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::at(dir.path());
        write(&layout, "n").unwrap();
        let files: Vec<_> = fs::read_dir(layout.path("pki")).unwrap().collect();
        assert!(files.len() > 20);
        for file in files {
            let mode = file.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_kubeconfig_is_yaml_that_names_the_server() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::at(dir.path());
        let file = dir.path().join("kubeconfig");
        write_kubeconfig(&layout, "admin", "https://127.0.0.1:1", &file).unwrap();
        let text = fs::read_to_string(file).unwrap();
        let config: serde_yaml::Value = serde_yaml::from_str(&text).unwrap();
        assert_eq!(
            config["clusters"][0]["cluster"]["server"],
            "https://127.0.0.1:1"
        );
        assert_eq!(config["contexts"][0]["context"]["user"], "admin");
    }
}
