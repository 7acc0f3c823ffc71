//! The shared parts of programs that measure services: the place, the processes, the callers, the table.

#![allow(dead_code, reason = "no program needs all of it")]

pub(crate) mod connection;
pub(crate) mod echo;
pub(crate) mod follow;
pub(crate) mod load;
pub(crate) mod place;
pub(crate) mod process;
pub(crate) mod processors;
#[path = "../../../crates/authz/benches/table/mod.rs"]
pub(crate) mod table;
