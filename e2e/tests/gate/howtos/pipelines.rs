//! The how-to about a pipeline, with both controllers of pipelines played.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use e2e::{pipelines::Pipelines, report, repository};
use serde_json::{Value, json};

use super::Replaced;
use crate::support::{Gate, wait_until_creators_are_believed};

/// The kind of a page that needs the controllers.
pub(super) const KIND: &str = "kind: PipelineRun";
/// The image of the tests has no shell.
pub(super) const STEP: Replaced<'static> = (
    "command: [sh, -c], args: ['ls -R /docker; sleep 60']",
    "command: [/workload], args: [cat, --then-wait, /docker/config.json]",
);
/// Between two looks at the objects of the namespace.
const PAUSE: Duration = Duration::from_millis(100);

/// Ends the controllers, also when the page fails.
struct Played<'a>(&'a AtomicBool);

impl Drop for Played<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Plays a page while both controllers work in the namespace.
pub(super) fn beside(gate: &Gate, play: impl FnOnce()) {
    let controllers = Pipelines::new(gate.api(), json!({})).unwrap();
    wait_until_creators_are_believed(gate);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // Objects change while they are looked at; the next look sees them as they are.
                if let Err(error) = controllers.work() {
                    eprintln!("{}", report(&error));
                }
                thread::sleep(PAUSE);
            }
        });
        let _played = Played(&is_over);
        play();
    });
}

/// The checks of the first policy in the blocks of a page.
fn checks(page: &str, field: &str) -> Value {
    let text = fs::read_to_string(repository().join("docs").join(page)).unwrap();
    let from = text.find(field).unwrap();
    let start = text[..from].rfind("\n```").unwrap();
    let (_, block) = text[start + 1..].split_once('\n').unwrap();
    let (block, _) = block.split_once("\n```").unwrap();
    let yaml = block.lines().skip_while(|it| it.starts_with("kubectl "));
    let yaml = yaml.take_while(|it| *it != "END");
    let object: Value = serde_yaml::from_str(&yaml.collect::<Vec<_>>().join("\n")).unwrap();
    let of_policy = object.pointer("/spec/checkGrantedPermission/spec/checks");
    of_policy.unwrap_or(&object["checks"]).clone()
}

/// The how-to runs its check; the reference shows the same one, with other approvers.
#[test]
fn the_check_of_the_reference_is_that_of_the_how_to() {
    let mut shown = checks("approvals.md", "checks:\n- name: approval");
    let mut run = checks("how-to/tekton.md", "checks:\n      - name: approval");
    for checks in [&mut shown, &mut run] {
        assert_eq!(checks.as_array().map(Vec::len), Some(1), "{checks}");
        let approvers = checks[0]["approvers"].take();
        assert!(approvers["users"].is_array(), "{approvers}");
    }
    assert_eq!(shown, run);
}
