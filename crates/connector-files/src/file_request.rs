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
mod tests {
    use super::*;

    fn names(text: &str) -> Result<FileRequest, FileRequestError> {
        FileRequest::parse(Some(text), None)
    }

    #[test]
    fn nothing_and_empty_words_ask_for_what_is_built_in() {
        let none = FileRequest::default();
        for (listed, params) in [
            (None, None),
            (Some(""), None),
            (Some("  "), Some("{}")),
            (None, Some(" {} ")),
        ] {
            assert_eq!(FileRequest::parse(listed, params), Ok(none.clone()));
        }
    }

    #[test]
    fn configurations_keep_their_order_beside_files_that_are_left_out() {
        let request = names("settings , docker,!.env, !oci/config.json").unwrap();
        assert_eq!(request.configurations, ["settings", "docker"]);
        assert!(request.left_out.contains(".env"));
        let pair = ("oci".to_owned(), "config.json".to_owned());
        assert!(request.left_out_of_class.contains(&pair));
    }

    #[test]
    fn names_that_mean_nothing_are_refused_with_what_was_written() {
        for bad in [
            "a,",
            ",",
            "a,,b",
            "a b",
            "!",
            "!a/b/c",
            "!/f",
            "!A_/f",
            "!../f",
            "a/b",
            "!.connector",
            "!oci/",
        ] {
            let error = names(bad).unwrap_err();
            assert!(matches!(error, FileRequestError::Name(_)), "{bad}: {error}");
        }
        for bad in ["a,a", "!f,!f", "!c/f,!c/f"] {
            let error = names(bad).unwrap_err();
            assert!(
                matches!(error, FileRequestError::Twice(_)),
                "{bad}: {error}"
            );
        }
        let many = |count: usize| {
            let all: Vec<_> = (0..count).map(|it| format!("x{it}")).collect();
            names(&all.join(","))
        };
        assert_eq!(many(MOST_NAMES).unwrap().configurations.len(), MOST_NAMES);
        let error = many(MOST_NAMES + 1).unwrap_err().to_string();
        assert!(error.contains("it lists 65, use at most 64"), "{error}");
    }

    #[test]
    fn values_are_texts_of_configurations_that_are_listed() {
        let parse = |params: &str| FileRequest::parse(Some("docker"), Some(params));
        let request = parse(r#"{"docker": {"registry": "eu", "empty": ""}}"#).unwrap();
        assert_eq!(request.value("docker", "registry"), Some("eu"));
        assert_eq!(request.value("docker", "empty"), Some(""));
        assert_eq!(request.value("docker", "other"), None);
        for (bad, told) in [
            ("", "line 1, column 0"),
            ("{\n \"docker\": x}", "line 2, column 12"),
            ("[]", "it must be an object of configurations"),
            (r#"{"docker": []}"#, "`docker` must be an object of values"),
            (r#"{"docker": {"a": 1}}"#, "`docker`.`a` must be a text"),
            (
                r#"{"other": {}}"#,
                "`other`, which `configuration.names` does not list: it lists docker",
            ),
        ] {
            let error = parse(bad).unwrap_err().to_string();
            assert!(error.contains(told), "{bad}: {error}");
        }
    }
}
