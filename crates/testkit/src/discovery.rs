//! The discovery documents from which clients learn the served kinds.

use serde_json::{Value, json};

use crate::kind::Kind;

/// The document at a path, if there is one.
pub(crate) fn document(kinds: &[Kind], path: &str) -> Option<Value> {
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    match segments.as_slice() {
        ["version"] => Some(json!({
            "major": "1", "minor": "35", "gitVersion": "v1.35.0", "gitCommit": "", "gitTreeState": "clean",
            "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
        })),
        ["healthz" | "livez" | "readyz"] => Some("ok".into()),
        ["api"] => Some(json!({
            "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [],
        })),
        ["api", version] => resources(kinds, "", version),
        ["apis"] => {
            let mut names: Vec<&str> = kinds.iter().map(|it| it.group.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            let groups = names.iter().filter(|it| !it.is_empty());
            let groups: Vec<_> = groups.filter_map(|it| group(kinds, it)).collect();
            Some(json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }))
        }
        ["apis", name] => {
            let mut group = group(kinds, name)?;
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            Some(group)
        }
        ["apis", group, version] => resources(kinds, group, version),
        _ => None,
    }
}

fn group(kinds: &[Kind], name: &str) -> Option<Value> {
    let of_group = kinds
        .iter()
        .filter(|it| it.group == name && !name.is_empty());
    let mut versions: Vec<&str> = of_group.map(|it| it.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    let versions: Vec<_> = versions
        .iter()
        .map(|it| json!({ "groupVersion": format!("{name}/{it}"), "version": it }))
        .collect();
    let preferred = versions.first()?;
    Some(json!({ "name": name, "versions": versions, "preferredVersion": preferred }))
}

fn resources(kinds: &[Kind], group: &str, version: &str) -> Option<Value> {
    let served = kinds.iter();
    let served = served.filter(|it| it.group == group && it.version == version);
    let mut group_version = None;
    let mut resources = Vec::new();
    for kind in served {
        group_version = Some(kind.api_version());
        resources.push(json!({
            "name": kind.plural, "singularName": kind.kind.to_lowercase(), "kind": kind.kind,
            "namespaced": kind.namespaced,
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        }));
        if kind.status {
            resources.push(json!({
                "name": format!("{}/status", kind.plural), "singularName": "", "kind": kind.kind,
                "namespaced": kind.namespaced, "verbs": ["get", "patch", "update"],
            }));
        }
    }
    let mut document = json!({
        "kind": "APIResourceList", "groupVersion": group_version?, "resources": resources,
    });
    if !group.is_empty() {
        document["apiVersion"] = "v1".into();
    }
    Some(document)
}
