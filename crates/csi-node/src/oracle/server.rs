//! The API server, as one process of the driver reaches it.

use std::time::Duration;

use connectors_api::{
    AccessRequest, Connector, ConnectorClass, Permission, PodIdentity,
    access_request::AccessRequestStatus,
};
use k8s_openapi::{
    api::{
        authentication::v1::TokenReviewStatus, authorization::v1::SubjectAccessReviewSpec,
        storage::v1::CSIDriver,
    },
    apimachinery::pkg::apis::meta::v1::Time,
};
use serde_json::json;
use tokio::time::Instant;

use super::{
    cluster::{Note, OfProcess, Post, SESAME, asker_of},
    truth::{Creation, Right, Truth, Verb},
};
use crate::{
    kubernetes::{Created, EventWord, Kubernetes, Lookup, NoAnswer},
    testing::NODE,
    volume::{AUDIENCE, Token},
};

/// A token: whose, of which kind, and until when since the begin.
pub(super) fn token(uid: &str, kind: &str, until: Duration) -> String {
    format!("{SESAME}/{uid}/{kind}/{}", until.as_millis())
}

/// The pod whom a token proves at this moment.
pub(super) fn proven(truth: &Truth, token: &str, since: Duration) -> Option<String> {
    let mut parts = token.split('/').skip(1);
    let (uid, kind, until) = (parts.next()?, parts.next()?, parts.next()?);
    let lasts = since.as_millis() < until.parse().unwrap();
    let valid = kind == "good" && lasts && truth.pods.contains_key(uid);
    valid.then(|| uid.to_owned())
}

impl Kubernetes for OfProcess {
    async fn review_token(&self, token: &Token) -> Result<TokenReviewStatus, NoAnswer> {
        let truth = self.call(Verb::ReviewToken).await?;
        let since = self.shared.log().began.elapsed();
        let mut parts = token.expose().split('/').skip(1);
        let (uid, kind) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        let until = parts.next().unwrap_or("0").parse::<u128>().unwrap();
        let pod = truth.pods.get(uid);
        let Some(pod) = pod.filter(|_| kind != "bad" && since.as_millis() < until) else {
            return Ok(TokenReviewStatus::default());
        };
        let audience = if kind == "audience" {
            "https://other"
        } else {
            AUDIENCE
        };
        let node = if kind == "node" { "node-10" } else { NODE };
        let status = json!({
            "authenticated": true,
            "audiences": [audience],
            "user": {
                "username": format!("system:serviceaccount:{}:{}", pod.namespace, pod.account),
                "extra": {
                    "authentication.kubernetes.io/pod-name": [pod.name],
                    "authentication.kubernetes.io/pod-uid": [pod.uid],
                    "authentication.kubernetes.io/node-name": [node],
                },
            },
        });
        Ok(serde_json::from_value(status).unwrap())
    }

    async fn review_access(&self, question: SubjectAccessReviewSpec) -> Result<bool, NoAnswer> {
        let truth = self.call(Verb::ReviewAccess).await?;
        Ok(reviewed(&truth, &question).unwrap_or(false))
    }

    async fn create_request(
        &self,
        namespace: &str,
        request: &AccessRequest,
    ) -> Result<Created, NoAnswer> {
        let truth = self.call(Verb::Create).await?;
        let asker = asker_of(request);
        let post = Post {
            at: Instant::now(),
            asker: asker.clone(),
        };
        self.shared.log().posts.push(post);
        match truth.creation {
            Creation::NoNamespace => return Ok(Created::NoNamespace),
            Creation::QuotaFull => return Ok(Created::QuotaFull),
            Creation::Refused => return Ok(Created::Refused),
            Creation::Works => {}
        }
        let name = request.metadata.name.clone().unwrap();
        let key = (namespace.to_owned(), name.clone());
        if truth.requests.contains_key(&key) {
            return Ok(Created::Exists);
        }
        if request.metadata.namespace.as_deref() != Some(namespace) {
            self.shared.problem(format!("{name}: wrong namespace"));
        }
        self.shared.add_request(&name, request.clone(), false);
        Ok(Created::Made)
    }

    async fn request(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Lookup<AccessRequest>, NoAnswer> {
        let truth = self.call(Verb::GetRequest).await?;
        let found = truth.requests.get(&(namespace.to_owned(), name.to_owned()));
        Ok(found.map_or(Lookup::Absent, |facts| {
            let mut object = facts.object.clone();
            object.metadata.uid = Some(facts.uid.clone());
            object.status = Some(AccessRequestStatus {
                phase: facts.phase,
                ..AccessRequestStatus::default()
            });
            if facts.being_deleted {
                object.metadata.deletion_timestamp = Some(moment());
            }
            Lookup::Found(Box::new(object))
        }))
    }

    async fn connector(&self, namespace: &str, name: &str) -> Result<Lookup<Connector>, NoAnswer> {
        let truth = self.call(Verb::GetConnector).await?;
        let found = truth.connectors.get(&format!("{namespace}/{name}"));
        Ok(found.map_or(Lookup::Absent, |facts| {
            let object = json!({
                "metadata": {"namespace": namespace, "name": name},
                "spec": {"connectorClassName": "oci", "address": facts.address},
            });
            let mut object: Connector = serde_json::from_value(object).unwrap();
            if facts.being_deleted {
                object.metadata.deletion_timestamp = Some(moment());
            }
            Lookup::Found(Box::new(object))
        }))
    }

    async fn class(&self, name: &str) -> Result<Lookup<ConnectorClass>, NoAnswer> {
        let truth = self.call(Verb::GetClass).await?;
        let address = truth.class_address.clone().filter(|_| name == "oci");
        Ok(address.map_or(Lookup::Absent, |address| {
            let object = json!({
                "metadata": {"name": name},
                "spec": {"address": {"name": "address", "default": address}},
            });
            Lookup::Found(Box::new(serde_json::from_value(object).unwrap()))
        }))
    }

    async fn driver(&self, _: &str) -> Result<Lookup<CSIDriver>, NoAnswer> {
        Ok(Lookup::Absent)
    }

    fn tell(&self, pod: &PodIdentity, word: EventWord, text: String) {
        let (pod, process) = (pod.clone(), self.process);
        let note = Note {
            process,
            pod,
            word,
            text,
        };
        self.shared.log().notes.push(note);
    }
}

fn moment() -> Time {
    serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap()
}

/// The answer to a review; none is no.
fn reviewed(truth: &Truth, question: &SubjectAccessReviewSpec) -> Option<bool> {
    let user = question.user.as_deref()?;
    let (namespace, account) = user
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')?;
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    let wanted = question.resource_attributes.as_ref()?;
    let fits = groups
        .iter()
        .all(|group| question.groups.iter().flatten().any(|it| it == group))
        && wanted.verb.as_deref() == Some("*")
        && wanted.group.as_deref() == Some("connectors.alauda.io")
        && wanted.resource.as_deref() == Some("connectors");
    let mut parts = wanted.subresource.as_deref()?.split('/');
    let permission = Permission::from_segment(parts.next()?)?;
    let right = Right {
        namespace: namespace.to_owned(),
        account: account.to_owned(),
        connector: format!(
            "{}/{}",
            wanted.namespace.as_deref()?,
            wanted.name.as_deref()?
        ),
        permission,
    };
    let rest: Vec<_> = parts.collect();
    let answer = match rest.as_slice() {
        [] => truth.reviews_standing(&right),
        ["v1", "pod", of, name] => *of == namespace && truth.reviews_pod(&right, name),
        _ => false,
    };
    Some(fits && answer)
}
