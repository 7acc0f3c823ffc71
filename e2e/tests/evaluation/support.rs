//! The shared parts of the scenarios.

mod asking;
#[path = "../common/files.rs"]
mod files;
mod judge;
mod permission;
mod process;
#[path = "../common/program.rs"]
mod program;
mod proxy;
#[path = "../common/session.rs"]
pub(crate) mod session;
mod stage;
mod truth;

pub(crate) use files::{Authority, Pair, replace};
pub(crate) use judge::Seen;
pub(crate) use program::program;
pub(crate) use proxy::Way;
pub(crate) use stage::{Alone, MOST, Secret, Stage, undisturbed};
