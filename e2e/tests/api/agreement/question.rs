//! A question, in the forms for the index and for the API server, and the API server's answer.

use std::collections::BTreeSet;

use authz::{Attributes, NonResourceRule, ResourceRequest, ResourceRule, Target, User, UserRules};
use http::Request;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec,
    SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

/// Every authenticated user is in it, whether a request says so or not.
const AUTHENTICATED: &str = "system:authenticated";

/// A question that owns its words.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) user: User,
    pub(crate) verb: String,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Resource {
        group: String,
        resource: String,
        subresource: String,
        namespace: String,
        name: String,
    },
    Path(String),
}

/// The API server's answer to a question.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    pub(crate) reason: String,
}

/// The rights of a user and the failed lookups, as sets: order and repetition do not matter.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RuleSets {
    pub(crate) resource: BTreeSet<ResourceRule>,
    pub(crate) path: BTreeSet<NonResourceRule>,
    pub(crate) errors: BTreeSet<String>,
}

impl RuleSets {
    pub(crate) fn new(rules: UserRules) -> Self {
        Self {
            resource: rules.resource.into_iter().collect(),
            path: rules.non_resource.into_iter().collect(),
            errors: rules.errors.iter().map(ToString::to_string).collect(),
        }
    }
}

impl Question {
    pub(crate) fn attributes(&self) -> Attributes<'_> {
        let target = match &self.what {
            What::Path(path) => Target::Path(path),
            What::Resource {
                group,
                resource,
                subresource,
                namespace,
                name,
            } => Target::Resource(ResourceRequest {
                group,
                resource,
                subresource,
                namespace,
                name,
                ..ResourceRequest::default()
            }),
        };
        Attributes {
            user: &self.user,
            verb: &self.verb,
            target,
        }
    }

    /// Asks the API server.
    pub(crate) async fn ask(&self, client: &Client) -> Answer {
        let verb = Some(self.verb.clone());
        let mut spec = SubjectAccessReviewSpec {
            user: Some(self.user.name.clone()),
            groups: Some(self.user.groups.clone()),
            ..SubjectAccessReviewSpec::default()
        };
        match self.what.clone() {
            What::Path(path) => {
                spec.non_resource_attributes = Some(NonResourceAttributes {
                    path: Some(path),
                    verb,
                });
            }
            What::Resource {
                group,
                resource,
                subresource,
                namespace,
                name,
            } => {
                spec.resource_attributes = Some(ResourceAttributes {
                    group: Some(group),
                    resource: Some(resource),
                    subresource: Some(subresource),
                    namespace: Some(namespace),
                    name: Some(name),
                    verb,
                    ..ResourceAttributes::default()
                });
            }
        }
        let review = SubjectAccessReview {
            spec,
            ..SubjectAccessReview::default()
        };
        let reviews = Api::<SubjectAccessReview>::all(client.clone());
        let review = reviews.create(&PostParams::default(), &review).await;
        let status = review.unwrap().status.unwrap();
        Answer {
            allowed: status.allowed,
            reason: status.reason.unwrap_or_default(),
        }
    }
}

/// The user as it is once it has authenticated.
pub(crate) fn authenticated(user: &User) -> User {
    let mut user = user.clone();
    if !user.groups.iter().any(|group| group == AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

/// The API server's list of a user's rights in a namespace, requested as that user.
pub(crate) async fn rules_of(client: &Client, user: &User, namespace: &str) -> RuleSets {
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec {
            namespace: Some(namespace.to_owned()),
        },
        ..SelfSubjectRulesReview::default()
    };
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let mut request = Request::post(path)
        .header("content-type", "application/json")
        .header("impersonate-user", &user.name);
    for group in &user.groups {
        request = request.header("impersonate-group", group);
    }
    let request = request.body(serde_json::to_vec(&review).unwrap()).unwrap();
    let review: SelfSubjectRulesReview = client.request(request).await.unwrap();
    let status = review.status.unwrap();
    let resource = status.resource_rules.into_iter().map(|rule| ResourceRule {
        verbs: rule.verbs,
        api_groups: rule.api_groups.unwrap_or_default(),
        resources: rule.resources.unwrap_or_default(),
        resource_names: rule.resource_names.unwrap_or_default(),
    });
    let path = status.non_resource_rules.into_iter();
    let path = path.map(|rule| NonResourceRule {
        verbs: rule.verbs,
        urls: rule.non_resource_urls.unwrap_or_default(),
    });
    let errors = status.evaluation_error.unwrap_or_default();
    // The other authorizers of the API server beside RBAC give no lists.
    let errors = complaints(&errors)
        .filter(|error| {
            !error.is_empty() && !error.contains("does not support user rule resolution")
        })
        .map(str::to_owned);
    RuleSets {
        resource: resource.collect(),
        path: path.collect(),
        errors: errors.collect(),
    }
}

/// The complaints of an answer, which come in no order.
pub(crate) fn complaints(text: &str) -> impl Iterator<Item = &str> {
    let list = text.strip_prefix("RBAC: ").unwrap_or(text);
    let inside = list.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    inside.unwrap_or(list).split(", ")
}
