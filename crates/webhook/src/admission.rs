//! Admission: what is filled in, what is refused, and what its author is told.

mod connectors;
mod gates;
mod judge;
mod lookups;
mod mutate;
mod policies;
mod runs;

use std::{borrow::Cow, time::Duration};

use connectors_api::{AccessRequest, names, parse};
use kube::{Client, Resource};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use crate::evaluator::Evaluator;
use crate::peer_quota::PeerLimits;
use crate::review::{
    AdmissionAnswer, AdmissionRefusal, Operation, RefusalStatus, ReviewedObject, Text,
};
use judge::{RequestCreator, RequestProblem, Seen};
use lookups::{Lookups, NoLookup};
use policies::PolicyAdmission;

pub(crate) use connectors::WEIGHT as CONNECTOR;
pub(crate) use gates::WEIGHT as POD;
pub(crate) use runs::WEIGHT as RUN;

const CREATED: ReviewScope = ReviewScope {
    resource: || AccessRequest::plural(&()),
    kind: "access requests",
    deed: "creation",
    operations: &[Operation::Create],
};

/// Judges what is written in our API group.
#[derive(Clone)]
pub(crate) struct Admission {
    /// Access policies.
    pub(crate) policies: PolicyAdmission,
    /// Access requests.
    pub(crate) requests: RequestAdmission,
    /// Connectors.
    pub(crate) connectors: Connectors,
    /// Pods.
    pub(crate) gates: Gates,
}

impl Admission {
    /// For the installation in a namespace, with the user name of its node plugin's service account.
    pub(crate) fn new(
        client: Client,
        namespace: &str,
        node_plugin: String,
        evaluator: Evaluator,
        limits: &PeerLimits,
    ) -> Self {
        let lookups = Lookups::new(client, namespace, limits);
        Self {
            policies: PolicyAdmission::new(lookups.clone(), evaluator, limits),
            connectors: Connectors {
                lookups: lookups.clone(),
            },
            gates: Gates {
                lookups: lookups.clone(),
            },
            requests: RequestAdmission {
                lookups,
                node_plugin,
            },
        }
    }

    /// Places that are taken, and addresses that take or await some.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.connectors.lookups.taken() + self.policies.rego.peers()
    }
}

/// How long an object waits to be counted. It was judged before, and is not to be late for that.
const COUNT_LOOK: Duration = Duration::from_secs(1);

/// A number, if it is known in time.
async fn counted(
    count: impl Future<Output = Result<usize, NoLookup>>,
    deadline: Instant,
) -> Option<usize> {
    let until = deadline.min(Instant::now() + COUNT_LOOK);
    timeout_at(until, count).await.ok()?.ok()
}

/// How long a writer of connectors waits for a warning: other software writes them, too.
const CLASS_LOOK: Duration = Duration::from_millis(300);

/// Labels connectors with their class, and never refuses one: other software owns them.
#[derive(Clone)]
pub(crate) struct Connectors {
    lookups: Lookups,
}

impl Connectors {
    /// An unreadable connector is accepted as it is. A class that is not known to exist or not earns no warning.
    pub(crate) async fn label(&self, request: &ReviewedObject) -> AdmissionAnswer {
        let read = |text: Option<&Text>| text.and_then(|it| connectors::read(it.get()));
        let Some(object) = read(request.object.as_ref()) else {
            return AdmissionAnswer::allowed();
        };
        let patch = connectors::labelled(&object);
        let before = read(request.old_object.as_ref());
        let class = connectors::new_class(&object, before.as_ref());
        let mut warnings = Vec::new();
        if let Some(class) = class {
            let is_there = timeout(CLASS_LOOK, self.lookups.has_class(class)).await;
            warnings.extend((is_there == Ok(Ok(false))).then(|| connectors::no_class(class)));
        }
        AdmissionAnswer::Allowed { patch, warnings }
    }
}

/// Writes into a new pipeline run who creates it, and never refuses one: other software owns them.
pub(crate) fn name_creator(request: &ReviewedObject) -> AdmissionAnswer {
    let creator = request.user_info.username.as_deref().unwrap_or_default();
    match &request.object {
        Some(run) if request.operation == Operation::Create => {
            AdmissionAnswer::patched(runs::stamped(run.get(), creator))
        }
        Some(_) | None => AdmissionAnswer::allowed(),
    }
}

/// How long a new pod waits to learn whether pods get the gate. Without an answer it has none, and waits at its mount.
const GATE_LOOK: Duration = Duration::from_secs(1);

/// Sets the scheduling gate of pods that mount connectors, and never refuses one: the mount is what is enforced.
#[derive(Clone)]
pub(crate) struct Gates {
    lookups: Lookups,
}

impl Gates {
    /// A pod that cannot be read, or has no volume of ours, costs no look at the configuration.
    pub(crate) async fn set(&self, request: &ReviewedObject) -> AdmissionAnswer {
        let is_new = request.operation == Operation::Create
            && request.resource == gates::pods()
            && request
                .sub_resource
                .as_deref()
                .unwrap_or_default()
                .is_empty();
        let pod = request.object.as_ref().filter(|_| is_new);
        let Some(patch) = pod.and_then(|pod| gates::gated(pod.get())) else {
            return AdmissionAnswer::allowed();
        };
        let is_wanted = timeout(GATE_LOOK, self.lookups.gates_pods()).await == Ok(true);
        AdmissionAnswer::patched(is_wanted.then_some(patch))
    }
}

/// Judges access requests.
///
/// Only creation is looked at. A spec never changes (the schema says so) and everything else in a
/// request is for people or for the API server, so that there is nothing to judge in an update; and one
/// that were refused, because the pod is gone, would keep the garbage collector from its work.
#[derive(Clone)]
pub(crate) struct RequestAdmission {
    lookups: Lookups,
    node_plugin: String,
}

impl RequestAdmission {
    /// Fills in what a creator may leave out.
    pub(crate) async fn mutate(
        &self,
        request: &ReviewedObject,
        deadline: Instant,
    ) -> AdmissionAnswer {
        let text = match CREATED.object(request) {
            Ok(Some(text)) => text,
            Ok(None) => return AdmissionAnswer::allowed(),
            Err(refusal) => return AdmissionAnswer::Refused(refusal),
        };
        // What cannot be read is refused by the validation, which says why.
        let Ok(object) = serde_json::from_str::<Value>(text.get()) else {
            return AdmissionAnswer::allowed();
        };
        let Some(spec) = mutate::spec(&object) else {
            return AdmissionAnswer::allowed();
        };
        let uid = match mutate::without_uid(&spec) {
            None => None,
            Some((namespace, name)) => {
                let creator = RequestCreator::of(&request.user_info, &self.node_plugin);
                let look = self.look(request, namespace, name, &creator);
                match timeout_at(deadline, look).await.unwrap_or(Seen::NoAnswer) {
                    Seen::Found(pod) => Some(pod.uid),
                    // The validation refuses it, in words that depend on who asks.
                    Seen::Missing | Seen::Hidden => None,
                    Seen::NoAnswer => return verdict(&[RequestProblem::Unanswered]),
                }
            }
        };
        let namespace = request.namespace.as_deref().unwrap_or_default();
        AdmissionAnswer::patched(mutate::fill(&object, spec, namespace, uid))
    }

    /// Lets pass what its creator may ask for.
    pub(crate) async fn validate(
        &self,
        request: &ReviewedObject,
        deadline: Instant,
    ) -> AdmissionAnswer {
        let text = match CREATED.object(request) {
            Ok(Some(text)) => text,
            Ok(None) => return AdmissionAnswer::allowed(),
            Err(refusal) => return AdmissionAnswer::Refused(refusal),
        };
        let Ok(object) = serde_json::from_str::<Value>(text.get()) else {
            let deep = "the object is nested too deeply to be read".to_owned();
            return verdict(&[RequestProblem::Unreadable(deep)]);
        };
        let read: AccessRequest = match parse::object(&object) {
            Ok(read) => read,
            Err(error) => return verdict(&[RequestProblem::Unreadable(error.to_string())]),
        };
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let mut problems = judge::of_itself(&read.spec, namespace);
        // A name that is none would be asked for under another path.
        if !problems
            .iter()
            .any(|problem| matches!(problem, RequestProblem::Name(_)))
        {
            let creator = RequestCreator::of(&request.user_info, &self.node_plugin);
            let pod = &read.spec.context.object_ref;
            let look = self.look(request, &pod.namespace, &pod.name, &creator);
            let seen = timeout_at(deadline, look).await.unwrap_or(Seen::NoAnswer);
            problems.extend(judge::of_the_pod(&read.spec, &creator, &seen));
            if problems.is_empty()
                && let Seen::Found(pod) = &seen
            {
                let count = self
                    .lookups
                    .count_requests(request.peer, namespace, &pod.uid);
                let count = counted(count, deadline).await;
                problems.extend(judge::of_the_share(&read.spec, &creator, count));
            }
        }
        verdict(&problems)
    }

    /// Looks at the pod for a creator who may look himself; for another it is not even looked up, so
    /// that neither words nor times tell him anything.
    async fn look(
        &self,
        request: &ReviewedObject,
        namespace: &str,
        name: &str,
        creator: &RequestCreator,
    ) -> Seen {
        if *creator == RequestCreator::Other {
            match self.lookups.may_get(request, namespace, name).await {
                Ok(true) => {}
                Ok(false) => return Seen::Hidden,
                Err(NoLookup) => return Seen::NoAnswer,
            }
        }
        self.lookups.pod(request.peer, namespace, name).await
    }
}

/// The kind that a page looks at.
struct ReviewScope {
    /// The plural, as in paths.
    resource: fn() -> Cow<'static, str>,
    /// The plural, as people say it.
    kind: &'static str,
    /// The operation on it.
    deed: &'static str,
    operations: &'static [Operation],
}

impl ReviewScope {
    /// The object as it is to be; nothing for what is not looked at.
    fn object<'a>(
        &self,
        request: &'a ReviewedObject,
    ) -> Result<Option<&'a Text>, AdmissionRefusal> {
        let Self {
            resource,
            kind,
            deed,
            operations,
        } = self;
        let asked = &request.resource;
        let is_ours = asked.group == names::GROUP
            && asked.version == names::VERSION
            && asked.resource == resource();
        if !is_ours {
            return Err(misrouted(format!("only {kind} are admitted here")));
        }
        let is_subresource = request
            .sub_resource
            .as_deref()
            .is_some_and(|it| !it.is_empty());
        if is_subresource || !operations.contains(&request.operation) {
            return Ok(None);
        }
        // Without a namespace the object's own could not be told from another.
        match (&request.object, request.namespace.as_deref()) {
            (None, _) => Err(misrouted(format!("a {deed} without an object"))),
            (Some(_), None | Some("")) => Err(misrouted(format!("a {deed} without a namespace"))),
            (Some(object), Some(_)) => Ok(Some(object)),
        }
    }
}

fn misrouted(message: String) -> AdmissionRefusal {
    AdmissionRefusal {
        status: RefusalStatus::BadRequest,
        message,
    }
}

fn verdict(problems: &[RequestProblem]) -> AdmissionAnswer {
    judge::refusal(problems).map_or(AdmissionAnswer::allowed(), AdmissionAnswer::Refused)
}

#[cfg(test)]
mod tests;
