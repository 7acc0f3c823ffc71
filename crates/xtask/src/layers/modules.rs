//! Rules about the modules within a crate: the modules that each may name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::{DEPENDS, DEVELOPMENT, Violation, sources};
use crate::workspace::Members;

/// A module of a crate.
pub(super) struct Module {
    /// Its path within the crate. That of the root is empty.
    pub(super) path: String,
    /// Its code, without tests and comments.
    pub(super) code: String,
    /// Its lines without tests, with their numbers.
    pub(super) lines: Vec<(usize, String)>,
}

/// The names that the files below a path must not contain.
struct ModuleRule {
    below: &'static str,
    forbidden: &'static [&'static str],
    rule: &'static str,
}

const READS: &str = "observe returns facts: decisions are made in plan";
const DECIDES: &str = "plan is pure: it knows no wire type, no client and no runtime";
const OUTSIDE: [&str; 4] = ["evaluation_api", "kube", "tokio", "tonic"];

const RULES: [ModuleRule; 4] = [
    ModuleRule {
        below: "crates/request-controller/src/observe",
        forbidden: &["crate::plan"],
        rule: READS,
    },
    ModuleRule {
        below: "crates/policy-controller/src/observe",
        forbidden: &["crate::plan"],
        rule: READS,
    },
    ModuleRule {
        below: "crates/request-controller/src/plan",
        forbidden: &OUTSIDE,
        rule: DECIDES,
    },
    ModuleRule {
        below: "crates/policy-controller/src/plan",
        forbidden: &OUTSIDE,
        rule: DECIDES,
    },
];

/// The rules about modules that are broken in a workspace.
pub(super) fn check(workspace: &Path) -> anyhow::Result<Vec<Violation>> {
    let mut violations = Vec::new();
    for rule in &RULES {
        let Some((dir, name)) = rule.below.rsplit_once('/') else {
            continue;
        };
        let dir = workspace.join(dir);
        if !dir.is_dir() {
            continue;
        }
        for file in sources(&dir)? {
            let path = file.strip_prefix(&dir)?.to_string_lossy().into_owned();
            let is_below = path == format!("{name}.rs") || path.starts_with(&format!("{name}/"));
            if !is_below || is_test(&path) {
                continue;
            }
            let text = fs::read_to_string(&file)?;
            let named = names(&code(&text));
            for forbidden in rule.forbidden {
                let is_it = |name: &&String| {
                    let rest = name.strip_prefix(forbidden);
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
                };
                if named.iter().any(|name| is_it(&name)) {
                    violations.push(Violation {
                        from: format!("{} ({path})", rule.below),
                        verb: DEPENDS,
                        to: (*forbidden).to_owned(),
                        rule: rule.rule,
                    });
                }
            }
        }
    }
    Ok(violations)
}

/// The modules of crates, by the names of the crates.
pub(super) type CrateModules = BTreeMap<String, Vec<Module>>;

/// The modules of the crates below `crates`. Generated code and tests are left out.
pub(super) fn of_members(members: &Members) -> anyhow::Result<CrateModules> {
    let crates = members
        .iter()
        .filter(|(_, member)| member.dir.parent().is_some_and(|it| it.ends_with("crates")));
    crates
        .map(|(name, member)| Ok((name.clone(), of_crate(&member.dir.join("src"))?)))
        .collect()
}

/// Those of the crates that ship.
pub(super) fn shipped(mut modules: CrateModules) -> CrateModules {
    modules.retain(|name, _| !DEVELOPMENT.contains(&name.as_str()));
    modules
}

fn of_crate(dir: &Path) -> anyhow::Result<Vec<Module>> {
    let mut modules = Vec::new();
    let mut for_tests = Vec::new();
    for file in sources(dir)? {
        let file_name = file.strip_prefix(dir)?.to_string_lossy().into_owned();
        if is_test(&file_name) || file_name.starts_with("generated/") {
            continue;
        }
        let is_root = ["lib.rs", "main.rs"].contains(&file_name.as_str());
        let path = file_name.trim_end_matches(".rs").replace('/', "::");
        let path = if is_root { String::new() } else { path };
        let text = fs::read_to_string(&file)?;
        for_tests.extend(test_modules(&text).map(|child| within(&path, child)));
        if file_name == "main.rs" {
            continue;
        }
        let code = code(&text);
        let lines = without_tests(&text);
        let lines = lines.map(|(line, text)| (line, text.to_owned())).collect();
        modules.push(Module { path, code, lines });
    }
    modules.retain(|it| {
        let is_for = |test: &String| it.path == *test || is_within(&it.path, test);
        !for_tests.iter().any(is_for)
    });
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

pub(super) fn within(parent: &str, child: &str) -> String {
    if parent.is_empty() {
        child.to_owned()
    } else {
        format!("{parent}::{child}")
    }
}

pub(super) fn is_within(path: &str, parent: &str) -> bool {
    parent.is_empty()
        || path
            .strip_prefix(parent)
            .is_some_and(|it| it.starts_with("::"))
}

fn is_test(path: &str) -> bool {
    path.ends_with("tests.rs") || path.contains("tests/")
}

/// The code of a file, its tests and comments apart.
pub(super) fn code(text: &str) -> String {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let lines = without_tests(text).map(|(_, line)| line).filter(is_code);
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The lines of a file without its tests, with their numbers.
fn without_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut lines = (1..).zip(text.lines());
    std::iter::from_fn(move || {
        loop {
            let (number, line) = lines.next()?;
            if line != "#[cfg(test)]" {
                return Some((number, line));
            }
            let item = lines.find(|(_, it)| !it.starts_with("#["));
            // An item of one line, or one that ends where a line begins with its brace.
            if item.is_some_and(|(_, it)| !it.ends_with([';', '}'])) {
                lines.find(|(_, it)| it.starts_with('}'));
            }
        }
    })
}

/// Every path that code imports, or names in full.
pub(super) fn names(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for import in code.split("use ").skip(1) {
        let tree = import.split(';').next().unwrap_or_default();
        expand("", tree, &mut names);
    }
    let is_path = |it: char| it.is_alphanumeric() || it == '_' || it == ':';
    let words = code.split(|it| !is_path(it));
    names.extend(words.filter(|it| it.contains("::")).map(str::to_owned));
    names
}

/// `a::{b, c::{d, e}}` names `a::b`, `a::c::d` and `a::c::e`.
fn expand(prefix: &str, tree: &str, names: &mut BTreeSet<String>) {
    let tree: String = tree.split_whitespace().collect();
    let Some((head, rest)) = tree.split_once('{') else {
        names.insert(format!("{prefix}{tree}"));
        return;
    };
    let inner = rest.strip_suffix('}').unwrap_or(rest);
    let (mut depth, mut start) = (0_usize, 0);
    for (at, letter) in inner.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand(&format!("{prefix}{head}"), &inner[start..at], names);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < inner.len() {
        expand(&format!("{prefix}{head}"), &inner[start..], names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_read_as_paths_whatever_their_shape() {
        let text = "use crate::{\n    plan::{self, grant as g},\n    seen::Held,\n};\n// use kube::Api;\nfn f() { \
                    tokio::spawn(x); }\n#[cfg(test)]\nmod tests { use evaluation_api::v1; }\n";
        // Also code behind a test.
        let text = format!(
            "#[cfg(test)]\nmod tests;\n{text}#[cfg(test)]\nmod other {{\n use kube::Api;\n}}\nuse http;"
        );
        let names = names(&code(&text));
        for name in [
            "crate::plan::self",
            "crate::seen::Held",
            "tokio::spawn",
            "http",
        ] {
            assert!(names.contains(name), "{name}: {names:?}");
        }
        assert!(
            !names
                .iter()
                .any(|it| it.starts_with("kube") || it.starts_with("evaluation_api"))
        );
    }
}
