//! The functions that templates call: Go's own and sprig's, in one table.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a function names the types that it takes, and treats all others alike"
)]
#![expect(
    clippy::unnecessary_wraps,
    reason = "functions of a table have one type"
)]

mod builtins;
mod compare;
mod dates;
mod dicts;
mod encoding;
mod left_out;
mod lists;
mod math;
mod merge;
mod paths;
mod regexes;
mod strings;
#[cfg(test)]
mod tests;
mod types;
mod urls;
mod words;
mod wrap;

use std::{cell::RefCell, collections::BTreeMap, sync::Arc, sync::LazyLock};

use jiff::Timestamp;

use crate::{
    error::{TemplateLimit, TemplateRenderProblem},
    meter::{Meter, MeteredOutput},
    printf,
    regular::RegexExpression,
    value::{Dict, List, Value},
};

pub(crate) use left_out::why_left_out;

/// The type of an argument, by its type in Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// `interface {}`: nothing becomes nil.
    Any,
    /// `reflect.Value`: as it is.
    Raw,
    Text,
    Int,
    Float,
    Bool,
    /// `map[string]interface {}`
    Dict,
    /// `time.Time`
    Time,
}

impl Takes {
    /// The type in Go.
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Raw => "reflect.Value",
            Self::Text => "string",
            Self::Int => "int",
            Self::Float => "float64",
            Self::Bool => "bool",
            Self::Dict => "map[string]interface {}",
            Self::Time => "time.Time",
        }
    }

    /// As the documentation names it.
    fn word(self) -> &'static str {
        match self {
            Self::Any | Self::Raw => "any",
            Self::Text => "string",
            Self::Int => "int",
            Self::Float => "float",
            Self::Bool => "bool",
            Self::Dict => "dict",
            Self::Time => "time",
        }
    }
}

type Result<T = Value> = std::result::Result<T, TemplateRenderProblem>;

/// A function.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) takes: &'static [Takes],
    /// The type of all further arguments, if there may be more.
    pub(crate) rest: Option<Takes>,
    pub(crate) how: How,
}

/// How a function is carried out.
#[derive(Debug, Clone, Copy)]
pub(crate) enum How {
    Call(fn(&Call<'_>) -> Result),
    /// `and` and `or`: the first argument that is so is the result, and later ones are not looked at.
    UntilOneIs(bool),
}

/// A function as its documentation names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionSummary {
    /// The topic, one word or two.
    pub topic: &'static str,
    /// The name.
    pub name: &'static str,
    /// The name and the argument types, in order.
    pub usage: String,
}

/// A topic and its functions.
type FunctionTopic = (&'static str, &'static [Function]);

const TOPICS: [FunctionTopic; 14] = [
    ("logic and comparison", compare::FUNCTIONS),
    ("text", builtins::FUNCTIONS),
    ("strings", strings::FUNCTIONS),
    ("words", words::FUNCTIONS),
    ("lists", lists::FUNCTIONS),
    ("dictionaries", dicts::FUNCTIONS),
    ("types and defaults", types::FUNCTIONS),
    ("numbers", math::FUNCTIONS),
    ("encoding and hashes", encoding::FUNCTIONS),
    ("regular expressions", regexes::FUNCTIONS),
    ("addresses and paths", urls::FUNCTIONS),
    ("addresses and paths", paths::FUNCTIONS),
    ("dictionaries", merge::FUNCTIONS),
    ("times", dates::FUNCTIONS),
];

static TABLE: LazyLock<BTreeMap<&'static str, &'static Function>> = LazyLock::new(|| {
    let all = TOPICS.iter().flat_map(|(_, functions)| *functions);
    all.map(|it| (it.name, it)).collect()
});

pub(crate) fn find(name: &str) -> Option<&'static Function> {
    TABLE.get(name).copied()
}

/// All functions by topic and name.
#[must_use]
pub fn functions() -> Vec<FunctionSummary> {
    let mut all: Vec<_> = TOPICS
        .iter()
        .flat_map(|(topic, functions)| functions.iter().map(|it| summary(topic, it)))
        .collect();
    all.sort_by_key(|it| (it.topic, it.name));
    all
}

/// The functions that Go or sprig has and this crate leaves out, each with the reason.
#[must_use]
pub fn functions_left_out() -> Vec<(&'static str, &'static str)> {
    left_out::all()
}

fn summary(topic: &'static str, function: &Function) -> FunctionSummary {
    let takes = function.takes.iter().map(|it| it.word().to_owned());
    let rest = function.rest.map(|it| format!("{}…", it.word()));
    let words: Vec<String> = takes.chain(rest).collect();
    FunctionSummary {
        topic,
        name: function.name,
        usage: format!("{} {}", function.name, words.join(" "))
            .trim()
            .to_owned(),
    }
}

const fn function(
    name: &'static str,
    takes: &'static [Takes],
    call: fn(&Call<'_>) -> Result,
) -> Function {
    Function {
        name,
        takes,
        rest: None,
        how: How::Call(call),
    }
}

const fn variadic(
    name: &'static str,
    takes: &'static [Takes],
    rest: Takes,
    call: fn(&Call<'_>) -> Result,
) -> Function {
    Function {
        name,
        takes,
        rest: Some(rest),
        how: How::Call(call),
    }
}

/// Regular expressions that a rendering has compiled.
pub(crate) type Expressions = RefCell<BTreeMap<String, Arc<RegexExpression>>>;

/// A call of a function. The arguments have the types that the function takes.
pub(crate) struct Call<'r> {
    pub(crate) function: &'static str,
    pub(crate) meter: &'r Meter,
    pub(crate) now: Timestamp,
    pub(crate) expressions: &'r Expressions,
    pub(crate) values: Vec<Value>,
}

impl Call<'_> {
    fn value(&self, index: usize) -> Value {
        self.values.get(index).cloned().unwrap_or(Value::Nil)
    }

    fn rest(&self, from: usize) -> &[Value] {
        self.values.get(from..).unwrap_or_default()
    }

    fn text(&self, index: usize) -> Arc<str> {
        match self.values.get(index) {
            Some(Value::Text(text)) => Arc::clone(text),
            _ => Arc::from(""),
        }
    }

    fn int(&self, index: usize) -> i64 {
        match self.values.get(index) {
            Some(Value::Int(number)) => *number,
            _ => 0,
        }
    }

    fn float(&self, index: usize) -> Option<f64> {
        match self.values.get(index) {
            Some(Value::Float(number)) => Some(*number),
            _ => None,
        }
    }

    fn bool(&self, index: usize) -> bool {
        matches!(self.values.get(index), Some(Value::Bool(true)))
    }

    fn time(&self, index: usize) -> Timestamp {
        match self.values.get(index) {
            Some(Value::Time(time)) => *time,
            _ => self.now,
        }
    }

    /// None when it is nil, which Go takes for an empty dictionary that cannot change.
    fn dict(&self, index: usize) -> Option<Dict> {
        match self.values.get(index) {
            Some(Value::Dict(dict)) => Some(dict.clone()),
            _ => None,
        }
    }

    /// A list of any elements, where the type is any.
    fn list(&self, index: usize) -> Result<List> {
        match self.value(index) {
            Value::List(list) => {
                self.meter
                    .steps(u64::try_from(list.length).unwrap_or(u64::MAX))?;
                Ok(list)
            }
            other => Err(self.failed(format!("{} is no list", other.kind()))),
        }
    }

    /// The error that Go's function returns or panics with.
    fn failed(&self, message: impl Into<String>) -> TemplateRenderProblem {
        TemplateRenderProblem::Call {
            function: self.function,
            message: message.into(),
        }
    }

    fn make(&self, text: impl Into<String>) -> Result {
        Ok(self.meter.text(text.into())?)
    }

    /// The output of a limited writer, as a text.
    fn write(
        &self,
        write: impl FnOnce(&mut MeteredOutput<'_>) -> std::result::Result<(), TemplateRenderProblem>,
    ) -> Result {
        let mut sink = MeteredOutput::value(self.meter);
        write(&mut sink)?;
        Ok(sink.finish()?)
    }

    /// As sprig makes a text of any value.
    fn string_of(&self, value: &Value) -> Result<Arc<str>> {
        match value {
            Value::Text(text) => Ok(Arc::clone(text)),
            other => Ok(Arc::from(printf::text_of(self.meter, other)?)),
        }
    }

    /// Counts work on that many bytes.
    fn work(&self, bytes: usize) -> std::result::Result<(), TemplateLimit> {
        self.meter.work(bytes)
    }
}
