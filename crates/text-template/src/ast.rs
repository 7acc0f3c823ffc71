//! A parsed template.

use std::sync::Arc;

use crate::functions::Function;

/// A part of the text, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// A piece of a template.
#[derive(Debug)]
pub(crate) enum TemplateNode {
    /// Plain text.
    Text(Span),
    /// Prints a pipeline, unless it declares or sets variables.
    Action(Pipe),
    If(Branches),
    With(Branches),
    Range(Range),
    Template(Invocation),
    Break,
    Continue,
}

/// `if` or `with`, each `else if` or `else with` another arm.
#[derive(Debug)]
pub(crate) struct Branches {
    pub(crate) arms: Vec<(Pipe, Vec<TemplateNode>)>,
    pub(crate) otherwise: Option<Vec<TemplateNode>>,
}

#[derive(Debug)]
pub(crate) struct Range {
    pub(crate) pipe: Pipe,
    pub(crate) body: Vec<TemplateNode>,
    pub(crate) otherwise: Option<Vec<TemplateNode>>,
}

/// `template` or `block`.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) span: Span,
    pub(crate) name: String,
    pub(crate) pipe: Option<Pipe>,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) span: Span,
    /// Variables that get the result.
    pub(crate) variables: Vec<String>,
    /// They are there already.
    pub(crate) assigns: bool,
    pub(crate) commands: Vec<Command>,
}

/// A first word and its arguments.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) span: Span,
    pub(crate) first: Word,
    pub(crate) arguments: Vec<Word>,
}

#[derive(Debug)]
pub(crate) struct Word {
    pub(crate) span: Span,
    pub(crate) term: Term,
}

#[derive(Debug)]
pub(crate) enum Term {
    Dot,
    Nil,
    Bool(bool),
    Number(NumberLiteral),
    Text(Arc<str>),
    /// `.a.b`
    Field(Vec<Arc<str>>),
    /// `$a.b`
    Variable(String, Vec<Arc<str>>),
    Function(&'static Function),
    /// In parentheses.
    Pipe(Box<Pipe>),
    /// Fields of the result of a function or a pipeline.
    Chain(Box<Word>, Vec<Arc<str>>),
}

/// A number, which is of the type that is wanted, or that its writing says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NumberLiteral {
    /// Its value as an `int`, if it is whole and not too large.
    pub(crate) int: Option<i64>,
    pub(crate) float: f64,
    /// It is written with a point or an exponent.
    pub(crate) is_float: bool,
}
