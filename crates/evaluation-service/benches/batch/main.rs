//! What a decision of a batch costs its two sides; `cargo bench -p evaluation-service` prints it.
//!
//! Service and clients are in one process, each on threads of its own, over the Unix socket, and there is
//! no cluster: the figure of `docs/performance.md` comes from `cargo xtask bench evaluation`, this one is
//! for finding out in a minute what a change is worth. Times are the processor's, not the clock's.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot go on ends, and figures are rounded"
)]

#[allow(dead_code, reason = "tests need more of it")]
#[path = "../../tests/grpc/fake_api.rs"]
mod fake_api;
mod grants;
mod worked;
#[allow(dead_code, reason = "tests need more of it")]
#[path = "../../tests/grpc/world.rs"]
mod world;

use std::time::{Duration, Instant};

use evaluation_api::access::{AccessQuestion, Permitted};
use evaluation_api::client::Client;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use fake_api::FakeApi;
use worked::{CLIENT, SERVICE, worked};
use world::World;

const GRANTS: usize = 10_000;
/// Questions of a batch, and callers who send such.
const BATCH: usize = 128;
const CALLERS: usize = 4;
/// Rounds, and how long each is.
const ROUNDS: usize = 5;
const LENGTH: Duration = Duration::from_secs(3);

fn main() {
    let runtime = |name: &str| -> Runtime {
        let mut builder = Builder::new_multi_thread();
        let builder = builder.worker_threads(2).thread_name(name).enable_all();
        builder.build().unwrap()
    };
    let (service, clients) = (runtime(SERVICE), runtime(CLIENT));
    let api = FakeApi::new();
    grants::put(&api, GRANTS);
    let world = service.block_on(service.spawn(async move {
        let world = World::start(api).await;
        world.ready().await;
        world
    }));
    let world = world.unwrap();
    let questions = grants::questions(GRANTS, BATCH * CALLERS);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let before = [SERVICE, CLIENT].map(worked);
        let decisions = clients.block_on(async {
            let mut running = JoinSet::new();
            for questions in questions.chunks(BATCH) {
                let client = Client::over_socket(world.socket.clone());
                running.spawn(batches(client, questions.to_vec()));
            }
            running.join_all().await.into_iter().sum::<usize>()
        });
        let took = began.elapsed();
        let [service, client] =
            [(SERVICE, before[0]), (CLIENT, before[1])].map(|(name, before)| {
                worked(name).saturating_sub(before).as_secs_f64() * 1e6 / decisions as f64
            });
        println!(
            "service {service:.2} µs, client {client:.2} µs, both {:.2} µs of a decision; {:.2} M decisions/s by the clock",
            service + client,
            decisions as f64 / took.as_secs_f64() / 1e6,
        );
    }
    service.shutdown_background();
}

async fn batches(client: Client, questions: Vec<(AccessQuestion, bool)>) -> usize {
    let (asked, wanted): (Vec<_>, Vec<_>) = questions.into_iter().unzip();
    let end = Instant::now() + LENGTH;
    let mut decisions = 0;
    while Instant::now() < end {
        let answers = client.batch_check_access(&asked).await.unwrap();
        let answers = answers.into_iter().map(Result::unwrap);
        assert!(
            answers
                .map(Permitted::is_allowed)
                .eq(wanted.iter().copied())
        );
        decisions += wanted.len();
    }
    decisions
}
