//! Roles that are written while the checks are awaited.
//!
//! A Role that no RoleBinding refers to gives nothing, and of a grant it is the slower half to write. A grant that finds
//! its Role writes the RoleBinding alone. A missing one is written by the grant, so nothing rests on it.

use connectors_api::{
    AccessRequest,
    access_request::{AccessRequestStatus, GrantedRule, MatchedPolicy, Phase},
};
use k8s_openapi::api::rbac::v1::Role;

use super::policy::{Followed, Moment, PolicyProgress, Waiting};
use crate::{
    grant,
    seen::{Observed, PolicySeen},
};

/// The most policies of a request whose Roles are written in advance.
pub(super) const MOST: usize = 4;
/// The most bytes of the names in a Role that is written in advance.
const LARGEST: usize = 1024;

/// Adds the rules of the prepared Role to the entry of a policy that awaits a decision. Returns whether it did.
///
/// Rules that were prepared stay as long as the policy waits, for whatever it waits then.
pub(super) fn add(
    at: Moment<'_>,
    policy: &PolicySeen,
    followed: &mut Followed,
    may_begin: bool,
) -> bool {
    let PolicyProgress::Waiting(why) = followed.standing else {
        return false;
    };
    let begins = may_begin && why == Waiting::Decision;
    if begins || was_prepared(at.seen, &policy.uid) {
        followed.entry.prepared_rules = rules(&at.seen.request, policy);
    }
    !followed.entry.prepared_rules.is_empty()
}

fn was_prepared(seen: &Observed, uid: &str) -> bool {
    let mut entries = seen.request.status.iter().flat_map(|it| &it.policies);
    entries.any(|it| it.uid() == uid && !it.prepared_rules.is_empty())
}

fn rules(request: &AccessRequest, policy: &PolicySeen) -> Vec<GrantedRule> {
    let pod = &request.spec.context.object_ref;
    let rules = policy.policy.rules_of_pod(&pod.namespace, &pod.name);
    let is_small = |rules: &Vec<GrantedRule>| {
        let texts = rules
            .iter()
            .flat_map(|it| it.resources.iter().chain(&it.verbs));
        texts.map(String::len).sum::<usize>() <= LARGEST
    };
    rules
        .filter(is_small)
        .filter(|rules| grant::allowed(request, rules))
        .unwrap_or_default()
}

/// The Roles to write: those of a new status that the old one does not describe. One whose writing failed is not tried
/// again.
pub(super) fn to_write(old: &AccessRequestStatus, future: &AccessRequest) -> Vec<Role> {
    let Some(status) = &future.status else {
        return Vec::new();
    };
    if status.phase != Some(Phase::Pending) {
        return Vec::new();
    }
    let is_new = |entry: &&MatchedPolicy| {
        let mut before = old.policies.iter();
        !before.any(|it| it.uid() == entry.uid() && it.prepared_rules == entry.prepared_rules)
    };
    let entries = status.policies.iter().filter(is_new);
    let roles = entries.filter_map(|entry| grant::prepared(future, entry));
    roles.map(|it| it.role).collect()
}
