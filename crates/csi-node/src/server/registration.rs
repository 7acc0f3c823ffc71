//! The registration of the driver: the kubelet finds the socket and asks.

use std::sync::Arc;

use tokio::sync::watch;
use tonic::{Request, Response, Status};
use tracing::{error, info};

use crate::proto::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
    registration_server::Registration,
};

/// The kubelet's last answer. None before the first one.
pub(crate) type Registered = watch::Receiver<Option<bool>>;

/// The registration service.
#[derive(Clone, Debug)]
pub(crate) struct Registrar {
    name: String,
    endpoint: String,
    said: Arc<watch::Sender<Option<bool>>>,
}

impl Registrar {
    /// The registration of a driver whose socket is at this path of the node.
    pub(crate) fn new(name: &str, endpoint: String) -> (Self, Registered) {
        let (said, registered) = watch::channel(None);
        let registrar = Self {
            name: name.to_owned(),
            endpoint,
            said: Arc::new(said),
        };
        (registrar, registered)
    }
}

#[tonic::async_trait]
impl Registration for Registrar {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(PluginInfo {
            r#type: "CSIPlugin".to_owned(),
            name: self.name.clone(),
            endpoint: self.endpoint.clone(),
            // The version of the protocol, not of the driver.
            supported_versions: vec!["1.0.0".to_owned()],
        }))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let RegistrationStatus {
            plugin_registered,
            error,
        } = request.into_inner();
        if plugin_registered {
            info!("registered with the kubelet");
        } else {
            error!(error, "the kubelet refused the registration");
        }
        self.said.send_replace(Some(plugin_registered));
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
