//! One fault: its place, its effect, and the tests that have to detect it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, bail, ensure};

use super::fields::{self, Field};

pub(super) const FOLDER: &str = "crates/campaign/mutants";

/// A fault, as its file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// The name of its file.
    pub(super) name: String,
    /// The promise that it breaks: `I1` to `I9`.
    pub(super) breaks: String,
    /// The error, as a sentence.
    pub(super) says: String,
    /// Where it goes.
    pub(super) file: String,
    /// The text to replace. It must occur exactly once.
    pub(super) find: String,
    /// The new text.
    pub(super) replace: String,
    /// The package whose tests detect it.
    pub(super) package: String,
    /// The test program of its folder `tests` that has these tests; none where they are beside the code.
    pub(super) program: Option<String>,
    /// Full names of those tests. Each has to fail.
    pub(super) tests: Vec<String>,
    /// Whether the campaign detects it.
    pub(super) campaign: Campaign,
}

/// Whether the campaign detects a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Campaign {
    /// It finds it, planted together with these: guards of which each alone is enough.
    Finds {
        /// Names of other faults.
        with: Vec<String>,
    },
    /// It cannot find it, and why.
    Blind(String),
}

/// Every fault, in the order of the table.
pub(super) fn all(repository: &Path) -> anyhow::Result<Vec<Fault>> {
    let faults = in_folder(&repository.join(FOLDER))?;
    if let Some(unseen) = faults.iter().find(|it| it.tests.is_empty()) {
        bail!("{}: tests: none is named", unseen.name);
    }
    Ok(faults)
}

/// Every fault of a folder. Those that are tried with all tests name none.
pub(super) fn in_folder(folder: &Path) -> anyhow::Result<Vec<Fault>> {
    let mut faults = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_stem().and_then(|it| it.to_str());
        let name = name.with_context(|| format!("{}: no name for a fault", path.display()))?;
        ensure!(
            path.extension().is_some_and(|it| it == "toml"),
            "{}: not a fault",
            path.display()
        );
        let fault = Fault::read(name, &fs::read_to_string(&path)?);
        faults.push(fault.with_context(|| path.display().to_string())?);
    }
    faults.sort_by_cached_key(Fault::order);
    Ok(faults)
}

/// Where the tests of a fault are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place<'a> {
    pub(super) package: &'a str,
    /// None for the tests beside the code.
    pub(super) program: Option<&'a str>,
}

/// The tests that some faults name, by where they are.
pub(super) fn by_place<'a>(faults: &[&'a Fault]) -> BTreeMap<Place<'a>, BTreeSet<&'a str>> {
    let mut places: BTreeMap<Place<'_>, BTreeSet<&str>> = BTreeMap::new();
    for fault in faults {
        let tests = places.entry(fault.place()).or_default();
        tests.extend(fault.tests.iter().map(String::as_str));
    }
    places
}

impl Fault {
    pub(super) fn place(&self) -> Place<'_> {
        Place {
            package: &self.package,
            program: self.program.as_deref(),
        }
    }

    pub(super) fn read(name: &str, text: &str) -> anyhow::Result<Self> {
        let mut fields = fields::read(text)?;
        let mut take = |key: &str| {
            fields
                .remove(key)
                .with_context(|| format!("{key} is missing"))
        };
        let tests = match take("tests")? {
            Field::List(tests) => tests,
            Field::Text(_) => bail!("tests is no list"),
        };
        let with = take("with").ok();
        let unseen = take("unseen").ok();
        let program = match take("program").ok() {
            None => None,
            Some(Field::Text(program)) => Some(program),
            Some(Field::List(_)) => bail!("program is a list"),
        };
        let campaign = match (with, unseen) {
            (None, None) => Campaign::Finds { with: Vec::new() },
            (Some(Field::List(with)), None) => Campaign::Finds { with },
            (None, Some(Field::Text(why))) => Campaign::Blind(why),
            (Some(_), Some(_)) => bail!("with and unseen: one of them"),
            (Some(Field::Text(_)), None) => bail!("with is no list"),
            (None, Some(Field::List(_))) => bail!("unseen is a list"),
        };
        let mut text = |key: &str| match take(key)? {
            Field::Text(text) => Ok(text),
            Field::List(_) => bail!("{key} is a list"),
        };
        let fault = Self {
            name: name.to_owned(),
            breaks: text("breaks")?,
            says: text("says")?,
            file: text("file")?,
            find: text("find")?,
            replace: text("replace")?,
            package: text("package")?,
            program,
            tests,
            campaign,
        };
        if let Some(unknown) = fields.keys().next() {
            bail!("there is no field {unknown}");
        }
        fault.check()?;
        Ok(fault)
    }

    fn check(&self) -> anyhow::Result<()> {
        let Self {
            breaks,
            says,
            find,
            replace,
            campaign,
            ..
        } = self;
        let is_promise = matches!(breaks.as_bytes(), [b'I', b'1'..=b'9']);
        ensure!(is_promise, "breaks: {breaks} is none of I1 to I9");
        let is_sentence = !says.is_empty() && !says.contains(['|', '\n']);
        ensure!(is_sentence, "says: one line, which stands in a table");
        ensure!(
            !find.trim().is_empty() && find != replace,
            "find and replace: nothing would change"
        );
        if let Campaign::Blind(why) = campaign {
            let is_sentence = !why.is_empty() && !why.contains(['|', '\n']);
            ensure!(is_sentence, "unseen: one line, which stands in a table");
        }
        Ok(())
    }

    /// The table is read by promise.
    pub(super) fn order(&self) -> (String, String) {
        (self.breaks.clone(), self.name.clone())
    }

    /// The text of the file with the fault in it.
    pub(super) fn planted_in(&self, text: &str) -> anyhow::Result<String> {
        let found = text.matches(&self.find).count();
        ensure!(
            found == 1,
            "{}: the text stands {found} times in {}",
            self.name,
            self.file
        );
        Ok(text.replacen(&self.find, &self.replace, 1))
    }

    /// The reasons why the fault cannot be planted, or is not detected.
    pub(super) fn problems(&self, repository: &Path) -> anyhow::Result<Vec<String>> {
        let path = repository.join(&self.file);
        let Ok(text) = fs::read_to_string(&path) else {
            return Ok(vec![format!(
                "{}: there is no file {}",
                self.name, self.file
            )]);
        };
        let mut problems: Vec<_> = self
            .planted_in(&text)
            .err()
            .map(|it| it.to_string())
            .into_iter()
            .collect();
        let package = repository.join("crates").join(&self.package);
        let sources = match &self.program {
            None => sources(&package.join("src"))?,
            Some(program) => sources(&package.join("tests").join(program))?,
        };
        for test in &self.tests {
            let function = format!("fn {}(", test.rsplit("::").next().unwrap_or(test));
            if !sources.contains(&function) {
                problems.push(format!(
                    "{}: there is no test {test} in {}",
                    self.name, self.package
                ));
            }
        }
        Ok(problems)
    }
}

/// All Rust sources under a folder, one behind the other.
fn sources(folder: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            text.push_str(&sources(&path)?);
        } else if path.extension().is_some_and(|it| it == "rs") {
            text.push_str(&fs::read_to_string(&path)?);
        }
    }
    Ok(text)
}
