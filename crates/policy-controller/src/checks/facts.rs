//! The questions about a policy's checks: to the API server, which kinds it serves and which rights accounts
//! have; to the evaluation service, which errors the Rego has.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use connectors_api::{
    access_policy::ObjectKind,
    approval_kind::may_approve,
    names::{ANSWER_RULE, CREATOR_RULE},
};
use evaluation_api::{
    client::{Client as EvaluationClient, EvaluationCallError as EvaluationError},
    v1::{Finding, FindingSeverity},
};
use futures::future::BoxFuture;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};
use kube::Client;
use serde_json::Value;
use service_kit::{
    admission::{is_in_force, rule_since},
    kinds::{self, Served},
    report,
    retry::RetryPolicy,
    reviews::{self, Reviewed, service_account},
};
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::{
    rights::RightsChanges,
    suspects::Suspects,
    verdict::{AdmissionRule, Holders, KindFound, MOST_NAMED, Resource},
};

/// The account that reads the objects of checks.
const READER: &str = "request-controller";
/// Answers are reused for this time for all policies, unless rights change.
const FRESH: Duration = Duration::from_mins(1);
/// The limit of stored answers.
const MOST_ANSWERS: usize = 10_000;
/// No task waits for these questions, and the API server has other clients.
const PAUSE: Duration = Duration::from_millis(10);

const ALL_ACCOUNTS: &str = "system:serviceaccounts";
const EVERYBODY: &str = "system:authenticated";

/// A verb and a subresource.
type VerbOnResource = (&'static str, &'static str);

/// The rights on a kind that a check asks about. The right to write the status always matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskedRights {
    /// An object counts regardless of its writer.
    pub writers: bool,
    /// The deletion of an object hides its withdrawal.
    pub deleters: bool,
}

/// Each of these rights is enough to write an approval.
const FORGING: &[VerbOnResource] = &[
    ("create", ""),
    ("update", ""),
    ("patch", ""),
    ("update", "status"),
    ("patch", "status"),
];
/// Each of these is enough to write a status. A proof believes a status, because only controllers should
/// write it.
const WRITING_STATUS: &[VerbOnResource] = &[("update", "status"), ("patch", "status")];
/// Each of these is enough to delete one.
const DELETING: &[VerbOnResource] = &[("delete", ""), ("deletecollection", "")];

/// Each of these rights on pods is enough to use the access of an approved pod. No proof detects that.
const ENTERING: &[VerbOnResource] = &[
    ("create", "exec"),
    ("get", "exec"),
    ("create", "attach"),
    ("get", "attach"),
    ("update", "ephemeralcontainers"),
    ("patch", "ephemeralcontainers"),
    ("update", ""),
    ("patch", ""),
];

/// The validator of Rego. Tests use a simpler one than the evaluation service.
pub trait Validator: Send + Sync {
    /// All findings about a policy.
    fn findings(&self, policy: Vec<u8>) -> BoxFuture<'_, Result<Vec<Finding>, EvaluationError>>;
}

impl Validator for EvaluationClient {
    fn findings(&self, policy: Vec<u8>) -> BoxFuture<'_, Result<Vec<Finding>, EvaluationError>> {
        Box::pin(async move { Ok(self.validate_policy(policy).await?.findings) })
    }
}

/// Asks the questions.
pub struct CheckFacts {
    client: Client,
    policy: RetryPolicy,
    validator: Arc<dyn Validator>,
    /// The namespace of the installation.
    namespace: String,
    /// When rights changed last.
    rights: RightsChanges,
    answers: Mutex<HashMap<RightQuestion, (bool, Instant)>>,
}

/// Whether an account or a group has a right.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RightQuestion {
    /// The account, or the groups.
    who: AskedAccounts,
    /// None: in every namespace.
    namespace: Option<String>,
    verb: &'static str,
    resource: Resource,
    subresource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum AskedAccounts {
    /// All members of these groups.
    Groups(Vec<String>),
    Account(String, String),
}

/// The API server did not answer.
struct NoReview;

impl CheckFacts {
    /// For the installation in that namespace.
    pub fn new(
        client: Client,
        policy: RetryPolicy,
        validator: Arc<dyn Validator>,
        namespace: String,
        rights: RightsChanges,
    ) -> Self {
        Self {
            client,
            policy,
            validator,
            namespace,
            rights,
            answers: Mutex::default(),
        }
    }

    /// The errors in the Rego of a policy; or why no validator could judge it.
    pub async fn rego(&self, policy: &Value) -> Result<Vec<String>, String> {
        let text = serde_json::to_vec(policy).map_err(|error| error.to_string())?;
        let findings = self.validator.findings(text).await.map_err(|error| {
            warn!(error = report(&error), "the Rego of a policy is not judged");
            "the evaluation service, which looks at Rego, does not judge it now".to_owned()
        })?;
        let findings = findings.into_iter();
        let wrong = findings.filter(|it| it.severity() != FindingSeverity::Warning);
        Ok(wrong
            .map(|it| format!("{}: {}", it.path, it.message))
            .collect())
    }

    /// Whether an admission rule protects the recorded creators of pipeline runs.
    pub async fn creators(&self) -> AdmissionRule {
        match rule_since(&self.client, &self.policy, CREATOR_RULE).await {
            Ok(Some(_)) => AdmissionRule::InForce,
            Ok(None) => AdmissionRule::Missing,
            Err(error) => {
                debug!(error = report(&error), "rule about creators not read");
                AdmissionRule::Unknown
            }
        }
    }

    /// Whether an admission rule limits each approver to the own answer.
    pub async fn answers(&self) -> AdmissionRule {
        match is_in_force(&self.client, &self.policy, ANSWER_RULE).await {
            Ok(true) => AdmissionRule::InForce,
            Ok(false) => AdmissionRule::Missing,
            Err(error) => {
                debug!(error = report(&error), "rule about answers not read");
                AdmissionRule::Unknown
            }
        }
    }

    /// Whether a kind can be read, and which of the suspects have the rights that matter.
    pub async fn kind(
        &self,
        kind: &ObjectKind,
        suspects: &Suspects,
        asked: AskedRights,
    ) -> KindFound {
        if !may_approve(kind) {
            // The policy's findings report this error already.
            return KindFound::Unknown;
        }
        let served = kinds::served(&self.client, &kind.api_version, &kind.kind).await;
        let resource = match served {
            None => return KindFound::Unknown,
            Some(Served::Missing) => return KindFound::Missing,
            Some(Served::ClusterScoped) => return KindFound::ClusterScoped,
            Some(Served::Namespaced(it)) => Resource {
                group: it.group,
                plural: it.plural,
            },
        };
        let found = async {
            for verb in ["get", "list", "watch"] {
                let reader = AskedAccounts::Account(self.namespace.clone(), READER.to_owned());
                if !self.may(reader, None, (verb, ""), &resource).await? {
                    return Ok(KindFound::NotReadable(resource.clone()));
                }
            }
            let rights = if asked.writers {
                FORGING
            } else {
                WRITING_STATUS
            };
            let forgers = self.holders(rights, &resource, suspects).await?;
            // A forger has no need to delete.
            let deleters = if asked.deleters && forgers.first.is_empty() {
                self.holders(DELETING, &resource, suspects).await?
            } else {
                Holders::default()
            };
            Ok::<_, NoReview>(KindFound::Readable { forgers, deleters })
        };
        found.await.unwrap_or(KindFound::Unknown)
    }

    /// The suspects that may enter running pods. Empty if the API server does not answer, because it is only a hint.
    pub async fn intruders(&self, suspects: &Suspects) -> Holders {
        let pods = Resource {
            group: String::new(),
            plural: "pods".to_owned(),
        };
        let found = self.holders(ENTERING, &pods, suspects).await;
        found.unwrap_or_default()
    }

    /// The first of the suspects that have one of the rights.
    async fn holders(
        &self,
        rights: &[VerbOnResource],
        resource: &Resource,
        suspects: &Suspects,
    ) -> Result<Holders, NoReview> {
        let mut holders = Holders {
            first: Vec::new(),
            may_be_more: !suspects.extent.is_whole(),
        };
        for (namespace, accounts) in &suspects.places {
            if holders.first.len() > MOST_NAMED {
                holders.may_be_more = true;
                break;
            }
            let own = format!("{ALL_ACCOUNTS}:{namespace}");
            let ladder = [
                Vec::new(),
                vec![ALL_ACCOUNTS.to_owned()],
                vec![own, ALL_ACCOUNTS.to_owned()],
            ];
            let mut are_all = false;
            for groups in ladder {
                let found =
                    self.holds(rights, AskedAccounts::of(groups), Some(namespace), resource);
                if let Some(what) = found.await? {
                    holders.first.push(what);
                    are_all = true;
                    break;
                }
            }
            // The members of a group that has the right are not named one by one.
            for account in accounts.iter().filter(|_| !are_all) {
                let who = AskedAccounts::Account(namespace.clone(), account.clone());
                holders
                    .first
                    .extend(self.holds(rights, who, Some(namespace), resource).await?);
                if holders.first.len() > MOST_NAMED {
                    break;
                }
            }
        }
        Ok(holders)
    }

    /// The first of the rights that the accounts have, as a sentence.
    async fn holds(
        &self,
        rights: &[VerbOnResource],
        who: AskedAccounts,
        namespace: Option<&str>,
        resource: &Resource,
    ) -> Result<Option<String>, NoReview> {
        for &what in rights {
            if self.may(who.clone(), namespace, what, resource).await? {
                let (verb, subresource) = what;
                let part = if subresource.is_empty() {
                    String::new()
                } else {
                    format!(" ({subresource})")
                };
                let place =
                    namespace.map_or("every namespace".to_owned(), |it| format!("namespace {it}"));
                return Ok(Some(format!(
                    "{} may {verb} {resource}{part} in {place}",
                    who.said()
                )));
            }
        }
        Ok(None)
    }

    async fn may(
        &self,
        who: AskedAccounts,
        namespace: Option<&str>,
        (verb, subresource): VerbOnResource,
        resource: &Resource,
    ) -> Result<bool, NoReview> {
        let question = RightQuestion {
            who,
            namespace: namespace.map(str::to_owned),
            verb,
            resource: resource.clone(),
            subresource,
        };
        if let Some(answer) = self.answered(&question) {
            return Ok(answer);
        }
        sleep(PAUSE).await;
        let attributes = ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(resource.group.clone()),
            resource: Some(resource.plural.clone()),
            subresource: Some(subresource.to_owned()).filter(|it| !it.is_empty()),
            namespace: question.namespace.clone(),
            ..ResourceAttributes::default()
        };
        let (who, asked) = (question.who.review(), Instant::now());
        let answer = reviews::may(
            &self.client,
            &self.policy,
            Reviewed::from(&who),
            &attributes,
        )
        .await;
        let answer = answer.map_err(|error| {
            debug!(error = report(&error), "a right is not known");
            NoReview
        })?;
        self.remember(question, answer, asked);
        Ok(answer)
    }

    fn answered(&self, question: &RightQuestion) -> Option<bool> {
        let answers = self.answers.lock();
        let answers = answers.unwrap_or_else(PoisonError::into_inner);
        let (answer, at) = answers.get(question)?;
        let changed = self.rights.last(question.namespace.as_deref());
        (at.elapsed() < FRESH && *at > changed).then_some(*answer)
    }

    fn remember(&self, question: RightQuestion, answer: bool, asked: Instant) {
        let answers = self.answers.lock();
        let mut answers = answers.unwrap_or_else(PoisonError::into_inner);
        keep(&mut answers, question, answer, asked);
    }
}

/// Stores an answer. Before the map grows, expired answers are removed.
fn keep(
    answers: &mut HashMap<RightQuestion, (bool, Instant)>,
    question: RightQuestion,
    answer: bool,
    asked: Instant,
) {
    if answers.len() >= answers.capacity() {
        answers.retain(|_, (_, at)| asked.duration_since(*at) < FRESH);
    }
    if answers.len() >= MOST_ANSWERS {
        answers.clear();
    }
    answers.insert(question, (answer, asked));
}

impl AskedAccounts {
    /// Accounts that are in all of these groups, and in the group of all authenticated users.
    fn of(mut groups: Vec<String>) -> Self {
        groups.push(EVERYBODY.to_owned());
        Self::Groups(groups)
    }

    fn said(&self) -> String {
        match self {
            Self::Groups(groups) => groups.first().cloned().unwrap_or_default(),
            Self::Account(namespace, name) => format!("system:serviceaccount:{namespace}:{name}"),
        }
    }

    fn review(&self) -> SubjectAccessReviewSpec {
        match self {
            Self::Groups(groups) => SubjectAccessReviewSpec {
                groups: Some(groups.clone()),
                ..SubjectAccessReviewSpec::default()
            },
            Self::Account(namespace, name) => service_account(namespace, name),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        checks::suspects::Extent,
        testing::{OWN, api_server, calls, facts},
    };

    fn signoffs() -> Resource {
        Resource {
            group: "example.com".to_owned(),
            plural: "signoffs".to_owned(),
        }
    }

    /// Whether one of many accounts has a right.
    fn question(account: u32) -> RightQuestion {
        RightQuestion {
            who: AskedAccounts::Account("devops".to_owned(), account.to_string()),
            namespace: None,
            verb: "create",
            resource: signoffs(),
            subresource: "",
        }
    }

    #[tokio::test(start_paused = true)]
    async fn accounts_that_may_forge_are_named_until_there_are_more_than_are_told() {
        const RBAC: &str = "rbac.authorization.k8s.io";
        for holders in 0..=2 * MOST_NAMED {
            let server = api_server();
            server.create(json!({
                "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": "forger"},
                "rules": [{"apiGroups": ["example.com"], "resources": ["signoffs"], "verbs": ["create"]}],
            }));
            let named = |number: usize| format!("a{number}");
            // Each has the right in its own namespace.
            let bind = |namespace: &str, names: &[String]| {
                let account = |name: &String| json!({"kind": "ServiceAccount", "namespace": namespace, "name": name});
                server.create(json!({
                    "apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
                    "metadata": {"name": "forger", "namespace": namespace},
                    "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "forger"},
                    "subjects": names.iter().map(account).collect::<Vec<_>>(),
                }));
            };
            server.create(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "devops"}}),
            );
            let accounts: Vec<_> = (0..2 * MOST_NAMED + 2).map(named).collect();
            bind("devops", &accounts[..holders]);
            bind(OWN, &accounts[..1]);
            let suspects = Suspects {
                everywhere: false,
                places: [("devops", accounts.clone()), (OWN, accounts)]
                    .map(|(place, it)| (place.to_owned(), it))
                    .into(),
                extent: Extent::default(),
            };
            let found = facts(&server)
                .holders(FORGING, &signoffs(), &suspects)
                .await;
            let found = found.ok().unwrap();
            let of_first = holders.min(MOST_NAMED + 1);
            let mut expected: Vec<_> = (0..of_first).map(|it| ("devops", it)).collect();
            let has_more = of_first > MOST_NAMED;
            if !has_more {
                expected.push((OWN, 0));
            }
            let said = |(place, number)| {
                format!(
                    "system:serviceaccount:{place}:a{number} may create signoffs.example.com in namespace {place}"
                )
            };
            let expected = Holders {
                first: expected.into_iter().map(said).collect(),
                may_be_more: has_more,
            };
            assert_eq!(found, expected);
        }
    }

    /// However often an answer is used, it does not last longer.
    #[tokio::test(start_paused = true)]
    async fn a_right_is_asked_for_again_each_minute_while_its_answer_is_used_all_the_time() {
        let server = api_server();
        let facts = facts(&server);
        let resource = signoffs();
        // Nothing but reviews is asked for.
        let reviews = || calls(&server).len();
        let (start, mut known, mut asked) = (Instant::now(), 0, Instant::now());
        while start.elapsed() < Duration::from_mins(10) {
            let who = AskedAccounts::Account("devops".to_owned(), "builder".to_owned());
            let may = facts.may(who, Some("devops"), ("create", ""), &resource);
            assert!(matches!(may.await, Ok(false)));
            if reviews() > known {
                (known, asked) = (reviews(), Instant::now());
            }
            assert!(asked.elapsed() < FRESH, "{:?}", start.elapsed());
            sleep(Duration::from_secs(3)).await;
        }
        assert!(known <= 10, "{known} reviews");
    }

    #[test]
    fn answers_that_are_too_old_to_be_said_again_are_forgotten() {
        let (mut answers, start) = (HashMap::new(), Instant::now());
        for number in 0..50_000_u32 {
            // A hundred are fresh at any time.
            let at = start + number * (FRESH / 100);
            keep(&mut answers, question(number), true, at);
            assert!(answers.len() <= 1000, "{} answers", answers.len());
        }
    }

    /// All answers are looked at for that.
    #[test]
    fn answers_are_forgotten_only_when_there_is_no_room_for_another() {
        let (mut answers, start) = (HashMap::new(), Instant::now());
        keep(&mut answers, question(0), true, start);
        let room = u32::try_from(answers.capacity()).unwrap();
        for number in 1..room {
            keep(&mut answers, question(number), true, start + FRESH);
        }
        assert!(answers.contains_key(&question(0)), "it was in nobody's way");
        keep(&mut answers, question(room), true, start + FRESH);
        assert!(!answers.contains_key(&question(0)), "it is a minute old");
        assert!((1..=room).all(|it| answers.contains_key(&question(it))));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_of_the_moment_in_which_rights_changed_is_not_used() {
        let facts = facts(&api_server());
        let changed = facts.rights.last(None);
        for (after, answer) in [(0, None), (1, Some(true))] {
            let asked = changed + Duration::from_millis(after);
            facts.remember(question(0), true, asked);
            assert_eq!(facts.answered(&question(0)), answer, "{after} ms");
        }
    }
}
