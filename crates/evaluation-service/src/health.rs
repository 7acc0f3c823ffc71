//! `grpc.health.v1`: whether access questions are answered at this moment.
//!
//! It needs no token, because a prober has none, and it tells no more than the port of the probes. `Watch` is not
//! offered, because any client could hold a connection open by it. As the protocol demands, clients then assume a
//! service whose health is not watched.

use evaluation_api::v1::evaluation_server::SERVICE_NAME;
use tokio_stream::Empty;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::service::Service;

/// Answers for the process as a whole (no name) and for its one service.
pub(crate) struct Healthy(pub(crate) Service);

#[tonic::async_trait]
impl Health for Healthy {
    type WatchStream = Empty<Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let HealthCheckRequest { service } = request.into_inner();
        if !service.is_empty() && service != SERVICE_NAME {
            return Err(Status::not_found("there is no such service here"));
        }
        let status = if self.0.answers() {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        let mut response = HealthCheckResponse::default();
        response.set_status(status);
        Ok(Response::new(response))
    }

    async fn watch(
        &self,
        _: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("health is not watched; call Check"))
    }
}
