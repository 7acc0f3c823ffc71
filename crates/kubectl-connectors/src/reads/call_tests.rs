//! Which calls are made again, and where a list of pages ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::ClusterRole;
use serde_json::json;
use service_kit::watches::Plain;

use super::*;
use crate::testing;

/// An answer to any call of the calls below.
fn answer(path: &str) -> Value {
    let name = path.rsplit('/').next().unwrap_or_default();
    if path.contains("subjectaccessreviews") {
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}, "spec": {},
            "status": {"allowed": true},
        })
    } else if ["v1", "v2"].contains(&name) {
        let kind = |kind: &str, name: &str| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get"]});
        let of = path
            .trim_start_matches("/apis/")
            .trim_start_matches("/api/");
        json!({
            "apiVersion": "v1", "kind": "APIResourceList", "groupVersion": of,
            "resources": [kind("ChangeRequest", "changerequests"), kind("Freeze", "freezes")],
        })
    } else if name.ends_with('s') {
        json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": []})
    } else {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "tools"}})
    }
}

/// A reader, and the number of calls that it has made.
fn reader() -> (ClusterReads, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let client = testing::client(move |asked| {
        counted.fetch_add(1, Ordering::SeqCst);
        (200, answer(asked.uri().path()))
    });
    let reads = ClusterReads::new(client, None, Duration::from_secs(5));
    (reads, calls)
}

fn user(name: &str) -> authz::User {
    authz::User {
        name: name.to_owned(),
        groups: Vec::new(),
    }
}

fn kind(group: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: "v1".to_owned(),
        api_version: format!("{group}/v1"),
        kind: "ChangeRequest".to_owned(),
        plural: plural.to_owned(),
    }
}

fn object_kind(api_version: &str, kind: &str) -> ObjectKind {
    ObjectKind {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    }
}

/// The number of calls below. Each differs from every other one in one part.
const CALLS: usize = 26;

/// One of them.
async fn call(reads: &ClusterReads, number: usize) {
    let may = async |name: &str, namespace: &str, connector: &str| {
        let question = ReviewOf {
            verb: "get",
            subresource: "apis",
            namespace,
            connector,
        };
        reads.may(&user(name), question).await.map(drop)
    };
    let may_list = async |name: &str, group: &str, plural: &str| {
        let (user, kind) = (user(name), kind(group, plural));
        reads.may_list(&user, &kind).await.map(drop)
    };
    let one = async |namespace: &str, name: &str| {
        let found = reads.one::<ConfigMap, Plain>(namespace, name).await;
        found.map(drop)
    };
    let all = async |namespace: &str, labels: &str| {
        let found = reads.all::<ConfigMap, Plain>(namespace, labels).await;
        found.map(drop)
    };
    let served = async |api_version: &str, kind: &str| {
        let found = reads.served(&object_kind(api_version, kind)).await;
        found.map(drop)
    };
    let answered = match number {
        0 => may("a", "tools", "git").await,
        1 => may("a", "tools", "gi").await,
        2 => may("a", "tool", "git").await,
        3 => may("b", "tools", "git").await,
        4 => may_list("a", "itsm.example.com", "changerequests").await,
        5 => may_list("a", "other.example.com", "changerequests").await,
        6 => may_list("a", "", "changerequests").await,
        7 => may_list("a", "itsm.example.com", "freezes").await,
        8 => may_list("b", "itsm.example.com", "changerequests").await,
        9 => one("tools", "a").await,
        10 => one("tools", "b").await,
        11 => one("tool", "a").await,
        12 => all("tools", "").await,
        13 => all("tool", "").await,
        14 => all("", "").await,
        15 => all("tools", "a=b").await,
        16 => all("tools", "a=c").await,
        17 => reads.one_of_cluster::<Namespace>("a").await.map(drop),
        18 => reads.one_of_cluster::<Namespace>("b").await.map(drop),
        19 => reads.one_of_cluster::<ClusterRole>("a").await.map(drop),
        20 => served("itsm.example.com/v1", "ChangeRequest").await,
        21 => served("itsm.example.com/v2", "ChangeRequest").await,
        22 => served("other.example.com/v1", "ChangeRequest").await,
        23 => served("itsm.example.com/v1", "Freeze").await,
        24 => may("a", "tools", "git harbor").await,
        25 => {
            let found = reads.all::<AccessRequest, Strict>("tools", "").await;
            found.map(drop)
        }
        _ => panic!("{number}"),
    };
    answered.unwrap_or_else(|missed| panic!("{number}: {missed}"));
}

#[tokio::test]
async fn within_one_look_each_answer_counts_for_its_own_call_alone() {
    let (plain, calls) = reader();
    let reads = plain.remembering();
    let made = async |reads: &ClusterReads, number: usize| {
        let before = calls.load(Ordering::SeqCst);
        call(reads, number).await;
        calls.load(Ordering::SeqCst) - before
    };
    for number in 0..CALLS {
        assert!(made(&reads, number).await > 0, "{number}");
    }
    for number in 0..CALLS {
        assert_eq!(made(&reads, number).await, 0, "{number}");
    }
    // Another look reads anew, and so does a reader that remembers nothing.
    for reads in [&plain.remembering(), &reads.remembering(), &plain, &plain] {
        for number in 0..CALLS {
            assert!(made(reads, number).await > 0, "{number}");
        }
    }
}

/// Pods and objects of checks are large, and pages are read to count them.
#[tokio::test]
async fn objects_and_pages_are_read_each_time() {
    let (plain, calls) = reader();
    let reads = plain.remembering();
    let kind = kind("itsm.example.com", "changerequests");
    for _ in 0..2 {
        let before = calls.load(Ordering::SeqCst);
        reads.object(&kind, "tools", "a").await.unwrap();
        reads.objects(&kind, "tools", "a=b", 4).await.unwrap();
        let first = reads.first::<AccessRequest, Strict>("tools", "", 4).await;
        first.unwrap();
        assert_eq!(calls.load(Ordering::SeqCst) - before, 3);
    }
}

/// Pages with so many objects of this size: the number of objects, whether some are missing, and the number of calls.
async fn listed(pages: &'static [usize], bytes: usize, most: usize) -> (usize, bool, usize) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let client = testing::client(move |asked| {
        let call = counted.fetch_add(1, Ordering::SeqCst);
        let query = asked.uri().query().unwrap_or_default();
        // Each call asks for the page behind the last one.
        let token = (call > 0).then(|| format!("continue=page-{call}"));
        assert_eq!(query.contains("continue="), token.is_some(), "{query}");
        assert!(query.contains(&token.unwrap_or_default()), "{query}");
        assert!(query.contains("labelSelector=a%3Db"), "{query}");
        let object = |at: usize| {
            let name = format!("o-{call}-{at}");
            json!({
                "apiVersion": "itsm.example.com/v1", "kind": "ChangeRequest",
                "metadata": {"name": name, "namespace": "ci"}, "spec": {"note": "x".repeat(bytes)},
            })
        };
        let items: Vec<_> = (0..pages[call]).map(object).collect();
        let next = if call + 1 < pages.len() {
            format!("page-{}", call + 1)
        } else {
            String::new()
        };
        let list = json!({
            "apiVersion": "itsm.example.com/v1", "kind": "ChangeRequestList", "metadata": {"continue": next},
            "items": items,
        });
        (200, list)
    });
    let reads = ClusterReads::new(client, None, Duration::from_secs(5));
    let kind = kind("itsm.example.com", "changerequests");
    let found = reads.objects(&kind, "ci", "a=b", most).await.unwrap();
    let calls = calls.load(Ordering::SeqCst);
    (found.objects.len(), found.problem.is_some(), calls)
}

/// A part of the objects is told as a part, and all of them are no part.
#[tokio::test]
async fn objects_of_a_check_are_read_to_their_limit_and_what_is_left_out_is_told() {
    let heavy = 3 * MOST_LISTED / 4;
    for (pages, bytes, most, expected) in [
        (&[0][..], 1, 4, (0, false, 1)),
        (&[4], 1, 4, (4, false, 1)),
        (&[2, 2], 1, 4, (4, false, 2)),
        (&[2, 2, 1], 1, 4, (5, false, 3)),
        (&[2, 2, 1], 1, 3, (4, true, 2)),
        (&[5, 1], 1, 4, (5, true, 1)),
        (&[4, 1, 1], 1, 4, (5, true, 2)),
        (&[0, 0, 2], 1, 4, (2, false, 3)),
        (&[1, 1], heavy, 4, (2, false, 2)),
        (&[1, 1, 1], heavy, 4, (2, true, 2)),
    ] {
        let found = listed(pages, bytes, most).await;
        assert_eq!(found, expected, "{pages:?} {bytes} {most}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_that_gets_no_credentials_or_no_answer_quotes_nothing_and_ends() {
    let user = Some("dev".to_owned());
    let client = testing::client_without_credentials("hunter2");
    let reads = ClusterReads::new(client, user.clone(), Duration::from_secs(5));
    let missed = reads.me().await.unwrap_err();
    assert!(missed.message.contains("user entry `dev`"), "{missed}");
    assert!(!format!("{missed:?}").contains("hunter2"), "{missed:?}");
    let limit = Duration::from_secs(5);
    let reads = ClusterReads::new(testing::silent_client(), user, limit);
    let begin = Instant::now();
    reads.me().await.unwrap_err();
    let waited = begin.elapsed();
    assert!(waited >= limit && waited < limit * 2, "{waited:?}");
}
