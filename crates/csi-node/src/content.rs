//! The content of a pod's volume: facts about each connector, and files. Only the pod's own token is a secret.

use connector_files::FileSet;
use connectors_api::{Connector, ConnectorClass, ConnectorKey, Permission, PodIdentity};
use serde::{Deserialize, Serialize};

use crate::{
    error_file::ErrorFile,
    volume::{VolumePath, Wish},
};

/// The facts about one connector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectorFacts {
    /// The connector.
    pub(crate) connector: ConnectorKey,
    /// The address of the tool.
    pub(crate) address: String,
    /// Its class.
    pub(crate) class: String,
    /// The requested permission.
    pub(crate) permission: Permission,
    /// The name of the request that gives access. Empty if none does.
    pub(crate) request: String,
}

impl ConnectorFacts {
    /// The folder of the facts.
    pub(crate) fn folder(&self) -> String {
        // Neither name can contain the separator.
        format!("{}_{}", self.connector.namespace, self.connector.name)
    }

    /// The facts that may change while the pod runs. The request is always the one from the creation of the volume.
    pub(crate) fn lively(&self) -> [(&'static str, &str); 2] {
        [("address", &self.address), ("class", &self.class)]
    }

    /// Each fact in a file of its own: name and content.
    pub(crate) fn files(&self) -> [(&'static str, &str); 6] {
        [
            ("name", &self.connector.name),
            ("namespace", &self.connector.namespace),
            ("address", &self.address),
            ("class", &self.class),
            ("permission", self.permission.as_str()),
            ("request", &self.request),
        ]
    }
}

/// The content of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// The facts about each connector.
    pub(crate) facts: Vec<ConnectorFacts>,
    /// The files at the root.
    pub(crate) files: FileSet,
}

/// The memory of a file beside its pages: its inode and its name.
pub(crate) const INODE: usize = 1024;
/// The folders of a volume, their links and its marker.
const FRAME_INODES: usize = 12;
const FRAME_PAGES: usize = 6;

/// The memory of a file of this length, with pages of this size.
const fn memory_of(length: usize, page: usize) -> usize {
    length.next_multiple_of(page) + INODE
}

/// The memory of a volume without its content.
const fn frame(page: usize) -> usize {
    FRAME_PAGES * page + FRAME_INODES * INODE
}

impl Content {
    /// The most memory of a volume with this content, in bytes. The volume has two sets of its files, a link to each, and
    /// the earlier facts.
    pub(crate) fn memory(&self, page: usize) -> usize {
        let facts = self.facts.iter().flat_map(ConnectorFacts::files);
        let earlier = self.facts.iter().flat_map(ConnectorFacts::lively);
        let facts = facts.chain(earlier);
        let facts: usize = facts.map(|(_, fact)| memory_of(fact.len(), page)).sum();
        let files = self.files.iter();
        let files: usize = files
            .map(|(_, file)| 2 * memory_of(file.len(), page) + INODE)
            .sum();
        frame(page) + self.facts.len() * INODE + facts + files
    }
}

/// The memory of a volume that contains only an error.
pub(crate) fn memory_of_error(error: &ErrorFile, page: usize) -> usize {
    frame(page) + memory_of(error.text().len(), page)
}

/// The address of a connector: its own, or the one that its class gives to all. An empty one is none.
pub(crate) fn address(connector: &Connector, class: Option<&ConnectorClass>) -> Option<String> {
    let given = |address: Option<&String>| address.filter(|text| !text.is_empty()).cloned();
    given(connector.spec.address.as_ref()).or_else(|| {
        let declared = class?.spec.address.as_ref()?;
        given(declared.default.as_ref())
    })
}

/// The owner of a volume. The record is written into the volume last, and every later call relies on it. Fields of a
/// later version are skipped, so that an earlier driver still knows its volumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    volume: String,
    pod: RecordedPod,
    permission: Permission,
    connectors: Vec<RecordedConnector>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedPod {
    namespace: String,
    name: String,
    uid: String,
    service_account: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordedConnector {
    namespace: String,
    name: String,
}

impl Record {
    /// The namespace of the volume's pod.
    pub(crate) fn namespace(&self) -> &str {
        &self.pod.namespace
    }

    /// The record of a volume with the wished content.
    pub(crate) fn new(place: &VolumePath, wish: &Wish) -> Self {
        let Wish {
            pod,
            connectors,
            permission,
            // They determine the content of a volume, and not its owner.
            options: _,
        } = wish;
        let PodIdentity {
            namespace,
            name,
            uid,
            service_account,
        } = pod.clone();
        let recorded = |connector: &ConnectorKey| RecordedConnector {
            namespace: connector.namespace.clone(),
            name: connector.name.clone(),
        };
        Self {
            volume: place.volume_id(),
            pod: RecordedPod {
                namespace,
                name,
                uid,
                service_account,
            },
            permission: *permission,
            connectors: connectors.iter().map(recorded).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::{Value, json};

    use super::*;
    use crate::{testing::wish, volume::PodsDir};

    fn connector(address: Option<&str>) -> Connector {
        serde_json::from_value(json!({
            "metadata": {"name": "harbor", "namespace": "tools"},
            "spec": {"connectorClassName": "oci", "address": address},
        }))
        .unwrap()
    }

    fn class(address: &Value) -> ConnectorClass {
        serde_json::from_value(json!({
            "metadata": {"name": "oci"},
            "spec": {"address": address},
        }))
        .unwrap()
    }

    #[test]
    fn an_address_is_the_connectors_own_or_that_of_its_class() {
        let with_default = class(&json!({"name": "address", "default": "https://default"}));
        for (own, class, expected) in [
            (
                Some("https://own"),
                Some(&with_default),
                Some("https://own"),
            ),
            (None, Some(&with_default), Some("https://default")),
            (Some(""), Some(&with_default), Some("https://default")),
            (Some("https://own"), None, Some("https://own")),
            (None, None, None),
            (None, Some(&class(&Value::Null)), None),
            (None, Some(&class(&json!({"name": "address"}))), None),
            (
                None,
                Some(&class(&json!({"name": "address", "default": ""}))),
                None,
            ),
        ] {
            let found = address(&connector(own), class);
            assert_eq!(found.as_deref(), expected, "{own:?} {class:?}");
        }
    }

    #[test]
    fn a_record_differs_with_everything_that_was_wished() {
        let pods = PodsDir::new(Path::new("/k"));
        let at = |volume: &str| {
            let path = format!("/k/pods/uid-1/volumes/kubernetes.io~csi/{volume}/mount");
            pods.at(Path::new(&path)).unwrap()
        };
        let usual = Record::new(&at("tool"), &wish(&["a/b"]));
        assert_eq!(usual, Record::new(&at("tool"), &wish(&["a/b"])));
        let mut proxy = wish(&["a/b"]);
        proxy.permission = Permission::Proxy;
        let pod = |change: fn(&mut PodIdentity)| {
            let mut wish = wish(&["a/b"]);
            change(&mut wish.pod);
            wish
        };
        // Every part of the pod counts. A name with the same beginning is another name.
        for other in [
            pod(|pod| pod.namespace.push_str("-2")),
            pod(|pod| pod.name.push('0')),
            pod(|pod| pod.uid.push('0')),
            pod(|pod| pod.uid.make_ascii_uppercase()),
            pod(|pod| pod.service_account.push_str("-2")),
            wish(&["a/b-2"]),
            wish(&["a-2/b"]),
        ] {
            assert_ne!(usual, Record::new(&at("tool"), &other), "{other:?}");
        }
        let mut account = wish(&["a/b"]);
        account.pod.service_account = "other".to_owned();
        for (place, other) in [
            ("other", wish(&["a/b"])),
            ("tool", wish(&["a/c"])),
            ("tool", wish(&["a/b", "a/c"])),
            ("tool", proxy),
            ("tool", account),
        ] {
            assert_ne!(usual, Record::new(&at(place), &other), "{other:?}");
        }
    }

    #[test]
    fn a_record_survives_a_restart() {
        let pods = PodsDir::new(Path::new("/k"));
        let place = pods
            .at(Path::new(
                "/k/pods/uid-1/volumes/kubernetes.io~csi/tool/mount",
            ))
            .unwrap();
        let record = Record::new(&place, &wish(&["a/b", "c/d"]));
        let json = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&json).unwrap(), record);
    }
}
