//! The access decision: a pure function of the known objects and the question.
//!
//! First the standing form, which counts as RBAC counts it. Then the form of one pod, for which RBAC is not enough.
//! Its rule is that of [`connectors_api::pod_grant`].
//!
//! Both are RBAC's place in the chain of authorizers. Every other authorizer of the chain gets one question, about the
//! connector's permission, from a user whose extra fields name the pod.

use std::cell::{Cell, OnceCell};
use std::fmt;

use authz::{
    AllowedBy, Attributes, Authenticated, ChainAnswer, Learning, Opinion, RbacIndex,
    ResourceRequest, Target, User,
};
use connectors_api::AccessResource;
use connectors_api::names::{CONNECTORS, GROUP};
use connectors_api::pod_grant::BindingFacts;
use evaluation_api::access::{
    AccessAnswer, AccessQuestion, BindingRef, ConnectorName, Decision, PodRef, RequestSeen,
    Requestable, ServiceAccountName,
};
use evaluation_api::v1::AccessDecision;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::UserInfo;
use service_kit::reviews::{POD_NAME, POD_UID};

use crate::world::{KnownRequest, TupleRef, World};

/// The kind of the source of a yes from another authorizer than RBAC.
const AUTHORIZER: &str = "Authorizer";

/// A question with the values that are computed once.
#[derive(Debug)]
pub(crate) struct PreparedQuestion<'a> {
    question: AccessQuestion<&'a str>,
    user: &'a User,
    /// The user as the API server reports it, if a token was shown.
    proof: Option<&'a UserInfo>,
    /// RBAC was found to give no standing permission for this question, or for one that differs only in its pod.
    lacks_standing: Cell<bool>,
    /// The subresource of the pod form, once it was needed.
    pod_form: OnceCell<String>,
}

impl<'a> PreparedQuestion<'a> {
    /// The user is the subject of the question.
    pub(crate) const fn new(question: AccessQuestion<&'a str>, user: &'a User) -> Self {
        Self {
            question,
            user,
            proof: None,
            lacks_standing: Cell::new(false),
            pod_form: OnceCell::new(),
        }
    }

    /// The same question, if it is known whether there is no standing permission. That does not depend on the pod, so
    /// no second search is needed in the same world.
    pub(crate) fn knowing(mut self, lacks_standing: bool) -> Self {
        self.lacks_standing = Cell::new(lacks_standing);
        self
    }

    /// Whether RBAC is known to have no standing permission.
    pub(crate) const fn lacks_standing(&self) -> bool {
        self.lacks_standing.get()
    }

    /// The question for authorizers other than RBAC.
    fn attributes(&self) -> Attributes<'_> {
        Attributes {
            user: self,
            verb: self.question.verb,
            target: target(self.question.connector, self.question.permission.as_str()),
        }
    }

    /// The lookups that authorizers need before a no is final.
    pub(crate) fn learn(&self, world: &World) -> Vec<Learning> {
        world.chain.learn(&self.attributes())
    }

    /// The pod. Without its UID it is unknown which pod it is.
    fn pod(&self) -> Option<PodRef<&'a str>> {
        self.question.pod.filter(|pod| !pod.uid.is_empty())
    }

    fn pod_form(&self, pod: PodRef<&str>) -> &str {
        self.pod_form.get_or_init(|| {
            let AccessQuestion {
                subject,
                permission,
                ..
            } = self.question;
            AccessResource::subresource_of_pod(permission, subject.namespace, pod.name)
        })
    }

    fn allowing<'b>(
        &'b self,
        rbac: &'b RbacIndex,
        subresource: &'b str,
    ) -> impl Iterator<Item = AllowedBy<'b>> + use<'b> {
        rbac.allowing(&Attributes {
            user: self.user,
            verb: self.question.verb,
            target: target(self.question.connector, subresource),
        })
    }
}

/// Without a token, the pod has the attributes that its token would give it.
impl Authenticated for PreparedQuestion<'_> {
    fn as_user(&self) -> &User {
        self.user
    }

    fn info(&self) -> UserInfo {
        if let Some(proof) = self.proof {
            return proof.clone();
        }
        let claims = self.pod().map(|PodRef { name, uid }| {
            [(POD_NAME, name), (POD_UID, uid)]
                .map(|(key, text)| (key.to_owned(), vec![text.to_owned()]))
        });
        UserInfo {
            extra: claims.map(Into::into),
            ..self.user.info()
        }
    }
}

/// The target of an access to a connector.
pub(crate) fn target<'a>(connector: ConnectorName<&'a str>, subresource: &'a str) -> Target<'a> {
    Target::Resource(ResourceRequest {
        group: GROUP,
        resource: CONNECTORS,
        subresource,
        namespace: connector.namespace,
        name: connector.name,
        ..ResourceRequest::default()
    })
}

/// The user of a service account.
pub(crate) fn user(subject: ServiceAccountName<&str>) -> User {
    User::service_account(subject.namespace, subject.name)
}

/// The result of a question.
pub(crate) enum AccessResult<'a> {
    /// A standing permission.
    Standing(AllowedBy<'a>),
    /// A permission of the pod.
    Pod(AllowedBy<'a>),
    /// Another authorizer than RBAC allows it.
    Other(Opinion),
    /// No permission.
    No(Why),
}

/// Why there is no permission.
pub(crate) enum Why {
    NoStanding,
    NoneHolds,
    None,
    /// Another authorizer than RBAC refuses it.
    Denied(Opinion),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoStanding => "no standing permission",
            Self::NoneHolds => {
                "no AccessRequest of this very pod whose grant holds now behind a binding that names it,"
            }
            Self::None => "no permission",
            Self::Denied(Opinion { authorizer, reason }) => {
                return write!(f, "denied by {authorizer} ({reason})");
            }
        })
    }
}

impl AccessResult<'_> {
    /// The word for it.
    pub(crate) const fn word(&self) -> AccessDecision {
        match self {
            Self::Standing(_) | Self::Other(_) => AccessDecision::AllowedStanding,
            Self::Pod(_) => AccessDecision::AllowedPod,
            Self::No(_) => AccessDecision::Denied,
        }
    }
}

/// The answer to a question from the known objects, at this time.
#[must_use]
pub fn answer(world: &World, question: &AccessQuestion, now: Timestamp) -> AccessAnswer {
    answer_learning(world, question, None, now, None)
}

/// The same, with the lookups that authorizers need before a no is final.
pub(crate) fn answer_learning(
    world: &World,
    question: &AccessQuestion,
    proof: Option<&UserInfo>,
    now: Timestamp,
    learning: Option<&mut Vec<Learning>>,
) -> AccessAnswer {
    let question = question.borrowed();
    let user = user(question.subject);
    let mut asked = PreparedQuestion::new(question, &user);
    asked.proof = proof;
    let answer = answer_asked(world, &asked, now);
    if let Some(learning) = learning
        && !answer.is_allowed()
    {
        learning.extend(asked.learn(world));
    }
    answer
}

pub(crate) fn answer_asked(
    world: &World,
    asked: &PreparedQuestion<'_>,
    now: Timestamp,
) -> AccessAnswer {
    let deciding = deciding(world, &asked.question);
    let (decision, reason) = match decide(world, asked, || deciding, now) {
        AccessResult::Standing(grant) => {
            (Decision::AllowedStanding(binding(&grant)), reason(&grant))
        }
        AccessResult::Pod(grant) => (Decision::AllowedPod(binding(&grant)), reason(&grant)),
        AccessResult::Other(Opinion { authorizer, reason }) => {
            let behind = BindingRef {
                kind: AUTHORIZER.to_owned(),
                namespace: String::new(),
                name: authorizer.to_owned(),
                uid: String::new(),
            };
            let reason = format!("{authorizer}: {reason}");
            (Decision::AllowedStanding(behind), reason)
        }
        AccessResult::No(why) => (Decision::Denied, no(asked.question, &why)),
    };
    AccessAnswer {
        decision,
        reason,
        request: deciding.and_then(seen),
        fresh_as_of: world.fresh_as_of(),
        gating: world.gating(),
        // The caller of this function adds it.
        requestable: Requestable::Unknown,
    }
}

/// The result of a question from the known objects, at this time.
pub(crate) fn find<'a>(
    world: &'a World,
    asked: &'a PreparedQuestion<'a>,
    now: Timestamp,
) -> AccessResult<'a> {
    decide(world, asked, || deciding(world, &asked.question), now)
}

pub(crate) fn deciding<'a, T: AsRef<str>>(
    world: &'a World,
    question: &AccessQuestion<T>,
) -> Option<&'a KnownRequest> {
    TupleRef::of_question(question).and_then(|about| world.requests.deciding(about))
}

fn decide<'a>(
    world: &'a World,
    asked: &'a PreparedQuestion<'a>,
    deciding: impl Fn() -> Option<&'a KnownRequest>,
    now: Timestamp,
) -> AccessResult<'a> {
    let mut none = Why::None;
    let answer = world.chain.answer(&asked.attributes(), |rbac| {
        let found = decide_by_rbac(rbac, asked, &deciding, now);
        found.map_err(|why| none = why).ok()
    });
    match answer {
        ChainAnswer::AllowedByRbac(grant) => grant,
        ChainAnswer::Allowed(opinion) => AccessResult::Other(opinion),
        ChainAnswer::Denied(opinion) => AccessResult::No(Why::Denied(opinion)),
        ChainAnswer::NoOpinion => AccessResult::No(none),
    }
}

fn decide_by_rbac<'a>(
    rbac: &'a RbacIndex,
    asked: &'a PreparedQuestion<'a>,
    deciding: impl Fn() -> Option<&'a KnownRequest>,
    now: Timestamp,
) -> Result<AccessResult<'a>, Why> {
    let question = asked.question;
    if !asked.lacks_standing() {
        // The subresource of the standing form is the permission alone.
        let mut standing = asked.allowing(rbac, question.permission.as_str());
        if let Some(grant) = standing.find(|grant| !is_ours_and_going(grant.binding)) {
            return Ok(AccessResult::Standing(grant));
        }
        asked.lacks_standing.set(true);
    }
    let pod = asked.pod().ok_or(Why::NoStanding)?;
    let mut grants = asked.allowing(rbac, asked.pod_form(pod)).peekable();
    if grants.peek().is_none() {
        return Err(Why::None);
    }
    let request = deciding().ok_or(Why::NoneHolds)?;
    // The request was found by the rest of the question.
    let holds = |grant: &AllowedBy<'_>| facts(grant.binding).lets_in(request, pod.name, now);
    let grant = grants.find(holds).ok_or(Why::NoneHolds)?;
    Ok(AccessResult::Pod(grant))
}

/// The facts about a binding for the rule about pods.
fn facts<'b>(binding: &'b authz::Binding) -> BindingFacts<'b, impl Fn(&str) -> Option<&'b str>> {
    BindingFacts {
        namespace: binding.namespace(),
        is_deleting: binding.is_deleting(),
        label: |key: &str| binding.label(key),
    }
}

/// One of our objects with a deletion timestamp counts as deleted.
pub(crate) fn is_ours_and_going(binding: &authz::Binding) -> bool {
    facts(binding).is_ours_and_going()
}

pub(crate) fn binding(grant: &AllowedBy<'_>) -> BindingRef {
    let AllowedBy { binding, .. } = grant;
    BindingRef {
        kind: binding.kind().to_owned(),
        namespace: binding.namespace().unwrap_or_default().to_owned(),
        name: binding.name().to_owned(),
        uid: binding.uid().unwrap_or_default().to_owned(),
    }
}

fn reason(grant: &AllowedBy<'_>) -> String {
    format!("RBAC: allowed by {grant}")
}

fn no(question: AccessQuestion<&str>, why: &Why) -> String {
    let AccessQuestion {
        subject,
        connector,
        permission,
        verb,
        ..
    } = question;
    format!(
        "{why} for {verb:?} on {CONNECTORS}/{permission} of {}/{} to ServiceAccount {}/{}",
        connector.namespace, connector.name, subject.namespace, subject.name
    )
}

/// The request as an answer shows it. None without a UID.
fn seen(request: &KnownRequest) -> Option<RequestSeen> {
    Some(RequestSeen {
        name: request.name.to_string(),
        uid: request.uid.as_deref()?.to_owned(),
        resource_version: request.resource_version.to_string(),
        phase: request.phase,
        check_reason: request.check_reason,
        permission_reason: request.permission_reason,
        ready_reason: request.ready_reason,
        message: request.message.to_string(),
    })
}

#[cfg(test)]
mod tests;
