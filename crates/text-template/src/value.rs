//! The values of templates: JSON's values, with the types that they have in Go.
//!
//! Dictionaries are shared and can change, lists share their elements, as in Go.

use std::{
    cell::{Ref, RefCell},
    collections::BTreeMap,
    rc::Rc,
    sync::Arc,
};

use jiff::Timestamp;

/// A value.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// Go's invalid value: there is none.
    Nothing,
    /// Go's nil in an `interface {}`: JSON's null.
    Nil,
    Bool(bool),
    /// Go's `int`: constants, lengths, indexes.
    Int(i64),
    /// Go's `int64`: whole numbers of the data, results of arithmetic.
    Int64(i64),
    /// Go's `uint8`: an element of a string.
    Byte(u8),
    /// Go's `float64`.
    Float(f64),
    Text(Arc<str>),
    List(List),
    Dict(Dict),
    Time(Timestamp),
}

/// The type of a list's elements in Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elements {
    Any,
    Texts,
    Ints,
    Lists,
}

/// A slice: a part of elements that others may share.
#[derive(Debug, Clone)]
pub(crate) struct List {
    pub(crate) elements: Elements,
    /// Go tells an empty slice from none.
    pub(crate) is_nil: bool,
    pub(crate) behind: Rc<RefCell<Vec<Value>>>,
    pub(crate) from: usize,
    pub(crate) length: usize,
}

pub(crate) type Entries = BTreeMap<Arc<str>, Value>;

/// A map with strings as keys.
#[derive(Debug, Clone)]
pub(crate) struct Dict {
    /// `map[string]string` instead of `map[string]interface {}`.
    pub(crate) of_texts: bool,
    pub(crate) entries: Rc<RefCell<Entries>>,
}

/// The kinds that Go tells apart when it compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basic {
    None,
    Bool,
    Int,
    Unsigned,
    Float,
    Text,
}

impl Value {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(Arc::from(text))
    }

    /// Without the interface around it.
    pub(crate) fn concrete(self) -> Self {
        match self {
            Self::Nil | Self::Nothing => Self::Nothing,
            other @ (Self::Bool(_)
            | Self::Int(_)
            | Self::Int64(_)
            | Self::Byte(_)
            | Self::Float(_)
            | Self::Text(_)
            | Self::List(_)
            | Self::Dict(_)
            | Self::Time(_)) => other,
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing | Self::Nil)
    }

    /// The name of its type, as `%T` prints it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Nothing | Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Int64(_) => "int64",
            Self::Byte(_) => "uint8",
            Self::Float(_) => "float64",
            Self::Text(_) => "string",
            Self::List(list) => list.type_name(),
            Self::Dict(dict) => dict.type_name(),
            Self::Time(_) => "time.Time",
        }
    }

    /// The name of its kind in Go's package reflect.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::List(_) => "slice",
            Self::Dict(_) => "map",
            Self::Time(_) => "struct",
            Self::Nothing | Self::Nil => "invalid",
            Self::Bool(_)
            | Self::Int(_)
            | Self::Int64(_)
            | Self::Byte(_)
            | Self::Float(_)
            | Self::Text(_) => self.type_name(),
        }
    }

    pub(crate) fn basic(&self) -> Basic {
        match self {
            Self::Bool(_) => Basic::Bool,
            Self::Int(_) | Self::Int64(_) => Basic::Int,
            Self::Byte(_) => Basic::Unsigned,
            Self::Float(_) => Basic::Float,
            Self::Text(_) => Basic::Text,
            Self::Nothing | Self::Nil | Self::List(_) | Self::Dict(_) | Self::Time(_) => {
                Basic::None
            }
        }
    }

    /// Whether `if` takes it for true: not the zero of its type.
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Nothing | Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Int(value) | Self::Int64(value) => *value != 0,
            Self::Byte(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => list.length > 0,
            Self::Dict(dict) => !dict.entries.borrow().is_empty(),
            Self::Time(_) => true,
        }
    }

    /// How many bytes a text has, or how many elements another value.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::List(list) => list.length,
            Self::Dict(dict) => dict.entries.borrow().len(),
            Self::Nothing
            | Self::Nil
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Int64(_)
            | Self::Byte(_)
            | Self::Float(_)
            | Self::Time(_) => 0,
        }
    }

    /// A whole number of any type.
    pub(crate) fn whole(&self) -> Option<i64> {
        match self {
            Self::Int(value) | Self::Int64(value) => Some(*value),
            Self::Byte(value) => Some(i64::from(*value)),
            Self::Nothing
            | Self::Nil
            | Self::Bool(_)
            | Self::Float(_)
            | Self::Text(_)
            | Self::List(_)
            | Self::Dict(_)
            | Self::Time(_) => None,
        }
    }
}

impl List {
    pub(crate) fn type_name(&self) -> &'static str {
        match self.elements {
            Elements::Any => "[]interface {}",
            Elements::Texts => "[]string",
            Elements::Ints => "[]int",
            Elements::Lists => "[][]interface {}",
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Value> {
        if index >= self.length {
            return None;
        }
        self.behind.borrow().get(self.from + index).cloned()
    }

    /// Its elements. They cannot change while these are held.
    pub(crate) fn elements(&self) -> Ref<'_, [Value]> {
        Ref::map(self.behind.borrow(), |behind| {
            let part = behind.get(self.from..self.from + self.length);
            part.unwrap_or_default()
        })
    }

    /// A copy of its elements as they are now. The caller has paid a step for each.
    pub(crate) fn to_vec(&self) -> Vec<Value> {
        self.elements().to_vec()
    }
}

impl Dict {
    pub(crate) fn type_name(&self) -> &'static str {
        if self.of_texts {
            "map[string]string"
        } else {
            "map[string]interface {}"
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        self.entries.borrow().get(key).cloned()
    }

    /// A copy of its entries as they are now, in the order of their keys. The caller has paid a step for each.
    pub(crate) fn to_vec(&self) -> Vec<(Arc<str>, Value)> {
        let entries = self.entries.borrow();
        entries
            .iter()
            .map(|(key, value)| (Arc::clone(key), value.clone()))
            .collect()
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.entries, &other.entries)
    }
}
