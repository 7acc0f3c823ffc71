//! `ValidatePolicy`: the pure rules here, the Rego modules in workers.

use connectors_api::judge::RegoFailure;
use connectors_api::validate::{self, Finding, Module, Severity, Validated};
use evaluation_api::v1::{self, FindingSeverity, ValidatePolicyRequest, ValidatePolicyResponse};
use service_kit::json_weight::weigh;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::error::Refused;
use crate::evaluate::{ALL_REGO, namespace_in, policy_in};
use crate::json_memory::JsonMemory;
use crate::slots::{Purpose, Slots};
use rego_workers::{Sound, WorkerPool};

/// No API server stores more.
const LONGEST: usize = 1024 * 1024;

/// A policy that is not read yet.
pub(crate) struct UnreadPolicy {
    text: Vec<u8>,
    pub(crate) namespace: String,
}

/// The policy, and the namespace in which the caller needs the permission.
pub(crate) fn read(request: ValidatePolicyRequest) -> Result<UnreadPolicy, Refused> {
    let ValidatePolicyRequest { policy } = request;
    if policy.len() > LONGEST {
        return Err(Refused::PolicyTooLong);
    }
    let namespace = namespace_in(&policy)?;
    Ok(UnreadPolicy {
        text: policy,
        namespace,
    })
}

/// All findings about a policy.
pub(crate) async fn validate(
    policy: UnreadPolicy,
    pool: &WorkerPool,
    slots: &Slots,
    memory: &JsonMemory,
) -> Result<ValidatePolicyResponse, Refused> {
    let UnreadPolicy { text, namespace } = policy;
    let (of, taken) = (
        namespace.clone(),
        memory.take(weigh(&text), Purpose::Written).await?,
    );
    let looked = spawn_blocking(move || {
        let looked = policy_in(&of, &text).map(|policy| validate::policy(&policy));
        drop(taken);
        looked
    });
    let looked = looked.await.map_err(|_| Refused::Internal)??;
    let Validated { findings, modules } = looked;
    let mut findings: Vec<v1::Finding> = findings.into_iter().map(told).collect();
    if !modules.is_empty() {
        let slot = slots.take(&namespace, Purpose::Written).await?;
        let deadline = Instant::now() + ALL_REGO;
        for module in &modules {
            let look = async {
                let _worker = slot.worker().await;
                look_at(module, pool).await
            };
            findings.extend(in_time(deadline, module, look).await?.map(told));
        }
    }
    Ok(ValidatePolicyResponse { findings })
}

/// The findings about a module. A module that no worker had time for is not sound.
async fn in_time(
    deadline: Instant,
    module: &Module,
    look: impl Future<Output = Result<Option<Finding>, Refused>>,
) -> Result<Option<Finding>, Refused> {
    timeout_at(deadline, look).await.unwrap_or_else(|_| {
        let why = format!("all modules of the policy take longer than {ALL_REGO:?}");
        Ok(Some(module.finding(&RegoFailure::Limit(why))))
    })
}

/// A lack of free workers is not the module's fault.
async fn look_at(module: &Module, pool: &WorkerPool) -> Result<Option<Finding>, Refused> {
    let sound = pool.validate(&module.source).await;
    let sound = sound.map_err(|_| Refused::TooBusy)?;
    Ok(match sound {
        Ok(Sound { reads_object: true }) => None,
        Ok(Sound {
            reads_object: false,
        }) => Some(module.ignores_object()),
        Err(failure) => Some(module.finding(&failure)),
    })
}

fn told(finding: Finding) -> v1::Finding {
    let Finding {
        path,
        code,
        severity,
        message,
        fix,
    } = finding;
    let severity = match severity {
        Severity::Error => FindingSeverity::Error,
        Severity::Warning => FindingSeverity::Warning,
    };
    v1::Finding {
        path,
        code: code.as_str().to_owned(),
        severity: severity.into(),
        message,
        fix,
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;
    use crate::fixtures::policy;

    #[test]
    fn a_policy_is_read_up_to_the_length_that_an_api_server_stores() {
        let read = |length: usize| {
            let mut policy = b"{}".to_vec();
            policy.resize(length, b' ');
            read(ValidatePolicyRequest { policy })
        };
        assert!(read(LONGEST).is_ok());
        let refused = read(LONGEST + 1).err();
        assert!(matches!(refused, Some(Refused::PolicyTooLong)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_module_that_nobody_had_time_for_is_told_with_its_place() {
        let policy = serde_json::to_value(policy("p")).unwrap();
        let modules = validate::policy(&policy).modules;
        let deadline = Instant::now() + ALL_REGO;
        let found = in_time(deadline, &modules[0], ready(Ok(None))).await;
        assert!(found.unwrap().is_none());
        let found = in_time(deadline, &modules[0], pending()).await;
        let found = found.unwrap().unwrap();
        assert_eq!(Instant::now(), deadline);
        assert_eq!(found.severity, Severity::Error);
        assert!(
            found
                .path
                .starts_with("spec.checkGrantedPermission.spec.checks[0]")
        );
    }
}
