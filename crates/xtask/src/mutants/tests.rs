use std::collections::BTreeMap;

use jiff::civil::date;

use super::{
    choice,
    fault::{self, Fault},
    fields::{self, Field},
    table::{self, CAUGHT, FOUND, Row},
    trial::{Outcome, Ran},
};

/// A fault that no longer changes the code, or that no test detects, would prove nothing.
#[test]
fn every_fault_can_be_planted_and_has_its_row_in_the_documentation() {
    let all = fault::all(&e2e::repository()).unwrap();
    assert!(all.len() >= 30, "{}", all.len());
    super::planted(&all).unwrap();
}

#[test]
fn texts_and_lists_are_read_as_toml_has_them() {
    let text = "# a note\na = \"one\"\nb = 'with \\ and \"'\n\nc = '''\n  two\nlines\n'''\nd = ['x', \"y\",\n]\ne = []\n";
    let list = |texts: &[&str]| Field::List(texts.iter().map(|it| (*it).to_owned()).collect());
    let expected = [
        ("a", Field::Text("one".to_owned())),
        ("b", Field::Text("with \\ and \"".to_owned())),
        ("c", Field::Text("  two\nlines\n".to_owned())),
        ("d", list(&["x", "y"])),
        ("e", list(&[])),
    ];
    let expected = expected.map(|(key, field)| (key.to_owned(), field));
    assert_eq!(fields::read(text).unwrap(), BTreeMap::from(expected));
}

#[test]
fn what_could_mean_something_else_in_toml_is_refused() {
    for text in [
        "a",
        "a = 1",
        "a = \"\\n\"",
        "a = \"x",
        "a = '''x",
        "a = 'x\n'",
        "a = 'x' # note",
        "a = 'x'\na = 'y'",
        "a.b = 'x'",
        "[a]\nb = 'x'",
        "a = ['x' 'y']",
        "a = ['x'",
        "a = [1]",
    ] {
        assert!(fields::read(text).is_err(), "{text}");
    }
}

const FAULT: &str = "breaks = 'I1'\nsays = 'It is wrong.'\nfile = 'f'\nfind = 'a'\nreplace = 'b'\npackage = 'p'\ntests = ['x::t']\n";

fn fault(name: &str) -> Fault {
    Fault::read(name, FAULT).unwrap()
}

#[test]
fn faults_of_the_repository_name_their_tests_and_those_of_other_folders_need_not() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(fault::FOLDER);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("blind.toml"), FAULT.replace("['x::t']", "[]")).unwrap();
    assert_eq!(fault::in_folder(&folder).unwrap().len(), 1);
    let error = fault::all(root.path()).unwrap_err();
    assert_eq!(error.to_string(), "blind: tests: none is named");
}

#[test]
fn what_failed_is_read_from_what_the_runner_says() {
    let ran = Ran::read("running 2 tests\ntest a::b ... ok\ntest a::c ... FAILED\n");
    assert_eq!(ran.failed, ["a::c".to_owned()].into());
    let quoting = "running 1 test\ntest a ... FAILED\n\nfailures:\nrunning 1 test\ntest b ... ok\ntest result: FAILED.\nrunning 2 tests\ntest c ... ok\n";
    let ran = Ran::read(quoting);
    assert_eq!((ran.begun, ran.passed), (3, ["c".to_owned()].into()));
}

#[test]
fn a_fault_that_says_too_little_or_too_much_is_refused() {
    fault("good");
    for (from, to) in [
        ("'I1'", "'I10'"),
        ("'It is wrong.'", "'a | b'"),
        ("replace = 'b'", "replace = 'a'"),
        ("['x::t']", "'x::t'"),
        ("file = 'f'\n", ""),
        ("file = 'f'\n", "file = 'f'\nfiel = 'f'\n"),
        ("file = 'f'\n", "file = 'f'\nwith = 'x'\n"),
        ("file = 'f'\n", "file = 'f'\nunseen = ''\n"),
        ("file = 'f'\n", "file = 'f'\nwith = ['x']\nunseen = 'y'\n"),
    ] {
        assert!(
            Fault::read("bad", &FAULT.replace(from, to)).is_err(),
            "{to}"
        );
    }
}

#[test]
fn a_fault_goes_where_its_text_stands_exactly_once() {
    assert_eq!(fault("f").planted_in("xay").unwrap(), "xby");
    for text in ["xy", "axa"] {
        assert!(fault("f").planted_in(text).is_err(), "{text}");
    }
}

#[test]
fn only_a_test_that_says_ok_has_passed() {
    let ran = Ran::read(
        "running 3 tests\ntest a::b ... ok\ntest c ... FAILED\ntest result: FAILED. 1 passed\n",
    );
    assert_eq!((ran.begun, ran.passed), (3, ["a::b".to_owned()].into()));
}

#[test]
fn rows_of_what_was_tried_are_replaced_and_all_others_stay() {
    let all = [fault("a"), fault("b"), fault("c")];
    let text = "before\n<!-- planted faults: written by `cargo xtask mutants --write` -->\n| `a` | old |\n\
                | `b` | old |\n| `c` | old |\n| `gone` | old |\n<!-- planted faults: end -->\nafter";
    let row = |index: usize, outcome| Row {
        fault: &all[index],
        outcome,
        seconds: 3,
        tried: date(2026, 3, 1),
    };
    let tried = [
        row(1, Outcome::Caught),
        row(2, Outcome::Survived(vec!["x::t".to_owned()])),
    ];
    let tried = tried.iter().map(|row| {
        let line = row.outcome.is_caught().then(|| row.to_string());
        (row.fault.name.as_str(), line)
    });
    let after = CAUGHT.with(text, &tried.collect(), &all).unwrap();
    let wanted = "-->\n| fault | breaks | what is wrong | caught by | seconds | tried |\n|---|---|---|---|---|---|\n| `a` | old |\n\
                  | `b` | I1 | It is wrong. | p `x::t` | 3 | 2026-03-01 |\n<!-- planted";
    assert!(
        after.contains(wanted) && after.starts_with("before") && after.ends_with("after"),
        "{after}"
    );
    let problems = CAUGHT.problems(&after, all.iter(), table::caught);
    assert_eq!(
        problems.len(),
        2,
        "`a` is old and `c` is not there: {problems:?}"
    );
}

#[test]
fn the_oldest_faults_are_those_without_a_day_and_then_those_of_the_earliest_days() {
    let all = [fault("a"), fault("b"), fault("c"), fault("d")];
    let row = |name: &str, day: &str| {
        format!("| `{name}` | I1 | It is wrong. | p `x::t` | 3 | {day} |\n")
    };
    let rows = [("a", "2026-03-02"), ("b", "3"), ("d", "2026-02-28")];
    let rows: String = rows.iter().map(|(name, day)| row(name, day)).collect();
    let text = format!("{}\n{rows}{}", CAUGHT.begin, CAUGHT.end);
    let days = CAUGHT.days(&text);
    for (count, expected) in [
        (0, &[][..]),
        (2, &["b", "c"]),
        (3, &["b", "c", "d"]),
        (9, &["b", "c", "d", "a"]),
    ] {
        let chosen = choice::by_age(&all, &days, count).into_iter();
        let names: Vec<_> = chosen.map(|it| it.name.as_str()).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn what_the_campaign_says_is_what_the_file_of_the_fault_says() {
    let read = |more: &str| Fault::read("a", &format!("{FAULT}{more}")).unwrap();
    let (plain, two, blind) = (
        read(""),
        read("with = ['b']\n"),
        read("unseen = 'It has no clock.'\n"),
    );
    let text = |row: &str| format!("{}\n{row}\n{}", FOUND.begin, FOUND.end);
    for (fault, row, holds) in [
        (&plain, "| `a` | I1 | I1 by `x` |", true),
        (&plain, "| `a` | I2 | I1 by `x` |", false),
        (&plain, "", false),
        (&two, "| `a` | I1 | with `b`: I1 by `x` |", true),
        (&two, "| `a` | I1 | I1 by `x` |", false),
        (&blind, "| `a` | I1 | not seen: It has no clock. |", true),
        (&blind, "| `a` | I1 | not seen: It is hard. |", false),
    ] {
        let problems = FOUND.problems(&text(row), [fault].into_iter(), table::found);
        assert_eq!(problems.is_empty(), holds, "{row}: {problems:?}");
    }
}
