//! The volumes of a pod, as its spec describes them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{CSIVolumeSource, Volume};
use thiserror::Error;

use super::{ConnectorKey, LONGEST_ATTRIBUTES, VolumeAttributes, WishError};
use crate::{Permission, names::CSI_DRIVER, quoted};

/// The connectors of all volumes of a pod, each once for each capability.
pub type Wanted = BTreeSet<(ConnectorKey, Permission)>;

/// The limit of connectors in all volumes of a pod that are asked about before it is scheduled.
pub const MOST_WANTED: usize = 64;

/// The reason why a volume of a pod cannot be mounted as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum VolumeTextError {
    /// The pod could write.
    #[error("volume {0}: must be readOnly: true")]
    Writable(String),
    /// The volume has nothing that a file system could change.
    #[error("volume {0}: fsType is not supported")]
    FileSystem(String),
    /// Too many attributes.
    #[error("volume {0}: the attributes are longer than 64 KiB")]
    TooLong(String),
    /// An attribute is wrong.
    #[error("volume {0}: {1}")]
    Attributes(String, #[source] WishError),
    /// Too many connectors in all volumes.
    #[error("more than {MOST_WANTED} connectors in all volumes of the pod")]
    TooMany,
}

/// The connectors that the volumes of a pod in this namespace ask for; none if no volume is of this product's driver.
pub fn wanted(namespace: &str, volumes: &[Volume]) -> Result<Wanted, VolumeTextError> {
    let mut wanted = Wanted::new();
    for volume in volumes {
        let Some(csi) = of_driver(volume) else {
            continue;
        };
        let VolumeAttributes {
            connectors,
            permission,
            options: _,
        } = attributes(namespace, &volume.name, csi)?;
        wanted.extend(connectors.into_iter().map(|it| (it, permission)));
        if wanted.len() > MOST_WANTED {
            return Err(VolumeTextError::TooMany);
        }
    }
    Ok(wanted)
}

/// The inline volume of this product's driver. A volume by a claim is none: the driver serves no claims.
fn of_driver(volume: &Volume) -> Option<&CSIVolumeSource> {
    volume.csi.as_ref().filter(|it| it.driver == CSI_DRIVER)
}

fn attributes(
    namespace: &str,
    volume: &str,
    csi: &CSIVolumeSource,
) -> Result<VolumeAttributes, VolumeTextError> {
    let named = || quoted(volume);
    if csi.read_only != Some(true) {
        return Err(VolumeTextError::Writable(named()));
    }
    if csi.fs_type.as_deref().is_some_and(|it| !it.is_empty()) {
        return Err(VolumeTextError::FileSystem(named()));
    }
    let written = csi.volume_attributes.iter().flatten();
    let length: usize = written
        .clone()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if length > LONGEST_ATTRIBUTES {
        return Err(VolumeTextError::TooLong(named()));
    }
    VolumeAttributes::parse(namespace, written)
        .map_err(|error| VolumeTextError::Attributes(named(), error))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn ours(name: &str, attributes: &Value) -> Value {
        json!({"name": name, "csi": {
            "driver": "connectors-csi", "readOnly": true, "volumeAttributes": attributes,
        }})
    }

    fn read(volumes: &Value) -> Result<Vec<String>, String> {
        let volumes: Vec<Volume> = serde_json::from_value(volumes.clone()).unwrap();
        let wanted = wanted("shop", &volumes).map_err(|error| error.to_string())?;
        let named = |(connector, permission): &(ConnectorKey, Permission)| {
            format!("{connector} {permission}")
        };
        Ok(wanted.iter().map(named).collect())
    }

    #[test]
    fn a_pod_wants_the_connectors_of_all_its_volumes_of_our_driver() {
        let elsewhere = json!({"name": "x", "csi": {"driver": "secrets-store.csi.k8s.io"}});
        let nearly = json!({"name": "y", "csi": {"driver": "connectors-csi2", "readOnly": true}});
        let claimed = json!({"name": "z", "ephemeral": {"volumeClaimTemplate": {"spec": {
            "storageClassName": "connectors-csi",
        }}}});
        let others = [
            elsewhere,
            nearly,
            claimed,
            json!({"name": "e", "emptyDir": {}}),
        ];
        assert_eq!(read(&json!([])), Ok(vec![]));
        assert_eq!(read(&json!(others)), Ok(vec![]));
        let mut volumes = Vec::from(others);
        volumes.push(ours("a", &json!({"connectors": "harbor,tools/git"})));
        volumes.push(ours("b", &json!({"connectors": "harbor"})));
        let proxy = json!({"connectors": "harbor", "permission": "proxy"});
        volumes.push(ours("c", &proxy));
        volumes.push(ours("d", &json!({"connector.name": "maven"})));
        assert_eq!(
            read(&json!(volumes)).unwrap(),
            [
                "shop/harbor apis",
                "shop/harbor proxy",
                "shop/maven apis",
                "tools/git apis"
            ]
        );
    }

    #[test]
    fn a_volume_that_no_mount_accepts_is_named_with_its_mistake() {
        let good = json!({"connectors": "harbor"});
        let changed = |field: &str, value: Value| {
            let mut volume = ours("a", &good);
            volume["csi"][field] = value;
            volume
        };
        for (volume, expected) in [
            (
                changed("readOnly", json!(false)),
                "volume a: must be readOnly: true",
            ),
            (
                changed("readOnly", json!(null)),
                "volume a: must be readOnly: true",
            ),
            (
                changed("fsType", json!("ext4")),
                "volume a: fsType is not supported",
            ),
            (
                changed("volumeAttributes", json!(null)),
                "volume a: volume attribute `connectors` is missing: list connectors as `namespace/name` or `name`",
            ),
            (
                changed(
                    "volumeAttributes",
                    json!({"connectors": "x".repeat(LONGEST_ATTRIBUTES)}),
                ),
                "volume a: the attributes are longer than 64 KiB",
            ),
            (
                ours("a", &json!({"connectors": "harbor", "permission": "write"})),
                "volume a: volume attribute `permission` cannot be `write`: use apis or proxy",
            ),
        ] {
            // The good ones beside it do not help.
            let volumes = json!([ours("first", &good), volume, ours("last", &good)]);
            assert_eq!(read(&volumes), Err(expected.to_owned()), "{volumes}");
        }
        assert!(read(&json!([changed("fsType", json!(""))])).is_ok());
    }

    #[test]
    fn the_attributes_of_a_volume_have_a_bounded_length_in_all() {
        let told = |length: usize| {
            let value = "x".repeat(length - "connectors".len());
            read(&json!([ours("a", &json!({"connectors": value}))])).unwrap_err()
        };
        let too_long = "volume a: the attributes are longer than 64 KiB";
        assert_ne!(told(LONGEST_ATTRIBUTES), too_long);
        assert_eq!(told(LONGEST_ATTRIBUTES + 1), too_long);
    }

    #[test]
    fn a_pod_of_too_many_connectors_is_not_asked_about() {
        let volume = |number: usize| {
            let names: Vec<_> = (0..8).map(|it| format!("c{}", number * 8 + it)).collect();
            ours(
                &format!("v{number}"),
                &json!({"connectors": names.join(",")}),
            )
        };
        let volumes: Vec<_> = (0..8).map(volume).collect();
        assert_eq!(read(&json!(volumes)).unwrap().len(), MOST_WANTED);
        let volumes: Vec<_> = (0..9).map(volume).collect();
        let error = read(&json!(volumes)).unwrap_err();
        assert_eq!(error, "more than 64 connectors in all volumes of the pod");
    }
}
