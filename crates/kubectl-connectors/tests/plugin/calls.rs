//! The number of calls to the API server.

use crate::cluster::{Cluster, pod};

/// Calls of one explanation in a cluster with so many requests of other pods.
async fn calls_of_explain(others: usize) -> usize {
    let cluster = Cluster::waiting();
    for number in 0..others {
        cluster.put(pod(&format!("other-{number}")));
        cluster.request(&format!("other-{number}"));
    }
    let before = cluster.calls();
    let outcome = cluster
        .run(&["explain", "pod/build-1", "-n", "team-a"])
        .await;
    assert!(outcome.output.contains("waits"), "{outcome:?}");
    cluster.calls() - before
}

#[tokio::test]
async fn an_explanation_makes_as_many_calls_whatever_the_number_of_requests() {
    let alone = calls_of_explain(0).await;
    assert_eq!(calls_of_explain(1_200).await, alone);
    assert_eq!(alone, 9, "{alone} calls");
}
