//! Calls of functions, and the types of their arguments.

use super::{Rendered, Run};
use crate::{
    ast::{NumberLiteral, Span, Term, Word},
    functions::{Call, Function, How, Takes},
    value::Value,
};

impl<'t> Run<'t> {
    /// Calls a function with words and with the result of the command before.
    pub(super) fn call(
        &mut self,
        dot: &Value,
        function: &'static Function,
        span: Span,
        words: &'t [Word],
        last: Option<Value>,
    ) -> Rendered<Value> {
        let given = words.len() + usize::from(last.is_some());
        let wanted = function.takes.len();
        let name = function.name;
        if function.rest.is_some() && given < wanted {
            let message =
                format!("wrong number of args for {name}: want at least {wanted} got {given}");
            return self.invalid(span, message);
        }
        if function.rest.is_none() && given != wanted {
            let message = format!("wrong number of args for {name}: want {wanted} got {given}");
            return self.invalid(span, message);
        }
        let call = match function.how {
            How::Call(call) => call,
            How::UntilOneIs(is) => return self.until_one_is(dot, span, words, last, is),
        };
        let kind = |place: usize| {
            let fixed = function.takes.get(place).copied();
            fixed.or(function.rest).unwrap_or(Takes::Any)
        };
        let mut values = Vec::with_capacity(given);
        for (place, word) in words.iter().enumerate() {
            values.push(self.argument(dot, word, kind(place))?);
        }
        if let Some(last) = last {
            values.push(self.validated(span, last, kind(words.len()))?);
        }
        let call_of = Call {
            function: name,
            meter: self.meter,
            now: self.setting.now,
            expressions: &self.expressions,
            values,
        };
        self.limited(span, self.meter.given(&call_of.values))?;
        call(&call_of).map_err(|problem| self.error(span, problem))
    }

    /// `and` and `or`
    fn until_one_is(
        &mut self,
        dot: &Value,
        span: Span,
        words: &'t [Word],
        last: Option<Value>,
        is: bool,
    ) -> Rendered<Value> {
        let mut value = Value::Nothing;
        for word in words {
            value = self.argument(dot, word, Takes::Raw)?;
            if value.is_true() == is {
                return Ok(value);
            }
        }
        match last {
            Some(last) => self.validated(span, last, Takes::Raw),
            None => Ok(value),
        }
    }

    fn argument(&mut self, dot: &Value, word: &'t Word, takes: Takes) -> Rendered<Value> {
        let span = word.span;
        self.step(span)?;
        let value = match &word.term {
            Term::Dot => dot.clone(),
            Term::Nil => return self.nil(span, takes),
            Term::Field(fields) => self.fields(dot.clone(), span, fields, false)?,
            Term::Variable(name, fields) => {
                let value = self.variable(span, name)?;
                self.fields(value, span, fields, false)?
            }
            Term::Pipe(pipe) => self.pipe(dot, pipe)?,
            Term::Function(function) => self.call(dot, function, span, &[], None)?,
            Term::Chain(word, fields) => {
                let value = self.chained(dot, word)?;
                self.fields(value, span, fields, false)?
            }
            Term::Bool(is) => match takes {
                Takes::Any | Takes::Raw | Takes::Bool => return Ok(Value::Bool(*is)),
                Takes::Text | Takes::Int | Takes::Float | Takes::Dict | Takes::Time => {
                    return self.expected(span, takes);
                }
            },
            Term::Text(text) => match takes {
                Takes::Any | Takes::Raw | Takes::Text => return Ok(Value::Text(text.clone())),
                Takes::Int | Takes::Float | Takes::Bool | Takes::Dict | Takes::Time => {
                    return self.expected(span, takes);
                }
            },
            Term::Number(number) => return self.number(span, *number, takes),
        };
        self.validated(span, value, takes)
    }

    fn nil(&self, span: Span, takes: Takes) -> Rendered<Value> {
        match takes {
            Takes::Any | Takes::Dict => Ok(Value::Nil),
            Takes::Raw => Ok(Value::Nothing),
            Takes::Text | Takes::Int | Takes::Float | Takes::Bool | Takes::Time => {
                self.invalid(span, format!("cannot assign nil to {}", takes.type_name()))
            }
        }
    }

    fn expected<T>(&self, span: Span, takes: Takes) -> Rendered<T> {
        self.invalid(span, format!("expected {}", takes.type_name()))
    }

    /// A constant of the type that is wanted.
    fn number(&self, span: Span, number: NumberLiteral, takes: Takes) -> Rendered<Value> {
        match (takes, number.int) {
            (Takes::Any | Takes::Raw, _) => self.constant(span, number),
            (Takes::Int, Some(int)) => Ok(Value::Int(int)),
            (Takes::Float, _) => Ok(Value::Float(number.float)),
            _ => self.expected(span, takes),
        }
    }

    /// A constant of the type that its writing says.
    pub(super) fn constant(&self, span: Span, number: NumberLiteral) -> Rendered<Value> {
        match number.int {
            _ if number.is_float => Ok(Value::Float(number.float)),
            Some(int) => Ok(Value::Int(int)),
            None => self.invalid(span, "the number overflows int"),
        }
    }

    /// A value of the type that is wanted; Go converts none.
    fn validated(&self, span: Span, value: Value, takes: Takes) -> Rendered<Value> {
        let is_right = match (&value, takes) {
            (Value::Nothing, Takes::Any | Takes::Dict) => return Ok(Value::Nil),
            (_, Takes::Raw | Takes::Any)
            | (Value::Text(_), Takes::Text)
            | (Value::Int(_), Takes::Int)
            | (Value::Float(_), Takes::Float)
            | (Value::Bool(_), Takes::Bool)
            | (Value::Time(_), Takes::Time) => true,
            (Value::Dict(dict), Takes::Dict) => !dict.of_texts,
            _ => false,
        };
        if is_right {
            return Ok(value);
        }
        let wanted = takes.type_name();
        if matches!(value, Value::Nothing) {
            return self.invalid(span, format!("invalid value; expected {wanted}"));
        }
        let is_nil = matches!(value, Value::Nil);
        let got = if is_nil {
            "interface {}"
        } else {
            value.type_name()
        };
        let message = format!("wrong type for value; expected {wanted}; got {got}");
        self.invalid(span, message)
    }
}
