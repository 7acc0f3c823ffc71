//! Admission: what is filled in, what is refused, and what its author is told.

mod connectors;
mod judge;
mod lookups;
mod mutate;
mod policies;

use connectors_api::{AccessRequest, names, parse};
use kube::{Client, Resource};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use crate::evaluator::Evaluator;
use crate::review::{Answer, Operation, Refusal, RefusalStatus, Request};
use judge::{Creator, Problem, Seen};
use lookups::{Lookups, Unanswered};
use policies::Policies;

pub(crate) use policies::Finding;

/// Judges what is written in our API group.
#[derive(Clone)]
pub(crate) struct Admission {
    /// Access policies.
    pub(crate) policies: Policies,
    /// Access requests.
    pub(crate) requests: Requests,
}

impl Admission {
    /// With the user name of the node plugin's service account.
    pub(crate) fn new(client: Client, node_plugin: String, evaluator: Evaluator) -> Self {
        let lookups = Lookups::new(client);
        Self {
            policies: Policies::new(lookups.clone(), evaluator),
            requests: Requests {
                lookups,
                node_plugin,
            },
        }
    }
}

/// Labels a connector with its class. What cannot be read is none of our business: other software owns connectors.
pub(crate) fn label_connector(request: &Request) -> Answer {
    let object = request.object.as_ref();
    let object = object.and_then(|it| serde_json::from_str::<Value>(it.get()).ok());
    Answer::patched(object.as_ref().and_then(connectors::labelled))
}

/// Judges access requests.
///
/// Only creation is looked at. A spec never changes (the schema says so) and everything else in a
/// request is for people or for the API server, so that there is nothing to judge in an update; and one
/// that were refused, because the pod is gone, would keep the garbage collector from its work.
#[derive(Clone)]
pub(crate) struct Requests {
    lookups: Lookups,
    node_plugin: String,
}

impl Requests {
    /// Fills in what a creator may leave out.
    pub(crate) async fn mutate(&self, request: &Request, deadline: Instant) -> Answer {
        let text = match created(request) {
            Ok(Some(text)) => text,
            Ok(None) => return Answer::allowed(),
            Err(refusal) => return Answer::Refused(refusal),
        };
        // What cannot be read is refused by the validation, which says why.
        let Ok(object) = serde_json::from_str::<Value>(text.get()) else {
            return Answer::allowed();
        };
        let Some(spec) = mutate::spec(&object) else {
            return Answer::allowed();
        };
        let uid = match mutate::without_uid(&spec) {
            None => None,
            Some((namespace, name)) => {
                let creator = Creator::of(&request.user_info, &self.node_plugin);
                let look = self.look(request, namespace, name, &creator);
                match timeout_at(deadline, look).await.unwrap_or(Seen::NoAnswer) {
                    Seen::Found(pod) => Some(pod.uid),
                    // The validation refuses it, in words that depend on who asks.
                    Seen::Missing | Seen::Hidden => None,
                    Seen::NoAnswer => return verdict(&[Problem::Unanswered]),
                }
            }
        };
        Answer::patched(mutate::fill(&object, spec, uid))
    }

    /// Lets pass what its creator may ask for.
    pub(crate) async fn validate(&self, request: &Request, deadline: Instant) -> Answer {
        let text = match created(request) {
            Ok(Some(text)) => text,
            Ok(None) => return Answer::allowed(),
            Err(refusal) => return Answer::Refused(refusal),
        };
        let Ok(object) = serde_json::from_str::<Value>(text.get()) else {
            let deep = "the object is nested too deeply to be read".to_owned();
            return verdict(&[Problem::Unreadable(deep)]);
        };
        let read: AccessRequest = match parse::object(&object) {
            Ok(read) => read,
            Err(error) => return verdict(&[Problem::Unreadable(error.to_string())]),
        };
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let mut problems = judge::of_itself(&read.spec, namespace);
        // A name that is none would be asked for under another path.
        if !problems
            .iter()
            .any(|problem| matches!(problem, Problem::Name(_)))
        {
            let creator = Creator::of(&request.user_info, &self.node_plugin);
            let pod = &read.spec.context.object_ref;
            let look = self.look(request, &pod.namespace, &pod.name, &creator);
            let seen = timeout_at(deadline, look).await.unwrap_or(Seen::NoAnswer);
            problems.extend(judge::of_the_pod(&read.spec, &creator, &seen));
        }
        verdict(&problems)
    }

    /// Looks at the pod for a creator who may look himself; for another it is not even looked up, so
    /// that neither words nor times tell him anything.
    async fn look(
        &self,
        request: &Request,
        namespace: &str,
        name: &str,
        creator: &Creator,
    ) -> Seen {
        if *creator == Creator::Other {
            match self
                .lookups
                .may_get(&request.user_info, namespace, name)
                .await
            {
                Ok(true) => {}
                Ok(false) => return Seen::Hidden,
                Err(Unanswered) => return Seen::NoAnswer,
            }
        }
        self.lookups.pod(namespace, name).await
    }
}

/// The object that is created; nothing for what is not looked at.
fn created(request: &Request) -> Result<Option<&RawValue>, Refusal> {
    let resource = &request.resource;
    let is_ours = resource.group == names::GROUP
        && resource.version == names::VERSION
        && resource.resource == AccessRequest::plural(&());
    if !is_ours {
        return Err(misrouted("only access requests are admitted here"));
    }
    let is_subresource = request
        .sub_resource
        .as_deref()
        .is_some_and(|name| !name.is_empty());
    if request.operation != Operation::Create || is_subresource {
        return Ok(None);
    }
    // Without a namespace the request's own could not be told from another.
    match (&request.object, request.namespace.as_deref()) {
        (None, _) => Err(misrouted("a creation without an object")),
        (Some(_), None | Some("")) => Err(misrouted("a creation without a namespace")),
        (Some(object), Some(_)) => Ok(Some(object)),
    }
}

fn misrouted(message: &str) -> Refusal {
    Refusal {
        status: RefusalStatus::BadRequest,
        message: message.to_owned(),
    }
}

fn verdict(problems: &[Problem]) -> Answer {
    judge::refusal(problems).map_or(Answer::allowed(), Answer::Refused)
}
