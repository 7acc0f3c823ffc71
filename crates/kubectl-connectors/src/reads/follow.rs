//! A list, and then each change.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::NamespaceResourceScope;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use service_kit::watches::{Guarded, Parse};
use tokio::time::sleep;

use super::{ClusterReads, Found, ReadResult, list, resource_of};

/// The pause before a list after a watch that broke.
const PAUSE: Duration = Duration::from_secs(1);
/// The status of a watch from a version that is too old.
const GONE: u16 = 410;

impl ClusterReads {
    /// Passes on all objects, and then those of each change, until `each` returns that this is enough. A deleted
    /// object is passed on once more, unless it went while there was no watch.
    pub async fn follow<K, P>(
        &self,
        namespace: &str,
        mut each: impl FnMut(Vec<Found<K>>) -> bool,
    ) -> ReadResult<()>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + 'static,
        P: Parse<K> + 'static,
        Guarded<K, P>: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + DeserializeOwned
            + Clone
            + Debug
            + 'static,
    {
        let api: Api<Guarded<K, P>> = if namespace.is_empty() {
            Api::all(self.client.clone())
        } else {
            Api::namespaced(self.client.clone(), namespace)
        };
        let resource = resource_of::<K>();
        let read = list(&resource, namespace);
        // The versions that were passed on. A list after a gap repeats known versions.
        let mut known: HashMap<String, String> = HashMap::new();
        let mut is_first = true;
        loop {
            let params = ListParams::default();
            let listed = self.call(read, || api.list(&params)).await?;
            let mut version = listed.metadata.resource_version.unwrap_or_default();
            let there: HashSet<_> = listed.items.iter().filter_map(ResourceExt::uid).collect();
            known.retain(|uid, _| there.contains(uid));
            let news = listed.items.into_iter().filter(|it| is_new(&mut known, it));
            let news: Vec<_> = news.map(|it| it.object.map_err(Box::new)).collect();
            if (is_first || !news.is_empty()) && !each(news) {
                return Ok(());
            }
            is_first = false;
            loop {
                let params = WatchParams::default();
                let changes = self.calls.call(read, || api.watch(&params, &version));
                let changes = match changes.await {
                    Err(error) if error.status() == Some(GONE) => {
                        sleep(PAUSE).await;
                        break;
                    }
                    other => other.map_err(|error| self.unread(read, &error))?,
                };
                let mut changes = pin!(changes);
                let mut is_over = false;
                while let Some(change) = changes.next().await {
                    match change {
                        Ok(WatchEvent::Added(it) | WatchEvent::Modified(it)) => {
                            version = it.resource_version().unwrap_or(version);
                            if is_new(&mut known, &it) && !each(vec![it.object.map_err(Box::new)]) {
                                return Ok(());
                            }
                        }
                        Ok(WatchEvent::Deleted(it)) => {
                            version = it.resource_version().unwrap_or(version);
                            known.remove(&it.uid().unwrap_or_default());
                            if !each(vec![it.object.map_err(Box::new)]) {
                                return Ok(());
                            }
                        }
                        Ok(WatchEvent::Bookmark(it)) => version = it.metadata.resource_version,
                        // The version is too old, or the connection broke.
                        Ok(WatchEvent::Error(_)) | Err(_) => {
                            is_over = true;
                            break;
                        }
                    }
                }
                // Some servers end each watch at once.
                sleep(PAUSE).await;
                if is_over {
                    break;
                }
            }
        }
    }
}

/// True for an object in a version that was not passed on yet.
fn is_new<K: Resource>(known: &mut HashMap<String, String>, object: &K) -> bool {
    let uid = object.uid().unwrap_or_default();
    let version = object.resource_version().unwrap_or_default();
    known.insert(uid, version.clone()) != Some(version)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use connectors_api::AccessRequest;
    use serde_json::{Value, json};

    use super::*;
    use crate::reads::Strict;
    use crate::testing::{self, request};

    fn versioned(name: &str, version: &str) -> Value {
        let mut request = request(name, "ci");
        request["metadata"]["resourceVersion"] = version.into();
        request
    }

    /// The API server writes the type first.
    fn event(word: &str, object: &Value) -> String {
        format!("{{\"type\":\"{word}\",\"object\":{object}}}\n")
    }

    fn failure(code: u16) -> Value {
        json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "", "code": code,
        })
    }

    /// The calls until two objects beside the first one were passed on, and all names that were, each list apart. The first
    /// watch answers this; a second list has one more request, and a second watch too.
    async fn followed(first: (u16, String)) -> (Vec<String>, Vec<Vec<String>>) {
        let asked = Arc::new(Mutex::new(Vec::<String>::new()));
        let calls = Arc::clone(&asked);
        let client = testing::client_of_texts(move |request| {
            let query = request.uri().query().unwrap_or_default();
            let version = query
                .split('&')
                .find_map(|it| it.strip_prefix("resourceVersion="));
            let call = match version {
                Some(version) if query.contains("watch=true") => format!("watch {version}"),
                _ => "list".to_owned(),
            };
            let mut calls = calls.lock().unwrap();
            calls.push(call.clone());
            let of_word = calls.iter().filter(|it| it[..4] == call[..4]).count();
            match (call.as_str(), of_word) {
                ("list", number) => {
                    let mut items = vec![versioned("a", "1")];
                    if number > 1 {
                        items.push(versioned("from-list", "9"));
                    }
                    let list = json!({
                        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequestList",
                        "metadata": {"resourceVersion": format!("7{number}")}, "items": items,
                    });
                    (200, list.to_string())
                }
                (_, 1) => first.clone(),
                _ => (200, event("ADDED", &versioned("from-watch", "9"))),
            }
        });
        let reads = ClusterReads::new(client, None, Duration::from_secs(5));
        let begun = tokio::time::Instant::now();
        let mut passed = Vec::new();
        let each = |found: Vec<Found<AccessRequest>>| {
            let names = found.into_iter().flatten().map(|it| it.name_any());
            passed.push(names.collect::<Vec<_>>());
            !passed.iter().flatten().any(|it| it.starts_with("from-"))
        };
        let followed = reads.follow::<AccessRequest, Strict>("tools", each).await;
        followed.unwrap();
        // A server that ends each watch at once is asked once a second.
        assert!(begun.elapsed() >= PAUSE);
        let asked = asked.lock().unwrap().clone();
        (asked, passed)
    }

    /// A version that the API server calls too old is never asked for again, whatever form the error has. A watch that only
    /// ended goes on from the last version.
    #[tokio::test(start_paused = true)]
    async fn a_watch_goes_on_from_its_last_version_and_after_an_error_from_a_list() {
        let bookmark = json!({"kind": "AccessRequest", "apiVersion": "connectors.alauda.io/v1alpha1",
            "metadata": {"resourceVersion": "8", "creationTimestamp": null}});
        let anew = &["list", "watch 71", "list"][..];
        let on = &["list", "watch 71", "watch 8"][..];
        for (what, first, calls, passed) in [
            ("gone", (200, event("ERROR", &failure(410))), anew, &[][..]),
            ("an error", (200, event("ERROR", &failure(500))), anew, &[]),
            ("no event", (200, "x\n".to_owned()), anew, &[]),
            (
                "gone at the begin",
                (410, failure(410).to_string()),
                anew,
                &[],
            ),
            ("a bookmark", (200, event("BOOKMARK", &bookmark)), on, &[]),
            (
                "a change",
                (200, event("MODIFIED", &versioned("a", "8"))),
                on,
                &["a"],
            ),
            (
                "a new one",
                (200, event("ADDED", &versioned("b", "8"))),
                on,
                &["b"],
            ),
            (
                "a deletion",
                (200, event("DELETED", &versioned("a", "8"))),
                on,
                &["a"],
            ),
            // It was in the list.
            (
                "a known one",
                (200, event("ADDED", &versioned("a", "1"))),
                &["list", "watch 71", "watch 1"],
                &[],
            ),
        ] {
            let (asked, found) = followed(first).await;
            assert_eq!(asked, calls, "{what}");
            let last = if calls == anew {
                "from-list"
            } else {
                "from-watch"
            };
            let between = passed.iter().map(|it| vec![*it]);
            let expected: Vec<_> = [vec!["a"]]
                .into_iter()
                .chain(between)
                .chain([vec![last]])
                .collect();
            assert_eq!(found, expected, "{what}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_is_forbidden_is_told() {
        let client = testing::client(|asked| {
            let is_watch = asked
                .uri()
                .query()
                .unwrap_or_default()
                .contains("watch=true");
            if is_watch {
                return (403, failure(403));
            }
            let list = json!({
                "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequestList",
                "metadata": {"resourceVersion": "7"}, "items": [],
            });
            (200, list)
        });
        let reads = ClusterReads::new(client, None, Duration::from_secs(5));
        let followed = reads
            .follow::<AccessRequest, Strict>("tools", |_| true)
            .await;
        assert!(followed.unwrap_err().message.contains("may not"));
    }
}
