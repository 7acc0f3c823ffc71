//! Of two requests about one access, the one that decides: in `explain`, `can-i` and `who-can`.

use serde_json::{Value, json};

use crate::cluster::{Cluster, after, pod};

const PHASES: [&str; 4] = ["Pending", "Granted", "Rejected", "Revoked"];
const SECOND: &str = "second";

/// A pod with two requests. The first one has the name that the node plugin gives it, the other one has another name.
struct TwoRequests {
    phases: [&'static str; 2],
    /// The number of the request that was created first.
    older: usize,
    /// Whether the first one has its labels. The other one has them.
    is_labelled: bool,
}

impl TwoRequests {
    fn all() -> impl Iterator<Item = Self> {
        let phases = PHASES.map(|first| PHASES.map(|second| [first, second]));
        phases.into_iter().flatten().flat_map(|phases| {
            let ways = [(0, true), (0, false), (1, true), (1, false)];
            ways.map(|(older, is_labelled)| Self {
                phases,
                older,
                is_labelled,
            })
        })
    }

    /// The number of the request that decides: a decided one before an open one, and the older one of two.
    fn deciding(&self) -> usize {
        let is_open = self.phases.map(|phase| phase == "Pending");
        match is_open {
            [false, true] => 0,
            [true, false] => 1,
            [true, true] | [false, false] => self.older,
        }
    }

    /// The cluster, and the names of both requests.
    fn cluster(&self) -> (Cluster, [String; 2]) {
        let cluster = Cluster::waiting();
        let names = [cluster.first_request(), SECOND.to_owned()];
        let mut second = cluster.server.list("accessrequests")[0].clone();
        second["metadata"]["name"] = SECOND.into();
        second["metadata"]["uid"] = format!("uid-{SECOND}").into();
        second["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("resourceVersion");
        cluster.put(second);
        for (number, name) in names.iter().enumerate() {
            let phase = self.phases[number];
            if phase == "Granted" {
                cluster.grant_status(name);
                cluster.bind(
                    "build-1",
                    name,
                    &format!("uid-{name}"),
                    "uid-approved-changes",
                );
            } else {
                cluster.say(name, phase, phase, phase);
            }
            let requests = "accessrequests";
            cluster.server.change(requests, "payments", name, |it| {
                it["metadata"]["creationTimestamp"] = after(i64::from(number != self.older)).into();
                if number == 0 && !self.is_labelled {
                    it["metadata"]["labels"] = json!({});
                }
            });
        }
        (cluster, names)
    }
}

/// A writer of a request can remove its labels, and can make another one at any time.
#[tokio::test]
async fn the_same_request_decides_in_every_command() {
    for case in TwoRequests::all() {
        let (cluster, names) = case.cluster();
        let TwoRequests {
            phases,
            older,
            is_labelled,
        } = case;
        let told = format!("{phases:?}, older: {older}, labelled: {is_labelled}");
        let deciding = case.deciding();
        let has_access = phases[deciding] == "Granted";

        let explained = cluster.explained().await;
        let access = &explained["accesses"][0];
        let state = match phases[deciding] {
            "Pending" => "Waits",
            "Granted" => "Granted",
            _ => "Refused",
        };
        assert_eq!(access["request"]["name"], names[deciding], "{told}");
        assert_eq!(access["state"], state, "{told}");

        let can = ["can-i", "payments/prod-harbor", "--pod", "team-a/build-1"];
        let code = cluster.run(&can).await.exit.code();
        assert_eq!(code == 0, has_access, "{told}");

        let who = cluster.json(&["who-can", "payments/prod-harbor"]).await;
        let pods = who["pods"].as_array().unwrap().iter();
        let pods: Vec<&Value> = pods.map(|it| &it["request"]).collect();
        let expected = has_access.then(|| json!(names[deciding]));
        assert_eq!(pods, expected.iter().collect::<Vec<_>>(), "{told}");
    }
}

/// The pod of `team-a` is not that of the request: a request without the UID of a pod decides nothing.
#[tokio::test]
async fn a_request_about_another_pod_of_the_name_decides_nothing() {
    let cluster = Cluster::new();
    cluster.put(pod("build-1"));
    let request = cluster.granted("build-1");
    let can = ["can-i", "payments/prod-harbor", "--pod", "team-a/build-1"];
    assert_eq!(cluster.run(&can).await.exit.code(), 0);
    for uid in [json!("uid-build"), json!("uid-build-10"), json!(null)] {
        let requests = "accessrequests";
        cluster.server.change(requests, "payments", &request, |it| {
            it["spec"]["context"]["objectRef"]["uid"] = uid.clone();
        });
        assert_eq!(cluster.run(&can).await.exit.code(), 1, "{uid}");
    }
}
