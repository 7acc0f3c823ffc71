use std::sync::atomic::AtomicUsize;

use futures::{FutureExt, future::join_all};
use tokio::{
    task::yield_now,
    time::{sleep, timeout},
};

use super::*;

/// The length of a read.
const LONG: Duration = Duration::from_millis(60);

type Parts = BTreeSet<&'static str>;

/// A source of which each read gives its number, counted from one, and its parts.
#[derive(Clone, Default)]
struct Source {
    reads: SharedReads<&'static str, &'static str, (usize, Parts)>,
    begun: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Source {
    async fn take(
        &self,
        subject: &'static str,
        part: &'static str,
    ) -> SharedResult<(usize, Parts)> {
        self.take_after(subject, part, ReadMoment::now()).await
    }

    async fn take_after(
        &self,
        subject: &'static str,
        part: &'static str,
        after: ReadMoment,
    ) -> SharedResult<(usize, Parts)> {
        let (begun, ended) = (Arc::clone(&self.begun), Arc::clone(&self.ended));
        let read = move |parts| async move {
            let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
            sleep(LONG).await;
            ended.fetch_add(1, Ordering::SeqCst);
            Ok((number, parts))
        };
        self.reads.read(subject, part, after, read).await
    }

    async fn number(&self) -> usize {
        self.take("all", "").await.unwrap().0
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }
}

fn failed() -> CallError {
    CallError::NoAnswer {
        call: "list".to_owned(),
        attempts: 1,
    }
}

#[test]
fn moments_are_in_the_order_in_which_they_are_asked_for() {
    let moments = [ReadMoment::now(), ReadMoment::now(), ReadMoment::now()];
    assert!(moments.is_sorted_by(|a, b| a < b));
}

#[tokio::test(start_paused = true)]
async fn a_crowd_costs_a_read_for_its_first_caller_and_one_for_all_others() {
    let source = Source::default();
    let crowd = join_all((0..100).map(|_| source.number()));
    let later = async {
        sleep(LONG / 2).await;
        join_all((0..100).map(|_| source.number())).await
    };
    let (crowd, later) = tokio::join!(crowd, later);
    assert_eq!(crowd[0], 1);
    assert!(crowd[1..].iter().chain(&later).all(|it| *it == 2));
    assert_eq!(source.begun(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_caller_gets_a_read_that_began_before_its_moment() {
    let source = Source::default();
    let first = source.number();
    let second = async {
        // At the same time of the clock: the first one has begun.
        assert_eq!(source.begun(), 1);
        source.number().await
    };
    assert_eq!(tokio::join!(biased; first, second), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_caller_takes_a_read_that_began_after_its_moment() {
    let source = Source::default();
    let (early, begun) = (ReadMoment::now(), source.number());
    let late = async {
        sleep(LONG / 2).await;
        source.take_after("all", "", early).await.unwrap().0
    };
    assert_eq!(tokio::join!(begun, late), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_slow_read_holds_the_next_one_up_for_a_moment_only() {
    let reads = SharedReads::<&str, (), ()>::default();
    let read = |time| {
        let read = move |_| async move {
            sleep(time).await;
            Ok(())
        };
        reads.read("all", (), ReadMoment::now(), read)
    };
    let begun = Instant::now();
    let slow = read(HEAD_START * 20);
    let quick = async {
        yield_now().await;
        read(LONG).await.unwrap();
        begun.elapsed()
    };
    let third = async {
        sleep(HEAD_START / 2).await;
        read(LONG).await.unwrap();
        begun.elapsed()
    };
    let (_, quick, third) = tokio::join!(biased; slow, quick, third);
    assert_eq!([quick, third], [HEAD_START + LONG; 2]);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_so_many_reads_of_a_subject_are_on_their_way() {
    let reads = SharedReads::<&str, (), ()>::default();
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let calls = (0..4 * u32::try_from(AT_ONCE).unwrap()).map(|number| {
        let (reads, now, most) = (&reads, Arc::clone(&now), Arc::clone(&most));
        let read = move |_| async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(HEAD_START * 20).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        };
        async move {
            sleep(HEAD_START * number).await;
            reads.read("all", (), ReadMoment::now(), read).await
        }
    });
    assert!(join_all(calls).await.iter().all(Result::is_ok));
    assert_eq!(most.load(Ordering::SeqCst), AT_ONCE);
}

#[tokio::test(start_paused = true)]
async fn subjects_do_not_wait_for_each_other() {
    let source = Source::default();
    let begun = Instant::now();
    let (a, b) = tokio::join!(source.take("a", ""), source.take("b", ""));
    assert_eq!((a.unwrap().0, b.unwrap().0), (1, 2));
    assert_eq!(begun.elapsed(), LONG);
}

#[tokio::test(start_paused = true)]
async fn a_read_is_about_the_parts_of_its_callers_and_a_later_part_has_another_read() {
    let source = Source::default();
    let early = ReadMoment::now();
    let late = async {
        sleep(LONG + LONG / 2).await;
        let (known, new) = (
            source.take_after("all", "a", early),
            source.take_after("all", "c", early),
        );
        let (known, new) = tokio::join!(known, new);
        (known.unwrap(), new.unwrap())
    };
    let (first, a, b, (known, new)) = tokio::join!(
        source.take("all", "first"),
        source.take("all", "a"),
        source.take("all", "b"),
        late
    );
    assert_eq!(*first.unwrap(), (1, Parts::from(["first"])));
    assert_eq!(*a.unwrap(), (2, Parts::from(["a", "b"])));
    assert_eq!(b.unwrap().0, 2);
    assert_eq!(known.0, 2);
    assert_eq!(*new, (3, Parts::from(["c"])));
}

#[tokio::test(start_paused = true)]
async fn a_failure_fails_the_callers_that_waited_for_it_and_no_later_one() {
    let reads = SharedReads::<&str, (), usize>::default();
    let count = Arc::new(AtomicUsize::new(0));
    let early = ReadMoment::now();
    let call = |after| {
        let count = Arc::clone(&count);
        let read = move |_| async move {
            let number = count.fetch_add(1, Ordering::SeqCst);
            sleep(LONG).await;
            if number == 0 {
                Err(failed())
            } else {
                Ok(number)
            }
        };
        reads.read("all", (), after, read)
    };
    let [mut first, mut second] = [call(early), call(early)].map(Box::pin);
    assert!(first.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none());
    assert!(first.await.is_err());
    // The failed read began after its moment, too, and another caller has not taken its failure yet.
    assert_eq!(call(early).await.map_err(drop), Ok(Arc::new(1)));
    assert!(second.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_ends_no_read_of_others() {
    let source = Source::default();
    let mut first = Box::pin(source.number());
    assert!(first.as_mut().now_or_never().is_none());
    let mut other = Box::pin(source.take_after("all", "", ReadMoment(0)));
    let next = source.number();
    let mut next = Box::pin(next);
    assert!(other.as_mut().now_or_never().is_none());
    assert!(next.as_mut().now_or_never().is_none());
    // It has polled the read until now, and one that waits to begin the next read goes with it.
    drop((first, next));
    assert_eq!(other.await.unwrap().0, 1);
    assert_eq!(source.number().await, 2);
}

#[tokio::test(start_paused = true)]
async fn the_last_caller_ends_the_read_and_nothing_is_kept() {
    let source = Source::default();
    let mut first = Box::pin(source.number());
    let mut second = Box::pin(source.take_after("all", "", ReadMoment(0)));
    let mut next = Box::pin(source.number());
    for call in [&mut first, &mut next] {
        assert!(call.as_mut().now_or_never().is_none());
    }
    assert!(second.as_mut().now_or_never().is_none());
    drop((first, second, next));
    assert_eq!(source.reads.subjects(), 0);
    sleep(LONG * 2).await;
    assert_eq!(
        (source.begun(), source.ended.load(Ordering::SeqCst)),
        (1, 0)
    );
    let read = source.take("all", "").await.unwrap();
    assert_eq!(source.reads.subjects(), 0);
    assert_eq!(Arc::strong_count(&read), 1, "only the caller has it");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_panics_fails_all_callers_that_wait_for_it_and_no_later_one() {
    let source = Source::default();
    let early = ReadMoment::now();
    // Each is a task of its own: nothing but the read wakes it.
    let broken = [(); 2].map(|()| {
        let reads = source.reads.clone();
        tokio::spawn(async move {
            let read = |_| async {
                sleep(LONG).await;
                panic!("planted")
            };
            reads.read("all", "", early, read).await
        })
    });
    let later = async {
        sleep(LONG / 2).await;
        source.number().await
    };
    let ended = async { timeout(LONG * 10, join_all(broken)).await };
    let (broken, later) = tokio::join!(ended, later);
    for call in broken.expect("no caller waits for ever") {
        let error = call.expect("no caller panics").unwrap_err();
        assert!(matches!(*error, CallError::Panicked), "{error}");
    }
    assert_eq!(later, 1);
    assert_eq!(source.reads.subjects(), 0);
}
