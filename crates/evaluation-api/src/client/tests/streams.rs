//! The stream: what it does while the server does not read, or does not begin.

use super::*;

/// Server and client would wait for each other, and meanwhile no subscriber hears that a yes has ended.
#[tokio::test]
async fn answers_are_heard_while_the_server_reads_nothing() {
    let mut world = World::new().await;
    let watcher = world.client.watcher();
    let mut first = watcher.watch(question("first"));
    let mut stream = world.server.next_stream().await;
    let (id, _) = stream.hear_subscription().await;
    stream.answer(id, "at once").await;
    assert_eq!(next_reason(&mut first).await, "at once");
    // More than any buffer on the way holds.
    let long = "x".repeat(16 << 10);
    let many: Vec<_> = (0..512)
        .map(|number| watcher.watch(question(&format!("{number}-{long}"))))
        .collect();
    for number in 0..50 {
        let reason = number.to_string();
        stream.answer(id, &reason).await;
        assert_eq!(next_reason(&mut first).await, reason);
    }
    // When it reads again, each question is there, once and in its order.
    for number in 0..many.len() {
        let (_, name) = stream.hear_subscription().await;
        assert!(name.starts_with(&format!("{number}-")), "{number}");
    }
}

#[tokio::test]
async fn a_stream_that_does_not_begin_is_given_up_and_begun_again() {
    let mut world = World::new().await;
    world.server.holds.send_replace(true);
    let mut harbor = world.client.watcher().watch(question("harbor"));
    let held = world.server.next_stream().await;
    tokio::time::pause();
    let began = Instant::now();
    assert_eq!(next(&mut harbor).await, Event::Disconnected);
    let took = began.elapsed();
    assert!(
        took > Duration::from_secs(9) && took < Duration::from_secs(11),
        "{took:?}"
    );
    tokio::time::resume();
    world.server.holds.send_replace(false);
    let mut stream = world.server.next_stream().await;
    let (id, name) = stream.hear_subscription().await;
    assert_eq!(name, "harbor");
    stream.answer(id, "here").await;
    assert_eq!(next_reason(&mut harbor).await, "here");
    drop(held);
}

/// The next stream asks the refused question too, and an answer on the same stream counts as well.
#[tokio::test]
async fn a_refused_question_is_watched_on() {
    let mut world = World::new().await;
    let mut harbor = world.client.watcher().watch(question("harbor"));
    let mut stream = world.server.next_stream().await;
    let (id, _) = stream.hear_subscription().await;
    for _ in 0..2 {
        let refusal = v1::Refusal {
            code: Code::ResourceExhausted.into(),
            ..v1::Refusal::default()
        };
        stream.say(id, Some(WireEvent::Refusal(refusal))).await;
        assert!(matches!(next(&mut harbor).await, Event::Refused(_)));
        let end = Status::unavailable("begin again");
        stream.said.send(Err(end)).await.unwrap();
        assert_eq!(next(&mut harbor).await, Event::Disconnected);
        stream = world.server.next_stream().await;
        assert_eq!(stream.hear_subscription().await, (id, "harbor".to_owned()));
    }
    stream.answer(id, "after all").await;
    assert_eq!(next_reason(&mut harbor).await, "after all");
}

/// Without a token there is no stream, and with one there is, without anybody's help.
#[tokio::test]
async fn a_token_that_comes_late_is_waited_for() {
    let mut world = World::new().await;
    fs::remove_file(world.directory.path().join("token")).unwrap();
    let mut harbor = world.client.watcher().watch(question("harbor"));
    assert_eq!(next(&mut harbor).await, Event::Disconnected);
    assert!(world.server.asked.try_recv().is_err());
    world.token("late");
    let mut stream = world.server.next_stream().await;
    assert_eq!(stream.bearer, "Bearer late");
    let (id, _) = stream.hear_subscription().await;
    stream.answer(id, "here").await;
    assert_eq!(next_reason(&mut harbor).await, "here");
}

/// An id of before may still be answered.
#[tokio::test]
async fn a_dropped_question_lends_its_id_to_nobody() {
    let mut world = World::new().await;
    let mut ids = Vec::new();
    let mut stream: Option<Conversation> = None;
    let marker = world.client.watcher().watch(question("marker"));
    for number in 0..5 {
        let mut watched = world.client.watcher().watch(question("harbor"));
        if stream.is_none() {
            let mut begun = world.server.next_stream().await;
            assert_eq!(begun.hear_subscription().await.1, "marker");
            stream = Some(begun);
        }
        let conversation = stream.as_mut().unwrap();
        let (id, _) = conversation.hear_subscription().await;
        assert!(!ids.contains(&id), "{id} {ids:?}");
        for earlier in &ids {
            conversation.answer(*earlier, "to another one").await;
        }
        let reason = number.to_string();
        conversation.answer(id, &reason).await;
        assert_eq!(next_reason(&mut watched).await, reason);
        ids.push(id);
        drop(watched);
        let said = conversation.hear().await;
        assert_eq!(said, Action::Unsubscribe(v1::Unsubscribe { id }));
    }
    drop(marker);
}

/// Also after many of them: during an outage the pauses stay long, however long it takes.
#[tokio::test]
async fn the_pause_grows_with_each_stream_that_fails_and_stays_long() {
    let mut world = World::new().await;
    let _harbor = world.client.watcher().watch(question("harbor"));
    let mut stream = world.server.next_stream().await;
    tokio::time::pause();
    let pauses = [100, 200, 400, 800, 1_600, 3_200];
    for expected in pauses.into_iter().chain([5_000; 12]) {
        let end = Status::unavailable("not now");
        let ended = Instant::now();
        stream.said.send(Err(end)).await.unwrap();
        stream = world.server.next_stream().await;
        let took = ended.elapsed();
        assert!(
            took >= Duration::from_millis(expected / 2),
            "{expected}: {took:?}"
        );
    }
}

/// Whatever the code says about a second try: until then the yes of before does not count.
#[tokio::test]
async fn a_refusal_takes_the_place_of_an_answer_whatever_its_code() {
    let mut world = World::new().await;
    let mut harbor = world.client.watcher().watch(question("harbor"));
    let mut stream = world.server.next_stream().await;
    let (id, _) = stream.hear_subscription().await;
    for code in (1..=16).map(Code::from_i32) {
        stream.answer(id, "yes").await;
        assert_eq!(next_reason(&mut harbor).await, "yes");
        let refusal = v1::Refusal {
            code: code.into(),
            ..v1::Refusal::default()
        };
        stream.say(id, Some(WireEvent::Refusal(refusal))).await;
        let event = next(&mut harbor).await;
        assert!(
            matches!(&event, Event::Refused(it) if it.code == code),
            "{event:?}"
        );
        assert_eq!(harbor.latest(), Some(event));
    }
}
