use std::{cell::RefCell, io, rc::Rc, time::Duration};

use kube::core::{Status, response::StatusDetails};
use proptest::{collection::vec, prelude::*};
use tokio::time::{Instant, sleep};

use super::{AttemptFailure, Backoff, CallError, RetryPolicy, RetryVerdict, verdict};

const POLICY: RetryPolicy = RetryPolicy {
    attempts: 4,
    attempt: Duration::from_secs(10),
    total: Duration::from_secs(30),
    pauses: Backoff::new(Duration::from_millis(100), Duration::from_secs(1)),
};

fn status(code: u16) -> kube::Error {
    kube::Error::Api(
        Status::failure("said the server", "Reason")
            .with_code(code)
            .boxed(),
    )
}

fn come_back(code: u16, seconds: u32) -> kube::Error {
    let details = StatusDetails {
        retry_after_seconds: seconds,
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: Vec::new(),
    };
    let status = Status::failure("busy", "Busy")
        .with_code(code)
        .with_details(details);
    kube::Error::Api(status.boxed())
}

fn broken_connection() -> kube::Error {
    kube::Error::Service(io::Error::from(io::ErrorKind::ConnectionReset).into())
}

/// Answers with these errors one after the other, then with success.
async fn with(
    policy: RetryPolicy,
    errors: Vec<kube::Error>,
) -> (Result<&'static str, CallError>, u32) {
    let (errors, calls) = (RefCell::new(errors.into_iter()), RefCell::new(0));
    let answer = || async {
        *calls.borrow_mut() += 1;
        errors.borrow_mut().next().map_or(Ok("done"), Err)
    };
    let result = policy.call("get pod a/b", answer).await;
    let calls = *calls.borrow();
    (result, calls)
}

#[test]
fn passing_statuses_are_repeated() {
    for code in [408, 429, 500, 502, 503, 504] {
        assert_eq!(verdict(&status(code)), RetryVerdict::Again, "{code}");
        let expected = RetryVerdict::After(Duration::from_secs(7));
        assert_eq!(verdict(&come_back(code, 7)), expected, "{code}");
    }
}

#[test]
fn answers_are_not_repeated_even_if_they_say_when_to_come_back() {
    for code in [400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 501, 505] {
        assert_eq!(verdict(&status(code)), RetryVerdict::GiveUp, "{code}");
        assert_eq!(verdict(&come_back(code, 7)), RetryVerdict::GiveUp, "{code}");
    }
}

#[test]
fn broken_connections_are_repeated_and_unreadable_answers_are_not() {
    assert_eq!(verdict(&broken_connection()), RetryVerdict::Again);
    let cut_off = io::Error::from(io::ErrorKind::UnexpectedEof);
    assert_eq!(
        verdict(&kube::Error::ReadEvents(cut_off)),
        RetryVerdict::Again
    );
    let unreadable = serde_json::from_str::<u8>("{").unwrap_err();
    assert_eq!(
        verdict(&kube::Error::SerdeError(unreadable)),
        RetryVerdict::GiveUp
    );
    assert_eq!(verdict(&kube::Error::TlsRequired), RetryVerdict::GiveUp);
}

#[test]
fn a_failed_attempt_says_why() {
    let error = AttemptFailure::Error(status(503)).to_string();
    assert!(error.contains("said the server"), "{error}");
    assert_eq!(AttemptFailure::Timeout.to_string(), "no answer in time");
}

#[tokio::test(start_paused = true)]
async fn a_passing_error_is_overcome() {
    let (result, calls) = with(POLICY, vec![status(503), broken_connection()]).await;
    assert_eq!((result.unwrap(), calls), ("done", 3));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_returned_at_once_with_its_status() {
    let started = Instant::now();
    let (result, calls) = with(POLICY, vec![status(403)]).await;
    let error = result.unwrap_err();
    assert_eq!((calls, started.elapsed()), (1, Duration::ZERO));
    assert_eq!(
        (error.to_string().as_str(), error.status()),
        ("cannot get pod a/b", Some(403))
    );
}

#[tokio::test(start_paused = true)]
async fn attempts_are_bounded() {
    let (result, calls) = with(POLICY, (0..9).map(|_| status(500)).collect()).await;
    let error = result.unwrap_err();
    assert_eq!((calls, error.status()), (4, Some(500)));
    assert_eq!(error.to_string(), "cannot get pod a/b, tried 4 times");
    let (result, calls) = with(POLICY.once(), vec![status(500)]).await;
    assert!(matches!(
        result,
        Err(CallError::Exhausted { attempts: 1, .. })
    ));
    assert_eq!(calls, 1);
}

#[tokio::test(start_paused = true)]
async fn the_server_decides_when_it_is_asked_again_at_the_soonest() {
    let started = Instant::now();
    let (result, _) = with(POLICY, vec![come_back(429, 3)]).await;
    assert!(result.is_ok());
    let waited = started.elapsed();
    assert!(
        waited >= Duration::from_secs(3) && waited < Duration::from_secs(4),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_time_to_come_back_after_the_deadline_ends_it_now() {
    let started = Instant::now();
    let (result, calls) = with(POLICY, vec![come_back(429, 60)]).await;
    assert!(matches!(result, Err(CallError::Exhausted { .. })));
    assert_eq!((calls, started.elapsed()), (1, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_costs_the_total_time_and_no_more() {
    let started = Instant::now();
    let silence = || async {
        sleep(Duration::from_hours(1)).await;
        Ok(())
    };
    let error = POLICY.call("delete role a/b", silence).await.unwrap_err();
    assert!(started.elapsed() <= POLICY.total, "{:?}", started.elapsed());
    assert_eq!(
        error.to_string(),
        "cannot delete role a/b, tried 3 times: no answer in time"
    );
    assert_eq!(error.status(), None);
}

/// The result of one attempt.
#[derive(Clone, Copy, Debug)]
enum Meets {
    /// An error after so many milliseconds.
    Error(u64),
    /// To come back after so many seconds.
    Busy(u32),
    Nothing,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The time of all attempts is counted from the first, regardless of their results.
    #[test]
    fn no_order_of_troubles_takes_more_attempts_or_time_than_there_are(
        meets in vec(
            prop_oneof![
                (0..12_000_u64).prop_map(Meets::Error),
                (0..9_u32).prop_map(Meets::Busy),
                Just(Meets::Nothing),
            ],
            0..8,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let begun = Rc::new(RefCell::new(Vec::new()));
            let started = Instant::now();
            let attempt = || {
                let mut begun = begun.borrow_mut();
                let meets = meets.get(begun.len()).copied();
                begun.push(started.elapsed());
                async move {
                    match meets {
                        None => Ok("done"),
                        Some(Meets::Error(millis)) => {
                            sleep(Duration::from_millis(millis)).await;
                            Err(status(503))
                        }
                        Some(Meets::Busy(seconds)) => Err(come_back(429, seconds)),
                        Some(Meets::Nothing) => std::future::pending().await,
                    }
                }
            };
            let result = POLICY.call("get pod a/b", attempt).await;
            let begun = begun.borrow();
            prop_assert!(started.elapsed() <= POLICY.total, "{:?}", started.elapsed());
            prop_assert!(begun.len() <= POLICY.attempts as usize);
            prop_assert_eq!(result.is_ok(), begun.len() == meets.len() + 1);
            let gaps = begun.windows(2).map(|it| it[1].saturating_sub(it[0]));
            for (attempt, next) in gaps.enumerate() {
                let least = match meets[attempt] {
                    Meets::Error(millis) => Duration::from_millis(millis).min(POLICY.attempt),
                    Meets::Busy(seconds) => Duration::from_secs(seconds.into()),
                    Meets::Nothing => POLICY.attempt,
                };
                let most = least + Duration::from_secs(1);
                prop_assert!(least < next && next <= most, "attempt {attempt}: {next:?}");
            }
            Ok(())
        })?;
    }
}
