//! From an HTTP request to an answer.
//!
//! | | |
//! |---|---|
//! | another path | 404 |
//! | another method than POST | 405 |
//! | another content type than `application/json` | 415 |
//! | a body that is too large | 413 |
//! | a body that does not come in time | 408 |
//! | no room for it in time | 503 |
//! | a body that is no `AdmissionReview` of v1, or asks nothing | 400 |
//! | everything else, refusals among it | 200 with an `AdmissionReview` |

use std::{net::IpAddr, sync::Arc, time::Duration};

use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use service_kit::{json_weight::weigh, report};
use tokio::time::{Instant, timeout_at};
use tracing::{error, info};

use crate::{
    admission::{self, Admission},
    metrics::{Answered, ReviewMetrics},
    page::Page,
    peer_quota::PeerLimits,
    review::{self, AdmissionAnswer, AdmissionRefusal, RefusalStatus, ReviewError},
    review_memory::{self, CONNECTORS, PODS, POLICIES, REQUESTS, RUNS, Room, Scales},
};

/// The API server waits five seconds. Our message is better than its timeout.
const ANSWER: Duration = Duration::from_secs(4);
/// The API server has the whole body when it calls.
const BODY: Duration = Duration::from_millis(1500);

/// The parts that make the answers.
#[derive(Clone)]
pub(crate) struct Handler {
    admission: Admission,
    metrics: ReviewMetrics,
    rooms: Arc<Rooms>,
    limits: PeerLimits,
}

/// Room for the reviews of each kind.
struct Rooms {
    policies: Scales,
    requests: Scales,
    connectors: Scales,
    runs: Scales,
    pods: Scales,
}

/// The weight of what is made from a review, beside its text, which is weighed separately.
fn weight_of(page: Page, asked: &review::ReviewedObject) -> usize {
    let text = asked.object.as_ref().map_or("", |it| it.get());
    let made = match page {
        // What it is, and what it is to be.
        Page::MutateAccessRequests => 2 * weigh(text.as_bytes()),
        Page::ValidateAccessRequests => weigh(text.as_bytes()),
        // The evaluation service is sent a text, in a message.
        Page::ValidateAccessPolicies => weigh(text.as_bytes()) + 2 * text.len(),
        Page::MutateConnectors => admission::CONNECTOR,
        Page::MutatePipelineRuns => admission::RUN,
        Page::MutatePods => admission::POD,
    };
    made + review_memory::of_user(&asked.user_info)
}

/// Why a body is not read.
enum BodyProblem {
    TooLarge,
    Broken,
    Late,
    NoRoom,
}

impl Handler {
    pub(crate) fn new(admission: Admission, metrics: ReviewMetrics, limits: PeerLimits) -> Self {
        Self {
            admission,
            metrics,
            rooms: Arc::new(Rooms {
                policies: Scales::new(POLICIES, &limits),
                requests: Scales::new(REQUESTS, &limits),
                connectors: Scales::new(CONNECTORS, &limits),
                runs: Scales::new(RUNS, &limits),
                pods: Scales::new(PODS, &limits),
            }),
            limits,
        }
    }

    /// The limits that each address has a share of.
    pub(crate) const fn limits(&self) -> &PeerLimits {
        &self.limits
    }

    #[cfg(test)]
    fn all_scales(&self) -> [&Scales; 5] {
        let Rooms {
            policies,
            requests,
            connectors,
            runs,
            pods,
        } = &*self.rooms;
        [policies, requests, connectors, runs, pods]
    }

    /// Kibibytes that reviews take now.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.all_scales().into_iter().flat_map(Scales::taken).sum()
    }

    /// Places that reviews take now, of any sort, and addresses that take or await some.
    #[cfg(test)]
    pub(crate) fn places(&self) -> usize {
        let peers: usize = self.all_scales().into_iter().map(Scales::peers).sum();
        self.taken() + peers + self.admission.taken()
    }

    /// Answers an address within [`ANSWER`].
    pub(crate) async fn answer<B>(&self, peer: IpAddr, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let start = Instant::now();
        let Some(page) = Page::ALL
            .into_iter()
            .find(|page| page.path() == request.uri().path())
        else {
            return text(StatusCode::NOT_FOUND, "not found");
        };
        if request.method() != Method::POST {
            let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "only POST");
            let post = HeaderValue::from_static("POST");
            refusal.headers_mut().insert(header::ALLOW, post);
            return refusal;
        }
        let (response, outcome) = self.review(page, peer, request, start + ANSWER).await;
        self.metrics.answered(page, outcome, start.elapsed());
        response
    }

    async fn review<B>(
        &self,
        page: Page,
        peer: IpAddr,
        request: Request<B>,
        deadline: Instant,
    ) -> (Response<Full<Bytes>>, Answered)
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let malformed = |status, words: &str| (text(status, words), Answered::Malformed);
        if !is_json(&request) {
            return malformed(StatusCode::UNSUPPORTED_MEDIA_TYPE, "only application/json");
        }
        let scales = self.scales(page);
        let read = read(scales, peer, request.into_body(), deadline);
        let read = timeout_at(deadline.min(Instant::now() + BODY), read).await;
        let body = match read.unwrap_or(Err(BodyProblem::Late)) {
            Ok(read) => read,
            Err(BodyProblem::TooLarge) => {
                return malformed(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large");
            }
            Err(BodyProblem::Broken) => {
                return malformed(StatusCode::BAD_REQUEST, "the body cannot be read");
            }
            Err(BodyProblem::Late) => {
                return malformed(StatusCode::REQUEST_TIMEOUT, "the body did not come");
            }
            Err(BodyProblem::NoRoom) => return full(),
        };
        let asked = match review::parse(&body, peer, page.user_part()) {
            Ok(asked) => asked,
            Err(ReviewError::User { uid, source }) => {
                let message = source.to_string();
                info!(webhook = page.word(), uid, refusal = message, "refused");
                let status = RefusalStatus::Invalid;
                let answer = AdmissionAnswer::Refused(AdmissionRefusal { status, message });
                return written(&uid, &answer, Answered::Refused);
            }
            Err(error) => return malformed(StatusCode::BAD_REQUEST, &error.to_string()),
        };
        // Its parts keep it, and its room.
        drop(body);
        let weight = weight_of(page, &asked);
        let answer = if scales.is_too_heavy(weight) {
            too_heavy()
        } else {
            let Ok(room) = scales.tree(peer, weight, deadline).await else {
                return full();
            };
            self.judge(page, &asked, &Arc::new(room), deadline).await
        };
        let outcome = match &answer {
            AdmissionAnswer::Allowed { .. } => Answered::Allowed,
            AdmissionAnswer::Refused(refusal) => {
                info!(
                    webhook = page.word(),
                    uid = asked.uid,
                    creator = asked.user_info.username,
                    namespace = asked.namespace,
                    refusal = refusal.message,
                    "refused"
                );
                match refusal.status {
                    RefusalStatus::Unavailable => Answered::Unjudged,
                    RefusalStatus::Forbidden
                    | RefusalStatus::Invalid
                    | RefusalStatus::BadRequest => Answered::Refused,
                }
            }
        };
        written(&asked.uid, &answer, outcome)
    }

    fn scales(&self, page: Page) -> &Scales {
        match page {
            Page::MutateAccessRequests | Page::ValidateAccessRequests => &self.rooms.requests,
            Page::ValidateAccessPolicies => &self.rooms.policies,
            Page::MutateConnectors => &self.rooms.connectors,
            Page::MutatePipelineRuns => &self.rooms.runs,
            Page::MutatePods => &self.rooms.pods,
        }
    }

    async fn judge(
        &self,
        page: Page,
        asked: &review::ReviewedObject,
        room: &Arc<Room>,
        deadline: Instant,
    ) -> AdmissionAnswer {
        let Admission {
            policies,
            requests,
            connectors,
            gates,
        } = &self.admission;
        match page {
            Page::MutateAccessRequests => requests.mutate(asked, deadline).await,
            Page::ValidateAccessRequests => requests.validate(asked, deadline).await,
            Page::ValidateAccessPolicies => policies.validate(asked, room, deadline).await,
            Page::MutateConnectors => connectors.label(asked).await,
            Page::MutatePipelineRuns => admission::name_creator(asked),
            Page::MutatePods => gates.set(asked).await,
        }
    }
}

/// The whole body, which takes room as it comes.
async fn read<B>(
    scales: &Scales,
    peer: IpAddr,
    body: B,
    deadline: Instant,
) -> Result<Bytes, BodyProblem>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut body = std::pin::pin!(Limited::new(body, scales.largest()));
    let mut whole = scales.body(peer, deadline);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() {
                BodyProblem::TooLarge
            } else {
                BodyProblem::Broken
            }
        })?;
        if let Ok(data) = frame.into_data() {
            let room = whole.push(&data).await;
            room.map_err(|review_memory::NoRoom| BodyProblem::NoRoom)?;
        }
    }
    Ok(whole.end())
}

/// The answer to a review.
fn written(
    uid: &str,
    answer: &AdmissionAnswer,
    outcome: Answered,
) -> (Response<Full<Bytes>>, Answered) {
    match review::render(uid, answer) {
        Ok(body) => (typed(StatusCode::OK, "application/json", body), outcome),
        Err(problem) => {
            error!(error = report(&problem), "cannot write an answer");
            let words = "the answer cannot be written";
            let response = text(StatusCode::INTERNAL_SERVER_ERROR, words);
            (response, Answered::Unjudged)
        }
    }
}

/// A review that would take too much memory is not read.
fn too_heavy() -> AdmissionAnswer {
    AdmissionAnswer::Refused(AdmissionRefusal {
        status: RefusalStatus::Invalid,
        message:
            "the object has too many parts to be read; leave out fields that the kind does not have"
                .to_owned(),
    })
}

fn full() -> (Response<Full<Bytes>>, Answered) {
    let words = "too much is being reviewed; try again";
    (
        text(StatusCode::SERVICE_UNAVAILABLE, words),
        Answered::Unjudged,
    )
}

/// Parameters, such as the character set, are of no interest.
fn is_json<B>(request: &Request<B>) -> bool {
    let media_type = request.headers().get(header::CONTENT_TYPE);
    let media_type = media_type.and_then(|value| value.to_str().ok());
    media_type
        .and_then(|value| value.split(';').next())
        .is_some_and(|value| value.trim().eq_ignore_ascii_case("application/json"))
}

fn text(status: StatusCode, words: &str) -> Response<Full<Bytes>> {
    typed(
        status,
        "text/plain; charset=utf-8",
        format!("{words}\n").into(),
    )
}

fn typed(status: StatusCode, media_type: &'static str, body: Vec<u8>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let media_type = HeaderValue::from_static(media_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, media_type);
    response
}

#[cfg(test)]
mod tests;
