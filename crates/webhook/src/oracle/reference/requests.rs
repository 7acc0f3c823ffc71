//! Access requests: as docs/policies.md describes them in "What is refused".

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    super::world::{Target, World, get_pods},
    Expected, Why, is_name, is_part, is_plugin, labels_of, passes, word,
};

/// As many requests may a pod have in one namespace.
const MOST_OF_A_POD: usize = 16;
const MOST_BYTES: usize = 64 * 1024;

/// What the author is told of the pod.
enum Seen<'a> {
    Unknown,
    Hidden,
    Missing,
    Pod(&'a Value),
}

fn seen<'a>(world: &'a World, request: &Value) -> Seen<'a> {
    let named = &request["object"]["spec"]["context"]["objectRef"];
    let (namespace, name) = (word(&named["namespace"]), word(&named["name"]));
    if !is_plugin(request) {
        if !world.answers(&Target::PodRight) {
            return Seen::Unknown;
        }
        if !world.may(&request["userInfo"], &get_pods(), namespace, name) {
            return Seen::Hidden;
        }
    }
    if !world.answers(&Target::Pod) {
        return Seen::Unknown;
    }
    let key = (namespace.to_owned(), name.to_owned());
    world.pods.get(&key).map_or(Seen::Missing, Seen::Pod)
}

/// The UID, the labels and the defaults.
pub(super) fn filled(world: &World, request: &Value) -> Expected {
    let object = &request["object"];
    let spec = &object["spec"];
    if is_unreadable(spec) {
        return passes(object.clone());
    }
    let mut filled = object.clone();
    let named = &spec["context"]["objectRef"];
    let names_a_pod = is_label(word(&named["namespace"])) && is_name(word(&named["name"]));
    if named["uid"].is_null() && names_a_pod {
        match seen(world, request) {
            Seen::Unknown => return Expected::Refused([Why::PodUnknown].into()),
            Seen::Hidden | Seen::Missing => {}
            Seen::Pod(pod) => {
                filled["spec"]["context"]["objectRef"]["uid"] = pod["metadata"]["uid"].clone();
            }
        }
    }
    for (place, default) in [
        ("permission", "apis"),
        ("namespace", word(&request["namespace"])),
    ] {
        let spec = &mut filled["spec"];
        let place = match place {
            "permission" => &mut spec["permission"],
            _ => &mut spec["connectorRef"]["namespace"],
        };
        if place.is_null() {
            *place = default.into();
        }
    }
    let named = filled["spec"]["context"]["objectRef"].clone();
    let connector = filled["spec"]["connectorRef"]["name"].clone();
    let labels = labels_of(&mut filled);
    for (key, value) in [
        ("contextObjectKind", &named["kind"]),
        ("contextObjectName", &named["name"]),
        ("contextObjectNamespace", &named["namespace"]),
        ("contextObjectUID", &named["uid"]),
        ("connector", &connector),
    ] {
        let key = format!("connectors.cpaas.io/{key}");
        labels.remove(&key);
        if (1..=63).contains(&word(value).len()) {
            labels.insert(key, value.clone());
        }
    }
    let is_named = is_name(word(&named["name"])) && is_name(word(&connector));
    // What the schema or the validation refuses anyway may look as it likes.
    if !is_named || !names_a_pod || spec.to_string().len() > MOST_BYTES {
        return Expected::Passes {
            object: None,
            warned: super::Warned::default(),
        };
    }
    passes(filled)
}

pub(super) fn judged(world: &World, request: &Value) -> Expected {
    let spec = &request["object"]["spec"];
    if is_unreadable(spec) || spec.to_string().len() > MOST_BYTES {
        return Expected::Refused([Why::Content].into());
    }
    let mut why = of_itself(request);
    if !why.contains(&Why::BadName) {
        of_the_pod(world, request, &mut why);
    }
    if why.is_empty() {
        return passes(request["object"].clone());
    }
    Expected::Refused(why)
}

fn of_itself(request: &Value) -> BTreeSet<Why> {
    let mut why = BTreeSet::new();
    let spec = &request["object"]["spec"];
    let (subject, connector) = (&spec["subject"], &spec["connectorRef"]);
    let pod = &spec["context"]["objectRef"];
    let are_names = is_label(word(&pod["namespace"]))
        && [&pod["name"], &subject["name"], &connector["name"]]
            .into_iter()
            .all(|it| is_name(word(it)));
    if !are_names {
        why.insert(Why::BadName);
    }
    if !connector["namespace"].is_null() && connector["namespace"] != request["namespace"] {
        why.insert(Why::ConnectorNamespace);
    }
    if !word(&subject["namespace"]).is_empty() && subject["namespace"] != pod["namespace"] {
        why.insert(Why::SubjectNamespace);
    }
    why
}

fn of_the_pod(world: &World, request: &Value, why: &mut BTreeSet<Why>) {
    let spec = &request["object"]["spec"];
    let named = &spec["context"]["objectRef"];
    let nodes = &request["userInfo"]["extra"]["authentication.kubernetes.io/node-name"];
    // A node is proved by exactly one name.
    let node = match nodes.as_array().map(Vec::as_slice) {
        Some([node]) if !word(node).is_empty() => Some(node),
        _ => None,
    };
    if is_plugin(request) && node.is_none() {
        why.insert(Why::NoNode);
    }
    let told = match seen(world, request) {
        Seen::Unknown => Err(Why::PodUnknown),
        Seen::Hidden => Err(Why::Hidden),
        Seen::Missing => Err(Why::Missing),
        Seen::Pod(pod) => Ok(pod),
    };
    let pod = match told {
        Ok(pod) => pod,
        Err(reason) => {
            why.insert(reason);
            return;
        }
    };
    if word(&named["uid"]).is_empty() {
        why.insert(Why::NoUid);
    } else if named["uid"] != pod["metadata"]["uid"] {
        why.insert(Why::OtherUid);
    }
    let account = pod["spec"]["serviceAccountName"].as_str();
    if spec["subject"]["name"] != account.unwrap_or("default") {
        why.insert(Why::OtherAccount);
    }
    if ["Succeeded", "Failed"].contains(&word(&pod["status"]["phase"])) {
        why.insert(Why::Finished);
    }
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        why.insert(Why::Deleting);
    }
    if is_plugin(request) && node.is_some_and(|it| *it != pod["spec"]["nodeName"]) {
        why.insert(Why::OtherNode);
    }
    if !why.is_empty() {
        return;
    }
    let uid = word(&pod["metadata"]["uid"]);
    let count = world.requests_of(word(&request["namespace"]), uid);
    if !world.answers(&Target::Requests) {
        // The mounts of a node do not wait for a count.
        if !is_plugin(request) {
            why.insert(Why::RequestsUnknown);
        }
    } else if count >= MOST_OF_A_POD {
        why.insert(Why::ManyRequests);
    }
}

fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_part(text)
}

/// A field that nobody knows, a null, a word that is none of those that may stand there.
fn is_unreadable(spec: &Value) -> bool {
    let fields: [(&Value, &[&str]); 5] = [
        (spec, &["subject", "connectorRef", "context", "permission"]),
        (&spec["subject"], &["apiGroup", "kind", "namespace", "name"]),
        (&spec["connectorRef"], &["name", "namespace"]),
        (&spec["context"], &["objectRef"]),
        (
            &spec["context"]["objectRef"],
            &["apiVersion", "kind", "namespace", "name", "uid"],
        ),
    ];
    let is_odd = fields.into_iter().any(|(part, known)| {
        let entries = part.as_object().unwrap();
        entries
            .iter()
            .any(|(key, value)| !known.contains(&key.as_str()) || value.is_null())
    });
    let permission = spec.get("permission").map_or("apis", word);
    is_odd
        || spec["subject"]["kind"] != "ServiceAccount"
        || spec["context"]["objectRef"]["kind"] != "Pod"
        || !["apis", "proxy"].contains(&permission)
}
