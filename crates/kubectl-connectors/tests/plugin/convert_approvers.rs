//! The approvers of a converted check are those that the other product's parameters name: no fewer have to say yes, and
//! no other approver may.

use serde_json::{Value, json};

use crate::cluster::CONNECTORS;
use crate::convert_model::converted;

/// The approvers of the check of a policy with these parameters. None if the policy is refused.
async fn approvers(params: &Value) -> Option<Value> {
    let policy = json!({
        "apiVersion": CONNECTORS, "kind": "AccessPolicy", "metadata": {"name": "p", "namespace": "team-a"},
        "spec": {"connector": {"names": ["harbor"]}, "checkGrantedPermission": {"spec": {
            "roleTemplate": {"ref": {"configMap": {"name": "connectors-use-connectors-proxy-in-pod"}}},
            "checks": [{
                "name": "approvals", "params": params,
                "ref": {"configMap": {"name": "connectors-approvals-in-pipeline"}},
            }],
        }}},
    });
    let (policy, _) = converted(&policy, &["--template-is-unchanged"]).await?;
    let policy: Value = serde_yaml::from_str(&policy).unwrap();
    let check = &policy["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
    assert_eq!(check["name"], "approvals", "{policy:#}");
    Some(check["approvers"].clone())
}

#[tokio::test]
async fn as_many_approvals_of_the_same_users_and_groups_are_needed_as_before() {
    let numbers = [
        (Value::Null, Some(1)),
        (json!(-1), Some(1)),
        (json!(0), Some(1)),
        (json!(1), Some(1)),
        (json!("1"), Some(1)),
        (json!(" 2 "), Some(2)),
        (json!(2), Some(2)),
        (json!(3), Some(3)),
        (json!("100"), Some(100)),
        (json!("many"), None),
        (json!(""), None),
        (json!(1.5), None),
        (json!(true), None),
        (json!([2]), None),
        (json!(4_294_967_297_u64), None),
    ];
    let lists: [(&[&str], &[&str], &[&str]); 6] = [
        (&["alice"], &["alice"], &[]),
        (&["group:qa"], &[], &["qa"]),
        (&["group:qa", "group:ops"], &[], &["qa", "ops"]),
        (&["bob", "group:qa", "alice"], &["bob", "alice"], &["qa"]),
        // No group without the colon, nor in another case.
        (
            &["group", "groups:qa2", "Group:qa"],
            &["group", "groups:qa2", "Group:qa"],
            &[],
        ),
        (&["group:group:qa"], &[], &["group:qa"]),
    ];
    for (number, minimum) in &numbers {
        for (names, users, groups) in lists {
            let mut params = vec![json!({"name": "approvers", "value": names})];
            if !number.is_null() {
                params.push(json!({"name": "numberOfApprovalsRequired", "value": number}));
            }
            for params in [params.clone(), params.into_iter().rev().collect()] {
                let params = json!(params);
                let found = approvers(&params).await;
                let Some(minimum) = minimum else {
                    assert_eq!(found, None, "{params}");
                    continue;
                };
                // One user cannot approve twice, so that the webhook takes no such policy.
                if groups.is_empty() && users.len() < *minimum {
                    assert!(found.is_none_or(|it| it["minimum"] == *minimum), "{params}");
                    continue;
                }
                let found = found.unwrap_or_else(|| panic!("{params}"));
                let list = |field: &str| {
                    let list = found[field].as_array().cloned().unwrap_or_default();
                    json!(list)
                };
                assert_eq!(list("users"), json!(users), "{params}: {found}");
                assert_eq!(list("groups"), json!(groups), "{params}: {found}");
                let needed = found["minimum"].as_u64().unwrap_or(1);
                assert_eq!(
                    usize::try_from(needed).unwrap(),
                    *minimum,
                    "{params}: {found}"
                );
            }
        }
    }
}

/// Without approvers, those that the pipeline chooses would count.
#[tokio::test]
async fn a_list_of_approvers_that_names_nobody_is_refused() {
    for names in [
        json!([]),
        json!([""]),
        json!(["alice", ""]),
        json!("alice"),
        json!([1]),
        json!(null),
    ] {
        let params = json!([{"name": "approvers", "value": names}]);
        assert_eq!(approvers(&params).await, None, "{params}");
    }
    for name in ["Approvers", "approver", "numberOfApprovals", ""] {
        let params = json!([{"name": name, "value": ["alice"]}]);
        assert_eq!(approvers(&params).await, None, "{params}");
    }
    // Without both, anybody of the pipeline's own list decides, as before.
    assert_eq!(approvers(&json!([])).await, Some(Value::Null));
}
