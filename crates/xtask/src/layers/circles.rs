//! No circles among the modules of a crate: a reader of one module must not have to read all others first.
//!
//! A module may name its parents, whose private parts it shares. Every other circle is refused.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::{
    DEVELOPMENT, Violation,
    modules::{code, is_test, names},
    sources,
};
use crate::workspace::Members;

const RULE: &str = "modules that are not within each other form no circle";

/// Where circles are left, by crate and parent: a proof, and a verdict, whose parts call each other.
const ALLOWED: [(&str, &str); 2] = [("connectors-api", "judge"), ("connectors-api", "lineage")];

type Modules = BTreeMap<String, BTreeSet<String>>;

/// The circles in the crates that ship.
pub(super) fn check(members: &Members) -> anyhow::Result<Vec<Violation>> {
    let mut violations = Vec::new();
    for (name, member) in members {
        let ships = member.dir.parent().is_some_and(|it| it.ends_with("crates"))
            && !DEVELOPMENT.contains(&name.as_str());
        if !ships {
            continue;
        }
        let is_allowed = |circle: &BTreeSet<String>| {
            ALLOWED.iter().any(|(within, parent)| {
                within == name && circle.iter().all(|it| is_within(it, parent))
            })
        };
        let modules = modules(&member.dir.join("src"))?;
        for mut circle in circles(&edges(&modules)) {
            if !is_allowed(&circle)
                && let Some(first) = circle.pop_first()
            {
                violations.push(Violation {
                    from: format!("{name} ({first})"),
                    to: Vec::from_iter(circle).join(", "),
                    rule: RULE,
                });
            }
        }
    }
    Ok(violations)
}

/// What each module names, by its path within the crate. The root has an empty path, tests have none.
fn modules(dir: &Path) -> anyhow::Result<Modules> {
    let mut modules = Modules::new();
    let mut for_tests = Vec::new();
    for file in sources(dir)? {
        let file_name = file.strip_prefix(dir)?.to_string_lossy().into_owned();
        if file_name == "main.rs" || is_test(&file_name) {
            continue;
        }
        let path = file_name.trim_end_matches(".rs").replace('/', "::");
        let path = if path == "lib" { String::new() } else { path };
        let text = fs::read_to_string(&file)?;
        for_tests.extend(test_modules(&text).map(|child| within(&path, child)));
        modules.insert(path, names(&code(&text)));
    }
    modules.retain(|path, _| !for_tests.iter().any(|it| path == it || is_within(path, it)));
    Ok(modules)
}

/// The modules that a file declares for tests, or for a feature of tests.
fn test_modules(text: &str) -> impl Iterator<Item = &str> {
    let declared = text.split("#[cfg(").skip(1).filter_map(|rest| {
        let (condition, item) = rest.split_once(")]")?;
        let (visibility, module) = item.split_once("mod ")?;
        let is_next = visibility
            .split_whitespace()
            .all(|it| it.starts_with("pub"));
        (condition.contains("test") && is_next).then_some(module)
    });
    declared.filter_map(|module| module.split_once(';').map(|(name, _)| name))
}

fn within(parent: &str, child: &str) -> String {
    if parent.is_empty() {
        child.to_owned()
    } else {
        format!("{parent}::{child}")
    }
}

fn is_within(path: &str, parent: &str) -> bool {
    parent.is_empty()
        || path
            .strip_prefix(parent)
            .is_some_and(|it| it.starts_with("::"))
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
