//! What is stored, of every kind: nearly of our name, many, being deleted; and passes that are cut off while they change it.

use std::task::Poll;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_webhook_of_a_service_with_nearly_our_name_is_not_touched() {
    for (namespace, service) in [
        ("connectors-system", "webhook-2"),
        ("connectors-system", "webhoo"),
        ("connectors-system", "Webhook"),
        ("connectors-system", "evaluation-service"),
        ("connectors-system-2", "webhook"),
        ("connectors", "webhook"),
        ("Connectors-System", "webhook"),
    ] {
        let api = FakeApi::installed();
        for path in [MUTATING, VALIDATING] {
            let mut configuration = api.get(path).unwrap();
            let other = &mut configuration["webhooks"][0];
            // Its name begins as ours does.
            other["name"] = json!("accessrequests.connectors.alauda.io.example.com");
            other["clientConfig"]["service"] = json!({"namespace": namespace, "name": service});
            api.put(path, configuration);
        }
        let mut replica = Replica::new(&api);
        replica.pass().await;
        assert!(replica.ready());
        for path in [MUTATING, VALIDATING] {
            assert_eq!(api.announced(path, 0), None, "{namespace}/{service}");
            assert!(api.announced(path, 1).is_some());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_webhook_of_ours_is_told_however_many_there_are() {
    for count in [0, 1, 2, 5, 600] {
        let api = FakeApi::installed();
        let mut configuration = api.get(VALIDATING).unwrap();
        let ours = configuration["webhooks"][1].clone();
        let hooks = (0..count).map(|number| {
            let mut hook = ours.clone();
            hook["name"] = json!(format!("hook-{number}.example.com"));
            hook
        });
        configuration["webhooks"] = hooks.collect();
        api.put(VALIDATING, configuration);
        let mut replica = Replica::new(&api);
        replica.pass().await;
        assert_eq!(replica.ready(), count > 0, "{count}");
        let roots = x509::bundle(&bundle(&api));
        for hook in 0..count {
            assert_eq!(
                api.announced(VALIDATING, hook).as_ref(),
                Some(&roots),
                "{hook}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_being_deleted_serves_until_it_is_gone_and_is_then_made_again() {
    for path in [
        secret("connectors-ca"),
        secret("webhook-tls"),
        secret("evaluation-service-tls"),
        config_map("connectors-ca"),
        MUTATING.to_owned(),
        VALIDATING.to_owned(),
    ] {
        let api = FakeApi::installed();
        let mut replica = Replica::new(&api);
        replica.pass().await;
        let mut kept = api.get(&path).unwrap();
        kept["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        kept["metadata"]["finalizers"] = json!(["example.com/kept"]);
        api.put(&path, kept);
        api.writes();
        let mut other = Replica::new(&api);
        for replica in [&mut replica, &mut other] {
            replica.pass().await;
            assert!(replica.ready(), "{path}");
        }
        assert_eq!(api.writes(), Vec::<String>::new(), "{path}");
        // It is still renewed while it is kept, and made again when it is gone.
        for replica in [&mut replica, &mut other] {
            replica.later(SignedDuration::from_hours(24 * 45));
            replica.pass().await;
        }
        let now = *replica.now.lock().unwrap();
        assert!(accepted(&api, now), "{path}");
        if ![MUTATING, VALIDATING].contains(&path.as_str()) {
            api.delete(&path);
            replica.pass().await;
            assert!(accepted(&api, now), "{path}");
        }
    }
}

/// Polls a pass until it has waited so many times, and lets go of it then; tells whether it ended before.
async fn cut(replica: &mut Replica, mut waits: usize) -> bool {
    let mut pass = Box::pin(replica.keeper.pass());
    let until = std::future::poll_fn(|cx| match pass.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(true),
        Poll::Pending if waits == 0 => Poll::Ready(false),
        Poll::Pending => {
            waits -= 1;
            Poll::Pending
        }
    });
    until.await
}

/// Whether each caller accepts what is stored for each server.
fn works(api: &FakeApi, now: Timestamp) -> bool {
    let mut trusted = vec![bundle(api)];
    for path in [MUTATING, VALIDATING] {
        let text = api.announced(path, 1).unwrap();
        trusted.push(RootCertificate::bundle(text.as_bytes()).unwrap());
    }
    Server::ALL.into_iter().all(|server| {
        let pair = stored(api, server.secret());
        let names = server.names(NAMESPACE);
        trusted
            .iter()
            .all(|roots| pair.verified(roots, &names, now))
    })
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_is_cut_at_any_wait_is_finished_by_another_replica() {
    let days = |days: i64| SignedDuration::from_hours(24 * days);
    // The times between the passes before, and before the one that is cut.
    let rows = [
        ("a fresh installation", vec![]),
        ("old certificates", vec![days(0), days(41)]),
        (
            "an old authority",
            vec![days(0), days(40), days(40), days(40), days(40), days(24)],
        ),
        (
            "a new authority that is known",
            vec![
                days(0),
                days(40),
                days(40),
                days(40),
                days(40),
                days(24),
                plan::SPREADING,
            ],
        ),
        (
            "an authority that is needed no more",
            vec![days(0), days(185), plan::SPREADING, plan::KEPT],
        ),
    ];
    for (row, times) in rows {
        for waits in 0.. {
            let api = FakeApi::installed();
            let [mut one, mut two] = [(); 2].map(|()| Replica::new(&api));
            for (store, time) in times.iter().enumerate() {
                one.later(*time);
                two.later(*time);
                if store + 1 < times.len() {
                    one.pass().await;
                }
            }
            let now = *two.now.lock().unwrap();
            let has_worked = !times.is_empty() && works(&api, now);
            let is_done = cut(&mut one, waits).await;
            assert!(
                !has_worked || works(&api, now),
                "{row}, cut after {waits} waits"
            );
            drop(one);
            two.pass().await;
            assert!(
                accepted(&api, now) && two.ready(),
                "{row}, cut after {waits} waits"
            );
            if is_done {
                break;
            }
        }
    }
}
