//! The tests of directories.

use connectors_api::names::CONNECTORS;
use connectors_api::pod_wish::{self, ConnectorKey};
use connectors_api::{AccessResource, Permission};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::cases::{self, WrittenCase, WrittenTest};
use super::compare::{self, MountQuestion};
use super::report::{CaseDifference, CaseReport, TestProblem, TestReport};
use crate::explain::offline::{self, OfflineQuestion, OfflineWorld};
use crate::explain::report::AccessShown;
use crate::files::ObjectFile;
use crate::modules::Modules;
use crate::terms::NamespacedName;
use crate::yaml::YamlDocument;

/// The place of a test in its file.
struct TestPlace<'a> {
    file: &'a str,
    document: &'a YamlDocument,
}

/// Runs the tests of directories. Each directory stands for a cluster of its own.
pub async fn test(
    directories: &[Vec<ObjectFile>],
    modules: &Modules,
    now: Timestamp,
) -> TestReport {
    let mut report = TestReport::default();
    for files in directories {
        directory(files, modules, now, &mut report, &mut |_| ()).await;
    }
    let (passed, failed): (Vec<_>, Vec<_>) = report
        .cases
        .iter()
        .partition(|it| it.differences.is_empty());
    (report.passed, report.failed) = (passed.len(), failed.len());
    report
}

/// A case, and the answer to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeenCase<'a> {
    case: &'a WrittenCase,
    /// The answer.
    pub(super) access: &'a AccessShown,
}

impl SeenCase<'_> {
    /// True when the case has an object in place of that of the directory, or without it.
    pub(super) fn replaces(&self, kind: &str, name: &NamespacedName) -> bool {
        let told = format!("{kind} {name}");
        let mut objects = self.case.objects.iter();
        objects.any(|it| told_name(it) == told) || self.case.without.contains(&told)
    }
}

/// Runs the tests of a directory, and passes on each answer.
pub(super) async fn directory(
    files: &[ObjectFile],
    modules: &Modules,
    now: Timestamp,
    report: &mut TestReport,
    see: &mut dyn FnMut(SeenCase<'_>),
) {
    let mut objects = Vec::new();
    let mut tests = Vec::new();
    for file in files {
        match &file.documents {
            Ok(documents) => {
                for document in documents {
                    if cases::is_test(&document.value) {
                        tests.push(TestPlace {
                            file: &file.path,
                            document,
                        });
                    } else {
                        objects.push(document.value.clone());
                    }
                }
            }
            Err(problem) => report.problems.push(TestProblem {
                file: file.path.clone(),
                line: problem.line,
                message: problem.message.clone(),
            }),
        }
    }
    for object in &mut objects {
        complete(object);
    }
    for place in tests {
        let problem = |path: &str, message: String| TestProblem {
            file: place.file.to_owned(),
            line: Some(place.document.position(path).line),
            message: if path.is_empty() {
                message
            } else {
                format!("{path}: {message}")
            },
        };
        let written = match cases::parse(&place.document.value) {
            Ok(written) => written,
            Err((path, message)) => {
                report.problems.push(problem(&path, message));
                continue;
            }
        };
        let settings = match written.settings.knowledge() {
            Ok(settings) => settings,
            Err(message) => {
                report.problems.push(problem("settings", message));
                continue;
            }
        };
        let world = OfflineWorld {
            objects: objects.clone(),
            settings,
            creators_since: written.settings.creators_since,
        };
        for (number, case) in written.cases.iter().enumerate() {
            let at = format!("cases[{number}]");
            match one(&world, case, modules, now, see).await {
                Ok(differences) => {
                    report
                        .cases
                        .push(told(&place, &written, case, &at, differences));
                }
                Err((field, message)) => {
                    let path = format!("{at}.{field}");
                    report.problems.push(problem(&path, message));
                }
            }
        }
    }
}

fn told(
    place: &TestPlace<'_>,
    written: &WrittenTest,
    case: &WrittenCase,
    at: &str,
    differences: Vec<compare::FieldDifference>,
) -> CaseReport {
    let differences = differences.into_iter().map(|it| {
        let field = format!("{at}.{}", it.field);
        CaseDifference {
            line: place.document.position(&field).line,
            field: it.field,
            expected: it.expected,
            found: it.found,
            because: it.because,
        }
    });
    let name = written.metadata.name.clone();
    CaseReport {
        file: place.file.to_owned(),
        line: place.document.position(at).line,
        test: name.unwrap_or_else(|| place.file.to_owned()),
        case: case.name.clone(),
        differences: differences.collect(),
    }
}

/// The differences of one case; an error names the field of the case that cannot be used.
async fn one(
    world: &OfflineWorld,
    case: &WrittenCase,
    modules: &Modules,
    now: Timestamp,
    see: &mut dyn FnMut(SeenCase<'_>),
) -> Result<Vec<compare::FieldDifference>, (String, String)> {
    let mut world = world.clone();
    for without in &case.without {
        let before = world.objects.len();
        world.objects.retain(|it| told_name(it) != *without);
        if world.objects.len() == before {
            let message = format!("there is no {without}; write Kind namespace/name");
            return Err(("without".to_owned(), message));
        }
    }
    for object in &case.objects {
        let mut object = object.clone();
        complete(&mut object);
        let name = told_name(&object);
        world.objects.retain(|it| told_name(it) != name);
        world.objects.push(object);
    }
    let pod = pod(&world, &case.pod).map_err(|message| ("pod".to_owned(), message))?;
    let namespace = text(&pod, "/metadata/namespace").to_owned();
    let connector: ConnectorKey = pod_wish::connector(&namespace, &case.connector)
        .map_err(|error| ("connector".to_owned(), error.to_string()))?;
    let mount = mount(&world, &pod, &connector, case.permission);
    let question = OfflineQuestion {
        pod,
        connector,
        permission: case.permission,
    };
    let explanation = offline::explain(&world, question, modules, now).await;
    let access = explanation.accesses.first();
    Ok(access.map_or_else(Vec::new, |access| {
        see(SeenCase { case, access });
        compare::differences(&case.expect, access, &mount)
    }))
}

/// The question of the mount of a connector.
fn mount(
    world: &OfflineWorld,
    pod: &Value,
    connector: &ConnectorKey,
    permission: Permission,
) -> MountQuestion {
    let ConnectorKey { namespace, name } = connector;
    let of_pod = AccessResource::subresource_of_pod(
        permission,
        text(pod, "/metadata/namespace"),
        text(pod, "/metadata/name"),
    );
    let forms = [permission.as_str(), of_pod.as_str()].map(|it| format!("{CONNECTORS}/{it}"));
    let [standing_form, _] = &forms;
    let is_standing = |policy: &&Value| {
        let rules = policy.pointer("/spec/defaultPermission/roleTemplate/rules");
        let mut rules = rules.and_then(Value::as_array).into_iter().flatten();
        rules.any(|rule| {
            let words = |field: &str| {
                let words = rule.get(field).and_then(Value::as_array);
                words.into_iter().flatten().filter_map(Value::as_str)
            };
            let form = std::slice::from_ref(standing_form);
            compare::covers_mount(words("verbs"), words("resources"), form)
        })
    };
    let policies = world.objects.iter().filter(|it| {
        text(it, "/kind") == "AccessPolicy" && text(it, "/metadata/namespace") == namespace
    });
    let standing = policies.filter(is_standing);
    MountQuestion {
        has_connector: world
            .find("Connector", namespace, name)
            .is_some_and(|it| it.pointer("/metadata/deletionTimestamp").is_none()),
        standing: standing
            .map(|it| text(it, "/metadata/name").to_owned())
            .collect(),
        forms,
    }
}

fn pod(world: &OfflineWorld, written: &Value) -> Result<Value, String> {
    if written.is_object() {
        let mut pod = written.clone();
        if let Some(fields) = pod.as_object_mut() {
            fields.entry("apiVersion").or_insert("v1".into());
            fields.entry("kind").or_insert("Pod".into());
        }
        complete(&mut pod);
        if text(&pod, "/metadata/namespace").is_empty() || text(&pod, "/metadata/name").is_empty() {
            return Err("needs metadata.namespace and metadata.name".to_owned());
        }
        return Ok(pod);
    }
    let name = written.as_str().unwrap_or_default();
    let wanted = format!("Pod {name}");
    let mut pods = world.objects.iter();
    let found = pods.find(|it| told_name(it) == wanted);
    found.cloned().ok_or_else(|| {
        format!("there is no pod `{name}` in the directory; write namespace/name, or a whole pod")
    })
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let text = object.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

/// Kind, namespace and name.
fn told_name(object: &Value) -> String {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    match text(object, "/metadata/namespace") {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// Fills in the fields that a cluster would: UID, version, creation time, and the UIDs of owners.
fn complete(object: &mut Value) {
    const CREATED: &str = "2026-01-01T00:00:00Z";
    let uid = told_name(object);
    let namespace = text(object, "/metadata/namespace").to_owned();
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    metadata.entry("uid").or_insert(uid.into());
    metadata.entry("resourceVersion").or_insert("1".into());
    metadata
        .entry("creationTimestamp")
        .or_insert(CREATED.into());
    let owners = metadata.get_mut("ownerReferences");
    for owner in owners.and_then(Value::as_array_mut).into_iter().flatten() {
        let (kind, name) = (
            text(owner, "/kind").to_owned(),
            text(owner, "/name").to_owned(),
        );
        if let Some(owner) = owner.as_object_mut() {
            owner
                .entry("uid")
                .or_insert_with(|| json!(format!("{kind} {namespace}/{name}")));
        }
    }
}
