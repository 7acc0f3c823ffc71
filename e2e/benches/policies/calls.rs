//! How often the API server wrote, by its own count.

use kube::Client;

/// The kinds that the policy-controller writes.
const KINDS: [&str; 3] = ["accesspolicies", "rolebindings", "roles"];
const WRITES: [&str; 5] = ["APPLY", "DELETE", "PATCH", "POST", "PUT"];

/// All writes of these kinds until now, refused ones, too.
pub(crate) async fn writes(client: &Client) -> u64 {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = client.request_text(request).await.unwrap();
    let counts = text.lines().filter_map(count);
    counts.sum()
}

fn count(line: &str) -> Option<u64> {
    let (labels, value) = line
        .strip_prefix("apiserver_request_total{")?
        .rsplit_once("} ")?;
    let is = |label: &str, values: &[&str]| {
        let mut values = values.iter();
        values.any(|value| labels.contains(&format!("{label}=\"{value}\"")))
    };
    let is_ours = is("resource", &KINDS) && is("verb", &WRITES);
    is_ours
        .then(|| value.parse::<f64>().ok())
        .flatten()
        .map(|it| it as u64)
}
