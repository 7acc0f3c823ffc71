//! What a process asks: every pod may use the connector of its own name. The version of their class is in a file, so that a
//! new process reads the present one.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use connectors_api::{AccessRequest, Connector, ConnectorClass, PodIdentity};
use evaluation_api::access::{AccessAnswer, AccessQuestion};
use k8s_openapi::api::{
    authentication::v1::TokenReviewStatus, authorization::v1::SubjectAccessReviewSpec,
    storage::v1::CSIDriver,
};
use serde_json::json;

use crate::{
    evaluator::{AnswerStream, Evaluator},
    kubernetes::{Created, EventWord, Kubernetes, Lookup, NoAnswer},
    testing::{NODE, shown::Shown, standing},
    volume::{AUDIENCE, Token},
};

const ADDRESS: &str = "https://version-";
/// Lines of a file: more than one page.
const LINES: usize = 120;

/// The class that changes.
#[derive(Clone, Debug)]
pub(super) struct VersionFile(PathBuf);

impl VersionFile {
    pub(super) fn of(kubelet: &Path) -> Self {
        Self(kubelet.join("version"))
    }

    pub(super) fn put(&self, version: u64) {
        let newer = self.0.with_extension("new");
        fs::write(&newer, version.to_string()).unwrap();
        fs::rename(newer, &self.0).unwrap();
    }

    fn get(&self) -> u64 {
        fs::read_to_string(&self.0).unwrap().parse().unwrap()
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

/// The content of a pod's volume with this version of the class.
pub(super) fn content(pod: &str, version: u64) -> Shown {
    let facts = [
        ("name", pod),
        ("namespace", "tools"),
        ("address", &format!("{ADDRESS}{version}")),
        ("class", "oci"),
        ("permission", "apis"),
        ("request", ""),
    ];
    let facts = facts.map(|(fact, text)| (format!("tools_{pod}/{fact}"), text.to_owned()));
    Shown {
        facts: BTreeMap::from(facts),
        files: files(version, pod).into(),
    }
}

impl Kubernetes for VersionFile {
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
        Ok(question.resource_attributes.is_some())
    }

    async fn create_request(&self, _: &str, _: &AccessRequest) -> Result<Created, NoAnswer> {
        Err(NoAnswer)
    }

    async fn request(&self, _: &str, _: &str) -> Result<Lookup<AccessRequest>, NoAnswer> {
        Err(NoAnswer)
    }

    async fn connector(&self, namespace: &str, name: &str) -> Result<Lookup<Connector>, NoAnswer> {
        let connector = json!({
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"connectorClassName": "oci"},
        });
        Ok(Lookup::Found(serde_json::from_value(connector).unwrap()))
    }

    async fn class(&self, name: &str) -> Result<Lookup<ConnectorClass>, NoAnswer> {
        let version = self.get();
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

impl Evaluator for VersionFile {
    type Watch = StandingAnswers;

    async fn ask(&self, _: AccessQuestion) -> Option<AccessAnswer> {
        Some(standing())
    }

    fn follow(&self, _: AccessQuestion) -> StandingAnswers {
        StandingAnswers
    }
}

/// The same yes for ever.
pub(super) struct StandingAnswers;

impl AnswerStream for StandingAnswers {
    async fn next(&mut self) -> Option<AccessAnswer> {
        Some(standing())
    }
}
