//! What the controllers wrote: the results of requests, and the standing permissions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use connectors_api::access_request::Phase;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use kubectl_connectors::simulate::ForecastWord;
use serde_json::Value;
use testkit::Caller;

use crate::cluster::Cluster;
use crate::world::Ask;

/// A rule of a Role, as resources and verbs.
pub(crate) type RuleHeld = (Vec<String>, Vec<String>);
/// A standing permission: namespace, holder, resource, verb and connector.
pub(crate) type StandingHeld = (String, String, String, String, String);

/// The result of a request, as the controllers wrote it.
#[derive(Clone, PartialEq)]
pub(crate) struct AskSeen {
    /// The access that it means for the pod; none if the request decides nothing any more.
    pub(crate) word: Option<ForecastWord>,
    pub(crate) phase: Option<Phase>,
    /// The rules of the Roles of the request, by policy.
    pub(crate) rules: BTreeMap<String, Vec<RuleHeld>>,
    /// The whole request.
    pub(crate) request: Value,
}

impl fmt::Debug for AskSeen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            word,
            phase,
            rules,
            request,
        } = self;
        write!(f, "{word:?} {phase:?} {rules:?} {}", request["status"])
    }
}

impl Cluster {
    /// What became of each request.
    pub(crate) async fn asks(&self, asks: &[Ask]) -> BTreeMap<Ask, AskSeen> {
        let mut seen = BTreeMap::new();
        for ask in asks {
            seen.insert(ask.clone(), self.ask_seen(ask).await);
        }
        seen
    }

    async fn ask_seen(&self, ask: &Ask) -> AskSeen {
        let request = self
            .server
            .get("accessrequests", &ask.owner, &self.name_of(ask));
        let request = request.unwrap_or_default();
        let phase: Option<Phase> =
            serde_json::from_value(request["status"]["phase"].clone()).unwrap();
        let rules = self.rules(&request);
        let reason = |condition: &str| {
            let conditions = request["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let found = conditions.find(|it| it["type"] == condition);
            found.map(|it| it["reason"].as_str().unwrap_or_default().to_owned())
        };
        let opens = |rules: &Vec<RuleHeld>| {
            let form = format!(
                "connectors/{}/v1/pod/{}/{}",
                ask.permission, ask.home, ask.pod
            );
            let is_all = |words: &[String], word: &str| words.iter().any(|it| it == word);
            rules
                .iter()
                .any(|(resources, verbs)| is_all(resources, &form) && is_all(verbs, "*"))
        };
        let has_connector = self.has_connector(ask);
        let word = match phase {
            _ if request.is_null() || request["metadata"]["deletionTimestamp"].is_string() => None,
            _ if has_connector && self.has_standing(ask).await => Some(ForecastWord::Standing),
            Some(Phase::Granted) if rules.values().any(opens) => Some(ForecastWord::Granted),
            Some(Phase::Granted) => Some(ForecastWord::Waits),
            Some(Phase::Rejected) => Some(ForecastWord::Refused),
            Some(Phase::Pending) => {
                let matched = reason("AccessPolicyMatched");
                Some(if matched.as_deref() == Some("NoAccessPolicyMatched") {
                    ForecastWord::NoPolicy
                } else {
                    ForecastWord::Waits
                })
            }
            None | Some(Phase::Revoked | Phase::Invalid | Phase::Ended) => None,
        };
        AskSeen {
            word,
            phase,
            rules,
            request,
        }
    }

    /// The rules of the Roles of a request that bindings hold, by policy.
    fn rules(&self, request: &Value) -> BTreeMap<String, Vec<RuleHeld>> {
        let uid = &request["metadata"]["uid"];
        let mut rules = BTreeMap::new();
        for role in self.held_roles() {
            let labels = &role["metadata"]["labels"];
            if !uid.is_string() || labels["connectors.alauda.io/accessRequestUid"] != *uid {
                continue;
            }
            let policies = request["status"]["policies"].as_array();
            let policy = policies.into_iter().flatten().find(|it| {
                let uid = it["policy"]["metadata"]["uid"].as_str().unwrap_or_default();
                !uid.is_empty() && labels["connectors.alauda.io/accessPolicyUid"] == uid
            });
            let name = policy.map_or("?", |it| it["policy"]["metadata"]["name"].as_str().unwrap());
            let mut held: Vec<RuleHeld> = words_of(&role["rules"]);
            held.sort();
            rules.insert(name.to_owned(), held);
        }
        rules
    }

    /// The managed Roles that a binding of their name holds.
    fn held_roles(&self) -> Vec<Value> {
        let bindings = self.server.list("rolebindings");
        let is_held = |role: &Value| {
            bindings.iter().any(|it| {
                it["metadata"]["namespace"] == role["metadata"]["namespace"]
                    && it["roleRef"]["name"] == role["metadata"]["name"]
            })
        };
        let mut roles = self.server.list("roles");
        roles.retain(|it| {
            it["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "connectors-approval"
                && is_held(it)
        });
        roles
    }

    /// The standing permissions that the policy-controller wrote.
    pub(crate) fn standing(&self) -> BTreeSet<StandingHeld> {
        let mut held = BTreeSet::new();
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let list = |it: &Value| it.as_array().cloned().unwrap_or_default();
        for role in self.held_roles() {
            if role["metadata"]["labels"]["connectors.alauda.io/accessRequestUid"].is_string() {
                continue;
            }
            let bindings = self.server.list("rolebindings").into_iter().filter(|it| {
                it["metadata"]["namespace"] == role["metadata"]["namespace"]
                    && it["roleRef"]["name"] == role["metadata"]["name"]
            });
            for subject in bindings.flat_map(|it| list(&it["subjects"])) {
                let (kind, name) = (text(&subject["kind"]), text(&subject["name"]));
                let holder = match subject["namespace"].as_str() {
                    Some(namespace) => format!("{kind} {namespace}/{name}"),
                    None => format!("{kind} {name}"),
                };
                for rule in list(&role["rules"]) {
                    for resource in list(&rule["resources"]) {
                        for verb in list(&rule["verbs"]) {
                            for connector in list(&rule["resourceNames"]) {
                                held.insert((
                                    text(&role["metadata"]["namespace"]),
                                    holder.clone(),
                                    text(&resource),
                                    text(&verb),
                                    text(&connector),
                                ));
                            }
                        }
                    }
                }
            }
        }
        held
    }

    /// The API server's answer to the question of a mount.
    async fn has_standing(&self, ask: &Ask) -> bool {
        let account = format!("system:serviceaccount:{}:{}", ask.home, ask.account);
        let groups = [
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", ask.home),
        ];
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(account),
                groups: Some([&groups[..], &["system:authenticated".to_owned()]].concat()),
                resource_attributes: Some(ResourceAttributes {
                    namespace: Some(ask.owner.clone()),
                    verb: Some("*".to_owned()),
                    group: Some("connectors.alauda.io".to_owned()),
                    resource: Some("connectors".to_owned()),
                    subresource: Some(ask.permission.as_str().to_owned()),
                    name: Some(ask.connector.clone()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.server.client(&Caller::admin()));
        let review = api.create(&PostParams::default(), &review).await.unwrap();
        review.status.is_some_and(|it| it.allowed)
    }
}

/// Resources and verbs of rules.
fn words_of(rules: &Value) -> Vec<RuleHeld> {
    let words = |it: &Value| -> Vec<String> { serde_json::from_value(it.clone()).unwrap() };
    let rules = rules.as_array().into_iter().flatten();
    rules
        .map(|it| (words(&it["resources"]), words(&it["verbs"])))
        .collect()
}
