use connectors_api::access_policy::MOST_SELECTORS;
use connectors_api::config::{Config, DefaultRequesters};
use connectors_api::policy_order::MOST_PER_CONNECTOR;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{self, question, request};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn labels(value: &str) -> Labels {
    [("project".to_owned(), value.to_owned())].into()
}

fn world() -> World {
    let mut world = World::default();
    let metadata = json!({"namespace": "tools", "name": "harbor", "labels": {"project": "tools"}});
    let metadata = serde_json::from_value(metadata).unwrap();
    world.catalog.put_connector(metadata);
    world
}

fn put(world: &mut World, name: &str, spec: &Value) {
    let mut policy = serde_json::to_value(fixtures::policy(name)).unwrap();
    policy["metadata"]["uid"] = format!("uid-{name}").into();
    for (key, value) in spec.as_object().unwrap() {
        policy["spec"][key] = value.clone();
    }
    world
        .catalog
        .put_policy(serde_json::from_value(policy).unwrap());
}

fn explained(world: &World, read: &ExplainReads) -> ExplainResponse {
    explain(world, &question(), read, NOW)
}

fn words(world: &World, read: &ExplainReads) -> Vec<(String, PolicyApplies, PolicyApplies)> {
    let policies = explained(world, read).policies.into_iter();
    let pair = |it: PolicyExplanation| (it.name.clone(), it.standing(), it.checked());
    policies.map(pair).collect()
}

#[test]
fn each_policy_says_whether_it_applies_and_why_not() {
    use PolicyApplies::{Absent, OtherLabels, OtherName, OtherPermission, OtherSubject, Yes};
    let mut world = world();
    let subjects = |name: &str| {
        json!({
            "roleTemplate": {"rules": []},
            "bindingTemplate": {"subjects": [{"kind": "ServiceAccount", "namespace": "devops", "name": name}]},
        })
    };
    for (name, spec) in [
        ("a", json!({})),
        ("b", json!({"connector": {"names": ["gitlab"]}})),
        (
            "c",
            json!({"connector": {"selector": {"matchLabels": {"project": "other"}}}}),
        ),
        (
            "d",
            json!({"permission": "proxy", "defaultPermission": subjects("builder")}),
        ),
        ("e", json!({"defaultPermission": subjects("builder")})),
        ("f", json!({"defaultPermission": subjects("other")})),
    ] {
        put(&mut world, name, &spec);
    }
    let expected = [
        ("a", Absent, Yes),
        ("b", Absent, OtherName),
        ("c", Absent, OtherLabels),
        ("d", OtherPermission, OtherPermission),
        ("e", Yes, Yes),
        ("f", OtherSubject, Yes),
    ];
    let expected = expected.map(|(name, standing, checked)| (name.to_owned(), standing, checked));
    assert_eq!(words(&world, &ExplainReads::default()), expected);
    let answer = explained(&world, &ExplainReads::default());
    assert!(answer.connector_exists);
    assert!(answer.policies[1].checked_message.contains("harbor"));
    assert_eq!(answer.policies[0].checks[0].kind, "ConfigMap");
}

#[test]
fn a_policy_behind_so_many_older_ones_does_not_count_and_says_so() {
    let mut world = world();
    let with_age = |world: &mut World, name: &str, second: usize| {
        let mut policy = serde_json::to_value(fixtures::policy(name)).unwrap();
        policy["metadata"]["uid"] = format!("uid-{name}").into();
        policy["metadata"]["creationTimestamp"] =
            format!("2026-01-01T00:{:02}:{:02}Z", second / 60, second % 60).into();
        let policy = serde_json::from_value(policy).unwrap();
        world.catalog.put_policy(policy);
    };
    // By name the youngest is the first.
    with_age(&mut world, "a", 100);
    for n in 0..MOST_PER_CONNECTOR - 1 {
        with_age(&mut world, &format!("p{n:02}"), n);
    }
    put(
        &mut world,
        "elsewhere",
        &json!({"connector": {"names": ["gitlab"]}}),
    );
    put(&mut world, "proxy", &json!({"permission": "proxy"}));
    let of_a = |world: &World| {
        let policies = explained(world, &ExplainReads::default()).policies;
        policies.into_iter().find(|it| it.name == "a").unwrap()
    };
    assert_eq!(
        of_a(&world).checked(),
        PolicyApplies::Yes,
        "the last that counts"
    );
    with_age(&mut world, "z", 99);
    let a = of_a(&world);
    assert_eq!(a.checked(), PolicyApplies::TooMany);
    assert!(
        a.checked_message.contains("64 older policies"),
        "{}",
        a.checked_message
    );
    let others = words(&world, &ExplainReads::default());
    let counted = others.iter().filter(|it| it.2 == PolicyApplies::Yes);
    assert_eq!(counted.count(), MOST_PER_CONNECTOR);
}

#[test]
fn a_standing_permission_with_too_many_selectors_is_nobodys_and_says_so() {
    let mut world = world();
    let subject = json!({"kind": "Group", "name": "system:serviceaccounts",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "devops"}}});
    let home = json!({"name": "devops", "labels": {"kubernetes.io/metadata.name": "devops"}});
    let home = serde_json::from_value(home).unwrap();
    world.catalog.put_namespace(home);
    for (name, count) in [("most", MOST_SELECTORS), ("over", MOST_SELECTORS + 1)] {
        let subjects = vec![subject.clone(); count];
        let spec = json!({"defaultPermission": {
            "roleTemplate": {"rules": []}, "bindingTemplate": {"subjects": subjects},
        }});
        put(&mut world, name, &spec);
    }
    let policies = explained(&world, &ExplainReads::default()).policies;
    assert_eq!(policies[0].standing(), PolicyApplies::Yes);
    assert_eq!(policies[1].standing(), PolicyApplies::OtherSubject);
    let message = &policies[1].standing_message;
    assert!(
        message.contains("17") && message.contains("16"),
        "{message}"
    );
}

#[test]
fn labels_count_only_when_they_are_known() {
    let mut world = world();
    let requesters = json!([{"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"project": "x"}}, "namespaceSelector": {"matchLabels": {"project": "y"}}}]);
    let mut policy = serde_json::to_value(fixtures::policy("p")).unwrap();
    policy["spec"]["checkGrantedPermission"]["requesters"] = requesters;
    assert!(!needs_account(&world, "tools"));
    world
        .catalog
        .put_policy(serde_json::from_value(policy).unwrap());
    assert!(needs_account(&world, "tools") && !needs_account(&world, "other"));
    let checked = |world: &World, account: Option<Labels>| {
        let request = None;
        explained(world, &ExplainReads { account, request }).policies[0].checked()
    };
    assert_eq!(
        checked(&world, Some(labels("x"))),
        PolicyApplies::OtherSubject
    );
    let home = json!({"name": "devops", "labels": {"project": "y"}});
    world
        .catalog
        .put_namespace(serde_json::from_value(home).unwrap());
    assert_eq!(checked(&world, Some(labels("x"))), PolicyApplies::Yes);
    assert_eq!(
        checked(&world, Some(labels("z"))),
        PolicyApplies::OtherSubject
    );
    assert_eq!(checked(&world, None), PolicyApplies::OtherSubject);
}

#[test]
fn without_requesters_only_the_namespace_itself_may_ask() {
    let mut world = world();
    let mut policy = serde_json::to_value(fixtures::policy("p")).unwrap();
    let granted = policy["spec"]["checkGrantedPermission"].as_object_mut();
    granted.unwrap().remove("requesters");
    world
        .catalog
        .put_policy(serde_json::from_value(policy).unwrap());
    let policy = &explained(&world, &ExplainReads::default()).policies[0];
    assert_eq!(policy.checked(), PolicyApplies::OtherSubject);
    let message = &policy.checked_message;
    assert!(
        message.contains("default-requesters: Namespace"),
        "{message}"
    );
    // As long as nothing is known, the narrower reading holds.
    let config = |default_requesters| Config {
        default_requesters,
        ..Config::CLOSED
    };
    for (default, expected) in [
        (DefaultRequesters::Namespace, PolicyApplies::OtherSubject),
        (DefaultRequesters::Any, PolicyApplies::Yes),
    ] {
        world.config = Some(config(default));
        let policy = &explained(&world, &ExplainReads::default()).policies[0];
        assert_eq!(policy.checked(), expected);
    }
}

#[test]
fn what_cannot_be_read_or_is_going_says_so() {
    let mut world = world();
    let odd = serde_json::from_value(json!({"namespace": "tools", "name": "odd", "uid": "o"}));
    let problem = "spec.conector: unknown field".to_owned();
    world
        .catalog
        .put_unreadable_policy(odd.unwrap(), problem.clone());
    let mut going = fixtures::policy("p");
    let time = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    going.metadata.deletion_timestamp = Some(time);
    world.catalog.put_policy(going);
    let policies = explained(&world, &ExplainReads::default()).policies;
    assert_eq!(policies[0].checked(), PolicyApplies::Unreadable);
    assert_eq!(policies[0].standing_message, problem);
    assert_eq!(policies[1].checked(), PolicyApplies::Gone);
}

#[test]
fn a_policy_that_is_not_kept_says_which_bound_its_namespace_met() {
    let mut world = world();
    let names: Vec<_> = (0..240).map(|it| format!("{it:0>250}")).collect();
    for number in 0..70 {
        let spec = json!({"connector": {"names": names}});
        put(&mut world, &format!("p{number:02}"), &spec);
    }
    let policies = explained(&world, &ExplainReads::default()).policies;
    assert_eq!(policies[0].checked(), PolicyApplies::Unreadable);
    assert_eq!(policies[0].standing_message, NOT_KEPT);
}

#[test]
fn checks_are_told_object_by_object_as_the_request_shows_them() {
    let mut world = world();
    put(&mut world, "p", &json!({}));
    let mut pending = request("a", "Pending");
    let policies = json!([
        {
            "policy": {"metadata": {"name": "p", "uid": "uid-p"}},
            "checkRefs": [
                {"name": "gate", "ref": {"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "uid": "1"}, "status": {"state": "approved", "reason": "Approved", "message": "m", "approvedBy": ["alice"],
                    "approvals": [{"user": "alice", "group": "qa", "message": "go"}], "runCreator": "carol"},
                    "lineage": [{"apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "name": "run", "uid": "7"}]},
                {"name": "gate", "ref": {"apiVersion": "v1", "kind": "ConfigMap", "name": "two", "uid": "2"}, "status": {"state": "pending", "reason": "Pending"}},
                {"name": "old", "status": {"reason": "NothingFound", "message": "nothing yet"}},
            ],
        },
        {
            "policy": {"metadata": {"name": "former", "uid": "uid-former"}},
            "grant": {"state": "Ended"},
        },
    ]);
    let status = pending.status.as_mut().unwrap();
    status.policies = serde_json::from_value(policies).unwrap();
    world.requests.apply(pending.clone());
    let read = ExplainReads {
        account: None,
        request: same(Some(pending.clone()), "uid-a"),
    };
    let answer = explained(&world, &read);
    assert_eq!(answer.answer.unwrap().request.unwrap().name, "a");
    let [present, former] = &answer.policies[..] else {
        panic!("{:?}", answer.policies);
    };
    let [gate, old] = &present.checks[..] else {
        panic!("{present:?}");
    };
    let objects: Vec<_> = gate
        .objects
        .iter()
        .map(|it| {
            (
                it.name.as_str(),
                it.state.as_str(),
                it.approved_by.as_slice(),
            )
        })
        .collect();
    let alice = ["alice".to_owned()];
    assert_eq!(
        objects,
        [("one", "approved", &alice[..]), ("two", "pending", &[])]
    );
    let [one, two] = &gate.objects[..] else {
        panic!("{gate:?}");
    };
    let said = &one.approvals[0];
    let said = [&said.user, &said.group, &said.message];
    assert_eq!(said, ["alice", "qa", "go"]);
    let link = &one.lineage[0];
    let link = [&link.kind, &link.name, &link.uid];
    assert_eq!(link, ["PipelineRun", "run", "7"]);
    assert!(two.approvals.is_empty() && two.lineage.is_empty());
    let creators = [one, two].map(|it| it.run_creator.as_str());
    assert_eq!(creators, ["carol", ""]);
    let said = [&gate.check, &gate.api_version, &gate.kind, &gate.reason];
    assert_eq!(said, ["gate", "v1", "ConfigMap", ""]);
    assert!(old.objects.is_empty());
    let said = [&old.check, &old.reason, &old.message];
    assert_eq!(said, ["old", "NothingFound", "nothing yet"]);
    assert_eq!(
        (former.name.as_str(), former.grant_state.as_str()),
        ("former", "Ended")
    );
    assert_eq!(former.checked(), PolicyApplies::Gone);
    // Another request under that name is not the one that was asked about.
    assert_eq!(same(Some(pending), "uid-b"), None);
}

#[test]
fn a_missing_connector_is_told_and_nothing_is_selected_by_label() {
    let mut world = World::default();
    put(
        &mut world,
        "p",
        &json!({"connector": {"selector": {"matchLabels": {"project": "tools"}}}}),
    );
    let answer = explained(&world, &ExplainReads::default());
    assert!(!answer.connector_exists);
    assert_eq!(answer.policies[0].checked(), PolicyApplies::OtherLabels);
}
