//! Whether a request for access could have an effect: could a policy of the connector's namespace accept it?
//!
//! Invariant: it only decides whether a request is made. An unknown is never a no.

use std::time::Duration;

use connectors_api::LabelSelector;
use connectors_api::config::DefaultRequesters;
use connectors_api::policy_match::{Asker, RequesterMatch, WantedConnector, selects};
use evaluation_api::access::{AccessAnswer, AccessQuestion, Decision, Requestable};
use evaluation_api::v1::{self, AccessDecision};
use jiff::Timestamp;

use crate::world::{ExplainedPolicy, PolicyText, World};

/// The limit of comparisons in one look. Authors of policies choose their number, and all callers pay. Beyond the
/// limit the result is unknown.
const COMPARISONS: usize = 8192;
/// Comparisons of all questions of one batch. They share the look, so each gets an equal part.
const COMPARISONS_OF_BATCH: usize = 4 * COMPARISONS;

/// Adds it to an answer where it is useful: for a pod that has neither a permission nor a request.
pub(crate) fn add(
    mut answer: AccessAnswer,
    world: &World,
    question: &AccessQuestion,
    now: Timestamp,
    max_staleness: Duration,
) -> AccessAnswer {
    let question = question.borrowed();
    let is_no = answer.decision == Decision::Denied && answer.request.is_none();
    if asks(question) && is_no && world.all_fresh_for(now, max_staleness).is_ok() {
        answer.requestable = find(world, question, COMPARISONS);
    }
    answer
}

/// Adds it to the answers of a batch, where [`add`] would add it.
///
/// The part of a question depends on the number of such questions alone: one that needs many comparisons takes none from
/// the others.
pub(crate) fn add_to_batch<'a>(
    answers: impl IntoIterator<Item = (AccessQuestion<&'a str>, &'a mut v1::AccessAnswer)>,
    world: &World,
    now: Timestamp,
    max_staleness: Duration,
) {
    let is_no = |answer: &v1::AccessAnswer| {
        answer.decision() == AccessDecision::Denied && answer.request.is_none()
    };
    let open = answers.into_iter();
    let open: Vec<_> = open
        .filter(|(question, answer)| asks(*question) && is_no(answer))
        .collect();
    if open.is_empty() || world.all_fresh_for(now, max_staleness).is_err() {
        return;
    }
    let part = COMPARISONS.min(COMPARISONS_OF_BATCH / open.len());
    for (question, answer) in open {
        let found = find(world, question, part);
        answer.set_requestable(v1::Requestable::from(found));
    }
}

/// True for a pod that could request access.
fn asks(question: AccessQuestion<&str>) -> bool {
    question.pod.is_some_and(|pod| !pod.uid.is_empty())
}

fn find(world: &World, question: AccessQuestion<&str>, comparisons: usize) -> Requestable {
    let AccessQuestion {
        subject,
        connector,
        permission,
        ..
    } = question;
    let namespace = connector.namespace;
    let Some(labels) = world.catalog.connector(namespace, connector.name) else {
        return Requestable::No;
    };
    let wanted = WantedConnector {
        connector: connector.name,
        labels,
        permission,
    };
    let asker = Asker {
        namespace: subject.namespace,
        name: subject.name,
        // There is no watch of accounts.
        labels: None,
        namespace_labels: world.catalog.namespace(subject.namespace),
    };
    let default = world.config.map(|config| config.default_requesters);
    let mut left = comparisons;
    let mut found = Requestable::No;
    for (_, policy) in world.catalog.policies(namespace) {
        if policy.said == PolicyText::NotKept && !policy.is_going {
            found = Requestable::Unknown;
        }
        let Some(weight) = weight(policy) else {
            continue;
        };
        let Some(rest) = left.checked_sub(weight) else {
            return Requestable::Unknown;
        };
        left = rest;
        match accepts(policy, namespace, wanted, asker, default) {
            RequesterMatch::Yes => return Requestable::Yes,
            RequesterMatch::Unknown => found = Requestable::Unknown,
            RequesterMatch::No => {}
        }
    }
    found
}

/// The comparisons that a policy may take. None if it accepts no subject.
fn weight(policy: &ExplainedPolicy) -> Option<usize> {
    let spec = policy.spec().filter(|_| !policy.is_going)?;
    let requesters = policy.requesters.as_ref()?.weight();
    let names = spec.connector.names.as_ref().map_or(0, Vec::len);
    let selector = spec.connector.selector.as_ref();
    Some(requesters + names + selector.map_or(0, LabelSelector::weight))
}

fn accepts(
    policy: &ExplainedPolicy,
    namespace: &str,
    wanted: WantedConnector<'_>,
    asker: Asker<'_>,
    default: Option<DefaultRequesters>,
) -> RequesterMatch {
    let (Some(spec), Some(requesters)) = (policy.spec(), &policy.requesters) else {
        return RequesterMatch::No;
    };
    if spec.permission != wanted.permission || !selects(spec, wanted) {
        return RequesterMatch::No;
    }
    requesters.accept(namespace, asker, default)
}

#[cfg(test)]
mod tests {
    use connectors_api::config::Config;
    use evaluation_api::access::PodRef;
    use serde_json::{Value, json};

    use super::*;
    use crate::access_decision;
    use crate::fixtures::{POD_FORM, policy, question, request, role, role_binding};

    const MOST: Duration = Duration::from_secs(90);

    fn now() -> Timestamp {
        Timestamp::from_second(1000).unwrap()
    }

    /// A connector, the asker's namespace, and fresh caches.
    fn world() -> World {
        let mut world = World::default();
        world.config = Some(Config::CLOSED);
        let connector = json!({"namespace": "tools", "name": "harbor", "labels": {"tier": "prod"}});
        world
            .catalog
            .put_connector(serde_json::from_value(connector).unwrap());
        let home = json!({"name": "devops", "labels": {"project": "x"}});
        world
            .catalog
            .put_namespace(serde_json::from_value(home).unwrap());
        world.hear_everything(now());
        world
    }

    fn put(world: &mut World, name: &str, change: impl FnOnce(&mut Value)) {
        let mut written = serde_json::to_value(policy(name)).unwrap();
        change(&mut written);
        world
            .catalog
            .put_policy(serde_json::from_value(written).unwrap());
    }

    fn asked(world: &World, question: &AccessQuestion, at: Timestamp) -> Requestable {
        let answer = access_decision::answer(world, question, at);
        assert_eq!(answer.requestable, Requestable::Unknown);
        add(answer, world, question, at, MOST).requestable
    }

    fn said(world: &World) -> Requestable {
        asked(world, &question(), now())
    }

    const REQUESTERS: &str = "/spec/checkGrantedPermission/requesters";

    #[test]
    fn a_policy_that_could_accept_the_asker_is_a_yes_and_no_such_policy_a_no() {
        type Change = fn(&mut Value);
        let cases: [(Change, Requestable); 9] = [
            (|_| (), Requestable::Yes),
            (
                |it| it["spec"]["connector"] = json!({"names": ["harbor"]}),
                Requestable::Yes,
            ),
            (
                |it| it["spec"]["connector"] = json!({"names": ["gitlab"]}),
                Requestable::No,
            ),
            (
                |it| {
                    it["spec"]["connector"] =
                        json!({"selector": {"matchLabels": {"tier": "prod"}}});
                },
                Requestable::Yes,
            ),
            (
                |it| {
                    it["spec"]["connector"] =
                        json!({"selector": {"matchLabels": {"tier": "test"}}});
                },
                Requestable::No,
            ),
            (
                |it| it["spec"]["permission"] = json!("proxy"),
                Requestable::No,
            ),
            (
                |it| it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
                Requestable::No,
            ),
            (
                |it| *it.pointer_mut(REQUESTERS).unwrap() = json!([]),
                Requestable::No,
            ),
            (
                |it| {
                    it["spec"]["defaultPermission"] = json!({
                        "roleTemplate": {"rules": []},
                        "bindingTemplate": {"subjects": [{"kind": "Group", "name": "system:authenticated"}]},
                    });
                    let spec = it["spec"].as_object_mut().unwrap();
                    spec.remove("checkGrantedPermission");
                },
                Requestable::No,
            ),
        ];
        assert_eq!(said(&world()), Requestable::No);
        for (place, (change, expected)) in cases.into_iter().enumerate() {
            let mut world = world();
            put(&mut world, "p", change);
            assert_eq!(said(&world), expected, "{place}");
        }
    }

    #[test]
    fn one_policy_of_several_is_enough_and_unreadable_ones_accept_nobody() {
        let mut world = world();
        put(&mut world, "a", |it| {
            it["spec"]["permission"] = json!("proxy");
        });
        let odd = policy("b").metadata;
        world.catalog.put_unreadable_policy(odd, "odd".to_owned());
        assert_eq!(said(&world), Requestable::No);
        put(&mut world, "c", |_| ());
        assert_eq!(said(&world), Requestable::Yes);
    }

    #[test]
    fn policies_that_take_more_than_is_kept_are_not_a_no() {
        let mut world = world();
        let names: Vec<_> = (0..240).map(|it| format!("{it:0>250}")).collect();
        let lengthen = |it: &mut Value| it["spec"]["connector"] = json!({"names": names});
        put(&mut world, "p", lengthen);
        assert_eq!(said(&world), Requestable::No);
        for number in 0..70 {
            put(&mut world, &format!("p{number}"), lengthen);
        }
        assert_eq!(said(&world), Requestable::Unknown);
        // A kept policy that could accept is a yes.
        put(&mut world, "a", |_| ());
        assert_eq!(said(&world), Requestable::Yes);
    }

    #[test]
    fn without_a_connector_no_policy_matches() {
        let mut world = world();
        put(&mut world, "p", |_| ());
        let mut lost = question();
        lost.connector.name = "lost".to_owned();
        assert_eq!(asked(&world, &lost, now()), Requestable::No);
    }

    #[test]
    fn what_depends_on_the_labels_of_accounts_or_on_an_unknown_default_is_not_known() {
        let by_label = |namespaces: &str| {
            json!([{
                "kind": "ServiceAccount", "nameSelector": {"matchLabels": {"a": "b"}},
                "namespaceSelector": {"matchLabels": {"project": namespaces}},
            }])
        };
        for (namespaces, expected) in [("x", Requestable::Unknown), ("y", Requestable::No)] {
            let mut world = world();
            put(&mut world, "p", |it| {
                *it.pointer_mut(REQUESTERS).unwrap() = by_label(namespaces);
            });
            assert_eq!(said(&world), expected);
        }
        let mut world = world();
        put(&mut world, "p", |it| {
            let granted = it["spec"]["checkGrantedPermission"].as_object_mut();
            granted.unwrap().remove("requesters");
        });
        assert_eq!(said(&world), Requestable::No);
        world.config = Some(Config {
            default_requesters: DefaultRequesters::Any,
            ..Config::CLOSED
        });
        assert_eq!(said(&world), Requestable::Yes);
        world.config = None;
        assert_eq!(said(&world), Requestable::Unknown);
    }

    #[test]
    fn caches_that_were_never_heard_or_not_lately_know_nothing() {
        let late = now() + MOST;
        assert_eq!(asked(&world(), &question(), late), Requestable::Unknown);
        // Decisions need no policies, but this does.
        let half = world();
        half.hear_what_decides(late);
        assert_eq!(asked(&half, &question(), late), Requestable::Unknown);
        let mut silent = World::default();
        put(&mut silent, "p", |_| ());
        assert_eq!(said(&silent), Requestable::Unknown);
    }

    #[test]
    fn it_is_said_only_with_a_no_to_a_pod_without_a_request() {
        let mut world = world();
        put(&mut world, "p", |_| ());
        let mut without_pod = question();
        without_pod.pod = None;
        let mut without_uid = question();
        without_uid.pod = Some(PodRef {
            name: "deploy".to_owned(),
            uid: String::new(),
        });
        for question in [without_pod, without_uid] {
            assert_eq!(asked(&world, &question, now()), Requestable::Unknown);
        }
        world.requests.apply(request("a", "Pending"));
        assert_eq!(said(&world), Requestable::Unknown);
        world.requests.apply(request("a", "Granted"));
        world.chain.rbac.apply(&role("r", POD_FORM)).unwrap();
        world.chain.rbac.apply(&role_binding("r")).unwrap();
        assert_eq!(said(&world), Requestable::Unknown);
    }

    /// The results for so many equal questions in one batch.
    fn batch(world: &World, count: usize, at: Timestamp) -> Vec<Requestable> {
        let question = question();
        let answer = v1::AccessAnswer::from(access_decision::answer(world, &question, at));
        let mut answers = vec![answer; count];
        let pairs = answers.iter_mut().map(|it| (question.borrowed(), it));
        add_to_batch(pairs, world, at, MOST);
        answers.iter().map(|it| it.requestable.into()).collect()
    }

    /// Policies that take so many comparisons, and accept nobody.
    fn costing(comparisons: usize) -> World {
        let mut world = world();
        let names: Vec<_> = (0..63).map(|it| format!("c{it}")).collect();
        for number in 0..comparisons / 64 {
            put(&mut world, &format!("p{number}"), |it| {
                it["spec"]["connector"] = json!({"names": names});
            });
        }
        world
    }

    #[test]
    fn all_questions_of_a_batch_together_take_no_more_comparisons_than_four_looks() {
        let no = |count| vec![Requestable::No; count];
        let unknown = |count| vec![Requestable::Unknown; count];
        let all = costing(COMPARISONS);
        assert_eq!(batch(&all, 1, now()), no(1));
        assert_eq!(batch(&all, 4, now()), no(4));
        assert_eq!(batch(&all, 5, now()), unknown(5));
        let quarter = costing(COMPARISONS / 4);
        assert_eq!(batch(&quarter, 16, now()), no(16));
        assert_eq!(batch(&quarter, 17, now()), unknown(17));
        assert_eq!(batch(&all, 1, now() + MOST), unknown(1), "not fresh");
    }

    #[test]
    fn a_question_takes_no_comparisons_from_the_others_of_its_batch() {
        // Half of what one question may take, and more than an equal part of all.
        let mut world = costing(COMPARISONS / 2);
        let connector = json!({"namespace": "cheap", "name": "harbor"});
        world
            .catalog
            .put_connector(serde_json::from_value(connector).unwrap());
        let mut cheap = question();
        "cheap".clone_into(&mut cheap.connector.namespace);
        let mut questions = vec![question(); 15];
        questions.push(cheap);
        let of = |it| v1::AccessAnswer::from(access_decision::answer(&world, it, now()));
        let mut answers: Vec<_> = questions.iter().map(of).collect();
        let pairs = questions.iter().map(AccessQuestion::borrowed);
        add_to_batch(pairs.zip(answers.iter_mut()), &world, now(), MOST);
        let said: Vec<Requestable> = answers.iter().map(|it| it.requestable.into()).collect();
        assert_eq!(said[..15], [Requestable::Unknown; 15]);
        assert_eq!(said[15], Requestable::No);
    }

    #[test]
    fn more_comparisons_than_one_look_may_take_are_not_made() {
        let mut world = world();
        let names: Vec<_> = (0..256).map(|it| format!("c{it}")).collect();
        let policies = COMPARISONS / 257;
        for number in 0..policies {
            put(&mut world, &format!("p{number}"), |it| {
                it["spec"]["connector"] = json!({"names": names});
            });
        }
        assert_eq!(said(&world), Requestable::No);
        put(&mut world, "q", |it| {
            it["spec"]["connector"] = json!({"names": names});
        });
        assert_eq!(said(&world), Requestable::Unknown);
        // A policy that is found earlier is still a yes.
        put(&mut world, "a", |_| ());
        assert_eq!(said(&world), Requestable::Yes);
    }
}
