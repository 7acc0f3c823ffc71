//! The content of the CRDs, for tests that go through all of it.

use std::collections::BTreeSet;

use serde_json::Value;

/// The schema of a kind.
pub(crate) fn schema_of(kind: &str) -> Value {
    let crd = connectors_api::crd::all()
        .into_iter()
        .find(|crd| crd.spec.names.kind == kind)
        .unwrap();
    serde_json::to_value(crd).unwrap()["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take()
}

/// The messages of all CEL rules. A message is a rule's identity.
pub(crate) fn cel_messages() -> BTreeSet<String> {
    let mut messages = BTreeSet::new();
    for crd in connectors_api::crd::all() {
        for_each_rule_list(&mut serde_json::to_value(crd).unwrap(), &mut |rules| {
            let of_rules = rules
                .iter()
                .map(|rule| rule["message"].as_str().unwrap().to_owned());
            messages.extend(of_rules);
        });
    }
    messages
}

/// Calls `visit` with every list of CEL rules in a CRD.
pub(crate) fn for_each_rule_list(value: &mut Value, visit: &mut impl FnMut(&mut Vec<Value>)) {
    if let Some(rules) = value
        .get_mut("x-kubernetes-validations")
        .and_then(Value::as_array_mut)
    {
        visit(rules);
    }
    let fields = value
        .as_object_mut()
        .into_iter()
        .flat_map(|fields| fields.values_mut());
    fields.for_each(|field| for_each_rule_list(field, visit));
    let items = value.as_array_mut().into_iter().flatten();
    items.for_each(|item| for_each_rule_list(item, visit));
}

/// JSON pointers of every object in `value` whose fields `schema` declares, from `pointer` down.
pub(crate) fn object_levels(value: &Value, schema: &Value, pointer: &str) -> Vec<String> {
    let mut levels = Vec::new();
    if schema["properties"].is_object() {
        levels.push(pointer.to_owned());
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        levels.extend(object_levels(
            field,
            &schema["properties"][name],
            &format!("{pointer}/{name}"),
        ));
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        levels.extend(object_levels(
            item,
            &schema["items"],
            &format!("{pointer}/{index}"),
        ));
    }
    levels
}
