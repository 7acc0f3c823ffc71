//! The errors of a request for files, or of the files.

use connectors_api::quoted;
use text_template::{TemplateParseError, TemplateRenderError};
use thiserror::Error;

use crate::limits::{MOST_BYTES, MOST_FILES};

/// Why the attributes of a volume ask for no files that there can be. Each message names the attribute, what is written
/// there, and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FileRequestError {
    /// No name of a configuration or file.
    #[error(
        "volume attribute `configuration.names` cannot list `{0}`: use the name of a configuration, `!file`, or `!class/file`"
    )]
    Name(String),
    /// Once is enough.
    #[error("volume attribute `configuration.names` lists `{0}` twice: list it once")]
    Twice(String),
    /// Too many names.
    #[error(
        "volume attribute `configuration.names` cannot be `{list}`: it lists {count}, use at most {most}"
    )]
    TooMany {
        /// The list.
        list: String,
        /// Its length.
        count: usize,
        /// The limit.
        most: usize,
    },
    /// No JSON.
    #[error(
        "volume attribute `configuration.params` cannot be `{value}`: line {line}, column {column} is no JSON; use {EXAMPLE}"
    )]
    NotJson {
        /// The text.
        value: String,
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
    },
    /// JSON of another form.
    #[error(
        "volume attribute `configuration.params`: {place} must be {wanted} and not `{value}`; use {EXAMPLE}"
    )]
    Form {
        /// The place in the JSON.
        place: String,
        /// The form that is needed there.
        wanted: &'static str,
        /// The JSON that is there.
        value: String,
    },
    /// Parameters of a configuration that is not asked for.
    #[error(
        "volume attribute `configuration.params` has values for `{name}`, which `configuration.names` does not list: it lists {listed}"
    )]
    NotListed {
        /// The configuration.
        name: String,
        /// The configurations that are asked for.
        listed: String,
    },
}

/// The form of `configuration.params`.
const EXAMPLE: &str = r#"an object of objects of texts, as in {"docker": {"registry": "eu"}}"#;

/// Why there are no files. The messages quote no value of a parameter and no token.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilesError {
    /// No class has the configuration.
    #[error(
        "volume attribute `configuration.names` cannot list `{name}`: no class of these connectors has a configuration `{name}`; they have {known}"
    )]
    NoConfiguration {
        /// The requested configuration.
        name: String,
        /// The existing configurations.
        known: String,
    },
    /// A value is needed.
    #[error(
        "configuration `{configuration}` of class {class} needs a value of `{param}`: give it in the volume attribute `configuration.params`, {EXAMPLE}"
    )]
    NoValue {
        /// The class.
        class: String,
        /// The configuration.
        configuration: String,
        /// The parameter.
        param: String,
    },
    /// A value of nothing.
    #[error(
        "volume attribute `configuration.params` cannot give a value to `{param}`: configuration `{configuration}` has no parameter `{param}`; it has {known}"
    )]
    NoParam {
        /// The configuration.
        configuration: String,
        /// The given parameter.
        param: String,
        /// The existing parameters.
        known: String,
    },
    /// The exclusion matches no file.
    #[error(
        "volume attribute `configuration.names` leaves out `{name}`, which is not among the files; they are {known}"
    )]
    NothingLeftOut {
        /// As it was written.
        name: String,
        /// The existing files.
        known: String,
    },
    /// A name is unknown, and the class that may know it is missing.
    #[error("{unknown} (the class of connector {connector} does not exist, or cannot be read)")]
    ClassMissing {
        /// The unknown name.
        unknown: Box<Self>,
        /// The first connector without its class.
        connector: String,
    },
    /// A file that no volume has.
    #[error("`{0}` is no name of a file in a volume")]
    FileName(String),
    /// Two files of one name, of two classes.
    #[error(
        "`{file}` is written by class {first} and again by class {second}: leave one out with `!{first}/{file}` or `!{second}/{file}` in the volume attribute `configuration.names`"
    )]
    Conflict {
        /// The name.
        file: String,
        /// The one class.
        first: String,
        /// The other class.
        second: String,
    },
    /// Two files of one name, of two configurations of one class.
    #[error(
        "`{file}` is written by the configurations {first} and {second} of class {class}: list one of them in the volume attribute `configuration.names`, or leave the file out with `!{class}/{file}`"
    )]
    Repeated {
        /// The name.
        file: String,
        /// The class.
        class: String,
        /// The one configuration.
        first: String,
        /// The other configuration.
        second: String,
    },
    /// The address that other software wrote for a proxy is invalid.
    #[error(
        "connector {0}: `status.proxy.httpAddress.url` is no address of a proxy: use http://host:port"
    )]
    ProxyAddress(String),
    /// Two proxies, and files for one.
    #[error(
        "connectors {first} and {second} have different proxies: use a volume for each, or add `{left_out}` to the volume attribute `configuration.names`"
    )]
    Proxies {
        /// The one connector.
        first: String,
        /// The other connector.
        second: String,
        /// The exclusions without which the files about a proxy are made.
        left_out: String,
    },
    /// A template of a class gives no file.
    #[error("class {class}, configuration `{configuration}`: {error}")]
    Configuration {
        /// The class.
        class: String,
        /// The configuration.
        configuration: String,
        /// The error, and its place.
        #[source]
        error: FileTemplateError,
    },
    /// More than a volume takes.
    #[error("a volume takes {MOST_FILES} files of {MOST_BYTES} bytes in all, and these are more")]
    TooMuch,
}

impl FilesError {
    /// True if the volume's attributes are at fault: they name what is not there, and all classes were there to be asked.
    /// Any other fault may be that of a class or a connector.
    #[must_use]
    pub const fn is_of_attributes(&self) -> bool {
        matches!(
            self,
            Self::NoConfiguration { .. } | Self::NoParam { .. } | Self::NothingLeftOut { .. }
        )
    }
}

/// Names in a message.
const MOST_NAMES: usize = 10;

/// The first of these names, for a message.
pub(crate) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    let shown = names.iter().take(MOST_NAMES).map(|name| quoted(name));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Why a template gives no file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FileTemplateError {
    /// It is none.
    #[error(transparent)]
    Parse(Box<TemplateParseError>),
    /// It has no result.
    #[error(transparent)]
    Render(Box<TemplateRenderError>),
    /// It has none with the token of this pod, which no message may quote.
    #[error("`{0}` cannot be made with the token of this pod")]
    WithThisToken(String),
    /// It needs a token, and the pod has none.
    #[error(
        "`{0}` depends on the pod's token, and the kubelet handed none (chart value csiNode.proxyToken.audience)"
    )]
    NoToken(String),
    /// A value is missing that it prints.
    #[error("`{file}` prints a value that is missing (<no value> or <nil>, line {line})")]
    MissingValue {
        /// The file.
        file: String,
        /// The line of the file.
        line: usize,
    },
}

impl From<TemplateParseError> for FileTemplateError {
    fn from(error: TemplateParseError) -> Self {
        Self::Parse(Box::new(error))
    }
}

impl From<TemplateRenderError> for FileTemplateError {
    fn from(error: TemplateRenderError) -> Self {
        Self::Render(Box::new(error))
    }
}

#[cfg(test)]
mod tests;
