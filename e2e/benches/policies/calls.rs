//! How often the API server wrote and listed, by its own count.

use kube::Client;

/// The kinds that the policy-controller writes.
const WRITTEN: [&str; 3] = ["accesspolicies", "rolebindings", "roles"];
const WRITES: [&str; 5] = ["APPLY", "DELETE", "PATCH", "POST", "PUT"];
/// The kinds that it lists for a policy.
const LISTED: [&str; 4] = ["connectors", "namespaces", "rolebindings", "roles"];

/// Calls until now, refused ones, too.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    pub(crate) writes: u64,
    pub(crate) lists: u64,
}

impl Calls {
    pub(crate) async fn until_now(client: &Client) -> Self {
        let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
        let text = client.request_text(request).await.unwrap();
        let count = |kinds: &[&str], verbs: &[&str]| {
            let counts = text.lines().filter_map(|line| count(line, kinds, verbs));
            counts.sum()
        };
        Self {
            writes: count(&WRITTEN, &WRITES),
            lists: count(&LISTED, &["LIST"]),
        }
    }
}

fn count(line: &str, kinds: &[&str], verbs: &[&str]) -> Option<u64> {
    let (labels, value) = line
        .strip_prefix("apiserver_request_total{")?
        .rsplit_once("} ")?;
    let is = |label: &str, values: &[&str]| {
        let mut values = values.iter();
        values.any(|value| labels.contains(&format!("{label}=\"{value}\"")))
    };
    let is_it = is("resource", kinds) && is("verb", verbs);
    is_it
        .then(|| value.parse::<f64>().ok())
        .flatten()
        .map(|it| it as u64)
}
