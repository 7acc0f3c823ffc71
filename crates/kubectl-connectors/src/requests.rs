//! `requests`: the requests of a namespace, or of all.

use connectors_api::access_request::Phase;
use connectors_api::reason::Ready;
use connectors_api::{AccessRequest, Permission};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::output::{Cell, Colours, Tone, table};
use crate::reads::Found;
use crate::request_word::ready;
use crate::terms::{NamespacedName, seconds, span};

/// Requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestList {
    /// The requests, the oldest first.
    pub requests: Vec<RequestRow>,
    /// Requests that are there and cannot be understood: every service ignores them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<NamespacedName>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestRow {
    /// Namespace and name.
    #[serde(flatten)]
    pub name: NamespacedName,
    /// The connector, in the same namespace.
    pub connector: String,
    /// The permission.
    pub permission: Permission,
    /// The pod.
    pub pod: NamespacedName,
    /// The service account, in the pod's namespace.
    pub account: String,
    /// Its phase; absent until the request-controller has looked at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The reason of its condition Ready, if it is a known one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Ready>,
    /// The message of its condition Ready.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// The seconds since then.
    pub seconds: i64,
    /// The pod waits for access.
    pub waits: bool,
    /// The policies that apply, as the request records them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<String>,
}

/// The filter for requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFilter {
    /// Those for this connector.
    pub connector: Option<String>,
    /// Those in this phase.
    pub phase: Option<Phase>,
    /// Those of pods of this namespace.
    pub pod_namespace: Option<String>,
}

impl RequestFilter {
    /// True for a request that passes the filter.
    #[must_use]
    pub fn takes(&self, row: &RequestRow) -> bool {
        let Self {
            connector,
            phase,
            pod_namespace,
        } = self;
        connector.as_ref().is_none_or(|it| *it == row.connector)
            && phase.is_none_or(|it| row.phase.unwrap_or(Phase::Pending) == it)
            && pod_namespace
                .as_ref()
                .is_none_or(|it| *it == row.pod.namespace)
    }
}

impl RequestRow {
    /// Made from a request, at this time.
    #[must_use]
    pub fn of(request: &AccessRequest, now: Timestamp) -> Self {
        let metadata = &request.metadata;
        let spec = &request.spec;
        let pod = &spec.context.object_ref;
        let status = request.status.as_ref();
        let phase = status.and_then(|it| it.phase);
        let ready = ready(request);
        let created = metadata.creation_timestamp.as_ref().map(|it| it.0);
        let policies = status.into_iter().flat_map(|it| &it.policies);
        Self {
            name: NamespacedName::new(
                metadata.namespace.as_deref().unwrap_or_default(),
                metadata.name.as_deref().unwrap_or_default(),
            ),
            connector: spec.connector_ref.name.clone(),
            permission: spec.permission,
            pod: NamespacedName::new(&pod.namespace, &pod.name),
            account: spec.subject.name.clone(),
            phase,
            reason: ready.and_then(|(word, _)| word),
            message: ready.map_or_else(String::new, |(_, message)| message.to_owned()),
            created,
            seconds: created.map_or(0, |created| seconds(created, now)),
            waits: matches!(phase, None | Some(Phase::Pending)),
            policies: policies.map(|it| it.name().to_owned()).collect(),
        }
    }
}

/// The requests that pass the filter.
#[must_use]
pub fn list(found: &[Found<AccessRequest>], filter: &RequestFilter, now: Timestamp) -> RequestList {
    let mut listed = RequestList::default();
    for found in found {
        match found {
            Ok(request) => {
                let row = RequestRow::of(request, now);
                if filter.takes(&row) {
                    listed.requests.push(row);
                }
            }
            Err(unreadable) => {
                let metadata = &unreadable.metadata;
                listed.unreadable.push(NamespacedName::new(
                    metadata.namespace.as_deref().unwrap_or_default(),
                    metadata.name.as_deref().unwrap_or_default(),
                ));
            }
        }
    }
    listed
        .requests
        .sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    listed.unreadable.sort();
    listed
}

/// The head of the table.
pub const HEAD: [&str; 7] = [
    "CONNECTOR",
    "POD",
    "ACCOUNT",
    "PHASE",
    "REASON",
    "AGE",
    "REQUEST",
];

/// A request as a line of the table.
#[must_use]
pub fn cells(row: &RequestRow) -> Vec<Cell> {
    let phase = row.phase.map_or("Pending", |it| it.as_str());
    vec![
        NamespacedName::new(&row.name.namespace, &row.connector)
            .to_string()
            .into(),
        row.pod.to_string().into(),
        row.account.clone().into(),
        Cell::new(phase_tone(row.phase), phase),
        row.reason.map_or("", |it| it.as_str()).into(),
        span(row.seconds).into(),
        Cell::new(Tone::Dim, row.name.name.clone()),
    ]
}

/// The meaning of a phase.
#[must_use]
pub const fn phase_tone(phase: Option<Phase>) -> Tone {
    match phase {
        Some(Phase::Granted) => Tone::Good,
        None | Some(Phase::Pending) => Tone::Open,
        Some(Phase::Rejected | Phase::Revoked | Phase::Invalid) => Tone::Bad,
        Some(Phase::Ended) => Tone::Dim,
    }
}

/// Changed requests, without the head of the table. The columns are as wide as those of one row, because the others are
/// printed already.
#[must_use]
pub fn lines(listed: &RequestList, colours: Colours) -> String {
    let rows: Vec<_> = listed.requests.iter().map(cells).collect();
    let text = table(&HEAD, &rows, colours);
    text.split_once('\n')
        .map_or(String::new(), |(_, rest)| rest.to_owned())
}

/// The requests for people.
#[must_use]
pub fn text(listed: &RequestList, colours: Colours) -> String {
    let rows: Vec<_> = listed.requests.iter().map(cells).collect();
    let mut text = if rows.is_empty() {
        "no requests\n".to_owned()
    } else {
        table(&HEAD, &rows, colours)
    };
    for name in &listed.unreadable {
        let line = format!("request {name} cannot be understood, and every service ignores it");
        text.push_str(&colours.paint(Tone::Bad, &line));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::request;

    /// Each part of a filter counts, and each by the whole word.
    #[test]
    fn a_filter_takes_the_requests_that_every_part_of_it_names() {
        let connectors = ["harbor", "harbor2", "harb", "Harbor"];
        let namespaces = ["ci", "ci2", "c"];
        let phases = [
            None,
            Some("Pending"),
            Some("Granted"),
            Some("Rejected"),
            Some("Ended"),
        ];
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        let mut taken = 0;
        for connector in connectors {
            for namespace in namespaces {
                for phase in phases {
                    let mut request = request("a", namespace);
                    request["spec"]["connectorRef"]["name"] = connector.into();
                    if let Some(phase) = phase {
                        request["status"] = json!({"phase": phase});
                    }
                    let request = serde_json::from_value(request).unwrap();
                    let row = RequestRow::of(&request, now);
                    let waits = matches!(phase, None | Some("Pending"));
                    assert_eq!(row.waits, waits, "{phase:?}");
                    for (number, wanted) in [
                        (None, None, None),
                        (Some("harbor"), None, None),
                        (None, Some("ci"), None),
                        (None, None, Some(Phase::Pending)),
                        (None, None, Some(Phase::Granted)),
                        (Some("harbor"), Some("ci"), Some(Phase::Granted)),
                    ]
                    .into_iter()
                    .enumerate()
                    {
                        let (of, pods_of, in_phase) = wanted;
                        let filter = RequestFilter {
                            connector: of.map(str::to_owned),
                            phase: in_phase,
                            pod_namespace: pods_of.map(str::to_owned),
                        };
                        let is_in_phase = match in_phase {
                            None => true,
                            Some(Phase::Pending) => waits,
                            Some(_) => phase == Some("Granted"),
                        };
                        let expected = of.is_none_or(|it| it == connector)
                            && pods_of.is_none_or(|it| it == namespace)
                            && is_in_phase;
                        assert_eq!(filter.takes(&row), expected, "{number}: {row:?}");
                        taken += usize::from(expected);
                    }
                }
            }
        }
        assert!(taken > 60, "{taken}");
    }
}
