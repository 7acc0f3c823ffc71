//! Callers that hang up at each moment at which an answer waits for something: nothing stays taken, and the next caller is
//! answered.

use std::{convert::Infallible, future::poll_fn, pin::Pin, task::Poll, time::Duration};

use futures::{StreamExt, stream};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::{task::JoinHandle, time::timeout};

use super::{
    generate::{NAMESPACES, review},
    world::{Right, Trait, get_pods, update_connectors},
    *,
};

/// What other calls of the same address are doing.
enum Others {
    /// Nothing.
    Away,
    /// These reviews are being answered.
    Asking(Vec<Case>),
    /// A body of so many bytes does not end.
    Sending(usize),
}

/// A body that comes in pieces, with a pause before each.
fn body(text: String) -> impl hyper::body::Body<Data = Bytes, Error = Infallible> {
    let pieces: Vec<Bytes> = text
        .into_bytes()
        .chunks(40_000)
        .map(Bytes::copy_from_slice)
        .collect();
    let pieces = stream::iter(pieces).then(async |piece| {
        tokio::time::sleep(Duration::from_millis(1)).await;
        Ok::<_, Infallible>(Frame::data(piece))
    });
    StreamBody::new(Box::pin(pieces))
}

fn post<B>(page: &str, body: B) -> Request<B> {
    let request = Request::post(page).header("content-type", "application/json");
    request.body(body).unwrap()
}

async fn ask(handler: Handler, case: Case) -> u16 {
    let request = post(case.page, body(case.review.to_string()));
    let peer = Ipv4Addr::new(10, 0, 0, 1).into();
    handler.answer(peer, request).await.status().as_u16()
}

/// Lets go of a call when it has waited so many times; tells whether it was answered before.
async fn hang_up(call: impl Future<Output = u16>, mut waits: usize) -> Option<u16> {
    let mut call: Pin<Box<dyn Future<Output = u16>>> = Box::pin(call);
    let until = poll_fn(|cx| match call.as_mut().poll(cx) {
        Poll::Ready(status) => Poll::Ready(Some(status)),
        Poll::Pending if waits == 0 => Poll::Ready(None),
        Poll::Pending => {
            waits -= 1;
            Poll::Pending
        }
    });
    until.await
}

impl Others {
    fn begin(&self, webhook: &Webhook) -> Vec<JoinHandle<()>> {
        let handler = &webhook.handler;
        match self {
            Self::Away => Vec::new(),
            Self::Asking(cases) => {
                let ask = |case: &Case| {
                    let call = ask(handler.clone(), case.clone());
                    tokio::spawn(async move {
                        call.await;
                    })
                };
                cases.iter().map(ask).collect()
            }
            Self::Sending(bytes) => {
                let piece = Bytes::from(vec![b' '; *bytes]);
                let frames = stream::iter([Ok::<_, Infallible>(Frame::data(piece))]);
                let body = StreamBody::new(Box::pin(frames.chain(stream::pending())));
                let (handler, peer) = (handler.clone(), Ipv4Addr::new(10, 0, 0, 1).into());
                let call = async move {
                    handler
                        .answer(peer, post("/validate/accessrequests", body))
                        .await;
                };
                vec![tokio::spawn(call)]
            }
        }
    }
}

/// Hangs up after each number of waits; tells how many there are.
async fn at_each_wait(webhook: &Webhook, others: &Others, case: &Case) -> Result<usize, String> {
    for waits in 0..10_000 {
        let busy = others.begin(webhook);
        if !busy.is_empty() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let status = hang_up(ask(webhook.handler.clone(), case.clone()), waits).await;
        for call in busy {
            call.abort();
            drop(call.await);
        }
        // What is being read in another thread is read to its end.
        let free = async {
            while webhook.handler.places() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        if timeout(Duration::from_mins(1), free).await.is_err() {
            let taken = webhook.handler.places();
            return Err(format!(
                "{taken} places are taken after {waits} waits: {}",
                case.review
            ));
        }
        if status.is_some() {
            return Ok(waits);
        }
    }
    Err("it is never answered".to_owned())
}

fn in_virtual_time<F: Future<Output = ()>>(test: F) {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(test);
}

const TARGETS: [Target; 7] = [
    Target::PodRight,
    Target::AllRight,
    Target::Pod,
    Target::Requests,
    Target::Policies,
    Target::Config,
    Target::Class,
];

#[test]
fn a_caller_that_hangs_up_at_any_wait_leaves_nothing_taken() {
    for_each_seed(20, async |seed| {
        let (mut world, cases, rego) = scene(seed);
        let slow = Mood::Slow(Duration::from_millis(50));
        world.moods = TARGETS.into_iter().map(|target| (target, slow)).collect();
        let webhook = Webhook::of(world, rego);
        for case in &cases {
            at_each_wait(&webhook, &Others::Away, case).await?;
        }
        Ok(())
    });
}

fn author() -> Value {
    json!({"username": "ada"})
}

/// A world in which ada may do all that is needed for connectors `c10` to `c29`, and get pods.
fn for_ada() -> World {
    let mut world = World::default();
    let pod = json!({
        "metadata": {"name": "build", "namespace": "team", "uid": "u1"},
        "spec": {"serviceAccountName": "builder"}, "status": {"phase": "Running"},
    });
    world
        .pods
        .insert(("team".to_owned(), "build".to_owned()), pod);
    let names = (10..30).map(|it| format!("c{it}")).collect();
    for (deed, names) in [(get_pods(), None), (update_connectors(), Some(names))] {
        world.rights.push(Right {
            who: vec![Trait::User("ada".to_owned())],
            deed,
            namespace: None,
            names,
        });
    }
    world
}

fn request(padding: usize) -> Case {
    let notes: serde_json::Map<_, _> = (0..padding).map(|it| (it.to_string(), json!(""))).collect();
    let object = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
        "metadata": {"name": "r", "annotations": notes},
        "spec": {
            "subject": {"kind": "ServiceAccount", "name": "builder"},
            "connectorRef": {"name": "harbor"},
            "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "build", "uid": "u1"}},
        },
    });
    let review = review(
        &mut Dice::of(1),
        "accessrequests",
        NAMESPACES[0],
        &author(),
        &object,
    );
    Case {
        page: "/validate/accessrequests",
        review,
        flaws: Vec::new(),
    }
}

fn policy(names: std::ops::Range<usize>, has_rego: bool) -> Case {
    let names: Vec<String> = names.map(|it| format!("c{it}")).collect();
    let rules = |resource: &str| json!({"rules": [{"apiGroups": ["connectors.alauda.io"], "resources": [resource], "verbs": ["*"]}]});
    let mut spec = json!({
        "connector": {"names": names},
        "checkGrantedPermission": {
            "requesters": [{"kind": "ServiceAccount", "name": "a"}],
            "spec": {
                "checks": [{"name": "c", "selector": {
                    "labels": {"a": "{.object.metadata.labels.a}"},
                    "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"},
                }}],
                "permissions": {"roleTemplate": rules("connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}")},
            },
        },
    });
    if has_rego {
        let rego = json!({"rego": "package approval\noutput := {}"});
        spec["checkGrantedPermission"]["spec"]["checks"][0]["state"] = rego;
    }
    let object = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy", "metadata": {"name": "p"}, "spec": spec,
    });
    let review = review(
        &mut Dice::of(1),
        "accesspolicies",
        NAMESPACES[0],
        &author(),
        &object,
    );
    Case {
        page: "/validate/accesspolicies",
        review,
        flaws: Vec::new(),
    }
}

/// In each row the others take all of one thing that the caller needs.
#[test]
fn a_caller_that_hangs_up_while_it_waits_for_its_share_leaves_nothing_taken() {
    in_virtual_time(async {
        let hangs = |target: &Target| (target.clone(), Mood::Hangs);
        let names: Vec<Target> = (10..30)
            .map(|it| Target::NameRight(format!("c{it}")))
            .collect();
        let rows = [
            (
                "calls",
                vec![hangs(&Target::Pod)],
                Others::Asking(vec![request(0); 64]),
                request(0),
                "/validate/accessrequests",
            ),
            (
                "calls of a mutation",
                vec![hangs(&Target::Pod)],
                Others::Asking(vec![request(0); 64]),
                request(0),
                "/mutate/accessrequests",
            ),
            (
                "calls of a policy",
                vec![hangs(&Target::Pod)],
                Others::Asking(vec![request(0); 64]),
                policy(10..12, false),
                "",
            ),
            (
                "calls of a count",
                vec![hangs(&Target::Requests)],
                Others::Asking(vec![request(0); 64]),
                request(0),
                "",
            ),
            (
                "names",
                names[..10].iter().map(hangs).collect(),
                Others::Asking(vec![policy(10..20, false)]),
                policy(20..29, false),
                "",
            ),
            (
                "rego",
                vec![],
                Others::Asking(vec![policy(10..12, true)]),
                policy(12..14, true),
                "",
            ),
            ("bodies", vec![], Others::Sending(2 << 20), request(0), ""),
            (
                "trees",
                vec![hangs(&Target::Pod)],
                Others::Asking(vec![request(5000); 3]),
                request(5000),
                "",
            ),
        ];
        for (row, moods, others, mut case, page) in rows {
            let mut world = for_ada();
            world.moods.extend(moods);
            let webhook = Webhook::of(world, (row != "rego").then(Vec::new));
            if !page.is_empty() {
                case.page = match page {
                    "/mutate/accessrequests" => "/mutate/accessrequests",
                    _ => "/validate/accessrequests",
                };
                case.review["request"]["object"]["spec"]["context"]["objectRef"]
                    .as_object_mut()
                    .unwrap()
                    .remove("uid");
            }
            let reached = webhook.handler.limits().all_counted();
            let waits = at_each_wait(&webhook, &others, &case).await;
            assert!(waits.as_ref().is_ok_and(|it| *it > 1), "{row}: {waits:?}");
            let reached_now = webhook.handler.limits().all_counted();
            assert!(reached_now > reached, "{row}: the share was never awaited");
        }
    });
}
