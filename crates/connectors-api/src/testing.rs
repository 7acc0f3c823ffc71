//! Strategies that property tests of several modules share.

use proptest::prelude::*;
use serde_json::{Map, Value};

/// Any JSON value of moderate size. Its keys include the field names that evaluators read.
pub(crate) fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        "(approved|passed|pending|rejected|ns|x)".prop_map(Value::from),
    ];
    let key = prop_oneof![
        "(object|metadata|name|namespace|labels|status|state|spec|items|a|b|tekton\\.dev/x)",
        "\\PC{0,6}",
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|fields| Value::from(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Names that nearly equal this one: longer, shorter, other case, with a prefix.
pub(crate) fn nearly(name: &str) -> Vec<String> {
    let shorter = |it: usize| name.get(..it).unwrap_or_default().to_owned();
    let first = name.get(..1).unwrap_or_default().to_uppercase();
    let rest = name.get(1..).unwrap_or_default();
    let mut all = vec![
        format!("{name}-1"),
        format!("{name}."),
        format!("a-{name}"),
        format!("{first}{rest}"),
        name.to_uppercase(),
        rest.to_owned(),
        String::new(),
    ];
    all.extend((1..name.len()).map(shorter));
    all
}
