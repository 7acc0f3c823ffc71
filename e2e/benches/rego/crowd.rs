//! A thousand callers, without and with a caller that sends bombs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evaluation_api::client::Client;
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::bombs::{Asker, Bomber, Controller, Watched};
use crate::check::Check;
use crate::service::{Program, Running};
use crate::support::load::{Times, open_loop};
use crate::support::place::Place;
use crate::support::table::Table;
use crate::{grants, list};

/// The callers that ask about access, and their accounts: each account is one caller for the service's
/// limits.
const CALLERS: usize = 1_000;
const ACCOUNTS: usize = 10;
/// Their calls in a second.
const RATE: f64 = 1_000.0;
/// The callers that ask about checks meanwhile, and their calls in a second. One namespace has room for so
/// many.
const CONTROLLERS: usize = 4;
const CHECKS: f64 = 50.0;
const GRANTS: usize = 10;
/// The length of each round without bombs and with them, and the uncounted time at its start.
const LOAD: Duration = Duration::from_secs(8);
const START: Duration = Duration::from_secs(1);
const ROUNDS: usize = 5;
/// Where the objects of the controllers begin: far from all others.
const FIRST: usize = 1_000_000;

/// Figures of one kind of call.
struct Figures {
    name: &'static str,
    calm: Times,
    bombed: Times,
    ratios: Vec<f64>,
}

pub(crate) fn rows(
    table: &mut Table,
    check: &Check,
    service: &Running,
    program: &Program,
    place: &Place,
) {
    let tokens: Vec<_> = (0..ACCOUNTS)
        .map(|number| place.token(&format!("caller-{number}")))
        .collect();
    let controller = place.token("controller");
    // Another tenant: the effects of a namespace on itself do not count.
    let foreign = format!("{}-bombs", place.namespace);
    place.kubectl.create_namespace(&foreign, &[]).unwrap();
    let bomber = place.token_in(&foreign, "bomber");
    let all = Builder::new_multi_thread().enable_all().build().unwrap();
    all.block_on(async {
        grants::make(&place.client().await, &place.namespace, 0..GRANTS).await;
        let questions = grants::questions(&place.namespace, GRANTS, CALLERS).into();
        let clients: Vec<Client> = tokens
            .into_iter()
            .map(|token| program.over_tls(service, token))
            .collect();
        let asker = |client| Asker {
            client,
            questions: Arc::clone(&questions),
        };
        let askers = clients.into_iter().cycle().take(CALLERS).map(asker);
        let controller = Controller {
            client: program.over_tls(service, controller),
            check: check.clone(),
            asked: Arc::new(AtomicUsize::new(FIRST)),
        };
        let crowd = Crowd {
            askers: askers.collect(),
            controllers: vec![controller; CONTROLLERS],
            bomber: Arc::new(Bomber {
                client: program.over_tls(service, bomber),
                check: Check::new(&foreign),
                next: AtomicUsize::new(0),
                ended: Mutex::default(),
            }),
            service: service.process.id(),
        };
        crowd.measure(table).await;
    });
    let gone = format!("delete namespace {foreign} --wait=false");
    place.kubectl.run(&gone).unwrap();
}

struct Crowd {
    askers: Vec<Asker>,
    controllers: Vec<Controller>,
    bomber: Arc<Bomber>,
    service: u32,
}

impl Crowd {
    async fn measure(&self, table: &mut Table) {
        // Tokens are reviewed and workers started before anything counts.
        self.both(Duration::from_secs(2)).await;
        let mut figures = ["CheckAccess over TLS", "EvaluateChecks over TLS"].map(|name| Figures {
            name,
            calm: Times::default(),
            bombed: Times::default(),
            ratios: Vec::new(),
        });
        let (mut least, mut most) = (0.0_f64, 0.0_f64);
        for _ in 0..ROUNDS {
            let watched = Watched::begin(self.service);
            let calm = self.both(LOAD).await;
            least = least.max(watched.end());
            let stop = Arc::new(AtomicBool::new(false));
            let bombs = tokio::spawn(Arc::clone(&self.bomber).run(Arc::clone(&stop)));
            sleep(START).await;
            let watched = Watched::begin(self.service);
            let bombed = self.both(LOAD).await;
            most = most.max(watched.end());
            stop.store(true, Ordering::Relaxed);
            bombs.await.unwrap();
            for ((figures, calm), bombed) in figures.iter_mut().zip(calm).zip(bombed) {
                figures.ratios.push(bombed.p99() / calm.p99());
                figures.calm.extend(calm);
                figures.bombed.extend(bombed);
            }
        }
        for figures in figures {
            figures.rows(table);
        }
        self.bombs(table);
        table.figure(
            "resident memory of service and workers at most, calm",
            least,
            "MB",
        );
        let what = "resident memory of service and workers at most, beside bombs";
        // The limit of the container, and the memory of the service with two complete workers.
        table.at_most(what, most, "MB", 805.0, 308.0);
    }

    /// The calls of all but the one with the bombs, of each kind.
    async fn both(&self, length: Duration) -> [Times; 2] {
        let askers = open_loop(&self.askers, RATE, length);
        let controllers = open_loop(&self.controllers, CHECKS, length);
        tokio::join!(askers, controllers).into()
    }

    fn bombs(&self, table: &mut Table) {
        let ended = self.bomber.ended.lock().unwrap();
        for bomb in list::all() {
            assert!(ended.contains_key(bomb.name), "{} never ended", bomb.name);
        }
        let count: usize = ended.values().sum();
        let what = format!(
            "bombs of {} kinds, each of which ended with its own reason",
            ended.len()
        );
        table.figure(&what, count as f64, "");
    }
}

impl Figures {
    fn rows(mut self, table: &mut Table) {
        let Self { name, .. } = self;
        let count = self.calm.count();
        let what = |when: &str| format!("{name}, {CALLERS} callers, p99 of {count}, {when}");
        table.figure(&what("calm"), self.calm.p99() / 1e3, "ms");
        table.figure(&what("beside bombs"), self.bombed.p99() / 1e3, "ms");
        self.ratios.sort_unstable_by(f64::total_cmp);
        let (least, most) = (self.ratios[0], self.ratios[ROUNDS - 1]);
        let what =
            format!("{name}, p99 beside bombs / calm ({least:.1} to {most:.1} in {ROUNDS} rounds)");
        table.at_most(&what, self.ratios[ROUNDS / 2], "×", 3.0, 1.5);
    }
}
