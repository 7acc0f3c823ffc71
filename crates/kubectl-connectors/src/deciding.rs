//! Of several requests about one access, the one that decides. The services choose it in the same way.

use std::collections::BTreeMap;

use connectors_api::AccessRequest;
use connectors_api::pod_grant::RequestFacts as _;
use connectors_api::request_order::{self, RequestTuple};

/// The request that decides, of requests about one access. A request that is being deleted counts as deleted.
pub(crate) fn of_one<'a>(
    requests: impl IntoIterator<Item = &'a AccessRequest>,
) -> Option<&'a AccessRequest> {
    let requests = requests.into_iter();
    request_order::deciding(requests.filter(|it| !it.is_deleting()))
}

/// The request that decides about each access, of all requests of some namespaces. A request without the UID of its pod
/// decides nothing.
pub(crate) fn of_each<'a>(
    requests: impl IntoIterator<Item = &'a AccessRequest>,
) -> impl Iterator<Item = &'a AccessRequest> {
    let mut accesses: BTreeMap<(&str, RequestTuple), Vec<&AccessRequest>> = BTreeMap::new();
    for request in requests {
        if let Some(tuple) = RequestTuple::of(&request.spec) {
            let access = accesses.entry((request.namespace(), tuple));
            access.or_default().push(request);
        }
    }
    accesses.into_values().filter_map(of_one)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::request;

    fn deciding(requests: Vec<Value>) -> Vec<String> {
        let requests = requests.into_iter();
        let requests: Vec<AccessRequest> = requests
            .map(|it| serde_json::from_value(it).unwrap())
            .collect();
        let found = of_each(&requests);
        found.filter_map(|it| it.metadata.uid.clone()).collect()
    }

    fn changed(name: &str, pointer: &str, value: Value) -> Value {
        let mut request = request(name, "ci");
        *request.pointer_mut(pointer).unwrap() = value;
        request
    }

    #[test]
    fn one_request_decides_about_each_access_of_each_namespace() {
        let uid = "/spec/context/objectRef/uid";
        let of_another_pod = changed("b", uid, json!("u2"));
        let elsewhere = changed("c", "/metadata/namespace", json!("other"));
        let of_no_pod = changed("d", uid, json!(""));
        let all = vec![request("a", "ci"), of_another_pod, elsewhere, of_no_pod];
        let mut found = deciding(all);
        found.sort();
        assert_eq!(found, ["a", "b", "c"]);
        let younger = request("b", "ci");
        assert_eq!(deciding(vec![younger, request("a", "ci")]), ["a"]);
    }

    #[test]
    fn a_request_that_is_being_deleted_decides_nothing() {
        let mut going = request("a", "ci");
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        going["status"] = json!({"phase": "Granted"});
        assert_eq!(deciding(vec![going.clone()]), [""; 0]);
        assert_eq!(deciding(vec![going, request("b", "ci")]), ["b"]);
    }
}
