//! Many workers that wait, and those of them that a change wakes.

use std::{
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    task::{Context, Poll, Wake, Waker},
};

use tokio::time::advance;

use super::*;

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// A worker that waits for a job.
struct Waiting<'a> {
    take: Pin<Box<dyn Future<Output = Taken<&'static str>> + 'a>>,
    woken: Arc<Woken>,
}

impl Waiting<'_> {
    fn poll(&mut self) -> Option<&'static str> {
        let waker = Waker::from(Arc::clone(&self.woken));
        match self.take.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(taken) => Some(taken.job),
            Poll::Pending => None,
        }
    }
}

fn waiting<'a>(
    queue: &'a Queue<&'static str>,
    urgencies: &'static [Urgency],
) -> impl Iterator<Item = Waiting<'a>> {
    std::iter::repeat_with(move || Waiting {
        take: Box::pin(queue.take(urgencies)),
        woken: Arc::default(),
    })
}

/// Lets the woken workers look, until none is woken. The number of looks, and the jobs that were taken.
fn look(workers: &mut Vec<Waiting<'_>>) -> (usize, Vec<&'static str>) {
    let (mut looks, mut taken) = (0, Vec::new());
    while let Some(at) = workers.iter().position(|it| it.woken.0.swap(false, SeqCst)) {
        looks += 1;
        if let Some(job) = workers[at].poll() {
            taken.push(job);
            workers.remove(at);
        }
    }
    (looks, taken)
}

/// Workers that are woken for nothing would cost more than the looks.
#[tokio::test(start_paused = true)]
async fn a_job_wakes_one_of_many_workers() {
    let queue = queue();
    let workers = waiting(&queue, &[Urgency::Normal]).take(64);
    let urgent = waiting(&queue, &[Urgency::Urgent]).take(12);
    let mut workers: Vec<_> = workers.chain(urgent).collect();
    assert!(workers.iter_mut().all(|it| it.poll().is_none()));
    queue.wake("a", Urgency::Normal);
    // The worker, and the next one to wait for the time.
    assert_eq!(look(&mut workers), (2, vec!["a"]));
    queue.wake("b", Urgency::Normal);
    queue.wake("c", Urgency::Normal);
    queue.wake("d", Urgency::Urgent);
    let (looks, mut taken) = look(&mut workers);
    taken.sort_unstable();
    assert_eq!(taken, ["b", "c", "d"]);
    assert!(looks <= 8, "{looks}");
    queue.wake_after("e", Urgency::Normal, SOON);
    // Those that wait for the time hear of it.
    assert_eq!(look(&mut workers), (2, vec![]));
    advance(SOON * 2).await;
    let (looks, taken) = look(&mut workers);
    assert_eq!(taken, ["e"]);
    assert!(looks <= 4, "{looks}");
    // Nothing is in line.
    queue.done(&"a", Looked::Done);
    assert_eq!(look(&mut workers), (0, vec![]));
}

/// A job in line wakes a worker when its tenant has room again, and when its line opens.
#[tokio::test(start_paused = true)]
async fn workers_that_wait_take_all_that_they_may() {
    let queue = of_tenants();
    let mut workers: Vec<_> = waiting(&queue, &Urgency::ALL).take(10).collect();
    assert!(workers.iter_mut().all(|it| it.poll().is_none()));
    for job in ["o/a 1", "o/a 2", "o/a 3", "p/b 1", "p/b 2", "p/b 3"] {
        queue.wake(job, Urgency::Normal);
    }
    let (_, mut taken) = look(&mut workers);
    taken.sort_unstable();
    assert_eq!(taken, ["o/a 1", "o/a 2", "p/b 1", "p/b 2"]);
    queue.done(&"o/a 1", Looked::Done);
    assert_eq!(look(&mut workers).1, ["o/a 3"]);
    queue.done(&"p/b 2", Looked::Failed);
    assert_eq!(look(&mut workers).1, ["p/b 3"]);
    // What failed is tried again by itself.
    queue.done(&"p/b 1", Looked::Done);
    advance(SOON * 10).await;
    assert_eq!(look(&mut workers).1, ["p/b 2"]);
}

/// What came up before a line opens is taken by as many workers as there are jobs.
#[tokio::test(start_paused = true)]
async fn workers_take_all_jobs_of_a_line_that_opens() {
    let queue = queue();
    queue.close();
    queue.listen();
    for job in ["a", "b", "c"] {
        queue.wake(job, Urgency::Normal);
    }
    let mut workers: Vec<_> = waiting(&queue, &[Urgency::Normal]).take(5).collect();
    assert!(workers.iter_mut().all(|it| it.poll().is_none()));
    queue.open(Urgency::Urgent);
    assert_eq!(look(&mut workers).1, Vec::<&str>::new());
    queue.open(Urgency::Normal);
    let (_, mut taken) = look(&mut workers);
    taken.sort_unstable();
    assert_eq!(taken, ["a", "b", "c"]);
}

/// A worker for urgent jobs that ends makes room for a normal job, which it does not take itself.
#[tokio::test(start_paused = true)]
async fn room_that_an_urgent_job_leaves_wakes_a_worker_of_the_other_line() {
    let queue = Queue::shared(Shares::Together(1), PAUSES, |_: &&'static str| {
        Tenants::one("tools")
    });
    for urgency in Urgency::ALL {
        queue.open(urgency);
    }
    queue.wake("a", Urgency::Urgent);
    assert_eq!(now(&queue, Urgency::Urgent), Some("a"));
    let mut workers: Vec<_> = waiting(&queue, &Urgency::ALL).take(2).collect();
    assert!(workers.iter_mut().all(|it| it.poll().is_none()));
    queue.wake("b", Urgency::Normal);
    assert_eq!(look(&mut workers).1, Vec::<&str>::new());
    queue.done(&"a", Looked::Done);
    assert_eq!(look(&mut workers).1, ["b"]);
}

/// The threads of the other workers may be busy, so that none of these looks at the clock.
#[tokio::test(start_paused = true)]
async fn a_worker_for_urgent_jobs_keeps_the_time_beside_the_others() {
    let queue = queue();
    let mut normal = waiting(&queue, &[Urgency::Normal]).next().unwrap();
    assert!(normal.poll().is_none());
    let mut urgent: Vec<_> = waiting(&queue, &[Urgency::Urgent]).take(2).collect();
    assert!(urgent.iter_mut().all(|it| it.poll().is_none()));
    queue.wake_after("a", Urgency::Urgent, SOON);
    assert_eq!(look(&mut urgent).1, Vec::<&str>::new());
    advance(SOON * 2).await;
    assert_eq!(look(&mut urgent).1, ["a"]);
}

/// A worker of both lines that was woken for one takes the more urgent job of the other, for which another worker was woken.
#[tokio::test(start_paused = true)]
async fn a_worker_that_takes_a_job_of_the_other_line_leaves_none_behind() {
    let queue = of_tenants();
    let mut urgent = waiting(&queue, &[Urgency::Urgent]).next().unwrap();
    assert!(urgent.poll().is_none());
    let mut workers: Vec<_> = waiting(&queue, &Urgency::ALL).take(2).collect();
    assert!(workers.iter_mut().all(|it| it.poll().is_none()));
    workers.push(urgent);
    queue.wake("o/a 1", Urgency::Normal);
    queue.wake("p/b 1", Urgency::Urgent);
    assert_eq!(look(&mut workers).1, ["p/b 1", "o/a 1"]);
}
