//! Admission of policies: what is wrong with them, and whether their authors hold what they hand out.
//!
//! What can be said from the policy alone is said here, by the rules that everybody reads policies by; Rego runs in the
//! evaluation service and nowhere else, so a policy without it needs nobody's help.

mod judge;

use connectors_api::{
    AccessPolicy, AccessPolicySpec, names, parse,
    validate::{self, Validated},
};
use kube::Resource;
use serde_json::{Value, value::RawValue};
use tokio::time::{Instant, timeout_at};

use super::{
    lookups::{Lookups, Unanswered},
    misrouted,
};
use crate::{
    evaluator::Evaluator,
    review::{Answer, Operation, Refusal, Request},
};
use judge::{Author, Problem, Verdict};

pub(crate) use judge::Finding;

/// Judges policies.
#[derive(Clone)]
pub(crate) struct Policies {
    lookups: Lookups,
    evaluator: Evaluator,
}

impl Policies {
    pub(crate) const fn new(lookups: Lookups, evaluator: Evaluator) -> Self {
        Self { lookups, evaluator }
    }

    /// Lets pass what can be read, works, and hands out nothing that its author could not change.
    pub(crate) async fn validate(&self, request: &Request, deadline: Instant) -> Answer {
        let text = match written(request) {
            Ok(Some(text)) => text,
            Ok(None) => return Answer::allowed(),
            Err(refusal) => return Answer::Refused(refusal),
        };
        let Ok(object) = serde_json::from_str::<Value>(text.get()) else {
            return Verdict::default().and(Problem::TooDeep).answer();
        };
        if is_spec_unchanged(request, &object) {
            return Answer::allowed();
        }
        let author = timeout_at(deadline, self.author(request, &object)).await;
        let author = author.unwrap_or(Author::NoAnswer);
        let mut verdict = self.look(text.get(), &object, &author, deadline).await;
        verdict.author(author);
        verdict.answer()
    }

    /// Everything that is to be said about the policy. Rego costs time that others wait for, so it is run for nobody who
    /// may not hand out what the policy does.
    async fn look(
        &self,
        text: &str,
        object: &Value,
        author: &Author,
        deadline: Instant,
    ) -> Verdict {
        let Validated { findings, modules } = validate::policy(object);
        let ours = Verdict::found(findings.into_iter().map(Into::into));
        if modules.is_empty() || !author.may() {
            return ours;
        }
        match timeout_at(deadline, self.evaluator.findings(text)).await {
            // It reads the whole policy by the same rules, and runs the Rego besides. One of another version may know
            // more than we do, and lets nothing through that we would not.
            Ok(Ok(findings)) => Verdict::found(findings).or_else_of(ours),
            Ok(Err(unjudged)) => ours.and(Problem::Unjudged(unjudged.to_string())),
            Err(_) => ours.and(Problem::NobodyInTime),
        }
    }

    /// Whether the author may change the connectors that the policy is about.
    async fn author(&self, request: &Request, object: &Value) -> Author {
        // What cannot be read is about nothing; it is refused for that.
        let spec = object.get("spec").map(parse::spec);
        let Some(Ok(AccessPolicySpec { connector, .. })) = spec else {
            return Author::Unasked;
        };
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let (lookups, user) = (&self.lookups, &request.user_info);
        match lookups.may_update_connectors(user, namespace).await {
            Ok(true) => return Author::MayAll,
            Ok(false) => {}
            Err(Unanswered) => return Author::NoAnswer,
        }
        match connector.names {
            None => Author::MayNotAll,
            Some(names) => {
                let denied = lookups.connectors_denied(user, namespace, names).await;
                denied.map_or(Author::NoAnswer, Author::MayBut)
            }
        }
    }
}

/// The policy as it is to be; nothing for what is not looked at.
fn written(request: &Request) -> Result<Option<&RawValue>, Refusal> {
    let resource = &request.resource;
    let is_ours = resource.group == names::GROUP
        && resource.version == names::VERSION
        && resource.resource == AccessPolicy::plural(&());
    if !is_ours {
        return Err(misrouted("only access policies are admitted here"));
    }
    let is_subresource = request
        .sub_resource
        .as_deref()
        .is_some_and(|it| !it.is_empty());
    let is_written = matches!(request.operation, Operation::Create | Operation::Update);
    if is_subresource || !is_written {
        return Ok(None);
    }
    match (&request.object, request.namespace.as_deref()) {
        (None, _) => Err(misrouted("a write without an object")),
        (Some(_), None | Some("")) => Err(misrouted("a write without a namespace")),
        (Some(object), Some(_)) => Ok(Some(object)),
    }
}

/// Labels and finalizers are for people and for the API server, and were not judged when the policy came either.
fn is_spec_unchanged(request: &Request, object: &Value) -> bool {
    let old = request.old_object.as_ref();
    let old = old.and_then(|it| serde_json::from_str::<Value>(it.get()).ok());
    request.operation == Operation::Update
        && old.is_some_and(|old| old.get("spec").is_some() && old.get("spec") == object.get("spec"))
}
