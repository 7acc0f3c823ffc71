//! `cargo xtask layers`: the architecture's rules about who may depend on whom, checked on what cargo resolves.

use std::{collections::BTreeMap, fmt, path::Path};

use anyhow::Context;
use e2e::Tool;
use serde::Deserialize;

/// Crates that decide and describe: nothing below them may wait for anything outside the process.
const WITHOUT_IO: [&str; 2] = ["connectors-api", "authz"];

/// Libraries that do input and output; one of them in a tree is the sign of all others.
const IO_LIBRARIES: [&str; 8] = [
    "tokio",
    "mio",
    "socket2",
    "hyper",
    "tonic",
    "reqwest",
    "kube-client",
    "rustls",
];

/// The process shell knows processes, not approvals.
const WITHOUT_DOMAIN: [&str; 1] = ["service-kit"];
const DOMAIN: [&str; 3] = ["connectors-api", "authz", "evaluation-api"];

/// Services meet only at custom resources and at the protocol.
const SERVICES: [&str; 6] = [
    "evaluation-service",
    "policy-controller",
    "request-controller",
    "webhook",
    "csi-node",
    "kubectl-connectors",
];

/// Never part of a program that ships.
const FOR_TESTS: [&str; 2] = ["testkit", "e2e"];
/// The only crates that may use the end-to-end crate: they do not ship either.
const DEVELOPMENT: [&str; 3] = ["xtask", "e2e", "testkit"];

/// One broken rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    from: String,
    to: String,
    rule: &'static str,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, rule } = self;
        write!(f, "{from} depends on {to}: {rule}")
    }
}

/// Checks this repository and fails with every broken rule.
pub(crate) fn run() -> anyhow::Result<()> {
    let violations = check(&e2e::repository())?;
    if violations.is_empty() {
        println!("layers: every dependency is allowed");
        return Ok(());
    }
    let lines: Vec<String> = violations.iter().map(ToString::to_string).collect();
    anyhow::bail!("the layering is broken:\n  {}", lines.join("\n  "))
}

/// All broken rules of the workspace at a path.
pub(crate) fn check(workspace: &Path) -> anyhow::Result<Vec<Violation>> {
    let members = members(workspace)?;
    let mut violations = between_members(&members);
    for name in WITHOUT_IO
        .into_iter()
        .filter(|name| members.contains_key(*name))
    {
        violations.extend(input_and_output(workspace, name)?);
    }
    Ok(violations)
}

/// Members of the workspace with the members they use in a build that ships.
type Members = BTreeMap<String, Vec<String>>;

fn between_members(members: &Members) -> Vec<Violation> {
    let edges = members
        .iter()
        .flat_map(|(from, uses)| uses.iter().map(move |to| (from.as_str(), to.as_str())));
    edges
        .filter_map(|(from, to)| {
            broken_rule(from, to).map(|rule| Violation {
                from: from.to_owned(),
                to: to.to_owned(),
                rule,
            })
        })
        .collect()
}

fn broken_rule(from: &str, to: &str) -> Option<&'static str> {
    if SERVICES.contains(&from) && SERVICES.contains(&to) {
        return Some("services meet only at custom resources and at the protocol");
    }
    if WITHOUT_DOMAIN.contains(&from) && DOMAIN.contains(&to) {
        return Some("the process shell knows no domain types");
    }
    if FOR_TESTS.contains(&to) && !DEVELOPMENT.contains(&from) {
        return Some("it is for tests and never part of a program that ships");
    }
    None
}

/// `cargo metadata` unifies features over the workspace and would blame the innocent: the tree of one
/// package with its own normal dependencies tells the truth.
fn input_and_output(workspace: &Path, name: &str) -> anyhow::Result<Vec<Violation>> {
    let tree = Tool::new(env!("CARGO"))
        .dir(workspace)
        .args(["tree", "--package", name, "--edges", "normal"])
        .args(["--prefix", "none", "--format", "{p}"])
        .output()
        .with_context(|| format!("the dependencies of {name}"))?;
    let mut found: Vec<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|library| IO_LIBRARIES.contains(library))
        .collect();
    found.sort_unstable();
    found.dedup();
    let violation = |library: &str| Violation {
        from: name.to_owned(),
        to: library.to_owned(),
        rule: "decisions and types do no input or output",
    };
    Ok(found.into_iter().map(violation).collect())
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev`, `build`, or absent for a normal one.
    kind: Option<String>,
    /// Only dependencies inside the workspace have one.
    path: Option<String>,
}

fn members(workspace: &Path) -> anyhow::Result<Members> {
    let text = Tool::new(env!("CARGO"))
        .dir(workspace)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()?;
    let metadata: Metadata = serde_json::from_str(&text).context("cargo metadata")?;
    let ships = |dependency: &Dependency| {
        dependency.path.is_some() && dependency.kind.as_deref() != Some("dev")
    };
    let member = |package: Package| {
        let uses = package
            .dependencies
            .into_iter()
            .filter(ships)
            .map(|used| used.name);
        (package.name, uses.collect())
    };
    Ok(metadata.packages.into_iter().map(member).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A workspace with this repository's manifests and lock file, and empty sources.
    fn copy_of_this_workspace() -> tempfile::TempDir {
        let copy = tempfile::tempdir().unwrap();
        let original = e2e::repository();
        for file in ["Cargo.toml", "Cargo.lock"] {
            fs::copy(original.join(file), copy.path().join(file)).unwrap();
        }
        let manifest: String = fs::read_to_string(original.join("Cargo.toml")).unwrap();
        let members = manifest
            .lines()
            .find(|line| line.starts_with("members = "))
            .unwrap();
        for member in members.split('"').skip(1).step_by(2) {
            let dir = copy.path().join(member);
            add_crate_files(&dir);
            fs::copy(
                original.join(member).join("Cargo.toml"),
                dir.join("Cargo.toml"),
            )
            .unwrap();
        }
        copy
    }

    fn add_crate_files(dir: &Path) {
        fs::create_dir_all(dir.join("src")).unwrap();
        for file in ["src/lib.rs", "src/main.rs"] {
            fs::write(dir.join(file), "").unwrap();
        }
        // Test targets that are named in a manifest must exist.
        for target in ["api", "node", "cluster"] {
            fs::create_dir_all(dir.join("tests").join(target)).unwrap();
            fs::write(dir.join("tests").join(target).join("main.rs"), "").unwrap();
        }
    }

    fn add_service(workspace: &Path, name: &str, dependencies: &str) {
        let dir = workspace.join("crates").join(name);
        add_crate_files(&dir);
        let manifest = format!(
            "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{dependencies}"
        );
        fs::write(dir.join("Cargo.toml"), manifest).unwrap();
        let root = workspace.join("Cargo.toml");
        let text = fs::read_to_string(&root).unwrap();
        let member = format!("members = [\"crates/{name}\", ");
        fs::write(&root, text.replacen("members = [", &member, 1)).unwrap();
    }

    fn broken(workspace: &Path) -> Vec<String> {
        check(workspace)
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn this_workspace_keeps_its_layers() {
        assert_eq!(broken(&e2e::repository()), Vec::<String>::new());
    }

    #[test]
    fn refuses_tokio_in_connectors_api() {
        let copy = copy_of_this_workspace();
        let manifest = copy.path().join("crates/connectors-api/Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let with_tokio = text.replacen(
            "[dependencies]",
            "[dependencies]\ntokio.workspace = true",
            1,
        );
        fs::write(&manifest, with_tokio).unwrap();
        let expected = "connectors-api depends on tokio: decisions and types do no input or output";
        assert!(broken(copy.path()).contains(&expected.to_owned()));
    }

    #[test]
    fn refuses_a_service_that_uses_another_service() {
        let copy = copy_of_this_workspace();
        add_service(copy.path(), "webhook", "");
        assert_eq!(broken(copy.path()), Vec::<String>::new());
        add_service(
            copy.path(),
            "csi-node",
            "[dependencies]\nwebhook = { path = \"../webhook\" }",
        );
        assert_eq!(
            broken(copy.path()),
            [
                "csi-node depends on webhook: services meet only at custom resources and at the protocol"
            ]
        );
    }

    #[test]
    fn refuses_test_code_in_a_service_but_not_in_its_tests() {
        let copy = copy_of_this_workspace();
        add_service(
            copy.path(),
            "webhook",
            "[dev-dependencies]\ne2e = { path = \"../../e2e\" }",
        );
        assert_eq!(broken(copy.path()), Vec::<String>::new());
        add_service(
            copy.path(),
            "csi-node",
            "[dependencies]\ne2e = { path = \"../../e2e\" }",
        );
        assert_eq!(
            broken(copy.path()),
            ["csi-node depends on e2e: it is for tests and never part of a program that ships"]
        );
    }

    #[test]
    fn refuses_domain_types_in_the_process_shell() {
        let copy = copy_of_this_workspace();
        let uses = "[dependencies]\nconnectors-api = { path = \"../connectors-api\" }";
        add_service(copy.path(), "service-kit", uses);
        assert_eq!(
            broken(copy.path()),
            ["service-kit depends on connectors-api: the process shell knows no domain types"]
        );
    }
}
