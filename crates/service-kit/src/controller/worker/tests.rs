use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use prometheus::Opts;
use tokio::time::{sleep, timeout};

use super::*;
use crate::{
    controller::queue::tests::one_tenant,
    shutdown::Tasks,
    telemetry::{LogFormat, tests::listen},
};

const SECOND: Duration = Duration::from_secs(1);

/// A controller whose looks take five seconds.
struct Slow {
    queue: Queue<&'static str>,
    looked: Mutex<Vec<&'static str>>,
}

impl Controller for Slow {
    type Job = &'static str;

    fn queue(&self) -> &Queue<&'static str> {
        &self.queue
    }

    async fn look(&self, taken: &Taken<&'static str>) -> Looked {
        sleep(SECOND * 5).await;
        self.looked.lock().unwrap().push(taken.job);
        Looked::Done
    }
}

#[tokio::test(start_paused = true)]
async fn a_worker_looks_at_one_job_after_the_other_and_finishes_what_it_has_begun() {
    let controller = Arc::new(Slow {
        queue: one_tenant(),
        looked: Mutex::default(),
    });
    let queue = &controller.queue;
    for urgency in Urgency::ALL {
        queue.open(urgency);
    }
    for job in ["a", "b", "c"] {
        queue.wake(job, Urgency::Normal);
    }
    queue.wake("of other workers", Urgency::Urgent);
    let tasks = Tasks::new();
    let (working, stop) = (Arc::clone(&controller), tasks.stop());
    let worker = tokio::spawn(async move { work(&*working, &[Urgency::Normal], stop).await });
    sleep(SECOND * 6).await;
    assert_eq!(*controller.looked.lock().unwrap(), ["a"]);
    drop(tasks);
    timeout(SECOND * 9, worker).await.unwrap().unwrap();
    assert_eq!(*controller.looked.lock().unwrap(), ["a", "b"]);
    // The third job and the urgent one wait; the others were given back.
    assert_eq!(queue.depth(), 2);
}

#[derive(Debug, thiserror::Error)]
#[error("the door is shut")]
struct Shut(Notice);

impl LookError for Shut {
    fn word(&self) -> &'static str {
        "shut"
    }

    fn notice(&self) -> Notice {
        self.0
    }
}

#[test]
fn a_failed_look_is_counted_and_logged_as_loudly_as_it_has_to_be() {
    let failures = IntCounterVec::new(Opts::new("failures", "Looks"), &["why"]).unwrap();
    let log = listen("debug", LogFormat::Text);
    for (count, notice, level) in [
        (1, Notice::Told, "DEBUG"),
        (2, Notice::Routine, " INFO"),
        (3, Notice::Problem, " WARN"),
    ] {
        failed(&"a", &Shut(notice), &failures);
        assert_eq!(failures.with_label_values(&["shut"]).get(), count);
        let text = log.text();
        let line = text.lines().last().unwrap();
        let expected = r#": the look failed and is repeated job="a" problem="the door is shut""#;
        assert!(line.contains(level) && line.ends_with(expected), "{line}");
    }
}
