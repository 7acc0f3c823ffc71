//! Reads the inputs of a simulation. A namespace costs a fixed number of calls, and each request a few: what was read
//! once is not read again.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::access_policy::{ObjectKind, SubjectSpec};
use connectors_api::access_request::Phase;
use connectors_api::connector::Selectable;
use connectors_api::pod_grant::RequestFacts as _;
use connectors_api::standing::{MostSelected, Surroundings};
use connectors_api::{AccessPolicy, AccessRequest, NamespaceKeys, parse};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::ResourceExt as _;
use serde_json::Value;
use service_kit::watches::Labelled;

use super::forecast::{self, GrantFate};
use super::{RequestForecast, SimulatedPolicy, SimulatedWord, Simulation, standing};
use crate::explain;
use crate::explain::under::{PolicyChanges, RequestStage, UnderPolicies, under_policies};
use crate::files::ObjectFile;
use crate::lint::{self, LintReport};
use crate::modules::Modules;
use crate::reads::{ClusterReads, KindServed, Strict};
use crate::terms::NamespacedName;
use crate::unread::{MissedRead, known};

/// The limit of requests that are looked at.
const MOST_REQUESTS: usize = 100;
/// The requests of a page, decided ones among them.
const PAGE: u32 = 512;
/// The limit of pages of a namespace.
const MOST_PAGES: usize = 8;

/// The Deployment whose arguments limit the selected subjects.
const POLICY_CONTROLLER: &str = "policy-controller";
/// The argument.
const MOST_SELECTED: &str = "--max-selected-subjects=";

type Labels = BTreeMap<String, String>;

/// Why nothing is simulated.
#[derive(Debug, PartialEq)]
pub enum SimulationProblem {
    /// The webhook would refuse a policy of a file, or a file has none.
    Lint(LintReport),
    /// The files and the command line do not fit together.
    File(String),
}

/// The cluster and the settings of the command.
#[derive(Clone, Copy, Debug)]
pub struct SimulationScope<'a> {
    /// The namespace of policies that name none.
    pub namespace: &'a str,
    /// Policies may be of other namespaces too.
    pub is_all: bool,
    /// The namespace of the installation.
    pub system_namespace: &'a str,
    /// The policies that would be deleted.
    pub deleted: &'a [NamespacedName],
}

/// The changes that policies of files would make, at this time.
pub async fn simulate(
    reads: &ClusterReads,
    modules: &Modules,
    files: &[ObjectFile],
    scope: SimulationScope<'_>,
    now: Timestamp,
) -> Result<(Simulation, Vec<MissedRead>), SimulationProblem> {
    let linted = if files.is_empty() {
        LintReport::default()
    } else {
        lint::lint(files, modules).await
    };
    if linted.errors > 0 || linted.files.iter().any(|it| it.problem.is_some()) {
        return Err(SimulationProblem::Lint(linted));
    }
    let others = policies_of(files, scope).map_err(SimulationProblem::File)?;
    let reads = reads.remembering();
    let mut simulator = Simulator {
        reads: &reads,
        modules,
        scope,
        now,
        simulation: Simulation::default(),
        unread: Vec::new(),
        is_doubtful: false,
        effects: StandingEffects::default(),
    };
    let namespaces = others.iter().filter_map(|it| it.metadata.namespace.clone());
    let of_deleted = scope.deleted.iter().map(|it| it.namespace.clone());
    let namespaces: BTreeSet<String> = namespaces.chain(of_deleted).collect();
    for namespace in &namespaces {
        let simulated = Box::pin(simulator.namespace(namespace, &others));
        simulated.await.map_err(SimulationProblem::File)?;
    }
    let Simulator {
        mut simulation,
        unread,
        is_doubtful,
        ..
    } = simulator;
    simulation.policies.sort();
    simulation.complete = unread.is_empty() && !is_doubtful;
    Ok((simulation, unread))
}

/// The policies of the files, each with its namespace.
fn policies_of(
    files: &[ObjectFile],
    scope: SimulationScope<'_>,
) -> Result<Vec<AccessPolicy>, String> {
    let mut found: Vec<AccessPolicy> = Vec::new();
    let mut names = BTreeSet::new();
    let elsewhere = |it: &&NamespacedName| !scope.is_all && it.namespace != scope.namespace;
    if let Some(NamespacedName { namespace, name }) = scope.deleted.iter().find(elsewhere) {
        return Err(format!(
            "--delete {namespace}/{name}: the policy is of namespace {namespace}: use -n {namespace}, or -A"
        ));
    }
    for file in files {
        for document in file.documents.iter().flatten() {
            if !lint::is_policy(&document.value) {
                continue;
            }
            let policy: Result<AccessPolicy, _> = parse::object(&document.value);
            let mut policy = policy.map_err(|error| format!("{}: {error}", file.path))?;
            let namespace = policy
                .metadata
                .namespace
                .get_or_insert_with(|| scope.namespace.to_owned());
            if !scope.is_all && namespace != scope.namespace {
                return Err(format!(
                    "{}: metadata.namespace: the policy is of namespace {namespace}: use -n {namespace}, or -A",
                    file.path
                ));
            }
            let name = NamespacedName::new(namespace.clone(), policy.name_any());
            if name.name.is_empty() {
                return Err(format!("{}: metadata.name: required", file.path));
            }
            if !names.insert(name.clone()) {
                return Err(format!("{}: there are two policies {name}", file.path));
            }
            if scope.deleted.contains(&name) {
                return Err(format!(
                    "{}: policy {name} is also in --delete: leave out one of the two",
                    file.path
                ));
            }
            found.push(policy);
        }
    }
    Ok(found)
}

/// The policies of a namespace whose standing permission gives nothing.
#[derive(Default)]
struct StandingEffects {
    before: BTreeSet<String>,
    after: BTreeSet<String>,
    /// Those that give nothing if the limit of selected subjects, which is not known, is low.
    unsure: BTreeSet<String>,
    /// Why the limit is not known.
    missed: Vec<MissedRead>,
}

struct Simulator<'a> {
    reads: &'a ClusterReads,
    modules: &'a Modules,
    scope: SimulationScope<'a>,
    now: Timestamp,
    simulation: Simulation,
    unread: Vec<MissedRead>,
    /// The result of a request is not known.
    is_doubtful: bool,
    /// Of the namespace that is looked at.
    effects: StandingEffects,
}

impl Simulator<'_> {
    async fn namespace(&mut self, namespace: &str, others: &[AccessPolicy]) -> Result<(), String> {
        let others: Vec<AccessPolicy> = others
            .iter()
            .filter(|it| it.metadata.namespace.as_deref() == Some(namespace))
            .cloned()
            .collect();
        let listed = self.reads.all::<AccessPolicy, Strict>(namespace, "").await;
        let Some(listed) = known(listed, &mut self.unread) else {
            return Ok(());
        };
        let there: BTreeSet<String> = listed
            .iter()
            .filter_map(|it| match it {
                Ok(policy) => policy.metadata.name.clone(),
                Err(unreadable) => unreadable.metadata.name.clone(),
            })
            .collect();
        let unreadable: BTreeSet<String> = listed
            .iter()
            .filter_map(|it| it.as_ref().err()?.metadata.name.clone())
            .collect();
        // An unreadable policy gives nothing.
        let before: Vec<AccessPolicy> = listed
            .into_iter()
            .flatten()
            .filter(|it| it.metadata.deletion_timestamp.is_none())
            .collect();
        for other in &others {
            let name = other.name_any();
            let there = before.iter().find(|it| it.name_any() == name);
            self.simulation.policies.push(SimulatedPolicy {
                name: NamespacedName::new(namespace, name.clone()),
                state: match there {
                    None if unreadable.contains(&name) => SimulatedWord::Changed,
                    None => SimulatedWord::New,
                    Some(there) if there.spec == other.spec => SimulatedWord::Same,
                    Some(_) => SimulatedWord::Changed,
                },
            });
        }
        let deleted = self.scope.deleted.iter();
        for name in deleted.filter(|it| it.namespace == namespace) {
            if !there.contains(&name.name) {
                return Err(format!(
                    "--delete {name}: there is no such policy: `kubectl -n {namespace} get accesspolicies` lists those that there are"
                ));
            }
            self.simulation.policies.push(SimulatedPolicy {
                name: name.clone(),
                state: SimulatedWord::Deleted,
            });
        }
        self.standing(namespace, &before, &others).await;
        self.requests(namespace, &others).await;
        Ok(())
    }

    async fn requests(&mut self, namespace: &str, others: &[AccessPolicy]) {
        let open = |it: &AccessRequest| match it.phase() {
            None | Some(Phase::Pending | Phase::Granted) => !it.is_deleting(),
            Some(Phase::Rejected | Phase::Revoked | Phase::Invalid | Phase::Ended) => false,
        };
        let left = MOST_REQUESTS.saturating_sub(self.simulation.looked_at);
        let (mut requests, mut next) = (Vec::<AccessRequest>::new(), None::<String>);
        for _ in 0..MOST_PAGES {
            let token = next.as_deref();
            let page = self
                .reads
                .page::<AccessRequest, Strict>(namespace, "", PAGE, token);
            let Some((page, after)) = known(page.await, &mut self.unread) else {
                break;
            };
            requests.extend(page.into_iter().flatten().filter(open));
            next = after;
            if next.is_none() || requests.len() > left {
                break;
            }
        }
        requests.sort_by_key(|it| (it.metadata.creation_timestamp.clone(), it.name_any()));
        self.simulation.left_out +=
            requests.len().saturating_sub(left) + usize::from(next.is_some());
        for request in requests.into_iter().take(left) {
            self.simulation.looked_at += 1;
            let status = request.status.as_ref();
            if status.is_some_and(|it| it.held().next().is_some()) {
                self.granted(&request, others).await;
            } else if let Some(under) = self.under(&request, RequestStage::AsItIs, others).await {
                self.told(forecast::of(&request, &under, GrantFate::None), &under);
            }
        }
    }

    /// A granted request, and a new one of its pod.
    async fn granted(&mut self, request: &AccessRequest, others: &[AccessPolicy]) {
        let Some(under) = self.under(request, RequestStage::AsItIs, others).await else {
            return;
        };
        let fate = if under.ending.is_empty() {
            GrantFate::Stays
        } else {
            GrantFate::Ends
        };
        self.told(forecast::of_granted(request, &under), &under);
        if let Some(under) = self.under(request, RequestStage::Anew, others).await {
            self.told(forecast::of(request, &under, fate), &under);
        }
    }

    fn told(
        &mut self,
        (forecast, is_unknown): (Option<RequestForecast>, bool),
        under: &UnderPolicies,
    ) {
        self.is_doubtful |= is_unknown;
        if is_unknown {
            self.unread.extend(under.unknown_settings().cloned());
        }
        self.simulation.requests.extend(forecast);
    }

    async fn under(
        &mut self,
        request: &AccessRequest,
        stage: RequestStage,
        others: &[AccessPolicy],
    ) -> Option<UnderPolicies> {
        let under = under_policies(
            self.reads,
            self.modules,
            request.clone(),
            stage,
            self.scope.system_namespace,
            PolicyChanges {
                written: others,
                deleted: self.scope.deleted,
            },
            self.now,
        );
        let (under, unread) = Box::pin(under).await;
        self.unread.extend(unread);
        let mut under = under?;
        under.before.without_standing(&self.effects.before);
        under.after.without_standing(&self.effects.after);
        let unsure = &self.effects.unsure;
        if under.before.may_hold_by(unsure) || under.after.may_hold_by(unsure) {
            self.is_doubtful = true;
            self.unread.extend(self.effects.missed.iter().cloned());
        }
        Some(under)
    }

    async fn standing(
        &mut self,
        namespace: &str,
        before: &[AccessPolicy],
        others: &[AccessPolicy],
    ) {
        self.effects = StandingEffects::default();
        let is_replaced = |it: &&AccessPolicy| {
            let name = NamespacedName::new(namespace, it.name_any());
            self.scope.deleted.contains(&name)
                || others.iter().any(|other| other.name_any() == name.name)
        };
        let kept = before.iter().filter(|it| !is_replaced(it)).cloned();
        let after: Vec<AccessPolicy> = kept.chain(others.iter().cloned()).collect();
        let needed = || before.iter().chain(others);
        if needed().all(|it| it.spec.default_permission.is_none()) {
            return;
        }
        let subjects = || {
            let standing = needed().filter_map(|it| it.spec.default_permission.as_ref());
            standing.flat_map(|it| &it.binding_template.subjects)
        };
        let missed = self.unread.len();
        let connectors = self.connectors(namespace).await;
        let namespaces = if subjects().any(|it| it.namespace_selector.is_some()) {
            self.namespaces().await
        } else {
            BTreeMap::new()
        };
        let accounts = self.accounts(namespace, subjects()).await;
        let settings = explain::settings(self.reads, self.scope.system_namespace, &mut self.unread);
        let settings = settings.await;
        if self.unread.len() > missed {
            // Half of the subjects would look like a loss of the others.
            return;
        }
        let no_keys = NamespaceKeys::default();
        let selects = subjects().any(|it| it.name_selector.is_some());
        let mut limit_missed = Vec::new();
        let most = if selects {
            self.most_selected(&mut limit_missed).await
        } else {
            Some(MostSelected::default())
        };
        let around = Surroundings {
            most_selected: most.unwrap_or_default(),
            namespace_keys: settings.as_ref().map_or(&no_keys, |it| it.namespace_keys()),
            connectors: &connectors,
            namespaces: &namespaces,
            accounts: &accounts,
        };
        let changes = standing::changes(namespace, before, &after, around);
        // A limit that is not known matters if some limit changes the answer.
        let with_least = Surroundings {
            most_selected: MostSelected(0),
            ..around
        };
        if most.is_none() && changes != standing::changes(namespace, before, &after, with_least) {
            self.is_doubtful = true;
            self.unread.extend(limit_missed.iter().cloned());
        }
        self.simulation.standing.extend(changes);
        let nothing = |of: &[AccessPolicy]| standing::without_effect(namespace, of, around);
        let (nothing_before, nothing_after) = (nothing(before), nothing(&after));
        let unsure = if most.is_none() {
            let all = before.iter().chain(&after).cloned().collect::<Vec<_>>();
            let unsure = standing::without_effect(namespace, &all, with_least);
            let is_sure = |it: &String| nothing_before.contains(it) && nothing_after.contains(it);
            unsure.into_iter().filter(|it| !is_sure(it)).collect()
        } else {
            BTreeSet::new()
        };
        self.effects = StandingEffects {
            before: nothing_before,
            after: nothing_after,
            unsure,
            missed: limit_missed,
        };
        let problems = standing::problems(namespace, others, around);
        self.simulation.problems.extend(problems);
    }

    /// The installation's limit of selected subjects; none if its Deployment does not say.
    async fn most_selected(&self, missed: &mut Vec<MissedRead>) -> Option<MostSelected> {
        let kind = ObjectKind {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
        };
        let served = known(self.reads.served(&kind).await, missed)?;
        let KindServed::Namespaced { resource, .. } = served else {
            return None;
        };
        let system = self.scope.system_namespace;
        let found = self.reads.object(&resource, system, POLICY_CONTROLLER);
        let found = known(found.await, missed)??.ok()?;
        let containers = found
            .pointer("/spec/template/spec/containers")?
            .as_array()?;
        let mut args = containers
            .iter()
            .filter_map(|it| it.get("args")?.as_array())
            .flatten()
            .filter_map(Value::as_str);
        let most = args.find_map(|it| it.strip_prefix(MOST_SELECTED))?;
        most.parse().ok().map(MostSelected)
    }

    async fn connectors(&mut self, namespace: &str) -> BTreeMap<String, Labels> {
        let listed = self.reads.all::<Selectable, Labelled>(namespace, "").await;
        let listed = known(listed, &mut self.unread).unwrap_or_default();
        let listed = listed.into_iter().flatten();
        listed
            .filter(|it| it.metadata.deletion_timestamp.is_none())
            .map(|it| (it.name_any(), it.metadata.labels.unwrap_or_default()))
            .collect()
    }

    async fn namespaces(&mut self) -> BTreeMap<String, Labels> {
        let listed = self.reads.all_of_cluster::<Namespace>().await;
        let listed = known(listed, &mut self.unread).unwrap_or_default();
        let listed = listed.into_iter().flatten();
        listed
            .filter(|it| it.metadata.deletion_timestamp.is_none())
            .map(|it| (it.name_any(), it.metadata.labels.unwrap_or_default()))
            .collect()
    }

    /// The accounts from which a subject selects: those of the namespace, or of all.
    async fn accounts<'s>(
        &mut self,
        namespace: &str,
        subjects: impl Iterator<Item = &'s SubjectSpec>,
    ) -> BTreeMap<String, BTreeMap<String, Labels>> {
        let selecting: Vec<_> = subjects.filter(|it| it.name_selector.is_some()).collect();
        let mut accounts: BTreeMap<String, BTreeMap<String, Labels>> = BTreeMap::new();
        if selecting.is_empty() {
            return accounts;
        }
        let is_wide = selecting.iter().any(|it| it.namespace_selector.is_some());
        let of = if is_wide { "" } else { namespace };
        let listed = self.reads.all::<ServiceAccount, Labelled>(of, "").await;
        let listed = known(listed, &mut self.unread).unwrap_or_default();
        for account in listed.into_iter().flatten() {
            if account.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let of_namespace = accounts.entry(account.namespace().unwrap_or_default());
            let labels = account.metadata.labels.clone().unwrap_or_default();
            of_namespace.or_default().insert(account.name_any(), labels);
        }
        accounts
    }
}
