//! Passes calls on as they are: every method, header and trailer, the kubelet's deadline and its giving up.

use std::{io, path::PathBuf, sync::Arc};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    HeaderMap, Request, Response,
    body::{Bytes, Incoming},
    client::conn::http2 as client,
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
    server::conn::http2 as server,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{UnixListener, UnixStream};

use crate::{
    call::{Answer, Method},
    recorder::Log,
};

/// The default limit of gRPC for a message.
const LONGEST: usize = 4 << 20;
const UNAVAILABLE: &str = "14";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, std::convert::Infallible>;
type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Serves all callers, until it is dropped.
pub(crate) async fn serve(listener: UnixListener, driver: PathBuf, log: Arc<Log>) -> io::Error {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => return error,
        };
        let (driver, log) = (driver.clone(), Arc::clone(&log));
        let service = service_fn(move |request| {
            let (driver, log) = (driver.clone(), Arc::clone(&log));
            async move { Ok::<_, std::convert::Infallible>(answer(request, driver, log).await) }
        });
        let connection = server::Builder::new(TokioExecutor::new());
        // The kubelet may go away at any time.
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(request: Request<Incoming>, driver: PathBuf, log: Arc<Log>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = match Limited::new(body, LONGEST).collect().await {
        Ok(body) => body.to_bytes(),
        Err(_) => return unavailable("the request could not be read"),
    };
    let call = match Method::of(parts.uri.path()) {
        Some(method) => Some(Log::begin(log, method, body.clone()).await),
        None => None,
    };
    let answered = forward(Request::from_parts(parts, Full::new(body)), driver).await;
    let (response, answer) = match answered {
        Ok((parts, body, trailers)) => {
            let answer = status(trailers.as_ref().unwrap_or(&parts.headers), &parts.headers);
            let body = Full::new(body).with_trailers(async move { trailers.map(Ok) });
            (Response::from_parts(parts, body.boxed_unsync()), answer)
        }
        // The status that gRPC itself derives from a broken connection: not final.
        Err(error) => {
            let message = format!("the driver cannot be reached: {error}");
            let answer = Answer::Status {
                code: 14,
                message: message.clone(),
            };
            (unavailable(&message), answer)
        }
    };
    if let Some(call) = call {
        // Before the kubelet receives the answer, so that the inspected state is that of the answer.
        call.end(answer).await;
    }
    response
}

type Whole = (hyper::http::response::Parts, Bytes, Option<HeaderMap>);

/// One call on a connection of its own, as the kubelet's own are.
async fn forward(request: Request<Full<Bytes>>, driver: PathBuf) -> Result<Whole, Problem> {
    let stream = UnixStream::connect(driver).await?;
    let (mut sender, connection) =
        client::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, LONGEST).collect().await?;
    let trailers = body.trailers().cloned();
    Ok((parts, body.to_bytes(), trailers))
}

/// The status is in the trailers, or in the headers when there is nothing else.
fn status(trailers: &HeaderMap, headers: &HeaderMap) -> Answer {
    let value = |name: &HeaderName| {
        let value = trailers.get(name).or_else(|| headers.get(name));
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    // Without a status gRPC makes it UNKNOWN.
    let code = value(&GRPC_STATUS).parse().unwrap_or(2);
    Answer::Status {
        code,
        message: decoded(value(&GRPC_MESSAGE)),
    }
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let (byte, tail) = match (first, escaped) {
            (b'%', Some(byte)) => (byte, tail.get(2..).unwrap_or_default()),
            (byte, _) => (*byte, tail),
        };
        bytes.push(byte);
        rest = tail;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn unavailable(message: &str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::new()).boxed_unsync());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(GRPC_STATUS, HeaderValue::from_static(UNAVAILABLE));
    if let Ok(message) = HeaderValue::from_str(message) {
        headers.insert(GRPC_MESSAGE, message);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        pairs.collect()
    }

    fn code(
        trailers: &[(&'static str, &'static str)],
        early: &[(&'static str, &'static str)],
    ) -> u16 {
        match status(&headers(trailers), &headers(early)) {
            Answer::Status { code, .. } => code,
            Answer::Abandoned => u16::MAX,
        }
    }

    #[test]
    fn only_a_status_of_zero_is_ok() {
        assert_eq!(code(&[("grpc-status", "0")], &[]), 0);
        assert_eq!(code(&[], &[("grpc-status", "7")]), 7);
        assert_eq!(code(&[("grpc-status", "9")], &[("grpc-status", "0")]), 9);
        for broken in ["", "x", "-1", "70000"] {
            assert_eq!(code(&[("grpc-status", broken)], &[]), 2, "{broken}");
        }
        assert_eq!(code(&[], &[]), 2);
    }

    #[test]
    fn messages_are_read_as_they_were_meant() {
        for (sent, meant) in [
            ("a%20b", "a b"),
            ("100%25", "100%"),
            ("%", "%"),
            ("%c3%bc", "\u{fc}"),
            ("", ""),
        ] {
            assert_eq!(decoded(sent), meant);
        }
    }
}
