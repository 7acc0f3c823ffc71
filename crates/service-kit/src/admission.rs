//! Whether an admission policy of the API server is in force, and since when.

use futures::try_join;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::{Api, Client, Resource, ResourceExt};

use crate::retry::{CallError, Policy};

/// Since when the `ValidatingAdmissionPolicy` of this name and its binding of the same name refuse objects. None if they
/// do not.
pub async fn rule_since(
    client: &Client,
    calls: &Policy,
    name: &str,
) -> Result<Option<Timestamp>, CallError> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let policy = calls.call(format!("get validatingadmissionpolicy {name}"), || {
        policies.get_opt(name)
    });
    let binding = calls.call(
        format!("get validatingadmissionpolicybinding {name}"),
        || bindings.get_opt(name),
    );
    let (Some(policy), Some(binding)) = try_join!(policy, binding)? else {
        return Ok(None);
    };
    let actions = binding.spec.as_ref();
    let actions = actions.and_then(|it| it.validation_actions.as_ref());
    let refuses = actions.is_some_and(|it| it.iter().any(|action| action == "Deny"));
    let is_going = [policy.meta(), binding.meta()]
        .iter()
        .any(|it| it.deletion_timestamp.is_some());
    let created = policy
        .creation_timestamp()
        .max(binding.creation_timestamp());
    Ok(created.map(|it| it.0).filter(|_| refuses && !is_going))
}
