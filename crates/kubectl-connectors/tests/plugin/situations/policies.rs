//! Policies that do not apply, or grant nothing.

use connectors_api::judge::RulesReason;
use connectors_api::policy_reason::ChecksValid;
use connectors_api::reason::Ready;
use serde_json::json;

use super::plant::{going, granted, invalid, rule, say};
use super::{Situation, row};
use crate::cluster::policy;

/// A resource of another permission than the policy's.
const PROXY: &str = "connectors/proxy/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}";

pub(super) fn rows() -> Vec<Situation> {
    vec![
        row(
            "no policy is about the connector",
            |it| it.policy(|it| it["spec"]["connector"]["names"] = json!(["git"])),
            "Waits",
            "no policy of namespace payments is about payments/prod-harbor",
            "kubectl -n payments get accesspolicies",
        ),
        row(
            "the policy selects connectors with other labels",
            |it| {
                it.policy(|it| {
                    it["spec"]["connector"] =
                        json!({"selector": {"matchLabels": {"tier": "production"}}});
                });
            },
            "Waits",
            "no policy of namespace payments is about payments/prod-harbor",
            "kubectl -n payments get accesspolicies",
        ),
        row(
            "the policy has no checks",
            |it| {
                it.policy(|it| {
                    it["spec"]
                        .as_object_mut()
                        .unwrap()
                        .remove("checkGrantedPermission");
                });
            },
            "Waits",
            "no policy of namespace payments is about payments/prod-harbor",
            "kubectl -n payments get accesspolicies",
        ),
        row(
            "the policy does not accept the service account",
            |it| {
                granted(it, |it| {
                    it["requesters"] = json!([{"kind": "ServiceAccount", "name": "ops"}]);
                });
                say(it, "Pending", "NoAccessPolicy", "no policy accepts it");
            },
            "Waits",
            "none of requesters is ServiceAccount team-a/builder",
            "edit accesspolicy approved-changes",
        )
        .of(Ready::NoAccessPolicy),
        row(
            "the policy names no requesters, and the pod is elsewhere",
            |it| {
                it.policy(|it| {
                    let granted = &mut it["spec"]["checkGrantedPermission"];
                    granted.as_object_mut().unwrap().remove("requesters");
                });
            },
            "Waits",
            "default-requesters: Namespace",
            "edit accesspolicy approved-changes",
        ),
        row(
            "the policy is about another permission",
            |it| it.policy(|it| it["spec"]["permission"] = "proxy".into()),
            "Waits",
            "the policy is about proxy, the question about apis",
            "edit accesspolicy approved-changes",
        ),
        row(
            "older policies leave no place for the policy",
            |it| {
                for number in 0..64 {
                    let mut older = policy(&format!("a{number}"), "payments");
                    older["spec"]["checkGrantedPermission"]["requesters"] = json!([]);
                    it.put(older);
                }
                invalid(
                    it,
                    "TooManyPolicies",
                    "64 older policies select connector prod-harbor",
                );
            },
            "Waits",
            "policy approved-changes: 64 older policies with checks select connector prod-harbor",
            "get accesspolicies --sort-by=.metadata.creationTimestamp",
        )
        .of(ChecksValid::TooManyPolicies),
        row(
            "the policy is being deleted",
            |it| going(it, "accesspolicies", "payments", "approved-changes"),
            "Waits",
            "applies any more: approved-changes is gone, or is being deleted",
            "kubectl -n payments get accesspolicies",
        ),
        row(
            "the policy has a field that no service knows",
            |it| it.policy(|it| it["spec"]["conector"] = json!({})),
            "Waits",
            "spec.conector: unknown field",
            "edit accesspolicy approved-changes",
        ),
        row(
            "every check passes, and the policy has no rule",
            |it| rule(it, |it| *it = json!([])),
            "Waits",
            "NoRules: permissions: the role template has no rule",
            "edit accesspolicy approved-changes",
        )
        .of(RulesReason::NoRules),
        row(
            "every check passes, and a rule is about another API group",
            |it| rule(it, |it| it[0]["apiGroups"] = json!(["apps"])),
            "Waits",
            "WrongApiGroup: permissions: apiGroups must be exactly [connectors.alauda.io]",
            "edit accesspolicy approved-changes",
        )
        .of(RulesReason::WrongApiGroup),
        row(
            "every check passes, and a rule is about another permission",
            |it| rule(it, |it| it[0]["resources"] = json!([PROXY])),
            "Waits",
            "is not about the policy's permission apis",
            "edit accesspolicy approved-changes",
        )
        .of(RulesReason::WrongPermission),
        row(
            "every check passes, and a rule names no resource",
            |it| rule(it, |it| it[0]["resources"] = json!([])),
            "Waits",
            "WrongResource: permissions: a rule names no resource",
            "edit accesspolicy approved-changes",
        )
        .of(RulesReason::WrongResource),
        row(
            "every check passes, and a rule names no verb",
            |it| rule(it, |it| it[0]["verbs"] = json!([])),
            "Waits",
            "NoVerbs: permissions: a rule names no verb",
            "edit accesspolicy approved-changes",
        )
        .of(RulesReason::NoVerbs),
    ]
}
