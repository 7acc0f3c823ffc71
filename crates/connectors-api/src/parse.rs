//! Deserialization of objects, with errors for their authors.
//!
//! It is stricter than plain deserialization where that would guess: under `spec`, an unknown field is an
//! error that suggests the likely name, and so is `null`. Every service that reads an `AccessPolicy` or an
//! `AccessRequest` from a cluster or a file uses this module.

mod node;

use std::{fmt, io};

use kube::core::object::HasSpec;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use thiserror::Error;

use node::{Node, ValueProblem};

/// The reason why an object cannot be deserialized.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {problem}")]
pub struct ParseError {
    /// The field, as in `kubectl explain`, with list positions in brackets.
    pub path: String,
    problem: ValueProblem,
}

impl ParseError {
    /// The name of the unknown field, if that is the problem.
    pub(crate) fn unknown_field(&self) -> Option<&str> {
        self.problem.unknown_field()
    }

    /// The name of the missing field, if that is the problem.
    pub(crate) fn missing_field(&self) -> Option<&'static str> {
        self.problem.missing_field()
    }

    /// The problem without the path.
    pub(crate) fn problem(&self) -> String {
        self.problem.to_string()
    }

    /// The likely field name, if the field is unknown and there is one.
    #[must_use]
    pub fn suggestion(&self) -> Option<&'static str> {
        self.problem.suggestion()
    }
}

/// A `spec` with more bytes of JSON is not parsed: every service caches all policies, and one evaluation may
/// need many of them.
pub const MOST_SPEC_BYTES: usize = 64 * 1024;

/// Refuses a `spec` that is too long to be parsed.
pub(crate) fn bounded(spec: &Value) -> Result<(), ParseError> {
    let found = json_bytes(spec);
    if found <= MOST_SPEC_BYTES {
        return Ok(());
    }
    Err(ParseError {
        path: "spec".to_owned(),
        problem: ValueProblem::TooLong(found),
    })
}

/// The size of a value as JSON.
#[must_use]
pub fn json_bytes(value: &impl Serialize) -> usize {
    struct ProblemCount(usize);
    impl io::Write for ProblemCount {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0 += text.len();
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = ProblemCount(0);
    // A value that cannot be serialized is treated as too long.
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

/// Deserializes a whole object.
pub fn object<K>(object: &Value) -> Result<K, ParseError>
where
    K: HasSpec + DeserializeOwned,
    K::Spec: DeserializeOwned,
{
    let Some(inner) = object.get("spec") else {
        let problem = ValueProblem::Invalid("required".to_owned());
        return Err(ParseError {
            path: "spec".to_owned(),
            problem,
        });
    };
    bounded(inner)?;
    spec::<K::Spec>(inner)?;
    // Tracking the path costs more than deserializing, so it is tracked only in a second attempt, after an
    // error.
    if let Ok(read) = K::deserialize(object) {
        return Ok(read);
    }
    serde_path_to_error::deserialize(object).map_err(|error| {
        let path = error.path().to_string();
        ParseError {
            path,
            problem: ValueProblem::Invalid(error.into_inner().to_string()),
        }
    })
}

/// Deserializes the `spec` of an object.
pub fn spec<S: DeserializeOwned>(spec: &Value) -> Result<S, ParseError> {
    part(spec, "spec")
}

/// Deserializes a part of a `spec`, which is at this path.
pub(crate) fn part<S: DeserializeOwned>(part: &Value, at: &str) -> Result<S, ParseError> {
    if let Ok(read) = S::deserialize(Node(part)) {
        return Ok(read);
    }
    serde_path_to_error::deserialize(Node(part)).map_err(|error| {
        let path = ProblemPath {
            at,
            within: error.path().to_string(),
            problem: error.inner(),
        }
        .to_string();
        ParseError {
            path,
            problem: error.into_inner(),
        }
    })
}

/// The location of a problem, relative to the object.
struct ProblemPath<'a> {
    at: &'a str,
    within: String,
    problem: &'a ValueProblem,
}

impl fmt::Display for ProblemPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.at)?;
        if self.within.starts_with('[') {
            f.write_str(&self.within)?;
        } else if self.within != "." {
            write!(f, ".{}", self.within)?;
        }
        // The first field of an object that may be `{}` is read ahead, so the path tracker does not see it.
        match self.problem.unknown_field() {
            Some(field) if self.within.rsplit('.').next() != Some(field) => write!(f, ".{field}"),
            Some(_) | None => Ok(()),
        }
    }
}
