//! Which tests reach a change, and whether one of them fails when it is made.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    io::{self, Seek},
    path::PathBuf,
    process::{Command, Output, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;

use super::{
    super::{seconds, trial::Ran},
    listed::Change,
    program::TestProgram,
};

/// As many programs run at a time. Many tests wait.
const AT_A_TIME: usize = 3;
/// A test that takes longer alone is asked about nothing.
const LONGEST: Duration = Duration::from_secs(30);
/// The tests that are asked first, and then each time, take together so long.
const FIRST: Duration = Duration::from_millis(200);
const NEXT: Duration = Duration::from_secs(2);
/// The tests of its own package that a change is shown to take together so long, and those of other packages too. The
/// first ones are the most likely to fail, so few changes are seen by the others alone.
const MOST: Duration = Duration::from_secs(20);
/// As many tests that failed last in a file are asked first about its next change.
const KEPT: usize = 6;
/// What a run may take beyond some times the time of its tests, until it counts as one that does not end.
const PATIENCE: Duration = Duration::from_secs(6);
/// How many times slower tests are beside other work, and where more is computed.
const SLOWER: u32 = 5;
/// One run names no more tests than fit into its command line.
const MOST_NAMES: usize = 400;

/// A test of a program.
struct Test<'a> {
    program: &'a TestProgram,
    name: String,
    took: Duration,
    /// How many changes it reaches: few, where it is about little else.
    reaches: usize,
}

impl Test<'_> {
    /// What it costs to ask it about everything that it reaches: those that cost little are asked first.
    fn cost(&self) -> u128 {
        self.took.as_micros() * (self.reaches as u128)
    }
}

/// The tests that reach each change.
pub(super) struct Reach<'a> {
    tests: Vec<Test<'a>>,
    by_change: HashMap<u32, Vec<usize>>,
    /// What the tests find of the environment.
    variables: Vec<(&'static str, PathBuf)>,
    /// The tests that failed last, by the files of the changes.
    failed: Mutex<HashMap<String, Vec<usize>>>,
}

/// What became of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A test failed, or did not end.
    Caught,
    Missed,
    /// No test reaches it.
    Unreached,
}

/// Runs each test alone, and sees which changes it reaches.
pub(super) fn reach<'a>(
    programs: &'a [TestProgram],
    variables: Vec<(&'static str, PathBuf)>,
) -> anyhow::Result<Reach<'a>> {
    let mut names = Vec::new();
    for program in programs {
        for name in listed(program)? {
            names.push((program, name));
        }
    }
    let began = Instant::now();
    let records = tempfile::tempdir()?;
    let record = |index: usize| records.path().join(index.to_string());
    let ran = side_by_side(&names, |index, (program, name)| {
        let run = |record: Option<PathBuf>| -> anyhow::Result<(bool, Duration)> {
            let began = Instant::now();
            let mut command = command(program, LONGEST, &variables);
            command.envs(record.map(|it| ("CHANGES_REACHED", it)));
            command.args(["--exact", name.as_str()]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let passes = command.status()?.success();
            Ok((passes, began.elapsed()))
        };
        // The record itself allocates and writes a file, which some tests count or forbid.
        match run(Some(record(index)))? {
            (true, took) => Ok((true, took)),
            (false, _) => run(None),
        }
    })?;
    let mut reach = Reach {
        tests: Vec::new(),
        by_change: HashMap::new(),
        variables,
        failed: Mutex::default(),
    };
    for (index, ((program, name), (passes, took))) in names.into_iter().zip(ran).enumerate() {
        if !passes {
            println!(
                "not asked, since it fails alone: {} {name}",
                program.package
            );
            continue;
        }
        let reached = fs::read_to_string(record(index)).unwrap_or_default();
        let changes: BTreeSet<u32> = reached.lines().filter_map(|it| it.parse().ok()).collect();
        let test = reach.tests.len();
        let count = changes.len();
        for change in changes {
            reach.by_change.entry(change).or_default().push(test);
        }
        reach.tests.push(Test {
            program,
            name,
            took,
            reaches: count,
        });
    }
    println!(
        "{} tests reach {} changes ({} s)",
        reach.tests.len(),
        reach.by_change.len(),
        seconds(began)
    );
    Ok(reach)
}

impl Reach<'_> {
    /// Makes each change, and tells what became of it.
    pub(super) fn ask(
        &self,
        changes: &[&Change],
        done: impl Fn(usize, Outcome) -> anyhow::Result<()> + Sync,
    ) -> anyhow::Result<()> {
        side_by_side(changes, |index, change| done(index, self.outcome(change)?))?;
        Ok(())
    }

    fn outcome(&self, change: &Change) -> anyhow::Result<Outcome> {
        let Some(reached) = self.by_change.get(&change.number) else {
            return Ok(Outcome::Unreached);
        };
        let first = match self.failed.lock() {
            Ok(failed) => failed.get(&change.file).cloned().unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        let tests = reached
            .iter()
            .filter_map(|it| Some((*it, self.tests.get(*it)?)));
        let (mut own, mut others): (Vec<_>, Vec<_>) =
            tests.partition(|(_, it)| it.program.package == change.package);
        for tests in [&mut own, &mut others] {
            tests.sort_by_key(|(index, it)| (!first.contains(index), it.cost()));
            let all = tests.iter().map(|(_, it)| *it).collect::<Vec<_>>();
            tests.truncate(batch(&all, MOST, usize::MAX));
        }
        for tests in [own, others] {
            let mut rest = tests.as_slice();
            let mut limit = FIRST;
            while !rest.is_empty() {
                let all = rest.iter().map(|(_, it)| *it).collect::<Vec<_>>();
                let (asked, left) = rest.split_at(batch(&all, limit, MOST_NAMES));
                limit = NEXT;
                rest = left;
                let mut by_program: BTreeMap<&TestProgram, Vec<_>> = BTreeMap::new();
                for test in asked {
                    by_program.entry(test.1.program).or_default().push(*test);
                }
                for (program, tests) in by_program {
                    if self.fails(program, &tests, change)? {
                        return Ok(Outcome::Caught);
                    }
                }
            }
        }
        Ok(Outcome::Missed)
    }

    fn fails(
        &self,
        program: &TestProgram,
        tests: &[(usize, &Test<'_>)],
        change: &Change,
    ) -> anyhow::Result<bool> {
        let together: Duration = tests.iter().map(|(_, it)| it.took).sum();
        let mut command = command(program, PATIENCE + together * SLOWER, &self.variables);
        command.env("CHANGE_MADE", change.number.to_string());
        let names = tests.iter().map(|(_, it)| &it.name);
        // A file, since a process that a test left behind would hold a pipe open.
        let mut said = tempfile::tempfile()?;
        command.arg("--exact").args(names);
        command.stdout(said.try_clone()?).stderr(Stdio::null());
        if command.status()?.success() {
            return Ok(false);
        }
        said.rewind()?;
        let failed = Ran::read(&io::read_to_string(said)?).failed;
        let failed = tests.iter().filter(|(_, it)| failed.contains(&it.name));
        if let Ok(mut kept) = self.failed.lock() {
            let kept = kept.entry(change.file.clone()).or_default();
            for (index, _) in failed.take(KEPT) {
                kept.retain(|it| it != index);
                kept.insert(0, *index);
            }
            kept.truncate(KEPT);
        }
        Ok(true)
    }
}

/// How many of these tests take so long together: one at least.
fn batch(tests: &[&Test<'_>], limit: Duration, most: usize) -> usize {
    let mut together = Duration::ZERO;
    let fits = tests.iter().take_while(|it| {
        together += it.took;
        together <= limit
    });
    fits.take(most).count().max(1)
}

/// The names of the tests of a program. One that is no test program of the usual kind has none.
fn listed(program: &TestProgram) -> anyhow::Result<Vec<String>> {
    let Output { status, stdout, .. } = command(program, LONGEST, &[])
        .args(["--list", "--format", "terse"])
        .output()?;
    if !status.success() {
        return Ok(Vec::new());
    }
    let stdout = String::from_utf8_lossy(&stdout);
    let names = stdout.lines().filter_map(|it| it.strip_suffix(": test"));
    Ok(names.map(str::to_owned).collect())
}

/// The call of a test program, which ends with us, and at the limit.
fn command(
    program: &TestProgram,
    limit: Duration,
    variables: &[(&'static str, PathBuf)],
) -> Command {
    let mut command = Command::new("setpriv");
    command
        .current_dir(&program.folder)
        .stdin(Stdio::null())
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1")
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .env("RUST_BACKTRACE", "0")
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .args(["--pdeathsig", "TERM", "--"])
        .args(["timeout", "--kill-after", "2"])
        .arg(format!("{}", limit.as_secs_f64()))
        .arg(&program.path)
        .args(["--test-threads", "2"]);
    command
}

/// Does something with each of these, some at a time, in their order.
fn side_by_side<T: Sync, R: Send>(
    of: &[T],
    act: impl Fn(usize, &T) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(it) = of.get(index) else { return };
                    let result = act(index, it);
                    if let Ok(mut done) = done.lock() {
                        done.push((index, result));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().ok().context("a thread ended early")?;
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
