//! The policy-controller beside a real API server, as rows of a table; `cargo xtask bench policies` runs it.
//!
//! The controller is the release program and sees a world of its own. It asks as its own service account, with the
//! rights and under the admission policies of the chart. Its results are compared with computed numbers, and the API
//! server counts its writes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a benchmark that cannot go on ends, and figures are rounded"
)]

mod calls;
mod edits;
mod floor;
mod installed;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use connectors_api::{AccessPolicy, AccessPolicyCondition, ConditionStatus};
use e2e::install;
use futures::TryStreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use calls::Calls;
use edits::{Editing, PAUSE};
use floor::Floor;
use support::load::Times;
use support::place::{self, Place};
use support::process::Process;
use support::table::Table;
use world::{POLICIES, World};

const SERVICE: &str = "policy-controller";
/// How long the world may take until it is as it is to be.
const PATIENCE: Duration = Duration::from_mins(5);
/// How long nothing is to be written when there is nothing to do.
const IDLE: Duration = Duration::from_secs(20);
/// How many times as long as its floor it may take where it cannot be had otherwise.
const BESIDE: [f64; 2] = [1.3, 1.1];

/// Edits of policies, one after the other.
struct Edits {
    how: &'static str,
    pause: Duration,
    count: usize,
    /// The most that they should take, p50 in milliseconds.
    most: [f64; 2],
}

const EDITS: [Edits; 2] = [
    Edits {
        how: "600 ms apart",
        pause: PAUSE,
        count: 40,
        most: [60.0, 40.0],
    },
    Edits {
        how: "back to back",
        pause: Duration::ZERO,
        count: 150,
        most: [150.0, 120.0],
    },
];

/// The floor of all rows.
struct Bare {
    writes: Duration,
    edits: [Times; EDITS.len()],
}

fn main() -> ExitCode {
    let place = Place::enter();
    let kubeconfig = installed::account(&place);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(place.client());
    let account = runtime.block_on(place::client(&kubeconfig));
    let mut bench = Bench {
        world: World::new(client.clone(), &place.namespace),
        arguments: arguments(&place, &kubeconfig),
        client,
        runtime,
        table: Table::default(),
    };
    bench.runtime.block_on(bench.alone());
    eprintln!("making {}", world::size());
    bench.runtime.block_on(bench.world.make());
    eprintln!("the floor");
    let bare = bench.runtime.block_on(bench.floor(&account));
    eprintln!("the policy-controller");
    let controller = bench.converge(bare.writes);
    bench.edits(&bare.edits);
    bench.memory(&controller);
    drop(controller);
    bench.again();
    bench.runtime.block_on(bench.world.remove());
    bench.table.end()
}

/// The arguments of the controller. No policy here has checks, so that it never asks the evaluation service.
fn arguments(place: &Place, kubeconfig: &Path) -> Vec<String> {
    let (authority, token) = (place.file("ca.crt"), place.file("token"));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(&authority, made.cert.pem()).unwrap();
    fs::write(&token, "none").unwrap();
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--namespace={}", install::NAMESPACE),
        "--identity=bench".to_owned(),
        "--evaluation-url=https://localhost:1".to_owned(),
        format!("--evaluation-ca={}", authority.display()),
        format!("--evaluation-token={}", token.display()),
    ]
}

struct Bench {
    world: World,
    arguments: Vec<String>,
    /// The administrator's.
    client: Client,
    runtime: Runtime,
    table: Table,
}

impl Bench {
    /// Other policies would be worked on and counted, too.
    async fn alone(&self) {
        let others = self.world.policies().list(&ListParams::default()).await;
        assert!(
            others.unwrap().items.is_empty(),
            "there are policies already: take a cluster without any, or leave `--cluster` out"
        );
    }

    /// The same writes by bare calls of the controller's account. Nothing of them is left.
    async fn floor(&self, account: &Client) -> Bare {
        let floor = Floor {
            world: &self.world,
            admin: &self.client,
            account,
        };
        let writes = floor.write().await;
        let [apart, at_once] = EDITS.map(|it| it.pause);
        let edits = [floor.edit(apart).await, floor.edit(at_once).await];
        floor.remove().await;
        Bare { writes, edits }
    }

    /// From the start of the controller to the last status, and to nothing else being written.
    fn converge(&mut self, bare: Duration) -> Process {
        let before = self.runtime.block_on(Calls::until_now(&self.client));
        let began = Instant::now();
        let controller = Process::start(SERVICE, &self.arguments);
        let settled = self.runtime.block_on(async {
            timeout(PATIENCE, settled(&self.world))
                .await
                .expect("it settles");
            began.elapsed()
        });
        let [settled_at, later] = self.runtime.block_on(async {
            let settled_at = Calls::until_now(&self.client).await;
            sleep(IDLE).await;
            let later = Calls::until_now(&self.client).await;
            self.world.prove().await;
            [settled_at, later]
        });
        let (written, idle) = (
            settled_at.writes - before.writes,
            later.writes - settled_at.writes,
        );
        let size = world::size();
        let what = format!("from its start until every permission is in force and told; {size}");
        let (settled, bare) = (settled.as_secs_f64(), bare.as_secs_f64());
        self.table.at_most(&what, settled, "s", 15.0, 8.0);
        let own = "a Role, a RoleBinding and a status for each by 24 callers of the same account";
        self.table.figure(own, bare, "s");
        let [must, aim] = BESIDE;
        let what = "from its start until all is in force and told / these bare calls";
        self.table.at_most(what, settled / bare, "×", must, aim);
        let worked = controller.worked().as_secs_f64();
        self.table
            .figure("its own processor time for that", worked, "s");
        let lists = settled_at.lists - before.lists;
        self.table
            .figure("lists for that, its start included", lists as f64, "");
        // A Role, a RoleBinding and a status for each.
        let needless = written as f64 - (POLICIES * 3) as f64;
        self.table.at_most(
            &format!("writes for that beyond the {} that it takes", POLICIES * 3),
            needless,
            "",
            0.0,
            0.0,
        );
        let what = format!("writes in {} s without a change", IDLE.as_secs());
        self.table.at_most(&what, idle as f64, "", 0.0, 0.0);
        controller
    }

    /// One policy at a time names another account; how long until that one has it, and the former has not.
    fn edits(&mut self, bare: &[Times; EDITS.len()]) {
        let editing = Editing {
            world: &self.world,
            client: &self.client,
        };
        for (edits, bare) in EDITS.iter().zip(bare) {
            let Edits {
                how,
                pause,
                count,
                most: [must, aim],
            } = edits;
            let measured = self.runtime.block_on(editing.measure(*count, *pause));
            for (what, times) in ["given", "taken"].into_iter().zip(measured) {
                let name = |figure| {
                    format!(
                        "policy edited → SubjectAccessReview changes, {what}, {how}, {figure} of {count}"
                    )
                };
                let table = &mut self.table;
                table.at_most(&name("p50"), times.median() / 1e3, "ms", *must, *aim);
                table.figure(&name("p99"), times.p99() / 1e3, "ms");
            }
            let own = format!(
                "policy edited, its RoleBinding changed by a bare call → SubjectAccessReview changes, {how}, p50 of {}",
                bare.count()
            );
            self.table.figure(&own, bare.median() / 1e3, "ms");
        }
    }

    fn memory(&mut self, controller: &Process) {
        let (resident, most) = controller.memory();
        let size = world::size();
        let table = &mut self.table;
        let what = format!("resident memory; {size}");
        table.at_most(&what, resident, "MB", 60.0, 40.0);
        table.figure(&format!("the most that was resident; {size}"), most, "MB");
    }

    /// A second start, when everything is as it is to be.
    fn again(&mut self) {
        // It gave its lease back, and would get it either way.
        let leases = Api::<Lease>::namespaced(self.client.clone(), install::NAMESPACE);
        let released = self.runtime.block_on(leases.get(SERVICE)).unwrap();
        let holder = released.spec.and_then(|it| it.holder_identity);
        assert_eq!(holder.unwrap_or_default(), "");
        let before = self.runtime.block_on(Calls::until_now(&self.client));
        let controller = Process::start(SERVICE, &self.arguments);
        let written = self.runtime.block_on(async {
            sleep(IDLE).await;
            Calls::until_now(&self.client).await.writes - before.writes
        });
        let ready = controller.ready_after.as_secs_f64();
        self.table
            .figure("a second start, until the first sweep is over", ready, "s");
        let what = "writes of a second start, with nothing to do";
        self.table.at_most(what, written as f64, "", 0.0, 0.0);
    }
}

/// Until every policy says of itself that its permissions are in force.
async fn settled(world: &World) {
    let policies = world.policies();
    let listed = policies.list(&ListParams::default()).await.unwrap();
    let version = listed.metadata.resource_version.unwrap();
    let is_ready = |it: &AccessPolicy| {
        let conditions = it.status.iter().flat_map(|it| it.conditions.iter());
        let mut conditions = conditions.filter(|it| it.type_ == AccessPolicyCondition::Ready);
        conditions.any(|it| it.status == ConditionStatus::True)
    };
    let key = |it: &AccessPolicy| (it.namespace(), it.name_any());
    let mut ready: HashSet<_> = listed
        .items
        .iter()
        .filter(|it| is_ready(it))
        .map(key)
        .collect();
    let events = policies.watch(&WatchParams::default(), &version).await;
    let mut events = pin!(events.unwrap());
    while ready.len() < POLICIES {
        let event = events.try_next().await.unwrap().expect("the watch goes on");
        if let WatchEvent::Modified(policy) = event
            && is_ready(&policy)
        {
            ready.insert(key(&policy));
        }
    }
}
