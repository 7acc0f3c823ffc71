use super::*;

fn question() -> v1::AccessQuestion {
    AccessQuestion::mount(
        ServiceAccountName {
            namespace: "devops".to_owned(),
            name: "builder".to_owned(),
        },
        ConnectorName {
            namespace: "tools".to_owned(),
            name: "harbor".to_owned(),
        },
        Permission::Apis,
        PodRef {
            name: "pod".to_owned(),
            uid: "u".to_owned(),
        },
    )
    .into()
}

#[test]
fn a_question_comes_back_as_it_was_sent() {
    let mut wire = question();
    let parsed = AccessQuestion::<String>::try_from(wire.clone()).unwrap();
    assert_eq!(v1::AccessQuestion::from(parsed), wire);
    wire.pod = None;
    let parsed = AccessQuestion::<String>::try_from(wire.clone()).unwrap();
    assert_eq!(v1::AccessQuestion::from(parsed), wire);
}

#[test]
fn a_question_about_a_standing_permission_names_no_pod_and_is_otherwise_that_of_a_mount() {
    let mount = AccessQuestion::<String>::try_from(question()).unwrap();
    let standing = AccessQuestion::standing(
        mount.subject.clone(),
        mount.connector.clone(),
        mount.permission,
    );
    assert_eq!(standing, AccessQuestion { pod: None, ..mount });
}

fn target() -> AccessTarget {
    let question = AccessQuestion::<String>::try_from(question()).unwrap();
    AccessTarget {
        connector: question.connector,
        permission: question.permission,
        verb: question.verb,
    }
}

#[test]
fn a_target_and_a_token_come_back_as_they_were_sent() {
    let wire = v1::WhoCanRequest::from(target());
    assert_eq!(AccessTarget::try_from(wire), Ok(target()));
    let asked = TokenQuestion {
        token: "secret.token".to_owned(),
        target: target(),
    };
    let printed = format!("{asked:?}");
    assert!(printed.contains("harbor") && !printed.contains("secret"));
    let mut wire = v1::ReviewTokenRequest::from(asked.clone());
    assert_eq!(TokenQuestion::try_from(wire.clone()), Ok(asked));
    wire.token.clear();
    let error = TokenQuestion::try_from(wire);
    assert_eq!(error, Err(QuestionError::Missing("token")));
}

#[test]
fn every_field_is_looked_at() {
    type Change = fn(&mut v1::AccessQuestion);
    let long = || "x".repeat(64);
    assert_eq!(long().len(), LONGEST + 1);
    let cases: [(Change, QuestionError); 12] = [
        (|q| q.subject = None, QuestionError::Missing("subject")),
        (|q| q.connector = None, QuestionError::Missing("connector")),
        (
            |q| q.subject.as_mut().unwrap().namespace.clear(),
            QuestionError::Missing("subject.namespace"),
        ),
        (
            |q| q.subject.as_mut().unwrap().name = "a:b".to_owned(),
            QuestionError::Name("subject.name"),
        ),
        (
            |q| q.connector.as_mut().unwrap().namespace = "a.b".to_owned(),
            QuestionError::Name("connector.namespace"),
        ),
        (
            |q| q.connector.as_mut().unwrap().name.clear(),
            QuestionError::Missing("connector.name"),
        ),
        (|q| q.permission.clear(), QuestionError::Permission),
        (
            |q| q.permission = "apis/v1".to_owned(),
            QuestionError::Permission,
        ),
        (|q| q.verb.clear(), QuestionError::Verb),
        (|q| q.verb = "x".repeat(64), QuestionError::Verb),
        (
            |q| q.pod.as_mut().unwrap().name = "a/b".to_owned(),
            QuestionError::Name("pod.name"),
        ),
        (
            |q| q.pod.as_mut().unwrap().uid = "x".repeat(64),
            QuestionError::Uid,
        ),
    ];
    for (change, error) in cases {
        let mut wire = question();
        change(&mut wire);
        assert_eq!(AccessQuestion::<String>::try_from(wire), Err(error));
    }
}

#[test]
fn the_longest_verb_and_the_longest_uid_are_accepted() {
    let mut wire = question();
    wire.verb = "x".repeat(LONGEST);
    wire.pod.as_mut().unwrap().uid = "u".repeat(LONGEST);
    let parsed = AccessQuestion::<String>::try_from(wire.clone()).unwrap();
    assert_eq!(v1::AccessQuestion::from(parsed), wire);
}

mod fields;
