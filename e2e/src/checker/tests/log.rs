//! The log itself: read line by line, while it grows.

use std::{
    fs::{self, File},
    io::Write as _,
};

use super::{
    super::{Checker, now},
    *,
};

#[test]
fn a_line_that_cannot_be_read_is_a_violation() {
    for line in ["", "{", "{\"auditID\": 1}", "null"] {
        let mut observer = Observer::new(Settings::default());
        assert_eq!(observer.line(line), None);
        let report = observer.finish(at(0));
        expect(&report, Rule::Log, "cannot be read");
        assert_eq!(report.seen.lines, 1);
    }
}

#[test]
fn a_token_in_the_log_is_found_and_not_shown() {
    let token = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOlsiYSJdfQ.c2lnbmF0dXJlLWJ5dGVz";
    let mut event = call("leak", 0, "admin", "create", ":configmaps", "x");
    event["requestObject"] = json!({"data": {"a": token}});
    let mut observer = Observer::new(Settings::default());
    observer.line(&event.to_string());
    let report = observer.finish(at(0));
    expect(&report, Rule::Secret, "holds a token");
    assert_eq!(report.violations[0].shown_by, ["leak"]);
    assert!(!report.to_string().contains("eyJ"));
}

#[test]
fn beginnings_of_answers_and_other_stages_tell_nothing() {
    for stage in ["RequestReceived", "ResponseStarted"] {
        let early = |event: &mut Value| event["stage"] = stage.into();
        world()
            .edit("read-pod", early)
            .breaks(Rule::Fresh, "was not read");
    }
}

fn write(file: &mut File, text: &str) {
    file.write_all(text.as_bytes()).unwrap();
}

/// One more call, later than everything, so that nothing has to be waited for.
fn later() -> String {
    let mut event = call("later", 0, "admin", "create", PODS, "other");
    event["stageTimestamp"] = "2099-01-01T00:00:00Z".into();
    format!("{event}\n")
}

#[test]
fn a_growing_file_is_followed_from_the_start_of_the_observation() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let mut file = File::create(&path).unwrap();
    write(
        &mut file,
        "what was before is not read\nnor the line that is being ",
    );
    let checker = Checker::follow(&path, Settings::default()).unwrap();
    write(&mut file, "written\n");
    let lines: Vec<String> = world().events.iter().map(ToString::to_string).collect();
    for line in &lines {
        // In two pieces: a line counts when it is whole.
        let (one, other) = line.split_at(line.len() / 2);
        write(&mut file, one);
        write(&mut file, &format!("{other}\n"));
    }
    write(&mut file, &later());
    let report = checker.finish().unwrap();
    report.assert_kept();
    assert_eq!(report.seen.lines, lines.len() + 1);
    assert!(report.until <= now());
}

#[test]
fn a_log_that_stops_before_the_end_is_a_violation() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let mut file = File::create(&path).unwrap();
    let checker = Checker::follow(&path, Settings::default()).unwrap();
    for event in world().events {
        write(&mut file, &format!("{event}\n"));
    }
    let report = checker.finish().unwrap();
    expect(&report, Rule::Log, "does not reach the end");
}

#[test]
fn what_a_test_declares_reaches_the_judgement() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let mut file = File::create(&path).unwrap();
    let checker = Checker::follow(&path, Settings::default()).unwrap();
    let ends = [
        "end-pod",
        "delete-pod",
        "status-ended",
        "status-revoked",
        "delete-role",
        "delete-binding",
    ];
    for event in world().without(&ends).events {
        write(&mut file, &format!("{event}\n"));
    }
    write(&mut file, &later());
    checker.pod_ended(NS, "job", "pod-uid", at(20_000));
    checker.approval_ended(NS, "job", "release", at(21_000));
    let report = checker.finish().unwrap();
    expect(&report, Rule::Revoked, "still there");
}

#[test]
fn a_file_that_takes_the_place_of_the_log_is_read_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let mut file = File::create(&path).unwrap();
    let checker = Checker::follow(&path, Settings::default()).unwrap();
    let events = world().events;
    let (before, after) = events.split_at(10);
    for event in before {
        write(&mut file, &format!("{event}\n"));
    }
    fs::rename(&path, dir.path().join("audit-1.log")).unwrap();
    let mut file = File::create(&path).unwrap();
    for event in after {
        write(&mut file, &format!("{event}\n"));
    }
    write(&mut file, &later());
    let report = checker.finish().unwrap();
    report.assert_kept();
    assert_eq!(report.seen.lines, events.len() + 1);
}

#[test]
fn a_whole_file_is_judged_as_of_its_last_call() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("audit.log");
    let lines: Vec<String> = world()
        .events
        .iter()
        .map(|event| format!("{event}\n"))
        .collect();
    fs::write(&path, lines.concat()).unwrap();
    let report = Checker::read(&path, Settings::default()).unwrap();
    report.assert_kept();
    assert_eq!(report.until, at(20_602));
}

#[test]
fn a_log_that_is_not_there_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("absent");
    let error = Checker::follow(&path, Settings::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("absent"), "{error}");
    assert!(Checker::read(&path, Settings::default()).is_err());
}
