//! The files of a volume: from connectors, their classes, and the request of the pod's author.
//!
//! Owns the set of files, the choice between two files of one name, and the data for the templates of a
//! class. It also says which templates of a class no pod can get a file from. The language of the templates is that of `text-template`.
//!
//! Knows nothing of mounts, nodes and the API server: the token and the time are arguments. It does no input or output.
//!
//! Invariant: a set is complete or an error. No file has a placeholder for a missing value. By default no file depends
//! on the order of two classes.

#![forbid(unsafe_code)]

mod built_in;
mod check;
mod error;
mod file_request;
mod file_set;
mod limits;
mod render;
mod tool;

pub use check::UnreadableTemplates;
pub use error::{FileRequestError, FileTemplateError, FilesError};
pub use file_request::FileRequest;
pub use file_set::{ERROR_FILE, FileSet};
pub use limits::MOST_BYTES;
pub use render::render;
pub use tool::{FileConflict, FileContext, Tool};
