//! From `main` to the end of the process.

use std::{error::Error, io, process::ExitCode, thread};

use tokio::{
    runtime::{Builder, Handle, Runtime},
    task::{JoinError, JoinSet},
};

use crate::{report, shutdown::ProcessEnd};

/// The maximum numbers of a process's threads. Each thread keeps memory for itself. A service mostly waits
/// for answers, so on a large machine the other processors stay free for other processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// Threads for tasks that never block; at most one per processor.
    pub working: usize,
    /// Threads for tasks that block.
    pub blocking: usize,
}

impl Threads {
    /// For a service that reads a file or a large object now and then.
    pub const FEW: Self = Self {
        working: 4,
        blocking: 4,
    };

    fn runtime(self) -> io::Result<Runtime> {
        let Self { working, blocking } = self;
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Builder::new_multi_thread()
            .worker_threads(working.min(processors))
            .max_blocking_threads(blocking)
            .enable_all()
            .build()
    }
}

/// Threads for work that may keep them busy, apart from those that keep the lease, answer probes and follow watches.
///
/// The operating system shares the processors among threads, so that slow work here delays those by little.
#[derive(Debug)]
pub struct SideRuntime {
    handle: Handle,
    /// Until this is dropped.
    runtime: Option<Runtime>,
}

impl SideRuntime {
    /// Starts so many threads of this name; not more than there are processors.
    pub fn start(name: &str, threads: usize) -> io::Result<Self> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads.clamp(1, processors))
            .max_blocking_threads(1)
            .thread_name(name)
            .enable_time()
            .build()?;
        Ok(Self {
            handle: runtime.handle().clone(),
            runtime: Some(runtime),
        })
    }

    /// Where work is started.
    #[must_use]
    pub const fn handle(&self) -> &Handle {
        &self.handle
    }
}

/// Does work on another runtime, which does the process's input and output. It ends when nothing waits for it.
pub async fn on<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, JoinError> {
    // A set ends its tasks when it is dropped, which a handle does not.
    let mut works = JoinSet::new();
    let handle = works.spawn_on(work, runtime);
    if let Some(done) = works.join_next().await {
        return done;
    }
    // The set holds one task, so that this is not reached; an ended task never answers.
    handle.abort();
    std::future::pending().await
}

impl Drop for SideRuntime {
    fn drop(&mut self) {
        // An asynchronous caller may not wait for the threads.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs a service to its end, and says why it cannot be run. To be called by `main`.
pub fn main<E: Error>(
    name: &str,
    threads: Threads,
    service: impl Future<Output = Result<ProcessEnd, E>>,
) -> ExitCode {
    // The failed setup may be that of the logs.
    let failed = |error: &dyn Error| {
        eprintln!("{name}: {}", report(error));
        ExitCode::FAILURE
    };
    let runtime = match threads.runtime() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    match runtime.block_on(service) {
        Ok(outcome) => outcome.exit(),
        Err(error) => failed(&error),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        process::ExitCode,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::SeqCst},
        },
    };

    use tokio::task::{JoinSet, spawn_blocking};

    use super::{SideRuntime, Threads, main, on};

    #[test]
    fn a_service_that_cannot_be_run_fails() {
        let service = async { Err(io::Error::other("no")) };
        assert_eq!(main("it", Threads::FEW, service), ExitCode::FAILURE);
    }

    /// A watch, a probe or the lease must not wait for an evaluation.
    #[test]
    fn work_at_the_side_does_not_delay_the_process() {
        let main = Threads {
            working: 1,
            blocking: 1,
        };
        main.runtime().unwrap().block_on(async {
            let side = SideRuntime::start("side", 1).unwrap();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            // Busy until it is told to end, which only the process's own thread can do.
            let busy = side.handle().spawn(async move { ended.recv().is_ok() });
            let probe = tokio::spawn(async { "alive" });
            assert_eq!(probe.await.unwrap(), "alive");
            end.send(()).unwrap();
            assert!(busy.await.unwrap());
        });
    }

    /// Connections belong to the process: those that are made at the side would wait behind the work there.
    #[tokio::test]
    async fn work_at_the_side_has_its_input_and_output_done_by_the_process() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let process = tokio::runtime::Handle::current();
        let side = SideRuntime::start("side", 1).unwrap();
        let connected = side.handle().spawn(async move {
            let connect = tokio::net::TcpStream::connect(address);
            on(&process, connect).await.unwrap().is_ok()
        });
        assert!(connected.await.unwrap());
    }

    #[tokio::test]
    async fn work_that_nothing_waits_for_ends() {
        let process = tokio::runtime::Handle::current();
        let (ended, end) = tokio::sync::oneshot::channel::<()>();
        let work = async move {
            let _ended = ended;
            std::future::pending::<()>().await;
        };
        let waiting = tokio::time::timeout(std::time::Duration::ZERO, on(&process, work));
        assert!(waiting.await.is_err());
        assert!(end.await.is_err(), "the work was dropped with its end");
    }

    #[test]
    fn not_more_blocks_at_a_time_than_is_said() {
        let threads = Threads {
            working: 1,
            blocking: 2,
        };
        let [now, most] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        threads.runtime().unwrap().block_on(async {
            let mut running = JoinSet::new();
            for _ in 0..20 {
                let (now, most) = (Arc::clone(&now), Arc::clone(&most));
                running.spawn(spawn_blocking(move || {
                    most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(2));
                    now.fetch_sub(1, SeqCst);
                }));
            }
            running.join_all().await;
        });
        assert!((1..=2).contains(&most.load(SeqCst)));
    }
}
