use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use connectors_api::crd;
use connectors_api::names::CATEGORY;
use serde_json::{Value, json};

use crate::full;
use crate::walk::{schema_of, schemas};

/// Kinds to which no other software may add fields.
const STRICT: [&str; 2] = ["AccessPolicy", "AccessRequest"];

fn kinds() -> Vec<String> {
    crd::all()
        .into_iter()
        .map(|crd| crd.spec.names.kind)
        .collect()
}

#[test]
fn every_field_of_every_kind_is_described() {
    let mut silent = Vec::new();
    for kind in kinds() {
        schemas(&kind, &schema_of(&kind), &mut |path, schema| {
            let description = schema["description"].as_str().unwrap_or_default();
            // Items and map values are described by the field that holds them.
            let is_field = !path.ends_with(['[', ']', '{', '}']);
            if is_field && !path.ends_with(".metadata") && description.len() < 8 {
                silent.push(path.to_owned());
            }
            assert!(
                !description.contains('\n'),
                "{path} has a line break of the source code"
            );
        });
    }
    assert_eq!(silent, Vec::<String>::new());
}

#[test]
fn kinds_are_found_by_their_short_names_and_by_one_category() {
    let names: Vec<_> = crd::all()
        .into_iter()
        .map(|crd| {
            let names = crd.spec.names;
            assert_eq!(names.categories.unwrap(), [CATEGORY]);
            (
                crd.metadata.name.unwrap(),
                names.short_names.unwrap().join(","),
                crd.spec.scope,
            )
        })
        .collect();
    let expected = [
        ("connectors.connectors.alauda.io", "conn", "Namespaced"),
        (
            "connectorclasses.connectors.alauda.io",
            "connclass",
            "Cluster",
        ),
        ("accesspolicies.connectors.alauda.io", "apol", "Namespaced"),
        ("accessrequests.connectors.alauda.io", "areq", "Namespaced"),
    ]
    .map(|(name, short, scope)| (name.to_owned(), short.to_owned(), scope.to_owned()));
    assert_eq!(names, expected);
}

/// kubectl resolves a word as a category first, and then refuses names after it.
#[test]
fn the_category_hides_no_kind() {
    for crd in crd::all() {
        let names = crd.spec.names;
        let words = [
            Some(names.plural),
            names.singular,
            names.short_names.unwrap().pop(),
        ];
        assert!(
            !words.contains(&Some(CATEGORY.to_owned())),
            "{}",
            names.kind
        );
    }
}

#[test]
fn listings_show_what_people_look_for() {
    let columns = |kind: &str, wide: bool| -> Vec<String> {
        let crd = crd::all()
            .into_iter()
            .find(|crd| crd.spec.names.kind == kind)
            .unwrap();
        let columns = crd.spec.versions[0]
            .additional_printer_columns
            .clone()
            .unwrap();
        let shown = columns
            .into_iter()
            .filter(|column| wide || column.priority.unwrap_or(0) == 0);
        shown.map(|column| column.name).collect()
    };
    assert_eq!(
        columns("AccessRequest", false),
        [
            "Connector",
            "Subject",
            "Pod",
            "Phase",
            "Check",
            "Permission",
            "Age"
        ]
    );
    assert_eq!(
        columns("AccessPolicy", false),
        [
            "Connectors",
            "Subjects",
            "Permission",
            "Ready",
            "Reason",
            "Age"
        ]
    );
    assert_eq!(columns("Connector", false), ["Class", "Address", "Age"]);
    assert_eq!(columns("ConnectorClass", false), ["Age"]);
    // Other software fills the rest, if there is any.
    assert_eq!(columns("ConnectorClass", true), ["Ready", "Reason", "Age"]);
    assert!(columns("AccessRequest", true).len() > columns("AccessRequest", false).len());
}

#[test]
fn every_kind_has_a_status_of_its_own() {
    for crd in crd::all() {
        let subresources = crd.spec.versions[0].subresources.clone();
        assert!(
            subresources.unwrap().status.is_some(),
            "{}",
            crd.spec.names.kind
        );
    }
}

#[test]
fn what_nobody_declared_is_kept_at_every_level() {
    for kind in STRICT {
        schemas(
            "spec",
            &schema_of(kind)["properties"]["spec"],
            &mut |path, schema| {
                if schema["properties"].is_object() {
                    assert_eq!(
                        schema["x-kubernetes-preserve-unknown-fields"], true,
                        "{kind} {path}"
                    );
                }
            },
        );
    }
}

/// The API server drops a null of a field that is not nullable, and with it a restriction.
#[test]
fn nulls_are_kept_wherever_leaving_out_has_a_meaning() {
    for kind in STRICT {
        schemas(
            "spec",
            &schema_of(kind)["properties"]["spec"],
            &mut |path, schema| {
                let required: BTreeSet<_> = schema["required"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|name| name.as_str())
                    .collect();
                for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    let dropped = property["nullable"] != true;
                    let harmless =
                        required.contains(name.as_str()) || !property["default"].is_null();
                    assert_eq!(dropped, harmless, "{kind} {path}.{name}");
                }
            },
        );
    }
}

/// The API server estimates the cost of a CEL rule from the largest object that the schema allows.
#[test]
fn everything_under_spec_has_a_size_limit() {
    let mut unlimited = Vec::new();
    for kind in STRICT {
        schemas(
            kind,
            &schema_of(kind)["properties"]["spec"],
            &mut |path, schema| {
                let limited = match schema["type"].as_str().unwrap() {
                    "string" => schema["maxLength"].is_u64() || schema["enum"].is_array(),
                    "array" => schema["maxItems"].is_u64(),
                    "object" => {
                        schema["properties"].is_object() || schema["maxProperties"].is_u64()
                    }
                    "integer" => schema["maximum"].is_number(),
                    "boolean" => true,
                    other => panic!("{path}: {other}"),
                };
                if !limited {
                    unlimited.push(path.to_owned());
                }
            },
        );
    }
    assert_eq!(unlimited, Vec::<String>::new());
}

#[test]
fn defaults_are_in_the_schema() {
    let policy = schema_of("AccessPolicy");
    let policy = &policy["properties"]["spec"]["properties"];
    assert_eq!(policy["permission"]["default"], "apis");
    let checks = &policy["checkGrantedPermission"]["properties"]["spec"]["properties"]["checks"];
    let check = &checks["items"]["properties"];
    for (field, default) in [("match", "All"), ("latch", "Auto"), ("provenance", "Auto")] {
        assert_eq!(check[field]["default"], default, "{field}");
    }
    assert_eq!(check["approvers"]["properties"]["minimum"]["default"], 1);
    let request = schema_of("AccessRequest");
    assert_eq!(
        request["properties"]["spec"]["properties"]["permission"]["default"],
        "apis"
    );
}

/// The API server knows the rules of the types only from these files.
#[test]
fn the_definitions_are_those_that_are_installed() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/connectors-approval/files/crds");
    for crd in crd::all() {
        let file = folder.join(format!("{}.yaml", crd.spec.names.plural));
        let text = fs::read_to_string(&file).unwrap();
        let mut installed: Value = serde_yaml::from_str(&text).unwrap();
        // It is for Helm alone.
        installed["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("annotations");
        let name = file.display();
        assert!(
            json!(crd) == installed,
            "{name} differs: cargo xtask crdgen"
        );
    }
}

/// The cases on the real API server find a rule by its message.
#[test]
fn every_rule_has_a_message_and_no_two_rules_share_one() {
    let mut seen = std::collections::BTreeMap::new();
    for kind in kinds() {
        schemas(&kind, &schema_of(&kind), &mut |path, schema| {
            for rule in schema["x-kubernetes-validations"]
                .as_array()
                .into_iter()
                .flatten()
            {
                let message = rule["message"]
                    .as_str()
                    .unwrap_or_else(|| panic!("{path}: {rule}"));
                let first = seen
                    .entry(message.to_owned())
                    .or_insert_with(|| rule["rule"].clone());
                assert_eq!(*first, rule["rule"], "{path}: {message}");
            }
        });
    }
    assert!(!seen.is_empty());
}

/// The other tests insert and remove fields of these objects, so nothing may be missing from them.
#[test]
fn the_full_objects_are_full() {
    for kind in STRICT {
        let object = full(kind);
        schemas("", &schema_of(kind), &mut |path, _| {
            let forbidden = path.contains(".resourceNames") || path.contains(".nonResourceURLs");
            let depth = path
                .split('.')
                .skip(1)
                .fold(vec![&object], |values, segment| {
                    let (name, inner) = segment.split_once(['[', '{']).unwrap_or((segment, ""));
                    let fields = values.into_iter().filter_map(|value| value.get(name));
                    match inner {
                        "" => fields.collect(),
                        "]" => fields
                            .flat_map(|list| list.as_array().into_iter().flatten())
                            .collect(),
                        _ => fields
                            .flat_map(|map| map.as_object().into_iter().flatten().map(|(_, v)| v))
                            .collect(),
                    }
                });
            assert!(!depth.is_empty() || forbidden, "{kind}{path} is missing");
        });
    }
}
