//! Checks that a Rego module decides: `package approval` with `output = {"state": …, "message": …}`, where
//! `input` is the check object and `data.context` the context object.
//!
//! **Only for processes that may be killed.** Parsing can take time exponential in the length of a module
//! (nested brackets do) and recurses equally deep, builtins are not interrupted, and memory is not bounded.
//! The time limit here works between statements of an evaluation and is a courtesy. Modules of untrusted
//! authors must be parsed in a worker process with its own limits.
//!
//! A module sees nothing but the two objects, and calls only deterministic functions: no clock, no random
//! numbers, no network. Its print output is dropped because it could contain a secret. Only an answer in the
//! exact form counts; everything else is an error, and no error passes.

mod answer;
mod functions;
mod native;
mod reads;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use regorus::utils::limits::ExecutionTimerConfig;
use regorus::{Engine, LimitError, Value};
use serde::Deserialize;
use thiserror::Error;

pub use answer::{ModuleOutput, ModuleOutputError};
pub use native::NativeProgram;
use reads::Reads;

/// The longest module that a policy can hold.
const LONGEST_MODULE: usize = 16 * 1024;

/// The limit for the engine's own text in an error.
const LONGEST_DETAIL: usize = 512;

/// Evaluation steps between two time checks.
const CHECK_INTERVAL: NonZeroU32 = NonZeroU32::new(64).unwrap();

const FILE: &str = "check.rego";
const PACKAGE: &str = "approval";
const OUTPUT: &str = "data.approval.output";

/// A module that is ready to be evaluated.
#[derive(Clone, Debug)]
pub struct CheckModule {
    /// The engine without any data. Adding data makes it compile the module again, so that is skipped if the
    /// module does not read the context.
    engine: Engine,
    input: Reads,
    sees_context: bool,
    program: Option<NativeProgram>,
}

/// The reason why a text is not a module that could decide a check.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModuleError {
    /// There is no text.
    #[error("rego: empty")]
    Empty,
    /// Longer than any policy can hold.
    #[error("rego: longer than {LONGEST_MODULE} bytes")]
    TooLong,
    /// Valid in neither version of the language.
    #[error("rego: neither version 1 ({v1}) nor version 0 ({v0}) of the language")]
    Syntax {
        /// The error in version 1.
        v1: String,
        /// The error in version 0.
        v0: String,
    },
    /// Its output would never be read.
    #[error("rego: package must be `approval`, not `{0}`")]
    Package(String),
    /// It defines no output.
    #[error("rego: the rule `output` is missing")]
    NoOutput,
    /// A function that is not available here.
    #[error("rego: the function `{0}` is not available")]
    Function(String),
    /// Accepted by the parser but refused by the compiler, or by an evaluation of empty objects.
    #[error("rego: {0}")]
    Evaluation(#[from] EvaluationError),
}

/// The reason why a module gives no answer for an object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EvaluationError {
    /// It took too long.
    #[error("took longer than allowed")]
    Timeout,
    /// The engine stopped. Its message can quote the objects, so readers in other namespaces must not see it.
    #[error("{0}")]
    Engine(String),
    /// The object or the context cannot be converted to values of the language.
    #[error("the object cannot be read: {0}")]
    Object(String),
    /// The output is not an answer.
    #[error(transparent)]
    Answer(#[from] ModuleOutputError),
}

impl CheckModule {
    /// Parses a module, in version 1 of the language if possible, otherwise in version 0. Evaluates it once
    /// on empty objects, because some errors appear only then. Each evaluation may take `limit`.
    pub fn parse(source: &str, limit: Duration) -> Result<Self, ModuleError> {
        if source.trim().is_empty() {
            return Err(ModuleError::Empty);
        }
        if source.len() > LONGEST_MODULE {
            return Err(ModuleError::TooLong);
        }
        let engine = load(source, limit)?;
        check_package(&engine)?;
        let tree = tree(&engine)?;
        functions::check(&tree)?;
        let mut module = Self {
            engine,
            input: Reads::of(&tree, "input"),
            sees_context: Reads::of(&tree, "data").reaches("context"),
            program: native::compile(&tree),
        };
        module.evaluate_once()?;
        Ok(module)
    }

    /// True when the module reads the object that it is asked about.
    #[must_use]
    pub fn reads_object(&self) -> bool {
        self.input.is_something()
    }

    /// The module as a program, if it needs nothing else.
    #[must_use]
    pub const fn program(&self) -> Option<&NativeProgram> {
        self.program.as_ref()
    }

    /// Evaluates the module for an object. Deterministic.
    pub fn evaluate(
        &self,
        object: &serde_json::Value,
        context: &serde_json::Value,
    ) -> Result<ModuleOutput, EvaluationError> {
        self.ask(|| self.input.take(object), || Value::deserialize(context))
    }

    /// The same for unparsed objects. Of the first one, only the fields that the module reads are parsed.
    pub fn evaluate_json(
        &self,
        object: &str,
        context: &str,
    ) -> Result<ModuleOutput, EvaluationError> {
        self.ask(
            || self.input.parse(object),
            || serde_json::from_str(context),
        )
    }

    fn ask(
        &self,
        object: impl FnOnce() -> serde_json::Result<Value>,
        context: impl FnOnce() -> serde_json::Result<Value>,
    ) -> Result<ModuleOutput, EvaluationError> {
        let mut engine = self.engine.clone();
        engine.set_input(object().map_err(|error| unreadable(&error))?);
        if self.sees_context {
            add_context(&mut engine, context().map_err(|error| unreadable(&error))?)?;
        }
        let output = engine.eval_rule(OUTPUT.to_owned()).map_err(engine_error)?;
        Ok(ModuleOutput::read(&output)?)
    }

    /// Evaluates empty objects. If no data is added, later evaluations reuse the compiled module.
    fn evaluate_once(&mut self) -> Result<(), EvaluationError> {
        let mut with_context;
        let engine = if self.sees_context {
            with_context = self.engine.clone();
            add_context(&mut with_context, Value::new_object())?;
            &mut with_context
        } else {
            &mut self.engine
        };
        engine.set_input(Value::new_object());
        engine.eval_rule(OUTPUT.to_owned()).map_err(engine_error)?;
        Ok(())
    }
}

fn check_package(engine: &Engine) -> Result<(), ModuleError> {
    let packages = engine.get_policy_package_components();
    for package in packages.map_err(engine_error)? {
        if package.components != [PACKAGE] {
            return Err(ModuleError::Package(package.components.join(".")));
        }
    }
    match engine.has_declared_rule_rooted_at(FILE, "output") {
        Ok(true) => Ok(()),
        Ok(false) => Err(ModuleError::NoOutput),
        Err(error) => Err(engine_error(error).into()),
    }
}

/// The syntax tree of the module, as the engine exports it to tools.
fn tree(engine: &Engine) -> Result<serde_json::Value, EvaluationError> {
    let json = engine.get_ast_as_json().map_err(engine_error)?;
    serde_json::from_str(&json).map_err(|error| EvaluationError::Engine(error.to_string()))
}

fn add_context(engine: &mut Engine, context: Value) -> Result<(), EvaluationError> {
    let data = BTreeMap::from([(Value::from("context"), context)]);
    engine.add_data(Value::from(data)).map_err(engine_error)
}

fn unreadable(error: &serde_json::Error) -> EvaluationError {
    EvaluationError::Object(error.to_string())
}

fn load(source: &str, limit: Duration) -> Result<Engine, ModuleError> {
    let load = |version_0: bool| {
        let mut engine = Engine::new();
        engine.set_rego_v0(version_0);
        // An error of a builtin stops the evaluation. If it were "undefined", `not` would be true.
        engine.set_strict_builtin_errors(true);
        engine.set_gather_prints(true);
        engine.set_execution_timer_config(ExecutionTimerConfig {
            limit,
            check_interval: CHECK_INTERVAL,
        });
        match engine.add_policy(FILE.to_owned(), source.to_owned()) {
            Ok(_) => Ok(engine),
            Err(error) => Err(shortened(&error.to_string())),
        }
    };
    load(false).or_else(|v1| load(true).map_err(|v0| ModuleError::Syntax { v1, v0 }))
}

fn engine_error(error: anyhow::Error) -> EvaluationError {
    match error.downcast::<LimitError>() {
        Ok(LimitError::TimeLimitExceeded { .. }) => EvaluationError::Timeout,
        Ok(other) => EvaluationError::Engine(other.to_string()),
        Err(error) => EvaluationError::Engine(shortened(&error.to_string())),
    }
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    text.get(..text.floor_char_boundary(LONGEST_DETAIL))
        .unwrap_or_default()
        .to_owned()
}

#[cfg(test)]
mod tests;
