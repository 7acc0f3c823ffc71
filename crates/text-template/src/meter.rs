//! The cost of a rendering so far, and the values that it made.
//!
//! Every list and dictionary is made here and kept to the end. So no value of a template is freed by
//! recursion, or never: neither a dictionary within itself nor one nested a million times.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
};

use crate::{
    error::TemplateLimit,
    limits::TemplateLimits,
    value::{Dict, Elements, Entries, List, Value},
};

#[cfg(test)]
mod tests;

/// The bytes of an element of a list, and of an entry of a dictionary, apart from texts.
const ELEMENT: usize = size_of::<Value>();
const ENTRY: usize = 2 * ELEMENT + 16;

/// Counts a rendering's steps and bytes.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) limits: TemplateLimits,
    steps: Cell<u64>,
    bytes: Cell<usize>,
    lists: RefCell<Vec<Rc<RefCell<Vec<Value>>>>>,
    dicts: RefCell<Vec<Rc<RefCell<Entries>>>>,
}

impl Meter {
    pub(crate) fn new(limits: &TemplateLimits) -> Self {
        Self {
            limits: *limits,
            steps: Cell::new(0),
            bytes: Cell::new(0),
            lists: RefCell::default(),
            dicts: RefCell::default(),
        }
    }

    /// Counts steps.
    pub(crate) fn steps(&self, steps: u64) -> Result<(), TemplateLimit> {
        let total = self.steps.get().saturating_add(steps);
        self.steps.set(total);
        if total > self.limits.steps {
            return Err(TemplateLimit::Steps(self.limits.steps));
        }
        Ok(())
    }

    /// Counts the work on that many bytes or elements.
    pub(crate) fn work(&self, size: usize) -> Result<(), TemplateLimit> {
        self.steps(
            u64::try_from(size / 64)
                .unwrap_or(u64::MAX)
                .saturating_add(1),
        )
    }

    /// Counts a value of that many bytes, before it is made.
    pub(crate) fn room(&self, bytes: usize) -> Result<(), TemplateLimit> {
        if bytes > self.limits.value {
            return Err(TemplateLimit::Value(self.limits.value));
        }
        let total = self.bytes.get().saturating_add(bytes);
        self.bytes.set(total);
        if total > self.limits.memory {
            return Err(TemplateLimit::Memory(self.limits.memory));
        }
        self.work(bytes)
    }

    /// Counts memory that is no value, until it is given back.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), TemplateLimit> {
        let total = self.bytes.get().saturating_add(bytes);
        if total > self.limits.memory {
            return Err(TemplateLimit::Memory(self.limits.memory));
        }
        self.bytes.set(total);
        Ok(())
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_sub(bytes));
    }

    /// Counts the arguments of a function: a step for each 64 bytes of texts, and for each 64 elements.
    pub(crate) fn given(&self, values: &[Value]) -> Result<(), TemplateLimit> {
        let sizes = values.iter().map(Value::size);
        self.looks(sizes.fold(0, usize::saturating_add))
    }

    /// Counts looks at that many bytes, elements or names: a step for each 64, and none for fewer.
    pub(crate) fn looks(&self, size: usize) -> Result<(), TemplateLimit> {
        self.steps(u64::try_from(size / 64).unwrap_or(u64::MAX))
    }

    /// Refuses a depth that is not allowed.
    pub(crate) fn depth(&self, depth: usize) -> Result<(), TemplateLimit> {
        let most = self.limits.nesting();
        if depth > most {
            return Err(TemplateLimit::Depth(most));
        }
        Ok(())
    }

    pub(crate) fn text(&self, text: String) -> Result<Value, TemplateLimit> {
        self.room(text.len())?;
        Ok(Value::Text(Arc::from(text)))
    }

    pub(crate) fn list(
        &self,
        elements: Elements,
        values: Vec<Value>,
    ) -> Result<Value, TemplateLimit> {
        self.room(values.len().saturating_mul(ELEMENT))?;
        let length = values.len();
        let behind = Rc::new(RefCell::new(values));
        self.lists.borrow_mut().push(Rc::clone(&behind));
        Ok(Value::List(List {
            elements,
            is_nil: false,
            behind,
            from: 0,
            length,
        }))
    }

    /// A list that Go calls nil.
    pub(crate) fn nil_list(elements: Elements) -> Value {
        Value::List(List {
            elements,
            is_nil: true,
            behind: Rc::default(),
            from: 0,
            length: 0,
        })
    }

    /// A list of texts.
    pub(crate) fn texts<T: Into<String>>(
        &self,
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Value, TemplateLimit> {
        let mut values = Vec::new();
        for text in texts {
            self.room(ELEMENT)?;
            values.push(self.text(text.into())?);
        }
        self.list(Elements::Texts, values)
    }

    pub(crate) fn dict(&self, of_texts: bool, entries: Entries) -> Result<Value, TemplateLimit> {
        let keys: usize = entries.keys().map(|it| it.len()).sum();
        self.room(entries.len().saturating_mul(ENTRY).saturating_add(keys))?;
        let entries = Rc::new(RefCell::new(entries));
        self.dicts.borrow_mut().push(Rc::clone(&entries));
        Ok(Value::Dict(Dict { of_texts, entries }))
    }

    /// Counts an entry that is added to a dictionary.
    pub(crate) fn entry(&self, dict: &Dict, key: &str) -> Result<(), TemplateLimit> {
        let size = (dict.entries.borrow().len() + 1).saturating_mul(ENTRY);
        if size > self.limits.value {
            return Err(TemplateLimit::Value(self.limits.value));
        }
        self.room(ENTRY + key.len())
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        // All of them are held here, so emptying one frees no other.
        for list in self.lists.get_mut().iter() {
            list.borrow_mut().clear();
        }
        for dict in self.dicts.get_mut().iter() {
            dict.borrow_mut().clear();
        }
    }
}

/// A text that is being written, of a limited length.
#[derive(Debug)]
pub(crate) struct MeteredOutput<'m> {
    meter: &'m Meter,
    pub(crate) text: String,
    most: usize,
    beyond: TemplateLimit,
}

impl<'m> MeteredOutput<'m> {
    /// The output of a template.
    pub(crate) fn output(meter: &'m Meter) -> Self {
        let most = meter.limits.output;
        Self {
            meter,
            text: String::new(),
            most,
            beyond: TemplateLimit::Output(most),
        }
    }

    /// A value.
    pub(crate) fn value(meter: &'m Meter) -> Self {
        let most = meter.limits.value;
        Self {
            meter,
            text: String::new(),
            most,
            beyond: TemplateLimit::Value(most),
        }
    }

    pub(crate) fn meter(&self) -> &'m Meter {
        self.meter
    }

    pub(crate) fn push(&mut self, text: &str) -> Result<(), TemplateLimit> {
        if self.text.len().saturating_add(text.len()) > self.most {
            return Err(self.beyond);
        }
        self.text.push_str(text);
        self.meter.work(text.len())
    }

    pub(crate) fn push_char(&mut self, character: char) -> Result<(), TemplateLimit> {
        if self.text.len() + character.len_utf8() > self.most {
            return Err(self.beyond);
        }
        self.text.push(character);
        Ok(())
    }

    /// The same character many times.
    pub(crate) fn pad(&mut self, character: char, times: usize) -> Result<(), TemplateLimit> {
        if self
            .text
            .len()
            .saturating_add(times.saturating_mul(character.len_utf8()))
            > self.most
        {
            return Err(self.beyond);
        }
        self.text.extend(std::iter::repeat_n(character, times));
        self.meter.work(times)
    }

    /// The written text, as a value.
    pub(crate) fn finish(self) -> Result<Value, TemplateLimit> {
        self.meter.text(self.text)
    }
}
