//! The cluster, in files of the kubelet's folder, so that a new process reads the present state: the version of the class,
//! the decision about each pod, and the requests of pods. Each pod asks for the connector of its own name.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use connectors_api::{
    AccessRequest, Connector, ConnectorClass, PodIdentity,
    access_request::{AccessRequestStatus, Phase},
    reason::Ready,
};
use evaluation_api::access::{AccessAnswer, AccessQuestion, RequestSeen};
use k8s_openapi::api::{
    authentication::v1::TokenReviewStatus, authorization::v1::SubjectAccessReviewSpec,
    storage::v1::CSIDriver,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    evaluator::{AnswerStream, Evaluator},
    kubernetes::{Created, EventWord, Kubernetes, Lookup, NoAnswer},
    testing::{NODE, denied, granted, no_request, seen, shown::Shown, standing},
    volume::{AUDIENCE, Token},
};

const ADDRESS: &str = "https://version-";
/// Lines of a file: more than one page.
const LINES: usize = 120;
/// The pause between two looks for another answer.
const LOOK: Duration = Duration::from_millis(1);

/// The decision about a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decided {
    /// A standing permission covers it.
    Standing,
    /// Its request has this phase, as soon as there is one.
    Request(Phase),
}

impl Decided {
    const STANDING: &str = "Standing";

    const fn word(self) -> &'static str {
        match self {
            Self::Standing => Self::STANDING,
            Self::Request(phase) => phase.as_str(),
        }
    }

    fn of(word: &str) -> Self {
        if word == Self::STANDING {
            return Self::Standing;
        }
        let mut phases = Phase::ALL.iter();
        Self::Request(*phases.find(|phase| phase.as_str() == word).unwrap())
    }
}

/// The cluster of a kubelet.
#[derive(Clone, Debug)]
pub(super) struct Cluster(PathBuf);

impl Cluster {
    pub(super) fn of(kubelet: &Path) -> Self {
        Self(kubelet.join("cluster"))
    }

    /// A cluster without pods.
    pub(super) fn make(&self) {
        for folder in ["decided", "requests"] {
            fs::create_dir_all(self.0.join(folder)).unwrap();
        }
    }

    /// The class has this version from now on.
    pub(super) fn change(&self, version: u64) {
        self.put("version", &version.to_string());
    }

    /// From now on this is the decision about a pod.
    pub(super) fn decide(&self, pod: &str, decided: Decided) {
        self.put(&format!("decided/{pod}"), decided.word());
    }

    /// A pod is gone, and its request goes with it.
    pub(super) fn forget(&self, pod: &str) {
        for folder in ["decided", "requests"] {
            let _ = fs::remove_file(self.0.join(folder).join(pod));
        }
    }

    /// The request that was made for a pod.
    pub(super) fn request_of(&self, pod: &str) -> Option<Value> {
        let text = fs::read_to_string(self.0.join("requests").join(pod)).ok()?;
        Some(serde_json::from_str(&text).unwrap())
    }

    /// The content of a pod's volume with this version of the class.
    pub(super) fn content(&self, pod: &str, version: u64) -> Shown {
        let request = self.request_of(pod).unwrap_or_default();
        let request = request["metadata"]["name"].as_str().unwrap_or_default();
        let facts = [
            ("name", pod),
            ("namespace", "tools"),
            ("address", &format!("{ADDRESS}{version}")),
            ("class", "oci"),
            ("permission", "apis"),
            ("request", request),
        ];
        let facts = facts.map(|(fact, text)| (format!("tools_{pod}/{fact}"), text.to_owned()));
        Shown {
            facts: BTreeMap::from(facts),
            files: files(version, pod).into(),
        }
    }

    /// A file that appears at once and whole.
    fn put(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        let newer = path.with_extension("new");
        fs::write(&newer, text).unwrap();
        fs::rename(newer, path).unwrap();
    }

    fn version(&self) -> u64 {
        let text = fs::read_to_string(self.0.join("version")).unwrap();
        text.parse().unwrap()
    }

    fn decided(&self, pod: &str) -> Option<Decided> {
        let word = fs::read_to_string(self.0.join("decided").join(pod)).ok()?;
        Some(Decided::of(&word))
    }

    /// A pod's request as the API server has it now, with its phase.
    fn decided_request(&self, pod: &str) -> Option<(AccessRequest, Phase)> {
        let Decided::Request(phase) = self.decided(pod)? else {
            return None;
        };
        let request = self.request_of(pod)?;
        let mut request: AccessRequest = serde_json::from_value(request).unwrap();
        request.metadata.uid = Some(format!("request-of-{pod}"));
        request.status = Some(AccessRequestStatus {
            phase: Some(phase),
            ..AccessRequestStatus::default()
        });
        Some((request, phase))
    }

    fn answer(&self, question: &AccessQuestion) -> AccessAnswer {
        let pod = question.pod.as_ref().unwrap();
        let asked = [&pod.uid, &question.connector.name];
        if asked.iter().any(|name| **name != pod.name) {
            return no_request();
        }
        if self.decided(&pod.name) == Some(Decided::Standing) {
            return standing();
        }
        let Some((request, phase)) = self.decided_request(&pod.name) else {
            return no_request();
        };
        let ready = match phase {
            Phase::Pending => Ready::ChecksPending,
            Phase::Granted => Ready::Granted,
            Phase::Invalid => Ready::WrongSubject,
            Phase::Rejected => Ready::CheckRejected,
            Phase::Revoked | Phase::Ended => panic!("{phase:?} is no fate"),
        };
        let answer = if phase == Phase::Granted {
            granted()
        } else {
            denied(phase, ready)
        };
        let seen = RequestSeen {
            name: request.metadata.name.unwrap(),
            ..seen(&request.metadata.uid.unwrap(), Some(phase), Some(ready))
        };
        AccessAnswer {
            request: Some(seen),
            ..answer
        }
    }
}

/// The files of a version: name, and text with this in the place of the pod. One name is another with each version.
fn files(version: u64, pod: &str) -> [(String, String); 3] {
    let line = format!("{pod} has version {version}\n");
    [
        (".netrc".to_owned(), line.clone()),
        ("config.json".to_owned(), line.repeat(LINES)),
        (format!("settings-{}.xml", version % 3), line.repeat(2)),
    ]
}

/// The error of a pod that is rejected for good, in another namespace than its connector's. It names no request.
pub(super) fn error(pod: &str) -> String {
    let status = json!({
        "code": 7,
        "message": format!("connector tools/{pod}: access was rejected; a new pod may ask again"),
        "details": [{
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "ACCESS_REJECTED",
            "domain": "connectors.alauda.io",
            "metadata": {
                "connector": format!("tools/{pod}"),
                "permission": "apis",
                "action": "the owners of namespace tools can tell more; start a new pod to ask again",
            },
        }],
    });
    format!("{status:#}\n")
}

impl Kubernetes for Cluster {
    /// A token is the UID of its pod.
    async fn review_token(&self, token: &Token) -> Result<TokenReviewStatus, NoAnswer> {
        let status = json!({
            "authenticated": true,
            "audiences": [AUDIENCE],
            "user": {
                "username": "system:serviceaccount:shop:builder",
                "extra": {
                    "authentication.kubernetes.io/pod-name": [token.expose()],
                    "authentication.kubernetes.io/pod-uid": [token.expose()],
                    "authentication.kubernetes.io/node-name": [NODE],
                },
            },
        });
        Ok(serde_json::from_value(status).unwrap())
    }

    async fn review_access(&self, question: SubjectAccessReviewSpec) -> Result<bool, NoAnswer> {
        let attributes = question.resource_attributes.unwrap();
        let (pod, subresource) = (attributes.name.unwrap(), attributes.subresource.unwrap());
        if subresource == "apis" {
            return Ok(self.decided(&pod) == Some(Decided::Standing));
        }
        let phase = self.decided_request(&pod).map(|(_, phase)| phase);
        Ok(subresource == format!("apis/v1/pod/shop/{pod}") && phase == Some(Phase::Granted))
    }

    /// No other process creates one at the same time.
    async fn create_request(
        &self,
        namespace: &str,
        request: &AccessRequest,
    ) -> Result<Created, NoAnswer> {
        assert_eq!(namespace, "tools");
        let pod = &request.spec.connector_ref.name;
        if self.request_of(pod).is_some() {
            return Ok(Created::Exists);
        }
        let text = serde_json::to_string(request).unwrap();
        self.put(&format!("requests/{pod}"), &text);
        Ok(Created::Made)
    }

    async fn request(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Lookup<AccessRequest>, NoAnswer> {
        assert_eq!(namespace, "tools");
        let pods = fs::read_dir(self.0.join("requests")).unwrap();
        let pods = pods.map(|pod| pod.unwrap().file_name().into_string().unwrap());
        let mut requests = pods.filter_map(|pod| self.decided_request(&pod));
        let found = requests.find(|(request, _)| request.metadata.name.as_deref() == Some(name));
        Ok(found.map_or(Lookup::Absent, |(request, _)| {
            Lookup::Found(Box::new(request))
        }))
    }

    async fn connector(&self, namespace: &str, name: &str) -> Result<Lookup<Connector>, NoAnswer> {
        let connector = json!({
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"connectorClassName": "oci"},
        });
        Ok(Lookup::Found(serde_json::from_value(connector).unwrap()))
    }

    async fn class(&self, name: &str) -> Result<Lookup<ConnectorClass>, NoAnswer> {
        let version = self.version();
        let data = BTreeMap::from(files(version, "{{ .connector.metadata.name }}"));
        let class = json!({
            "metadata": {"name": name},
            "spec": {
                "address": {"name": "address", "default": format!("{ADDRESS}{version}")},
                "configurations": [{"name": "all", "data": data}],
            },
        });
        Ok(Lookup::Found(serde_json::from_value(class).unwrap()))
    }

    async fn driver(&self, _: &str) -> Result<Lookup<CSIDriver>, NoAnswer> {
        Ok(Lookup::Absent)
    }

    fn tell(&self, _: &PodIdentity, _: EventWord, _: String) {}
}

impl Evaluator for Cluster {
    type Watch = Answers;

    async fn ask(&self, question: AccessQuestion) -> Option<AccessAnswer> {
        Some(self.answer(&question))
    }

    fn follow(&self, question: AccessQuestion) -> Answers {
        Answers {
            cluster: self.clone(),
            question,
            last: None,
        }
    }
}

/// The answers to a question, each as soon as it is another one.
pub(super) struct Answers {
    cluster: Cluster,
    question: AccessQuestion,
    last: Option<AccessAnswer>,
}

impl AnswerStream for Answers {
    async fn next(&mut self) -> Option<AccessAnswer> {
        loop {
            let answer = Some(self.cluster.answer(&self.question));
            if answer != self.last {
                self.last.clone_from(&answer);
                return answer;
            }
            sleep(LOOK).await;
        }
    }
}
