//! `fields.md`: the fields of the kinds, the attributes of volumes, and the keys of labels and annotations.

use connectors_api::pod_wish::ATTRIBUTES;
use serde_json::{Map, Value};

use super::{
    Table, all_described,
    cells::{code, codes, prose},
    hold, keys, page,
};

pub(super) const PAGE: &str = "fields.md";

const INTRO: &str = "This page is for authors of objects: every field of the four kinds, every attribute of a volume, and every label and
annotation. [connectors.md](../connectors.md) and [policies.md](../policies.md) say how they work together. Begin there.

A path names a field from the root of the object. `[]` stands for each entry of a list, and `*` for each key of a map. A
field that is not required may be absent. The API server refuses an object that breaks a limit or a rule of this page. The
webhook refuses more ([policies.md](../policies.md#what-is-refused)).";

/// A field of a kind.
struct Field<'a> {
    path: String,
    is_required: bool,
    schema: &'a Value,
}

/// A kind.
struct CrdFields {
    kind: String,
    facts: String,
    schema: Value,
}

fn kinds() -> Vec<CrdFields> {
    let kinds = connectors_api::crd::all().into_iter().map(|crd| {
        let crd = serde_json::to_value(crd).unwrap();
        let (spec, names) = (&crd["spec"], &crd["spec"]["names"]);
        let versions = spec["versions"].as_array().unwrap();
        assert_eq!(
            versions.len(),
            1,
            "a page of more versions has to say which"
        );
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let schema = versions[0]["schema"]["openAPIV3Schema"].clone();
        let short = names["shortNames"].as_array().cloned().unwrap_or_default();
        let short = codes(short.iter().map(text));
        let scope = match text(&spec["scope"]).as_str() {
            "Namespaced" => "in a namespace",
            _ => "of the whole cluster",
        };
        let facts = format!(
            "{}\n\n`apiVersion: {}/{}`. Objects are {scope}. `kubectl` names: `{}`{}{short}.",
            prose(schema["description"].as_str().unwrap()),
            text(&spec["group"]),
            text(&versions[0]["name"]),
            text(&names["plural"]),
            if short.is_empty() { "" } else { ", " },
        );
        CrdFields {
            kind: text(&names["kind"]),
            facts,
            schema,
        }
    });
    kinds.collect()
}

/// Every field below a schema.
fn fields<'a>(at: &str, schema: &'a Value, found: &mut Vec<Field<'a>>) {
    let required = schema["required"].as_array();
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{at}{}{name}", if at.is_empty() { "" } else { "." });
        let is_required = required.is_some_and(|it| it.iter().any(|it| it == name));
        found.push(Field {
            path: path.clone(),
            is_required,
            schema: child,
        });
        fields(&path, child, found);
    }
    if schema["items"].is_object() {
        fields(&format!("{at}[]"), &schema["items"], found);
    }
    if schema["additionalProperties"].is_object() {
        fields(&format!("{at}.*"), &schema["additionalProperties"], found);
    }
}

/// The rules of a schema, each with the path of its object.
fn rules<'a>(at: &str, schema: &'a Value, found: &mut Vec<(String, &'a Value)>) {
    let written = schema["x-kubernetes-validations"].as_array();
    found.extend(written.into_iter().flatten().map(|it| (at.to_owned(), it)));
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        rules(
            &format!("{at}{}{name}", if at.is_empty() { "" } else { "." }),
            child,
            found,
        );
    }
    if schema["items"].is_object() {
        rules(&format!("{at}[]"), &schema["items"], found);
    }
    if schema["additionalProperties"].is_object() {
        rules(&format!("{at}.*"), &schema["additionalProperties"], found);
    }
}

pub(super) fn type_of(schema: &Value) -> String {
    match schema["type"].as_str() {
        Some("array") => format!("list of {}", type_of(&schema["items"])),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("map to {}", type_of(&schema["additionalProperties"]))
        }
        Some("object") if schema["properties"].is_null() => "object of any form".to_owned(),
        Some("string") if schema["format"] == "date-time" => "time".to_owned(),
        Some(other) => other.to_owned(),
        None if schema["enum"].is_array() => "word".to_owned(),
        None => "any value".to_owned(),
    }
}

/// The limits of a value, and then those of each entry of it.
pub(super) fn limits(schema: &Value) -> String {
    let mut limits = Vec::new();
    let words = schema["enum"].as_array();
    let text = |it: &Value| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
    limits.extend(words.map(|it| codes(it.iter().map(text))));
    for (least, most, unit) in [
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", " entries"),
        ("minProperties", "maxProperties", " keys"),
        ("minimum", "maximum", ""),
    ] {
        let number = |key: &str| schema[key].as_f64().map(|it| it.to_string());
        let unit_of = |count: &str| match unit {
            " entries" if count == "1" => " entry",
            unit if count == "1" => unit.trim_end_matches('s'),
            unit => unit,
        };
        limits.extend(match (number(least), number(most)) {
            (Some(least), Some(most)) => Some(format!("{least} to {most}{}", unit_of(&most))),
            (Some(least), None) => Some(format!("at least {least}{}", unit_of(&least))),
            (None, Some(most)) => Some(format!("at most {most}{}", unit_of(&most))),
            (None, None) => None,
        });
    }
    limits.extend(schema["pattern"].as_str().map(code));
    for each in ["items", "additionalProperties"] {
        let inner = if schema[each].is_object() {
            self::limits(&schema[each])
        } else {
            String::new()
        };
        if !inner.is_empty() {
            limits.push(format!("each: {inner}"));
        }
    }
    limits.join("; ")
}

fn table_of(kind: &CrdFields) -> Table {
    let mut found = Vec::new();
    fields("", &kind.schema, &mut found);
    let about = |field: &Field<'_>| {
        field.schema["description"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let described: Vec<_> = found
        .iter()
        .map(|it| (it.path.clone(), about(it)))
        .collect();
    all_described(
        described
            .iter()
            .map(|(path, about)| (path.as_str(), about.as_str())),
    );
    let mut table = Table::new(&["field", "type", "", "limits", "meaning"]);
    for field in &found {
        let default = &field.schema["default"];
        let needed = if !default.is_null() {
            format!("default {}", code(&default.to_string()))
        } else if field.is_required {
            "required".to_owned()
        } else {
            String::new()
        };
        table.row(&[
            code(&field.path),
            type_of(field.schema),
            needed,
            limits(field.schema),
            prose(&about(field)),
        ]);
    }
    table
}

fn rules_of(kind: &CrdFields) -> Table {
    let mut found = Vec::new();
    rules("", &kind.schema, &mut found);
    let mut table = Table::new(&["at", "the API server answers"]);
    for (at, rule) in found {
        let message = rule["message"]
            .as_str()
            .or(rule["messageExpression"].as_str());
        assert!(message.is_some(), "{at}: a rule without a message");
        let message = message.unwrap_or_default();
        table.row(&[code(&at), prose(message)]);
    }
    table
}

/// A default that is one word is a value. Others are sentences.
fn told_default(default: &str) -> String {
    if default.contains(' ') {
        prose(default)
    } else {
        code(default)
    }
}

fn attributes() -> Table {
    all_described(ATTRIBUTES.iter().map(|it| (it.name, it.about)));
    all_described(ATTRIBUTES.iter().map(|it| (it.name, it.values)));
    let mut table = Table::new(&["attribute", "values", "default", "meaning"]);
    for attribute in ATTRIBUTES {
        table.row(&[
            code(attribute.name),
            prose(attribute.values),
            told_default(attribute.default),
            prose(attribute.about),
        ]);
    }
    table
}

#[test]
fn the_page_of_fields_is_that_of_the_code() {
    let mut text = page("Fields", INTRO);
    for kind in kinds() {
        let heading = format!("## {}", kind.kind);
        text += &table_of(&kind).below(&heading, &kind.facts);
        let rules = rules_of(&kind);
        if rules.rows > 0 {
            let heading = format!("### Rules of {}", kind.kind);
            text += &rules.below(&heading, "");
        }
    }
    text += &attributes().below(
        "## Volume attributes",
        "A pod writes them under `volumeAttributes` of a volume of the driver `connectors-csi`. Any other attribute is refused.\n\
         [policies.md](../policies.md#in-the-pod) has an example.",
    );
    text += &keys::table().below(
        "## Labels and annotations",
        "These keys are the product's own, beside `app.kubernetes.io/managed-by`.",
    );
    hold(PAGE, &text);
}

/// Counts without knowledge of the paths.
fn count(schema: &Value, key: &str, of: fn(&Value) -> usize) -> usize {
    let own = of(&schema[key]);
    let children = schema["properties"].as_object().into_iter().flatten();
    let children = children.map(|(_, child)| child);
    let inner = [&schema["items"], &schema["additionalProperties"]];
    let inner = inner.into_iter().filter(|it| it.is_object());
    own + children
        .chain(inner)
        .map(|it| count(it, key, of))
        .sum::<usize>()
}

#[test]
fn every_field_and_rule_of_a_kind_has_its_row() {
    let kinds = kinds();
    let files = std::fs::read_dir(e2e::install::crds()).unwrap();
    assert_eq!(kinds.len(), files.count());
    for kind in kinds {
        let fields = count(&kind.schema, "properties", |it| {
            it.as_object().map_or(0, Map::len)
        });
        assert!(fields > 3, "{}", kind.kind);
        assert_eq!(table_of(&kind).rows, fields, "{}", kind.kind);
        let text = serde_json::to_string(&kind.schema).unwrap();
        assert_eq!(
            rules_of(&kind).rows,
            text.matches("\"rule\":").count(),
            "{}",
            kind.kind
        );
    }
}

/// A keyword of a schema that the page does not show would be a limit that readers do not see.
#[test]
fn every_keyword_of_the_schemas_is_shown_or_is_no_limit() {
    const SHOWN: [&str; 16] = [
        "type",
        "format",
        "description",
        "default",
        "enum",
        "pattern",
        "required",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "minimum",
        "maximum",
        "x-kubernetes-validations",
    ];
    const NO_LIMIT: [&str; 8] = [
        "title",
        "nullable",
        "properties",
        "items",
        "additionalProperties",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-preserve-unknown-fields",
    ];
    fn unknown(schema: &Value, found: &mut Vec<String>) {
        for (key, value) in schema.as_object().into_iter().flatten() {
            if ![&SHOWN[..], &NO_LIMIT].concat().contains(&key.as_str()) {
                found.push(key.clone());
            }
            match key.as_str() {
                "properties" => value
                    .as_object()
                    .into_iter()
                    .flatten()
                    .for_each(|(_, it)| unknown(it, found)),
                "items" | "additionalProperties" => unknown(value, found),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    for kind in kinds() {
        unknown(&kind.schema, &mut found);
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn limits_are_told_with_those_of_each_entry() {
    let schema = serde_json::json!({
        "type": "array", "maxItems": 3,
        "items": {"type": "string", "enum": ["A", "B"], "minLength": 1, "maxLength": 5, "pattern": "^(A|B)$"},
    });
    assert_eq!(type_of(&schema), "list of string");
    assert_eq!(
        limits(&schema),
        "at most 3 entries; each: `A`, `B`; 1 to 5 characters; `^(A\\|B)$`"
    );
    assert_eq!(limits(&serde_json::json!({"type": "string"})), "");
}
