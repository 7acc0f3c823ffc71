//! Renders a parsed template, by Go's rules.

mod arguments;
mod fields;

use std::{cell::RefCell, collections::BTreeMap};

use jiff::Timestamp;

use crate::{
    ast::{Branches, Command, Invocation, Pipe, Range, Span, TemplateNode, Term, Word},
    error::{TemplateLimit, TemplatePlace, TemplateRenderError, TemplateRenderProblem},
    functions::Expressions,
    limits::{MAX_VARIABLES, MissingKey},
    meter::{Meter, MeteredOutput},
    number::count,
    parser::Trees,
    printf,
    value::{List, Value},
};

/// The constants of a whole rendering.
pub(crate) struct Setting<'t> {
    pub(crate) name: &'t str,
    pub(crate) text: &'t str,
    pub(crate) trees: &'t Trees,
    pub(crate) missing: MissingKey,
    pub(crate) now: Timestamp,
}

/// Renders the template of that name.
pub(crate) fn render(setting: &Setting<'_>, meter: &Meter, data: &Value) -> Rendered<String> {
    let mut run = Run {
        setting,
        meter,
        output: MeteredOutput::output(meter),
        variables: vec![("$", data.clone())],
        depth: 0,
        expressions: RefCell::new(BTreeMap::new()),
    };
    if let Some(nodes) = setting.trees.get(setting.name) {
        run.list(data, nodes)?;
    }
    Ok(run.output.text)
}

pub(crate) type Rendered<T> = Result<T, TemplateRenderError>;

/// How the nodes of a list ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

struct Run<'t> {
    setting: &'t Setting<'t>,
    meter: &'t Meter,
    output: MeteredOutput<'t>,
    /// A name may be there many times, and the last one counts.
    variables: Vec<(&'t str, Value)>,
    depth: usize,
    expressions: Expressions,
}

impl<'t> Run<'t> {
    fn error(&self, span: Span, problem: impl Into<TemplateRenderProblem>) -> TemplateRenderError {
        let Setting { name, text, .. } = self.setting;
        TemplateRenderError {
            place: TemplatePlace::of(name, text, span.from, span.to),
            problem: problem.into().cut(),
        }
    }

    fn invalid<T>(&self, span: Span, message: impl Into<String>) -> Rendered<T> {
        Err(self.error(span, TemplateRenderProblem::Invalid(message.into())))
    }

    fn limited<T>(&self, span: Span, result: Result<T, TemplateLimit>) -> Rendered<T> {
        result.map_err(|limit| self.error(span, limit))
    }

    fn step(&self, span: Span) -> Rendered<()> {
        self.limited(span, self.meter.steps(1))
    }

    /// Renders the content one level deeper.
    fn deeper<T>(
        &mut self,
        span: Span,
        render: impl FnOnce(&mut Self) -> Rendered<T>,
    ) -> Rendered<T> {
        self.depth += 1;
        self.limited(span, self.meter.depth(self.depth))?;
        let result = render(self);
        self.depth -= 1;
        result
    }

    fn list(&mut self, dot: &Value, nodes: &'t [TemplateNode]) -> Rendered<Flow> {
        for node in nodes {
            let flow = match node {
                TemplateNode::Text(span) => {
                    let text = self.setting.text.get(span.from..span.to);
                    let pushed = self.output.push(text.unwrap_or_default());
                    self.limited(*span, pushed)?;
                    Flow::Next
                }
                TemplateNode::Action(pipe) => {
                    let value = self.pipe(dot, pipe)?;
                    if pipe.variables.is_empty() {
                        self.print(pipe.span, &value)?;
                    }
                    Flow::Next
                }
                TemplateNode::If(branches) => self.branches(dot, branches, false)?,
                TemplateNode::With(branches) => self.branches(dot, branches, true)?,
                TemplateNode::Range(range) => self.range(dot, range)?,
                TemplateNode::Template(invocation) => self.template(dot, invocation)?,
                TemplateNode::Break => Flow::Break,
                TemplateNode::Continue => Flow::Continue,
            };
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn print(&mut self, span: Span, value: &Value) -> Rendered<()> {
        let printed = if value.is_nothing() {
            self.output
                .push("<no value>")
                .map_err(TemplateRenderProblem::from)
        } else {
            printf::one(&mut self.output, value)
        };
        printed.map_err(|problem| self.error(span, problem))
    }

    fn branches(&mut self, dot: &Value, branches: &'t Branches, sets_dot: bool) -> Rendered<Flow> {
        let mark = self.variables.len();
        for (pipe, body) in &branches.arms {
            let value = self.pipe(dot, pipe)?;
            if value.is_true() {
                let inner = if sets_dot { &value } else { dot };
                let flow = self.deeper(pipe.span, |run| run.list(inner, body))?;
                self.variables.truncate(mark);
                return Ok(flow);
            }
        }
        let mut flow = Flow::Next;
        if let (Some(body), Some((pipe, _))) = (&branches.otherwise, branches.arms.last()) {
            flow = self.deeper(pipe.span, |run| run.list(dot, body))?;
        }
        self.variables.truncate(mark);
        Ok(flow)
    }

    fn range(&mut self, dot: &Value, range: &'t Range) -> Rendered<Flow> {
        let before = self.variables.len();
        let value = self.pipe(dot, &range.pipe)?;
        let mark = self.variables.len();
        let span = range.pipe.span;
        let mut is_empty = true;
        if let Value::Dict(dict) = &value {
            // Its entries are copied, as a change within the range does not count.
            let entries = dict.entries.borrow().len();
            let entries = u64::try_from(entries).unwrap_or(u64::MAX);
            self.limited(span, self.meter.steps(entries))?;
        }
        let mut places = Places::of(&value).map_err(|kind| {
            let message = format!("range can't iterate over a value of type {kind}");
            self.error(span, TemplateRenderProblem::Invalid(message))
        })?;
        if places.are_numbers() && range.pipe.variables.len() > 1 {
            return self.invalid(
                span,
                "can't iterate over a number with more than one variable",
            );
        }
        while let Some((index, element)) = places.next() {
            is_empty = false;
            self.step(span)?;
            self.set_range_variables(&range.pipe, index, &element)?;
            let flow = self.deeper(span, |run| run.list(&element, &range.body))?;
            self.variables.truncate(mark);
            if flow == Flow::Break {
                break;
            }
        }
        let mut flow = Flow::Next;
        if let Some(body) = range.otherwise.as_ref().filter(|_| is_empty) {
            flow = self.deeper(span, |run| run.list(dot, body))?;
        }
        self.variables.truncate(before);
        // As in Go, `break` in the else leaves this range, and `continue` the one around it.
        Ok(if flow == Flow::Break {
            Flow::Next
        } else {
            flow
        })
    }

    fn set_range_variables(
        &mut self,
        pipe: &'t Pipe,
        index: Value,
        element: &Value,
    ) -> Rendered<()> {
        let element = element.clone();
        let (first, second) = match pipe.variables.as_slice() {
            [] => return Ok(()),
            [one] => (None, Some((one, element))),
            [one, two, ..] => (Some((one, index)), Some((two, element))),
        };
        for (name, value) in first.into_iter().chain(second) {
            if pipe.assigns {
                self.set(pipe.span, name, value)?;
            } else if let Some((_, place)) =
                self.variables.iter_mut().rev().find(|(it, _)| it == name)
            {
                *place = value;
            }
        }
        Ok(())
    }

    fn set(&mut self, span: Span, name: &str, value: Value) -> Rendered<()> {
        self.limited(span, self.meter.looks(self.variables.len()))?;
        let found = self.variables.iter_mut().rev().find(|(it, _)| *it == name);
        match found {
            Some((_, place)) => {
                *place = value;
                Ok(())
            }
            None => self.invalid(span, format!("undefined variable: {name}")),
        }
    }

    fn template(&mut self, dot: &Value, invocation: &'t Invocation) -> Rendered<Flow> {
        let Invocation { span, name, pipe } = invocation;
        let Some(nodes) = self.setting.trees.get(name) else {
            return self.invalid(*span, format!("template {name:?} not defined"));
        };
        let inner = match pipe {
            Some(pipe) => self.pipe(dot, pipe)?,
            None => Value::Nothing,
        };
        // The other template sees no variables of this one.
        let outer = std::mem::replace(&mut self.variables, vec![("$", inner.clone())]);
        self.step(*span)?;
        self.deeper(*span, |run| run.list(&inner, nodes))?;
        self.variables = outer;
        Ok(Flow::Next)
    }

    /// The value of a pipeline, which its variables get too.
    fn pipe(&mut self, dot: &Value, pipe: &'t Pipe) -> Rendered<Value> {
        let value = self.deeper(pipe.span, |run| {
            let mut value = None;
            for command in &pipe.commands {
                run.step(command.span)?;
                value = Some(run.command(dot, command, value)?.concrete());
            }
            Ok(value.unwrap_or(Value::Nothing))
        })?;
        for name in &pipe.variables {
            if pipe.assigns {
                self.set(pipe.span, name, value.clone())?;
            } else {
                if self.variables.len() >= MAX_VARIABLES {
                    let limit = TemplateLimit::Variables(MAX_VARIABLES);
                    return Err(self.error(pipe.span, limit));
                }
                self.variables.push((name, value.clone()));
            }
        }
        Ok(value)
    }

    /// A command, with the result of the command before it, if there was one.
    fn command(
        &mut self,
        dot: &Value,
        command: &'t Command,
        last: Option<Value>,
    ) -> Rendered<Value> {
        let Command {
            first, arguments, ..
        } = command;
        let has_arguments = !arguments.is_empty() || last.is_some();
        let span = first.span;
        match &first.term {
            Term::Field(fields) => self.fields(dot.clone(), span, fields, has_arguments),
            Term::Variable(name, fields) => {
                let value = self.variable(span, name)?;
                if fields.is_empty() {
                    self.no_function(first, has_arguments)?;
                    return Ok(value);
                }
                self.fields(value, span, fields, has_arguments)
            }
            Term::Chain(word, fields) => {
                let value = self.chained(dot, word)?;
                self.fields(value, span, fields, has_arguments)
            }
            Term::Function(function) => self.call(dot, function, command.span, arguments, last),
            Term::Pipe(pipe) => {
                self.no_function(first, has_arguments)?;
                self.pipe(dot, pipe)
            }
            Term::Bool(is) => {
                self.no_function(first, has_arguments)?;
                Ok(Value::Bool(*is))
            }
            Term::Dot => {
                self.no_function(first, has_arguments)?;
                Ok(dot.clone())
            }
            Term::Text(text) => {
                self.no_function(first, has_arguments)?;
                Ok(Value::Text(text.clone()))
            }
            Term::Number(number) => {
                self.no_function(first, has_arguments)?;
                self.constant(span, *number)
            }
            Term::Nil => {
                self.no_function(first, has_arguments)?;
                self.invalid(span, "nil is not a command")
            }
        }
    }

    fn no_function(&self, word: &Word, has_arguments: bool) -> Rendered<()> {
        if has_arguments {
            return self.invalid(word.span, "can't give argument to non-function");
        }
        Ok(())
    }

    fn variable(&self, span: Span, name: &str) -> Rendered<Value> {
        self.limited(span, self.meter.looks(self.variables.len()))?;
        let found = self.variables.iter().rev().find(|(it, _)| *it == name);
        match found {
            Some((_, value)) => Ok(value.clone()),
            None => self.invalid(span, format!("undefined variable: {name}")),
        }
    }
}

/// The places that a range goes through.
enum Places {
    /// Each element as it is when its turn comes.
    Elements(List, usize),
    Entries(std::vec::IntoIter<(std::sync::Arc<str>, Value)>),
    Numbers {
        next: i64,
        end: i64,
        make: fn(i64) -> Value,
    },
    None,
}

impl Places {
    /// The kind, if nothing can go through it.
    fn of(value: &Value) -> Result<Self, &'static str> {
        Ok(match value {
            Value::Nothing | Value::Nil => Self::None,
            Value::List(list) => Self::Elements(list.clone(), 0),
            Value::Dict(dict) => Self::Entries(dict.to_vec().into_iter()),
            Value::Int(end) => Self::Numbers {
                next: 0,
                end: *end,
                make: Value::Int,
            },
            Value::Int64(end) => Self::Numbers {
                next: 0,
                end: *end,
                make: Value::Int64,
            },
            Value::Byte(end) => Self::Numbers {
                next: 0,
                end: i64::from(*end),
                make: |it| Value::Byte(u8::try_from(it).unwrap_or(0)),
            },
            Value::Bool(_) | Value::Float(_) | Value::Text(_) | Value::Time(_) => {
                return Err(value.type_name());
            }
        })
    }

    fn are_numbers(&self) -> bool {
        matches!(self, Self::Numbers { .. })
    }

    /// The index or key, and the element.
    fn next(&mut self) -> Option<(Value, Value)> {
        match self {
            Self::Elements(list, index) => {
                let element = list.get(*index)?;
                let place = Value::Int(count(*index));
                *index += 1;
                Some((place, element))
            }
            Self::Entries(entries) => {
                let (key, value) = entries.next()?;
                Some((Value::Text(key), value))
            }
            Self::Numbers { next, end, make } => {
                let number = *next;
                if number >= *end {
                    return None;
                }
                *next += 1;
                Some((Value::Nothing, make(number)))
            }
            Self::None => None,
        }
    }
}
