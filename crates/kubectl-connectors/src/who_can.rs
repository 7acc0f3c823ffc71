//! `who-can`: the accounts with a standing permission on a connector, and the pods that have access now.

use authz::{AllowedBy, Attributes, Binding, RbacIndex, ResourceRequest, Subject, Target};
use connectors_api::labels::ACCESS_POLICY;
use connectors_api::pod_grant::{BindingFacts, RequestFacts as _};
use connectors_api::{AccessRequest, AccessResource, Permission, names};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::deciding;
use crate::output::{Cell, Colours, Tone, table};
use crate::rbac::RbacRead;
use crate::terms::{NamespacedName, span};

/// The limit of listed subjects of each kind.
const MOST: usize = 4096;

/// The subjects that may use a connector now.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WhoCanShown {
    /// The connector.
    pub connector: NamespacedName,
    /// The permission.
    pub permission: Permission,
    /// The verb.
    pub verb: String,
    /// The users, groups and accounts that may at any time, each with its binding. Members of `system:masters` may always,
    /// listed or not.
    pub standing: Vec<StandingHolder>,
    /// The pods that may because they were granted access. Absent if the requests could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<Vec<PodHolder>>,
    /// Whether all roles and bindings could be read, and all of the answer is listed.
    pub complete: bool,
    /// Bindings whose role is missing: they give nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// A subject with a standing permission.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StandingHolder {
    /// User, Group or ServiceAccount.
    pub kind: &'static str,
    /// The namespace of a ServiceAccount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// The binding, as kind and name.
    pub binding: String,
    /// The policy that the binding is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// A pod with access.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodHolder {
    /// The pod.
    pub pod: NamespacedName,
    /// Its UID.
    pub uid: String,
    /// Its service account.
    pub account: String,
    /// The request, in the namespace of the connector.
    pub request: String,
    /// When the access ends at the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
}

/// A question about a connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WhoCanQuestion<'a> {
    /// The namespace of the connector.
    pub namespace: &'a str,
    /// The connector.
    pub connector: &'a str,
    /// The permission.
    pub permission: Permission,
    /// The verb.
    pub verb: &'a str,
}

impl<'a> WhoCanQuestion<'a> {
    fn target(self, subresource: &'a str) -> Target<'a> {
        Target::Resource(ResourceRequest {
            group: names::GROUP,
            resource: names::CONNECTORS,
            subresource,
            namespace: self.namespace,
            name: self.connector,
            ..ResourceRequest::default()
        })
    }
}

/// A binding as the rule about pods sees it.
fn facts<'b>(binding: &'b Binding) -> BindingFacts<'b, impl Fn(&str) -> Option<&'b str>> {
    BindingFacts {
        namespace: binding.namespace(),
        is_deleting: binding.is_deleting(),
        label: |key: &str| binding.label(key),
    }
}

/// The subjects with access, at this time. The pods are absent if the requests could not be read.
#[must_use]
pub fn who_can(
    question: WhoCanQuestion<'_>,
    rbac: &RbacRead,
    requests: Option<&[AccessRequest]>,
    now: Timestamp,
) -> WhoCanShown {
    let target = question.target(question.permission.as_str());
    let who = rbac.index.who_can(question.verb, target, MOST, |binding| {
        !facts(binding).is_ours_and_going()
    });
    let standing = who.subjects.iter();
    let mut standing: Vec<_> = standing
        .flat_map(|subject| holders(&rbac.index, question, subject))
        .collect();
    standing.sort();
    standing.dedup();
    WhoCanShown {
        connector: NamespacedName::new(question.namespace, question.connector),
        permission: question.permission,
        verb: question.verb.to_owned(),
        standing,
        pods: requests.map(|requests| pods(question, &rbac.index, requests, now)),
        complete: rbac.is_whole && !who.is_cut,
        problems: who.errors.iter().map(ToString::to_string).collect(),
    }
}

/// The bindings behind a subject.
fn holders(
    index: &RbacIndex,
    question: WhoCanQuestion<'_>,
    subject: &Subject,
) -> Vec<StandingHolder> {
    let user = subject.alone();
    let grants = index.allowing(&Attributes {
        user: &user,
        verb: question.verb,
        target: question.target(question.permission.as_str()),
    });
    let counting = grants.filter(|grant| !facts(grant.binding).is_ours_and_going());
    let (kind, namespace, name) = match subject {
        Subject::User(name) => ("User", None, name),
        Subject::Group(name) => ("Group", None, name),
        Subject::ServiceAccount { namespace, name } => {
            ("ServiceAccount", Some(namespace.to_string()), name)
        }
    };
    let holder = |AllowedBy { binding, .. }: AllowedBy<'_>| StandingHolder {
        kind,
        namespace: namespace.clone(),
        name: name.to_string(),
        binding: format!("{} {}", binding.kind(), binding.name()),
        policy: binding.label(ACCESS_POLICY).map(str::to_owned),
    };
    counting.map(holder).take(MOST).collect()
}

/// The pods with a grant in force.
fn pods(
    question: WhoCanQuestion<'_>,
    index: &RbacIndex,
    requests: &[AccessRequest],
    now: Timestamp,
) -> Vec<PodHolder> {
    let is_about = |it: &&AccessRequest| {
        it.spec.connector_ref.name == question.connector
            && it.spec.permission == question.permission
            && it.namespace() == question.namespace
    };
    let mut pods: Vec<_> = deciding::of_each(requests.iter().filter(is_about))
        .filter(|request| is_let_in(question, index, request, now))
        .map(|request| {
            let pod = &request.spec.context.object_ref;
            PodHolder {
                pod: NamespacedName::new(&pod.namespace, &pod.name),
                uid: pod.uid.clone().unwrap_or_default(),
                account: request.spec.subject.name.clone(),
                request: request.metadata.name.clone().unwrap_or_default(),
                expires: request.expires_at(),
            }
        })
        .collect();
    pods.sort();
    pods
}

/// Whether a pod is let in, asked as the pod itself would ask.
fn is_let_in(
    question: WhoCanQuestion<'_>,
    index: &RbacIndex,
    request: &AccessRequest,
    now: Timestamp,
) -> bool {
    let spec = &request.spec;
    let namespace = spec.subject_namespace();
    let user = authz::User::service_account(namespace, &spec.subject.name);
    let pod = request.pod_name();
    let subresource = AccessResource::subresource_of_pod(question.permission, namespace, pod);
    let mut grants = index.allowing(&Attributes {
        user: &user,
        verb: question.verb,
        target: question.target(&subresource),
    });
    grants.any(|grant| facts(grant.binding).lets_in(request, pod, now))
}

/// The same for people.
#[must_use]
pub fn text(who: &WhoCanShown, now: Timestamp, colours: Colours) -> String {
    let mut rows = Vec::new();
    for holder in &who.standing {
        let name = match &holder.namespace {
            Some(namespace) => format!("{namespace}/{}", holder.name),
            None => holder.name.clone(),
        };
        let by = match &holder.policy {
            Some(policy) => format!("policy {policy}"),
            None => holder.binding.clone(),
        };
        rows.push(vec![
            Cell::from(format!("{} {name}", holder.kind)),
            Cell::new(Tone::Good, "always"),
            by.into(),
        ]);
    }
    for holder in who.pods.iter().flatten() {
        let until = holder.expires.map_or_else(
            || "until it ends".to_owned(),
            |at| format!("for {}", span(at.duration_since(now).as_secs())),
        );
        rows.push(vec![
            Cell::from(format!("Pod {} ({})", holder.pod, holder.account)),
            Cell::new(Tone::Good, until),
            format!("request {}", holder.request).into(),
        ]);
    }
    let mut text = if rows.is_empty() {
        let name = &who.connector;
        format!("none is known to have {} of {name}\n", who.permission)
    } else {
        table(&["WHO", "HOW LONG", "BY"], &rows, colours)
    };
    if !who.complete {
        let line = "not all roles and bindings could be read: there may be more";
        text.push_str(&colours.paint(Tone::Bad, line));
        text.push('\n');
    }
    if who.pods.is_none() {
        let line = "the requests could not be read: pods with access are not listed";
        text.push_str(&colours.paint(Tone::Bad, line));
        text.push('\n');
    }
    for problem in &who.problems {
        let line = format!("a binding gives nothing: {problem}");
        text.push_str(&colours.paint(Tone::Dim, &line));
        text.push('\n');
    }
    text
}
