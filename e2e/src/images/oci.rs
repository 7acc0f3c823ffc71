//! The OCI image layout as one tar: a layer, a configuration, a manifest, an index. No clock and no order
//! but the sorted one goes into it, so equal contents give equal bytes.

use std::io;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::hex::hex;

/// One file of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its path in the image, without a leading slash.
    pub(super) path: String,
    /// Its bytes.
    pub(super) content: Vec<u8>,
    /// Its permissions.
    pub(super) mode: u32,
}

/// An image that runs `/program` as an unprivileged user, as an archive under a reference.
pub(super) fn archive(reference: &str, program: &str, entries: &[Entry]) -> io::Result<Vec<u8>> {
    let layer = tar(entries)?;
    let config = to_bytes(&json!({
        "architecture": architecture(),
        "os": "linux",
        "config": {
            "Entrypoint": [format!("/{program}")],
            "User": "65532:65532",
            "WorkingDir": "/",
        },
        // The layer is not compressed, so its digest and its "diff id" are one.
        "rootfs": {"type": "layers", "diff_ids": [sha256(&layer)]},
    }));
    let manifest = to_bytes(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("application/vnd.oci.image.config.v1+json", &config),
        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar", &layer)],
    }));
    let mut listed = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest);
    listed["annotations"] = json!({
        "io.containerd.image.name": reference,
        "org.opencontainers.image.ref.name": reference.rsplit(':').next(),
    });
    let index = to_bytes(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [listed],
    }));
    let file = |path: String, content: Vec<u8>| Entry {
        path,
        content,
        mode: 0o644,
    };
    let blob = |content: Vec<u8>| file(format!("blobs/sha256/{}", digest(&content)), content);
    tar(&[
        file(
            "oci-layout".to_owned(),
            to_bytes(&json!({"imageLayoutVersion": "1.0.0"})),
        ),
        file("index.json".to_owned(), index),
        blob(manifest),
        blob(config),
        blob(layer),
    ])
}

/// The SHA-256 digest in hexadecimal.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", digest(bytes))
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": sha256(bytes), "size": bytes.len()})
}

fn to_bytes(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}

/// The name by which OCI knows this machine's processor.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn tar(entries: &[Entry]) -> io::Result<Vec<u8>> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by(|a, b| a.path.cmp(&b.path));
    let mut builder = tar::Builder::new(Vec::new());
    for entry in sorted {
        let mut header = tar::Header::new_gnu();
        header.set_size(entry.content.len() as u64);
        header.set_mode(entry.mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        builder.append_data(&mut header, &entry.path, entry.content.as_slice())?;
    }
    builder.into_inner()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, io::Read};

    use super::*;

    fn entry(path: &str) -> Entry {
        Entry {
            path: path.to_owned(),
            content: path.as_bytes().to_vec(),
            mode: 0o755,
        }
    }

    fn files(archive: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut reader = tar::Archive::new(archive);
        let entries = reader.entries().unwrap();
        entries
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut content = Vec::new();
                entry.read_to_end(&mut content).unwrap();
                (entry.path().unwrap().display().to_string(), content)
            })
            .collect()
    }

    #[test]
    fn every_digest_in_the_archive_leads_to_a_blob_of_that_digest() {
        let archive = archive("localhost/x:dev", "x", &[entry("x")]).unwrap();
        let files = files(&archive);
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap().replace(':', "/");
            let content = &files[&format!("blobs/{digest}")];
            assert_eq!(descriptor["size"], content.len());
            assert_eq!(descriptor["digest"], sha256(content));
            content.clone()
        };
        let manifest: Value = serde_json::from_slice(&blob(&index["manifests"][0])).unwrap();
        let config: Value = serde_json::from_slice(&blob(&manifest["config"])).unwrap();
        let layer = blob(&manifest["layers"][0]);
        assert_eq!(config["rootfs"]["diff_ids"][0], sha256(&layer));
        assert_eq!(config["config"]["User"], "65532:65532");
    }

    #[test]
    fn the_order_of_the_entries_does_not_matter() {
        let one = archive("localhost/x:dev", "x", &[entry("a"), entry("b")]).unwrap();
        let two = archive("localhost/x:dev", "x", &[entry("b"), entry("a")]).unwrap();
        assert!(one == two);
    }

    #[test]
    fn a_path_that_leaves_the_image_is_refused() {
        assert!(archive("localhost/x:dev", "x", &[entry("../x")]).is_err());
    }
}
