//! The observations of a controller as real values, and the decision of the real `plan` about them.
//!
//! This module replaces the part of the controller that reads: it maps reads to parts of an observation.

use std::{collections::BTreeMap, sync::Arc};

use connectors_api::{
    AccessRequest,
    access_request::{GrantState, MatchedPolicy},
    check_selector::CompiledPolicy,
    config::Config,
    shared_fields::SharedFields,
};
use jiff::SignedDuration;
use request_controller::{
    grant,
    plan::{self, Action, Plan, Terms},
    seen::{
        CheckReads, ConnectorSeen, EvidenceState, Freshness, FrozenSeen, GrantKind, Managed,
        OLDEST, Observed, PodFacts, PodSeen, PolicyJudgement, PolicySeen, StandingSeen, TupleSeen,
    },
    selection::{self, CheckCandidates},
    snapshot,
    verdict::{self, EvidenceLook},
};
use tokio::time::Instant;

use super::{
    doing::{Heard, Seen},
    objects::{self, policy_uid},
    tables::{Age, Planned, Tables, exists, policy_of, remember},
    world::{Check, Covered, Kind, Late, Life, POLICIES, RequestId},
};
use service_kit::clock::Now;

const TERMS: Terms = Terms {
    retention: SignedDuration::from_hours(24 * 7),
};

impl Tables {
    /// The plan for a request with this observation, as a number.
    pub(super) fn decide(&self, seen: &Seen, age: Age, late: Late) -> u32 {
        remember(&self.looks, &(*seen, age, late), || {
            let mono = Instant::now();
            let freshness = match age {
                Age::Cached => Freshness::Cached,
                Age::Fresh | Age::Stale => Freshness::Live(mono),
            };
            let wall = objects::wall(late);
            let mono = if age == Age::Stale {
                mono + OLDEST
            } else {
                mono
            };
            let planned = self.observed(seen, freshness).map(|observed| {
                let plan = plan::plan(&observed, Now { wall, mono }, TERMS);
                self.small(&observed, &plan)
            });
            self.plan_number(&planned.unwrap_or_default())
        })
    }

    fn small(&self, observed: &Observed, plan: &Plan) -> Planned {
        let request = &observed.request;
        let mut small = Planned {
            look_live: plan.look_live,
            status: plan.status.as_ref().map(|status| self.number(Some(status))),
            ends: plan.ends,
            ..Planned::default()
        };
        let uid = request.metadata.uid.as_deref().unwrap_or_default();
        let policy_under = |name: &str| {
            let mut policies = (0..).take(POLICIES);
            policies.find(|policy| grant::name(uid, &policy_uid(*policy)) == name)
        };
        for action in &plan.actions {
            match action {
                Action::Remove { kind, name, .. } => {
                    let kind = match kind {
                        GrantKind::Role => Kind::Role,
                        GrantKind::RoleBinding => Kind::Binding,
                    };
                    small
                        .removes
                        .extend(policy_under(name).map(|policy| (kind, policy)));
                }
                Action::Grant(grant) => {
                    let Some(policy) = policy_of(&grant.policy_uid) else {
                        continue;
                    };
                    small.grants.push((policy, objects::form(&grant.role)));
                    if grant::is_there(GrantKind::Role, grant, &observed.grants) {
                        small.has_role |= 1 << policy;
                    }
                }
                Action::Prepare(role) => {
                    let policy = policy_under(role.metadata.name.as_deref().unwrap_or_default());
                    small
                        .prepares
                        .extend(policy.map(|it| (it, objects::form(role))));
                }
                Action::Finish => small.finish = true,
                Action::DeleteRequest => small.delete = true,
            }
        }
        small
    }

    fn observed(&self, seen: &Seen, freshness: Freshness) -> Option<Observed> {
        let request = self.request(seen.id, seen.status)?;
        let grants = (0..).zip(seen.objects).flat_map(|(policy, it)| {
            let role =
                (it.role != 0).then(|| objects::managed(seen.id, policy, Kind::Role, it.role));
            let binding = it
                .binding
                .then(|| objects::managed(seen.id, policy, Kind::Binding, 1));
            [role, binding].into_iter().flatten().flatten()
        });
        let mut observed = Observed {
            freshness,
            only_for_grants: false,
            are_matched: true,
            config: Config {
                enabled: true,
                ..Config::CLOSED
            },
            pod: match seen.pod {
                Life::Gone => PodSeen::Gone,
                Life::Running | Life::Finished => PodSeen::There(PodFacts {
                    finished: seen.pod == Life::Finished,
                    terminating: false,
                    account: objects::ACCOUNT.to_owned(),
                }),
            },
            connector: None,
            tuple: TupleSeen {
                decided_by: seen.tuple.0.map(objects::request_name),
                has_others: seen.tuple.1,
            },
            over_limit: false,
            standing: StandingSeen::Unknown,
            check_reads: CheckReads::InTime,
            near: vec![],
            policies: vec![],
            frozen: vec![],
            grants: grants.collect(),
            request,
        };
        if self.is_decided_by_itself(seen) {
            return Some(observed);
        }
        let Some(uid) = objects::connector_uid(seen.connector) else {
            return Some(observed);
        };
        observed.connector = Some(ConnectorSeen {
            uid: uid.to_owned(),
        });
        observed.standing = match seen.standing {
            Covered::Unheard => StandingSeen::Unknown,
            Covered::No => StandingSeen::Absent,
            Covered::Yes => StandingSeen::There,
        };
        let entries = observed.request.status.iter().flat_map(|it| &it.policies);
        let frozen: Vec<_> = entries
            .filter_map(|it| frozen(seen, &observed, it))
            .collect();
        let settled = settled(&observed.request, &frozen);
        observed.frozen = frozen;
        observed.policies = (0..)
            .zip(seen.policies)
            .filter(|(policy, _)| settled & 1 << *policy == 0)
            .filter_map(|(policy, life)| {
                let policy_object = objects::policy(policy, life)?;
                let granted = policy_object.spec.check_granted_permission.as_ref()?;
                Some(PolicySeen {
                    name: policy_object.metadata.name.clone()?,
                    uid: policy_uid(policy),
                    limits: granted.spec.limits.clone().unwrap_or_default(),
                    judged: judged(&observed.request, seen, policy)?,
                    policy: Arc::new(CompiledPolicy::of(policy_object, None)),
                })
            })
            .collect();
        Some(observed)
    }

    /// True when policies and checks cannot change the outcome any more.
    #[must_use]
    pub(super) fn is_decided_by_itself(&self, seen: &Seen) -> bool {
        self.status(seen.status).is_terminal()
            || seen.pod != Life::Running
            || seen.tuple.0.is_some()
    }

    /// True when the check of a policy is evaluated.
    #[must_use]
    pub(super) fn asks(&self, seen: &Seen, policy: u8) -> bool {
        let ended = self.status(seen.status).ended & 1 << policy != 0;
        exists(seen.policies[usize::from(policy)]) && !ended
    }
}

/// A policy that a grant exists for.
fn frozen(seen: &Seen, observed: &Observed, entry: &MatchedPolicy) -> Option<FrozenSeen> {
    let status = observed.request.status.as_ref()?;
    let grant = entry.grant.as_ref()?;
    if grant.state == GrantState::Ended || !status.was_in_force(entry) {
        return None;
    }
    let uid = grant::identity(entry)?.1;
    let policy = policy_of(uid)?;
    let now = objects::policy(policy, seen.policies[usize::from(policy)]);
    let mut held = EvidenceState::Unknown;
    let (mut changed, mut again) = (false, None);
    if let Some(now) = &now {
        held = self::held(seen, policy, entry);
        let is_live = matches!(observed.freshness, Freshness::Live(_));
        if is_live && !is_written(observed, entry) {
            changed = !snapshot::is_same(&entry.policy.0, now);
            if !changed {
                again = judged(&observed.request, seen, policy);
            }
        }
    }
    Some(FrozenSeen {
        uid: uid.to_owned(),
        exists: now.is_some(),
        held,
        changed,
        again,
    })
}

fn held(seen: &Seen, policy: u8, entry: &MatchedPolicy) -> EvidenceState {
    let slot = seen.id.slot();
    let Heard { check, silent } = seen.checks[usize::from(policy)];
    let looked = match objects::approval(slot, policy, check) {
        Some(_) => EvidenceLook::There,
        None => EvidenceLook::Gone,
    };
    let looked = BTreeMap::from([(objects::approval_uid(slot, policy), looked)]);
    let said = if silent {
        None
    } else {
        objects::said(slot, policy, check, 1)
    };
    verdict::held(entry, &looked, said.as_ref())
}

/// The result of a policy's checks before a grant.
fn judged(request: &AccessRequest, seen: &Seen, policy: u8) -> Option<PolicyJudgement> {
    let life = seen.policies[usize::from(policy)];
    let slot = seen.id.slot();
    let policy_object = objects::policy(policy, life)?;
    let pod = objects::pod(slot, seen.id.generation());
    let wanted = selection::wanted(
        &CompiledPolicy::of(policy_object, None),
        &pod,
        &SharedFields::default(),
    );
    let Heard { check, silent } = seen.checks[usize::from(policy)];
    let object = objects::approval(slot, policy, check);
    if silent && check != Check::Deleted {
        return Some(PolicyJudgement::Unanswered);
    }
    let found: Vec<_> = wanted
        .iter()
        .map(|it| {
            let selects = |object: &&serde_json::Value| {
                let label = |key: &str| object["metadata"]["labels"][key].as_str();
                let selection = it.selection.as_ref();
                selection.is_ok_and(|selection| selection.has_labels(label))
            };
            let found = object.iter().filter(selects);
            Ok(CheckCandidates {
                texts: found.map(|it| it.to_string().into()).collect(),
                unread: None,
            })
        })
        .collect();
    let said = objects::said(slot, policy, check, objects::form_of(life)?);
    Some(PolicyJudgement::Answered(verdict::answer(
        request,
        &wanted,
        &found,
        said.as_ref(),
    )))
}

fn is_written(observed: &Observed, entry: &MatchedPolicy) -> bool {
    let Some(grant) = grant::of_entry(&observed.request, entry) else {
        return false;
    };
    let exact = observed
        .grants
        .iter()
        .filter(|it| grant::is_exactly(it, &grant));
    let kinds: std::collections::BTreeSet<_> = exact.map(Managed::kind).collect();
    let state = entry.grant.as_ref().map(|it| it.state);
    kinds.len() == GrantKind::ALL.len() && state == Some(GrantState::Granted)
}

/// The policies that are not evaluated again: a bit for each.
fn settled(request: &AccessRequest, frozen: &[FrozenSeen]) -> u8 {
    let Some(status) = &request.status else {
        return 0;
    };
    let mut settled = 0;
    for entry in &status.policies {
        let ended = entry
            .grant
            .as_ref()
            .is_some_and(|it| it.state == GrantState::Ended);
        let Some((_, uid)) = grant::identity(entry) else {
            continue;
        };
        let changed = frozen.iter().any(|it| it.uid == uid && it.changed);
        if (ended || status.was_in_force(entry)) && !changed {
            settled |= policy_of(uid).map_or(0, |policy| 1 << policy);
        }
    }
    settled
}

/// The observation of a request before anything is read.
#[must_use]
pub(super) fn unseen(id: RequestId, status: u16) -> Seen {
    Seen {
        id,
        status,
        pod: Life::Gone,
        objects: Default::default(),
        tuple: (None, false),
        connector: super::world::Connector::Gone,
        policies: [super::world::PolicyLife::Deleted; POLICIES],
        checks: [Heard {
            check: Check::Pending,
            silent: false,
        }; POLICIES],
        standing: Covered::Unheard,
    }
}
