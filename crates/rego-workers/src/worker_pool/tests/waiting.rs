//! Jobs that wait for a worker: how many, how long, and in which order. No process is started here.

use futures::FutureExt as _;
use futures::future::join_all;

use super::workers::Told;
use super::*;

/// A pool with so many places, and with a program that is not there.
fn pool(places: usize, told: &Told) -> WorkerPool {
    WorkerPool(Arc::new(PoolState {
        program: PathBuf::from("/no/such/program"),
        limits: limits(Duration::from_secs(1)),
        places: Semaphore::new(places),
        idle: Mutex::default(),
        waiting: AtomicUsize::new(0),
        watcher: Box::new(told.clone()),
    }))
}

#[tokio::test(start_paused = true)]
async fn exactly_as_many_jobs_wait_as_may_and_the_next_is_told_so_at_once() {
    let pool = pool(0, &Told::default());
    let too_many = || busy("too many evaluations are waiting");
    let mut waiting = Vec::new();
    for number in 0..MOST_WAITING {
        let mut asks = Box::pin(pool.evaluate(job()));
        assert!(poll!(&mut asks).is_pending(), "{number}");
        waiting.push(asks);
    }
    assert_eq!(pool.waiting(), MOST_WAITING);
    for _ in 0..3 {
        let refused = pool.evaluate(job()).now_or_never();
        assert_eq!(refused, Some(Err(too_many())));
        let refused = pool.validate("package approval").now_or_never();
        assert_eq!(refused, Some(Err(too_many())));
        // A refused job does not wait.
        assert_eq!(pool.waiting(), MOST_WAITING);
    }
    waiting.pop();
    let mut asks = Box::pin(pool.evaluate(job()));
    assert!(poll!(&mut asks).is_pending());
    assert_eq!(pool.evaluate(job()).now_or_never(), Some(Err(too_many())));
}

#[tokio::test(start_paused = true)]
async fn a_job_waits_its_own_time_which_is_told_with_its_outcome() {
    let told = Told::default();
    let pool = pool(0, &told);
    let began = Instant::now();
    let late = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let said = pool.evaluate(job()).await;
        (said, began.elapsed())
    };
    let (first, second) = tokio::join!(
        async { (pool.evaluate(job()).await, began.elapsed()) },
        late
    );
    let why = "no worker was free within 7s";
    for ((said, took), due) in [(first, 7), (second, 10)] {
        assert_eq!(said, Err(busy(why)));
        let due = Duration::from_secs(due);
        assert!(
            took >= due && took < due + Duration::from_millis(5),
            "{took:?}"
        );
    }
    for (outcome, took) in told.evaluated() {
        assert_eq!(outcome, Err(RegoFailure::Limit(why.to_owned())));
        assert!(
            took >= LONGEST_WAIT && took < LONGEST_WAIT + Duration::from_millis(5),
            "{took:?}"
        );
    }
    assert_eq!((told.evaluated().len(), told.started()), (2, 0));
    // To look at a module is no evaluation.
    let said = pool.validate("package approval").await;
    assert_eq!(said, Err(busy(why)));
    assert_eq!(told.evaluated().len(), 2);
}

/// A place that a failure took along would be lacking for ever.
#[tokio::test(start_paused = true)]
async fn a_place_goes_from_one_job_to_the_next_in_their_order_and_is_never_lost() {
    let told = Told::default();
    let pool = pool(0, &told);
    let order = Mutex::new(Vec::new());
    let asks = (0..9).map(|number| {
        let (pool, order) = (&pool, &order);
        async move {
            let said = if number % 2 == 0 {
                pool.evaluate(job()).await.map(|_| ())
            } else {
                pool.validate("package approval").await.map(|_| ())
            };
            order.lock().unwrap().push(number);
            said
        }
    });
    let free = async {
        assert_eq!(pool.waiting(), 9);
        pool.0.places.add_permits(1);
    };
    let (said, ()) = tokio::join!(join_all(asks), free);
    for said in said {
        assert_eq!(said, Err(busy("no worker could be started")));
    }
    assert_eq!(*order.lock().unwrap(), (0..9).collect::<Vec<_>>());
    assert_eq!(pool.waiting(), 0);
    assert_eq!(pool.0.places.available_permits(), 1);
    assert_eq!(told.started(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_module_of_more_bytes_than_the_limit_is_evaluated_by_nobody() {
    let told = Told::default();
    let pool = pool(1, &told);
    // Fewer letters than the limit, and more bytes.
    for module in ["x".repeat(1025), "ä".repeat(513)] {
        let job = RegoJob {
            module: &module,
            ..job()
        };
        let why = RegoFailure::Limit("the module is longer than 1024 bytes".to_owned());
        let said = pool.evaluate(job).now_or_never().unwrap();
        assert_eq!(said, Ok(Err(why.clone())));
        let said = pool.validate(&module).now_or_never().unwrap();
        assert_eq!(said, Ok(Err(why)));
    }
    assert_eq!(told.evaluated().len(), 2);
    assert_eq!(pool.0.places.available_permits(), 1);
}

/// Only what the module itself did speaks against it.
#[test]
fn each_end_of_a_worker_has_its_words_and_only_one_of_them_is_nobodys_fault() {
    for (broken, why, is_busy) in [
        (Broken::Memory, "used too much memory", false),
        (Broken::ProcessorTime, "used too much processor time", false),
        (Broken::Killed, "ended the process that evaluated it", true),
        (
            Broken::Time(Duration::from_millis(1_500)),
            "took longer than 1.5s",
            false,
        ),
        (Broken::Answer, "the answer is too long, or none", false),
    ] {
        let expected = if is_busy { busy(why) } else { limit(why) };
        assert_eq!(NoReply::from(broken), expected);
        assert_eq!(
            RegoFailure::from(expected),
            RegoFailure::Limit(why.to_owned())
        );
    }
}
