use std::collections::BTreeMap;

use serde_json::json;

use super::*;

const NAMESPACE: &str = "team-tools";

fn spec(change: impl FnOnce(&mut serde_json::Value)) -> AccessRequestSpec {
    let mut spec = json!({
        "subject": {"kind": "ServiceAccount", "name": "builder"},
        "connectorRef": {"name": "harbor"},
        "context": {"objectRef": {
            "apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "build-1", "uid": "u1",
        }},
    });
    change(&mut spec);
    connectors_api::parse::spec(&spec).unwrap()
}

fn pod() -> ReviewedPod {
    ReviewedPod {
        uid: "u1".to_owned(),
        account: "builder".to_owned(),
        node: Some("n1".to_owned()),
        finished: false,
        deleting: false,
    }
}

fn plugin(node: &str) -> RequestCreator {
    RequestCreator::NodePlugin(Some(node.to_owned()))
}

fn said(spec: &AccessRequestSpec, creator: &RequestCreator, seen: &Seen) -> Vec<String> {
    let problems = of_the_pod(spec, creator, seen);
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn admits_a_running_pod_that_is_what_the_request_says() {
    let seen = Seen::Found(pod());
    for creator in [RequestCreator::Other, plugin("n1")] {
        assert_eq!(said(&spec(|_| ()), &creator, &seen), Vec::<String>::new());
    }
    assert_eq!(of_itself(&spec(|_| ()), NAMESPACE), []);
    assert_eq!(refusal(&[]), None);
}

#[test]
fn denies_when_the_pod_is_not_what_the_request_says() {
    type Change = fn(&mut ReviewedPod);
    let cases: [(Change, &str); 4] = [
        (
            |pod| pod.uid = "u2".to_owned(),
            "spec.context.objectRef.uid: the pod team/build-1 has another UID",
        ),
        (
            |pod| pod.account = "default".to_owned(),
            "spec.subject.name: the pod team/build-1 runs as \"default\"",
        ),
        (
            |pod| pod.finished = true,
            "spec.context.objectRef: the pod team/build-1 has finished",
        ),
        (
            |pod| pod.deleting = true,
            "spec.context.objectRef: the pod team/build-1 is being deleted",
        ),
    ];
    for (change, expected) in cases {
        let mut pod = pod();
        change(&mut pod);
        for creator in [RequestCreator::Other, plugin("n1")] {
            assert_eq!(
                said(&spec(|_| ()), &creator, &Seen::Found(pod.clone())),
                [expected]
            );
        }
    }
}

#[test]
fn denies_when_no_uid_was_filled_in() {
    let seen = Seen::Found(pod());
    let without = spec(|spec| {
        let pod = spec["context"]["objectRef"].as_object_mut().unwrap();
        pod.remove("uid");
    });
    let empty = spec(|spec| spec["context"]["objectRef"]["uid"] = json!(""));
    for spec in [without, empty] {
        let expected = ["spec.context.objectRef.uid: required"];
        assert_eq!(said(&spec, &RequestCreator::Other, &seen), expected);
    }
}

#[test]
fn denies_a_node_plugin_for_a_pod_that_is_not_on_its_node() {
    let seen = Seen::Found(pod());
    let expected = ["the pod team/build-1 is not on the node of this node plugin"];
    assert_eq!(said(&spec(|_| ()), &plugin("n2"), &seen), expected);
    let unscheduled = ReviewedPod {
        node: None,
        ..pod()
    };
    let seen = Seen::Found(unscheduled);
    assert_eq!(said(&spec(|_| ()), &plugin("n1"), &seen), expected);
    assert_eq!(
        said(&spec(|_| ()), &RequestCreator::Other, &seen),
        Vec::<String>::new()
    );
}

#[test]
fn denies_a_node_plugin_that_does_not_prove_its_node() {
    let expected = ["the node plugin does not prove which node it is on"];
    let seen = Seen::Found(pod());
    assert_eq!(
        said(&spec(|_| ()), &RequestCreator::NodePlugin(None), &seen),
        expected
    );
    let unscheduled = Seen::Found(ReviewedPod {
        node: None,
        ..pod()
    });
    assert_eq!(
        said(
            &spec(|_| ()),
            &RequestCreator::NodePlugin(None),
            &unscheduled
        ),
        expected
    );
}

#[test]
fn says_one_thing_only_to_somebody_who_may_not_get_the_pod() {
    let hidden = ["spec.context.objectRef: there is no such pod, or you may not get it"];
    assert_eq!(
        said(&spec(|_| ()), &RequestCreator::Other, &Seen::Hidden),
        hidden
    );
}

#[test]
fn denies_what_is_missing_or_not_known() {
    let missing = ["spec.context.objectRef: there is no pod team/build-1"];
    assert_eq!(
        said(&spec(|_| ()), &RequestCreator::Other, &Seen::Missing),
        missing
    );
    let unknown = ["spec.context.objectRef: the pod cannot be looked up now; try again"];
    assert_eq!(
        said(&spec(|_| ()), &RequestCreator::Other, &Seen::NoAnswer),
        unknown
    );
}

#[test]
fn denies_a_request_that_contradicts_itself() {
    type Change = fn(&mut serde_json::Value);
    let cases: [(Change, &[&str]); 8] = [
        (
            |spec| spec["connectorRef"]["namespace"] = json!(NAMESPACE),
            &[],
        ),
        (
            |spec| spec["connectorRef"]["namespace"] = json!("other"),
            &[
                "spec.connectorRef.namespace: must be \"team-tools\", the request's own namespace, or left out",
            ],
        ),
        (
            |spec| spec["connectorRef"]["namespace"] = json!(""),
            &[
                "spec.connectorRef.namespace: must be \"team-tools\", the request's own namespace, or left out",
            ],
        ),
        (|spec| spec["subject"]["namespace"] = json!("team"), &[]),
        (|spec| spec["subject"]["namespace"] = json!(""), &[]),
        (
            |spec| spec["subject"]["namespace"] = json!("other"),
            &["spec.subject.namespace: must be \"team\", the pod's namespace, or left out"],
        ),
        (
            |spec| spec["context"]["objectRef"]["name"] = json!("../../secrets/x"),
            &["spec.context.objectRef.name: not the name of an object"],
        ),
        (
            |spec| spec["context"]["objectRef"]["namespace"] = json!("a/b"),
            &["spec.context.objectRef.namespace: not the name of an object"],
        ),
    ];
    for (change, expected) in cases {
        let problems = of_itself(&spec(change), NAMESPACE);
        let said: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(said, expected);
    }
}

#[test]
fn all_problems_are_in_one_answer() {
    let pod = ReviewedPod {
        uid: "u2".to_owned(),
        account: "other".to_owned(),
        node: None,
        finished: true,
        deleting: true,
    };
    let problems = of_the_pod(&spec(|_| ()), &plugin("n1"), &Seen::Found(pod));
    assert_eq!(problems.len(), 5);
    let refusal = refusal(&problems).unwrap();
    assert_eq!(refusal.message.matches("; ").count(), 4);
    assert_eq!(refusal.status, RefusalStatus::Forbidden);
}

#[test]
fn a_refusal_may_be_tried_again_only_if_that_can_help() {
    let of = |problems: &[RequestProblem]| refusal(problems).unwrap().status;
    let wrong = RequestProblem::Name("x");
    assert_eq!(
        of(&[RequestProblem::Unanswered]),
        RefusalStatus::Unavailable
    );
    assert_eq!(
        of(&[RequestProblem::Unanswered, RequestProblem::NoNode]),
        RefusalStatus::Forbidden
    );
    assert_eq!(
        of(&[wrong.clone(), RequestProblem::Unanswered]),
        RefusalStatus::Invalid
    );
    assert_eq!(of(&[wrong, RequestProblem::Hidden]), RefusalStatus::Invalid);
}

#[test]
fn a_node_plugin_is_known_by_its_account_and_its_node_by_its_token() {
    let account = "system:serviceaccount:connectors-system:csi-node";
    let user = |name: &str, nodes: Option<&[&str]>| UserInfo {
        username: Some(name.to_owned()),
        extra: nodes.map(|nodes| {
            let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
            BTreeMap::from([(NODE_NAME.to_owned(), nodes)])
        }),
        ..UserInfo::default()
    };
    let cases = [
        (user(account, Some(&["n1"])), plugin("n1")),
        (
            user(account, Some(&["n1", "n2"])),
            RequestCreator::NodePlugin(None),
        ),
        (user(account, Some(&[""])), RequestCreator::NodePlugin(None)),
        (user(account, Some(&[])), RequestCreator::NodePlugin(None)),
        (user(account, None), RequestCreator::NodePlugin(None)),
        (
            user("system:serviceaccount:other:csi-node", Some(&["n1"])),
            RequestCreator::Other,
        ),
        (user("", None), RequestCreator::Other),
        (UserInfo::default(), RequestCreator::Other),
    ];
    for (user, expected) in cases {
        assert_eq!(RequestCreator::of(&user, account), expected, "{user:?}");
    }
    assert_eq!(
        RequestCreator::of(&UserInfo::default(), ""),
        RequestCreator::Other,
        "no account is nobody"
    );
}

#[test]
fn denies_the_request_that_is_one_more_than_a_pod_may_have() {
    let said = |creator: &RequestCreator, count| {
        let problem = of_the_share(&spec(|_| ()), creator, count);
        problem.map(|problem| (problem.to_string(), problem.status()))
    };
    let too_many = "spec.context.objectRef: the pod team/build-1 has 16 requests in this namespace, as many as a pod may have; delete those that it does not need";
    let denied = Some((too_many.to_owned(), RefusalStatus::Forbidden));
    for creator in [RequestCreator::Other, plugin("n1")] {
        for few in [0, 15] {
            assert_eq!(said(&creator, Some(few)), None);
        }
        for many in [16, 17, 300] {
            assert_eq!(said(&creator, Some(many)), denied);
        }
    }
}

#[test]
fn a_count_that_fails_stops_people_and_no_mount() {
    let spec = spec(|_| ());
    assert_eq!(of_the_share(&spec, &plugin("n1"), None), None);
    let problem = of_the_share(&spec, &RequestCreator::Other, None);
    assert_eq!(problem, Some(RequestProblem::Uncounted));
    assert_eq!(
        RequestProblem::Uncounted.status(),
        RefusalStatus::Unavailable
    );
}
