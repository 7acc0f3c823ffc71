//! What tests have in place of a cluster: an API server that is a map, an evaluation service that is a
//! function, and the controller around both, without any watch: caches are filled when a test says so.

mod api_server;
pub(crate) mod cluster;
pub(crate) mod tekton;

pub(crate) use api_server::{ApiServer, Break};
pub(crate) use cluster::Cluster;
