//! A sweep over more requests than a page of the API server holds.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::{Request, Response, StatusCode};
use kube::{Client, client::Body};
use serde_json::Value;

use super::{grant_name, guards::ONCE};
use crate::{
    api::Live,
    reconcile::Reconciler,
    sweep::{Swept, sweep},
    testing::Cluster,
};

/// The granted request of the cluster, and two others whose names put it on this page of three.
async fn on_page(number: usize) -> Cluster {
    let cluster = Cluster::granted().await;
    let request = cluster.server.named("accessrequests", "request").unwrap();
    for other in 0..2 {
        let prefix = if other < number { "a" } else { "z" };
        let name = format!("{prefix}{other}");
        let mut other = request.clone();
        other["metadata"]["name"] = name.as_str().into();
        other["metadata"]["uid"] = name.as_str().into();
        other.as_object_mut().unwrap().remove("status");
        cluster.server.put("accessrequests", other);
    }
    cluster
}

/// A client whose API server puts each request on a page of its own, and answers from the `broken` page on with an error.
/// It counts the calls about single grants.
fn one_by_one(cluster: &Cluster, broken: usize, single: &Arc<AtomicUsize>) -> Client {
    let (behind, single) = (cluster.server.client(), Arc::clone(single));
    let service = tower::service_fn(move |request: Request<Body>| {
        let behind = behind.clone();
        let path = request.uri().path();
        if ["/roles/", "/rolebindings/"]
            .iter()
            .any(|it| path.contains(it))
        {
            single.fetch_add(1, Ordering::Relaxed);
        }
        async move {
            let is_list = request.uri().path().ends_with("/accessrequests");
            let query = request.uri().query().unwrap_or_default().to_owned();
            let answer = behind.send(request).await.unwrap();
            if !is_list {
                return Ok::<_, Infallible>(answer);
            }
            let mut pairs = query.split('&').filter_map(|it| it.split_once('='));
            let token = pairs.find(|(key, _)| *key == "continue");
            let page = token.map_or(0, |(_, number)| number.parse::<usize>().unwrap());
            if page >= broken {
                let mut failed = Response::new(Body::empty());
                *failed.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                return Ok(failed);
            }
            let whole = answer.into_body().collect_bytes().await.unwrap();
            let mut list: Value = serde_json::from_slice(&whole).unwrap();
            let items = list["items"].as_array_mut().unwrap();
            items.sort_by_key(|it| it["metadata"]["name"].as_str().unwrap().to_owned());
            let has_more = page + 1 < items.len();
            *items = vec![items[page].take()];
            if has_more {
                list["metadata"]["continue"] = (page + 1).to_string().into();
            }
            Ok(Response::new(Body::from(list.to_string().into_bytes())))
        }
    });
    Client::new(service, "default")
}

/// The result of a sweep, and the number of its calls about single grants.
async fn swept(cluster: &Cluster, broken: usize) -> (Option<Swept>, usize) {
    let single = Arc::default();
    let mut controller: Reconciler = cluster.controller();
    controller.live = Live::new(one_by_one(cluster, broken, &single), ONCE);
    let swept = sweep(&controller, 0, std::time::Duration::ZERO).await.ok();
    (swept, single.load(Ordering::Relaxed))
}

#[tokio::test]
async fn what_the_requests_of_any_page_describe_stays_and_is_not_read_again() {
    for page in 0..3 {
        let cluster = on_page(page).await;
        let (swept, single) = swept(&cluster, 3).await;
        let swept = swept.unwrap();
        assert_eq!((swept.managed, swept.removed), (2, 0), "page {page}");
        assert_eq!(single, 0, "page {page}");
        assert_eq!(cluster.managed().len(), 2, "page {page}");
    }
}

#[tokio::test]
async fn without_one_of_the_pages_nothing_is_removed() {
    for broken in 0..3 {
        let cluster = on_page(2).await;
        assert_eq!(swept(&cluster, broken).await, (None, 0), "page {broken}");
        assert_eq!(cluster.managed().len(), 2, "page {broken}");
    }
}

#[tokio::test]
async fn what_a_finalizer_keeps_is_left_until_it_is_gone() {
    for (goes_meanwhile, left) in [(false, 1), (true, 0)] {
        let cluster = Cluster::granted().await;
        cluster.server.remove("accessrequests", "request");
        cluster.server.change("rolebindings", &grant_name(), |it| {
            it["metadata"]["deletionTimestamp"] = "2026-03-01T10:00:05Z".into();
        });
        if goes_meanwhile {
            cluster.server.after("DELETE roles", |server| {
                server.remove("rolebindings", &grant_name());
            });
        }
        let controller = cluster.controller();
        let expected = Swept {
            managed: 2,
            removed: 1,
            left,
        };
        assert_eq!(
            sweep(&controller, 0, std::time::Duration::ZERO)
                .await
                .unwrap(),
            expected
        );
        let orphaned = controller.gauges[0].orphaned.get();
        assert_eq!(usize::try_from(orphaned).unwrap(), left);
    }
}
