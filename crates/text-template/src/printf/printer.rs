//! Values as verbs print them.

use std::sync::Arc;

use jiff::Timestamp;

use super::Written;
use crate::{
    error::{Refusal, TemplateLimit, TemplateRenderProblem},
    format::Flags,
    meter::MeteredOutput,
    time_text,
    value::{Dict, List, Value},
};

pub(super) struct Printer<'s, 'm> {
    pub(super) sink: &'s mut MeteredOutput<'m>,
    pub(super) flags: Flags,
}

impl<'s, 'm> Printer<'s, 'm> {
    pub(super) fn new(sink: &'s mut MeteredOutput<'m>) -> Self {
        Self {
            sink,
            flags: Flags::default(),
        }
    }

    pub(super) fn push(&mut self, text: &str) -> Result<(), TemplateLimit> {
        self.sink.push(text)
    }

    fn bad(&mut self, value: &Value, verb: char) -> Written {
        self.push("%!")?;
        self.sink.push_char(verb)?;
        self.push("(")?;
        if value.is_nothing() {
            self.push("<nil>")?;
        } else {
            self.push(value.type_name())?;
            self.push("=")?;
            self.value(value, 'v', 0, true)?;
        }
        Ok(self.push(")")?)
    }

    pub(super) fn argument(&mut self, value: &Value, verb: char) -> Written {
        if value.is_nothing() {
            return match verb {
                'T' | 'v' => Ok(self.flags.pad(self.sink, "<nil>")?),
                _ => self.bad(value, verb),
            };
        }
        match verb {
            'T' => Ok(self.flags.string(self.sink, value.type_name())?),
            'p' => self.pointer(value),
            'w' => self.bad(value, 'w'),
            _ => self.value(value, verb, 0, false),
        }
    }

    fn pointer(&mut self, value: &Value) -> Written {
        if matches!(value, Value::List(_) | Value::Dict(_)) {
            return Err(refused('p', "a list or dictionary"));
        }
        self.bad(value, 'p')
    }

    /// A value, perhaps within others. A message about a bad verb prints times by their fields.
    fn value(&mut self, value: &Value, verb: char, depth: usize, erroring: bool) -> Written {
        self.sink.meter().depth(depth)?;
        self.sink.meter().steps(1)?;
        match value {
            // For every verb.
            Value::Nothing | Value::Nil if self.flags.sharp_v => {
                Ok(self.push("interface {}(nil)")?)
            }
            Value::Nothing | Value::Nil => Ok(self.push("<nil>")?),
            Value::Bool(is) => match verb {
                't' | 'v' => Ok(self
                    .flags
                    .pad(self.sink, if *is { "true" } else { "false" })?),
                _ => self.bad(value, verb),
            },
            Value::Int(number) | Value::Int64(number) => {
                self.integer(i128::from(*number), value, verb)
            }
            Value::Byte(number) => self.integer(i128::from(*number), value, verb),
            Value::Float(number) => self.float(*number, value, verb),
            Value::Text(text) => self.text(text, value, verb),
            Value::List(list) => self.list(list, verb, depth, erroring),
            Value::Dict(dict) => self.dict(dict, verb, depth, erroring),
            Value::Time(time) => self.time(*time, value, verb, erroring),
        }
    }

    fn integer(&mut self, number: i128, value: &Value, verb: char) -> Written {
        let unsigned = matches!(value, Value::Byte(_));
        match verb {
            'v' if self.flags.sharp_v && unsigned => {
                let flags = Flags {
                    sharp: true,
                    ..self.flags
                };
                flags.integer(self.sink, number, 'x')?;
            }
            'v' | 'd' | 'b' | 'o' | 'O' | 'x' | 'X' => {
                self.flags.integer(self.sink, number, verb)?;
            }
            'c' => self.flags.character(self.sink, number)?,
            'q' => self.flags.quoted_character(self.sink, number)?,
            'U' => self.flags.unicode(self.sink, number)?,
            _ => self.bad(value, verb)?,
        }
        Ok(())
    }

    fn float(&mut self, number: f64, value: &Value, verb: char) -> Written {
        let flags = self.flags;
        match verb {
            'v' => flags.float(self.sink, number, 'g', None)?,
            'g' | 'G' => flags.float(self.sink, number, verb, None)?,
            'e' | 'E' | 'f' => flags.float(self.sink, number, verb, Some(6))?,
            'F' => flags.float(self.sink, number, 'f', Some(6))?,
            'b' | 'x' | 'X' => return Err(refused(verb, "a floating-point number")),
            _ => self.bad(value, verb)?,
        }
        Ok(())
    }

    fn text(&mut self, text: &str, value: &Value, verb: char) -> Written {
        let flags = self.flags;
        match verb {
            'v' if flags.sharp_v => flags.quoted(self.sink, text)?,
            'v' | 's' => flags.string(self.sink, text)?,
            'x' => flags.hexadecimal(self.sink, text, false)?,
            'X' => flags.hexadecimal(self.sink, text, true)?,
            'q' => flags.quoted(self.sink, text)?,
            _ => self.bad(value, verb)?,
        }
        Ok(())
    }

    fn list(&mut self, list: &List, verb: char, depth: usize, erroring: bool) -> Written {
        let (open, between, close) = if self.flags.sharp_v {
            self.push(list.type_name())?;
            if list.is_nil {
                return Ok(self.push("(nil)")?);
            }
            ("{", ", ", "}")
        } else {
            ("[", " ", "]")
        };
        self.push(open)?;
        for (place, value) in list.elements().iter().enumerate() {
            if place > 0 {
                self.push(between)?;
            }
            self.value(value, verb, depth + 1, erroring)?;
        }
        Ok(self.push(close)?)
    }

    fn dict(&mut self, dict: &Dict, verb: char, depth: usize, erroring: bool) -> Written {
        let (between, close) = if self.flags.sharp_v {
            self.push(dict.type_name())?;
            self.push("{")?;
            (", ", "}")
        } else {
            self.push("map[")?;
            (" ", "]")
        };
        for (place, (key, value)) in dict.entries.borrow().iter().enumerate() {
            if place > 0 {
                self.push(between)?;
            }
            self.value(&Value::Text(Arc::clone(key)), verb, depth + 1, erroring)?;
            self.push(":")?;
            self.value(value, verb, depth + 1, erroring)?;
        }
        Ok(self.push(close)?)
    }

    fn time(&mut self, time: Timestamp, value: &Value, verb: char, erroring: bool) -> Written {
        let as_text = matches!(verb, 'v' | 's' | 'x' | 'X' | 'q');
        if erroring || !as_text || self.flags.sharp_v {
            return Err(refused(verb, "a time"));
        }
        self.text(&time_text::default_form(time), value, verb)
    }
}

fn refused(verb: char, kind: &'static str) -> TemplateRenderProblem {
    TemplateRenderProblem::Refused(Refusal::Verb { verb, kind })
}
