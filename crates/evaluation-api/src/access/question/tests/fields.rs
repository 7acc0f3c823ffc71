//! Each field of a question on its own, with every kind of text, in each message that has it.

use connectors_api::Permission;

use super::*;

/// What an object can be named, written down once more: parts of small letters, digits and inner hyphens.
fn is_name(text: &str, parts: usize, longest: usize) -> bool {
    let all: Vec<&str> = text.split('.').collect();
    let is_part = |part: &&str| {
        let letters: Vec<char> = part.chars().collect();
        let is_plain = |it: &char| matches!(it, 'a'..='z' | '0'..='9');
        letters.iter().all(|it| is_plain(it) || *it == '-')
            && letters.first().is_some_and(is_plain)
            && letters.last().is_some_and(is_plain)
    };
    all.len() <= parts && all.iter().all(is_part) && text.len() <= longest
}

fn texts() -> Vec<String> {
    let long = |length| "a".repeat(length);
    let mut texts: Vec<String> = [
        "",
        " ",
        "a",
        "9",
        "a-b",
        "a.b",
        "prod-harbor.example",
        "A",
        "aB",
        "a ",
        " a",
        "a\n",
        "-a",
        "a-",
        "a..b",
        ".a",
        "a.",
        "a_b",
        "a/b",
        "a:b",
        "*",
        "ä",
        "a\0",
        "{a}",
        "a%2eb",
    ]
    .map(str::to_owned)
    .into();
    texts.extend([63, 64, 253, 254].map(long));
    // Parts of any length within a whole that is not too long.
    texts.push(format!("{}.b", long(64)));
    texts.push(format!("{}.{}", long(126), long(127)));
    texts
}

type Field = fn(&mut v1::AccessQuestion) -> &mut String;

const NAMES: [(&str, usize, usize, Field); 5] = [
    ("subject.namespace", 1, 63, |q| {
        &mut q.subject.as_mut().unwrap().namespace
    }),
    ("subject.name", 127, 253, |q| {
        &mut q.subject.as_mut().unwrap().name
    }),
    ("connector.namespace", 1, 63, |q| {
        &mut q.connector.as_mut().unwrap().namespace
    }),
    ("connector.name", 127, 253, |q| {
        &mut q.connector.as_mut().unwrap().name
    }),
    ("pod.name", 127, 253, |q| &mut q.pod.as_mut().unwrap().name),
];

/// The same question in a batch, whose texts are not copied.
fn in_a_batch(wire: &v1::AccessQuestion) -> Result<v1::AccessQuestion, QuestionError> {
    use prost::Message as _;
    let message = v1::BatchCheckAccessRequest {
        questions: vec![wire.clone()],
        details: false,
    };
    let message = message.encode_to_vec();
    let asked = crate::access::AskedAtOnce::read(&message, 1).unwrap();
    let question = asked.questions.into_iter().next().unwrap()?;
    let text = str::to_owned;
    Ok(v1::AccessQuestion {
        subject: Some(v1::ServiceAccount {
            namespace: text(question.subject.namespace),
            name: text(question.subject.name),
        }),
        connector: Some(v1::Connector {
            namespace: text(question.connector.namespace),
            name: text(question.connector.name),
        }),
        permission: text(question.permission.as_str()),
        verb: text(question.verb),
        pod: question.pod.map(|pod| v1::Pod {
            name: text(pod.name),
            uid: text(pod.uid),
        }),
    })
}

fn parsed(wire: &v1::AccessQuestion) -> Result<v1::AccessQuestion, QuestionError> {
    let alone = AccessQuestion::<String>::try_from(wire.clone()).map(v1::AccessQuestion::from);
    assert_eq!(alone, in_a_batch(wire));
    alone
}

#[test]
fn a_name_is_one_that_an_object_of_its_kind_can_have_and_is_kept_as_it_is() {
    for (field, parts, longest, of) in NAMES {
        for text in texts() {
            let mut wire = question();
            of(&mut wire).clone_from(&text);
            let expected = if text.is_empty() {
                Err(QuestionError::Missing(field))
            } else if is_name(&text, parts, longest) {
                Ok(wire.clone())
            } else {
                Err(QuestionError::Name(field))
            };
            assert_eq!(parsed(&wire), expected, "{field} {text:?}");
        }
    }
}

/// The verb and the UID, in bytes: an empty verb is none, and an empty UID is one.
#[test]
fn a_verb_and_a_uid_have_at_most_so_many_bytes() {
    for (text, fits) in [
        ("a".to_owned(), true),
        ("*".to_owned(), true),
        (" ".to_owned(), true),
        ("x".repeat(63), true),
        ("x".repeat(64), false),
        ("ä".repeat(31), true),
        // Fewer letters than the limit, and more bytes.
        ("ä".repeat(32), false),
        ("😀".repeat(16), false),
    ] {
        let mut wire = question();
        wire.verb.clone_from(&text);
        let expected = if fits {
            Ok(wire.clone())
        } else {
            Err(QuestionError::Verb)
        };
        assert_eq!(parsed(&wire), expected, "{text}");
        let mut wire = question();
        wire.pod.as_mut().unwrap().uid.clone_from(&text);
        let expected = if fits {
            Ok(wire.clone())
        } else {
            Err(QuestionError::Uid)
        };
        assert_eq!(parsed(&wire), expected, "{text}");
    }
    let mut wire = question();
    wire.verb.clear();
    assert_eq!(parsed(&wire), Err(QuestionError::Verb));
    let mut wire = question();
    wire.pod.as_mut().unwrap().uid.clear();
    assert_eq!(parsed(&wire), Ok(wire));
}

#[test]
fn a_permission_is_one_of_two_words() {
    for (word, expected) in [
        ("apis", Some(Permission::Apis)),
        ("proxy", Some(Permission::Proxy)),
        ("", None),
        ("*", None),
        ("Apis", None),
        ("PROXY", None),
        ("apis ", None),
        (" proxy", None),
        ("api", None),
        ("apis/v1", None),
        ("connectors/apis", None),
    ] {
        let mut wire = question();
        word.clone_into(&mut wire.permission);
        let said = AccessQuestion::<String>::try_from(wire.clone()).map(|it| it.permission);
        assert_eq!(said, expected.ok_or(QuestionError::Permission), "{word:?}");
        let expected = expected.map(|_| wire.clone());
        assert_eq!(parsed(&wire), expected.ok_or(QuestionError::Permission));
    }
}

#[test]
fn what_is_missing_as_a_whole_is_missing_except_a_pod() {
    let mut wire = question();
    wire.subject = None;
    assert_eq!(parsed(&wire), Err(QuestionError::Missing("subject")));
    let mut wire = question();
    wire.connector = None;
    assert_eq!(parsed(&wire), Err(QuestionError::Missing("connector")));
    let mut wire = question();
    wire.pod = None;
    assert_eq!(parsed(&wire), Ok(wire));
    // An empty pod is one without a name.
    let mut wire = question();
    wire.pod = Some(v1::Pod::default());
    assert_eq!(parsed(&wire), Err(QuestionError::Missing("pod.name")));
}

/// The calls about a connector without a service account look at it in the same way.
#[test]
fn a_target_is_looked_at_like_a_question() {
    for (field, _, _, of) in &NAMES[2..4] {
        for text in texts() {
            let mut wire = question();
            of(&mut wire).clone_from(&text);
            same_of_a_target(wire, field);
        }
    }
    for text in ["", "apis", "proxy", "Apis", "*"] {
        let mut wire = question();
        text.clone_into(&mut wire.permission);
        same_of_a_target(wire, text);
    }
    for text in [
        String::new(),
        "x".repeat(63),
        "x".repeat(64),
        "ä".repeat(32),
    ] {
        let mut wire = question();
        wire.verb = text;
        same_of_a_target(wire, "verb");
    }
    let mut wire = question();
    wire.connector = None;
    same_of_a_target(wire, "connector");
}

fn same_of_a_target(wire: v1::AccessQuestion, about: &str) {
    let expected = parsed(&wire).map(|_| ());
    let who = v1::WhoCanRequest {
        connector: wire.connector.clone(),
        permission: wire.permission.clone(),
        verb: wire.verb.clone(),
    };
    let said = AccessTarget::try_from(who.clone());
    assert_eq!(said.clone().map(|_| ()), expected, "{about}");
    if let Ok(target) = said {
        assert_eq!(v1::WhoCanRequest::from(target), who);
    }
    let review = v1::ReviewTokenRequest {
        token: "secret.token".to_owned(),
        connector: wire.connector,
        permission: wire.permission,
        verb: wire.verb,
    };
    let said = TokenQuestion::try_from(review.clone());
    assert_eq!(said.clone().map(|_| ()), expected, "{about}");
    if let Ok(question) = said {
        assert_eq!(v1::ReviewTokenRequest::from(question), review);
    }
}

#[test]
fn an_error_names_its_field() {
    for (error, field) in [
        (QuestionError::Missing("subject"), "subject"),
        (QuestionError::Name("connector.name"), "connector.name"),
        (QuestionError::Permission, "permission"),
        (QuestionError::Verb, "verb"),
        (QuestionError::Uid, "pod.uid"),
    ] {
        assert_eq!(error.field(), field);
        let text = error.to_string();
        assert!(
            text.starts_with("question: ") && text.contains(field),
            "{text}"
        );
    }
}

/// A text of one place in another one would be a question about another subject.
#[test]
fn each_text_of_a_pod_has_its_place_in_the_question() {
    let text = str::to_owned;
    let pod = PodIdentity {
        namespace: text("pod-namespace"),
        name: text("pod-name"),
        uid: text("pod-uid"),
        service_account: text("account"),
    };
    let connector = ConnectorKey {
        namespace: text("connector-namespace"),
        name: text("connector-name"),
    };
    for permission in [Permission::Apis, Permission::Proxy] {
        let asked = AccessQuestion::of_pod(&pod, &connector, permission);
        let expected = v1::AccessQuestion {
            subject: Some(v1::ServiceAccount {
                namespace: text("pod-namespace"),
                name: text("account"),
            }),
            connector: Some(v1::Connector {
                namespace: text("connector-namespace"),
                name: text("connector-name"),
            }),
            permission: text(permission.as_str()),
            verb: text("*"),
            pod: Some(v1::Pod {
                name: text("pod-name"),
                uid: text("pod-uid"),
            }),
        };
        assert_eq!(v1::AccessQuestion::from(asked.clone()), expected);
        let borrowed = asked.borrowed();
        assert_eq!(asked.borrowed().borrowed(), borrowed);
        let target = AccessTarget {
            connector: asked.connector.clone(),
            permission,
            verb: text("get"),
        };
        for pod in [None, asked.pod.clone()] {
            let by = target.clone().asked_by(asked.subject.clone(), pod.clone());
            let expected = AccessQuestion {
                verb: text("get"),
                pod,
                ..asked.clone()
            };
            assert_eq!(by, expected);
        }
    }
}
