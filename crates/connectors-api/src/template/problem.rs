//! Errors in a template, and errors of rendering it from an object.

use thiserror::Error;

/// The reason why a text is not a template.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("character {at}: {problem}")]
pub struct TemplateError {
    /// The position in the text, counted in characters from 1.
    pub at: usize,
    /// The problem at this position.
    pub problem: TemplateProblem,
}

/// The problem with the text of a template.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TemplateProblem {
    /// There is no text.
    #[error("the template is empty")]
    Empty,
    /// Longer than any field accepts.
    #[error("longer than 1024 bytes")]
    TooLong,
    /// More steps than any value needs.
    #[error("more than 32 steps in one path")]
    TooManySteps,
    /// Tabs, line breaks and the like.
    #[error("control characters are not allowed")]
    Control,
    /// A brace that is never closed.
    #[error("`{{` without `}}`")]
    Unclosed,
    /// Braces around nothing.
    #[error("empty braces; write a path such as {{.object.metadata.name}}")]
    NoPath,
    /// A path that does not begin at the context object.
    #[error("a path begins with .object, such as {{.object.metadata.name}}")]
    Root,
    /// kubectl's loops.
    #[error("range and end are not supported; a template gives one text")]
    Loop,
    /// A character that is not valid at its position.
    #[error("`{0}` is not expected here; inside a name it needs a backslash")]
    Unexpected(char),
    /// A name with a backslash cannot be spelled.
    #[error("a name cannot contain a backslash")]
    Backslash,
    /// A name is expected.
    #[error("a name is missing")]
    NoName,
    /// kubectl treats the dot as a step to the next field.
    #[error(
        "`{0}` in a quoted key needs a backslash, like the dot in ['tekton\\.dev/pipelineRun']"
    )]
    UnescapedInKey(char),
    /// A character for which kubectl has no escape in a quoted key.
    #[error("`{0}` cannot stand in a quoted key")]
    InKey(char),
    /// An invalid number, or one that not all parsers agree on.
    #[error("must be a whole number of at most 15 digits, without leading zeros")]
    Number,
    /// A step of zero or less.
    #[error("the step of a slice must be 1 or more")]
    SliceStep,
    /// `[]`, which kubectl treats as `[0]`.
    #[error("empty brackets; write an index such as [0]")]
    NoSelector,
    /// A filter without parentheses.
    #[error("a filter is written [?(@.field==\"value\")]")]
    Filter,
    /// kubectl knows neither `&&` nor `||`.
    #[error("a filter has one comparison; `&&` and `||` are not supported")]
    Logic,
    /// A character for which kubectl has no escape in the path of a filter.
    #[error("`{0}` cannot stand in a name in a filter")]
    InFilter(char),
    /// A path in a filter that could find more than one value.
    #[error("a filter compares one value: only fields and indexes are allowed in its path")]
    NotSingular,
    /// A comparison with something other than a text, a whole number or a boolean.
    #[error("compare with a quoted text, a whole number, true or false")]
    Literal,
    /// Booleans have no order.
    #[error("true and false can only be compared with == and !=")]
    Order,
    /// An escape that only Go defines.
    #[error("only the quote and the backslash can follow a backslash in a quoted text")]
    Escape,
    /// `..` before something other than a field.
    #[error("a field must follow `..`, such as ..name")]
    Descendants,
    /// The translated path was refused.
    #[error("not supported: {0}")]
    Translation(String),
}

/// The reason why a template cannot be rendered from an object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {problem}")]
pub struct RenderError {
    /// The author's spelling of the path.
    pub path: String,
    /// The problem with it.
    pub problem: RenderProblem,
}

/// The problem of rendering a path.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RenderProblem {
    /// There is nothing at this path.
    #[error("the object has nothing there")]
    Nothing,
    /// The path is that of a label, and the object does not have it.
    #[error("the object has no label `{0}`")]
    NoLabel(String),
    /// There is more than one value at this path.
    #[error("{0} values are found, one is needed")]
    Several(usize),
    /// The value is not a text.
    #[error("must be a string, not {0}")]
    NotText(&'static str),
    /// The text is empty.
    #[error("the value is empty")]
    Empty,
    /// Brackets after something other than a list.
    #[error("brackets select from a list, not from {0}")]
    NotList(&'static str),
    /// An index or a slice that reaches beyond the list, or that selects nothing.
    #[error("out of the bounds of a list of {0}")]
    Bounds(usize),
    /// A filter that compares values of different types.
    #[error("the filter would compare {0} with something else")]
    Comparison(&'static str),
    /// More values to visit than the templates of one policy may need.
    #[error("too many values to look at")]
    TooMuch,
    /// The engine refused the evaluation.
    #[error("cannot be evaluated: {0}")]
    Engine(String),
}
