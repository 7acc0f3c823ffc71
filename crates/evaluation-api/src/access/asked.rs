//! The questions of a `BatchCheckAccessRequest`, encoded and decoded without copying their texts.
//!
//! A question consists of seven texts, and a batch has many questions. Copying them on either side would cost
//! more than all the answers. This module owns the encoding of this one message, which is that of the
//! generated type, and knows nothing of the answers. Invariant: it refuses every message that the generated
//! type refuses, and otherwise decodes the same values.

use prost::bytes::BufMut;
use prost::encoding::{
    DecodeContext, WireType, check_wire_type, decode_key, decode_varint, encode_key, encode_varint,
    encoded_len_varint, key_len, skip_field,
};
use thiserror::Error;

use super::question::Came;
use super::{AccessQuestion, ConnectorName, PodRef, QuestionError, ServiceAccountName};

/// Field numbers of the protocol.
mod field {
    pub(super) const QUESTIONS: u32 = 1;
    pub(super) const DETAILS: u32 = 2;

    pub(super) const SUBJECT: u32 = 1;
    pub(super) const CONNECTOR: u32 = 2;
    pub(super) const PERMISSION: u32 = 3;
    pub(super) const VERB: u32 = 4;
    pub(super) const POD: u32 = 5;

    /// The two texts of a service account, a connector or a pod.
    pub(super) const FIRST: u32 = 1;
    pub(super) const SECOND: u32 = 2;
}

/// The reason why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// The bytes are not a message.
    #[error("the bytes are no message")]
    Malformed,
    /// There are more questions than allowed.
    #[error("there are too many questions")]
    TooMany,
}

impl From<prost::DecodeError> for ReadError {
    fn from(_: prost::DecodeError) -> Self {
        Self::Malformed
    }
}

/// The questions of one message; their texts borrow from the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedAtOnce<'a> {
    /// The questions, in their order.
    pub questions: Vec<Result<AccessQuestion<&'a str>, QuestionError>>,
    /// True when the answers should include their basis.
    pub details: bool,
}

impl<'a> AskedAtOnce<'a> {
    /// Decodes a message with at most this many questions. Decoding stops at the first excess question or
    /// malformed field, so a refused message keeps no memory.
    pub fn read(message: &'a [u8], most: usize) -> Result<Self, ReadError> {
        let mut read = Self {
            questions: Vec::new(),
            details: false,
        };
        each(message, |number, kind, rest| {
            match number {
                field::QUESTIONS => {
                    let question = bytes(kind, rest)?;
                    if read.questions.len() >= most {
                        return Err(ReadError::TooMany);
                    }
                    read.questions.push(came(question)?.question());
                }
                field::DETAILS => {
                    check_wire_type(WireType::Varint, kind)?;
                    read.details = decode_varint(rest)? != 0;
                }
                _ => skip(number, kind, rest)?,
            }
            Ok(())
        })?;
        Ok(read)
    }
}

/// One question. Of a repeated field the last value counts; repeated submessages are merged.
fn came(message: &[u8]) -> Result<Came<&str>, ReadError> {
    let (mut subject, mut connector, mut pod) = (None, None, None);
    let (mut permission, mut verb) = ("", "");
    each(message, |number, kind, rest| {
        match number {
            field::SUBJECT => pair(kind, rest, &mut subject)?,
            field::CONNECTOR => pair(kind, rest, &mut connector)?,
            field::PERMISSION => permission = text(kind, rest)?,
            field::VERB => verb = text(kind, rest)?,
            field::POD => pair(kind, rest, &mut pod)?,
            _ => skip(number, kind, rest)?,
        }
        Ok(())
    })?;
    Ok(Came {
        subject: subject.map(|[namespace, name]| ServiceAccountName { namespace, name }),
        connector: connector.map(|[namespace, name]| ConnectorName { namespace, name }),
        permission,
        verb,
        pod: pod.map(|[name, uid]| PodRef { name, uid }),
    })
}

fn pair<'a>(
    kind: WireType,
    rest: &mut &'a [u8],
    pair: &mut Option<[&'a str; 2]>,
) -> Result<(), ReadError> {
    let [first, second] = pair.get_or_insert_default();
    each(bytes(kind, rest)?, |number, kind, rest| {
        match number {
            field::FIRST => *first = text(kind, rest)?,
            field::SECOND => *second = text(kind, rest)?,
            _ => skip(number, kind, rest)?,
        }
        Ok(())
    })
}

/// Visits each field of a message: its number, its wire type, and the bytes from which its value is to be
/// taken.
fn each<'a>(
    mut rest: &'a [u8],
    mut take: impl FnMut(u32, WireType, &mut &'a [u8]) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    while !rest.is_empty() {
        let (number, kind) = decode_key(&mut rest)?;
        take(number, kind, &mut rest)?;
    }
    Ok(())
}

fn bytes<'a>(kind: WireType, rest: &mut &'a [u8]) -> Result<&'a [u8], ReadError> {
    check_wire_type(WireType::LengthDelimited, kind)?;
    let length = usize::try_from(decode_varint(rest)?).ok();
    let parts = length.and_then(|length| rest.split_at_checked(length));
    let (bytes, behind) = parts.ok_or(ReadError::Malformed)?;
    *rest = behind;
    Ok(bytes)
}

fn text<'a>(kind: WireType, rest: &mut &'a [u8]) -> Result<&'a str, ReadError> {
    str::from_utf8(bytes(kind, rest)?).map_err(|_| ReadError::Malformed)
}

/// Skips a field of a later version.
fn skip(number: u32, kind: WireType, rest: &mut &[u8]) -> Result<(), ReadError> {
    Ok(skip_field(kind, number, rest, DecodeContext::default())?)
}

/// The message with these questions.
pub(crate) fn written<T: AsRef<str>>(questions: &[AccessQuestion<T>], details: bool) -> Vec<u8> {
    let lengths = questions.iter().map(|question| {
        let length = length_of(question.borrowed());
        framed(field::QUESTIONS, length)
    });
    let mut message = Vec::with_capacity(lengths.sum::<usize>() + 2);
    for question in questions {
        let question = question.borrowed();
        open(field::QUESTIONS, length_of(question), &mut message);
        write(question, &mut message);
    }
    if details {
        encode_key(field::DETAILS, WireType::Varint, &mut message);
        encode_varint(1, &mut message);
    }
    message
}

/// The parts of a question that are messages of two texts each.
fn pairs(question: AccessQuestion<&str>) -> [Option<(u32, [&str; 2])>; 3] {
    let AccessQuestion {
        subject,
        connector,
        pod,
        ..
    } = question;
    [
        Some((field::SUBJECT, [subject.namespace, subject.name])),
        Some((field::CONNECTOR, [connector.namespace, connector.name])),
        pod.map(|pod| (field::POD, [pod.name, pod.uid])),
    ]
}

fn length_of(question: AccessQuestion<&str>) -> usize {
    let pairs = pairs(question).into_iter().flatten();
    let pairs = pairs.map(|(number, pair)| framed(number, length_of_pair(pair)));
    pairs.sum::<usize>()
        + length_of_text(field::PERMISSION, question.permission.as_str())
        + length_of_text(field::VERB, question.verb)
}

fn length_of_pair([first, second]: [&str; 2]) -> usize {
    length_of_text(field::FIRST, first) + length_of_text(field::SECOND, second)
}

/// Empty texts are not written.
fn length_of_text(number: u32, text: &str) -> usize {
    if text.is_empty() {
        0
    } else {
        framed(number, text.len())
    }
}

/// The length of a field with content of this length.
const fn framed(number: u32, length: usize) -> usize {
    key_len(number) + encoded_len_varint(length as u64) + length
}

fn open(number: u32, length: usize, message: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, message);
    encode_varint(length as u64, message);
}

fn write(question: AccessQuestion<&str>, message: &mut Vec<u8>) {
    let [subject, connector, pod] = pairs(question);
    for (number, pair) in [subject, connector].into_iter().flatten() {
        write_pair(number, pair, message);
    }
    write_text(field::PERMISSION, question.permission.as_str(), message);
    write_text(field::VERB, question.verb, message);
    if let Some((number, pair)) = pod {
        write_pair(number, pair, message);
    }
}

fn write_pair(number: u32, pair: [&str; 2], message: &mut Vec<u8>) {
    open(number, length_of_pair(pair), message);
    let [first, second] = pair;
    write_text(field::FIRST, first, message);
    write_text(field::SECOND, second, message);
}

fn write_text(number: u32, text: &str, message: &mut Vec<u8>) {
    if !text.is_empty() {
        open(number, text.len(), message);
        message.put_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests;
