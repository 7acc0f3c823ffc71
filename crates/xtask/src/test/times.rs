//! The allowed minutes of a complete run, and those in the documents, part by part.

use std::fs;

use anyhow::Context;
use xtask_launcher::Store;

/// Minutes of a complete run on two processors, from a fresh clone.
pub(crate) const WHOLE: Budget = Budget::of(30.0, 55.0);

/// From here on a run is so much slower than the documents say that one of the two is wrong.
const FAR: f64 = 1.5;
/// Differences of less than this many minutes say nothing.
const NOISE: f64 = 0.5;

/// Minutes, with the dependencies and tools of an earlier run, and without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Budget {
    warm: f64,
    cold: f64,
}

impl Budget {
    pub(crate) const fn of(warm: f64, cold: f64) -> Self {
        Self { warm, cold }
    }

    pub(crate) fn minutes(self, caches: Caches) -> f64 {
        match caches {
            Caches::Warm => self.warm,
            Caches::Cold => self.cold,
        }
    }
}

/// The caches that existed when a run began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caches {
    /// Compiled dependencies and tools.
    Warm,
    /// Not all of them.
    Cold,
}

impl Caches {
    pub(crate) fn found() -> anyhow::Result<Self> {
        let tools = e2e::cache_dir().join("tools").is_dir();
        let compiled = Store::of_this_machine().has(&e2e::repository())?;
        Ok(if tools && compiled {
            Self::Warm
        } else {
            Self::Cold
        })
    }

    fn words(self) -> &'static str {
        match self {
            Self::Warm => "with dependencies and tools at hand",
            Self::Cold => "with nothing at hand",
        }
    }
}

/// The lines that end a complete run, and whether the whole was within its budget.
pub(crate) fn verdict(took: f64, caches: Caches) -> (String, bool) {
    let budget = WHOLE.minutes(caches);
    let within = took <= budget;
    let verdict = if within {
        "within its budget"
    } else {
        "✘ OVER its budget"
    };
    let words = caches.words();
    let line = format!("{took:.1} min {words}, {verdict} of {budget:.0} min");
    (line, within)
}

/// The minutes in the documents: of each part, and of the whole, as `docs/development.md` has them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Documented {
    rows: Vec<(String, Budget)>,
}

impl Documented {
    pub(crate) fn read() -> anyhow::Result<Self> {
        let path = e2e::repository().join("docs/development.md");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Self::of(&text).with_context(|| path.display().to_string())
    }

    /// The rows of the table between its marks: `| part | warm | cold | budget, warm | budget, cold |`.
    fn of(text: &str) -> anyhow::Result<Self> {
        let (_, table) = text
            .split_once("<!-- times: begin -->")
            .context("there is no `<!-- times: begin -->`")?;
        let (table, _) = table
            .split_once("<!-- times: end -->")
            .context("there is no `<!-- times: end -->`")?;
        let rows = table.lines().filter(|line| line.starts_with("| "));
        let rows = rows.skip(1).map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, part, warm, cold, ..] = cells[..] else {
                anyhow::bail!("`{line}` has too few columns");
            };
            let minutes = |cell: &str| -> anyhow::Result<f64> {
                cell.parse().with_context(|| format!("`{line}`: {cell}"))
            };
            Ok((part.to_owned(), Budget::of(minutes(warm)?, minutes(cold)?)))
        });
        Ok(Self {
            rows: rows.collect::<anyhow::Result<_>>()?,
        })
    }

    /// A warning when a part took much longer than its row says.
    pub(crate) fn compare(&self, part: &str, took: f64, caches: Caches) -> Option<String> {
        let (_, documented) = self.rows.iter().find(|(name, _)| name == part)?;
        let documented = documented.minutes(caches);
        (took > documented * FAR && took > documented + NOISE).then(|| {
            format!(
                "warning: {part} took {took:.1} min, docs/development.md says {documented:.1}: find out why, or mend the table"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::test::parts::Part;

    #[test]
    fn the_table_has_each_part_with_its_budget_and_the_whole() {
        let text = fs::read_to_string(e2e::repository().join("docs/development.md")).unwrap();
        let documented = Documented::of(&text).unwrap();
        let names: Vec<&str> = documented.rows.iter().map(|(name, _)| &**name).collect();
        let all = || {
            let parts = Part::value_variants().iter();
            parts.filter(|part| part.is_in_every_run())
        };
        let parts = all().map(ToString::to_string);
        let rows: Vec<String> = parts.chain(["whole".to_owned()]).collect();
        assert_eq!(names, rows);
        for part in all() {
            let Budget { warm, cold } = part.budget();
            let row = text
                .lines()
                .find(|line| line.starts_with(&format!("| {part} |")))
                .unwrap();
            assert!(row.ends_with(&format!("| {warm} | {cold} |")), "{row}");
        }
        let Budget { warm, cold } = WHOLE;
        assert!(text.contains(&format!("| {warm} | {cold} |\n<!-- times: end -->")));
    }

    /// The README gives its readers the same numbers.
    #[test]
    fn the_readme_says_what_the_table_says() {
        let documented = Documented::read().unwrap();
        let (_, whole) = documented.rows.last().unwrap();
        let readme = fs::read_to_string(e2e::repository().join("README.md")).unwrap();
        let wanted = format!(
            "{:.0} minutes on two processors when dependencies and tools are cached, {:.0} with nothing cached",
            whole.warm, whole.cold
        );
        let words: Vec<&str> = readme.split_whitespace().collect();
        assert!(words.join(" ").contains(&wanted), "{wanted}");
    }

    /// The launcher knows the cache directory without the crate that owns it.
    #[test]
    fn the_store_is_in_the_cache_directory() {
        let store = Store::of_this_machine();
        assert_eq!(store.root(), e2e::cache_dir().join("compiled"));
    }

    #[test]
    fn what_takes_half_as_long_again_is_told_and_noise_is_not() {
        let table = "<!-- times: begin -->\n| part | warm | cold | a | b |\n|---|---|---|---|---|\n\
            | unit | 2.0 | 4.0 | 3 | 5 |\n| fmt | 0.1 | 0.1 | 1 | 1 |\n<!-- times: end -->";
        let documented = Documented::of(table).unwrap();
        let compare = |part, took| documented.compare(part, took, Caches::Warm).is_some();
        assert!(!compare("unit", 3.0));
        assert!(compare("unit", 3.1));
        assert!(documented.compare("unit", 3.1, Caches::Cold).is_none());
        assert!(!compare("fmt", 0.5), "half a minute is noise");
        assert!(!compare("other", 60.0), "a part without a row");
    }

    #[test]
    fn a_table_that_cannot_be_read_is_an_error_and_not_a_silence() {
        for text in [
            "",
            "<!-- times: begin -->",
            "<!-- times: begin -->\n| part |\n| unit | soon | later |\n<!-- times: end -->",
            "<!-- times: begin -->\n| part |\n| unit |\n<!-- times: end -->",
        ] {
            assert!(Documented::of(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_run_is_within_its_budget_or_says_that_it_is_not() {
        assert!(verdict(30.0, Caches::Warm).1);
        let (line, within) = verdict(30.1, Caches::Warm);
        assert!(!within && line.contains("OVER"), "{line}");
        assert!(verdict(54.0, Caches::Cold).1);
    }
}
