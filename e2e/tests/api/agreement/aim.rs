//! Questions that are aimed at the permissions of a world, and that often miss by a little.

use authz::User;
use k8s_openapi::api::rbac::v1::{PolicyRule, Subject};
use rand::{RngExt, rngs::StdRng};

use super::object::Object;
use super::question::{Question, What};
use super::worlds::{GROUPS, NAMES, Place, RESOURCES, VERBS, pick, subresource};

/// Of a hundred questions, how many are changed in one respect after they were aimed.
const MISSES: u32 = 35;

/// Of a hundred questions, how many come from a superuser.
const MASTERS: u32 = 6;

pub(crate) fn question(place: &Place, random: &mut StdRng, objects: &[Object]) -> Question {
    let bindings: Vec<&Object> = objects.iter().filter(|one| one.role().is_some()).collect();
    let binding = pick(random, &bindings);
    let mut binding_copy = binding.clone();
    let subjects = binding_copy.subjects().cloned().unwrap_or_default();
    let home = binding.metadata().namespace.clone();
    let user = match subjects.as_slice() {
        [] => stranger(place, random),
        subjects => {
            let subject = pick(random, subjects);
            user(place, random, &subject, home.as_deref())
        }
    };
    let rules = rules_of(binding, objects);
    let rule = match rules.as_slice() {
        [] => PolicyRule {
            verbs: vec!["*".to_owned()],
            api_groups: Some(vec!["*".to_owned()]),
            resources: Some(vec!["*".to_owned()]),
            ..PolicyRule::default()
        },
        rules => pick(random, rules),
    };
    let mut question = Question {
        user,
        verb: verb(random, &rule),
        what: what(place, random, &rule, home),
    };
    if random.random_range(0..100) < MISSES {
        miss(place, random, &mut question);
    }
    if random.random_range(0..100) < MASTERS {
        question.user.groups.push("system:masters".to_owned());
    }
    question
}

/// The rules of a binding's role; none if it is missing.
fn rules_of(binding: &Object, objects: &[Object]) -> Vec<PolicyRule> {
    let Some(reference) = binding.role() else {
        return Vec::new();
    };
    let is_it = |object: &&Object| {
        let metadata = object.metadata();
        let here =
            metadata.namespace.is_none() || metadata.namespace == binding.metadata().namespace;
        object.kind() == reference.kind && here && metadata.name.as_ref() == Some(&reference.name)
    };
    let role = objects.iter().find(is_it).cloned();
    role.and_then(|mut role| role.rules().cloned())
        .unwrap_or_default()
}

fn stranger(place: &Place, random: &mut StdRng) -> User {
    let mut user = User {
        name: place.own(pick(random, &["alice", "bob", "eve"])),
        groups: Vec::new(),
    };
    for group in ["dev", "ops"] {
        if random.random_range(0..4) == 0 {
            user.groups.push(place.own(group));
        }
    }
    user
}

/// A user that a subject means.
fn user(place: &Place, random: &mut StdRng, subject: &Subject, home: Option<&str>) -> User {
    match subject.kind.as_str() {
        "ServiceAccount" => {
            let namespace = subject.namespace.as_deref().or(home).unwrap_or_default();
            User::service_account(namespace, &subject.name)
        }
        "Group" => {
            if let Some(namespace) = subject.name.strip_prefix("system:serviceaccounts:") {
                return User::service_account(namespace, &place.own("sa"));
            }
            let mut user = stranger(place, random);
            user.groups.push(subject.name.clone());
            user
        }
        _ => {
            let mut user = stranger(place, random);
            user.name.clone_from(&subject.name);
            user
        }
    }
}

fn verb(random: &mut StdRng, rule: &PolicyRule) -> String {
    let verb = pick(random, &rule.verbs);
    match verb.as_str() {
        "*" if random.random_range(0..2) == 0 => pick(random, &VERBS).to_owned(),
        _ => verb,
    }
}

fn what(place: &Place, random: &mut StdRng, rule: &PolicyRule, home: Option<String>) -> What {
    if let Some(urls) = &rule.non_resource_urls {
        let url = pick(random, urls);
        let path = match url.strip_suffix('*') {
            Some(start) => {
                let start = start.trim_end_matches('*');
                format!("{start}{}", pick(random, &["", "on", "/on", "/agreed"]))
            }
            None => url,
        };
        return What::Path(path);
    }
    let group = match pick(random, rule.api_groups.as_deref().unwrap_or_default()).as_str() {
        "*" => pick(random, &GROUPS).to_owned(),
        group => group.to_owned(),
    };
    let text = pick(random, rule.resources.as_deref().unwrap_or_default());
    let (resource, subresource) = asked(place, random, &text);
    let name = match rule.resource_names.as_deref() {
        Some(names) => pick(random, names),
        None => pick(random, &["", "n0"]).to_owned(),
    };
    let namespace = home.unwrap_or_else(|| match random.random_range(0..3) {
        0 => String::new(),
        _ => place.namespace(random).to_owned(),
    });
    What::Resource {
        group,
        resource,
        subresource,
        namespace,
        name,
    }
}

/// A resource and a subresource that a rule's resource covers, split at any of its slashes.
fn asked(place: &Place, random: &mut StdRng, rule: &str) -> (String, String) {
    let resource = pick(random, &RESOURCES).to_owned();
    if rule == "*" {
        return match random.random_range(0..2) {
            0 => (resource, String::new()),
            _ => (resource, subresource(place, random)),
        };
    }
    if let Some(subresource) = rule.strip_prefix("*/") {
        return (resource, subresource.to_owned());
    }
    let slashes: Vec<usize> = rule.match_indices('/').map(|(at, _)| at).collect();
    match random.random_range(0..=slashes.len()) {
        0 => (rule.to_owned(), String::new()),
        // As a rule is usually asked: the first slash splits.
        _ if random.random_range(0..2) == 0 => split(rule, slashes[0]),
        _ => split(rule, pick(random, &slashes)),
    }
}

fn split(text: &str, at: usize) -> (String, String) {
    (text[..at].to_owned(), text[at + 1..].to_owned())
}

/// Changes one respect.
fn miss(place: &Place, random: &mut StdRng, question: &mut Question) {
    let Question { user, verb, what } = question;
    match (random.random_range(0..6), what) {
        (0, _) => pick(random, &["get", "update", "*", ""]).clone_into(verb),
        (1, _) => *user = stranger(place, random),
        (2, What::Resource { group, .. }) => pick(random, &GROUPS).clone_into(group),
        (
            3,
            What::Resource {
                resource,
                subresource: sub,
                ..
            },
        ) => {
            pick(random, &RESOURCES).clone_into(resource);
            *sub = subresource(place, random);
        }
        (4, What::Resource { name, .. }) => pick(random, &NAMES).clone_into(name),
        (_, What::Resource { namespace, .. }) => {
            place.namespace(random).clone_into(namespace);
        }
        (_, What::Path(path)) => path.push_str(pick(random, &["/", "x", "/on"])),
    }
}
