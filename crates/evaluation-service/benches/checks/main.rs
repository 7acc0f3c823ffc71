//! What a check costs its two sides; `cargo bench -p evaluation-service --bench checks` prints it.
//!
//! Service and clients are in one process, each on threads of its own, over the Unix socket, and there is no
//! cluster: the figures of `docs/performance.md` come from `cargo xtask bench rego`, these are for finding out
//! in a minute what a change is worth. No object comes twice.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot go on ends, and figures are rounded"
)]

#[allow(dead_code, reason = "another program needs the rest")]
#[path = "../../../../e2e/benches/rego/check.rs"]
mod check;
#[allow(dead_code, reason = "tests need more of it")]
#[path = "../../tests/grpc/fake_api.rs"]
mod fake_api;
#[path = "../batch/worked.rs"]
mod worked;
#[allow(dead_code, reason = "tests need more of it")]
#[path = "../../tests/grpc/world.rs"]
mod world;

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evaluation_api::client::Client;
use evaluation_api::v1::EvaluateChecksRequest;
use tikv_jemallocator::Jemalloc;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use check::Check;
use fake_api::FakeApi;
use worked::{CLIENT, SERVICE, worked};
use world::World;

/// As in the program.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// Callers, the clients that they share, and objects of each call.
const KINDS: [(usize, usize, usize); 4] = [(1, 1, 1), (36, 36, 1), (36, 1, 1), (1, 1, 64)];
const ROUNDS: usize = 5;
/// Objects of a round.
const OF_ROUND: usize = 12_800;
/// Calls that are made ready beside the clock, at a time.
const READY: usize = 1_600;

fn main() {
    // As the callers of the other benchmark: on one thread.
    let clients = thread::Builder::new().name(CLIENT.to_owned());
    clients.spawn(measure).unwrap().join().unwrap();
}

fn measure() {
    let mut service = Builder::new_multi_thread();
    let service = service.worker_threads(2).thread_name(SERVICE).enable_all();
    let service = service.build().unwrap();
    let clients = Builder::new_current_thread().enable_all().build().unwrap();
    let api = FakeApi::new();
    let world = service.block_on(service.spawn(async move {
        let world = World::start(api).await;
        world.ready().await;
        world
    }));
    let world = world.unwrap();
    let check = Check::new("tools");
    let mut asked = 0;
    // Only the first call needs a worker, which makes the program of the module.
    clients.block_on(async {
        let client = Client::over_socket(world.socket.clone());
        client
            .evaluate_checks(call(&check, &mut asked, 1))
            .await
            .unwrap();
    });
    // Of all kinds, or of those that the arguments name by their number, for a profiler.
    let wanted: Vec<usize> = env::args().filter_map(|it| it.parse().ok()).collect();
    let is_wanted = |at: &usize| wanted.is_empty() || wanted.contains(at);
    for (callers, shared, objects) in (0..KINDS.len()).filter(is_wanted).map(|at| KINDS[at]) {
        let ways: Vec<_> = clients.block_on(async {
            let client = || Client::over_socket(world.socket.clone());
            let clients: Vec<_> = (0..shared).map(|_| client()).collect();
            clients.iter().cloned().cycle().take(callers).collect()
        });
        for _ in 0..ROUNDS {
            let mut took = Duration::ZERO;
            let mut work = [Duration::ZERO; 2];
            for _ in 0..OF_ROUND / READY {
                let calls = (0..READY / objects).map(|_| call(&check, &mut asked, objects));
                let calls: Arc<[_]> = calls.collect();
                let before = [SERVICE, CLIENT].map(worked);
                let began = Instant::now();
                clients.block_on(ask_all(&ways, &calls, objects));
                took += began.elapsed();
                let after = [SERVICE, CLIENT].map(worked);
                for (work, (before, after)) in work.iter_mut().zip(before.into_iter().zip(after)) {
                    *work += after.saturating_sub(before);
                }
            }
            let of_check = |time: Duration| time.as_secs_f64() * 1e6 / OF_ROUND as f64;
            let [service, client] = work.map(of_check);
            println!(
                "{callers} callers of {shared} clients, {objects} objects: service {service:.1} µs, client {client:.1} µs of a check; \
                 by the clock {:.1} µs",
                of_check(took),
            );
        }
    }
    service.shutdown_background();
}

fn call(check: &Check, asked: &mut usize, objects: usize) -> EvaluateChecksRequest {
    let first = *asked;
    *asked += objects;
    let texts = (first..*asked).map(|number| check.object_for(first, number).to_string().into());
    check.question_of_all(first, texts.collect())
}

/// Every caller takes the next call until there is none.
async fn ask_all(ways: &[Client], calls: &Arc<[EvaluateChecksRequest]>, objects: usize) {
    let next = Arc::new(AtomicUsize::new(0));
    let mut callers = JoinSet::new();
    for client in ways {
        let (client, next, calls) = (client.clone(), Arc::clone(&next), Arc::clone(calls));
        callers.spawn(async move {
            while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                let answer = client.evaluate_checks(call.clone()).await.unwrap();
                assert_eq!(answer.checks[0].objects.len(), objects);
            }
        });
    }
    callers.join_all().await;
}
