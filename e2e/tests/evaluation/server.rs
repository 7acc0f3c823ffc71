//! The API server itself: killed, and ended in order.

use std::thread;
use std::time::Duration;

use e2e::cluster::ControlError;
use e2e::harness::PATIENCE;
use e2e::{Cluster, ClusterName, Component, Deadline, poll};

use crate::support::{Alone, Seen};

/// Longer than callers' reviews are remembered.
const REMEMBERED: Duration = Duration::from_secs(30);

/// The API server of the run's cluster, which is there again when the test is over, however it ends.
struct ApiServer(ClusterName);

impl ApiServer {
    fn kill(&self) {
        // A machine that is busy may take its time to bury it.
        let killed = poll(
            "the end of the API server",
            Deadline::after(PATIENCE),
            || match Cluster::kill(&self.0, Component::KubeApiserver) {
                Ok(()) => Ok(()),
                Err(ControlError::Refused(why)) if why.contains("does not run") => Ok(()),
                Err(error) => Err(error.to_string()),
            },
        );
        killed.unwrap();
    }

    fn restart(&self) {
        let restarted = poll("the API server", Deadline::after(PATIENCE), || {
            Cluster::restart(&self.0, Component::KubeApiserver).map_err(|error| error.to_string())
        });
        restarted.unwrap();
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = Cluster::restart(&self.0, Component::KubeApiserver);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_is_killed_and_comes_back_is_followed_again() {
    let alone = Alone::new("server").await;
    let stage = alone.stage();
    let Some(cluster) = stage.scene().cluster() else {
        return; // an existing cluster is not ours to break
    };
    let server = ApiServer(cluster.name().clone());
    server.kill();
    let no_server = Seen::Refused("API_SERVER_UNAVAILABLE");
    stage.until_caller(no_server, REMEMBERED).await;
    // The last state before its death is still true, and the answers carry that time.
    stage.until_socket(Seen::Allowed, PATIENCE).await;
    server.restart();
    // Written as soon as anything can be: the service may not be connected by then.
    stage.take().await;
    stage.until_all(Seen::Denied, 2 * PATIENCE).await;
    stage.give().await;
    stage.until_all(Seen::Allowed, PATIENCE).await;
    // Ended in order this time, and started again at once.
    server.restart();
    stage.take().await;
    stage.until_all(Seen::Denied, 2 * PATIENCE).await;
    alone.end().await;
}
