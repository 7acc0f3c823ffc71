//! A world as the files of `policy test`, with what the controllers wrote as the expected answers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use connectors_api::access_request::Phase;
use connectors_api::reason::NOT_JUDGED;
use kubectl_connectors::simulate::ForecastWord;
use serde_json::{Value, json};
use testkit::ApiServer;

use crate::tally::Tally;
use crate::world::{Ask, World};
use crate::written::AskSeen;

/// The kinds of objects that files have.
const KINDS: [&str; 9] = [
    "namespaces",
    "serviceaccounts",
    "connectors",
    "accesspolicies",
    "pods",
    "signoffs",
    "configmaps",
    "approvaltasks",
    "freezes",
];
/// Kinds that files cannot tell: the cluster does not have the one, and the controller may not read the other.
const UNTOLD: [&str; 2] = ["Latecomer", "Freeze"];
/// The begin of the name of a case whose expectation is wrong.
pub(crate) const WRONG: &str = "wrong: ";

/// The text of the file; none if there is nothing to ask.
pub(crate) fn written(
    server: &ApiServer,
    world: &World,
    seen: &BTreeMap<Ask, AskSeen>,
    tally: &mut Tally,
) -> Option<String> {
    let mut cases = Vec::new();
    for (ask, seen) in seen {
        if let Some(word) = seen.word
            && !is_over(server, ask)
        {
            cases.extend(cases_of(server, ask, seen, word, tally));
        }
    }
    if cases.is_empty() {
        return None;
    }
    let mut documents = String::new();
    for object in KINDS.iter().flat_map(|it| server.list(it)) {
        let _ = writeln!(documents, "---\n{}", plain(object));
    }
    let default = world
        .settings
        .get("default-requesters")
        .map_or("Namespace", String::as_str);
    let keys: Value = serde_json::from_str(&world.settings["namespace-selector-keys"]).unwrap();
    let shared = server
        .get("configmaps", "connectors-system", "connectors-config")
        .unwrap();
    let shared = shared["data"]["shared-check-fields"].as_str().unwrap();
    let test = json!({
        "apiVersion": "cli.connectors.alauda.io/v1", "kind": "PolicyTest", "cases": cases,
        "settings": {
            "defaultRequesters": default, "namespaceSelectorKeys": keys,
            "sharedFields": serde_json::from_str::<Value>(shared).unwrap(),
        },
    });
    let _ = writeln!(documents, "---\n{test}");
    Some(documents)
}

/// As an author has it in a file.
fn plain(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.retain(|it, _| {
        ["name", "namespace", "labels", "deletionTimestamp"].contains(&it.as_str())
    });
    if object["kind"] == "AccessPolicy" {
        object.as_object_mut().unwrap().remove("status");
    }
    object
}

fn is_over(server: &ApiServer, ask: &Ask) -> bool {
    let pod = server.get("pods", &ask.home, &ask.pod).unwrap();
    pod["metadata"]["deletionTimestamp"].is_string() || pod["status"]["phase"] == "Succeeded"
}

fn cases_of(
    server: &ApiServer,
    ask: &Ask,
    seen: &AskSeen,
    word: ForecastWord,
    tally: &mut Tally,
) -> Vec<Value> {
    let policies = seen.request["status"]["policies"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let name_of = |it: &Value| {
        it["policy"]["metadata"]["name"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let applying: Vec<String> = policies.iter().map(name_of).collect();
    if applying.iter().any(|it| is_untold(server, &ask.owner, it)) {
        tally.add("policy test: not told by files");
        return Vec::new();
    }
    tally.add(format!("policy test: {word:?}"));
    let case = |name: String, expect: Value| {
        json!({
            "name": name, "pod": format!("{}/{}", ask.home, ask.pod),
            "connector": format!("{}/{}", ask.owner, ask.connector),
            "permission": ask.permission, "expect": expect,
        })
    };
    let name = format!(
        "{} asks for {} ({})",
        ask.pod, ask.connector, ask.permission
    );
    let mut expected = serde_json::Map::new();
    for entry in &policies {
        expected.insert(
            name_of(entry),
            policy(ask, seen, entry, policies.len() == 1, tally),
        );
    }
    let mut cases = vec![case(
        name.clone(),
        json!({"access": format!("{word:?}"), "policies": expected}),
    )];
    // The controller matches policies only where nothing else decides before.
    let is_matched = matches!(
        seen.phase,
        Some(Phase::Pending | Phase::Granted | Phase::Rejected)
    );
    let connector = server.get("connectors", &ask.owner, &ask.connector);
    let has_connector =
        connector.is_some_and(|it| !it["metadata"]["deletionTimestamp"].is_string());
    if is_matched && has_connector {
        for policy in server.list("accesspolicies") {
            let policy_name = policy["metadata"]["name"].as_str().unwrap();
            if policy["metadata"]["namespace"] != *ask.owner
                || applying.iter().any(|it| it == policy_name)
            {
                continue;
            }
            tally.add("policy test: a policy that does not apply");
            cases.push(case(
                format!("{WRONG}{name} by {policy_name}"),
                json!({"policies": {policy_name: {"applies": "Yes"}}}),
            ));
        }
    }
    cases
}

fn is_untold(server: &ApiServer, namespace: &str, policy: &str) -> bool {
    let policy = server.get("accesspolicies", namespace, policy).unwrap();
    let checks = policy.pointer("/spec/checkGrantedPermission/spec/checks");
    let checks = checks.and_then(Value::as_array);
    checks.into_iter().flatten().any(|it| {
        let kind = &it["selector"]["objectRef"]["kind"];
        UNTOLD.iter().any(|untold| kind == untold)
    })
}

fn policy(ask: &Ask, seen: &AskSeen, entry: &Value, is_only: bool, tally: &mut Tally) -> Value {
    let mut expected = json!({"applies": "Yes"});
    let grant = &entry["grant"];
    let conditions = seen.request["status"]["conditions"].as_array().unwrap();
    let ready = conditions
        .iter()
        .find(|it| it["type"] == "AccessCheckReady");
    let verdict = match (grant["state"].as_str(), grant["reason"].as_str()) {
        (Some("Granted"), _) => Some("AccessCheckPassed"),
        (Some("Ended"), Some("CheckRejected")) => Some("AccessCheckRejected"),
        // With several policies, the condition is about one of them.
        _ if is_only => ready
            .and_then(|it| it["reason"].as_str())
            .filter(|it| *it != NOT_JUDGED),
        _ => None,
    };
    if let Some(verdict) = verdict {
        tally.add(format!("policy test: verdict {verdict}"));
        expected["verdict"] = verdict.into();
    }
    if grant["state"] == "Granted" {
        tally.add("policy test: rules");
        expected["rules"] = grant["rules"].clone();
    }
    let mut checks: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for found in entry["checkRefs"].as_array().into_iter().flatten() {
        let name = found["name"].as_str().unwrap().to_owned();
        checks.entry(name).or_default().push(found);
    }
    // A request of a pod in another namespace does not list what does not let through.
    let is_listed = ask.home == ask.owner || grant["state"] == "Granted";
    let mut told = serde_json::Map::new();
    for (name, found) in checks.into_iter().filter(|_| is_listed) {
        let objects: Vec<&Value> = found
            .iter()
            .map(|it| &it["ref"]["name"])
            .filter(|it| it.is_string())
            .collect();
        let mut check = json!({"objects": objects});
        // The evidence of a grant has no objects that do not let through.
        if grant["state"] == "Granted" {
            check = json!({});
        }
        if let [found] = found.as_slice()
            && let Some(reason) = found["status"]["reason"].as_str()
        {
            tally.add(format!("policy test: reason {reason}"));
            check["reason"] = reason.into();
        }
        told.insert(name, check);
    }
    expected["checks"] = told.into();
    expected
}
