//! Volumes of the driver, wherever they stand in an object: in a pod, in the template of a workload, in a workspace of a
//! pipeline run.

use connectors_api::names::CSI_DRIVER;
use connectors_api::pod_wish;
use connectors_api::pod_wish::attributes::{EXPIRATION, FILES};
use connectors_api::{PositiveDuration, quoted};
use k8s_openapi::api::core::v1::{CSIVolumeSource, Volume};
use serde_json::{Map, Value, json};

use super::metadata;
use super::place::{ConvertLog, ConvertSource};
use super::words::{NoteWord, RefusalWord};

/// The permission that a volume asks for.
const PERMISSION: &str = "permission";
const ON_REJECTED: &str = "onRejected";
/// An old built-in file.
const OLD_CERTIFICATE: &str = "ca.cert";
/// Annotation of pods under the other product, which pulls their images through that connector. It has no effect here.
const PULL_ANNOTATION: &str = "connectors.cpaas.io/connector";
/// Label of pods under the other product, beside the annotation for its images. It has no effect here.
const PULL_LABEL: &str = "connectors.cpaas.io/proxy-inject";

/// An object with converted volumes.
pub(super) enum ConvertedVolumes {
    /// It has no volume of the driver.
    None,
    /// At least one was refused.
    Refused,
    /// All were converted.
    Object(Value),
}

/// Converts the volumes of an object, which is in this namespace if it names none.
pub(super) fn volumes(
    source: ConvertSource<'_>,
    namespace: &str,
    log: &mut ConvertLog,
) -> ConvertedVolumes {
    let before = log.notes.len();
    let mut object = metadata::of_object(source, log);
    let namespace = source.text("/metadata/namespace").unwrap_or(namespace);
    let mut walk = VolumeWalk {
        source,
        namespace,
        found: 0,
        log,
    };
    let refused = walk.log.refusals.len();
    walk.visit(&mut object, "");
    if walk.found == 0 {
        // The object is left out, whatever it has.
        walk.log.notes.truncate(before);
        return ConvertedVolumes::None;
    }
    walk.look_at_pulls(&object, "");
    if mentions_old_certificate(&object) {
        let message = "something in the object names ca.cert: use ca.crt";
        walk.log.note(source.at(""), NoteWord::FileGone, message);
    }
    if walk.log.refusals.len() == refused {
        ConvertedVolumes::Object(object)
    } else {
        ConvertedVolumes::Refused
    }
}

struct VolumeWalk<'a, 'log> {
    source: ConvertSource<'a>,
    namespace: &'a str,
    found: usize,
    log: &'log mut ConvertLog,
}

fn below(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.to_owned()
    } else {
        format!("{path}.{field}")
    }
}

impl VolumeWalk<'_, '_> {
    fn visit(&mut self, value: &mut Value, path: &str) {
        match value {
            Value::Object(fields) => {
                for (field, value) in fields.iter_mut() {
                    let path = below(path, field);
                    if field == "csi"
                        && value.get("driver").and_then(Value::as_str) == Some(CSI_DRIVER)
                    {
                        self.found += 1;
                        self.volume(value, &path);
                    } else {
                        self.visit(value, &path);
                    }
                }
            }
            Value::Array(items) => {
                for (place, item) in items.iter_mut().enumerate() {
                    self.visit(item, &format!("{path}[{place}]"));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn volume(&mut self, csi: &mut Value, path: &str) {
        if self.source.text("/kind") == Some("PersistentVolume") {
            let place = self.source.at(path);
            let message = "the driver serves no claims";
            let fix = "mount the connector as an inline volume of the pod";
            self.log
                .refuse(place, RefusalWord::VolumeNotInline, message, fix);
            return;
        }
        let at = below(path, "volumeAttributes");
        if let Some(attributes) = csi
            .get_mut("volumeAttributes")
            .and_then(Value::as_object_mut)
        {
            self.attributes(attributes, &at);
        }
        if let Err(message) = self.accepted(csi) {
            let fix = "mend it there first; docs/policies.md has the attributes of a volume";
            let word = RefusalWord::VolumeUnreadable;
            self.log.refuse(self.source.at(&at), word, message, fix);
        }
    }

    fn attributes(&mut self, attributes: &mut Map<String, Value>, at: &str) {
        let place = self.source.at(at);
        if attributes.contains_key(PERMISSION) {
            let message = "the volume names its permission";
            self.log.note(place, NoteWord::AlreadyConverted, message);
            return;
        }
        attributes.insert(PERMISSION.to_owned(), json!("proxy"));
        let message = "permission: proxy";
        self.log
            .note(place.clone(), NoteWord::VolumeAsksForProxy, message);
        if !attributes.contains_key(ON_REJECTED) {
            attributes.insert(ON_REJECTED.to_owned(), json!("ErrorFile"));
            let message = "onRejected: ErrorFile; without it, a refused pod does not start";
            self.log.note(place, NoteWord::ErrorFileAsked, message);
        }
        let text = |attributes: &Map<String, Value>, name: &str| {
            let text = attributes.get(name).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        if attributes.contains_key(EXPIRATION) {
            let message =
                "tokens live as csiNode.proxyToken.expirationSeconds says, and are renewed";
            let place = self.field(at, EXPIRATION);
            self.log.note(place, NoteWord::TokenIsRenewed, message);
        }
        let files = text(attributes, FILES);
        let left_out = format!("!{OLD_CERTIFICATE}");
        let kept = files.split(',').filter(|it| it.trim() != left_out);
        let kept = kept.collect::<Vec<_>>().join(",");
        if kept != files {
            let message = "no file ca.cert is made, so that it cannot be left out";
            let place = self.field(at, FILES);
            self.log.note(place, NoteWord::FileGone, message);
            attributes.insert(FILES.to_owned(), json!(kept));
        }
        if text(attributes, "connectors").contains(',')
            && kept
                .split(',')
                .any(|it| !it.trim_start().starts_with('!') && !it.trim().is_empty())
        {
            let message = "if two classes write one file, leave one out by !CLASS/FILE";
            let place = self.field(at, FILES);
            self.log.note(place, NoteWord::ClassFilesCollide, message);
        }
    }

    /// The place of an attribute, whose name has a dot.
    fn field(&self, at: &str, name: &str) -> super::place::FieldPlace {
        self.source.at(&below(at, name))
    }

    /// The volume as the driver reads it.
    fn accepted(&self, csi: &Value) -> Result<(), String> {
        let csi: CSIVolumeSource =
            serde_json::from_value(csi.clone()).map_err(|error| error.to_string())?;
        let text = |name: &str| {
            let attributes = csi.volume_attributes.as_ref();
            attributes.and_then(|it| it.get(name)).map(String::as_str)
        };
        if let Some(wanted) = text(EXPIRATION) {
            let duration = wanted.trim().parse::<PositiveDuration>();
            duration.map_err(|_| format!("{EXPIRATION}: `{}` is no duration", quoted(wanted)))?;
        }
        let name = "connector";
        let volume = Volume {
            name: name.to_owned(),
            csi: Some(csi),
            ..Volume::default()
        };
        let wanted = pod_wish::wanted(self.namespace, &[volume]);
        wanted.map(drop).map_err(|error| {
            let message = error.to_string();
            // The path of the field names the volume.
            let bare = message.strip_prefix(&format!("volume {name}: "));
            bare.map_or_else(|| message.clone(), str::to_owned)
        })
    }

    /// Pods, and templates of pods, that have their images pulled there.
    fn look_at_pulls(&mut self, value: &Value, path: &str) {
        match value {
            Value::Object(fields) => {
                for (field, value) in fields {
                    let path = below(path, field);
                    let asks = (field == "annotations" && value.get(PULL_ANNOTATION).is_some())
                        || (field == "labels" && value.get(PULL_LABEL).is_some());
                    if asks {
                        let message = "images are pulled as the pod names them";
                        let place = self.source.at(&path);
                        self.log.note(place, NoteWord::ImagePullLeftOut, message);
                    }
                    self.look_at_pulls(value, &path);
                }
            }
            Value::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    self.look_at_pulls(item, &format!("{path}[{place}]"));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// True when a text of the object ends a path in the old file, or names it in a command.
fn mentions_old_certificate(value: &Value) -> bool {
    let is_end = |text: &str| {
        let mut ends = text
            .match_indices(OLD_CERTIFICATE)
            .map(|(at, found)| at + found.len());
        ends.any(|end| {
            let next = text.get(end..).and_then(|it| it.chars().next());
            next.is_none_or(|it| !it.is_alphanumeric() && it != '.')
        })
    };
    match value {
        Value::String(text) => is_end(text),
        Value::Array(items) => items.iter().any(mentions_old_certificate),
        Value::Object(fields) => fields.values().any(mentions_old_certificate),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
