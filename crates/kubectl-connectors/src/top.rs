//! `top`: what waits longest, by the namespace of the pods.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::output::{Cell, Colours, Tone, table};
use crate::requests::{RequestList, RequestRow};
use crate::terms::span;

/// The waiting requests, by the namespace of the pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopList {
    /// The namespaces, the one with the longest wait first.
    pub namespaces: Vec<TopRow>,
    /// How many more namespaces wait than are listed.
    pub left_out: usize,
}

/// The waiting requests in one namespace.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopRow {
    /// The namespace of the pods.
    pub namespace: String,
    /// How many requests of its pods wait.
    pub waiting: usize,
    /// How many wait for each reason.
    pub reasons: BTreeMap<String, usize>,
    /// The request that waits longest.
    pub longest: RequestRow,
}

/// The longest waits, in at most so many namespaces.
#[must_use]
pub fn top(listed: &RequestList, most: usize) -> TopList {
    let mut namespaces: BTreeMap<&str, TopRow> = BTreeMap::new();
    // The oldest of a namespace comes first.
    for row in listed.requests.iter().filter(|it| it.waits) {
        let namespace = row.pod.namespace.as_str();
        let of = namespaces.entry(namespace).or_insert_with(|| TopRow {
            namespace: namespace.to_owned(),
            waiting: 0,
            reasons: BTreeMap::new(),
            longest: row.clone(),
        });
        of.waiting += 1;
        let reason = row.reason.map_or("NotLookedAt", |it| it.as_str());
        *of.reasons.entry(reason.to_owned()).or_default() += 1;
    }
    let mut namespaces: Vec<_> = namespaces.into_values().collect();
    namespaces.sort_by_key(|it| (it.longest.created, it.namespace.clone()));
    let left_out = namespaces.len().saturating_sub(most);
    namespaces.truncate(most);
    TopList {
        namespaces,
        left_out,
    }
}

/// The same for people.
#[must_use]
pub fn text(top: &TopList, colours: Colours) -> String {
    if top.namespaces.is_empty() {
        return "nothing waits\n".to_owned();
    }
    let cells = |row: &TopRow| {
        let longest = &row.longest;
        let reason = longest.reason.map_or("", |it| it.as_str());
        vec![
            Cell::from(row.namespace.clone()),
            row.waiting.to_string().into(),
            Cell::new(Tone::Open, span(longest.seconds)),
            longest.pod.name.clone().into(),
            format!("{}/{}", longest.name.namespace, longest.connector).into(),
            reason.into(),
            Cell::new(Tone::Dim, longest.name.name.clone()),
        ]
    };
    let rows: Vec<_> = top.namespaces.iter().map(cells).collect();
    let head = [
        "NAMESPACE",
        "WAITING",
        "LONGEST",
        "POD",
        "CONNECTOR",
        "REASON",
        "REQUEST",
    ];
    let mut text = table(&head, &rows, colours);
    if top.left_out > 0 {
        let more = format!(
            "{} more namespaces wait; --limit shows them\n",
            top.left_out
        );
        text.push_str(&more);
    }
    text
}
