//! Each rule broken once, in a copy of this workspace.

use super::*;

/// A workspace with this repository's manifests and lock file, and empty sources.
fn copy_of_this_workspace() -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let original = e2e::repository();
    for file in ["Cargo.toml", "Cargo.lock"] {
        fs::copy(original.join(file), copy.path().join(file)).unwrap();
    }
    let manifest: String = fs::read_to_string(original.join("Cargo.toml")).unwrap();
    let (_, members) = manifest.split_once("members = [").unwrap();
    let (members, _) = members.split_once(']').unwrap();
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
    for target in ["api", "chart", "cluster", "gate", "live", "node"] {
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
fn refuses_another_crate_in_the_language_of_templates() {
    let copy = copy_of_this_workspace();
    let manifest = copy.path().join("crates/text-template/Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let with_ours = text.replacen(
        "[dependencies]",
        "[dependencies]\nauthz.workspace = true",
        1,
    );
    fs::write(&manifest, with_ours).unwrap();
    let expected =
        "text-template depends on authz: the language of templates knows nothing of the product";
    assert!(broken(copy.path()).contains(&expected.to_owned()));
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
        ["csi-node depends on webhook: services meet only at custom resources and at the protocol"]
    );
}

#[test]
fn refuses_a_service_that_reaches_another_through_a_helper() {
    let copy = copy_of_this_workspace();
    add_service(copy.path(), "webhook", "");
    add_service(
        copy.path(),
        "helper",
        "[dependencies]\nwebhook = { path = \"../webhook\" }",
    );
    add_service(
        copy.path(),
        "csi-node",
        "[dependencies]\nhelper = { path = \"../helper\" }",
    );
    let broken = broken(copy.path());
    assert!(
        broken
            .iter()
            .any(|line| line.starts_with("csi-node depends on webhook")),
        "{broken:?}"
    );
}

#[test]
fn refuses_the_standard_librarys_files_in_connectors_api() {
    let copy = copy_of_this_workspace();
    let source = copy.path().join("crates/connectors-api/src/lib.rs");
    fs::write(source, "use std::fs::File;").unwrap();
    assert_eq!(
        broken(copy.path()),
        [
            "connectors-api (src/lib.rs) depends on std::fs: decisions and types do no input or output"
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

/// Each module of a controller, and a name that it must not contain.
#[test]
fn modules_of_a_controller_name_only_what_they_may() {
    let workspace = copy_of_this_workspace();
    let rules = [
        (
            "request-controller",
            "observe.rs",
            "use crate::{plan::grant};",
            "crate::plan",
        ),
        (
            "policy-controller",
            "observe/reads.rs",
            "use crate::plan;",
            "crate::plan",
        ),
        (
            "request-controller",
            "plan/tell.rs",
            "use evaluation_api::v1;",
            "evaluation_api",
        ),
        (
            "policy-controller",
            "plan.rs",
            "fn f() { tokio::spawn(x); }",
            "tokio",
        ),
    ];
    for (service, file, text, to) in rules {
        let path = workspace
            .path()
            .join("crates")
            .join(service)
            .join("src")
            .join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let said = broken(workspace.path());
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains(to) && said[0].contains(file), "{said:?}");
        // A test may name anything.
        fs::write(&path, format!("#[cfg(test)]\nmod tests {{ {text} }}")).unwrap();
        assert_eq!(broken(workspace.path()), Vec::<String>::new());
    }
}

#[test]
fn modules_form_no_circle_with_others_than_their_parents() {
    let workspace = copy_of_this_workspace();
    let src = workspace.path().join("crates/webhook/src");
    let write = |file: &str, text: &str| {
        fs::create_dir_all(src.join(file).parent().unwrap()).unwrap();
        fs::write(src.join(file), text).unwrap();
    };
    write(
        "lib.rs",
        "mod review;\nmod server;\n#[cfg(test)]\nmod testing;",
    );
    write("review.rs", "mod object;\nuse object::Object;");
    write(
        "review/object.rs",
        "use super::Answer;\nuse crate::server::Page;",
    );
    write("server.rs", "#[cfg(test)]\nmod tests;\nfn f() {}");
    write("testing.rs", "use crate::review::Answer;");
    assert_eq!(broken(workspace.path()), Vec::<String>::new());
    write(
        "server.rs",
        "#[cfg(test)]\nmod tests;\nuse crate::{review::{self, Answer}};",
    );
    assert_eq!(
        broken(workspace.path()),
        [
            "webhook (review) depends on review::object, server: modules that are not within each other form no circle"
        ]
    );
    write("server.rs", "use crate::testing::Cluster;");
    assert_eq!(broken(workspace.path()), Vec::<String>::new());
}

/// Readers of a test's model or of a task read modules as well.
#[test]
fn modules_of_crates_that_never_ship_form_no_circle() {
    let workspace = copy_of_this_workspace();
    let write = |file: &str, text: &str| {
        fs::write(workspace.path().join("crates").join(file), text).unwrap();
    };
    write("xtask/src/main.rs", "#[cfg(test)]\nmod docs;");
    write("xtask/src/docs.rs", "use crate::page::Page;");
    write("xtask/src/page.rs", "use crate::docs::hold;");
    write("testkit/src/access.rs", "use crate::store::Key;");
    write("testkit/src/store.rs", "use crate::access::Rbac;");
    assert_eq!(broken(workspace.path()), Vec::<String>::new());
    write("campaign/src/stage.rs", "use crate::neighbour::LOUD;");
    write("campaign/src/neighbour.rs", "use crate::stage::Stage;");
    assert_eq!(
        broken(workspace.path()),
        [
            "campaign (neighbour) depends on stage: modules that are not within each other form no circle"
        ]
    );
}

#[test]
fn refuses_a_type_name_that_is_used_twice_unless_the_glossary_shares_it() {
    let copy = copy_of_this_workspace();
    add_service(copy.path(), "webhook", "");
    add_service(copy.path(), "csi-node", "");
    let source = |service: &str, text: &str| {
        let file = copy.path().join("crates").join(service).join("src/lib.rs");
        fs::write(file, text).unwrap();
    };
    source("webhook", "pub struct Args;\n#[cfg(test)]\nstruct Other;\n");
    source("csi-node", "enum Args {}\nstruct Other;\n");
    let rule = "a type name is used once, or the glossary says what it means in several places";
    let expected = format!("Args of csi-node () has the name of a type of webhook (): {rule}");
    assert_eq!(broken(copy.path()), [expected]);
    let glossary = |name: &str| {
        let docs = copy.path().join("docs");
        fs::create_dir_all(&docs).unwrap();
        let table = format!("## Type names that several crates share\n\n| `{name}` | x |\n");
        fs::write(docs.join("glossary.md"), table).unwrap();
    };
    glossary("Args");
    assert_eq!(broken(copy.path()), Vec::<String>::new());
    source("webhook", "");
    let expected = format!("docs/glossary.md (Args) lists as shared a name of 1 types: {rule}");
    assert_eq!(broken(copy.path()), [expected]);
}

#[test]
fn refuses_comments_that_hide_their_subject() {
    let copy = copy_of_this_workspace();
    let file = copy.path().join("crates/text-template/src/lib.rs");
    let tests = "#[cfg(test)]\nmod tests {\n    // Nobody.\n}\n";
    let good = "/// Calls a function, for a user who may.\nfn call() {}\n";
    fs::write(&file, format!("{good}{tests}")).unwrap();
    assert_eq!(broken(copy.path()), Vec::<String>::new());
    let bad = "fn f() {} // Nobody waits.\n\n/// Its end, for whoever waits.\n/// What it does.\nfn g() {}\n\n\
               /// What it gives.\nfn h() {}\n";
    fs::write(&file, format!("{tests}{bad}")).unwrap();
    let rule = "name the part of the code instead (docs/development.md, Words)";
    assert_eq!(
        broken(copy.path()),
        [
            format!("text-template (lib, line 5) comments with `nobody`: {rule}"),
            format!("text-template (lib, line 7) comments with `whoever`: {rule}"),
            format!("text-template (lib, line 11) begins a doc comment with `What`: {rule}"),
        ]
    );
}
