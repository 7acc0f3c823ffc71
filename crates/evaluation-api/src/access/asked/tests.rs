use connectors_api::Permission;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::v1;

const MOST: usize = 8;

/// The result of the generated type for the same bytes.
fn generated(message: &[u8]) -> Option<AskedAtOnce<'static>> {
    let message = v1::BatchCheckAccessRequest::decode(message).ok()?;
    let v1::BatchCheckAccessRequest { questions, details } = message;
    let questions = questions
        .into_iter()
        .map(AccessQuestion::<String>::try_from);
    // Leaked to get static references; the test process ends soon.
    let questions = questions.map(|question| question.map(|it| Box::leak(Box::new(it)).borrowed()));
    Some(AskedAtOnce {
        questions: questions.collect(),
        details,
    })
}

/// A valid name, an invalid one, or an empty text.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,3}",
        "[a-z0-9.-]{0,70}",
        ".{0,5}",
        Just(String::new()),
        "[a-z]{63,64}",
    ]
}

fn two() -> impl Strategy<Value = (String, String)> {
    (word(), word())
}

fn wire() -> impl Strategy<Value = v1::AccessQuestion> {
    let permission =
        prop_oneof![4 => Just("apis".to_owned()), 2 => Just("proxy".to_owned()), 1 => word()];
    let verb = prop_oneof![4 => Just("*".to_owned()), 2 => word()];
    let often = |two| option::weighted(0.9, two);
    (
        often(two()),
        often(two()),
        permission,
        verb,
        option::of(two()),
    )
        .prop_map(
            |(subject, connector, permission, verb, pod)| v1::AccessQuestion {
                subject: subject.map(|(namespace, name)| v1::ServiceAccount { namespace, name }),
                connector: connector.map(|(namespace, name)| v1::Connector { namespace, name }),
                permission,
                verb,
                pod: pod.map(|(name, uid)| v1::Pod { name, uid }),
            },
        )
}

fn message() -> impl Strategy<Value = Vec<u8>> {
    (vec(wire(), 0..=MOST), any::<bool>()).prop_map(|(questions, details)| {
        v1::BatchCheckAccessRequest { questions, details }.encode_to_vec()
    })
}

/// Both decoders agree about some bytes.
fn both_agree(bytes: &[u8]) {
    let read = AskedAtOnce::read(bytes, usize::MAX);
    assert_eq!(read, generated(bytes).ok_or(ReadError::Malformed));
}

proptest! {
    #[test]
    fn a_message_says_what_it_says_to_the_generated_type(message in message()) {
        prop_assert_eq!(AskedAtOnce::read(&message, MOST).ok(), generated(&message));
    }

    #[test]
    fn fields_that_come_again_count_as_the_generated_type_counts_them(
        messages in vec(message(), 0..3), mixed in vec((1_u32..7, wire()), 0..4),
    ) {
        let mut bytes = messages.concat();
        // A question in several pieces, within one entry.
        let pieces: Vec<u8> = mixed.iter().flat_map(|(_, wire)| wire.encode_to_vec()).collect();
        open(field::QUESTIONS, pieces.len(), &mut bytes);
        bytes.extend(pieces);
        both_agree(&bytes);
        prop_assert!(generated(&bytes).is_some());
        // Fields with other numbers are decoded alike, too.
        for (number, wire) in mixed {
            let content = wire.encode_to_vec();
            open(number, content.len(), &mut bytes);
            bytes.extend(content);
            both_agree(&bytes);
        }
    }

    #[test]
    fn what_is_broken_is_broken_for_both(
        message in message(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in option::of(any::<prop::sample::Index>()),
    ) {
        let mut message = message;
        if !message.is_empty() {
            for (at, byte) in changes {
                let at = at.index(message.len());
                message[at] = byte;
            }
            if let Some(cut) = cut {
                message.truncate(cut.index(message.len()));
            }
        }
        both_agree(&message);
    }

    #[test]
    fn no_bytes_are_too_odd(bytes in vec(any::<u8>(), 0..64)) {
        both_agree(&bytes);
    }

    #[test]
    fn the_same_bytes_are_written(wires in vec(wire(), 0..=MOST), details: bool) {
        let questions: Vec<AccessQuestion> =
            wires.into_iter().filter_map(|it| it.try_into().ok()).collect();
        let generated = v1::BatchCheckAccessRequest {
            questions: questions.iter().cloned().map(Into::into).collect(),
            details,
        };
        let message = written(&questions, details);
        prop_assert_eq!(&message, &generated.encode_to_vec());
        prop_assert!(message.capacity() <= message.len() + 2);
    }
}

fn question() -> AccessQuestion {
    let text = str::to_owned;
    AccessQuestion::mount(
        ServiceAccountName {
            namespace: text("devops"),
            name: text("builder"),
        },
        ConnectorName {
            namespace: text("tools"),
            name: text("harbor"),
        },
        Permission::Apis,
        PodRef {
            name: text("deploy"),
            uid: text("uid"),
        },
    )
}

#[test]
fn there_is_an_end_to_questions() {
    let message = |count| written(&vec![question(); count], true);
    let read = |count| AskedAtOnce::read(&message(count), MOST).map(|read| read.questions.len());
    assert_eq!(read(MOST), Ok(MOST));
    assert_eq!(read(MOST + 1), Err(ReadError::TooMany));
    // Questions without content count as well.
    let empty = b"\x0a\0".repeat(MOST + 1);
    assert_eq!(AskedAtOnce::read(&empty, MOST), Err(ReadError::TooMany));
}

#[test]
fn what_is_no_message_is_refused() {
    let good = written(&[question()], false);
    // An unterminated group, half a number, half an entry, a question that is a number, field 0, an
    // unterminated number.
    for odd in [
        &b"\x1b"[..],
        b"\x80",
        b"\x0a\x05a",
        b"\x08\x01",
        b"\x02\0",
        b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
    ] {
        let message = [&good, odd].concat();
        assert_eq!(
            AskedAtOnce::read(&message, MOST),
            Err(ReadError::Malformed),
            "{odd:?}"
        );
    }
    // A complete group is only an unknown field.
    let message = [&good[..], b"\x1b\x08\x01\x1c"].concat();
    both_agree(&message);
    assert!(AskedAtOnce::read(&message, MOST).is_ok());
    // A text that is not UTF-8, even if a valid one follows.
    let pieces = b"\x22\x01\xff\x22\x01*";
    let mut message = good;
    open(field::QUESTIONS, pieces.len(), &mut message);
    message.extend(pieces);
    both_agree(&message);
    assert_eq!(AskedAtOnce::read(&message, MOST), Err(ReadError::Malformed));
}

/// A caller with a message full of questions would otherwise fill the memory before it is refused.
#[test]
fn nothing_behind_the_last_allowed_question_is_looked_at() {
    let good = written(&[question()], false);
    // A question that is no message, an unterminated field, and a question that is refused.
    for odd in [
        &b"\x0a\x01\xff"[..],
        b"\x0a\x05a",
        b"\x0a\0\x80",
        b"\x0a\0\x1b",
    ] {
        for most in [0, 1, MOST, 100] {
            let full = good.repeat(most);
            let too_many = [&full[..], &good, odd].concat();
            let read = AskedAtOnce::read(&too_many, most);
            assert_eq!(read, Err(ReadError::TooMany), "{most} {odd:?}");
            let broken = [&full[..], odd].concat();
            let read = AskedAtOnce::read(&broken, most + 1);
            assert_eq!(read, Err(ReadError::Malformed), "{most} {odd:?}");
        }
    }
    // The one too many is not looked at either.
    let read = AskedAtOnce::read(b"\x0a\x01\xff", 0);
    assert_eq!(read, Err(ReadError::TooMany));
    let none = AskedAtOnce::read(b"", 0);
    assert_eq!(none.map(|it| it.questions.len()), Ok(0));
}

/// Refused questions, fields of a later version and details take no other question's place.
#[test]
fn each_question_of_a_message_counts_once_and_in_its_order() {
    let mut bad = v1::AccessQuestion::from(question());
    bad.verb.clear();
    let questions: Vec<v1::AccessQuestion> = (0..MOST)
        .map(|number| {
            let mut wire = v1::AccessQuestion::from(question());
            wire.connector.as_mut().unwrap().name = format!("c-{number}");
            if number % 3 == 1 { bad.clone() } else { wire }
        })
        .collect();
    let mut message = Vec::new();
    for question in questions {
        message.extend(b"\x10\x01\x1b\x08\x01\x1c");
        let question = question.encode_to_vec();
        open(field::QUESTIONS, question.len(), &mut message);
        message.extend(question);
    }
    let read = AskedAtOnce::read(&message, MOST).unwrap();
    assert!(read.details);
    assert_eq!(read.questions.len(), MOST);
    for (number, question) in read.questions.iter().enumerate() {
        if number % 3 == 1 {
            assert_eq!(*question, Err(QuestionError::Verb));
        } else {
            let name = question.as_ref().map(|it| it.connector.name);
            assert_eq!(name, Ok(&*format!("c-{number}")));
        }
    }
    assert_eq!(
        AskedAtOnce::read(&message, MOST - 1),
        Err(ReadError::TooMany)
    );
}
