//! The errors of a template that cannot be used.

use std::fmt;

/// Where in a template something is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplatePlace {
    /// The name that the template was parsed under.
    pub template: String,
    /// Counted from 1.
    pub line: usize,
    /// In bytes, counted from 1.
    pub column: usize,
    /// The piece of the text that it is about.
    pub word: String,
}

/// Longer words are cut in messages.
const WORD: usize = 60;

/// Longer messages are cut: a template may put a whole value into one.
const MESSAGE: usize = 300;

fn cut(message: &mut String) {
    if let Some((at, _)) = message.char_indices().nth(MESSAGE) {
        message.truncate(at);
        message.push('…');
        message.shrink_to_fit();
    }
}

impl TemplatePlace {
    /// The place of a range of bytes of a text.
    pub(crate) fn of(template: &str, text: &str, from: usize, to: usize) -> Self {
        let before = text.get(..from).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let word: String = text
            .get(from..to)
            .unwrap_or_default()
            .chars()
            .take(WORD)
            .collect();
        Self {
            template: template.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.len() - line_start + 1,
            word,
        }
    }
}

impl fmt::Display for TemplatePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            template,
            line,
            column,
            word,
        } = self;
        write!(
            f,
            "{template}:{line}:{column}: at <{}>",
            word.escape_debug()
        )
    }
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct TemplateParseError {
    /// Where.
    pub place: TemplatePlace,
    /// The problem at that place.
    pub problem: TemplateParseProblem,
}

/// The problem of a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateParseProblem {
    /// Go refuses it too.
    #[error("{0}")]
    Syntax(String),
    /// Neither Go nor sprig has such a function.
    #[error("function {0:?} not defined")]
    UnknownFunction(String),
    /// Go or sprig has it, but this crate does not.
    #[error("function {name:?} is not available: {why}")]
    FunctionLeftOut {
        /// Its name.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// Go has it, but this crate does not.
    #[error("{0} are not available")]
    LeftOut(&'static str),
    /// It is larger than the caller allows.
    #[error("{0}")]
    Limit(#[from] TemplateLimit),
}

impl TemplateParseProblem {
    /// With a message that is not too long.
    pub(crate) fn cut(mut self) -> Self {
        match &mut self {
            Self::Syntax(message) | Self::UnknownFunction(message) => cut(message),
            Self::FunctionLeftOut { .. } | Self::LeftOut(_) | Self::Limit(_) => {}
        }
        self
    }
}

/// Why a template has no result for some data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct TemplateRenderError {
    /// Where.
    pub place: TemplatePlace,
    /// The problem at that place.
    pub problem: TemplateRenderProblem,
}

/// The problem of a rendering.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateRenderProblem {
    /// A key that the data does not have.
    #[error("map has no entry for key {0:?}")]
    MissingKey(String),
    /// Go fails there too.
    #[error("{0}")]
    Invalid(String),
    /// A function's own error.
    #[error("error calling {function}: {message}")]
    Call {
        /// The function.
        function: &'static str,
        /// Its message.
        message: String,
    },
    /// Go may render it, and this crate does not.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// More than the caller allows.
    #[error("{0}")]
    Limit(#[from] TemplateLimit),
}

impl TemplateRenderProblem {
    /// With a message that is not too long.
    pub(crate) fn cut(mut self) -> Self {
        match &mut self {
            Self::MissingKey(message) | Self::Invalid(message) | Self::Call { message, .. } => {
                cut(message);
            }
            Self::Refused(refusal) => refusal.cut(),
            Self::Limit(_) => {}
        }
        self
    }
}

/// Output that Go may render and this crate refuses: it would not be the same text, or it has no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A function cut a character into pieces, or decoded bytes that are no text.
    #[error("the result of {0} is not UTF-8")]
    NotUtf8(&'static str),
    /// Go writes the decoder's error into the output.
    #[error("{0} of what is not in that encoding")]
    NotEncoded(&'static str),
    /// The syntax of regular expressions that both sides read in the same way is smaller than Go's.
    #[error("regular expression {pattern:?}: {why}")]
    Regex {
        /// The expression.
        pattern: String,
        /// The unavailable syntax.
        why: String,
    },
    /// Only UTC is known.
    #[error("time zone {0:?}: only UTC is available")]
    Zone(String),
    /// Go would read the clock.
    #[error("{0} of what is no time")]
    Clock(&'static str),
    /// Go calls methods of times.
    #[error("method {0} of a time is not available")]
    Method(String),
    /// A verb of printf that prints memory, or floating-point numbers in base 2 or 16.
    #[error("printf cannot print {kind} as %{verb}")]
    Verb {
        /// The letter.
        verb: char,
        /// The kind of value.
        kind: &'static str,
    },
    /// A JSON text that Go repairs or that is nested too deeply.
    #[error("fromJson of {0}")]
    Json(&'static str),
    /// Go's result depends on the memory behind a list.
    #[error("slice beyond the end of a list")]
    Beyond,
    /// A change to a dictionary that Go allows and that cannot be wanted.
    #[error("{0}")]
    Change(&'static str),
}

impl Refusal {
    fn cut(&mut self) {
        match self {
            Self::Regex { pattern, why } => {
                cut(pattern);
                cut(why);
            }
            Self::Zone(word) | Self::Method(word) => cut(word),
            Self::NotUtf8(_)
            | Self::NotEncoded(_)
            | Self::Clock(_)
            | Self::Verb { .. }
            | Self::Json(_)
            | Self::Beyond
            | Self::Change(_) => {}
        }
    }
}

/// A limit of the caller that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TemplateLimit {
    /// The text of a template.
    #[error("the text is longer than {0} bytes")]
    Text(usize),
    /// Nesting of the text, of calls, or of values.
    #[error("nested deeper than {0}")]
    Depth(usize),
    /// Work.
    #[error("takes more than {0} steps")]
    Steps(u64),
    /// The output.
    #[error("the output is longer than {0} bytes")]
    Output(usize),
    /// One value.
    #[error("a value is larger than {0} bytes")]
    Value(usize),
    /// All values together.
    #[error("all values together are larger than {0} bytes")]
    Memory(usize),
    /// A regular expression.
    #[error("a regular expression has more than {0} elements")]
    Regex(usize),
    /// The capturing groups of a regular expression.
    #[error("a regular expression has more than {0} groups")]
    Groups(usize),
    /// Variables that one template can see at a time.
    #[error("a template has more than {0} variables")]
    Variables(usize),
}
