//! Whether an admission policy of the API server is in force, and since when.

use futures::try_join;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{Api, Client, Resource, ResourceExt};

use crate::gets;
use crate::retry::{CallError, RetryPolicy};

/// The generation of an object whose spec was never changed.
const NEVER_CHANGED: i64 = 1;

/// Since when the `ValidatingAdmissionPolicy` of this name and its binding of the same name refuse objects of every author.
/// None if they do not, or if one of them was changed: before that it may have refused less, and the API server does not
/// note when a field was removed.
pub async fn rule_since(
    client: &Client,
    calls: &RetryPolicy,
    name: &str,
) -> Result<Option<Timestamp>, CallError> {
    let rule = rule(client, calls, name).await?;
    Ok(rule.and_then(|(policy, binding)| {
        let since = unchanged_since(&policy)?.max(unchanged_since(&binding)?);
        let conditions = policy.spec.as_ref().map(|it| &it.match_conditions);
        let is_of_all = conditions.is_some_and(Option::is_none);
        is_of_all.then_some(since)
    }))
}

/// The creation of an object that has the spec with which it was created. The API server counts the changes of a spec.
fn unchanged_since(object: &impl Resource) -> Option<Timestamp> {
    let is_unchanged = object.meta().generation == Some(NEVER_CHANGED);
    object
        .creation_timestamp()
        .filter(|_| is_unchanged)
        .map(|it| it.0)
}

/// True when the `ValidatingAdmissionPolicy` of this name and its binding of the same name refuse objects. The conditions of
/// the policy may except authors.
pub async fn is_in_force(
    client: &Client,
    calls: &RetryPolicy,
    name: &str,
) -> Result<bool, CallError> {
    Ok(rule(client, calls, name).await?.is_some())
}

/// The policy and its binding, if both are there to stay and refuse objects in every namespace.
async fn rule(
    client: &Client,
    calls: &RetryPolicy,
    name: &str,
) -> Result<Option<(ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding)>, CallError> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let policy = calls.call(format!("get validatingadmissionpolicy {name}"), || {
        gets::find(&policies, name)
    });
    let binding = calls.call(
        format!("get validatingadmissionpolicybinding {name}"),
        || gets::find(&bindings, name),
    );
    let (Some(policy), Some(binding)) = try_join!(policy, binding)? else {
        return Ok(None);
    };
    Ok(refuses(&policy, &binding, name).then_some((policy, binding)))
}

/// True when a policy and its binding of this name are there to stay, and refuse objects in every namespace.
#[must_use]
pub fn refuses(
    policy: &ValidatingAdmissionPolicy,
    binding: &ValidatingAdmissionPolicyBinding,
    name: &str,
) -> bool {
    let is_going = [policy.meta(), binding.meta()]
        .iter()
        .any(|it| it.deletion_timestamp.is_some());
    is_strict(policy) && refuses_everywhere(binding, name) && !is_going
}

/// True when the policy looks at every object of its kinds, and refuses where it cannot look.
fn is_strict(policy: &ValidatingAdmissionPolicy) -> bool {
    policy.spec.as_ref().is_some_and(|spec| {
        let kinds = spec.match_constraints.as_ref();
        let is_limited = kinds.is_some_and(|it| {
            it.namespace_selector
                .as_ref()
                .is_some_and(|it| *it != LabelSelector::default())
                || it
                    .object_selector
                    .as_ref()
                    .is_some_and(|it| *it != LabelSelector::default())
                || it.exclude_resource_rules.is_some()
        });
        let fails = spec.failure_policy.as_deref().unwrap_or("Fail") == "Fail";
        fails && !is_limited
    })
}

/// True if the binding denies every write that the policy of this name refuses, in every namespace.
fn refuses_everywhere(binding: &ValidatingAdmissionPolicyBinding, name: &str) -> bool {
    binding.spec.as_ref().is_some_and(|spec| {
        let mut actions = spec.validation_actions.iter().flatten();
        spec.policy_name.as_deref() == Some(name)
            && spec.match_resources.is_none()
            && spec.param_ref.is_none()
            && actions.any(|action| action == "Deny")
    })
}

#[cfg(test)]
mod tests;
