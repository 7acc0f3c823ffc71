//! Alerts and the dashboard, beside the metrics of the code and the pages that explain them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use serde_json::Value;

use super::{metrics, tree};
use crate::page::Page;

const ALERTS: &str = "deploy/alerts/connectors-approval.yaml";
const CASES: &str = "deploy/alerts/connectors-approval.test.yaml";
const DASHBOARD: &str = "deploy/dashboards/connectors-approval.json";

fn read(path: &str) -> String {
    fs::read_to_string(e2e::repository().join(path)).unwrap()
}

fn yaml(path: &str) -> Value {
    serde_yaml::from_str(&read(path)).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn alerts() -> Vec<Value> {
    let alerts = yaml(ALERTS);
    let groups = list(&alerts["groups"]).iter();
    groups.flat_map(|it| list(&it["rules"]).to_vec()).collect()
}

/// The words of a text that begin as metrics do.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|it: char| !it.is_ascii_alphanumeric() && it != '_');
    words.filter(|it| it.starts_with("connectors_")).collect()
}

/// The family that a series belongs to.
fn family(series: &str, families: &BTreeSet<String>) -> Option<String> {
    let parts = ["", "_bucket", "_sum", "_count"].iter();
    let mut whole = parts.filter_map(|part| series.strip_suffix(part));
    whole
        .find(|it| families.contains(*it))
        .map(ToOwned::to_owned)
}

fn families() -> BTreeSet<String> {
    let files = tree::files(&e2e::repository());
    let families = metrics::families(&files);
    families.iter().map(|it| it.name().to_owned()).collect()
}

/// The blocks of a page in this language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let begin = format!("```{language}\n");
    let blocks = page.split(&begin).skip(1);
    blocks.filter_map(|it| it.split("```").next()).collect()
}

#[test]
fn every_metric_that_is_asked_for_is_one_of_the_code() {
    let families = families();
    let mut asked = vec![
        (ALERTS, read(ALERTS)),
        (CASES, read(CASES)),
        (DASHBOARD, read(DASHBOARD)),
    ];
    let page = read("docs/operate.md");
    let questions = blocks(&page, "promql");
    assert!(questions.len() > 3, "{questions:?}");
    asked.push(("docs/operate.md", questions.join("\n")));
    for (path, text) in &asked {
        for series in named(text) {
            let known = family(series, &families);
            assert!(known.is_some(), "{path}: no metric `{series}`");
        }
    }
}

#[test]
fn the_dashboard_shows_every_metric() {
    let dashboard = read(DASHBOARD);
    let families = families();
    let shown = named(&dashboard).into_iter();
    let shown: BTreeSet<String> = shown.filter_map(|it| family(it, &families)).collect();
    let hidden: Vec<_> = families.difference(&shown).collect();
    assert!(hidden.is_empty(), "{DASHBOARD} does not show {hidden:?}");
}

#[test]
fn the_panels_of_the_dashboard_are_told_apart_and_do_not_overlap() {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let (mut ids, mut titles, mut cells) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for panel in list(&dashboard["panels"]) {
        let title = text(&panel["title"]);
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        assert!(titles.insert(title.to_owned()), "{title}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|it| panel["gridPos"][it].as_u64().unwrap());
        assert!(x + w <= 24, "{title}");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{title} lies over another panel");
        }
        if panel["type"] == "row" {
            continue;
        }
        assert!(text(&panel["description"]).ends_with('.'), "{title}");
        let targets = list(&panel["targets"]);
        assert!(!targets.is_empty(), "{title}");
        let references: BTreeSet<_> = targets.iter().map(|it| text(&it["refId"])).collect();
        assert_eq!(references.len(), targets.len(), "{title}");
        for target in targets {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
}

#[test]
fn every_alert_leads_to_its_section_and_every_section_has_its_alert() {
    let mut sections = BTreeMap::new();
    for alert in alerts() {
        let name = text(&alert["alert"]).to_owned();
        let annotations = &alert["annotations"];
        for field in ["summary", "description"] {
            assert!(text(&annotations[field]).ends_with('.'), "{name}: {field}");
        }
        let severity = text(&alert["labels"]["severity"]);
        assert!(
            ["critical", "warning", "info"].contains(&severity),
            "{name}"
        );
        let link = text(&annotations["runbook_url"]);
        let (path, anchor) = link.split_once('#').unwrap();
        let page = sections
            .entry(path.to_owned())
            .or_insert_with(|| (Page::of(path, &read(path)), BTreeSet::new()));
        assert!(
            page.0.anchors().iter().any(|it| it == anchor),
            "{name}: {link}"
        );
        assert_eq!(anchor, name.to_lowercase());
        page.1.insert(format!("### {name}"));
    }
    for (path, (_, alerts)) in sections {
        let page = read(&path);
        let headings = page.lines().filter(|it| it.starts_with("### Connectors"));
        let headings: BTreeSet<_> = headings.map(ToOwned::to_owned).collect();
        assert_eq!(headings, alerts, "{path}");
    }
}

/// `promtool` runs the cases: the part `api`.
#[test]
fn every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() {
    let cases = yaml(CASES);
    let (mut fires, mut rests) = (BTreeSet::new(), BTreeSet::new());
    for case in list(&cases["tests"]) {
        for wanted in list(&case["alert_rule_test"]) {
            let alert = text(&wanted["alertname"]).to_owned();
            let expected = list(&wanted["exp_alerts"]).is_empty();
            if expected { &mut rests } else { &mut fires }.insert(alert);
        }
    }
    let all: BTreeSet<_> = alerts()
        .iter()
        .map(|it| text(&it["alert"]).to_owned())
        .collect();
    assert_eq!(fires, all);
    assert_eq!(rests, all);
}

/// A chart holds no files from outside.
#[test]
fn the_charts_copies_are_the_files_of_deploy() {
    for path in [ALERTS, DASHBOARD] {
        let original = read(path);
        let copy = path.replace("deploy/", "charts/connectors-approval/files/");
        super::hold_file(&copy, &original);
    }
}
