//! The files of a volume: from connectors, their classes, and what the author of the pod asks for.
//!
//! Owns which files there are, which of two files of one name counts, and what the templates of a class see. The
//! language of the templates is that of `text-template`.
//!
//! Knows nothing of mounts, nodes and the API server: the token and the time are arguments. It does no input or output.
//!
//! Invariant: a set is complete or an error. No file holds the place of a value that is missing, and no file is one of
//! two that differ by chance.

#![forbid(unsafe_code)]

mod built_in;
mod error;
mod file_request;
mod file_set;
mod limits;
mod render;
mod tool;

pub use error::{FileRequestError, FileTemplateError, FilesError};
pub use file_request::FileRequest;
pub use file_set::FileSet;
pub use limits::MOST_BYTES;
pub use render::render;
pub use tool::{FileConflict, FileContext, Tool};
