//! Every change of an operator, a condition or a result that `cargo mutants` knows. All of them are compiled into one
//! program, each behind a switch, so that trying one takes the time of the tests that reach it and no build.

mod ask;
mod constants;
mod listed;
mod program;
mod sites;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Instant,
};

use self::{ask::Outcome, listed::Change};
use super::{copy::Copy, seconds, trial};

/// Progress is told after so many changes.
const TOLD: usize = 250;
/// The word of a change that makes a test fail.
const CAUGHT: &str = "caught";

/// Which changes are tried.
pub(super) struct Wanted<'a> {
    /// Those of these packages; of all, if none is named.
    pub(super) packages: &'a [String],
    /// Only those that were not caught the last time.
    pub(super) again: bool,
}

/// How many changes of a package came to what.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Count {
    listed: usize,
    broken: usize,
    left_out: usize,
    tried: usize,
    missed: usize,
    unreached: usize,
}

/// Tries each change. The results are kept, a file for each package.
pub(super) fn try_all(wanted: &Wanted<'_>) -> anyhow::Result<()> {
    let copy = Copy::refreshed()?;
    let files = chosen(listed::all(copy.root())?, wanted.packages)?;
    let all = || files.values().flatten();
    let packages: BTreeSet<&str> = all().map(|it| it.package.as_str()).collect();
    let folder = e2e::cache_dir().join("mutants/changes");
    fs::create_dir_all(&folder)?;
    let caught = if wanted.again {
        CaughtBefore::read(&folder, &packages)?
    } else {
        CaughtBefore::default()
    };
    let built = program::built(&copy, &files, &packages)?;
    let reach = ask::reach(&built.programs, trial::variables()?)?;

    let tried: Vec<&Change> = all()
        .filter(|it| !built.broken.contains(&it.number) && !built.left_out.contains(&it.number))
        .collect();
    let (known, asked): (Vec<&Change>, Vec<&Change>) =
        tried.iter().partition(|it| caught.has(&it.name));
    let began = Instant::now();
    let results = Mutex::new(Results {
        outcomes: vec![None; asked.len()],
        done: 0,
    });
    reach.ask(&asked, |index, outcome| {
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        results.done += 1;
        if let Some(place) = results.outcomes.get_mut(index) {
            *place = Some(outcome);
        }
        if results.done.is_multiple_of(TOLD) {
            // What was found stays when the run is ended: `--again` goes on with the rest.
            write(&folder, &known, &asked, &results.outcomes)?;
            let (done, of) = (results.done, asked.len());
            println!("{done} of {of} changes ({} s)", seconds(began));
        }
        Ok(())
    })?;
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    write(&folder, &known, &asked, &results.outcomes)?;

    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    for change in all() {
        let count = counts.entry(&change.package).or_default();
        count.listed += 1;
        count.broken += usize::from(built.broken.contains(&change.number));
        count.left_out += usize::from(built.left_out.contains(&change.number));
    }
    for change in &tried {
        counts.entry(&change.package).or_default().tried += 1;
    }
    for (change, outcome) in asked.iter().zip(&results.outcomes) {
        let count = counts.entry(&change.package).or_default();
        match outcome {
            Some(Outcome::Caught) => {}
            Some(Outcome::Unreached) => count.unreached += 1,
            Some(Outcome::Missed) | None => count.missed += 1,
        }
    }
    println!(
        "\n{}\neach result stands in {}",
        table(&counts),
        folder.display()
    );
    Ok(())
}

/// What became of the changes so far.
struct Results {
    outcomes: Vec<Option<Outcome>>,
    done: usize,
}

/// Writes what became of each change into a file of its package.
fn write(
    folder: &Path,
    known: &[&Change],
    asked: &[&Change],
    outcomes: &[Option<Outcome>],
) -> io::Result<()> {
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    let known = known.iter().map(|it| (it, CAUGHT));
    let asked = asked.iter().zip(outcomes).map(|(change, outcome)| {
        let word = match outcome {
            Some(Outcome::Caught) => CAUGHT,
            Some(Outcome::Missed) => "missed",
            Some(Outcome::Unreached) => "not reached",
            None => "not tried",
        };
        (change, word)
    });
    for (change, word) in known.chain(asked) {
        let lines = files.entry(&change.package).or_default();
        lines.extend([word, "\t", &change.name, "\n"]);
    }
    for (package, lines) in files {
        fs::write(file(folder, package), lines)?;
    }
    Ok(())
}

/// What was caught the last time. Changes are known without their places, which other changes of a file move.
#[derive(Debug, Default)]
struct CaughtBefore {
    caught: HashSet<String>,
    /// What is new since then is in neither.
    left: HashSet<String>,
}

impl CaughtBefore {
    fn read(folder: &Path, packages: &BTreeSet<&str>) -> io::Result<Self> {
        let mut before = Self::default();
        for package in packages {
            let path = file(folder, package);
            let results = match fs::read_to_string(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let told = format!(
                        "{} is not there: run it without --again first",
                        path.display()
                    );
                    return Err(io::Error::new(error.kind(), told));
                }
                other => other?,
            };
            for (word, name) in results.lines().filter_map(|it| it.split_once('\t')) {
                let of = if word == CAUGHT {
                    &mut before.caught
                } else {
                    &mut before.left
                };
                of.insert(place_free(name));
            }
        }
        Ok(before)
    }

    /// Of several changes that differ in their places alone, each was caught.
    fn has(&self, name: &str) -> bool {
        let name = place_free(name);
        self.caught.contains(&name) && !self.left.contains(&name)
    }
}

/// The changes of the packages that are named.
fn chosen(
    mut files: BTreeMap<String, Vec<Change>>,
    named: &[String],
) -> anyhow::Result<BTreeMap<String, Vec<Change>>> {
    let known = files.values().flatten().map(|it| it.package.as_str());
    let known: BTreeSet<&str> = known.collect();
    if let Some(unknown) = named.iter().find(|it| !known.contains(it.as_str())) {
        let known: Vec<_> = known.into_iter().collect();
        anyhow::bail!(
            "there is no change in {unknown}; there are some in {}",
            known.join(", ")
        );
    }
    files.retain(|_, changes| {
        named.is_empty() || changes.iter().any(|it| named.contains(&it.package))
    });
    Ok(files)
}

fn file(folder: &Path, package: &str) -> PathBuf {
    folder.join(format!("{package}.txt"))
}

/// The name of a change without line and column.
fn place_free(name: &str) -> String {
    let mut parts = name.splitn(4, ':');
    match (parts.next(), parts.nth(2)) {
        (Some(file), Some(what)) => format!("{file}:{what}"),
        _ => name.to_owned(),
    }
}

fn table(counts: &BTreeMap<&str, Count>) -> String {
    let mut rows = vec![
        "| package | changes | do not compile | cannot be switched | tried | caught | not reached | rate |"
            .to_owned(),
        "|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    let mut all = Count::default();
    for (package, count) in counts {
        all.listed += count.listed;
        all.broken += count.broken;
        all.left_out += count.left_out;
        all.tried += count.tried;
        all.missed += count.missed;
        all.unreached += count.unreached;
        rows.push(row(package, count));
    }
    rows.push(row("all", &all));
    rows.join("\n")
}

fn row(package: &str, count: &Count) -> String {
    let Count {
        listed,
        broken,
        left_out,
        tried,
        missed,
        unreached,
    } = count;
    let caught = tried.saturating_sub(missed + unreached);
    let rate = (caught * 1000)
        .checked_div(*tried)
        .map_or_else(String::new, |it| format!("{}.{} %", it / 10, it % 10));
    format!(
        "| {package} | {listed} | {broken} | {left_out} | {tried} | {caught} | {unreached} | {rate} |"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_rate_of_what_was_tried() {
        let count = Count {
            listed: 10,
            broken: 2,
            left_out: 1,
            tried: 7,
            missed: 1,
            unreached: 1,
        };
        let expected = "| door | 10 | 2 | 1 | 7 | 5 | 1 | 71.4 % |";
        assert_eq!(row("door", &count), expected);
        let nothing = "| door | 0 | 0 | 0 | 0 | 0 | 0 |  |";
        assert_eq!(row("door", &Count::default()), nothing);
        let both = table(&BTreeMap::from([("a", count.clone()), ("b", count)]));
        let sum = "| all | 20 | 4 | 2 | 14 | 10 | 2 | 71.4 % |";
        assert_eq!(both.lines().last(), Some(sum));
    }

    #[test]
    fn what_was_caught_is_known_where_it_has_moved_to_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let read = || CaughtBefore::read(folder.path(), &BTreeSet::from(["door"]));
        let told = read().unwrap_err().to_string();
        assert!(told.ends_with("run it without --again first"), "{told}");
        let change = |number: u32, name: &str| Change {
            number,
            name: name.to_owned(),
            package: "door".to_owned(),
            file: "door.rs".to_owned(),
            genre: listed::Genre::UnaryOperator,
            replacement: String::new(),
            start: listed::Place { line: 1, column: 1 },
        };
        let names = [
            "door.rs:7:5: a",
            "door.rs:8:5: b",
            "door.rs:9:5: c",
            "door.rs:9:6: c",
            "door.rs:9:7: d",
            "door.rs:9:8: e",
        ];
        let changes: Vec<_> = (1..)
            .zip(names)
            .map(|(it, name)| change(it, name))
            .collect();
        let all: Vec<_> = changes.iter().collect();
        let (known, asked) = all.split_at(1);
        let outcomes = [
            Some(Outcome::Caught),
            Some(Outcome::Caught),
            Some(Outcome::Missed),
            Some(Outcome::Unreached),
            None,
        ];
        write(folder.path(), known, asked, &outcomes).unwrap();
        let before = read().unwrap();
        let caught = ["a", "b", "c", "d", "e", "new"]
            .into_iter()
            .filter(|it| before.has(&format!("door.rs:1:1: {it}")));
        assert_eq!(caught.collect::<Vec<_>>(), ["a", "b"]);
        assert!(!before.has("gate.rs:7:5: a"));
    }
}
