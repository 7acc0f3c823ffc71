//! The caller's data as values.

use serde_json::Value as Json;

use crate::{
    error::TemplateLimit,
    meter::Meter,
    value::{Elements, Value},
};

/// Null is nothing, as in Go, where the data as a whole is no `interface {}` within another one.
pub(crate) fn value_of(meter: &Meter, data: &Json) -> Result<Value, TemplateLimit> {
    Ok(converted(meter, data, 0)?.concrete())
}

fn converted(meter: &Meter, data: &Json, depth: usize) -> Result<Value, TemplateLimit> {
    meter.depth(depth)?;
    meter.steps(1)?;
    Ok(match data {
        Json::Null => Value::Nil,
        Json::Bool(is) => Value::Bool(*is),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::Int64(whole),
            (None, Some(float)) => Value::Float(float),
            (None, None) => Value::Float(f64::NAN),
        },
        Json::String(text) => meter.text(text.clone())?,
        Json::Array(values) => {
            let values = values.iter().map(|it| converted(meter, it, depth + 1));
            meter.list(Elements::Any, values.collect::<Result<_, _>>()?)?
        }
        Json::Object(entries) => {
            let entries = entries.iter();
            let entries = entries
                .map(|(key, it)| Ok((key.as_str().into(), converted(meter, it, depth + 1)?)));
            meter.dict(false, entries.collect::<Result<_, _>>()?)?
        }
    })
}
