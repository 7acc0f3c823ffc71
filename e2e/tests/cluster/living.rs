//! Clusters that are up: side by side, with components that fail, and ended by force.

use std::fs;

use e2e::{Cluster, Deadline, harness::PATIENCE, poll};

use crate::{
    machine::{SETTINGS, processes, rest_of_the_machine, traces_of},
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
    for cluster in [&one, &two] {
        let nodes = cluster.must(&["kubectl", "--", "get", "nodes", "-o", "name"]);
        assert_eq!(nodes.trim(), format!("node/{}-node", cluster.name));
    }
    one.must(&["down"]);
    assert_eq!(traces_of(&one.name), Vec::<String>::new());
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
    let name = cluster.name.parse().unwrap();
    // Its watchers need longer to come back than it does itself.
    Cluster::find(&name).unwrap().unwrap().settle().unwrap();
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
    let before = rest_of_the_machine();
    let cluster = TestCluster::named("forced");
    for victim in ["supervisor", "keeper"] {
        cluster.must(&["up"]);
        kill(&cluster.name, victim);
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
                    .all(|trace| trace.starts_with("file"))
            });
        }
        cluster.must(&["down"]);
        assert_eq!(traces_of(&cluster.name), Vec::<String>::new());
    }
    assert_eq!(rest_of_the_machine(), before);
}

#[test]
fn what_a_kubelet_changes_for_the_whole_machine_is_changed_for_the_cluster_alone() {
    let cluster = TestCluster::named("apart");
    cluster.must(&["up"]);
    let supervisor = find(&cluster.name, "supervisor");
    let mounts = fs::read_to_string(format!("/proc/{supervisor}/mountinfo")).unwrap();
    for setting in SETTINGS {
        let path = format!(" /proc/sys/{setting} ");
        assert!(mounts.contains(&path), "{setting} is the machine's own");
    }
    for dir in ["/run", "/var/lib", "/var/log"] {
        assert!(
            mounts.contains(&format!(" {dir} ")),
            "{dir} is the machine's own"
        );
    }
}

#[test]
fn a_second_up_or_down_does_not_disturb_the_first() {
    let cluster = TestCluster::named("busy");
    let mut first = cluster.start_up();
    while first
        .next_stage()
        .is_some_and(|stage| stage != "start etcd")
    {}
    for words in [["up"], ["down"]] {
        let refused = cluster.run(&words);
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            message.contains("another `up` or `down` of cluster"),
            "{message}"
        );
    }
    while first.next_stage().is_some() {}
    assert!(first.child.wait().unwrap().success());
}

#[test]
fn a_cluster_that_is_not_up_says_how_to_bring_it_up() {
    let cluster = TestCluster::named("absent");
    for words in [
        &["kubectl", "--", "get", "pods"][..],
        &["kill", "etcd"],
        &["logs", "etcd"],
    ] {
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

fn find(cluster: &str, role: &str) -> i32 {
    let ours = format!(" {role} --name {cluster} ");
    // `setpriv` and `unshare` carry the supervisor's command line too, behind their own.
    let direct = |line: &String| !line.starts_with("unshare") && !line.starts_with("setpriv");
    let mut found = processes(cluster)
        .into_iter()
        .filter(|(_, line)| line.contains(&ours) && direct(line));
    found.next().unwrap().0
}

fn kill(cluster: &str, role: &str) {
    let pid = rustix::process::Pid::from_raw(find(cluster, role)).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
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
