//! `WhoCan`: all subjects whom `CheckAccess` would allow now, with the source of their access.

use authz::{Attributes, Binding, Subject};
use evaluation_api::access::{
    AccessTarget, BindingSubject, Decision, PodAccess, PodRef, ServiceAccountName, StandingAccess,
    WhoCan,
};
use jiff::Timestamp;

use crate::access_decision::{self, PreparedQuestion};
use crate::world::{KnownRequest, World};

/// The limit of listed subjects of each kind.
const MOST: usize = 4096;
/// The limit of listed missing roles.
const MOST_ERRORS: usize = 32;

/// The subjects with access from the known objects, at this time.
#[must_use]
pub fn who_can(world: &World, target: &AccessTarget, now: Timestamp) -> WhoCan {
    let subresource = target.permission.as_str();
    let wanted = access_decision::target(target.connector.borrowed(), subresource);
    let authz::AllowedSubjects {
        subjects,
        is_cut,
        errors,
    } = {
        let counts = |binding: &Binding| !access_decision::is_ours_and_going(binding);
        world.chain.rbac.who_can(&target.verb, wanted, MOST, counts)
    };
    let standing = subjects
        .iter()
        .flat_map(|subject| standing(world, target, subject));
    let mut standing: Vec<_> = standing.take(MOST + 1).collect();
    let mut pods: Vec<_> = pods(world, target, now)
        .into_iter()
        .take(MOST + 1)
        .collect();
    let is_cut = is_cut || standing.len() > MOST || pods.len() > MOST;
    standing.truncate(MOST);
    pods.truncate(MOST);
    WhoCan {
        standing,
        pods,
        is_cut,
        errors: errors
            .iter()
            .take(MOST_ERRORS)
            .map(ToString::to_string)
            .collect(),
        fresh_as_of: world.fresh_as_of(),
    }
}

/// The bindings behind a subject. One of ours that is being deleted gives nothing any more.
fn standing(world: &World, target: &AccessTarget, subject: &Subject) -> Vec<StandingAccess> {
    let user = subject.alone();
    let grants = world.chain.rbac.allowing(&Attributes {
        user: &user,
        verb: &target.verb,
        target: access_decision::target(target.connector.borrowed(), target.permission.as_str()),
    });
    let counting = grants.filter(|grant| !access_decision::is_ours_and_going(grant.binding));
    let access = |grant| StandingAccess {
        holder: holder(subject),
        binding: access_decision::binding(&grant),
    };
    counting.map(access).take(MOST + 1).collect()
}

fn holder(subject: &Subject) -> BindingSubject {
    match subject {
        Subject::User(name) => BindingSubject::User(name.to_string()),
        Subject::Group(name) => BindingSubject::Group(name.to_string()),
        Subject::ServiceAccount { namespace, name } => {
            BindingSubject::ServiceAccount(ServiceAccountName {
                namespace: namespace.to_string(),
                name: name.to_string(),
            })
        }
    }
}

/// The pods with a grant in force, in the order of their names.
fn pods(world: &World, target: &AccessTarget, now: Timestamp) -> Vec<PodAccess> {
    let AccessTarget {
        connector,
        permission,
        ..
    } = target;
    let deciding = world
        .requests
        .deciding_for(&connector.namespace, &connector.name, *permission);
    let mut pods: Vec<_> = deciding
        .filter_map(|request| pod(world, target, request, now))
        .collect();
    let order = |pod: &PodAccess| {
        let ServiceAccountName { namespace, .. } = &pod.subject;
        (namespace.clone(), pod.pod.name.clone(), pod.pod.uid.clone())
    };
    pods.sort_by_cached_key(order);
    pods
}

/// Whether a pod is let in, asked as the pod itself would ask.
fn pod(
    world: &World,
    target: &AccessTarget,
    request: &KnownRequest,
    now: Timestamp,
) -> Option<PodAccess> {
    let tuple = &request.tuple;
    let subject = ServiceAccountName {
        namespace: tuple.subject_namespace.to_string(),
        name: tuple.subject.to_string(),
    };
    let pod = PodRef {
        name: request.pod_name.to_string(),
        uid: tuple.pod_uid.to_string(),
    };
    let question = target.clone().asked_by(subject, Some(pod));
    let asked = question.borrowed();
    let user = access_decision::user(asked.subject);
    let answer = access_decision::answer_asked(world, &PreparedQuestion::new(asked, &user), now);
    let Decision::AllowedPod(binding) = answer.decision else {
        return None;
    };
    Some(PodAccess {
        subject: question.subject,
        pod: question.pod?,
        binding,
        request: answer.request?,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, RoleBinding};
    use serde_json::json;

    use super::*;
    use crate::fixtures::{POD_FORM, question, request, role, role_binding};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn target() -> AccessTarget {
        let asked = question();
        AccessTarget {
            connector: asked.connector,
            permission: asked.permission,
            verb: asked.verb,
        }
    }

    fn world() -> World {
        let mut world = World::default();
        world.chain.rbac.apply(&role("pod", POD_FORM)).unwrap();
        world.chain.rbac.apply(&role_binding("pod")).unwrap();
        world
    }

    #[test]
    fn a_pod_is_listed_while_its_request_is_granted() {
        let mut world = world();
        world.requests.apply(request("a", "Pending"));
        assert_eq!(who_can(&world, &target(), NOW).pods, []);
        world.requests.apply(request("a", "Granted"));
        let who = who_can(&world, &target(), NOW);
        let [pod] = &who.pods[..] else {
            panic!("{who:?}")
        };
        assert_eq!(Some(&pod.pod), question().pod.as_ref());
        assert_eq!(pod.subject, question().subject);
        assert_eq!(
            (pod.binding.name.as_str(), pod.request.name.as_str()),
            ("pod", "a")
        );
        assert_eq!(who.standing, []);
        let mut other = target();
        other.connector.name = "gitlab".to_owned();
        assert_eq!(who_can(&world, &other, NOW).pods, []);
    }

    #[test]
    fn standing_holders_are_listed_with_each_of_their_bindings() {
        let mut world = world();
        world
            .chain
            .rbac
            .apply(&role("all", "connectors/apis"))
            .unwrap();
        let mut binding = role_binding("all");
        binding.metadata.labels = None;
        world.chain.rbac.apply(&binding).unwrap();
        let cluster: ClusterRole = serde_json::from_value(json!({
            "metadata": {"name": "any"},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
        }))
        .unwrap();
        let bound: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": {"name": "any", "uid": "any"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "any"},
            "subjects": [{"kind": "Group", "name": "admins"}, {"kind": "User", "name": "alice"}],
        }))
        .unwrap();
        world.chain.rbac.apply(&cluster).unwrap();
        world.chain.rbac.apply(&bound).unwrap();
        let who = who_can(&world, &target(), NOW);
        let listed: BTreeSet<_> = who
            .standing
            .iter()
            .map(|one| (format!("{:?}", one.holder), one.binding.name.as_str()))
            .collect();
        let account = format!("{:?}", BindingSubject::ServiceAccount(question().subject));
        let expected = BTreeSet::from([
            ("Group(\"admins\")".to_owned(), "any"),
            ("User(\"alice\")".to_owned(), "any"),
            (account, "all"),
        ]);
        assert_eq!(listed, expected);
        assert!(!who.is_cut);
    }

    /// Puts in as many as are listed, and then one more.
    fn ends_at_the_limit(
        mut world: World,
        put: impl Fn(&mut World, usize),
        listed: fn(&WhoCan) -> usize,
    ) {
        (1..MOST).for_each(|number| put(&mut world, number));
        for (number, is_cut) in [(MOST, false), (MOST + 1, true)] {
            put(&mut world, number);
            let who = who_can(&world, &target(), NOW);
            assert_eq!((listed(&who), who.is_cut), (MOST, is_cut));
        }
    }

    #[test]
    fn bindings_are_listed_up_to_a_limit_and_it_is_told_when_some_are_left_out() {
        let mut world = world();
        let all = role("all", "connectors/apis");
        world.chain.rbac.apply(&all).unwrap();
        let mut binding = role_binding("all");
        binding.metadata.labels = None;
        let put = |world: &mut World, number| {
            let mut binding = binding.clone();
            binding.metadata.name = Some(format!("all-{number}"));
            world.chain.rbac.apply(&binding).unwrap();
        };
        ends_at_the_limit(world, put, |who| who.standing.len());
    }

    #[test]
    fn pods_are_listed_up_to_a_limit_and_it_is_told_when_some_are_left_out() {
        let granted = request("a", "Granted");
        let put = |world: &mut World, number| {
            let mut request = granted.clone();
            request.metadata.name = Some(format!("a-{number}"));
            request.spec.context.object_ref.uid = Some(format!("pod-{number}"));
            world.requests.apply(request);
        };
        ends_at_the_limit(world(), put, |who| who.pods.len());
    }

    #[test]
    fn a_binding_of_ours_on_its_way_out_and_one_without_a_role_list_nobody() {
        let mut world = world();
        world
            .chain
            .rbac
            .apply(&role("all", "connectors/apis"))
            .unwrap();
        let mut going = role_binding("all");
        let time = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        going.metadata.deletion_timestamp = Some(time);
        world.chain.rbac.apply(&going).unwrap();
        let mut loose: RoleBinding = role_binding("loose");
        loose.role_ref.name = "gone".to_owned();
        world.chain.rbac.apply(&loose).unwrap();
        let who = who_can(&world, &target(), NOW);
        assert_eq!(who.standing, []);
        assert_eq!(who.errors.len(), 1, "{who:?}");
    }
}
