//! Rego in processes that can be killed.
//!
//! Whoever may write a policy may write a module that never ends, or asks for all memory there is. So a
//! module is parsed and evaluated in a worker: this very program, started by itself, without environment,
//! with limits on address space, processor time and files. It takes one job at a time and is killed when
//! it takes too long. What happens to one worker is the matter of one job.
//!
//! A program that has a [`WorkerPool`] calls [`run_worker`] when its first argument is [`ARGUMENT`].
//!
//! Knows nothing of clusters and callers. Invariant: only an answer in the exact form counts; everything else
//! is a failure, and no failure passes.

mod frame;
mod worker;
mod worker_pool;

pub use frame::Sound;
pub use worker::{ARGUMENT, run as run_worker};
pub use worker_pool::{ModuleLimits, ModuleOutcome, NoReply, PoolError, PoolWatcher, WorkerPool};
