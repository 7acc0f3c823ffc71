//! Helpers of both tests.

mod cluster;
mod driver;
#[path = "../common/files.rs"]
mod files;
#[path = "../common/program.rs"]
mod program;

pub(crate) use cluster::{Cluster, Pod};
pub(crate) use driver::Driver;
pub(crate) use program::{until, within};
