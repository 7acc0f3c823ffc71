//! The evaluation service, and the workers that it starts for Rego.

use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;

/// A check allocates much, and takes a fifth less processor time than with the allocator of the C library.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    evaluation_service::main()
}
