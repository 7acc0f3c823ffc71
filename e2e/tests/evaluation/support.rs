//! The shared parts of the scenarios.

mod asking;
mod files;
mod judge;
mod permission;
mod process;
mod proxy;
mod stage;
mod truth;

pub(crate) use files::{Authority, Pair, replace};
pub(crate) use judge::Seen;
pub(crate) use process::program;
pub(crate) use proxy::Way;
pub(crate) use stage::{Alone, MOST, Secret, Stage, undisturbed};
