//! The request of a pod's author: configurations by name, files to leave out, and values of parameters.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::{
    names::is_dns_subdomain,
    pod_wish::attributes::{FILES, PARAMS},
    quoted, shortened,
};
use serde_json::Value;

use crate::{
    error::{FileRequestError, listed},
    file_set::is_file_name,
};

/// The most names of a list.
const MOST_NAMES: usize = 64;
/// The longest name of a configuration.
const LONGEST_NAME: usize = 253;

/// The values of parameters by configuration.
type Params = BTreeMap<String, BTreeMap<String, String>>;

/// The files that a pod asks for. By default there are only those that are built in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileRequest {
    /// The names of configurations, none twice, in the order in which they were written.
    pub(crate) configurations: Vec<String>,
    /// The files that are left out of all classes and of the built-in ones.
    pub(crate) left_out: BTreeSet<String>,
    /// The files to leave out of the output of one class: class and file.
    pub(crate) left_out_of_class: BTreeSet<(String, String)>,
    /// The values of parameters.
    pub(crate) params: Params,
}

impl FileRequest {
    /// Reads the volume attributes about files, each by its name.
    pub fn of_attributes<'a>(
        text: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Self, FileRequestError> {
        Self::parse(text(FILES), text(PARAMS))
    }

    /// Reads the volume attributes `configuration.names` and `configuration.params`.
    pub fn parse(names: Option<&str>, params: Option<&str>) -> Result<Self, FileRequestError> {
        let mut request = Self::default();
        let list = names.unwrap_or_default();
        let names: Vec<&str> = list.split(',').map(str::trim).collect();
        if names.len() > MOST_NAMES {
            return Err(FileRequestError::TooMany {
                list: shortened(list),
                count: names.len(),
                most: MOST_NAMES,
            });
        }
        let is_one_empty_name = names == [""];
        for name in names.into_iter().filter(|_| !is_one_empty_name) {
            if !request.add(name)? {
                return Err(FileRequestError::Twice(shortened(name)));
            }
        }
        if let Some(params) = params {
            request.params = read(params)?;
        }
        let is_not_listed = |name: &&String| !request.configurations.contains(name);
        match request.params.keys().find(is_not_listed) {
            Some(name) => Err(FileRequestError::NotListed {
                name: quoted(name),
                listed: listed(request.configurations.iter().map(String::as_str)),
            }),
            None => Ok(request),
        }
    }

    /// True if the files depend on the connectors' classes.
    #[must_use]
    pub fn needs_classes(&self) -> bool {
        !self.configurations.is_empty() || !self.left_out_of_class.is_empty()
    }

    /// Whether a file of a class is left out.
    pub(crate) fn leaves_out(&self, class: &str, file: &str) -> bool {
        let mut of_classes = self.left_out_of_class.iter();
        self.left_out.contains(file) || of_classes.any(|it| (&*it.0, &*it.1) == (class, file))
    }

    /// False if the name was there before.
    fn add(&mut self, name: &str) -> Result<bool, FileRequestError> {
        let wrong = || FileRequestError::Name(shortened(name));
        let Some(left_out) = name.strip_prefix('!') else {
            if !is_configuration(name) {
                return Err(wrong());
            }
            let is_new = !self.configurations.iter().any(|it| it == name);
            self.configurations.push(name.to_owned());
            return Ok(is_new);
        };
        match left_out.split_once('/') {
            None if is_file_name(left_out) => Ok(self.left_out.insert(left_out.to_owned())),
            Some((class, file)) if is_dns_subdomain(class) && is_file_name(file) => {
                let pair = (class.to_owned(), file.to_owned());
                Ok(self.left_out_of_class.insert(pair))
            }
            None | Some(_) => Err(wrong()),
        }
    }

    /// The value that was given for a parameter.
    pub(crate) fn value(&self, configuration: &str, param: &str) -> Option<&str> {
        let values = self.params.get(configuration)?;
        values.get(param).map(String::as_str)
    }
}

fn is_configuration(name: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-._".contains(it);
    !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(is_plain)
}

fn read(params: &str) -> Result<Params, FileRequestError> {
    let value: Value = serde_json::from_str(params).map_err(|error| FileRequestError::NotJson {
        value: shortened(params),
        line: error.line(),
        column: error.column(),
    })?;
    let Value::Object(configurations) = value else {
        return Err(form("it".to_owned(), "an object of configurations", &value));
    };
    let mut read = Params::new();
    for (configuration, values) in configurations {
        let Value::Object(values) = values else {
            let place = format!("`{}`", quoted(&configuration));
            return Err(form(place, "an object of values", &values));
        };
        let mut texts = BTreeMap::new();
        for (param, value) in values {
            let Value::String(text) = value else {
                let place = format!("`{}`.`{}`", quoted(&configuration), quoted(&param));
                return Err(form(place, "a text", &value));
            };
            texts.insert(param, text);
        }
        read.insert(configuration, texts);
    }
    Ok(read)
}

fn form(place: String, wanted: &'static str, value: &Value) -> FileRequestError {
    FileRequestError::Form {
        place,
        wanted,
        value: shortened(&value.to_string()),
    }
}

#[cfg(test)]
mod tests;
