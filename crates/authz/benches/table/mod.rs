//! Figures as rows of a Markdown table, with their limits.

use std::process::ExitCode;

/// Collects the figures and lists those that missed a limit at the end.
#[derive(Debug, Default)]
pub(crate) struct Table {
    missed: Vec<String>,
}

impl Table {
    /// A figure without a limit.
    #[allow(
        clippy::unused_self,
        reason = "rows belong to the table that they stand in"
    )]
    pub(crate) fn figure(&mut self, what: &str, value: f64, unit: &str) {
        println!("| {what} | {} | | |", amount(value, unit));
    }

    /// A figure with an upper limit: above `must` it fails; `aim` is the ideal.
    pub(crate) fn at_most(&mut self, what: &str, value: f64, unit: &str, must: f64, aim: f64) {
        let mark = if value > must {
            self.missed.push(what.to_owned());
            "✘"
        } else if value > aim {
            "✔"
        } else {
            "✔✔"
        };
        let (value, must, aim) = (amount(value, unit), amount(must, unit), amount(aim, unit));
        println!("| {what} | {value} {mark} | {must} | {aim} |");
    }

    /// A figure with a lower limit: below `must` it fails; `aim` is the ideal.
    #[allow(dead_code, reason = "not every table has such figures")]
    pub(crate) fn at_least(&mut self, what: &str, value: f64, unit: &str, must: f64, aim: f64) {
        let mark = if value < must {
            self.missed.push(what.to_owned());
            "✘"
        } else if value < aim {
            "✔"
        } else {
            "✔✔"
        };
        let (value, must, aim) = (amount(value, unit), amount(must, unit), amount(aim, unit));
        println!("| {what} | {value} {mark} | {must} | {aim} |");
    }

    /// Fails when a limit was missed.
    #[must_use]
    pub(crate) fn end(self) -> ExitCode {
        for what in &self.missed {
            eprintln!("missed: {what}");
        }
        if self.missed.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

fn amount(value: f64, unit: &str) -> String {
    let digits = usize::from(value < 10.0 && value.fract() != 0.0);
    format!("{value:.digits$} {unit}").trim_end().to_owned()
}
