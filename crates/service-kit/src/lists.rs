//! Whole lists, page by page.

use std::fmt;

use kube::{Api, api::ListParams};
use serde::de::DeserializeOwned;

use crate::retry::{CallError, RetryPolicy};

/// Objects of one page, where a list names no other number.
pub const PAGE: u32 = 500;

/// A list that is read page by page, for a reader that may stop before its end.
#[derive(Clone, Debug)]
pub struct Pages {
    /// None after the last page.
    next: Option<ListParams>,
}

impl Pages {
    /// Nothing is read yet.
    #[must_use]
    pub fn of(objects: u32, params: ListParams) -> Self {
        Self {
            next: Some(params.limit(objects)),
        }
    }

    /// The next page, with the attempts of the policy. None after the last one.
    pub async fn next<K>(
        &mut self,
        policy: &RetryPolicy,
        call: impl fmt::Display,
        api: &Api<K>,
    ) -> Result<Option<Vec<K>>, CallError>
    where
        K: Clone + fmt::Debug + DeserializeOwned,
    {
        let Some(params) = self.next.take() else {
            return Ok(None);
        };
        let page = policy.call(call, || api.list(&params)).await?;
        let token = page.metadata.continue_.filter(|it| !it.is_empty());
        self.next = token.map(|token| params.continue_token(&token));
        Ok(Some(page.items))
    }
}

/// All objects that there are, each page with the attempts of the policy.
pub async fn whole<K>(
    policy: &RetryPolicy,
    call: impl fmt::Display,
    api: &Api<K>,
    params: ListParams,
) -> Result<Vec<K>, CallError>
where
    K: Clone + fmt::Debug + DeserializeOwned,
{
    let mut pages = Pages::of(PAGE, params);
    let mut all = Vec::new();
    while let Some(page) = pages.next(policy, &call, api).await? {
        all.extend(page);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, sync::Mutex, time::Duration};

    use http::StatusCode;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt as _;

    use super::*;
    use crate::{fake_api, retry::Backoff};

    const ONCE: RetryPolicy = RetryPolicy {
        attempts: 1,
        attempt: Duration::from_secs(1),
        total: Duration::from_secs(1),
        pauses: Backoff::new(Duration::ZERO, Duration::ZERO),
    };

    /// An API server with three objects, and the queries that it was asked.
    fn server() -> (Api<ConfigMap>, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let queries = Arc::clone(&asked);
        let client = fake_api::client(move |request| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let at = ["continue=b", "continue=c"]
                .iter()
                .position(|it| query.contains(it));
            let (name, next) = [("a", "b"), ("b", "c"), ("c", "")][at.map_or(0, |it| it + 1)];
            queries.lock().unwrap().push(query);
            let page = serde_json::json!({
                "metadata": {"continue": next}, "items": [{"metadata": {"name": name}}],
            });
            async move { fake_api::answer(StatusCode::OK, page.to_string()) }
        });
        (Api::all(client), asked)
    }

    #[tokio::test]
    async fn a_whole_list_is_all_of_its_pages() {
        let (api, _) = server();
        let all = whole(&ONCE, "list", &api, ListParams::default())
            .await
            .unwrap();
        let names: Vec<_> = all.iter().map(ConfigMap::name_any).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[tokio::test]
    async fn a_reader_that_stops_asks_for_no_further_page() {
        let (api, asked) = server();
        let mut pages = Pages::of(1, ListParams::default().labels("run=r"));
        for name in ["a", "b"] {
            let page = pages.next(&ONCE, "list", &api).await.unwrap().unwrap();
            assert_eq!(page[0].name_any(), name);
        }
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 2);
        assert!(
            asked
                .iter()
                .all(|it| it.contains("limit=1") && it.contains("labelSelector=run"))
        );
    }

    /// An API server with so many objects, of which one page cannot be had.
    fn many(count: usize, broken: Option<usize>) -> Api<ConfigMap> {
        let client = fake_api::client(move |request| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let number = |key: &str| -> Option<usize> {
                let mut pairs = query.split('&').filter_map(|it| it.split_once('='));
                pairs.find(|(it, _)| *it == key)?.1.parse().ok()
            };
            let start = number("continue").unwrap_or(0);
            let end = count.min(start + number("limit").unwrap());
            let items: Vec<_> = (start..end)
                .map(|it| serde_json::json!({"metadata": {"name": it.to_string()}}))
                .collect();
            let next = (end < count).then(|| end.to_string());
            let page = serde_json::json!({"metadata": {"continue": next}, "items": items});
            async move {
                if broken == Some(start) {
                    return fake_api::refusal(StatusCode::GONE);
                }
                fake_api::answer(StatusCode::OK, page.to_string())
            }
        });
        Api::all(client)
    }

    #[tokio::test]
    async fn a_list_of_any_length_is_whole_and_names_each_object_once() {
        let page = usize::try_from(PAGE).unwrap();
        for count in [0, 1, page - 1, page, page + 1, 2 * page, 3 * page + 7] {
            let params = ListParams::default();
            let all = whole(&ONCE, "list", &many(count, None), params)
                .await
                .unwrap();
            let names = all.iter().map(ConfigMap::name_any);
            assert!(names.eq((0..count).map(|it| it.to_string())), "{count}");
        }
    }

    #[tokio::test]
    async fn a_list_that_breaks_off_is_an_error_and_never_a_part_of_it() {
        let page = usize::try_from(PAGE).unwrap();
        for broken in [0, page, 2 * page] {
            let api = many(3 * page, Some(broken));
            let found = whole(&ONCE, "list", &api, ListParams::default()).await;
            assert_eq!(found.unwrap_err().status(), Some(410), "{broken}");
        }
    }
}
