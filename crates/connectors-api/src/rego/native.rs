//! Programs of modules that consist of paths, constants, comparisons and `else`.
//!
//! A program is data: a worker makes it from the parsed module, and the service evaluates it without a worker. It has
//! no loop, no call and no recursion, and its size is bounded. Where it cannot be certain of the engine's answer it
//! gives none, and a worker evaluates the module: for numbers other than integers, for comparisons of arrays and
//! objects, and for rules that contradict each other.
//!
//! Invariant: an answer of a program is the answer of [`CheckModule`](super::CheckModule) for the same object.

mod compile;
mod seen;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use super::answer::{ModuleOutput, ModuleOutputError};
pub(super) use compile::compile;
use seen::SeenValue;

/// The most parts of a program: rules, bodies, steps, values and fields of paths. An evaluation looks at each at most
/// once.
const MOST_PARTS: usize = 256;
/// The memory of a text beside its bytes, in the allocator.
const ALLOCATED: usize = 32;
/// The most bytes of all texts of a program.
const MOST_BYTES: usize = 4096;
/// The integers whose value no representation changes.
const LARGEST_WHOLE: i64 = 1 << 53;
/// The most levels of a value that a worker surely reads. A caller's object may have more of them.
const MOST_LEVELS: usize = 100;
/// The engine reads an object with this field as a number.
const NUMBER_FIELD: &str = "$serde_json::private::Number";

/// A module as a program. It keeps its bounds, also when it was received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "NativeRules")]
pub struct NativeProgram(NativeRules);

/// All that a module says about its output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NativeRules {
    /// The bodies of each rule. The first one that holds gives the rule's output.
    rules: Vec<Vec<NativeBody>>,
    /// The output where no rule gives one.
    default: Option<NativeOutput>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NativeBody {
    /// All of them must hold.
    steps: Vec<NativeStep>,
    output: NativeOutput,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum NativeStep {
    /// The value exists.
    Defined(NativeTerm),
    /// The value exists and is not false.
    Holds(NativeTerm),
    /// Both values exist and are the same.
    Equal(NativeTerm, NativeTerm),
    /// Both values exist and differ.
    Unequal(NativeTerm, NativeTerm),
}

/// An output with these fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NativeOutput {
    state: Option<NativeTerm>,
    message: Option<NativeTerm>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum NativeTerm {
    Null,
    Truth(bool),
    Whole(i64),
    Text(String),
    /// The fields from the object to the value.
    Path(Vec<String>),
}

/// The reason why a received program is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
enum NativeError {
    #[error("a program has at most {MOST_PARTS} parts")]
    Parts,
    #[error("a program has at most {MOST_BYTES} bytes of text")]
    Bytes,
    #[error("a path has a field")]
    Path,
    #[error("an integer of a program is at most {LARGEST_WHOLE}")]
    Whole,
}

/// A program is not certain of the engine's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Uncertain;

/// An output of a rule: its fields as they were seen.
#[derive(Clone, Copy, Debug, PartialEq)]
struct SeenOutput<'a> {
    state: Option<SeenValue<'a>>,
    message: Option<SeenValue<'a>>,
}

impl TryFrom<NativeRules> for NativeProgram {
    type Error = NativeError;

    fn try_from(rules: NativeRules) -> Result<Self, NativeError> {
        let (mut parts, mut bytes) = (rules.rules.len(), 0);
        for body in rules.rules.iter().flatten() {
            parts += 1 + body.steps.len();
        }
        for term in rules.terms() {
            parts += 1;
            match term {
                NativeTerm::Null | NativeTerm::Truth(_) => {}
                NativeTerm::Whole(number) if number.abs_diff(0) <= LARGEST_WHOLE.unsigned_abs() => {
                }
                NativeTerm::Whole(_) => return Err(NativeError::Whole),
                NativeTerm::Text(text) => bytes += text.len(),
                NativeTerm::Path(fields) if fields.is_empty() => return Err(NativeError::Path),
                NativeTerm::Path(fields) => {
                    parts += fields.len();
                    bytes += fields.iter().map(String::len).sum::<usize>();
                }
            }
        }
        if parts > MOST_PARTS {
            return Err(NativeError::Parts);
        }
        if bytes > MOST_BYTES {
            return Err(NativeError::Bytes);
        }
        Ok(Self(rules))
    }
}

impl NativeRules {
    fn terms(&self) -> impl Iterator<Item = &NativeTerm> {
        let bodies = self.rules.iter().flatten();
        let steps = bodies.clone().flat_map(|body| &body.steps);
        let outputs = bodies.map(|body| &body.output).chain(&self.default);
        let outputs = outputs.flat_map(|output| output.state.iter().chain(&output.message));
        steps.flat_map(NativeStep::terms).chain(outputs)
    }
}

impl NativeProgram {
    /// The longest program as JSON. A module with a longer one has none.
    pub const LONGEST: usize = 8 * 1024;

    /// The program's answer about an object. None if only the engine can tell.
    #[must_use]
    pub fn run(&self, object: &Value) -> Option<Result<ModuleOutput, ModuleOutputError>> {
        self.evaluate(object).ok()
    }

    /// The paths of all fields that the program looks at.
    pub fn paths(&self) -> impl Iterator<Item = &[String]> {
        self.0.terms().filter_map(|term| match term {
            NativeTerm::Path(fields) => Some(fields.as_slice()),
            NativeTerm::Null
            | NativeTerm::Truth(_)
            | NativeTerm::Whole(_)
            | NativeTerm::Text(_) => None,
        })
    }

    /// The approximate memory of the program.
    #[must_use]
    pub fn weight(&self) -> usize {
        let of_term = |term: &NativeTerm| match term {
            NativeTerm::Text(text) => text.len() + ALLOCATED,
            NativeTerm::Path(fields) => {
                let of_field = |it: &String| it.len() + size_of::<String>() + ALLOCATED;
                fields.iter().map(of_field).sum()
            }
            NativeTerm::Null | NativeTerm::Truth(_) | NativeTerm::Whole(_) => 0,
        };
        let of_body = |body: &NativeBody| {
            size_of::<NativeBody>() + body.steps.len() * size_of::<NativeStep>()
        };
        let Self(rules) = self;
        let bodies = rules.rules.iter().flatten().map(of_body).sum::<usize>();
        let terms = rules.terms().map(of_term).sum::<usize>();
        size_of::<Self>() + rules.rules.len() * size_of::<Vec<NativeBody>>() + bodies + terms
    }

    fn evaluate(
        &self,
        object: &Value,
    ) -> Result<Result<ModuleOutput, ModuleOutputError>, Uncertain> {
        let Self(NativeRules { rules, default }) = self;
        self.check_object(object)?;
        let mut found = None;
        for bodies in rules {
            // The engine evaluates every rule, and all outputs must be the same.
            let Some(output) = first(bodies, object)? else {
                continue;
            };
            match found {
                None => found = Some(output),
                Some(before) if output.is_surely(before) => {}
                Some(_) => return Err(Uncertain),
            }
        }
        if found.is_none()
            && let Some(default) = default
        {
            found = default.see(object);
        }
        Ok(found.map_or(Err(ModuleOutputError::Undefined), SeenOutput::read))
    }

    /// The engine reads the fields that the module names, whole.
    fn check_object(&self, object: &Value) -> Result<(), Uncertain> {
        let fields = object.as_object().ok_or(Uncertain)?;
        let paths = self.0.terms().filter_map(NativeTerm::first_field);
        let is_odd = |name: &str| fields.get(name).is_some_and(|it| is_odd(it, MOST_LEVELS));
        // Each field once, however often it is named.
        let names: BTreeSet<&str> = paths.collect();
        if names.into_iter().any(is_odd) {
            return Err(Uncertain);
        }
        Ok(())
    }
}

/// The output of the first body that holds and has one.
fn first<'a>(
    bodies: &'a [NativeBody],
    object: &'a Value,
) -> Result<Option<SeenOutput<'a>>, Uncertain> {
    for NativeBody { steps, output } in bodies {
        let mut holds = true;
        for step in steps {
            // All of them, so that the order does not decide whether the answer is certain.
            holds &= step.holds(object)?;
        }
        if holds && let Some(output) = output.see(object) {
            return Ok(Some(output));
        }
    }
    Ok(None)
}

/// Whether a worker may fail to read the value, or read another one: it has more levels, or any object in it has the field
/// that the engine reads in a way of its own.
fn is_odd(value: &Value, levels: usize) -> bool {
    let is_odd = |inner: &Value| levels.checked_sub(1).is_none_or(|left| is_odd(inner, left));
    match value {
        Value::Object(fields) => fields.contains_key(NUMBER_FIELD) || fields.values().any(is_odd),
        Value::Array(items) => items.iter().any(is_odd),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

impl NativeStep {
    fn terms(&self) -> impl Iterator<Item = &NativeTerm> {
        let (first, second) = match self {
            Self::Defined(term) | Self::Holds(term) => (term, None),
            Self::Equal(left, right) | Self::Unequal(left, right) => (left, Some(right)),
        };
        [first].into_iter().chain(second)
    }

    /// Whether the step holds. A missing value makes no step hold.
    fn holds(&self, object: &Value) -> Result<bool, Uncertain> {
        match self {
            Self::Defined(term) => Ok(term.see(object).is_some()),
            Self::Holds(term) => {
                let seen = term.see(object);
                Ok(seen.is_some_and(|it| it != SeenValue::Truth(false)))
            }
            Self::Equal(left, right) => same(left, right, object).map(|it| it == Some(true)),
            Self::Unequal(left, right) => same(left, right, object).map(|it| it == Some(false)),
        }
    }
}

/// Whether two values are the same. None if one of them is missing.
fn same(left: &NativeTerm, right: &NativeTerm, object: &Value) -> Result<Option<bool>, Uncertain> {
    let Some((left, right)) = left.see(object).zip(right.see(object)) else {
        return Ok(None);
    };
    left.same(right).map(Some)
}

impl NativeTerm {
    /// The value, unless it is missing.
    fn see<'a>(&'a self, object: &'a Value) -> Option<SeenValue<'a>> {
        match self {
            Self::Null => Some(SeenValue::Null),
            Self::Truth(truth) => Some(SeenValue::Truth(*truth)),
            Self::Whole(number) => Some(SeenValue::Whole((*number).into())),
            Self::Text(text) => Some(SeenValue::Text(text)),
            Self::Path(fields) => {
                // Only objects have fields. An array has no field of any name.
                let step = |value: &'a Value, field| value.as_object()?.get::<String>(field);
                let value = fields.iter().try_fold(object, step)?;
                Some(SeenValue::from(value))
            }
        }
    }

    /// The field of the object that a path begins with.
    fn first_field(&self) -> Option<&str> {
        match self {
            Self::Path(fields) => fields.first().map(String::as_str),
            Self::Null | Self::Truth(_) | Self::Whole(_) | Self::Text(_) => None,
        }
    }
}

impl NativeOutput {
    /// The output, unless one of its values is missing.
    fn see<'a>(&'a self, object: &'a Value) -> Option<SeenOutput<'a>> {
        let Self { state, message } = self;
        let see = |term: &'a Option<NativeTerm>| match term {
            None => Some(None),
            Some(term) => term.see(object).map(Some),
        };
        Some(SeenOutput {
            state: see(state)?,
            message: see(message)?,
        })
    }
}

impl<'a> SeenOutput<'a> {
    /// Whether both outputs are surely the same.
    fn is_surely(self, other: Self) -> bool {
        let same = |one: Option<SeenValue<'_>>, other: Option<SeenValue<'_>>| match (one, other) {
            (None, None) => true,
            (Some(one), Some(other)) => one.same(other) == Ok(true),
            (None, Some(_)) | (Some(_), None) => false,
        };
        same(self.state, other.state) && same(self.message, other.message)
    }

    /// The answer, by the rules for the engine's output.
    fn read(self) -> Result<ModuleOutput, ModuleOutputError> {
        let Self { state, message } = self;
        let text = |field: Option<SeenValue<'a>>, error| match field {
            None | Some(SeenValue::Null) => Ok(None),
            Some(SeenValue::Text(text)) => Ok(Some(text)),
            Some(_) => Err(error),
        };
        // In the order in which the engine lists fields.
        let message = text(message, ModuleOutputError::Message)?;
        let state = text(state, ModuleOutputError::State)?;
        ModuleOutput::of(state, message)
    }
}

#[cfg(test)]
mod tests;
