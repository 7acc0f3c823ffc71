mod leaders;

use std::{collections::BTreeSet, sync::Arc};

use super::*;
use crate::{api::Name, controller};

fn shards(count: usize) -> ShardCount {
    count.to_string().parse().unwrap()
}

/// Processes of different versions work side by side during an upgrade.
#[test]
fn the_shard_of_a_namespace_is_the_same_for_every_version() {
    for (namespace, expected) in [
        ("", [0, 1, 1, 1, 1]),
        ("tools", [0, 1, 1, 1, 1]),
        ("tools-1", [0, 1, 1, 1, 9]),
        ("connectors-system", [0, 1, 3, 3, 3]),
        ("devops-ns1", [0, 1, 1, 5, 5]),
        ("payments", [0, 0, 2, 6, 14]),
    ] {
        let found = [1, 2, 4, 8, 16].map(|it| shards(it).of(namespace));
        assert_eq!(found, expected, "{namespace}");
    }
}

#[test]
fn the_shards_are_of_about_the_same_size() {
    for form in ["team-{}", "{}", "devops-ns{}", "project-{}-tools"] {
        let mut sizes = [0; 16];
        for number in 0..1600 {
            sizes[shards(16).of(&form.replace("{}", &number.to_string()))] += 1;
        }
        assert!(
            sizes.iter().all(|it| (50..160).contains(it)),
            "{form}: {sizes:?}"
        );
    }
}

/// While processes with 2 and with 4 shards run, the lease of shard 2 is of the latter alone.
#[test]
fn half_as_many_shards_are_each_two_of_the_others() {
    for count in [2, 4, 8, 16] {
        for number in 0..100 {
            let namespace = format!("team-{number}");
            let shard = shards(count).of(&namespace);
            assert_eq!(shards(count / 2).of(&namespace), shard % (count / 2));
        }
    }
}

#[test]
fn a_number_of_shards_is_a_power_of_two_up_to_16() {
    let fitting: Vec<_> = (0..100)
        .filter(|it| it.to_string().parse::<ShardCount>().is_ok())
        .collect();
    assert_eq!(fitting, [1, 2, 4, 8, 16]);
    for text in ["", "01", "+1", "2 ", "-2", "two"] {
        assert_eq!(text.parse::<ShardCount>(), Err(NoShardCount), "{text}");
    }
}

#[test]
fn each_shard_has_a_lease_and_the_first_one_that_of_a_controller_without_shards() {
    let leases: Vec<_> = shards(4).all().map(lease).collect();
    assert_eq!(leases[0], "request-controller");
    let all: BTreeSet<_> = leases.iter().cloned().chain([next_lease()]).collect();
    assert_eq!(all.len(), 5);
    assert_eq!(leases[3], "request-controller-3");
}

/// In another queue no worker would take it: its shard may be led by another process.
#[tokio::test]
async fn a_job_waits_in_the_queue_of_its_shard() {
    let queues = JobQueues::new(ShardCount::TWO, || controller::queue(Arc::default()));
    let depths = || [0, 1].map(|it| queues.of(it).depth());
    queues.shards().all().for_each(|it| queues.of(it).listen());
    let job = |namespace| Job::Grant(Name::new(namespace, "car-1"));
    queues.wake(job("tools"), Urgency::Normal);
    assert_eq!(depths(), [0, 1]);
    queues.wake_after(job("payments"), Urgency::Normal, Duration::from_secs(1));
    assert_eq!(depths(), [1, 1]);
    queues.forget(&job("payments"));
    assert_eq!(depths(), [0, 1]);
}
