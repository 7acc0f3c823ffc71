//! The protocol of the stream, spoken by hand.

use evaluation_api::refusal::Reason;
use evaluation_api::v1::evaluation_client::EvaluationClient;
use evaluation_api::v1::{
    CheckAccessRequest, Subscribe, WatchAccessRequest, WatchAccessResponse,
    watch_access_request::Action, watch_access_response::Event,
};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};

use crate::fake_api::token;
use crate::world::{SOON, World, question};

pub(crate) struct Spoken {
    pub(crate) said: mpsc::Sender<WatchAccessRequest>,
    pub(crate) heard: Streaming<WatchAccessResponse>,
}

pub(crate) fn with_token<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let token = format!("Bearer {}", token("good-somebody"));
    let token = token.parse().unwrap();
    request.metadata_mut().insert("authorization", token);
    request
}

impl Spoken {
    async fn begin(world: &World) -> Self {
        Self::begin_on(world.channel()).await.unwrap()
    }

    pub(crate) async fn begin_on(channel: Channel) -> Result<Self, Status> {
        let (said, unsaid) = mpsc::channel(8);
        let request = with_token(ReceiverStream::new(unsaid));
        let mut stub = EvaluationClient::new(channel);
        let heard = stub.watch_access(request).await?.into_inner();
        Ok(Self { said, heard })
    }

    pub(crate) async fn subscribe(&self, id: u64) {
        let action = Some(Action::Subscribe(Subscribe {
            id,
            question: Some(question().into()),
        }));
        self.said.send(WatchAccessRequest { action }).await.unwrap();
    }

    async fn hear(&mut self) -> Result<Option<WatchAccessResponse>, Status> {
        timeout(SOON, self.heard.message()).await.unwrap()
    }
}

#[tokio::test]
async fn an_id_that_is_used_twice_ends_the_stream() {
    let world = World::new().await;
    let mut spoken = Spoken::begin(&world).await;
    spoken.subscribe(5).await;
    let first = spoken.hear().await.unwrap().unwrap();
    assert_eq!(first.id, 5);
    assert!(matches!(first.event, Some(Event::Answer(_))));
    spoken.subscribe(5).await;
    let end = spoken.hear().await.unwrap_err();
    assert_eq!(end.code(), Code::InvalidArgument);
    assert_eq!(end.message(), "the id 5 was used before on this stream");
}

#[tokio::test]
async fn who_was_never_allowed_anything_is_refused_some_questions_and_no_more() {
    let world = World::new().await;
    for namespace in ["not-allowed", ""] {
        let Spoken { said, mut heard } = Spoken::begin(&world).await;
        let asking = async move {
            for id in 0..200_000 {
                let mut asked = question();
                namespace.clone_into(&mut asked.connector.namespace);
                let question = Some(asked.into());
                let action = Some(Action::Subscribe(Subscribe { id, question }));
                if said.send(WatchAccessRequest { action }).await.is_err() {
                    return;
                }
            }
        };
        let mut refused = 0;
        let hearing = async {
            loop {
                match timeout(SOON, heard.message()).await.unwrap() {
                    Ok(Some(_)) => refused += 1,
                    Ok(None) => panic!("it ended without a word"),
                    Err(end) => return end,
                }
            }
        };
        let (end, ()) = tokio::join!(hearing, asking);
        assert_eq!(Reason::of(&end), Some(Reason::TooManyIds), "{end}");
        assert!((100..10_000).contains(&refused), "{refused}");
    }
}

#[tokio::test]
async fn a_message_without_an_action_ends_the_stream() {
    let world = World::new().await;
    let mut spoken = Spoken::begin(&world).await;
    let nothing = WatchAccessRequest { action: None };
    spoken.said.send(nothing).await.unwrap();
    let end = spoken.hear().await.unwrap_err();
    assert_eq!(end.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_question_without_fields_is_refused() {
    let world = World::new().await;
    let mut spoken = Spoken::begin(&world).await;
    let action = Some(Action::Subscribe(Subscribe {
        id: 1,
        question: None,
    }));
    let message = WatchAccessRequest { action };
    spoken.said.send(message).await.unwrap();
    match spoken.hear().await.unwrap().unwrap().event {
        Some(Event::Refusal(refusal)) => {
            assert_eq!(refusal.message, "question: subject is missing");
            assert_eq!(refusal.reason, "FIELD_MISSING");
            assert_eq!(refusal.metadata["field"], "subject");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_an_alert_asks_about_is_shown_before_it_happens() {
    let world = World::new().await;
    let failed = |call: &str, code: &str| {
        let line = format!("connectors_evaluation_calls_total{{call=\"{call}\",code=\"{code}\"}}");
        world.metric(&line)
    };
    for call in ["CheckAccess", "WatchAccess", "ReviewToken", "other"] {
        assert_eq!(failed(call, "Internal"), "0");
        assert_eq!(failed(call, "Unavailable"), "0");
        // No caller made such a call, and no alert asks for it.
        assert_eq!(failed(call, "InvalidArgument"), "");
    }
    for kind in [
        "roles",
        "clusterrolebindings",
        "accessrequests",
        "namespaces",
    ] {
        let line = format!("connectors_evaluation_unreadable_objects_total{{kind=\"{kind}\"}}");
        assert_eq!(world.metric(&line), "0", "{kind}");
    }
}

#[tokio::test]
async fn without_a_token_nothing_is_read_and_nobody_is_asked() {
    let world = World::new().await;
    let mut stub = EvaluationClient::new(world.channel());
    let error = stub.check_access(CheckAccessRequest::default()).await;
    let error = error.unwrap_err();
    assert_eq!(error.code(), Code::Unauthenticated);
    assert_eq!(Reason::of(&error), Some(Reason::TokenMissing));
    assert_eq!(world.api.token_reviews(), 0);
    let (_said, unsaid) = mpsc::channel(1);
    let stream = stub.watch_access(ReceiverStream::new(unsaid)).await;
    assert_eq!(stream.unwrap_err().code(), Code::Unauthenticated);
    let counted =
        "connectors_evaluation_calls_total{call=\"CheckAccess\",code=\"Unauthenticated\"}";
    assert_eq!(world.metric(counted), "1");
}

#[tokio::test]
async fn a_caller_that_does_not_read_blocks_nobody_else() {
    let world = World::new().await;
    let spoken = Spoken::begin(&world).await;
    for id in 0..200 {
        spoken.subscribe(id).await;
    }
    // Nobody reads this stream; another one is served all the same.
    let mut other = Spoken::begin(&world).await;
    other.subscribe(1).await;
    assert!(other.hear().await.unwrap().is_some());
    drop(spoken);
}
