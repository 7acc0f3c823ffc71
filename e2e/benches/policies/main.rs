//! The policy-controller beside a real API server, as rows of a table; `cargo xtask bench policies` runs it.
//!
//! The controller is the release program and sees a world of its own. Its results are compared with computed
//! numbers, and the API server counts its writes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a benchmark that cannot go on ends, and figures are rounded"
)]

#[path = "../support/mod.rs"]
mod support;
mod world;
mod writes;

use std::collections::HashSet;
use std::fs;
use std::pin::pin;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use connectors_api::{AccessPolicy, AccessPolicyCondition, ConditionStatus};
use futures::TryStreamExt;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use support::load::Times;
use support::place::Place;
use support::process::Process;
use support::table::Table;
use world::{ACCOUNT, POLICIES, World, policy};
use writes::writes;

const SERVICE: &str = "policy-controller";
/// How long the world may take until it is as it is to be.
const PATIENCE: Duration = Duration::from_mins(5);
/// How long nothing is to be written when there is nothing to do.
const IDLE: Duration = Duration::from_secs(20);
/// Policies that are edited, one after the other.
const EDITS: usize = 300;

fn main() -> ExitCode {
    let place = Place::enter();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let client = runtime.block_on(place.client());
    let mut bench = Bench {
        world: World::new(client.clone(), &place.namespace),
        arguments: arguments(&place),
        client,
        place,
        runtime,
        table: Table::default(),
    };
    bench.runtime.block_on(bench.alone());
    eprintln!("making {}", world::size());
    bench.runtime.block_on(bench.world.make());
    let controller = bench.converge();
    bench.edits();
    bench.memory(&controller);
    drop(controller);
    bench.again();
    bench.runtime.block_on(bench.world.remove());
    bench.table.end()
}

/// The arguments of the controller. No policy here has checks, so that it never asks the evaluation service.
fn arguments(place: &Place) -> Vec<String> {
    let (authority, token) = (place.file("ca.crt"), place.file("token"));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(&authority, made.cert.pem()).unwrap();
    fs::write(&token, "none").unwrap();
    vec![
        format!("--kubeconfig={}", place.kubeconfig.display()),
        format!("--namespace={}", place.namespace),
        "--identity=bench".to_owned(),
        "--evaluation-url=https://localhost:1".to_owned(),
        format!("--evaluation-ca={}", authority.display()),
        format!("--evaluation-token={}", token.display()),
    ]
}

struct Bench {
    world: World,
    arguments: Vec<String>,
    client: Client,
    place: Place,
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

    /// From the start of the controller to the last status, and to nothing else being written.
    fn converge(&mut self) -> Process {
        let before = self.runtime.block_on(writes(&self.client));
        let began = Instant::now();
        let controller = Process::start(SERVICE, &self.arguments);
        let settled = self.runtime.block_on(async {
            timeout(PATIENCE, settled(&self.world))
                .await
                .expect("it settles");
            began.elapsed()
        });
        let (written, idle) = self.runtime.block_on(async {
            let written = writes(&self.client).await - before;
            sleep(IDLE).await;
            self.world.prove().await;
            (written, writes(&self.client).await - before - written)
        });
        let size = world::size();
        let what = format!("from its start until every permission is in force and told; {size}");
        self.table
            .at_most(&what, settled.as_secs_f64(), "s", 30.0, 15.0);
        let worked = controller.worked().as_secs_f64();
        self.table
            .figure("its own processor time for that", worked, "s");
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
    fn edits(&mut self) {
        let [mut given, mut taken] = [Times::default(), Times::default()];
        self.runtime.block_on(async {
            for edit in 0..EDITS {
                let number = edit * 37 % POLICIES;
                let (from, to) = (ACCOUNT, "editor");
                let began = self.edit(number, to).await;
                self.until(number, to, true).await;
                given.add(began.elapsed());
                let began = self.edit(number, from).await;
                self.until(number, to, false).await;
                taken.add(began.elapsed());
            }
        });
        for (what, times) in [("given", given), ("taken", taken)] {
            let name = |figure| {
                format!("policy edited → SubjectAccessReview changes, {what}, {figure} of {EDITS}")
            };
            self.table.figure(&name("p50"), times.median() / 1e3, "ms");
            self.table.figure(&name("p99"), times.p99() / 1e3, "ms");
        }
    }

    /// Writes the policy; gives when that was answered.
    async fn edit(&self, number: usize, account: &str) -> Instant {
        let policies = self.world.of_team::<AccessPolicy>(number);
        let spec = Patch::Merge(json!({"spec": self.world.spec(number, account)}));
        let params = PatchParams::default();
        let patched = policies.patch(&policy(number), &params, &spec).await;
        patched.unwrap();
        Instant::now()
    }

    /// Asks the API server again and again until it says so.
    async fn until(&self, number: usize, account: &str, is_allowed: bool) {
        let team = self.world.team(number);
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{team}:{account}")),
                resource_attributes: Some(ResourceAttributes {
                    group: Some("connectors.alauda.io".to_owned()),
                    resource: Some("connectors".to_owned()),
                    subresource: Some("apis".to_owned()),
                    namespace: Some(team),
                    name: Some(World::connector_of(number)),
                    verb: Some("*".to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews = Api::<SubjectAccessReview>::all(self.client.clone());
        let asked = async {
            loop {
                let answer = reviews.create(&PostParams::default(), &review).await;
                if answer.unwrap().status.unwrap().allowed == is_allowed {
                    return;
                }
            }
        };
        let answered = timeout(PATIENCE, asked).await;
        answered.unwrap_or_else(|_| panic!("policy {number} stays as it was"));
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
        let leases = Api::<Lease>::namespaced(self.client.clone(), &self.place.namespace);
        let released = self.runtime.block_on(leases.get(SERVICE)).unwrap();
        let holder = released.spec.and_then(|it| it.holder_identity);
        assert_eq!(holder.unwrap_or_default(), "");
        let before = self.runtime.block_on(writes(&self.client));
        let controller = Process::start(SERVICE, &self.arguments);
        let written = self.runtime.block_on(async {
            sleep(IDLE).await;
            writes(&self.client).await - before
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
