//! A path in two notations: kubectl's, for people, and that of RFC 9535, for evaluation.

use std::fmt;

use jsonpath_rust::parser::model::JpQuery;
use jsonpath_rust::parser::parse_json_path;

use super::{ROOT, TemplateProblem};

/// The limit of steps in one path. A path to a value that identifies a run has four.
pub(super) const MOST_STEPS: usize = 32;

/// A path from a value to others.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    /// Each step with its translation, a query of one segment.
    pub(super) steps: Vec<(PathStep, JpQuery)>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathStep {
    /// `.name` and `['name']`.
    Field(String),
    /// `.*`: every field of an object, every item of a list.
    Wildcard,
    /// `[0]`, `[1:3]`, `[*]`, `['a','b']`.
    Brackets(Vec<PathSelector>),
    /// `..name`: the fields of this name at any depth.
    Descendants(String),
    /// `[?(@.type=="Ready")]`.
    Filter(FilterCondition),
}

/// One part between commas in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathSelector {
    Field(String),
    Index(i64),
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: Option<i64>,
    },
    All,
}

/// The condition that an item of a list must meet in a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FilterCondition {
    /// Fields and indexes, relative to the item.
    pub(super) path: Vec<PathStep>,
    /// If there is none, the path must exist.
    pub(super) comparison: Option<(FilterOperator, Literal)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FilterOperator(pub(super) &'static str);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Literal {
    Text(String),
    Number(i64),
    Bool(bool),
}

impl FilterOperator {
    /// Longer operators first, because `<` is a prefix of `<=`.
    pub(super) const ALL: [Self; 6] = [
        Self("=="),
        Self("!="),
        Self("<="),
        Self(">="),
        Self("<"),
        Self(">"),
    ];

    pub(super) fn is_order(self) -> bool {
        !matches!(self.0, "==" | "!=")
    }
}

impl Path {
    /// The label key, if the path leads to one label of the object.
    pub(super) fn label(&self) -> Option<&str> {
        let names = self.steps.iter().map(|(step, _)| match step {
            PathStep::Field(name) => Some(name.as_str()),
            PathStep::Wildcard
            | PathStep::Brackets(_)
            | PathStep::Descendants(_)
            | PathStep::Filter(_) => None,
        });
        match names.collect::<Option<Vec<_>>>()?.as_slice() {
            ["object", "metadata", "labels", label] => Some(label),
            _ => None,
        }
    }

    /// The fields below the root that every value of the path is in. A name that the engine may read in another spelling
    /// ends them.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        let is_plain = |name: &&str| name.chars().all(|it| it == '.' || is_plain(it));
        let mut names = self.steps().map_while(PathStep::field);
        let is_below_root = names.next() == Some(ROOT);
        let names = names.take_while(is_plain);
        names.filter(move |_| is_below_root)
    }

    /// Translates all steps in one pass of the RFC 9535 parser.
    pub(super) fn new(steps: Vec<PathStep>) -> Result<Self, TemplateProblem> {
        // Parsing is the expensive part, so the limit is checked first.
        if steps.iter().map(PathStep::weight).sum::<usize>() > MOST_STEPS {
            return Err(TemplateProblem::TooManySteps);
        }
        let text: String = steps.iter().map(PathStep::rfc9535).collect();
        let query = parse_json_path(&format!("${text}"))
            .map_err(|error| TemplateProblem::Translation(error.to_string()))?;
        if query.segments.len() != steps.len() {
            return Err(TemplateProblem::Translation("steps were joined".to_owned()));
        }
        let segments = query.segments.into_iter();
        let queries = segments.map(|segment| JpQuery::new(vec![segment]));
        Ok(Self {
            steps: steps.into_iter().zip(queries).collect(),
        })
    }

    /// The number of steps that the path counts as in a policy.
    pub(super) fn weight(&self) -> usize {
        self.steps().map(PathStep::weight).sum()
    }

    pub(super) fn steps(&self) -> impl Iterator<Item = &PathStep> {
        self.steps.iter().map(|(step, _)| step)
    }
}

impl PathStep {
    /// A step counts once, plus once for each further item that it names.
    fn weight(&self) -> usize {
        match self {
            Self::Field(_) | Self::Wildcard | Self::Descendants(_) => 1,
            Self::Brackets(selectors) => selectors.len().max(1),
            Self::Filter(FilterCondition { path, .. }) => 1 + path.len(),
        }
    }

    pub(super) fn field(&self) -> Option<&str> {
        match self {
            Self::Field(name) => Some(name),
            Self::Wildcard | Self::Brackets(_) | Self::Descendants(_) | Self::Filter(_) => None,
        }
    }

    /// True if the step finds at most one value.
    pub(super) fn is_singular(&self) -> bool {
        match self {
            Self::Field(_) => true,
            Self::Brackets(selectors) => matches!(selectors[..], [PathSelector::Index(_)]),
            Self::Wildcard | Self::Descendants(_) | Self::Filter(_) => false,
        }
    }

    fn rfc9535(&self) -> String {
        match self {
            Self::Field(name) => format!("[{}]", quoted(name)),
            Self::Wildcard => "[*]".to_owned(),
            Self::Brackets(selectors) => {
                let selectors: Vec<_> = selectors.iter().map(PathSelector::rfc9535).collect();
                format!("[{}]", selectors.join(","))
            }
            Self::Descendants(name) => format!("..[{}]", quoted(name)),
            Self::Filter(FilterCondition { path, comparison }) => {
                let path: String = path.iter().map(Self::rfc9535).collect();
                match comparison {
                    None => format!("[?@{path}]"),
                    // In RFC 9535 an absent value is unequal; kubectl skips it.
                    Some((FilterOperator("!="), value)) => {
                        format!("[?@{path} && @{path}!={}]", value.rfc9535())
                    }
                    Some((FilterOperator(word), value)) => {
                        format!("[?@{path}{word}{}]", value.rfc9535())
                    }
                }
            }
        }
    }
}

impl PathSelector {
    fn rfc9535(&self) -> String {
        match self {
            Self::Field(name) => quoted(name),
            Self::Index(_) | Self::Slice { .. } | Self::All => self.to_string(),
        }
    }
}

impl Literal {
    fn rfc9535(&self) -> String {
        match self {
            Self::Text(text) => quoted(text),
            Self::Number(number) => number.to_string(),
            Self::Bool(bool) => bool.to_string(),
        }
    }
}

/// A string of RFC 9535. Templates contain no control characters, which would need more escapes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

/// A name as kubectl parses it after a dot, or in quotes.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            if !is_plain(letter) {
                f.write_str("\\")?;
            }
            write!(f, "{letter}")?;
        }
        Ok(())
    }
}

/// True for a character that needs no backslash in a name. kubectl needs one for fewer characters. The others
/// have a meaning elsewhere in a path, so in a name they are more likely a typo.
pub(super) fn is_plain(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '/' | ':')
}

/// True for a character that kubectl cannot parse in a quoted key at all.
pub(super) fn breaks_key(letter: char) -> bool {
    matches!(letter, '\'' | ']' | ',')
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps().try_for_each(|step| step.fmt(f))
    }
}

impl fmt::Display for PathStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) if name.contains('.') && !name.contains(breaks_key) => {
                write!(f, "['{}']", Escaped(name))
            }
            Self::Field(name) => write!(f, ".{}", Escaped(name)),
            Self::Wildcard => f.write_str(".*"),
            Self::Brackets(selectors) => {
                let selectors: Vec<_> = selectors.iter().map(PathSelector::to_string).collect();
                write!(f, "[{}]", selectors.join(","))
            }
            Self::Descendants(name) if name.starts_with(begins_descendants) => {
                write!(f, "..{}", Escaped(name))
            }
            Self::Descendants(name) => write!(f, "..['{}']", Escaped(name)),
            Self::Filter(FilterCondition { path, comparison }) => {
                f.write_str("[?(@")?;
                path.iter().try_for_each(|step| step.fmt(f))?;
                if let Some((FilterOperator(word), value)) = comparison {
                    write!(f, "{word}{}", value.rfc9535())?;
                }
                f.write_str(")]")
            }
        }
    }
}

/// True for a letter that may begin a name after `..` in kubectl.
pub(super) fn begins_descendants(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

impl fmt::Display for PathSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, "'{}'", Escaped(name)),
            Self::Index(index) => write!(f, "{index}"),
            Self::Slice { start, end, step } => {
                let number =
                    |number: &Option<i64>| number.map(|n| n.to_string()).unwrap_or_default();
                write!(f, "{}:{}", number(start), number(end))?;
                step.map_or(Ok(()), |step| write!(f, ":{step}"))
            }
            Self::All => f.write_str("*"),
        }
    }
}
