//! An explanation from objects of files: the results of the policies for this pod.

use connectors_api::access_policy::ObjectKind;
use connectors_api::approval_kind::{self, may_approve};
use connectors_api::check_selector::CompiledPolicy;
use connectors_api::config::Knowledge;
use connectors_api::connector::Selectable;
use connectors_api::judge::proof_needed;
use connectors_api::lineage::Lineage;
use connectors_api::pod_wish::ConnectorKey;
use connectors_api::wanted_objects::{self, CheckTrouble, WantedObjects};
use connectors_api::{AccessPolicy, Permission, parse};
use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;
use service_kit::watches::Unreadable;

use super::collect::{self, Asked};
use super::report::Explanation;
use super::seen::{
    AccessRead, CandidateRead, CheckProblem, CheckRead, Labels, LinkRead, Observed, PodRead,
    PolicyJudged, PolicyRead, text,
};
use super::tell;
use crate::modules::Modules;
use crate::terms::NamespacedName;
use crate::unread::Presence;

/// Objects in place of a cluster.
#[derive(Clone, Debug, Default)]
pub struct OfflineWorld {
    /// Whole objects.
    pub objects: Vec<Value>,
    /// The settings of the installation.
    pub settings: Knowledge,
    /// The time since which an admission rule protects the creators of pipeline runs.
    pub creators_since: Option<Timestamp>,
}

/// The question about the objects.
#[derive(Clone, Debug)]
pub struct OfflineQuestion {
    /// The whole pod.
    pub pod: Value,
    /// The connector.
    pub connector: ConnectorKey,
    /// The permission.
    pub permission: Permission,
}

/// The explanation, at this time.
pub async fn explain(
    world: &OfflineWorld,
    question: OfflineQuestion,
    modules: &Modules,
    now: Timestamp,
) -> Explanation {
    let OfflineQuestion {
        pod,
        connector,
        permission,
    } = question;
    let namespace = text(&pod, "/metadata/namespace").unwrap_or_default();
    let name = NamespacedName::new(namespace, text(&pod, "/metadata/name").unwrap_or_default());
    let account = text(&pod, "/spec/serviceAccountName").filter(|it| !it.is_empty());
    let account = NamespacedName::new(namespace, account.unwrap_or("default"));
    let labels = world.find("Connector", &connector.namespace, &connector.name);
    let labels = labels.map(|it| Selectable::deserialize(it).unwrap_or_default());
    let labels = labels.filter(|it| it.metadata.deletion_timestamp.is_none());
    let mut observed = Observed {
        account_labels: Some(world.labels("ServiceAccount", &account.namespace, &account.name)),
        namespace_labels: Some(world.namespace_labels(namespace)),
        system_namespace: String::new(),
        settings: Some(world.settings.clone()),
        problems: Vec::new(),
        accesses: vec![AccessRead {
            labels: labels.map_or(Presence::Absent, |it| {
                Presence::There(it.metadata.labels.unwrap_or_default())
            }),
            // The policies tell the standing permission.
            standing: Some((false, String::new())),
            request: Presence::Absent,
            grant: None,
            policies: Some(world.policies(&connector.namespace)),
            permission,
            has_error_file: false,
            is_replaced: false,
            connector,
        }],
        pod: Some(PodRead {
            name,
            uid: text(&pod, "/metadata/uid").map(str::to_owned),
            object: Some(pod),
            is_known: true,
        }),
        account,
        kinds: std::collections::BTreeMap::new(),
        unread: Vec::new(),
    };
    world.judge(&mut observed, modules).await;
    tell::explain(&observed, now)
}

impl OfflineWorld {
    fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.objects
            .iter()
            .filter(move |it| text(it, "/kind") == Some(kind))
    }

    /// An object.
    #[must_use]
    pub fn find(&self, kind: &str, namespace: &str, name: &str) -> Option<&Value> {
        self.of_kind(kind).find(|it| {
            text(it, "/metadata/namespace").unwrap_or_default() == namespace
                && text(it, "/metadata/name") == Some(name)
        })
    }

    fn labels(&self, kind: &str, namespace: &str, name: &str) -> Labels {
        let object = self.find(kind, namespace, name);
        let labels = object.and_then(|it| it.pointer("/metadata/labels"));
        let labels = labels.and_then(Value::as_object).into_iter().flatten();
        labels
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect()
    }

    /// With the label that the API server adds.
    fn namespace_labels(&self, name: &str) -> Labels {
        let mut labels = self.labels("Namespace", "", name);
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
        labels
    }

    fn policies(&self, namespace: &str) -> Vec<PolicyRead> {
        let policies = self.of_kind("AccessPolicy");
        let policies = policies.filter(|it| text(it, "/metadata/namespace") == Some(namespace));
        let mut policies: Vec<_> = policies
            .map(|it| {
                let read: Result<AccessPolicy, _> = parse::object(it);
                PolicyRead::of(read.map_err(|error| {
                    let metadata = it.get("metadata").cloned().unwrap_or_default();
                    Box::new(Unreadable {
                        metadata: serde_json::from_value(metadata).unwrap_or_default(),
                        problem: error.to_string(),
                    })
                }))
            })
            .collect();
        policies.sort_by(|a, b| a.name.cmp(&b.name));
        policies
    }

    async fn judge(&self, observed: &mut Observed, modules: &Modules) {
        let Some(pod) = observed.pod.as_ref().and_then(|it| it.object.clone()) else {
            return;
        };
        for (access, policy) in tell::to_judge(observed, false) {
            let Some(access) = observed.accesses.get_mut(access) else {
                continue;
            };
            let connector = access.connector.name.clone();
            let policies = access.policies.as_mut();
            let Some(read) = policies.and_then(|it| it.get_mut(policy)) else {
                continue;
            };
            if let Ok(policy) = &read.policy {
                read.judged = Some(self.judged(policy, &pod, connector, modules).await);
            }
        }
    }

    async fn judged(
        &self,
        policy: &AccessPolicy,
        pod: &Value,
        connector: String,
        modules: &Modules,
    ) -> PolicyJudged {
        let compiled = CompiledPolicy::of(policy.clone(), None);
        let wanted = wanted_objects::wanted(&compiled, pod, self.settings.shared());
        let namespace = text(pod, "/metadata/namespace").unwrap_or_default();
        let runs = self.runs(namespace);
        let checks = compiled.checks().zip(wanted).map(|((check, _), wanted)| {
            let lineage = proof_needed(check).lineage();
            let links = lineage.map(|it| links(it, &runs)).unwrap_or_default();
            CheckRead {
                found: self.candidates(&wanted, namespace, &links),
                has_module: check.has_module(),
                problem: None,
                going: None,
                wanted,
            }
        });
        let checks: Vec<_> = checks.collect();
        let lineage: Vec<Value> = runs.into_iter().cloned().collect();
        let asked = Asked {
            pod,
            connector,
            shared: self.settings.shared(),
            lineage: lineage.clone(),
            creators_since: self.creators_since,
        };
        let question = asked.question(policy, &compiled, &checks);
        PolicyJudged {
            judgement: collect::judge(modules, question).await,
            checks,
            lineage,
            creators_since: self.creators_since,
            lacks_creators: false,
            not_run: modules.not_run().map(str::to_owned),
        }
    }

    fn candidates(
        &self,
        wanted: &WantedObjects,
        namespace: &str,
        links: &[LinkRead],
    ) -> Result<Vec<CandidateRead>, CheckProblem> {
        if !may_approve(&wanted.kind) {
            return Ok(Vec::new());
        }
        let selection = wanted.selection.as_ref().map_err(|nothing| {
            CheckProblem::Trouble(CheckTrouble::SelectorInvalid, nothing.to_string())
        })?;
        let ObjectKind { api_version, kind } = &wanted.kind;
        let objects = self.of_kind(kind).filter(|it| {
            let label = |key: &str| it.pointer("/metadata/labels")?.get(key)?.as_str();
            let fields = selection.fields.as_ref();
            text(it, "/apiVersion") == Some(api_version)
                && text(it, "/metadata/namespace") == Some(namespace)
                && text(it, "/metadata/deletionTimestamp").is_none()
                && selection.has_labels(label)
                && fields.is_none_or(|fields| fields.matches(it))
        });
        let candidate = |object: &Value| CandidateRead {
            object: object.clone(),
            links: links.to_vec(),
            writers: None,
        };
        Ok(objects.map(candidate).collect())
    }

    /// The objects that a proof may need.
    fn runs(&self, namespace: &str) -> Vec<&Value> {
        let lineages: Vec<_> = approval_kind::lineages().collect();
        let is_link = |it: &&Value| {
            let kind = text(it, "/kind").unwrap_or_default();
            lineages.iter().any(|lineage| lineage.has_kind(kind))
                && text(it, "/metadata/namespace") == Some(namespace)
        };
        self.objects.iter().filter(is_link).collect()
    }
}

fn links(lineage: &'static dyn Lineage, runs: &[&Value]) -> Vec<LinkRead> {
    let kind = |it: &Value| text(it, "/kind").unwrap_or_default().to_owned();
    let link = |it: &&Value| LinkRead {
        kind: kind(it),
        name: text(it, "/metadata/name").unwrap_or_default().to_owned(),
        is_there: Some(true),
    };
    let own = runs.iter().filter(|it| lineage.has_kind(&kind(it)));
    own.map(link).collect()
}
