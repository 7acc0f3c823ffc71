use std::collections::BTreeMap;

use connectors_api::AccessPolicy;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::{
    cache::PolicyCached,
    plan::wanted::wanted,
    testing::{
        Around, OWN, api_server, calls, cluster, job, job_of, owner, put_policy, reading,
        reconciler, reconciler_that, spec,
    },
};

/// A policy as it is in the cache.
fn cached(deleting: bool) -> PolicyCached {
    let subjects = json!([{"kind": "User", "name": "alice"}]);
    let policy = AccessPolicy::new("p", spec(&reading(&json!({}), &subjects)));
    PolicyCached::of(job().uid, deleting, Some(policy))
}

#[tokio::test]
async fn without_objects_nothing_is_left_to_do_only_for_a_policy_that_is_going() {
    let reconciler = reconciler(&api_server());
    assert!(reconciler.is_settled(&job()), "there is no policy");
    for deleting in [false, true] {
        let mut world = reconciler.world.write();
        world.policy(&owner().name, Some(cached(deleting)));
        drop(world);
        assert_eq!(reconciler.is_settled(&job()), deleting);
    }
}

#[tokio::test]
async fn a_look_reads_where_this_process_leads_and_the_caches_show_work_or_may_have_missed_some() {
    for (leads, has_work, is_unseen, reads) in [
        (true, false, false, false),
        (true, true, false, true),
        (true, false, true, true),
        (true, true, true, true),
        (false, true, true, false),
        (false, false, true, false),
        (false, true, false, false),
        (false, false, false, false),
    ] {
        let server = api_server();
        let reconciler = reconciler_that(&server, leads);
        if has_work {
            let mut world = reconciler.world.write();
            world.policy(&owner().name, Some(cached(false)));
        }
        if is_unseen {
            reconciler.unseen().insert(job());
        }
        let taken = Taken {
            job: job(),
            since: Instant::now(),
        };
        assert_eq!(reconciler.look(&taken).await, Looked::Done);
        let has_read = !calls(&server).is_empty();
        assert_eq!(has_read, reads, "{leads} {has_work} {is_unseen}");
    }
}

#[tokio::test]
async fn only_what_another_client_undid_counts_against_the_next_looks() {
    let server = api_server();
    server.create(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector",
        "metadata": {"name": "harbor", "namespace": OWN}, "spec": {"connectorClassName": "harbor"},
    }));
    let uid = put_policy(&server, "p");
    let job = job_of(&uid);
    let reconciler = reconciler(&server);
    reconciler.queue.listen();
    let look = async || {
        let look = reconciler.reconcile(&job, Tells::OfPolicies);
        look.await.unwrap();
        // The last one are the jobs that are undone.
        reconciler.queue.census().last().copied()
    };
    assert_eq!(look().await, Some(0), "granted for the first time");
    server.delete("rolebindings", OWN, &format!("policy-{uid}"));
    assert_eq!(look().await, Some(1));
}

#[test]
fn a_policy_that_is_gone_has_the_name_that_its_own_objects_tell() {
    let mut there = cluster(&pairs_of_policy());
    assert_eq!(owner_of(&job(), &there), owner());
    there.roles.clear();
    assert_eq!(owner_of(&job(), &there), owner(), "by its RoleBinding");
    // A user who may write labels can have an object of another policy counted as one of this.
    let found = owner_of(&job_of("other"), &there);
    assert_eq!(found.name, Name::new(OWN, ""));
    assert_eq!(found.uid, "other");
}

fn pairs_of_policy() -> BTreeMap<String, objects::RolePair> {
    let (spec, around) = (cached(false), Around::default().connector("harbor", &[]));
    let spec = &spec.policy().unwrap().spec;
    let wanted = wanted(spec, OWN, around.seen());
    objects::pairs(&wanted, &owner(), MOST_BYTES)
}
