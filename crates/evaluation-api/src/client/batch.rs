//! Many questions in one call. The caller keeps them; they are encoded from borrowed texts.
//!
//! The generated client would need a message of its own, with a copy of every text.

use http::uri::PathAndQuery;
use prost::bytes::BufMut;
use tonic::client::Grpc;
use tonic::codec::{BufferSettings, Codec, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{GrpcMethod, Request, Response, Status};
use tonic_prost::ProstDecoder;

use super::{CHECK_ACCESS, Client, EvaluationCallError};
use crate::LONGEST_MESSAGE;
use crate::access::{self, AccessAnswer, AccessQuestion, Permitted};
use crate::refusal::QuestionRefusal;
use crate::v1::BatchCheckAccessResponse;

const SERVICE: &str = "connectors.evaluation.v1.Evaluation";
const NAME: &str = "BatchCheckAccess";
const PATH: &str = "/connectors.evaluation.v1.Evaluation/BatchCheckAccess";
/// The length of a gRPC message prefix: the compression flag and the message length.
const PREFIX: usize = 5;

impl Client {
    /// As [`Client::check_access`], for at most [`crate::MOST_QUESTIONS`] questions: one decision per
    /// question, in their order.
    pub async fn batch_check_access<T: AsRef<str>>(
        &self,
        questions: &[AccessQuestion<T>],
    ) -> Result<Vec<Result<Permitted, QuestionRefusal>>, EvaluationCallError> {
        let response = self.batch(access::written(questions, false)).await?;
        Ok(access::decisions(response, questions.len())?)
    }

    /// The same with reasons, bindings and requests, which is more expensive.
    pub async fn batch_check_access_in_detail<T: AsRef<str>>(
        &self,
        questions: &[AccessQuestion<T>],
    ) -> Result<Vec<Result<AccessAnswer, QuestionRefusal>>, EvaluationCallError> {
        let response = self.batch(access::written(questions, true)).await?;
        Ok(access::details(response, questions.len())?)
    }

    async fn batch(
        &self,
        message: Vec<u8>,
    ) -> Result<BatchCheckAccessResponse, EvaluationCallError> {
        let channel = self.service.channel.clone();
        let call = self.call(NAME, CHECK_ACCESS, message);
        call.ask(async |_, request| send(channel, request).await)
            .await
    }
}

async fn send(
    channel: Channel,
    mut request: Request<Vec<u8>>,
) -> Result<Response<BatchCheckAccessResponse>, Status> {
    let mut grpc = Grpc::new(channel)
        .max_decoding_message_size(LONGEST_MESSAGE)
        .max_encoding_message_size(LONGEST_MESSAGE);
    let ready = grpc.ready().await;
    ready.map_err(|error| Status::unknown(format!("the connection is not ready: {error}")))?;
    // As the generated client does.
    let method = GrpcMethod::new(SERVICE, NAME);
    request.extensions_mut().insert(method);
    let codec = EncodedBatch {
        length: request.get_ref().len(),
    };
    grpc.unary(request, PathAndQuery::from_static(PATH), codec)
        .await
}

/// A message that is already encoded, with a known length.
#[derive(Clone, Copy)]
struct EncodedBatch {
    length: usize,
}

impl Codec for EncodedBatch {
    type Encode = Vec<u8>;
    type Decode = BatchCheckAccessResponse;
    type Encoder = Self;
    type Decoder = ProstDecoder<BatchCheckAccessResponse>;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::default()
    }
}

impl Encoder for EncodedBatch {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        // Capacity for the whole message, so that it is sent in one piece.
        let length = self.length + PREFIX;
        BufferSettings::new(length, length)
    }
}
