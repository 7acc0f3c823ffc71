//! I3: nothing across namespaces beyond the policies of the connector's namespace.

use serde_json::Value;

use super::{Case, Judgement};
use crate::checker::{
    facts::{Tuple, list, text},
    grant::{Grant, Kind},
    report::Rule,
};

pub(super) fn judge(case: &Case<'_>, judgement: &mut Judgement) {
    for grant in case.grants() {
        let Some(request) = case.request(grant) else {
            continue;
        };
        let tuple = &request.tuple;
        if grant.namespace != tuple.namespace {
            let what = format!("its request is in namespace {}", tuple.namespace);
            judgement.against(Rule::Tenants, grant, what, &[&request.seen]);
        }
        if grant.kind == Kind::RoleBinding {
            for subject in list(&grant.object, "/subjects") {
                let bound = (text(subject, "/namespace"), text(subject, "/name"));
                if bound != (&tuple.pod_namespace, &tuple.subject) {
                    let what = format!(
                        "binds {}/{}, not the pod's service account",
                        bound.0, bound.1
                    );
                    judgement.against(Rule::Tenants, grant, what, &[&request.seen]);
                }
            }
        }
        if tuple.pod_namespace != tuple.namespace && !is_accepted(case, grant, tuple) {
            let what = format!(
                "no policy was seen that accepts requesters of {}",
                tuple.pod_namespace
            );
            judgement.against(Rule::Tenants, grant, what, &[&request.seen]);
        }
    }
}

fn is_accepted(case: &Case<'_>, grant: &Grant, tuple: &Tuple) -> bool {
    let policy = case.facts.policies.get(grant.policy_uid());
    policy
        .filter(|policy| policy.namespace == tuple.namespace)
        .is_some_and(|policy| {
            policy.specs.iter().any(|spec| {
                match spec.pointer("/checkGrantedPermission/requesters") {
                    None | Some(Value::Null) => case.settings.requesters_any,
                    Some(requesters) => list(requesters, "")
                        .iter()
                        .any(|requester| can_cover(requester, tuple)),
                }
            })
        })
}

/// Whether a requester can be the pod's service account. The log does not show the objects that a selector
/// finds.
fn can_cover(requester: &Value, tuple: &Tuple) -> bool {
    let (namespace, subject) = (&tuple.pod_namespace, &tuple.subject);
    let user = format!("system:serviceaccount:{namespace}:{subject}");
    let name = text(requester, "/name");
    match text(requester, "/kind") {
        "ServiceAccount" if !name.is_empty() => {
            let given = text(requester, "/namespace");
            let own = if given.is_empty() {
                &tuple.namespace
            } else {
                given
            };
            name == user || (name == subject && own == namespace)
        }
        "ServiceAccount" => requester.get("namespaceSelector").is_some(),
        "Group" => {
            name == "system:authenticated"
                || name == "system:serviceaccounts"
                || name == format!("system:serviceaccounts:{namespace}")
        }
        "User" => name == user,
        _ => false,
    }
}
