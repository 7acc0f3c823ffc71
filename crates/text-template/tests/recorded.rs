//! The cases, compared with the recorded answers of Go's program. To add a case, add it to a file of its
//! topic in `tests/cases`, and run `UPDATE_RECORDED=1 cargo xtask test templates`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[path = "common/cases.rs"]
mod cases;

use std::{collections::BTreeMap, fs};

use cases::{Answer, MISSING, compare, data, recorded, topics};
use serde_json::Value;

#[test]
fn every_case_is_rendered_as_go_rendered_it_or_refused() {
    let data = data();
    let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
    let mut cases_seen = 0;
    for (topic, cases) in topics() {
        let text = fs::read_to_string(recorded(&topic)).unwrap();
        let lines = text
            .lines()
            .map(|it| serde_json::from_str::<Value>(it).unwrap());
        let answers: BTreeMap<(String, String), Answer> = lines
            .map(|it| {
                let key = ["case", "missing"].map(|key| it[key].as_str().unwrap().to_owned());
                (key.into(), Answer::of(&it))
            })
            .collect();
        for case in &cases {
            cases_seen += 1;
            let usual = answers.get(&(case.clone(), MISSING[0].0.to_owned()));
            let usual = usual.unwrap_or_else(|| panic!("{topic} has no answer about {case:?}"));
            for (name, missing) in MISSING {
                let go = answers
                    .get(&(case.clone(), name.to_owned()))
                    .unwrap_or(usual);
                let class = compare(case, &data, missing, go).unwrap_or_else(|it| panic!("{it}"));
                *refused.entry(class.unwrap_or("nothing")).or_default() += 1;
            }
        }
    }
    assert!(cases_seen >= 600, "{cases_seen}");
    // Output that is refused and that Go renders: every class has cases, and a refusal that is new is looked at. Who
    // adds such a case counts it here, in each meaning of a missing key.
    refused.remove("nothing");
    let classes: Vec<(&str, usize)> = refused.into_iter().collect();
    let expected = [
        ("a JSON text", 12),
        ("a change to a dictionary", 9),
        ("a function that is left out", 21),
        ("a method of a time", 6),
        ("a regular expression", 39),
        ("a slice beyond its list", 12),
        ("a time zone", 27),
        ("a value that is not UTF-8", 9),
        ("a verb of printf", 18),
        ("complex numbers", 6),
        ("strings that are not UTF-8", 3),
        ("the clock", 39),
        ("what is not in the encoding", 63),
    ];
    assert_eq!(classes, expected);
}
