//! The kubelet's calls on this node.

use std::sync::Arc;

use service_kit::deadline;
use tonic::{Request, Response, Status};

use crate::{
    driver::Driver,
    evaluator::Evaluator,
    kubernetes::Kubernetes,
    mounter::Mounter,
    proto::csi::{
        NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse, NodeGetInfoRequest,
        NodeGetInfoResponse, NodePublishVolumeRequest, NodePublishVolumeResponse,
        NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse, node_server::Node,
    },
};

/// The node service.
pub(crate) struct DriverNode<E, K, M>(pub(crate) Arc<Driver<E, K, M>>);

#[tonic::async_trait]
impl<E: Evaluator, K: Kubernetes, M: Mounter> Node for DriverNode<E, K, M> {
    async fn node_publish_volume(
        &self,
        request: Request<NodePublishVolumeRequest>,
    ) -> Result<Response<NodePublishVolumeResponse>, Status> {
        let limit = request.metadata().get(deadline::HEADER);
        let limit = limit.and_then(|it| deadline::parse(it.to_str().ok()?));
        self.0.publish(request.into_inner(), limit).await?;
        Ok(Response::new(NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<NodeUnpublishVolumeRequest>,
    ) -> Result<Response<NodeUnpublishVolumeResponse>, Status> {
        self.0.unpublish(request.get_ref()).await?;
        Ok(Response::new(NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        // Asked before every mount. All users in the pod may read the mount, so there is no group to set. Inline
        // volumes are never staged.
        Ok(Response::new(NodeGetCapabilitiesResponse::default()))
    }

    async fn node_get_info(
        &self,
        _: Request<NodeGetInfoRequest>,
    ) -> Result<Response<NodeGetInfoResponse>, Status> {
        Ok(Response::new(NodeGetInfoResponse {
            node_id: self.0.settings.node.clone(),
            ..NodeGetInfoResponse::default()
        }))
    }
}
