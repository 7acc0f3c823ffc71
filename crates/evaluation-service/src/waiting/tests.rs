//! An authorizer that asks over a network, behind each call of the service.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};

use authz::{Attributes, Authorizer, AuthorizerDecision, ChainLink, Verdict};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evaluation_api::POD_TOKEN_AUDIENCE;
use evaluation_api::v1::evaluation_client::EvaluationClient;
use evaluation_api::v1::watch_access_response::Event;
use evaluation_api::v1::{
    AccessAnswer, AccessDecision, AccessQuestion, BatchCheckAccessRequest, CheckAccessRequest,
    ExplainRequest, ReviewTokenRequest, Subscribe, WatchAccessRequest,
    watch_access_request::Action,
};
use futures::{StreamExt, stream};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::client::Body;
use prometheus::Registry;
use serde_json::{Value, json};
use service_kit::readiness::Readiness;
use service_kit::serve::UNLIMITED;
use service_kit::shutdown::Tasks;
use tokio::io::duplex;
use tokio::time::{Instant, sleep};
use tonic::transport::{Channel, Endpoint};

use super::*;
use crate::auth::{CallerReviews, IndexedRights};
use crate::caller_quotas::CallerLimits;
use crate::clock;
use crate::fixtures::{question, role, role_binding};
use crate::gate::Gate;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::server::converse;
use crate::service::Service;
use crate::slots::Slots;
use crate::world::Shared;
use rego_workers::WorkerPool;

/// What comes of asking.
#[derive(Clone, Copy, Debug)]
enum Network {
    Says(AuthorizerDecision),
    Fails,
    Hangs,
}

#[derive(Clone, Debug)]
struct Remote {
    network: Network,
    /// Its decision until it has learned.
    unknown: AuthorizerDecision,
    memory: Arc<Mutex<Option<AuthorizerDecision>>>,
    asked: Arc<Mutex<Vec<UserInfo>>>,
}

impl Remote {
    fn new(network: Network, unknown: AuthorizerDecision) -> Self {
        Self {
            network,
            unknown,
            memory: Arc::default(),
            asked: Arc::default(),
        }
    }
}

impl Authorizer for Remote {
    fn authorize(&self, _: &Attributes<'_>) -> Verdict {
        Verdict {
            decision: self.memory.lock().unwrap().unwrap_or(self.unknown),
            reason: "so it says".to_owned(),
        }
    }

    fn learn(&self, attributes: &Attributes<'_>) -> Option<Learning> {
        if self.memory.lock().unwrap().is_some() {
            return None;
        }
        self.asked.lock().unwrap().push(attributes.user.info());
        let (network, memory) = (self.network, Arc::clone(&self.memory));
        Some(Box::pin(async move {
            match network {
                Network::Says(decision) => {
                    sleep(LONGEST / 2).await;
                    *memory.lock().unwrap() = Some(decision);
                }
                Network::Fails => {}
                Network::Hangs => pending().await,
            }
        }))
    }
}

#[derive(Clone, Copy, Debug)]
enum Call {
    Check,
    Batch,
    Watch,
    Explain,
    Token,
}

const CALLS: [Call; 5] = [
    Call::Check,
    Call::Batch,
    Call::Watch,
    Call::Explain,
    Call::Token,
];

fn token() -> String {
    let exp = clock::now().as_second() + 3600;
    let claims = json!({"aud": POD_TOKEN_AUDIENCE, "exp": exp}).to_string();
    format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
}

/// The API server knows the token.
async fn review(request: Request<Body>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let mut review: Value = serde_json::from_slice(&body).unwrap();
    let name = "system:serviceaccount:devops:builder";
    let pod = json!({
        "authentication.kubernetes.io/pod-name": ["deploy"], "authentication.kubernetes.io/pod-uid": ["pod-uid"],
    });
    review["status"] = json!({
        "authenticated": true, "audiences": review["spec"]["audiences"],
        "user": {"username": name, "uid": "account-uid", "extra": pod},
    });
    Ok(Response::new(Full::new(Bytes::from(review.to_string()))))
}

/// Asks the whole service in one way, where a further authorizer stands at this place of the chain. There is a standing
/// permission, or none.
async fn ask(call: Call, place: usize, remote: &Remote, standing: bool) -> AccessAnswer {
    let shared = Arc::new(Shared::default());
    shared.change(|world| {
        let link = ChainLink::Other("remote", Box::new(remote.clone()));
        world.chain.links.insert(place, link);
        if standing {
            let rbac = &mut world.chain.rbac;
            rbac.apply(&role("s", "connectors/apis")).unwrap();
            rbac.apply(&role_binding("s")).unwrap();
        }
        Vec::new()
    });
    shared.read().hear_everything(clock::now());
    let client = kube::Client::new(tower::service_fn(review), "default");
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let limits = CallerLimits {
        calls: 1,
        streams: 1,
    };
    let (readiness, start) = Readiness::starting();
    start.ready();
    let rego = WorkerPool::without_workers();
    let tasks = Tasks::new();
    let service = Service {
        callers: CallerReviews::new(
            client.clone(),
            metrics.clone(),
            limits,
            IndexedRights::none(),
            None,
        ),
        shared,
        live: Live::new(client),
        slots: Slots::new(rego.workers()),
        rego,
        answers: Arc::default(),
        policies: Arc::default(),
        programs: Arc::default(),
        memory: Arc::default(),
        readiness,
        metrics,
        max_staleness: Duration::from_secs(90),
        stop: tasks.stop(),
    };
    let (gate, stop) = (Gate::new(service).for_user(0), tasks.stop());
    let connector = tower::service_fn(move |_: Uri| {
        let (near, far) = duplex(64 * 1024);
        tokio::spawn(converse(far, gate.clone(), stop.clone(), UNLIMITED));
        async { Ok::<_, io::Error>(TokioIo::new(near)) }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    let channel = endpoint.connect_with_connector_lazy(connector);
    call.ask(EvaluationClient::new(channel)).await
}

impl Call {
    async fn ask(self, mut client: EvaluationClient<Channel>) -> AccessAnswer {
        let question = AccessQuestion::from(question());
        match self {
            Self::Check => {
                let question = Some(question);
                let answer = client.check_access(CheckAccessRequest { question }).await;
                answer.unwrap().into_inner().answer.unwrap()
            }
            Self::Batch => {
                let asked = BatchCheckAccessRequest {
                    questions: vec![question],
                    details: true,
                };
                let answer = client.batch_check_access(asked).await;
                answer.unwrap().into_inner().answers.remove(0)
            }
            Self::Watch => {
                let question = Some(question);
                let subscribe = Some(Action::Subscribe(Subscribe { id: 1, question }));
                let said = stream::iter([WatchAccessRequest { action: subscribe }]);
                let heard = client.watch_access(said.chain(stream::pending())).await;
                let first = heard.unwrap().into_inner().message().await;
                match first.unwrap().unwrap().event {
                    Some(Event::Answer(answer)) => answer,
                    other => panic!("{other:?}"),
                }
            }
            Self::Explain => {
                let asked = ExplainRequest {
                    subject: question.subject,
                    connector: question.connector,
                    permission: question.permission,
                    pod: question.pod,
                };
                let answer = client.explain(asked).await;
                answer.unwrap().into_inner().answer.unwrap()
            }
            Self::Token => {
                let asked = ReviewTokenRequest {
                    token: token(),
                    connector: question.connector,
                    permission: question.permission,
                    verb: question.verb,
                };
                let answer = client.review_token(asked).await;
                answer.unwrap().into_inner().answer.unwrap()
            }
        }
    }
}

/// The end of the chain.
const LAST: usize = 2;

#[tokio::test(start_paused = true)]
async fn a_yes_that_is_learned_elsewhere_is_the_first_answer_and_names_its_authorizer() {
    for call in CALLS {
        let network = Network::Says(AuthorizerDecision::Allow);
        let remote = Remote::new(network, AuthorizerDecision::NoOpinion);
        let answer = ask(call, LAST, &remote, false).await;
        assert_eq!(
            answer.decision(),
            AccessDecision::AllowedStanding,
            "{call:?}"
        );
        assert_eq!(answer.reason, "remote: so it says");
        let binding = answer.binding.unwrap();
        assert_eq!((&*binding.kind, &*binding.name), ("Authorizer", "remote"));
        let asked = remote.asked.lock().unwrap().pop().unwrap();
        let extra = json!({
            "authentication.kubernetes.io/pod-name": ["deploy"], "authentication.kubernetes.io/pod-uid": ["pod-uid"],
        });
        assert_eq!(json!(asked.extra), extra, "{call:?}");
        assert_eq!(
            asked.username.unwrap(),
            "system:serviceaccount:devops:builder"
        );
        // Only the API server knows it.
        let expected = matches!(call, Call::Token).then_some("account-uid");
        assert_eq!(asked.uid.as_deref(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_authorizer_that_fails_or_does_not_answer_in_time_allows_nothing() {
    for network in [Network::Fails, Network::Hangs] {
        for call in CALLS {
            let remote = Remote::new(network, AuthorizerDecision::NoOpinion);
            let begun = Instant::now();
            let answer = ask(call, LAST, &remote, false).await;
            assert_eq!(
                answer.decision(),
                AccessDecision::Denied,
                "{network:?} {call:?}"
            );
            assert!(
                answer.reason.starts_with("no permission for"),
                "{}",
                answer.reason
            );
            assert!(begun.elapsed() < 2 * LONGEST, "{network:?} {call:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_authorizer_that_may_refuse_refuses_until_it_knows() {
    for (network, expected) in [
        (
            Network::Says(AuthorizerDecision::NoOpinion),
            AccessDecision::AllowedStanding,
        ),
        (
            Network::Says(AuthorizerDecision::Deny),
            AccessDecision::Denied,
        ),
        (Network::Fails, AccessDecision::Denied),
        (Network::Hangs, AccessDecision::Denied),
    ] {
        for call in CALLS {
            let remote = Remote::new(network, AuthorizerDecision::Deny);
            let answer = ask(call, 0, &remote, true).await;
            assert_eq!(answer.decision(), expected, "{network:?} {call:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_rbac_allows_waits_for_no_later_authorizer() {
    for call in CALLS {
        let remote = Remote::new(Network::Hangs, AuthorizerDecision::NoOpinion);
        let answer = ask(call, LAST, &remote, true).await;
        assert_eq!(
            answer.decision(),
            AccessDecision::AllowedStanding,
            "{call:?}"
        );
        assert_eq!(answer.binding.unwrap().kind, "RoleBinding");
        assert!(remote.asked.lock().unwrap().is_empty(), "{call:?}");
    }
}
