//! The how-tos, the tutorial and the pages about migration and troubleshooting: each of their commands is run, and
//! prints what they show.

mod approvers;
mod migration;
mod pipelines;
mod transcript;
mod troubleshooting;

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use e2e::{
    ClusterName, Progress, Target,
    api::kinds::NAMESPACE,
    demo,
    images::{Image, programs_dir},
    repository,
};

use crate::support::{
    Gate,
    pipelines::Pipelines,
    session::{self, Block, Said, Shell},
};

const FOLDER: &str = "docs/how-to";

/// Begins the line of a page that names the sections whose commands come first.
const NEEDS: &str = "Needs: ";

/// Longer than any wait of a page for something that does not happen.
const LIMIT: Duration = Duration::from_mins(4);

/// The order of output and errors is that of a terminal. A command that fails is named, unless it is a condition.
const FIRST: &str = "exec 2>&1; set -u; trap 'echo \"──failed── $BASH_COMMAND\"' ERR";
const FAILED: &str = "──failed──";

/// The namespaces of the pages, each of which is the test's own here. The first has the connectors.
const NAMESPACES: [&str; 2] = ["payments", "team-a"];

/// The commands of a page in their order, those first that it needs.
fn blocks(path: &Path) -> Vec<Block> {
    let page = fs::read_to_string(path).unwrap();
    let needs = page.lines().find_map(|line| line.strip_prefix(NEEDS));
    let links = needs.unwrap_or_default().split("](").skip(1);
    let mut found = Vec::new();
    for link in links {
        let (link, _) = link.split_once(')').unwrap();
        let (file, anchor) = link.split_once('#').expect("a section");
        let page = fs::read_to_string(path.with_file_name(file)).unwrap();
        let is_it = |line: &&str| line.starts_with("## ") && anchor_of(line) == anchor;
        let heading = page.lines().find(is_it);
        let heading = heading.unwrap_or_else(|| panic!("{}: no {link}", path.display()));
        found.extend(session::blocks(session::section(&page, heading)));
    }
    found.extend(session::blocks(&page));
    found
}

fn anchor_of(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words
        .chars()
        .filter(|it| it.is_alphanumeric() || " -".contains(*it));
    kept.map(|it| if it == ' ' { '-' } else { it }).collect()
}

/// Programs as a person has them in the `PATH`, and the repository as the folder to begin in.
struct Desk {
    folder: tempfile::TempDir,
}

/// A text in place of another one.
type Replaced<'a> = (&'a str, &'a str);

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let programs = folder.path().join("bin");
        fs::create_dir(&programs).unwrap();
        let kubectl = env::var("E2E_KUBECTL").expect("run it with `cargo xtask test gate`");
        let plugin = programs_dir().join("kubectl-connectors");
        symlink(kubectl, programs.join("kubectl")).unwrap();
        symlink(plugin, programs.join("kubectl-connectors")).unwrap();
        symlink(
            repository().join("examples"),
            folder.path().join("examples"),
        )
        .unwrap();
        Self { folder }
    }

    fn run(&self, blocks: &[Block]) -> Vec<String> {
        let path = |name: &str| self.folder.path().join(name);
        let found = env::var_os("PATH").unwrap();
        let folders = [path("bin")].into_iter().chain(env::split_paths(&found));
        let environment: [(&str, OsString); 3] = [
            ("PATH", env::join_paths(folders).unwrap()),
            ("KUBECONFIG", env::var_os("E2E_KUBECONFIG").unwrap()),
            ("KUBECACHEDIR", path("cache").into()),
        ];
        let shell = Shell {
            folder: self.folder.path(),
            environment: &environment,
            first: FIRST,
            limit: LIMIT,
        };
        let Said { outputs, errors } = shell.run(blocks);
        assert_eq!(errors, "");
        outputs
    }
}

/// Runs the blocks with these texts in place of others, and compares their output with the shown one.
fn play(page: &str, blocks: Vec<Block>, own: &[Replaced<'_>]) {
    play_at(&Desk::new(), page, blocks, own);
}

fn play_at(desk: &Desk, page: &str, mut blocks: Vec<Block>, own: &[Replaced<'_>]) {
    let in_place = |text: &str| {
        let own = own.iter();
        own.fold(text.to_owned(), |text, (shown, own)| {
            text.replace(shown, own)
        })
    };
    for block in &mut blocks {
        block.commands = in_place(&block.commands);
    }
    let outputs = desk.run(&blocks);
    for (
        Block {
            commands,
            expected,
            left_out: _,
        },
        output,
    ) in blocks.iter().zip(outputs)
    {
        let Some((_, shown)) = expected else {
            assert!(
                !output.contains(FAILED),
                "{page}:\n{commands}─ prints ─\n{output}"
            );
            continue;
        };
        let shown = in_place(shown);
        let lines = output.lines().filter(|line| !line.starts_with(FAILED));
        let said = lines.collect::<Vec<_>>().join("\n");
        assert!(
            transcript::is(&shown, &said),
            "{page}:\n{commands}─ prints ─\n{said}\n─ and not ─\n{shown}"
        );
    }
}

fn play_how_to(path: &Path) {
    let name = path.file_stem().unwrap().to_str().unwrap();
    let page = path.file_name().unwrap().to_str().unwrap();
    let gate = Gate::empty(&format!("how-to-{name}"));
    let text = fs::read_to_string(path).unwrap();
    let others = NAMESPACES[1..].iter().filter(|it| text.contains(**it));
    let others: Vec<Gate> = others
        .map(|it| gate.another(&format!("how-to-{it}")))
        .collect();
    let image = format!("image: {}", gate.scene().workload_image());
    let mut own = vec![
        ("image: busybox", image.as_str()),
        ("command: [sleep, infinity]", "command: [/workload, wait]"),
        pipelines::STEP,
    ];
    let gates = [&gate].into_iter().chain(&others);
    own.extend(NAMESPACES.into_iter().zip(gates.map(Gate::namespace)));
    if text.contains(pipelines::KIND) {
        pipelines::beside(&gate, || play(page, blocks(path), &own));
    } else {
        play(page, blocks(path), &own);
    }
}

#[test]
fn every_how_to_does_what_it_shows() {
    let folder = fs::read_dir(repository().join(FOLDER)).unwrap();
    let mut pages: Vec<PathBuf> = folder.map(|it| it.unwrap().path()).collect();
    pages.sort();
    // It has no commands: its approvers answer in a pipeline, which a test of its own plays.
    pages.retain(|it| !it.ends_with("approvers.md"));
    assert!(pages.len() > 6, "{pages:?}");
    let failed: Vec<&PathBuf> = thread::scope(|scope| {
        let running: Vec<_> = pages
            .iter()
            .map(|page| (page, scope.spawn(|| play_how_to(page))))
            .collect();
        let ended = running.into_iter().map(|(page, it)| (page, it.join()));
        ended
            .filter_map(|(page, it)| it.err().map(|_| page))
            .collect()
    });
    assert!(failed.is_empty(), "{failed:?}");
}

/// Namespaces that commands of a page made, until this is dropped.
struct Made<'a>(&'a Gate, &'a [String]);

impl Drop for Made<'_> {
    fn drop(&mut self) {
        for namespace in self.1 {
            if let Err(error) = self.0.api().delete(NAMESPACE, namespace) {
                eprintln!("namespace {namespace} stays: {error}");
            }
        }
    }
}

/// The other tests have namespaces of their own in place of these.
#[test]
fn every_how_to_begins_in_two_namespaces() {
    let gate = Gate::empty("how-to-begins");
    let page = fs::read_to_string(repository().join("docs/how-to.md")).unwrap();
    assert!(!page.contains("```console"), "a block that nothing runs");
    let own = NAMESPACES.map(|it| format!("{}-{it}", gate.namespace()));
    let _made = Made(&gate, &own);
    let in_place: Vec<Replaced<'_>> = NAMESPACES
        .into_iter()
        .zip(own.iter().map(String::as_str))
        .collect();
    play("how-to.md", session::blocks(&page), &in_place);
    for namespace in &own {
        gate.object(NAMESPACE, namespace);
    }
}

/// Its first block starts the demo of the cluster; here it is played on the cluster of the run.
#[test]
fn the_tutorial_goes_on_from_the_demo_as_it_shows() {
    let gate = Gate::patient("tutorial");
    let page = fs::read_to_string(repository().join("docs/tutorial.md")).unwrap();
    let kubeconfig = env::var("E2E_KUBECONFIG").unwrap();
    let (start, rest) = page.split_once("## Look around").expect("the section");
    if let Some(cluster) = gate.scene().cluster() {
        let default = kubeconfig.replace(cluster.name().as_str(), ClusterName::default().as_str());
        assert!(
            start.contains(&format!("export KUBECONFIG={default}\n")),
            "{default}"
        );
    }
    assert!(start.contains("cargo xtask demo\n"), "{start}");
    let target = Target::get(
        Some(kubeconfig.into()),
        &ClusterName::default(),
        &e2e::Launcher::this_program(&[]).unwrap(),
        &Progress::default(),
    );
    let image = gate.scene().workload_image();
    // The demo takes away kinds of Tekton that it brought; here other tests need them.
    Pipelines::of(&gate);
    demo::play(&target.unwrap(), image, &Progress::default()).unwrap();
    let own = [(Image::Workload.reference(), image)];
    let own = own.each_ref().map(|(shown, own)| (shown.as_str(), *own));
    play("tutorial.md", session::blocks(rest), &own);
}
