//! A call with one message, read and answered without a copy of the request.
//!
//! Owns: the frame of a message. Refuses to know: the content of messages. Invariant: only one whole message, as it was
//! sent, is accepted.

use evaluation_api::LONGEST_MESSAGE;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as HttpBody, Bytes};
use prost::Message;
use tonic::body::Body;
use tonic::codec::{EncodeBody, SingleMessageCompressionOverride};
use tonic::metadata::GRPC_CONTENT_TYPE;
use tonic_prost::ProstEncoder;

use crate::error::Refused;

/// The prefix of a message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// The only message of a call.
pub(super) async fn read<B>(body: B, longest: usize) -> Result<Bytes, Refused>
where
    B: HttpBody<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let body = Limited::new(body, longest + PREFIX).collect().await;
    let mut body = body.map_err(|_| Refused::TooManyAtOnce)?.to_bytes();
    let (compressed, length) = match body.first_chunk::<PREFIX>() {
        Some([compressed, length @ ..]) => (*compressed, u32::from_be_bytes(*length)),
        None => return Err(Refused::NoMessage),
    };
    let message = body.split_off(PREFIX);
    // The service announces no compression.
    if compressed == 0 && usize::try_from(length) == Ok(message.len()) {
        Ok(message)
    } else {
        Err(Refused::NoMessage)
    }
}

/// The answer with this message.
pub(super) fn answer<M: Message + 'static>(message: M) -> http::Response<Body> {
    let body = EncodeBody::new_server(
        ProstEncoder::default(),
        tokio_stream::once(Ok(message)),
        None,
        SingleMessageCompressionOverride::default(),
        Some(LONGEST_MESSAGE),
    );
    let mut response = http::Response::new(Body::new(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
    response
}

#[cfg(test)]
mod tests {
    use evaluation_api::v1::BatchCheckAccessResponse;
    use http_body_util::Full;

    use super::*;

    async fn came(bytes: &'static [u8]) -> Result<Bytes, Refused> {
        read(Full::new(Bytes::from_static(bytes)), 3).await
    }

    #[tokio::test]
    async fn a_message_is_what_its_length_says() {
        assert_eq!(came(b"\0\0\0\0\x03abc").await.unwrap(), "abc");
        assert_eq!(came(b"\0\0\0\0\0").await.unwrap(), "");
        for odd in [
            &b""[..],
            b"\0\0",
            b"\0\0\0\0\x03ab",
            b"\0\0\0\0\x01ab",
            b"\0\x01\0\0\x03abc",
            b"\x01\0\0\0\x03abc",
            b"\x02\0\0\0\x03abc",
        ] {
            assert!(
                matches!(came(odd).await, Err(Refused::NoMessage)),
                "{odd:?}"
            );
        }
    }

    #[tokio::test]
    async fn what_is_too_long_is_not_kept() {
        let refused = came(b"\0\0\0\0\x04abcd").await;
        assert!(matches!(refused, Err(Refused::TooManyAtOnce)));
    }

    #[tokio::test]
    async fn an_answer_is_a_message_and_says_that_all_is_well() {
        let said = BatchCheckAccessResponse {
            decisions: vec![1, 2, 3],
            ..BatchCheckAccessResponse::default()
        };
        let response = answer(said.clone());
        assert_eq!(response.headers()[CONTENT_TYPE], "application/grpc");
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.trailers().unwrap()["grpc-status"], "0");
        let message = read(Full::new(body.to_bytes()), LONGEST_MESSAGE).await;
        let message = BatchCheckAccessResponse::decode(message.unwrap());
        assert_eq!(message, Ok(said));
    }
}
