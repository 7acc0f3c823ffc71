//! Rules about the modules within a crate: who may name whom.

use std::{collections::BTreeSet, fs, path::Path};

use super::{Violation, sources};

/// What the files below a path must not name.
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
                        to: (*forbidden).to_owned(),
                        rule: rule.rule,
                    });
                }
            }
        }
    }
    Ok(violations)
}

pub(super) fn is_test(path: &str) -> bool {
    path.ends_with("tests.rs") || path.contains("tests/")
}

/// The code of a file, its tests and comments apart.
pub(super) fn code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" {
            let item = lines.find(|it| !it.starts_with("#["));
            // An item of one line, or one that ends where a line begins with its brace.
            if item.is_some_and(|it| !it.ends_with([';', '}'])) {
                lines.find(|it| it.starts_with('}'));
            }
        } else if !line.trim_start().starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
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
        // Also what follows a test.
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
