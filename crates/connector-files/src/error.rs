//! The errors of a request for files, or of the files.

use text_template::{TemplateParseError, TemplateRenderError};
use thiserror::Error;

use crate::limits::{MOST_BYTES, MOST_FILES};

/// Why the attributes of a volume ask for no files that there can be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FileRequestError {
    /// No name of a configuration or file.
    #[error(
        "volume attribute `configuration.names` cannot list `{0}`: use the name of a configuration, `!file`, or `!class/file`"
    )]
    Name(String),
    /// Once is enough.
    #[error("volume attribute `configuration.names` lists `{0}` twice")]
    Twice(String),
    /// Too many names.
    #[error("volume attribute `configuration.names` lists more than {0} names")]
    TooMany(usize),
    /// No JSON.
    #[error("volume attribute `configuration.params` is no JSON: line {line}, column {column}")]
    NotJson {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
    },
    /// JSON of another form.
    #[error(
        "volume attribute `configuration.params`: {0} must be {1}, as in {{\"docker\": {{\"registry\": \"eu\"}}}}"
    )]
    Form(String, &'static str),
    /// Parameters of a configuration that is not asked for.
    #[error(
        "volume attribute `configuration.params` has values for `{0}`, which `configuration.names` does not list"
    )]
    NotListed(String),
}

/// Why there are no files. The messages quote no value and no token.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FilesError {
    /// No class has the configuration.
    #[error("no class of these connectors has a configuration `{name}`; they have {known}")]
    NoConfiguration {
        /// The requested configuration.
        name: String,
        /// The existing configurations.
        known: String,
    },
    /// A value is needed.
    #[error(
        "configuration `{configuration}` of class {class} needs a value of `{param}`: give it in the volume attribute `configuration.params`"
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
        "configuration `{configuration}` has no parameter `{param}`, which the volume attribute `configuration.params` gives a value; it has {known}"
    )]
    NoParam {
        /// The configuration.
        configuration: String,
        /// The given parameter.
        param: String,
        /// The existing parameters.
        known: String,
    },
    /// A file that no volume has.
    #[error("`{0}` is no name of a file in a volume")]
    FileName(String),
    /// The exclusion matches no file.
    #[error(
        "volume attribute `configuration.names` leaves out `{0}`, which is not among the files"
    )]
    NothingLeftOut(String),
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
        "connectors {first} and {second} have different proxies: use a volume for each, or leave out `!{file}`"
    )]
    Proxies {
        /// The one connector.
        first: String,
        /// The other connector.
        second: String,
        /// The first of the files about it.
        file: String,
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
    #[error("`{file}` prints a value that is missing (<no value>, line {line})")]
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
