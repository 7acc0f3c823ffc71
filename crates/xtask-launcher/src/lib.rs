//! Compiled dependencies that outlive a clone.
//!
//! Owns: the store below the cache directory, the choice of files to put there and to take from there, and
//! the time when the store forgets. Refuses to know: how anything is compiled. Cargo names each compiled
//! dependency by a hash of its version, features, options and compiler, and decides by itself whether it can
//! use a file of the store.
//!
//! Invariant: no crate of this workspace itself enters the store. Cargo tells their versions apart by the
//! times of their files alone, so that one clone's crate could pass for another's.

mod store;
mod units;

pub use store::Store;
