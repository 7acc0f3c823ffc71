//! The scene: sample classes with a connector each, the front before their tools, and pods that mount all of them.

use std::{fs, thread, time::Duration};

use e2e::{
    Deadline,
    api::kinds::CONNECTOR as CONNECTOR_KIND,
    harness::{PATIENCE, say},
    images::Image,
    poll,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};

use crate::support::{Approval, Gate, MOUNT, create_caller, evaluation_roots, policy, volume};

/// The sample classes: each names a connector and a tool of the front, and has one configuration.
const CLASSES: [(&str, &str); 5] = [
    ("docker", "docker"),
    ("git", "git"),
    ("http", "curl"),
    ("kubernetes", "kubeconfig"),
    ("maven", "maven"),
];
const FRONT: &str = "front";
const PORT: u16 = 8080;
/// Where a pod may write.
const WORK: &str = "/scratch";

/// How clients reach the tools.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// By the address of the connector, without TLS.
    Direct,
    /// Through the proxy in the connector's status, with TLS that ends there.
    Proxied,
}

pub(super) struct ClientStage {
    gate: Gate,
    way: Way,
}

impl ClientStage {
    /// None on a cluster that cannot have the image from this machine.
    pub(super) fn new(test: &str, way: Way) -> Option<Self> {
        let gate = Gate::empty(test);
        if gate.scene().cluster().is_none() {
            say(&format!(
                "not run: {test} needs an image that only a local cluster has"
            ));
            return None;
        }
        let stage = Self { gate, way };
        stage.create_connectors();
        stage.start_front();
        let mut policy = policy("release", Approval::SignOff);
        policy["spec"]["connector"]["names"] = json!(CLASSES.map(|(tool, _)| tool));
        stage.apply(&policy);
        Some(stage)
    }

    fn apply(&self, object: &Value) {
        self.gate.scene().apply(object).unwrap();
    }

    /// The host of a tool.
    pub(super) fn host(&self, tool: &str) -> String {
        match self.way {
            Way::Direct => format!("{tool}.{}.svc", self.gate.namespace()),
            Way::Proxied => format!("{tool}.example.com"),
        }
    }

    pub(super) fn proxy(&self) -> String {
        format!("http://{FRONT}.{}.svc:{PORT}", self.gate.namespace())
    }

    /// The sample classes under names of this test, and a connector of each.
    fn create_connectors(&self) {
        let scheme = match self.way {
            Way::Direct => "http",
            Way::Proxied => "https",
        };
        for (tool, _) in CLASSES {
            let file = e2e::repository().join(format!("examples/connectorclasses/{tool}.yaml"));
            let text = fs::read_to_string(file).unwrap();
            let mut class: Value = serde_yaml::from_str(&text).unwrap();
            let name = format!("{tool}-{}", self.gate.namespace());
            class["metadata"]["name"] = json!(name);
            self.apply(&class);
            self.apply(&json!({
                "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector", "metadata": {"name": tool},
                "spec": {"connectorClassName": name, "address": format!("{scheme}://{}", self.host(tool))},
            }));
        }
    }

    /// Starts the front, and tells the connectors about its proxy where clients go through it.
    fn start_front(&self) {
        let (authority, certificate, key) = self.certificates();
        create_caller(&self.gate, FRONT);
        self.apply(&json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": FRONT},
            "data": {"roots.crt": evaluation_roots(&self.gate)},
        }));
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": FRONT},
            "stringData": {"tls.crt": certificate, "tls.key": key},
        }));
        let token =
            json!({"serviceAccountToken": {"audience": "connectors-evaluation", "path": "token"}});
        let sources = json!([
            token, {"configMap": {"name": FRONT}}, {"secret": {"name": FRONT}},
        ]);
        let files = "/files";
        let namespace = self.gate.namespace();
        let args = format!(
            "--namespace {namespace} --roots {files}/roots.crt --token {files}/token \
             --certificate {files}/tls.crt --key {files}/tls.key --work {WORK}"
        );
        let container = json!({
            "command": ["/tool-front"], "args": args.split_whitespace().collect::<Vec<_>>(),
            "volumeMounts": [{"name": "files", "mountPath": files}],
        });
        let volumes = json!([{"name": "files", "projected": {"sources": sources}}]);
        self.start_pod(FRONT, FRONT, container, volumes);
        match self.way {
            Way::Direct => {
                for (tool, _) in CLASSES {
                    self.create_service(tool, 80);
                }
            }
            Way::Proxied => {
                self.create_service(FRONT, PORT);
                let address = json!({"url": self.proxy(), "CACerts": authority});
                let status = json!({"proxy": {"httpAddress": address}});
                for (tool, _) in CLASSES {
                    let api = self.gate.api();
                    api.patch_status(CONNECTOR_KIND, tool, &status).unwrap();
                }
            }
        }
    }

    fn create_service(&self, name: &str, port: u16) {
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": {"app": FRONT}, "ports": [{"port": port, "targetPort": PORT}]},
        }));
    }

    /// An authority, and the certificate and key of all tools, in PEM.
    fn certificates(&self) -> (String, String, String) {
        let mut params = CertificateParams::default();
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "the authority of the tools");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap());
        let authority = authority.unwrap();
        let hosts: Vec<_> = CLASSES.iter().map(|(tool, _)| self.host(tool)).collect();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.use_authority_key_identifier_extension = true;
        let signed = params.signed_by(&key, &authority).unwrap();
        (authority.pem(), signed.pem(), key.serialize_pem())
    }

    /// Starts a pod that is let in, with the files of all classes for this user.
    pub(super) fn start_client(&self, pod: &str, user: &str) {
        self.gate
            .set_approval(pod, pod, Approval::SignOff, "approved");
        let names = CLASSES.map(|(tool, _)| tool).join(",");
        let configurations = CLASSES.map(|(_, configuration)| configuration).join(",");
        let user = json!({"user": user});
        let params = json!({
            "curl": {"path": "/api/hello"}, "docker": user, "git": user, "maven": user,
        });
        let attributes = json!({
            "connectors": names, "configuration.names": configurations,
            "configuration.params": params.to_string(),
        });
        let mut mounts = volume(&attributes);
        let container = json!({
            "command": ["/workload"], "args": ["wait"], "volumeMounts": mounts["volumeMounts"].take(),
        });
        self.start_pod(pod, "default", container, mounts["volumes"].take());
        self.gate.scene().wait_for_running(pod);
    }

    /// Starts a pod of the image with the clients, with a directory to write into.
    fn start_pod(&self, name: &str, account: &str, mut container: Value, mut volumes: Value) {
        container["name"] = json!("main");
        container["image"] = json!(Image::Clients.reference());
        container["imagePullPolicy"] = json!("IfNotPresent");
        let push = |list: &mut Value, item: Value| list.as_array_mut().unwrap().push(item);
        push(
            &mut container["volumeMounts"],
            json!({"name": "work", "mountPath": WORK}),
        );
        push(&mut volumes, json!({"name": "work", "emptyDir": {}}));
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {
                "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "serviceAccountName": account,
                "containers": [container], "volumes": volumes,
            },
        }));
    }

    /// The output of a command in a pod, with the volume as its home; or its error.
    pub(super) fn run(&self, pod: &str, more: &[&str], command: &str) -> Result<String, String> {
        let home = format!(
            "--env HOME={MOUNT} --env DOCKER_CONFIG={MOUNT} --env KUBECONFIG={MOUNT}/kubeconfig \
             --env GIT_TERMINAL_PROMPT=0"
        );
        let more = more.join(" ");
        let words = format!("exec {pod} -- /workload run {home} {more} -- {command}");
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let output = self.gate.scene().run(&words);
        output.map_err(|error| error.to_string())
    }

    /// Waits for the first success: the front starts, DNS learns its name, and its caller's right is seen.
    pub(super) fn wait_for_tools(&self, pod: &str, command: &str) {
        patiently("the tools to answer", || self.run(pod, &[], command));
    }

    /// Takes the approval of a pod back.
    pub(super) fn withdraw(&self, pod: &str) {
        self.gate
            .set_approval(pod, pod, Approval::SignOff, "expired");
        self.gate.approval_ended(pod, "release");
    }

    /// Waits until a command fails.
    pub(super) fn wait_for_refusal(&self, pod: &str, command: &str) {
        patiently("the tool to refuse the pod", || {
            match self.run(pod, &[], command) {
                Ok(output) => Err(output),
                Err(error) => Ok(error),
            }
        });
    }
}

/// Each look is a process in a pod.
fn patiently(what: &str, look: impl Fn() -> Result<String, String>) {
    let look = || look().inspect_err(|_| thread::sleep(Duration::from_millis(500)));
    poll(what, Deadline::after(PATIENCE), look).unwrap();
}
