//! Access policies: as docs/policies.md describes them in "Who may write what" and "What is refused".

use std::collections::BTreeSet;

use evaluation_api::v1::{Finding, FindingSeverity};
use serde_json::Value;

use super::{
    super::world::{Mood, Target, World, update_connectors},
    Expected, Warned, Why, passes, word,
};

const MOST_PER_NAMESPACE: usize = 256;

pub(super) fn judged(
    world: &World,
    rego: Option<&[Finding]>,
    request: &Value,
    is_flawed: bool,
) -> Expected {
    let spec = &request["object"]["spec"];
    let is_creation = request["operation"] == "CREATE";
    // Judged when it is created and when its spec changes.
    if !is_creation && request["oldObject"]["spec"] == *spec {
        return passes(request["object"].clone());
    }
    let mut why = of_the_author(world, request);
    if why.is_empty() && has_rego(spec) {
        why.extend(of_rego(rego));
    }
    if is_flawed {
        why.insert(Why::Content);
    }
    if why.is_empty() && is_creation {
        let count = world.policies.get(word(&request["namespace"]));
        if !world.answers(&Target::Policies) {
            why.insert(Why::PoliciesUnknown);
        } else if count.is_some_and(|it| *it >= MOST_PER_NAMESPACE) {
            why.insert(Why::ManyPolicies);
        }
    }
    if why.is_empty() {
        return Expected::Passes {
            object: Some(request["object"].clone()),
            warned: warned(world, spec),
        };
    }
    // A look that hangs leaves no time for others.
    if world.moods.values().any(|it| *it == Mood::Hangs) {
        why.insert(Why::Late);
    }
    Expected::RefusedForSome(why)
}

/// The author has to hold `update` on all that the policy hands out: what it names, or the namespace.
fn of_the_author(world: &World, request: &Value) -> BTreeSet<Why> {
    let mut why = BTreeSet::new();
    let user = &request["userInfo"];
    let namespace = word(&request["namespace"]);
    let may = |name: &str| world.may(user, &update_connectors(), namespace, name);
    if !world.answers(&Target::AllRight) {
        return [Why::RightsUnknown].into();
    }
    if may("") {
        return why;
    }
    match request["object"]["spec"]["connector"]["names"].as_array() {
        None => {
            why.insert(Why::NotAll);
        }
        Some(names) => {
            for name in names.iter().map(word) {
                if !world.answers(&Target::NameRight(name.to_owned())) {
                    why.insert(Why::RightsUnknown);
                } else if !may(name) {
                    why.insert(Why::NotNamed);
                }
            }
        }
    }
    why
}

fn has_rego(spec: &Value) -> bool {
    let checks = spec["checkGrantedPermission"]["spec"]["checks"].as_array();
    let mut checks = checks.into_iter().flatten();
    checks.any(|it| !word(&it["state"]["rego"]).is_empty())
}

fn of_rego(rego: Option<&[Finding]>) -> Option<Why> {
    let Some(findings) = rego else {
        return Some(Why::Late);
    };
    let has = |severity: FindingSeverity| findings.iter().any(|it| it.severity() == severity);
    if has(FindingSeverity::Unspecified) {
        return Some(Why::RegoUnknown);
    }
    has(FindingSeverity::Error).then_some(Why::Content)
}

/// What the author is warned of because of the configuration; nothing where that cannot be read.
fn warned(world: &World, spec: &Value) -> Warned {
    let mut warned = Warned::default();
    let config = match world.mood(&Target::Config) {
        Some(Mood::Slow(_) | Mood::Stumbles) => return warned,
        mood => world.config.as_ref().filter(|_| mood.is_none()),
    };
    let is_known = world.answers(&Target::Config);
    let mut expect = |words: String, is_expected: bool| {
        let place = if is_expected {
            &mut warned.with
        } else {
            &mut warned.without
        };
        place.push(words);
    };
    let granted = &spec["checkGrantedPermission"];
    let names_nobody = !granted["spec"].is_null() && granted["requesters"].is_null();
    let is_any = config.is_some_and(|it| it["default-requesters"] == "Any");
    expect(
        "default-requesters: Any".to_owned(),
        is_known && names_nobody && is_any,
    );
    let keys = config.map(|it| word(&it["namespace-selector-keys"]));
    let keys: Option<Vec<String>> = keys.and_then(|it| serde_json::from_str(it).ok());
    let keys = keys.unwrap_or_else(|| vec!["kubernetes.io/metadata.name".to_owned()]);
    let subjects = spec["defaultPermission"]["bindingTemplate"]["subjects"].as_array();
    for (place, subject) in subjects.into_iter().flatten().enumerate() {
        let labels = subject["namespaceSelector"]["matchLabels"].as_object();
        let is_foreign = labels.is_some_and(|it| it.keys().any(|key| !keys.contains(key)));
        let words = format!(".bindingTemplate.subjects[{place}].namespaceSelector");
        expect(words, is_known && is_foreign);
    }
    warned
}
