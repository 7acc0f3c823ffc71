//! No circles among the modules of a crate: a reader of one module must not have to read all others first.
//!
//! A module may name its parents, whose private parts it shares. Every other circle is refused.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    DEPENDS, Violation,
    modules::{CrateModules, is_within, names, within},
};

const RULE: &str = "modules that are not within each other form no circle";

/// Where circles are left, by crate and parent: a proof, and a verdict, whose parts call each other; and the fake API
/// server, one call of which makes others.
const ALLOWED: [(&str, &str); 3] = [
    ("connectors-api", "judge"),
    ("connectors-api", "lineage"),
    ("testkit", ""),
];

/// The modules that each module names, by its path within the crate.
type Modules = BTreeMap<String, BTreeSet<String>>;

/// The circles in the crates.
pub(super) fn check(crates: &CrateModules) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (name, modules) in crates {
        let is_allowed = |circle: &BTreeSet<String>| {
            ALLOWED.iter().any(|(within, parent)| {
                within == name && circle.iter().all(|it| is_within(it, parent))
            })
        };
        let modules = modules
            .iter()
            .map(|it| (it.path.clone(), names(&it.code)))
            .collect();
        for mut circle in circles(&edges(&modules)) {
            if !is_allowed(&circle)
                && let Some(first) = circle.pop_first()
            {
                violations.push(Violation {
                    from: format!("{name} ({first})"),
                    verb: DEPENDS,
                    to: Vec::from_iter(circle).join(", "),
                    rule: RULE,
                });
            }
        }
    }
    violations
}

/// The modules that each module names, its parents apart.
fn edges(modules: &Modules) -> Modules {
    let target = |from: &str, name: &str| {
        let mut path = absolute(from, name);
        while !modules.contains_key(&path) {
            path.truncate(parent(&path)?.len());
        }
        (path != from && !is_within(from, &path)).then_some(path)
    };
    let named = modules.iter().map(|(from, names)| {
        let targets = names.iter().filter_map(|name| target(from, name));
        (from.clone(), targets.collect())
    });
    named.collect()
}

/// The path of a name from the root. The first word of one without `crate` may be a child, or another crate.
fn absolute(from: &str, name: &str) -> String {
    if let Some(path) = name.strip_prefix("crate::") {
        return path.to_owned();
    }
    let (mut from, mut name) = (from, name);
    while let Some(rest) = name.strip_prefix("super::") {
        (from, name) = (parent(from).unwrap_or_default(), rest);
    }
    within(from, name.strip_prefix("self::").unwrap_or(name))
}

/// None for the root.
fn parent(path: &str) -> Option<&str> {
    let parent = path.rsplit_once("::").map_or("", |(parent, _)| parent);
    (!path.is_empty()).then_some(parent)
}

fn circles(edges: &Modules) -> BTreeSet<BTreeSet<String>> {
    let reached: BTreeMap<&String, _> = edges.keys().map(|it| (it, reached(edges, it))).collect();
    let circle = |(from, found): (&&String, &BTreeSet<&String>)| -> BTreeSet<String> {
        let back = found.iter().filter(|it| reached[*it].contains(from));
        back.map(|it| (*it).clone()).collect()
    };
    let circles = reached.iter().map(circle);
    circles.filter(|it| !it.is_empty()).collect()
}

fn reached<'a>(edges: &'a Modules, from: &str) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&String> = edges[from].iter().collect();
    while let Some(module) = open.pop() {
        if found.insert(module) {
            open.extend(&edges[module]);
        }
    }
    found
}
