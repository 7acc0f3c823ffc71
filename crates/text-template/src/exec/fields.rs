//! Fields of values.

use std::sync::Arc;

use super::{Rendered, Run};
use crate::{
    ast::{Span, Term, Word},
    error::{Refusal, TemplateRenderProblem},
    limits::MissingKey,
    value::Value,
};

impl<'t> Run<'t> {
    /// One field after the other. Arguments are wrong, as no value is a function.
    pub(super) fn fields(
        &self,
        value: Value,
        span: Span,
        fields: &[Arc<str>],
        has_arguments: bool,
    ) -> Rendered<Value> {
        let mut value = value;
        for (place, field) in fields.iter().enumerate() {
            self.step(span)?;
            let has_arguments = has_arguments && place + 1 == fields.len();
            value = self.field(value, span, field, has_arguments)?;
        }
        Ok(value)
    }

    fn field(&self, value: Value, span: Span, field: &str, has_arguments: bool) -> Rendered<Value> {
        let missing = self.setting.missing;
        match value {
            Value::Nothing if missing == MissingKey::Error => {
                Err(self.error(span, TemplateRenderProblem::MissingKey(field.to_owned())))
            }
            Value::Nothing => Ok(Value::Nothing),
            Value::Nil => self.invalid(
                span,
                format!("nil pointer evaluating interface {{}}.{field}"),
            ),
            Value::Dict(_) if has_arguments => {
                self.invalid(span, format!("{field} is not a method but has arguments"))
            }
            Value::Dict(dict) => match (dict.get(field), missing) {
                (Some(value), _) => Ok(value),
                (None, MissingKey::Error) => {
                    Err(self.error(span, TemplateRenderProblem::MissingKey(field.to_owned())))
                }
                (None, MissingKey::Zero) if dict.of_texts => Ok(Value::text("")),
                (None, MissingKey::Zero) => Ok(Value::Nil),
                (None, MissingKey::NoValue) => Ok(Value::Nothing),
            },
            Value::Time(_) => {
                let refusal = Refusal::Method(field.to_owned());
                Err(self.error(span, TemplateRenderProblem::Refused(refusal)))
            }
            Value::Bool(_)
            | Value::Int(_)
            | Value::Int64(_)
            | Value::Byte(_)
            | Value::Float(_)
            | Value::Text(_)
            | Value::List(_) => {
                let kind = value.type_name();
                self.invalid(span, format!("can't evaluate field {field} in type {kind}"))
            }
        }
    }

    /// The value before a chain of fields.
    pub(super) fn chained(&mut self, dot: &Value, word: &'t Word) -> Rendered<Value> {
        match &word.term {
            Term::Pipe(pipe) => self.pipe(dot, pipe),
            Term::Function(function) => self.call(dot, function, word.span, &[], None),
            Term::Dot
            | Term::Nil
            | Term::Bool(_)
            | Term::Number(_)
            | Term::Text(_)
            | Term::Field(_)
            | Term::Variable(..)
            | Term::Chain(..) => self.invalid(word.span, "fields of what has none"),
        }
    }
}
