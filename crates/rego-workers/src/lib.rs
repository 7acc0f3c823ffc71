//! Rego in processes that can be killed.
//!
//! An author of a policy may write a module that never ends, or that asks for all memory. So a module is parsed and
//! evaluated in a worker. A worker is this very program, started by itself, without the environment, with limits on
//! address space, processor time and files. It takes one job at a time. It is killed when it takes too long. The end
//! of a worker affects only its job.
//!
//! A program that has a [`WorkerPool`] calls [`run_worker`] when its first argument is [`ARGUMENT`].
//!
//! The crate knows nothing of clusters and callers. Invariant: only an answer in the exact form counts. Everything
//! else is a failure, and no failure passes.

mod frame;
mod worker;
mod worker_pool;

pub use frame::Sound;
pub use worker::{ARGUMENT, run as run_worker};
pub use worker_pool::{
    ModuleLimits, ModuleOutcome, NoReply, PoolError, PoolWatcher, WORKER_ALLOCATOR, WorkerPool,
};
