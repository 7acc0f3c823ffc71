//! A type has a name of its own: a reader who meets a name in one crate knows it in the others.
//!
//! The glossary lists the names that several crates share, because they mean the same in each.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::Context;

use super::{Violation, modules::CrateModules};

const RULE: &str = "a type name is used once, or the glossary says what it means in several places";

/// Where the shared names are listed, one in each row of a table.
const GLOSSARY: &str = "docs/glossary.md";
const SHARED: &str = "## Type names that several crates share";

const KEYWORDS: [&str; 5] = ["struct ", "enum ", "trait ", "union ", "type "];

/// The names that more than one place gives to a type, and those of the glossary that are not shared.
pub(super) fn check(workspace: &Path, modules: &CrateModules) -> anyhow::Result<Vec<Violation>> {
    let glossary = workspace.join(GLOSSARY);
    let shared = if glossary.is_file() {
        let text = fs::read_to_string(&glossary).context(GLOSSARY)?;
        shared(&text)
    } else {
        BTreeSet::new()
    };
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, modules) in modules {
        for module in modules {
            for declared in declared(&module.code) {
                let place = format!("{name} ({})", module.path);
                places.entry(declared).or_default().push(place);
            }
        }
    }
    let mut violations = Vec::new();
    for (name, places) in &places {
        if let [first, others @ ..] = &places[..]
            && !others.is_empty()
            && !shared.contains(*name)
        {
            violations.push(Violation {
                from: format!("{name} of {first}"),
                verb: "has the name of a type of",
                to: others.join(", "),
                rule: RULE,
            });
        }
    }
    for name in shared {
        let used = places.get(name.as_str()).map_or(0, Vec::len);
        if used < 2 {
            violations.push(Violation {
                from: format!("{GLOSSARY} ({name})"),
                verb: "lists as shared a name of",
                to: format!("{used} types"),
                rule: RULE,
            });
        }
    }
    Ok(violations)
}

/// The names of a glossary's table.
fn shared(glossary: &str) -> BTreeSet<String> {
    let table = glossary.split_once(SHARED).map_or("", |(_, rest)| rest);
    let table = table.split("\n## ").next().unwrap_or_default();
    let cells = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let names = cells.filter_map(|cell| cell.split_once('`'));
    names.map(|(name, _)| name.to_owned()).collect()
}

/// The types that code declares. Associated types are no names of their own.
fn declared(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter_map(|line| {
        let item = line.trim_start();
        let is_nested = item.len() < line.len();
        let item = match item.strip_prefix("pub") {
            Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
            Some(rest) => rest.strip_prefix(' ')?,
            None => item,
        };
        let keyword = KEYWORDS.iter().find(|it| item.starts_with(**it))?;
        if *keyword == "type " && is_nested {
            return None;
        }
        let name = &item[keyword.len()..];
        let end = name.find(|it: char| !it.is_alphanumeric())?;
        Some(&name[..end]).filter(|it| it.starts_with(|first: char| first.is_uppercase()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_types_are_found_whatever_their_visibility_and_associated_ones_are_not() {
        let code = "pub struct A;\npub(crate) enum B<T> {}\n    pub(in crate::x) trait C: D {}\ntype E<T> = T;\n\
                    impl F { type G = H; }\n    type I = J;\nfn structure() {}\nlet struct_ = 1;\n";
        assert_eq!(declared(code).collect::<Vec<_>>(), ["A", "B", "C", "E"]);
    }

    #[test]
    fn the_glossary_lists_shared_names_under_their_heading_alone() {
        let text = format!(
            "| `Other` | x |\n{SHARED}\n\n| name | meaning |\n|---|---|\n| `Args` | y |\n| `Plan` | z |\n\n## Next\n| `No` |\n"
        );
        assert_eq!(
            Vec::from_iter(shared(&text)),
            ["Args".to_owned(), "Plan".to_owned()]
        );
        assert!(shared("nothing").is_empty());
    }
}
