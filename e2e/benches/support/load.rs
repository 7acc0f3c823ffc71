//! Latencies: of one caller, and of many at planned times, whether answers come or not.

use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// A caller that calls again and again. Clones share a connection.
pub(crate) trait Caller: Clone + Send + 'static {
    /// The call of this number. A wrong answer ends the run: it has no speed.
    fn call(&self, number: usize) -> impl Future<Output = ()> + Send;
}

/// Times of answers, in microseconds.
#[derive(Clone, Default)]
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64() * 1e6);
    }

    /// By how much each time is longer than the other one of the same round; less than nothing where it is shorter.
    pub(crate) fn beyond(&self, others: &Self) -> Self {
        let pairs = self.0.iter().zip(&others.0);
        Self(pairs.map(|(time, other)| time - other).collect())
    }

    pub(crate) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The time that so many of a thousand answers took at most, in microseconds.
    pub(crate) fn micros(&self, of_thousand: usize) -> f64 {
        let mut times = self.0.clone();
        times.sort_unstable_by(f64::total_cmp);
        times[(times.len() * of_thousand / 1000).min(times.len() - 1)]
    }

    pub(crate) fn median(&self) -> f64 {
        self.micros(500)
    }

    pub(crate) fn p99(&self) -> f64 {
        self.micros(990)
    }
}

/// The order of the ways in a round: each of them is the first in its turn.
pub(crate) fn order(ways: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..ways).map(move |at| (at + round) % ways)
}

/// One call of one caller.
pub(crate) async fn once(caller: &impl Caller, number: usize) -> Duration {
    let began = Instant::now();
    caller.call(number).await;
    began.elapsed()
}

/// So many calls a second for so long, by callers in turn. A call's time counts from its planned start, so it
/// includes the wait for the caller's previous answer.
pub(crate) async fn open_loop(callers: &[impl Caller], rate: f64, length: Duration) -> Times {
    let mut senders = Vec::new();
    let mut running = JoinSet::new();
    for (number, caller) in callers.iter().cloned().enumerate() {
        let (sender, mut planned) = mpsc::unbounded_channel::<Instant>();
        senders.push(sender);
        running.spawn(async move {
            let mut times = Times::default();
            let mut at = number * 17;
            while let Some(planned) = planned.recv().await {
                caller.call(at).await;
                times.add(planned.elapsed());
                at += 1;
            }
            times
        });
    }
    // A thread of its own: the clock of the runtime knows milliseconds.
    let planner = thread::spawn(move || {
        let began = Instant::now();
        for (number, sender) in (0_u32..).zip(senders.iter().cycle()) {
            let planned = Duration::from_secs_f64(f64::from(number) / rate);
            if planned > length {
                return;
            }
            thread::sleep(planned.saturating_sub(began.elapsed()));
            if sender.send(began + planned).is_err() {
                return;
            }
        }
    });
    let mut all = Times::default();
    while let Some(times) = running.join_next().await {
        all.extend(times.unwrap());
    }
    planner.join().unwrap();
    all
}

/// The answers that callers got.
#[derive(Clone, Copy)]
pub(crate) struct Answers {
    count: u32,
    /// Until the last of them.
    took: Duration,
}

impl Answers {
    /// The answers of a second.
    pub(crate) fn rate(self) -> f64 {
        f64::from(self.count) / self.took.as_secs_f64()
    }

    /// The part of some work that was for each of them.
    pub(crate) fn share_of(self, work: Duration) -> Duration {
        work / self.count
    }
}

/// The answers that callers get when they ask the next question at once, for so long.
pub(crate) async fn closed_loop(callers: &[impl Caller], length: Duration) -> Answers {
    let mut running = JoinSet::new();
    let began = Instant::now();
    let end = began + length;
    for (number, caller) in callers.iter().cloned().enumerate() {
        running.spawn(async move {
            let mut answers = 0_u32;
            for at in number * 17.. {
                caller.call(at).await;
                answers += 1;
                if Instant::now() >= end {
                    break;
                }
            }
            answers
        });
    }
    let mut count = 0;
    while let Some(more) = running.join_next().await {
        count += more.unwrap();
    }
    Answers {
        count,
        took: began.elapsed(),
    }
}
