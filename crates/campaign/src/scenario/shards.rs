//! Two shards: the namespace of the connector is in the second one, which is the first to be handed over.

use std::time::Duration;

use request_controller::shards::ShardCount;
use serde_json::json;

use super::{
    Scenario,
    Step::{self, Do, Rest, Until},
    common::{A_WHILE, APPROVE, FINISH, GRANTED, PENDING, WITHDRAW, replicas, revoked, waiting},
};
use crate::stage::{SYSTEM, Stage};

/// Longer than a hand-over and the first look of a new leader.
const PATIENCE: Duration = Duration::from_secs(40);
/// One process leads both shards at first.
const SHARED: Step = Until("each process leads a shard", are_shared);
/// The leader of both shards learns of it at its next step. Where calls take time, each process may take one at once.
const ASKED_FOR: Step = Until("the other process asks for a shard", |stage| {
    !holder(stage, "request-controller-next").is_empty() || are_shared(stage)
});
const LEFT: Step = Until("its shard is left to the other process", |stage| {
    holder(stage, "request-controller-1") != holder(stage, "request-controller")
});
/// A third process asks, and takes nothing.
const ASK: Step = Do("another process asks for a shard", |stage| {
    stage.put(json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "request-controller-next", "namespace": SYSTEM},
        "spec": {"holderIdentity": "third", "leaseDurationSeconds": 15, "renewTime": "2026-03-01T10:00:00.000000Z"},
    }));
});

fn are_shared(stage: &Stage) -> bool {
    let holders = ["request-controller", "request-controller-1"].map(|it| holder(stage, it));
    holders[0] != holders[1] && !holders.contains(&String::new())
}

fn holder(stage: &Stage, lease: &str) -> String {
    let lease = stage.server.get("leases", SYSTEM, lease);
    let lease = lease.unwrap_or_default();
    let holder = lease["spec"]["holderIdentity"].as_str();
    holder.unwrap_or_default().to_owned()
}

const fn sharded(name: &'static str, steps: &'static [Step], ends: fn(&Stage) -> bool) -> Scenario {
    Scenario {
        shards: [ShardCount::TWO; 2],
        usual: PATIENCE,
        ..replicas(name, waiting, steps, ends)
    }
}

/// Shards.
pub(super) const SHARDS: [Scenario; 7] = [
    sharded(
        "two-shards",
        &[SHARED, A_WHILE, APPROVE, GRANTED, A_WHILE, FINISH],
        revoked,
    ),
    sharded(
        "approved-when-a-shard-is-asked-for",
        &[ASKED_FOR, APPROVE, GRANTED, SHARED, A_WHILE, FINISH],
        revoked,
    ),
    sharded(
        "approved-when-a-shard-is-left",
        &[PENDING, LEFT, APPROVE, GRANTED, FINISH],
        revoked,
    ),
    sharded(
        "withdrawn-when-a-shard-is-left",
        &[PENDING, APPROVE, GRANTED, LEFT, WITHDRAW],
        revoked,
    ),
    sharded(
        "ended-when-a-shard-is-asked-for",
        &[PENDING, APPROVE, GRANTED, ASKED_FOR, FINISH],
        revoked,
    ),
    // The leader hands a shard over, and takes it back.
    Scenario {
        replicas: 1,
        ..sharded(
            "left-in-vain",
            &[
                PENDING,
                ASK,
                Rest(Duration::from_secs(1)),
                APPROVE,
                LEFT,
                GRANTED,
                FINISH,
            ],
            revoked,
        )
    },
    // The first process knows one shard and leads everything; the other one leads the second shard beside it.
    Scenario {
        shards: [ShardCount::ONE, ShardCount::TWO],
        ..sharded(
            "number-of-shards-changes",
            &[PENDING, APPROVE, GRANTED, A_WHILE, FINISH],
            revoked,
        )
    },
];

#[cfg(test)]
mod tests {
    use super::SHARDS;
    use crate::{known, plan::Plan, run};

    /// All scenarios, and the known plans about them.
    #[test]
    fn shards_that_move_and_change_their_number_break_no_rule() {
        let known = known::about(&SHARDS).unwrap().into_iter();
        let plans = SHARDS.map(|it| Plan::undisturbed(it.name)).into_iter();
        let plans: Vec<_> = plans.chain(known.map(|(_, plan)| plan)).collect();
        assert!(plans.len() > SHARDS.len());
        for plan in plans {
            let mut scenarios = SHARDS.iter();
            let scenario = scenarios.find(|it| it.name == plan.scenario).unwrap();
            let outcome = run::run(scenario, &plan).unwrap();
            assert_eq!(outcome.violations, [], "{plan}");
        }
    }
}
