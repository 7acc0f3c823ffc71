//! The test programs that have all changes: those that do not compile are left out, one check after the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::Range,
    path::PathBuf,
    process::Command,
    time::Instant,
};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use super::{
    super::{copy::Copy, seconds, trial},
    constants::ConstantNames,
    listed::Change,
    sites,
};

/// The code that is asked at each switch. It stands in every package with changes.
const SWITCHES: &str = include_str!("switches.txt");
/// Each check finds what those before it hid. Eleven packages together take nine.
const MOST_CHECKS: usize = 40;

/// A compiled test program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TestProgram {
    /// The package whose tests it has.
    pub(super) package: String,
    /// The folder of the package, where its tests run.
    pub(super) folder: PathBuf,
    pub(super) path: PathBuf,
}

/// The result of the builds.
pub(super) struct Built {
    pub(super) programs: Vec<TestProgram>,
    /// The changes that do not compile.
    pub(super) broken: BTreeSet<u32>,
    /// The changes that cannot stand behind a switch.
    pub(super) left_out: BTreeSet<u32>,
}

/// A message of cargo, as far as it is of use.
#[derive(Deserialize)]
struct Message {
    reason: String,
    #[serde(rename = "message")]
    diagnostic: Option<Diagnostic>,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    profile: Option<Profile>,
}

impl Message {
    fn is_error(&self) -> bool {
        self.diagnostic
            .as_ref()
            .is_some_and(|it| it.level == "error")
    }
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    rendered: Option<String>,
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    is_primary: bool,
    expansion: Option<Box<Expansion>>,
}

#[derive(Deserialize)]
struct Expansion {
    span: Span,
}

/// Which changes an error is about.
#[derive(Debug, PartialEq, Eq)]
enum Blamed {
    /// The text of this change.
    Change(u32),
    /// A switch with these changes.
    Switch(Vec<u32>),
}

/// Builds the test programs of some packages, with all changes of them that compile.
pub(super) fn built(
    copy: &Copy,
    files: &BTreeMap<String, Vec<Change>>,
    packages: &BTreeSet<&str>,
) -> anyhow::Result<Built> {
    let mut built = Built {
        programs: Vec::new(),
        broken: BTreeSet::new(),
        left_out: BTreeSet::new(),
    };
    prepare(copy, packages)?;
    let sources: BTreeMap<&str, String> = files
        .keys()
        .map(|file| Ok((file.as_str(), copy.text(file)?)))
        .collect::<anyhow::Result<_>>()?;
    let constants = ConstantNames::of(sources.values().map(String::as_str))?;
    let mut texts = BTreeMap::new();
    let mut to_write: BTreeSet<&str> = files.keys().map(String::as_str).collect();
    for number in 1..=MOST_CHECKS {
        for file in &to_write {
            let changes = files.get(*file).context("a file without changes")?;
            let (broken, left_out) = (&built.broken, &built.left_out);
            let is_in =
                |it: &&Change| !broken.contains(&it.number) && !left_out.contains(&it.number);
            let changes: Vec<_> = changes.iter().filter(is_in).collect();
            let source = sources.get(file).context("a file that was not read")?;
            let switched = sites::switched(source, &changes, &constants)
                .with_context(|| (*file).to_owned())?;
            built.left_out.extend(switched.left_out);
            let whole = with_module(file, switched.text);
            fs::write(copy.root().join(file), &whole)?;
            texts.insert(*file, whole);
        }
        to_write.clear();
        let began = Instant::now();
        let mut said = messages(command(copy, packages, &["check", "--keep-going", "--lib"]))?;
        let is_checked = said.iter().all(|it| !it.is_error());
        if is_checked {
            // Some errors come up only when code is generated.
            said = messages(command(
                copy,
                packages,
                &["test", "--no-run", "--lib", "--test", "*"],
            ))?;
            if said.iter().all(|it| !it.is_error()) {
                built.programs = programs(said)?;
                println!(
                    "{} test programs ({} s)",
                    built.programs.len(),
                    seconds(began)
                );
                return Ok(built);
            }
        }
        let before = built.broken.len() + built.left_out.len();
        let errors = said.iter().filter(|it| it.is_error());
        let errors: Vec<_> = errors.filter_map(|it| it.diagnostic.as_ref()).collect();
        for error in &errors {
            match blamed(error, &texts) {
                Some((file, Blamed::Change(number))) => {
                    built.broken.insert(number);
                    to_write.insert(file);
                }
                Some((file, Blamed::Switch(numbers))) => {
                    built.left_out.extend(numbers);
                    to_write.insert(file);
                }
                None if error.spans.is_empty() => {}
                None => println!("{}", error.rendered.as_deref().unwrap_or_default()),
            }
        }
        let found = built.broken.len() + built.left_out.len() - before;
        println!(
            "build {number}: {} errors, {found} more changes are left out ({} s)",
            errors.len(),
            seconds(began)
        );
        ensure!(found > 0, "errors that no change explains");
    }
    bail!("the changes do not compile after {MOST_CHECKS} checks")
}

/// Turns off the lints, which changes need not follow.
fn prepare(copy: &Copy, packages: &BTreeSet<&str>) -> anyhow::Result<()> {
    let manifest = copy.root().join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    let mut is_lint = false;
    let mut kept: Vec<&str> = Vec::new();
    for line in text.lines() {
        if line.starts_with('[') {
            is_lint = line.starts_with("[workspace.lints");
        }
        if !is_lint {
            kept.push(line);
        }
    }
    let kept = kept.join("\n") + "\n[workspace.lints.rust]\nwarnings = \"allow\"\n";
    fs::write(manifest, kept)?;
    for package in packages {
        let library = format!("crates/{package}/src/lib.rs");
        fs::write(
            copy.root().join(&library),
            with_module(&library, copy.text(&library)?),
        )?;
    }
    Ok(())
}

/// The text of a file; that of a library has the switches' module as well.
fn with_module(file: &str, text: String) -> String {
    if file.ends_with("/src/lib.rs") && !text.ends_with(SWITCHES) {
        text + "\n" + SWITCHES
    } else {
        text
    }
}

fn command(copy: &Copy, packages: &BTreeSet<&str>, arguments: &[&str]) -> Command {
    let mut command = trial::cargo(copy, trial::BUILD);
    command.args(arguments);
    command.args(["--locked", "--jobs", "2", "--all-features"]);
    command.args(["--message-format", "json"]);
    for package in packages {
        command.args(["--package", package]);
    }
    command
}

/// The test programs among what was built.
fn programs(said: Vec<Message>) -> anyhow::Result<Vec<TestProgram>> {
    let mut programs = BTreeSet::new();
    for message in said {
        if message.reason != "compiler-artifact" || !message.profile.is_some_and(|it| it.test) {
            continue;
        }
        let (Some(path), Some(manifest)) = (message.executable, message.manifest_path) else {
            continue;
        };
        let folder = manifest.parent().context("a manifest in no folder")?;
        let package = folder.file_name().context("a package without a name")?;
        programs.insert(TestProgram {
            package: package.to_string_lossy().into_owned(),
            folder: folder.to_owned(),
            path,
        });
    }
    ensure!(!programs.is_empty(), "no test program was built");
    Ok(programs.into_iter().collect())
}

fn messages(mut command: Command) -> anyhow::Result<Vec<Message>> {
    let output = command.output().context("cargo")?;
    let lines = String::from_utf8_lossy(&output.stdout);
    let messages = lines
        .lines()
        .filter(|it| it.starts_with('{'))
        .map(|it| serde_json::from_str(it).context("a message of cargo"));
    let messages: Vec<Message> = messages.collect::<anyhow::Result<_>>()?;
    ensure!(
        output.status.success() || messages.iter().any(|it| it.diagnostic.is_some()),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(messages)
}

/// The change that causes an error: the one around its first place, or around another one.
fn blamed<'a>(error: &Diagnostic, texts: &BTreeMap<&'a str, String>) -> Option<(&'a str, Blamed)> {
    let (first, others): (Vec<_>, Vec<_>) = error.spans.iter().partition(|it| it.is_primary);
    for span in first.into_iter().chain(others) {
        let mut span = span;
        loop {
            if let Some((file, text)) = texts.get_key_value(span.file_name.as_str())
                && let Some(blamed) = around(text, span.byte_start)
            {
                return Some((file, blamed));
            }
            match &span.expansion {
                Some(expansion) => span = &expansion.span,
                None => break,
            }
        }
    }
    None
}

/// The innermost marks around a place.
fn around(text: &str, place: usize) -> Option<Blamed> {
    let mut open: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while let Some(found) = text.get(at..place.max(at)).and_then(|it| it.find("/*@")) {
        let begin = at + found + 3;
        let end = begin + text.get(begin..)?.find("*/")?;
        if begin == end {
            open.pop();
        } else {
            open.push(begin..end);
        }
        at = end;
    }
    let numbers = text.get(open.pop()?)?;
    // A switch has its own mark around those of its changes, also if it has one change alone.
    let is_change = open.last().is_some_and(|outer| {
        let outer = text.get(outer.clone()).unwrap_or_default();
        !numbers.contains(',') && outer.split(',').any(|it| it == numbers)
    });
    let numbers: Vec<u32> = numbers
        .split(',')
        .filter_map(|it| it.parse().ok())
        .collect();
    Some(match numbers.as_slice() {
        [number] if is_change => Blamed::Change(*number),
        _ => Blamed::Switch(numbers),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A switch with two changes, in whose original stands one with one change.
    const TEXT: &str = "a /*@1,2*/(if x(1) { /*@1*/ b /*@*/ } else if x(2) { /*@2*/ c /*@*/ } else { d \
        /*@3*/(if x(3) { /*@3*/ e /*@*/ } else { f })/*@*/ g })/*@*/ h ";

    fn at(word: &str) -> Option<Blamed> {
        around(TEXT, TEXT.find(&format!(" {word} ")).unwrap() + 1)
    }

    #[test]
    fn an_error_blames_the_change_around_it_or_else_the_switch() {
        for (word, number) in [("b", 1), ("c", 2), ("e", 3)] {
            assert_eq!(at(word), Some(Blamed::Change(number)), "{word}");
        }
        assert_eq!(at("f"), Some(Blamed::Switch(vec![3])));
        for word in ["d", "g"] {
            assert_eq!(at(word), Some(Blamed::Switch(vec![1, 2])), "{word}");
        }
        assert_eq!(around(TEXT, 0), None);
        assert_eq!(at("h"), None);
    }

    fn span(file: &str, byte_start: usize, is_primary: bool) -> Span {
        Span {
            file_name: file.to_owned(),
            byte_start,
            is_primary,
            expansion: None,
        }
    }

    #[test]
    fn an_error_is_explained_by_its_first_place_then_by_the_others_and_by_a_macro() {
        let texts = BTreeMap::from([("a.rs", TEXT.to_owned())]);
        let (b, c) = (TEXT.find(" b ").unwrap(), TEXT.find(" c ").unwrap());
        let of = |spans| {
            let error = Diagnostic {
                level: "error".to_owned(),
                rendered: None,
                spans,
            };
            blamed(&error, &texts)
        };
        let both = vec![span("a.rs", c, false), span("a.rs", b, true)];
        assert_eq!(of(both), Some(("a.rs", Blamed::Change(1))));
        let other = vec![span("a.rs", c, false), span("a.rs", 0, true)];
        assert_eq!(of(other), Some(("a.rs", Blamed::Change(2))));
        let mut in_macro = span("std.rs", 9, true);
        in_macro.expansion = Some(Box::new(Expansion {
            span: span("a.rs", b, false),
        }));
        assert_eq!(of(vec![in_macro]), Some(("a.rs", Blamed::Change(1))));
        assert_eq!(of(vec![span("b.rs", b, true)]), None);
        assert_eq!(of(vec![]), None);
    }
}
