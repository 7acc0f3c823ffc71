//! Go's text/template with the functions of sprig, as an interpreter.
//!
//! Owns the language: [`TextTemplate`] is parsed once and rendered often. Values have Go's types, so that a function
//! that Go refuses to call with them is refused here too. A whole number of the data is an `int64`, any other number a
//! `float64`, an object a `map[string]interface {}`.
//!
//! Knows nothing of files, processes, the network, the environment and the clock: the time is an argument.
//! Output that may differ from Go's is an error with its place ([`Refusal`]), and so is an unknown function,
//! when the text is parsed.
//!
//! Invariant: the output is byte for byte that of Go, at most as large as the caller's [`TemplateLimits`]
//! allow, and made in at most so many steps. No text and no data make it panic.

#![forbid(unsafe_code)]

mod ast;
mod data;
mod error;
mod exec;
mod format;
mod functions;
mod json;
mod lexer;
mod limits;
mod meter;
mod number;
mod parser;
mod printf;
mod quote;
mod regular;
mod template;
mod time_text;
mod unicode;
mod value;

pub use error::{
    Refusal, TemplateLimit, TemplateParseError, TemplateParseProblem, TemplatePlace,
    TemplateRenderError, TemplateRenderProblem,
};
pub use functions::{FunctionSummary, functions, functions_left_out};
pub use limits::{MAX_DEPTH, MissingKey, TemplateLimits};
pub use template::TextTemplate;
