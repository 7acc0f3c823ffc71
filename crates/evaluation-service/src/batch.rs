//! `BatchCheckAccess`: many questions, one look at the world, one review per namespace.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use authz::{Learning, User};
use evaluation_api::MOST_QUESTIONS;
use evaluation_api::access::{AccessQuestion, AskedAtOnce, ReadError, wire_time};
use evaluation_api::v1::{
    self, AccessAnswer, AccessDecision, BatchCheckAccessResponse, BatchRefusal, Refusal,
};
use futures::{StreamExt, stream};
use jiff::Timestamp;

use crate::access_decision::{self, PreparedQuestion};
use crate::auth::{Caller, CallerReviews, Right};
use crate::error::Refused;
use crate::metrics::Metrics;
use crate::requestable;
use crate::world::World;

/// Reviews of one call at the same time. Other calls need reviews as well.
const REVIEWS: usize = 8;

/// Questions that were read, each with its refusal if it already has one. Their text is in the message.
pub(crate) struct Batch<'a> {
    questions: Vec<Result<AccessQuestion<&'a str>, Box<Refusal>>>,
    details: bool,
}

impl<'a> Batch<'a> {
    pub(crate) fn read(message: &'a [u8]) -> Result<Self, Refused> {
        let asked = AskedAtOnce::read(message, MOST_QUESTIONS).map_err(|error| match error {
            ReadError::Malformed => Refused::NoMessage,
            ReadError::TooMany => Refused::TooManyAtOnce,
        })?;
        let AskedAtOnce { questions, details } = asked;
        let refusal = |error| Box::new(Refused::from(error).into());
        let questions = questions.into_iter().map(|it| it.map_err(refusal));
        Ok(Self {
            questions: questions.collect(),
            details,
        })
    }

    /// Refuses questions that the caller may not ask.
    pub(crate) async fn authorize(&mut self, callers: &CallerReviews, caller: &Caller) {
        let asked = self.questions.iter().flatten();
        let mut namespaces: Vec<&str> = asked.map(|it| it.connector.namespace).collect();
        // Neighbours are mostly about the same namespace.
        namespaces.dedup();
        let namespaces: BTreeSet<&str> = namespaces.into_iter().collect();
        let namespaces: Vec<String> = namespaces.into_iter().map(str::to_owned).collect();
        let review = async |namespace: String| {
            let review = callers.authorize(caller, Right::Everything, &namespace);
            let refused = review.await.err();
            refused.map(|refused| (namespace, Refusal::from(refused)))
        };
        let refused: HashMap<String, Refusal> = stream::iter(namespaces)
            .map(review)
            .buffer_unordered(REVIEWS)
            .filter_map(std::future::ready)
            .collect()
            .await;
        if refused.is_empty() {
            return;
        }
        for question in &mut self.questions {
            if let Ok(asked) = question
                && let Some(refusal) = refused.get(asked.connector.namespace)
            {
                *question = Err(Box::new(refusal.clone()));
            }
        }
    }

    /// The answers from one look at the world, with the lookups that authorizers need before a no is final.
    pub(crate) fn answer(
        &self,
        world: &World,
        now: Timestamp,
        max_staleness: Duration,
        mut learning: Option<&mut Vec<Learning>>,
    ) -> BatchCheckAccessResponse {
        let mut response = BatchCheckAccessResponse {
            decisions: Vec::with_capacity(self.questions.len()),
            fresh_as_of: world.fresh_as_of().map(wire_time),
            gating: v1::Gating::from(world.gating()).into(),
            ..BatchCheckAccessResponse::default()
        };
        let mut neighbour = Neighbour::default();
        for (place, question) in (0..).zip(&self.questions) {
            let (decision, answer) = match question {
                Ok(question) => {
                    let known = neighbour.of(*question);
                    let asked =
                        PreparedQuestion::new(*question, &known.user).knowing(known.lacks_standing);
                    let (decision, answer) = if self.details {
                        let answer =
                            AccessAnswer::from(access_decision::answer_asked(world, &asked, now));
                        (answer.decision(), answer)
                    } else {
                        let decision = access_decision::find(world, &asked, now).word();
                        (decision, AccessAnswer::default())
                    };
                    known.lacks_standing = asked.lacks_standing();
                    if let Some(learning) = &mut learning
                        && decision == AccessDecision::Denied
                    {
                        learning.extend(asked.learn(world));
                    }
                    (decision, answer)
                }
                Err(refusal) => {
                    let refusal = Some((**refusal).clone());
                    let question = place;
                    response.refusals.push(BatchRefusal { question, refusal });
                    (AccessDecision::Unspecified, AccessAnswer::default())
                }
            };
            response.decisions.push(decision.into());
            if self.details {
                response.answers.push(answer);
            }
        }
        if self.details {
            let answers = self.questions.iter().zip(&mut response.answers);
            let answers = answers.filter_map(|(question, answer)| {
                let question = question.as_ref().ok()?;
                Some((*question, answer))
            });
            requestable::add_to_batch(answers, world, now, max_staleness);
        }
        response
    }
}

/// Counts the answers of a batch.
pub(crate) fn count(response: &BatchCheckAccessResponse, metrics: &Metrics) {
    for decision in [
        AccessDecision::Denied,
        AccessDecision::AllowedStanding,
        AccessDecision::AllowedPod,
    ] {
        let number = i32::from(decision);
        let decisions = response.decisions.iter();
        let count = decisions.filter(|it| **it == number).count();
        metrics.decisions(decision, count);
    }
}

/// Results of the last question. Neighbours are often about the same account and connector.
#[derive(Default)]
struct Neighbour<'a>(Option<NeighbourAnswer<'a>>);

struct NeighbourAnswer<'a> {
    /// The last question, without its pod.
    question: AccessQuestion<&'a str>,
    user: User,
    lacks_standing: bool,
}

impl<'a> Neighbour<'a> {
    /// The results that also hold for a question.
    fn of(&mut self, question: AccessQuestion<&'a str>) -> &mut NeighbourAnswer<'a> {
        let question = AccessQuestion {
            pod: None,
            ..question
        };
        let user = match self.0.take() {
            Some(known) if known.question == question => return self.0.insert(known),
            Some(known) if known.question.subject == question.subject => known.user,
            Some(_) | None => access_decision::user(question.subject),
        };
        self.0.insert(NeighbourAnswer {
            question,
            user,
            lacks_standing: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use authz::{Attributes, Authorizer, ChainLink, Verdict};
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use connectors_api::config::Config;
    use evaluation_api::access::Permission;
    use evaluation_api::v1::BatchCheckAccessRequest;
    use http::header::AUTHORIZATION;
    use http::{HeaderMap, Request, Response};
    use http_body_util::{BodyExt, Full};
    use hyper::body::Bytes;
    use kube::Client;
    use kube::client::Body;
    use prost::Message;
    use serde_json::{Value, json};
    use service_kit::reviews::POD_UID;

    use super::*;
    use crate::auth::IndexedRights;
    use crate::caller_quotas::CallerLimits;
    use crate::clock;
    use crate::fixtures::{POD_FORM, question, request, role, role_binding};

    fn world() -> World {
        let mut world = World::default();
        world.chain.rbac.apply(&role("r", POD_FORM)).unwrap();
        world.chain.rbac.apply(&role_binding("r")).unwrap();
        world.requests.apply(request("a", "Granted"));
        world
    }

    fn metrics() -> Metrics {
        Metrics::register(&prometheus::Registry::new()).unwrap()
    }

    fn answered(questions: Vec<v1::AccessQuestion>, details: bool) -> BatchCheckAccessResponse {
        answered_in(&world(), questions, details)
    }

    /// The answer to a message.
    fn answered_in(
        world: &World,
        questions: Vec<v1::AccessQuestion>,
        details: bool,
    ) -> BatchCheckAccessResponse {
        let message = BatchCheckAccessRequest { questions, details }.encode_to_vec();
        let batch = Batch::read(&message).map_err(|it| it.to_string()).unwrap();
        batch.answer(world, Timestamp::UNIX_EPOCH, Duration::MAX, None)
    }

    fn another_pod() -> AccessQuestion {
        let mut another = question();
        another.pod.as_mut().unwrap().uid = "another".to_owned();
        another
    }

    #[test]
    fn each_question_has_the_answer_that_it_has_alone() {
        let (world, now) = (world(), Timestamp::UNIX_EPOCH);
        let questions = [question(), another_pod(), question()];
        let wire: Vec<v1::AccessQuestion> = questions.iter().cloned().map(Into::into).collect();
        let alone =
            questions.map(|it| AccessAnswer::from(access_decision::answer(&world, &it, now)));
        let brief = answered(wire.clone(), false);
        assert_eq!(brief.decisions, [3, 1, 3]);
        assert_eq!(brief.decisions, alone.each_ref().map(|it| it.decision));
        assert!(brief.answers.is_empty() && brief.refusals.is_empty());
        let whole = answered(wire, true);
        assert_eq!(whole.decisions, brief.decisions);
        assert_eq!(whole.answers, alone);
    }

    #[test]
    fn all_answers_tell_whether_mounts_are_gated_and_no_decision_depends_on_it() {
        let mut world = world();
        for (config, expected) in [
            (None, v1::Gating::Unspecified),
            (Some(false), v1::Gating::Off),
            (Some(true), v1::Gating::On),
        ] {
            world.config = config.map(|enabled| Config {
                enabled,
                ..Config::CLOSED
            });
            for details in [false, true] {
                let wire = vec![question().into(), another_pod().into()];
                let answer = answered_in(&world, wire, details);
                assert_eq!(answer.decisions, [3, 1]);
                assert_eq!(answer.gating(), expected);
                assert!(answer.answers.iter().all(|it| it.gating() == expected));
            }
        }
    }

    #[test]
    fn no_answer_depends_on_who_asks_before() {
        let mut standing = world();
        standing
            .chain
            .rbac
            .apply(&role("s", "connectors/apis"))
            .unwrap();
        let mut binding = role_binding("s");
        binding.metadata.labels = None;
        standing.chain.rbac.apply(&binding).unwrap();
        let mut others = vec![question(), another_pod()];
        for change in [
            (|it| it.pod = None) as fn(&mut AccessQuestion),
            |it| it.subject.name = "another".to_owned(),
            |it| it.subject.namespace = "another".to_owned(),
            |it| it.connector.name = "another".to_owned(),
            |it| it.connector.namespace = "another".to_owned(),
            |it| it.permission = Permission::Proxy,
            |it| it.verb = "get".to_owned(),
        ] {
            let mut other = question();
            change(&mut other);
            others.push(other);
        }
        let now = Timestamp::UNIX_EPOCH;
        for world in [world(), standing] {
            for (first, second) in others
                .iter()
                .flat_map(|one| others.iter().map(move |it| (one, it)))
            {
                let pair = [first, second];
                let alone =
                    pair.map(|it| AccessAnswer::from(access_decision::answer(&world, it, now)));
                for details in [false, true] {
                    let wire = pair.map(|it| it.clone().into());
                    let both = answered_in(&world, wire.into(), details);
                    assert_eq!(both.decisions, alone.each_ref().map(|it| it.decision));
                    assert!(!details || both.answers == alone);
                }
            }
        }
    }

    #[test]
    fn a_missing_standing_permission_is_known_for_other_pods_and_for_no_other_question() {
        let (asked, other_pod) = (question(), another_pod());
        let mut other_verb = question();
        other_verb.verb = "get".to_owned();
        let mut neighbour = Neighbour::default();
        neighbour.of(asked.borrowed()).lacks_standing = true;
        assert!(neighbour.of(other_pod.borrowed()).lacks_standing);
        assert!(!neighbour.of(other_verb.borrowed()).lacks_standing);
    }

    /// Refuses one pod.
    #[derive(Debug)]
    struct Refuses(&'static str);

    impl Authorizer for Refuses {
        fn authorize(&self, attributes: &Attributes<'_>) -> Verdict {
            let extra = attributes.user.info().extra.unwrap();
            if extra[POD_UID] == [self.0] {
                Verdict::deny(String::new())
            } else {
                Verdict::no_opinion(String::new())
            }
        }
    }

    #[test]
    fn a_pod_that_another_authorizer_refuses_takes_no_standing_permission_from_the_next() {
        let mut world = world();
        world
            .chain
            .rbac
            .apply(&role("s", "connectors/apis"))
            .unwrap();
        let mut binding = role_binding("s");
        binding.metadata.labels = None;
        world.chain.rbac.apply(&binding).unwrap();
        let link = ChainLink::Other("refuses", Box::new(Refuses("another")));
        world.chain.links.insert(0, link);
        let wire = [another_pod(), question(), another_pod()].map(Into::into);
        for details in [false, true] {
            let answer = answered_in(&world, wire.clone().into(), details);
            assert_eq!(answer.decisions, [1, 2, 1]);
        }
    }

    #[test]
    fn a_question_that_is_none_is_refused_in_its_place() {
        let wire = vec![question().into(), v1::AccessQuestion::default()];
        let answer = answered(wire, true);
        assert_eq!(answer.decisions, [3, 0]);
        assert_eq!(answer.answers[1], AccessAnswer::default());
        let [
            BatchRefusal {
                question: 1,
                refusal: Some(refusal),
            },
        ] = &answer.refusals[..]
        else {
            panic!("{:?}", answer.refusals);
        };
        assert_eq!(refusal.reason, "FIELD_MISSING");
    }

    /// Allows the namespaces whose number is even.
    fn half_allowed() -> CallerReviews {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut review: Value = serde_json::from_slice(&body).unwrap();
            let namespace = &review["spec"]["resourceAttributes"]["namespace"];
            let number = namespace.as_str().and_then(|it| it.strip_prefix("n-"));
            review["status"] = match number.map(|it| it.parse::<usize>().unwrap()) {
                Some(number) => json!({"allowed": number.is_multiple_of(2)}),
                None => json!({
                    "authenticated": true, "audiences": ["connectors-evaluation"], "user": {"username": "ci"},
                }),
            };
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(review.to_string()))))
        });
        let limits = CallerLimits {
            calls: 1,
            streams: 1,
        };
        let (client, indexed) = (Client::new(service, "default"), IndexedRights::none());
        CallerReviews::new(client, metrics(), limits, indexed, None)
    }

    async fn somebody(callers: &CallerReviews) -> Caller {
        let exp = clock::now().as_second() + 60;
        let claims = json!({"aud": "connectors-evaluation", "exp": exp}).to_string();
        let bearer = format!("Bearer e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        let header = (AUTHORIZATION, bearer.parse().unwrap());
        let caller = callers.authenticate(&HeaderMap::from_iter([header])).await;
        caller.map_err(|it| it.to_string()).unwrap()
    }

    #[tokio::test]
    async fn however_many_namespaces_there_are_each_is_reviewed_for_itself() {
        let callers = half_allowed();
        let caller = somebody(&callers).await;
        for count in [0, 1, 2, REVIEWS, REVIEWS + 1, 3 * REVIEWS, 200] {
            let of = |number: usize| {
                let mut asked = question();
                asked.connector.namespace = format!("n-{number}");
                v1::AccessQuestion::from(asked)
            };
            // Each number twice, and its neighbours between.
            let numbers: Vec<_> = (0..count).chain(0..count).collect();
            let message = BatchCheckAccessRequest {
                questions: numbers.iter().map(|it| of(*it)).collect(),
                details: false,
            };
            let message = message.encode_to_vec();
            let mut batch = Batch::read(&message).map_err(|it| it.to_string()).unwrap();
            batch.authorize(&callers, &caller).await;
            let answer = batch.answer(
                &World::default(),
                Timestamp::UNIX_EPOCH,
                Duration::MAX,
                None,
            );
            let denied = i32::from(AccessDecision::Denied);
            let expected = numbers.iter().map(|it| denied * i32::from(it % 2 == 0));
            assert_eq!(answer.decisions, expected.collect::<Vec<_>>(), "{count}");
            let refused = answer.refusals.iter().map(|it| it.question);
            let odd = (0..).zip(&numbers).filter(|(_, it)| **it % 2 == 1);
            assert!(refused.eq(odd.map(|it| it.0)), "{count}");
        }
    }

    #[test]
    fn there_is_an_end_to_questions_and_no_beginning_without_a_message() {
        let message = |count| {
            let questions = vec![v1::AccessQuestion::default(); count];
            let details = false;
            BatchCheckAccessRequest { questions, details }.encode_to_vec()
        };
        assert!(Batch::read(&message(MOST_QUESTIONS)).is_ok());
        let refused = |message: &[u8]| Batch::read(message).err();
        assert!(matches!(
            refused(&message(MOST_QUESTIONS + 1)),
            Some(Refused::TooManyAtOnce)
        ));
        assert!(matches!(refused(b"\x80"), Some(Refused::NoMessage)));
    }
}
