//! Many questions at a time, who may, and whose token it is.

use evaluation_api::access::{AccessTarget, Decision, Permitted, Requestable, TokenQuestion};
use evaluation_api::refusal::Reason;
use serde_json::json;
use tonic::Code;

use crate::explain::policy;
use crate::fake_api::{FakeApi, token_for};
use crate::world::{World, binding, question, request, role};

pub(crate) fn target() -> AccessTarget {
    let asked = question();
    AccessTarget {
        connector: asked.connector,
        permission: asked.permission,
        verb: asked.verb,
    }
}

async fn granted() -> World {
    let api = FakeApi::new();
    api.put("accessrequests", &request("Granted"));
    api.put("roles", &role());
    api.put("rolebindings", &binding());
    let world = World::start(api).await;
    world.ready().await;
    world
}

#[tokio::test]
async fn many_questions_are_answered_or_refused_each_for_itself_with_one_review_per_namespace() {
    let world = granted().await;
    let mut other_pod = question();
    other_pod.pod.as_mut().unwrap().uid = "another".to_owned();
    let mut elsewhere = question();
    elsewhere.connector.namespace = "elsewhere".to_owned();
    let mut none = question();
    none.verb.clear();
    let mut questions = vec![question(); 100];
    questions.extend([other_pod, elsewhere.clone(), elsewhere, none]);

    let decisions = world.client.batch_check_access(&questions).await;
    let decisions = decisions.unwrap();
    assert_eq!(decisions.len(), 104);
    assert!(decisions[..100].iter().all(|it| *it == Ok(Permitted::Pod)));
    assert_eq!(decisions[100], Ok(Permitted::No));
    for (place, reason) in [
        (101, Reason::NamespaceForbidden),
        (102, Reason::NamespaceForbidden),
        (103, Reason::FieldInvalid),
    ] {
        let refusal = decisions[place].as_ref().unwrap_err();
        assert_eq!(refusal.reason, Some(reason));
    }
    assert_eq!(world.api.access_reviews().len(), 2);

    let details = world.client.batch_check_access_in_detail(&questions).await;
    let details = details.unwrap();
    let answer = details[0].as_ref().unwrap();
    assert!(matches!(&answer.decision, Decision::AllowedPod(it) if it.uid == "binding-uid"));
    assert_eq!(answer.request.as_ref().unwrap().name, "r");
    assert!(details[101].is_err() && details[103].is_err());
    // A yes is remembered, a no is asked again.
    assert_eq!(world.api.access_reviews().len(), 3);
}

/// The scheduling gate of a pod is decided on these answers.
#[tokio::test]
async fn a_batch_in_detail_says_as_each_question_alone_whether_a_request_could_be_accepted() {
    let api = FakeApi::new();
    for name in ["harbor", "gitlab"] {
        let metadata = json!({"namespace": "tools", "name": name, "resourceVersion": "1"});
        api.put("connectors", &json!({"metadata": metadata}));
    }
    let mut policy =
        policy(&json!([{"kind": "ServiceAccount", "namespace": "devops", "name": "builder"}]));
    policy["spec"]["connector"] = json!({"names": ["gitlab"]});
    api.put("accesspolicies", &policy);
    let world = World::start(api).await;
    world.ready().await;
    let asked = |connector: &str| {
        let mut question = question();
        connector.clone_into(&mut question.connector.name);
        question
    };
    let mut without_pod = asked("harbor");
    without_pod.pod = None;
    let questions = [asked("harbor"), asked("gitlab"), asked("lost"), without_pod];
    let together = world.client.batch_check_access_in_detail(&questions).await;
    let together = together.unwrap().into_iter();
    let together: Vec<_> = together.map(|it| it.unwrap().requestable).collect();
    let (no, yes, unknown) = (Requestable::No, Requestable::Yes, Requestable::Unknown);
    assert_eq!(together, [no, yes, no, unknown]);
    for (question, said) in questions.into_iter().zip(together) {
        let alone = world.client.check_access(question).await.unwrap();
        assert_eq!(alone.requestable, said);
    }
}

#[tokio::test]
async fn more_questions_than_allowed_are_not_even_read() {
    let world = World::new().await;
    let asked = |count| vec![question(); count];
    let most = world.client.batch_check_access(&asked(1024)).await;
    assert_eq!(most.unwrap().len(), 1024);
    let error = world.client.batch_check_access(&asked(1025)).await;
    let error = error.unwrap_err();
    assert_eq!(error.code(), Some(Code::InvalidArgument));
    assert_eq!(error.reason(), Some(Reason::TooLong));
    assert_eq!(
        world
            .client
            .batch_check_access::<String>(&[])
            .await
            .unwrap(),
        []
    );
}

#[tokio::test]
async fn who_can_names_the_pod_its_binding_and_its_request() {
    let world = granted().await;
    let who = world.client.who_can(target()).await.unwrap();
    let [pod] = &who.pods[..] else {
        panic!("{who:?}")
    };
    assert_eq!(
        (&pod.subject, Some(&pod.pod)),
        (&question().subject, question().pod.as_ref())
    );
    assert_eq!(
        (pod.binding.name.as_str(), pod.request.uid.as_str()),
        ("car-1", "request-uid")
    );
    assert!(who.standing.is_empty() && who.errors.is_empty() && !who.is_cut);
    assert!(who.fresh_as_of.is_some());
    world.api.allow(&[]);
    let mut elsewhere = target();
    elsewhere.connector.namespace = "elsewhere".to_owned();
    let error = world.client.who_can(elsewhere).await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::NamespaceForbidden));
}

fn shown(audience: &str, subject: &str) -> TokenQuestion {
    TokenQuestion {
        token: token_for(audience, subject),
        target: target(),
    }
}

#[tokio::test]
async fn a_token_stands_for_its_pod_and_is_asked_about_each_time() {
    let world = granted().await;
    let audience = "connectors.alauda.io";
    for (uid, allowed) in [("pod-uid", true), ("pod-uid", true), ("another", false)] {
        let asked = shown(audience, &format!("pod-{uid}"));
        let answer = world.client.review_token(asked).await.unwrap();
        assert_eq!(answer.subject, question().subject);
        assert_eq!(
            (answer.pod.name.as_str(), answer.pod.uid.as_str()),
            ("deploy", uid)
        );
        assert_eq!(answer.answer.is_allowed(), allowed);
    }
    // One for the caller, three for the pods.
    assert_eq!(world.api.token_reviews(), 4);
}

#[tokio::test]
async fn a_token_that_is_nobodys_says_in_which_way() {
    let world = granted().await;
    let audience = "connectors.alauda.io";
    for (asked, reason) in [
        (shown(audience, "forged"), Reason::SubjectTokenInvalid),
        (shown(audience, "loose"), Reason::SubjectTokenWithoutPod),
        (
            shown("kubernetes", "pod-uid"),
            Reason::SubjectTokenWrongAudience,
        ),
        (
            TokenQuestion {
                token: "no.token".to_owned(),
                target: target(),
            },
            Reason::SubjectTokenInvalid,
        ),
    ] {
        let token = asked.token.clone();
        let error = world.client.review_token(asked).await.unwrap_err();
        assert_eq!(error.reason(), Some(reason), "{error}");
        assert_eq!(error.code(), Some(Code::InvalidArgument));
        assert!(!error.to_string().contains(&token));
    }
    let reviews = world.api.token_reviews();
    // Who may not ask about the namespace has no token reviewed.
    let mut elsewhere = shown(audience, "pod-pod-uid");
    elsewhere.target.connector.namespace = "elsewhere".to_owned();
    let error = world.client.review_token(elsewhere).await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::NamespaceForbidden));
    assert_eq!(world.api.token_reviews(), reviews);
}
