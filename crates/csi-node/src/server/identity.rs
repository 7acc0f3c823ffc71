//! The identity of the driver.

use service_kit::readiness::{Readiness, Status as Stand};
use tonic::{Request, Response, Status};

use crate::proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, ProbeRequest, ProbeResponse, identity_server::Identity,
};

/// The identity service.
#[derive(Clone, Debug)]
pub(crate) struct DriverIdentity {
    /// The driver's name.
    pub(crate) name: String,
    /// The readiness of the process.
    pub(crate) readiness: Readiness,
}

#[tonic::async_trait]
impl Identity for DriverIdentity {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse {
            name: self.name.clone(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..GetPluginInfoResponse::default()
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        // No controller service, no topology.
        Ok(Response::new(GetPluginCapabilitiesResponse::default()))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        let ready = self.readiness.status() == Stand::Ready;
        Ok(Response::new(ProbeResponse { ready: Some(ready) }))
    }
}
