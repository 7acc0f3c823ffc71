//! How many entries has a list, before memory is taken for each of them?

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes};

use crate::error::Refused;

/// What stands before a message: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// The list is the message's first field.
const LIST: u64 = 1;

/// The body of a call, whole, whose list has at most `most` entries.
pub(super) async fn read<B>(body: B, longest: usize, most: usize) -> Result<Full<Bytes>, Refused>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let body = Limited::new(body, longest + PREFIX).collect().await;
    let body = body.map_err(|_| Refused::TooManyAtOnce)?.to_bytes();
    // What cannot be counted to its end is not read by anybody.
    let message = body.get(PREFIX..).ok_or(Refused::NoMessage)?;
    if entries(message).ok_or(Refused::NoMessage)? > most {
        return Err(Refused::TooManyAtOnce);
    }
    Ok(Full::new(body))
}

/// How often the field occurs. None when the bytes are no message.
fn entries(mut message: &[u8]) -> Option<usize> {
    let mut entries = 0;
    while !message.is_empty() {
        let key = number(&mut message)?;
        let length = match key & 7 {
            0 => {
                number(&mut message)?;
                0
            }
            1 => 8,
            2 => usize::try_from(number(&mut message)?).ok()?,
            5 => 4,
            _ => return None,
        };
        message = message.get(length..)?;
        entries += usize::from(key >> 3 == LIST);
    }
    Some(entries)
}

/// Takes a number of variable length.
fn number(message: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use evaluation_api::v1::{AccessQuestion, BatchCheckAccessRequest};
    use proptest::prelude::*;
    use prost::Message;

    use super::*;

    fn message(questions: Vec<AccessQuestion>, details: bool) -> Vec<u8> {
        BatchCheckAccessRequest { questions, details }.encode_to_vec()
    }

    proptest! {
        #[test]
        fn as_many_are_counted_as_there_are(
            verbs in proptest::collection::vec(".{0,300}", 0..20), details: bool,
        ) {
            let question = |verb: &String| AccessQuestion {
                verb: verb.clone(),
                ..AccessQuestion::default()
            };
            let message = message(verbs.iter().map(question).collect(), details);
            prop_assert_eq!(entries(&message), Some(verbs.len()));
        }

        #[test]
        fn no_bytes_are_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            // What it says does not matter, that it says something does.
            let _ = entries(&bytes);
        }
    }

    #[tokio::test]
    async fn what_cannot_be_counted_is_refused() {
        let many = message(vec![AccessQuestion::default(); 9], false);
        // A group, half a number, half an entry.
        for odd in [&b"\x13\x14"[..], b"\x80", b"\x0a\x05a"] {
            let body = Bytes::from([&[0; PREFIX], &many[..], odd].concat());
            let refused = read(Full::new(body), 1000, 3).await.err();
            assert!(matches!(refused, Some(Refused::NoMessage)), "{odd:?}");
        }
        let refused = read(Full::new(Bytes::from_static(b"\0\0")), 1000, 3).await;
        assert!(matches!(refused.err(), Some(Refused::NoMessage)));
    }

    #[tokio::test]
    async fn too_many_and_too_long_are_refused_before_they_are_read() {
        let body = |count| {
            let mut body = vec![0; PREFIX];
            body.extend(message(vec![AccessQuestion::default(); count], false));
            Full::new(Bytes::from(body))
        };
        assert!(read(body(3), 1000, 3).await.is_ok());
        for (count, longest, most) in [(4, 1000, 3), (3, 3, 3)] {
            let refused = read(body(count), longest, most).await.err();
            assert!(matches!(refused, Some(Refused::TooManyAtOnce)));
        }
    }
}
