//! Planted situations: `explain` names the true cause of each, and what to type next. What it names is typed. The tables
//! are in docs/cli.md.

#![allow(
    clippy::semicolon_if_nothing_returned,
    clippy::too_many_lines,
    reason = "tables, whose cells plant something each"
)]

mod access;
mod chain;
mod checks;
mod codes;
mod content;
mod ended;
mod plant;
mod policies;
mod runs;
mod typed;
mod waits;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use connectors_api::lineage::LineageReason;
use serde_json::Value;
use testkit::Caller;

use crate::cluster::Cluster;
use crate::documents::page_has;
use codes::ReasonCode;
use typed::TypedEffect;

type Plant = fn(&Cluster);

/// A situation, and what is said about it.
struct Situation {
    /// What is wrong.
    what: &'static str,
    /// Plants it.
    plant: Plant,
    /// The state of the access.
    state: &'static str,
    /// A part of the sentence or of the tree that names the cause.
    cause: &'static str,
    /// A part of the next command; empty if no command helps.
    next: &'static str,
    /// A part of the advice, where no command helps.
    told: &'static str,
    /// The reasons that the output has.
    codes: Vec<ReasonCode>,
    /// What is typed to learn the cause, where that is not the pod.
    asked: Option<fn(&Cluster) -> Vec<String>>,
    /// The user, where that is no administrator.
    caller: Option<Caller>,
    /// The next command lists objects, and there are none.
    is_empty: bool,
}

fn row(
    what: &'static str,
    plant: Plant,
    state: &'static str,
    cause: &'static str,
    next: &'static str,
) -> Situation {
    Situation {
        what,
        plant,
        state,
        cause,
        next,
        told: "",
        codes: Vec::new(),
        asked: None,
        caller: None,
        is_empty: false,
    }
}

/// A proof that does not hold, and what is advised.
fn refused(
    reason: LineageReason,
    what: &'static str,
    plant: Plant,
    cause: &'static str,
    told: &'static str,
) -> Situation {
    row(what, plant, "Waits", cause, "").of(reason).told(told)
}

impl Situation {
    /// The output has this reason.
    fn of(mut self, code: impl Into<ReasonCode>) -> Self {
        self.codes.push(code.into());
        self
    }

    /// No command helps, but this advice.
    const fn told(mut self, told: &'static str) -> Self {
        self.told = told;
        self
    }

    /// The user asks in another way than about the pod.
    const fn asked(mut self, asked: fn(&Cluster) -> Vec<String>) -> Self {
        self.asked = Some(asked);
        self
    }

    fn asked_by(mut self, caller: Caller) -> Self {
        self.caller = Some(caller);
        self
    }

    /// The list that the next command shows is empty.
    const fn finding_nothing(mut self) -> Self {
        self.is_empty = true;
        self
    }

    /// What is typed, as the documentation shows it.
    fn next_cell(&self) -> String {
        match (self.next, self.told) {
            ("", "") => "nothing helps".to_owned(),
            ("", told) => told.to_owned(),
            (next, _) => format!("`{}`", next.trim_end_matches('-')),
        }
    }
}

/// Situations that begin in the same cluster.
struct SituationTheme {
    title: &'static str,
    cluster: fn() -> Cluster,
    pod: &'static str,
    rows: Vec<Situation>,
}

fn themes() -> Vec<SituationTheme> {
    let of_change = |title, rows| SituationTheme {
        title,
        cluster: Cluster::waiting,
        pod: "pod/build-1",
        rows,
    };
    let of_run = |title, rows| SituationTheme {
        title,
        cluster: Cluster::with_run,
        pod: "pod/run-deploy-pod",
        rows,
    };
    vec![
        of_change("Access and connectors", access::rows()),
        of_change("Policies", policies::rows()),
        of_change("Checks and their objects", checks::rows()),
        of_change("Waits for something else", waits::rows()),
        of_change("Decided requests", ended::rows()),
        of_run("Approvals of pipeline runs", runs::rows()),
        of_run("Pipeline runs and their children", chain::rows()),
        of_run("What runs and approvals contain", content::rows()),
    ]
}

impl SituationTheme {
    fn planted(&self, situation: &Situation) -> Cluster {
        let cluster = (self.cluster)();
        plant::installation(&cluster);
        (situation.plant)(&cluster);
        cluster
    }

    fn question(&self, situation: &Situation, cluster: &Cluster) -> Vec<String> {
        let of_pod = || ["explain", self.pod, "-n", "team-a"].map(str::to_owned);
        let asked = situation.asked.map(|asked| asked(cluster));
        asked.unwrap_or_else(|| of_pod().to_vec())
    }

    /// The output for people, and for programs.
    async fn explained(&self, situation: &Situation, cluster: &Cluster) -> (String, Value) {
        let caller = situation.caller.clone().unwrap_or_else(Caller::admin);
        let asked = self.question(situation, cluster);
        let mut args: Vec<_> = asked.iter().map(String::as_str).collect();
        let text = cluster.run_as(&caller, &args).await;
        args.extend(["-o", "json"]);
        let json = cluster.run_as(&caller, &args).await;
        let said = text.output + &text.errors;
        let json = serde_json::from_str(&json.output);
        (said, json.unwrap_or_default())
    }

    /// Plants a situation, asks, and types what is named next. Returns the output for programs.
    async fn look(&self, situation: &Situation) -> Result<Value, String> {
        let cluster = self.planted(situation);
        let (said, explained) = self.explained(situation, &cluster).await;
        let wrong = |why: String| Err(format!("{}: {why}:\n{said}", situation.what));
        let access = &explained["accesses"][0];
        if access["state"] != *situation.state {
            return wrong(format!("not {}", situation.state));
        }
        if !said.contains(situation.cause) {
            return wrong(format!("no `{}`", situation.cause));
        }
        if let Some(code) = situation.codes.iter().find(|it| !it.is_in(access)) {
            return wrong(format!("no reason {code:?}"));
        }
        let steps = access["next"].as_array();
        let steps: Vec<_> = steps.into_iter().flatten().collect();
        let commands: Vec<_> = steps
            .iter()
            .filter_map(|it| it["command"].as_str())
            .collect();
        let mut effects = steps.iter().filter_map(|it| it["effect"].as_str());
        let is_told = if situation.next.is_empty() {
            commands.is_empty() && effects.any(|it| it.contains(situation.told))
        } else {
            commands.iter().any(|it| it.contains(situation.next))
        };
        if !is_told {
            let next = situation.next_cell();
            return wrong(format!("no next {next} in {steps:?}"));
        }
        let mut is_empty = false;
        for step in steps.iter().filter(|it| it["command"].is_string()) {
            match self.typed(situation, step).await {
                Ok(effect) => is_empty |= effect == TypedEffect::ShowsNothing,
                Err(why) => return wrong(format!("{step}: {why}")),
            }
        }
        if is_empty != situation.is_empty {
            return wrong(format!("that a command finds nothing is {is_empty}"));
        }
        Ok(explained)
    }

    /// Types a next command. One that changes something also changes the explanation.
    async fn typed(&self, situation: &Situation, step: &Value) -> Result<TypedEffect, String> {
        let cluster = self.planted(situation);
        let (_, before) = self.explained(situation, &cluster).await;
        let command = step["command"].as_str().unwrap_or_default();
        let who = step["who"].as_str().unwrap_or_default();
        let effect = typed::carry_out(&cluster, command, who).await?;
        if effect == TypedEffect::Changes {
            let (said, after) = self.explained(situation, &cluster).await;
            if after["accesses"] == before["accesses"] {
                return Err(format!("it changes nothing: {said}"));
            }
        }
        Ok(effect)
    }
}

#[tokio::test]
async fn explain_names_the_cause_of_every_planted_situation_and_what_to_type() {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for theme in themes() {
        for situation in &theme.rows {
            match theme.look(situation).await {
                Ok(explained) => seen.extend(codes::words_of_states(&explained)),
                Err(problem) => problems.push(problem),
            }
        }
    }
    problems.extend(codes::unseen_states(&seen));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_reason_that_explain_can_show_has_a_situation() {
    let themes = themes();
    let rows = themes.iter().flat_map(|it| &it.rows);
    let planted: BTreeSet<_> = rows.flat_map(|it| it.codes.iter().copied()).collect();
    let problems = codes::unplanted(&planted);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// `UPDATE_DOCS` writes the tables.
#[test]
fn the_tables_of_the_documentation_are_those_of_the_planted_situations() {
    let mut tables = String::new();
    for SituationTheme { title, rows, .. } in themes() {
        write!(
            tables,
            "### {title}\n| situation | reason | `explain` says | what to type |\n|---|---|---|---|\n"
        )
        .unwrap();
        for it in rows {
            let mut codes: Vec<_> = it.codes.iter().map(|it| format!("`{}`", it.word)).collect();
            codes.dedup();
            writeln!(
                tables,
                "| {} | {} | {}: {} | {} |",
                it.what,
                codes.join(", "),
                it.state,
                it.cause,
                it.next_cell()
            )
            .unwrap();
        }
        tables.push('\n');
    }
    page_has("situations", &tables);
}
