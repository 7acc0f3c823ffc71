//! Clusters that are up: side by side, with components that fail, and ended by force.

use std::{fs, process::Command};

use e2e::{Deadline, harness::PATIENCE, poll};

use crate::{
    machine::{interfaces, traces_of},
    running::TestCluster,
};

#[test]
fn two_clusters_run_side_by_side_and_do_not_see_each_other() {
    let (one, two) = (TestCluster::named("one"), TestCluster::named("two"));
    one.must(&["up"]);
    two.must(&["up"]);
    one.must(&["kubectl", "--", "create", "namespace", "only-in-one"]);
    let namespaces = two.must(&["kubectl", "--", "get", "namespaces"]);
    assert!(!namespaces.contains("only-in-one"), "{namespaces}");
    for (cluster, node) in [(&one, "one-node"), (&two, "two-node")] {
        let nodes = cluster.must(&["kubectl", "--", "get", "nodes", "-o", "name"]);
        assert_eq!(nodes.trim(), format!("node/{node}"));
    }
    one.must(&["down"]);
    assert_eq!(traces_of("one"), Vec::<String>::new());
    two.must(&["kubectl", "--", "get", "--raw", "/readyz"]);
}

#[test]
fn a_killed_component_stays_down_until_it_is_restarted() {
    let cluster = TestCluster::named("parts");
    cluster.must(&["up"]);
    let again = cluster.run(&["up"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("is up already"));

    cluster.must(&["kill", "kube-apiserver"]);
    assert!(state(&cluster, "kube-apiserver").contains("killed by signal 9"));
    let refused = cluster.run(&["kill", "kube-apiserver"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("kube-apiserver does not run"));

    cluster.must(&["restart", "kube-apiserver"]);
    wait_for("the API server", || {
        cluster
            .run(&["kubectl", "--", "get", "--raw", "/readyz"])
            .status
            .success()
    });
    wait_for("a heartbeat of the kubelet", || {
        !node_heartbeat(&cluster).is_empty()
    });
    let earlier = node_heartbeat(&cluster);
    cluster.must(&["restart", "kubelet"]);
    wait_for("a heartbeat of the restarted kubelet", || {
        node_heartbeat(&cluster) != earlier
    });
    assert!(
        cluster
            .must(&["logs", "kubelet"])
            .contains("Starting kubelet")
    );
}

#[test]
fn a_supervisor_or_keeper_ended_by_force_takes_the_cluster_with_it() {
    let before = interfaces();
    let cluster = TestCluster::named("forced");
    for victim in ["supervisor", "keeper"] {
        cluster.must(&["up"]);
        let pattern = format!("{victim} --name {}$", cluster.name);
        assert!(
            Command::new("pkill")
                .args(["-KILL", "-f", &pattern])
                .status()
                .unwrap()
                .success()
        );
        wait_for("the end of all processes", || {
            !traces_of(&cluster.name)
                .iter()
                .any(|trace| trace.starts_with("process"))
        });
        if victim == "supervisor" {
            // The keeper, outside, still cleans up; nothing but files is left even without `down`.
            wait_for("clean cgroups", || {
                traces_of(&cluster.name)
                    .iter()
                    .all(|trace| trace.starts_with("directory"))
            });
        }
        cluster.must(&["down"]);
        assert_eq!(traces_of(&cluster.name), Vec::<String>::new());
    }
    assert_eq!(interfaces(), before);
}

#[test]
fn a_cluster_that_is_not_up_says_how_to_bring_it_up() {
    let cluster = TestCluster::named("absent");
    for words in [&["kubectl", "--", "get", "pods"][..], &["kill", "etcd"]] {
        let output = cluster.run(words);
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("cluster up"), "{text}");
    }
}

#[test]
fn a_wrong_name_or_component_is_refused_with_the_right_ones() {
    let bad = TestCluster::named("fine")
        .command(&["up"])
        .args(["--name", "../etc"])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&bad.stderr).contains("must be 1 to 20 characters"));
    let bad = TestCluster::named("fine").run(&["logs", "kublet"]);
    assert!(String::from_utf8_lossy(&bad.stderr).contains("there are: etcd, kube-apiserver"));
    assert!(!fs::exists("/etc/api.port").unwrap());
}

fn state(cluster: &TestCluster, component: &str) -> String {
    let status = cluster.must(&["status"]);
    let ours = status
        .lines()
        .skip_while(|line| *line != format!("{}:", cluster.name))
        .skip(1);
    let mut lines = ours.take_while(|line| line.starts_with(' '));
    lines
        .find(|line| line.contains(component))
        .unwrap()
        .to_owned()
}

fn node_heartbeat(cluster: &TestCluster) -> String {
    let time = "{.items[*].spec.renewTime}";
    let words = [
        "kubectl",
        "--",
        "get",
        "leases",
        "-n",
        "kube-node-lease",
        "-o",
        &format!("jsonpath={time}"),
    ];
    cluster.must(&words)
}

fn wait_for(what: &str, holds: impl Fn() -> bool) {
    poll(what, Deadline::after(PATIENCE), || {
        if holds() {
            Ok(())
        } else {
            Err("not yet".to_owned())
        }
    })
    .unwrap();
}
