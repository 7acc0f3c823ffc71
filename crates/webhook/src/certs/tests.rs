use std::sync::Mutex;

use http::{Method, StatusCode};
use jiff::SignedDuration;
use prometheus::{Registry, proto::MetricFamily};
use proptest::prelude::*;
use serde_json::{Value, json};
use service_kit::{
    certificate::{Validity, parse},
    readiness::{Readiness, Status},
};

use super::*;
use crate::{
    metrics::{Metrics, RenewedObject},
    testing::{FakeApi, MUTATING, NAMESPACE, VALIDATING, config_map, secret},
};
use x509::{Authority, RootCertificate, ServerIdentity};

mod stored;

/// One replica.
struct Replica {
    keeper: Keeper,
    readiness: Readiness,
    serving: Serving,
    now: Arc<Mutex<Timestamp>>,
    registry: Registry,
}

impl Replica {
    fn new(api: &FakeApi) -> Self {
        let store = CertificateStore {
            client: api.client(),
            policy: RetryPolicy::default(),
            namespace: NAMESPACE.to_owned(),
            mutating: "connectors-approval".to_owned(),
            validating: "connectors-approval".to_owned(),
            creator: creator(),
        };
        let now = Arc::new(Mutex::new("2026-01-01T00:00:00Z".parse().unwrap()));
        let clock = Arc::clone(&now);
        let (readiness, start) = Readiness::starting();
        let ready = readiness.part("certificate");
        start.ready();
        let serving = Serving::default();
        let registry = Registry::new();
        let keeper = Keeper::new(
            store,
            Arc::new(move || *clock.lock().unwrap()),
            serving.clone(),
            crate::evaluator::trust().0,
            Metrics::register(&registry).unwrap().certificates,
            ready,
        );
        Self {
            keeper,
            readiness,
            serving,
            now,
            registry,
        }
    }

    fn ready(&self) -> bool {
        self.readiness.status() == Status::Ready
    }

    fn later(&self, time: SignedDuration) {
        let mut now = self.now.lock().unwrap();
        *now = now.checked_add(time).unwrap();
    }

    /// The counted writes of each object, as a scrape shows them.
    fn renewals(&self) -> Vec<String> {
        let families = self.registry.gather();
        let mut families = families.iter();
        let family = families.find(|it| it.name() == "connectors_certificate_renewals_total");
        let counters = family.into_iter().flat_map(MetricFamily::get_metric);
        counters
            .map(|it| it.get_counter().get_value().to_string())
            .collect()
    }

    async fn pass(&mut self) {
        self.keeper.pass().await.unwrap();
    }
}

fn stored(api: &FakeApi, name: &str) -> ServerIdentity {
    let [certificate, key] = ["tls.crt", "tls.key"].map(|key| api.text(&secret(name), key));
    ServerIdentity::read(certificate.as_bytes(), key.as_bytes()).unwrap()
}

fn bundle(api: &FakeApi) -> Vec<RootCertificate> {
    RootCertificate::bundle(api.text(&config_map("connectors-ca"), "ca.crt").as_bytes()).unwrap()
}

fn accepted(api: &FakeApi, now: Timestamp) -> bool {
    let roots = bundle(api);
    let told = [MUTATING, VALIDATING].map(|path| api.announced(path, 1).unwrap());
    told.iter().all(|text| *text == x509::bundle(&roots))
        && Server::ALL.into_iter().all(|server| {
            stored(api, server.secret()).verified(&roots, &server.names(NAMESPACE), now)
        })
}

#[test]
fn the_metric_names_the_secrets_of_the_servers() {
    let words = [RenewedObject::Webhook, RenewedObject::Evaluation].map(RenewedObject::as_str);
    assert_eq!(words, Server::ALL.map(Server::secret));
}

#[tokio::test(start_paused = true)]
async fn a_fresh_installation_gets_everything_in_the_order_of_trust() {
    let api = FakeApi::installed();
    let mut replica = Replica::new(&api);
    assert!(!replica.ready());
    let each = |writes| [writes; RenewedObject::WORDS.len()];
    assert_eq!(replica.renewals(), each("0"));
    replica.pass().await;
    assert_eq!(replica.renewals(), each("1"));
    let order = [
        secret("connectors-ca"),
        config_map("connectors-ca"),
        MUTATING.to_owned(),
        VALIDATING.to_owned(),
        secret("webhook-tls"),
        secret("evaluation-service-tls"),
    ];
    assert_eq!(api.writes(), order);
    assert!(accepted(&api, "2026-01-01T00:00:00Z".parse().unwrap()));
    assert!(replica.ready());
    for name in ["connectors-ca", "webhook-tls", "evaluation-service-tls"] {
        let stored = api.get(&secret(name)).unwrap();
        assert_eq!(stored["type"], "kubernetes.io/tls");
        assert_eq!(stored["data"].as_object().unwrap().len(), 2);
    }
    replica.pass().await;
    assert_eq!(
        api.writes(),
        Vec::<String>::new(),
        "nothing to do, nothing written"
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_elses_webhook_is_touched() {
    let api = FakeApi::installed();
    let before = api.get(MUTATING).unwrap();
    Replica::new(&api).pass().await;
    let mut after = api.get(MUTATING).unwrap();
    assert_eq!(api.announced(MUTATING, 0), None);
    let queries = api.queries();
    let calls = api.calls().into_iter().zip(queries);
    let mut writes =
        calls.filter(|((method, path), _)| method == Method::PATCH && path == MUTATING);
    let (_, query) = writes.next().unwrap();
    let mut options = query.split('&');
    assert!(options.any(|it| it == "fieldManager=webhook"), "{query}");
    let ours = &mut after["webhooks"][1]["clientConfig"];
    assert!(ours.as_object_mut().unwrap().remove("caBundle").is_some());
    after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    assert_eq!(after, before);
}

#[tokio::test(start_paused = true)]
async fn replicas_that_start_at_once_agree_on_one_authority() {
    for _ in 0..30 {
        let api = FakeApi::installed();
        let [mut one, mut two, mut three] = [(); 3].map(|()| Replica::new(&api));
        tokio::join!(one.pass(), two.pass(), three.pass());
        // Each sees in the end what all of them serve.
        tokio::join!(one.pass(), two.pass(), three.pass());
        api.writes();
        tokio::join!(one.pass(), two.pass(), three.pass());
        assert_eq!(api.writes(), Vec::<String>::new());
        assert!(one.ready() && two.ready() && three.ready());
        assert!(accepted(&api, "2026-01-01T00:00:00Z".parse().unwrap()));
        let shown = stored(&api, "webhook-tls").certified();
        for replica in [&one, &two, &three] {
            assert!(
                !replica.serving.show(Arc::clone(&shown)),
                "it was shown already"
            );
        }
        assert_eq!(bundle(&api).len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_that_rotate_at_once_agree_too() {
    for _ in 0..10 {
        let api = FakeApi::installed();
        let [mut one, mut two] = [(); 2].map(|()| Replica::new(&api));
        one.pass().await;
        two.pass().await;
        for days in [39, 39, 39, 39, 39] {
            for replica in [&one, &two] {
                replica.later(SignedDuration::from_hours(24 * days));
            }
            tokio::join!(one.pass(), two.pass());
        }
        for replica in [&one, &two] {
            replica.later(plan::KEPT * 2);
        }
        tokio::join!(one.pass(), two.pass());
        for replica in [&one, &two] {
            replica.later(plan::KEPT * 2);
        }
        tokio::join!(one.pass(), two.pass());
        let now = *one.now.lock().unwrap();
        assert!(accepted(&api, now));
        assert_eq!(bundle(&api).len(), 1);
    }
}

type Spoil<'a> = Box<dyn Fn(&mut Value) + 'a>;

#[tokio::test(start_paused = true)]
async fn what_is_of_no_use_is_replaced() {
    let other = Authority::make(NAMESPACE, "2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
    let other_key = json!(k8s_openapi::ByteString(
        other.pems()[1].clone().into_bytes()
    ));
    let spoils: [(&str, Spoil<'_>); 5] = [
        (
            "garbage",
            Box::new(|secret| secret["data"]["tls.crt"] = json!("AAAA")),
        ),
        (
            "no key",
            Box::new(|secret| secret["data"]["tls.key"] = json!("")),
        ),
        (
            "another's key",
            Box::new(|secret| secret["data"]["tls.key"] = other_key.clone()),
        ),
        ("no data", Box::new(|secret| secret["data"] = Value::Null)),
        (
            "another shape",
            Box::new(|secret| secret["data"] = json!([1])),
        ),
    ];
    for name in ["connectors-ca", "webhook-tls", "evaluation-service-tls"] {
        for (what, spoil) in &spoils {
            let api = FakeApi::installed();
            let mut replica = Replica::new(&api);
            replica.pass().await;
            let mut spoiled = api.get(&secret(name)).unwrap();
            spoil(&mut spoiled);
            api.put(&secret(name), spoiled);
            replica.pass().await;
            let now = *replica.now.lock().unwrap();
            assert!(accepted(&api, now), "{name}: {what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_is_made_again_within_a_minute() {
    let api = FakeApi::installed();
    let replica = Replica::new(&api);
    let now = *replica.now.lock().unwrap();
    let tasks = service_kit::shutdown::Tasks::new();
    let keeping = tokio::spawn(replica.keeper.keep(tasks.stop()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    for path in [
        secret("connectors-ca"),
        secret("webhook-tls"),
        secret("evaluation-service-tls"),
        config_map("connectors-ca"),
    ] {
        api.delete(&path);
        tokio::time::sleep(Duration::from_secs(59)).await;
        assert!(api.get(&path).is_some(), "{path}");
        assert!(accepted(&api, now), "{path}");
    }
    keeping.abort();
}

#[tokio::test(start_paused = true)]
async fn nothing_is_served_before_it_was_announced() {
    let api = FakeApi::installed();
    api.fail(|method, path| {
        (method == Method::PATCH && path == VALIDATING).then_some(StatusCode::FORBIDDEN)
    });
    let mut replica = Replica::new(&api);
    let error = service_kit::report(&replica.keeper.pass().await.unwrap_err());
    assert!(
        error.starts_with("cannot renew the certificates: "),
        "{error}"
    );
    assert!(!error.contains("PRIVATE"), "{error}");
    assert_eq!(api.get(&secret("webhook-tls")), None);
    assert!(!replica.ready());
    api.heal();
    replica.pass().await;
    assert!(replica.ready());
}

#[tokio::test(start_paused = true)]
async fn a_certificate_that_the_bundle_does_not_hold_is_not_taken_into_use() {
    let api = FakeApi::installed();
    Replica::new(&api).pass().await;
    let shown = stored(&api, "webhook-tls").certified();
    // Another authority's bundle, which this process may not correct.
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let other = Authority::make(NAMESPACE, now).unwrap();
    for (path, kind) in [
        (config_map("connectors-ca"), "ConfigMap"),
        (MUTATING.to_owned(), "Hook"),
    ] {
        let right = api.get(&path).unwrap();
        let mut wrong = right.clone();
        let text = other.pems()[0].clone();
        if kind == "ConfigMap" {
            wrong["data"]["ca.crt"] = json!(text);
        } else {
            let bytes = k8s_openapi::ByteString(text.into_bytes());
            wrong["webhooks"][1]["clientConfig"]["caBundle"] = json!(bytes);
        }
        api.put(&path, wrong);
        api.fail(|method, _| (method == Method::PATCH).then_some(StatusCode::FORBIDDEN));
        let mut replica = Replica::new(&api);
        replica.keeper.pass().await.unwrap_err();
        assert!(!replica.ready(), "{kind}");
        assert!(
            replica.serving.show(Arc::clone(&shown)),
            "{kind}: nothing was shown before"
        );
        api.heal();
        api.put(&path, right);
    }
}

#[tokio::test(start_paused = true)]
async fn without_its_configurations_a_replica_is_not_ready() {
    for path in [MUTATING, VALIDATING] {
        let api = FakeApi::installed();
        let configuration = api.get(path).unwrap();
        api.delete(path);
        let mut replica = Replica::new(&api);
        replica.pass().await;
        assert!(!replica.ready(), "{path}");
        assert!(api.get(&secret("evaluation-service-tls")).is_some());
        let mut foreign = configuration.clone();
        foreign["webhooks"].as_array_mut().unwrap().truncate(1);
        api.put(path, foreign);
        replica.pass().await;
        assert!(!replica.ready(), "{path}: none of its webhooks is ours");
        assert!(replica.keeper.unannounced, "{path}: it is told, and once");
        api.put(path, configuration);
        replica.pass().await;
        assert!(replica.ready(), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_fails_leaves_everything_as_it_is() {
    let api = FakeApi::installed();
    let mut replica = Replica::new(&api);
    replica.pass().await;
    let shown = stored(&api, "webhook-tls").certified();
    api.fail(|_, _| Some(StatusCode::SERVICE_UNAVAILABLE));
    let error = replica.keeper.pass().await.unwrap_err();
    assert!(matches!(error, PassError::Observe(_)));
    assert!(!replica.serving.show(shown), "it is still shown");
}

#[tokio::test(start_paused = true)]
async fn no_write_changes_what_was_not_read_before_it() {
    type Change = fn(&FakeApi, &str);
    let changes: [Change; 3] = [
        |api, path| api.put(path, api.get(path).unwrap()),
        |api, path| api.delete(path),
        |api, path| {
            let mut other = api.get(path).unwrap();
            other["metadata"] = json!({"name": other["metadata"]["name"]});
            api.delete(path);
            api.put(path, other);
        },
    ];
    for change in changes {
        let api = FakeApi::installed();
        let mut replica = Replica::new(&api);
        replica.pass().await;
        let now = *replica.now.lock().unwrap();
        let store = &replica.keeper.store;
        let observed = observe(store).await.unwrap();
        let roots = observed.stored.bundle.roots.clone();
        let steps = [
            (CertificateStep::MakeAuthority, secret("connectors-ca")),
            (
                CertificateStep::Issue(Server::Webhook),
                secret("webhook-tls"),
            ),
            (
                CertificateStep::Issue(Server::Evaluation),
                secret("evaluation-service-tls"),
            ),
            (
                CertificateStep::Publish(roots.clone()),
                config_map("connectors-ca"),
            ),
            (CertificateStep::Announce(roots), MUTATING.to_owned()),
        ];
        for (step, path) in steps {
            change(&api, &path);
            let before = api.get(&path);
            let result = apply(store, &observed, &step, now).await;
            let is_gone = result.as_ref().is_err_and(|error| match error {
                ApplyError::Write(call) => call.status() == Some(404),
                ApplyError::Make(_) => false,
            });
            assert!(
                result.is_err_and(|error| error.is_conflict()) || is_gone,
                "{path}"
            );
            assert_eq!(api.get(&path), before, "{path}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_is_always_overtaken_ends() {
    let api = FakeApi::installed();
    api.fail(|method, _| (method == Method::PATCH).then_some(StatusCode::CONFLICT));
    let error = Replica::new(&api).keeper.pass().await.unwrap_err();
    assert!(matches!(error, PassError::Unsettled));
}

#[test]
fn replicas_wait_three_to_five_quarters_of_a_pause() {
    let (least, most) = (PERIOD * 3 / 4, PERIOD * 5 / 4);
    let pauses: Vec<Duration> = (0..1000).map(|_| jittered(PERIOD)).collect();
    assert!(pauses.iter().all(|it| (least..=most).contains(it)));
    assert!(pauses.iter().any(|it| *it < PERIOD) && pauses.iter().any(|it| *it > PERIOD));
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn an_authority_speaks_for_its_namespace_only() {
    let now = at("2026-01-01T00:00:00Z");
    let authority = Authority::make(NAMESPACE, now).unwrap();
    for (name, accepted) in [
        ("webhook.connectors-system.svc", true),
        ("webhook.connectors-system.svc.cluster.local", true),
        ("webhook.other.svc", false),
        ("kubernetes.default.svc", false),
    ] {
        let names = [name.to_owned()];
        let pair = authority.issue(&names, now).unwrap();
        let roots = std::slice::from_ref(&authority.root);
        assert_eq!(pair.verified(roots, &names, now), accepted, "{name}");
        assert!(!pair.verified(roots, &[], now), "no name is not every name");
        assert!(!pair.verified(&[], &names, now), "no root verifies nothing");
    }
}

#[test]
fn an_authority_verifies_from_its_beginning_until_just_before_its_end() {
    let authority = Authority::make(NAMESPACE, at("2026-01-01T00:00:00Z")).unwrap();
    let Validity { from, until } = authority.root.validity;
    let second = SignedDuration::from_secs(1);
    let names = Server::Webhook.names(NAMESPACE);
    for (time, verifies) in [
        (from - second, false),
        (from, true),
        (until - second, true),
        (until, false),
    ] {
        // It is valid by itself at this time.
        let pair = authority.issue(&names, time).unwrap();
        let roots = std::slice::from_ref(&authority.root);
        assert_eq!(pair.verified(roots, &names, time), verifies, "{time}");
    }
}

#[test]
fn each_authority_has_a_name_of_its_own() {
    let [one, two] = [(); 2].map(|()| {
        let authority = Authority::make(NAMESPACE, at("2026-01-01T00:00:00Z")).unwrap();
        let der = pem::parse(&authority.pems()[0]).unwrap().into_contents();
        parse(&der.into()).unwrap().subject().to_string()
    });
    assert!(one.starts_with("CN=connectors-approval "), "{one}");
    assert_ne!(one, two);
}

#[test]
fn an_authority_is_read_back_with_its_own_key_only() {
    let now = at("2026-01-01T00:00:00Z");
    let [one, two] = [(); 2].map(|()| Authority::make(NAMESPACE, now).unwrap());
    let ([certificate, key], [_, other]) = (one.pems(), two.pems());
    let read = |certificate: &str, key: &str| {
        Authority::read(certificate.as_bytes(), key.as_bytes()).map(|read| read.root)
    };
    assert_eq!(read(&certificate, &key), Some(one.root.clone()));
    assert_eq!(read(&certificate, &other), None);
    assert_eq!(read(&certificate.repeat(2), &key), None, "which of them?");
    let [leaf, leaf_key] = one.issue(&["a".to_owned()], now).unwrap().pems();
    assert_eq!(
        read(&leaf, &leaf_key),
        None,
        "a serving certificate is no authority"
    );
    assert_eq!(RootCertificate::bundle(leaf.as_bytes()), None);
    assert_eq!(RootCertificate::bundle(b""), Some(Vec::new()));
    let both = x509::bundle(&[one.root.clone(), two.root.clone()]);
    assert_eq!(
        RootCertificate::bundle(both.as_bytes()),
        Some(vec![one.root, two.root])
    );
}

#[test]
fn a_serving_certificate_ends_no_later_than_its_authority() {
    let now = at("2026-01-01T00:00:00Z");
    let authority = Authority::make(NAMESPACE, now).unwrap();
    let late = at("2026-12-20T00:00:00Z");
    let pair = authority
        .issue(&["webhook.connectors-system.svc".to_owned()], late)
        .unwrap();
    assert_eq!(pair.validity.until, authority.root.validity.until);
    assert_eq!(x509::made(pair.validity), late);
}

proptest! {
    #[test]
    fn nothing_that_is_stored_makes_reading_panic(bytes: Vec<u8>, text in "\\PC{0,64}") {
        let pem = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
        for input in [bytes.as_slice(), pem.as_bytes()] {
            prop_assert!(Authority::read(input, input).is_none());
            prop_assert!(ServerIdentity::read(input, input).is_none());
            let _ = RootCertificate::bundle(input);
        }
    }
}
