//! Waiting until everything in the cluster follows the API server.
//!
//! After the API server was away its watchers come back one by one, each after a pause of its own that may be
//! longer than a minute. Until then new services have neither endpoints nor names, though every component is up.

use std::{net::Ipv4Addr, time::Duration};

use super::{
    Cluster, UpError, control,
    dns::{self, Question},
    up::io_error,
};
use crate::wait::{Deadline, poll};

/// Longer than the longest pause of a watcher that failed often.
const PATIENCE: Duration = Duration::from_mins(3);

/// DNS itself behind one more service.
const SECOND_DNS_SERVICE: &str = "apiVersion: v1
kind: Service
metadata: {generateName: settled-, namespace: kube-system}
spec:
  selector: {k8s-app: kube-dns}
  ports: [{port: 53, protocol: UDP, targetPort: dns}]
";

impl Cluster {
    /// Returns when a service that was created just now answers by its name and at its address: endpoints,
    /// addresses and names are up to date then.
    pub fn settle(&self) -> Result<(), UpError> {
        let kubectl = self.kubectl();
        let words = "create -f - -o jsonpath={.metadata.name}";
        let name = kubectl.run_with_input(words, SECOND_DNS_SERVICE)?;
        let settled = self.wait_until_answered(&name);
        let words = format!("delete service {name} -n kube-system --wait=false");
        settled.and(kubectl.run(&words).map(drop).map_err(UpError::from))
    }

    fn wait_until_answered(&self, name: &str) -> Result<(), UpError> {
        let words = format!("get service {name} -n kube-system -o jsonpath={{.spec.clusterIP}}");
        let address = self.kubectl().run(&words)?;
        let inside =
            control::supervisor_pid(&self.layout).map_err(io_error("find the supervisor"))?;
        self.wait(poll(
            "a new service to answer at its address and by its name",
            Deadline::after(PATIENCE),
            || {
                let address: Ipv4Addr = address
                    .parse()
                    .map_err(|error| format!("the service's address `{address}`: {error}"))?;
                let question = Question {
                    server: address,
                    name: format!("{name}.kube-system.svc.cluster.local"),
                    expected: address,
                };
                dns::answers(inside, &question)
            },
        ))
    }
}
