use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::json_values;

fn checked() -> Value {
    json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessPolicy",
        "metadata": {"name": "p", "namespace": "tools"},
        "spec": {"checkGrantedPermission": {"spec": {
            "checks": [{
                "name": "approval",
                "selector": {
                    "labels": {"tekton.dev/pipelineRun": r"{.object.metadata.labels['tekton\.dev/pipelineRun']}"},
                    "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"},
                },
            }],
            "permissions": {"roleTemplate": {"rules": [{
                "apiGroups": ["connectors.alauda.io"],
                "resources": ["connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}"],
                "verbs": ["*"],
            }]}},
        }}},
    })
}

/// The same with a kind that records approvers and belongs to a pipeline run.
fn tekton() -> Value {
    let kind = json!({"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask"});
    let policy = with(checked(), &format!("{CHECKS}/selector"), "objectRef", kind);
    let policy = with(policy, CHECKS, "approvers", json!({"users": ["alice"]}));
    with(policy, CHECKS, "provenance", json!("None"))
}

fn standing() -> Value {
    let mut policy = checked();
    policy["spec"] = json!({"defaultPermission": {
        "roleTemplate": {"rules": [{"apiGroups": ["connectors.alauda.io"], "resources": ["connectors/apis"], "verbs": ["*"]}]},
        "bindingTemplate": {"subjects": [{"kind": "User", "name": "alice"}]},
    }});
    policy
}

const CHECKS: &str = "/spec/checkGrantedPermission/spec/checks/0";
const RULE: &str = "/spec/checkGrantedPermission/spec/permissions/roleTemplate/rules/0";
const STANDING_RULE: &str = "/spec/defaultPermission/roleTemplate/rules/0";
const SUBJECTS: &str = "/spec/defaultPermission/bindingTemplate";

fn with(mut policy: Value, at: &str, field: &str, value: Value) -> Value {
    policy.pointer_mut(at).unwrap()[field] = value;
    policy
}

fn found(object: &Value) -> Vec<(String, FindingCode)> {
    let Validated { findings, .. } = policy(object);
    findings.into_iter().map(|it| (it.path, it.code)).collect()
}

fn codes(object: &Value) -> BTreeSet<FindingCode> {
    found(object).into_iter().map(|(_, code)| code).collect()
}

fn has_error(object: &Value) -> bool {
    let Validated { findings, .. } = policy(object);
    findings.iter().any(|it| it.severity == Severity::Error)
}

#[test]
fn a_good_policy_has_no_findings() {
    assert_eq!(found(&checked()), []);
    assert_eq!(found(&standing()), []);
    let team = json!([{"kind": "Group", "name": "developers"}]);
    assert_eq!(found(&with(standing(), SUBJECTS, "subjects", team)), []);
}

#[test]
fn every_mistake_is_told_with_its_place_not_only_the_first() {
    let mut policy = checked();
    policy["spec"]["conector"] = json!({});
    policy["spec"]["connector"] = json!({"name": ["a"], "names": ["No", "a", "a"]});
    policy["spec"]["checkGrantedPermission"]["spec"]["limits"] = json!({"maxDuration": "soon"});
    let policy = with(policy, CHECKS, "aprovers", json!({}));
    let policy = with(policy, CHECKS, "name", json!("Not a name"));
    let policy = with(policy, RULE, "verbs", json!([]));
    let found: BTreeSet<_> = found(&policy).into_iter().collect();
    let spec = "spec.checkGrantedPermission.spec";
    let expected = [
        ("spec.conector".to_owned(), FindingCode::UnknownField),
        ("spec.connector.name".to_owned(), FindingCode::UnknownField),
        (
            "spec.connector.names[0]".to_owned(),
            FindingCode::InvalidField,
        ),
        (
            "spec.connector.names[2]".to_owned(),
            FindingCode::DuplicateName,
        ),
        (
            format!("{spec}.limits.maxDuration"),
            FindingCode::InvalidField,
        ),
        (
            format!("{spec}.checks[0].aprovers"),
            FindingCode::UnknownField,
        ),
        (format!("{spec}.checks[0].name"), FindingCode::InvalidField),
        (
            format!("{spec}.permissions.roleTemplate.rules[0].verbs"),
            FindingCode::InvalidLength,
        ),
        (
            format!("{spec}.permissions.roleTemplate.rules"),
            FindingCode::NoMountRule,
        ),
    ];
    assert_eq!(found, BTreeSet::from(expected));
}

#[test]
fn a_misspelt_field_is_told_with_the_likely_word() {
    let policy = with(checked(), CHECKS, "aprovers", json!({}));
    let Validated { findings, .. } = super::policy(&policy);
    assert_eq!(findings[0].fix, "write `approvers`");
    assert_eq!(findings[0].severity, Severity::Error);
}

#[test]
fn every_unknown_field_of_one_object_is_told() {
    let mut policy = checked();
    for field in ["fields", "lables"] {
        policy = with(policy, &format!("{CHECKS}/selector"), field, json!({}));
    }
    let path = |field: &str| format!("spec.checkGrantedPermission.spec.checks[0].selector.{field}");
    let unknown = |field: &str| (path(field), FindingCode::UnknownField);
    assert_eq!(found(&policy), [unknown("fields"), unknown("lables")]);
}

#[test]
fn a_missing_field_is_told_by_its_name() {
    let selector = json!({"labels": {"run": "{.object.metadata.name}"}});
    let Validated { findings, .. } = super::policy(&with(checked(), CHECKS, "selector", selector));
    let [finding] = &findings[..] else {
        panic!("{findings:?}")
    };
    assert_eq!(finding.code, FindingCode::MissingField);
    assert_eq!(finding.fix, "give `objectRef`");
}

/// The services read the whole object, not only its spec.
#[test]
fn a_policy_that_cannot_be_read_beside_its_spec_is_an_error() {
    for (field, value) in [("status", json!(7)), ("metadata", json!({"name": ["p"]}))] {
        let policy = with(checked(), "", field, value);
        let expected = BTreeSet::from([FindingCode::InvalidField]);
        assert_eq!((codes(&policy), has_error(&policy)), (expected, true));
    }
}

/// A policy in which one label has this value.
fn labelled(value: &str) -> Value {
    let labels = json!({"run": value});
    with(checked(), &format!("{CHECKS}/selector"), "labels", labels)
}

fn of_kind(api_version: &str, kind: &str) -> Value {
    let kind = json!({"apiVersion": api_version, "kind": kind});
    with(checked(), &format!("{CHECKS}/selector"), "objectRef", kind)
}

#[test]
fn a_text_is_as_long_as_its_field_allows_and_no_longer() {
    const CHECK: &str = "spec.checkGrantedPermission.spec.checks[0]";
    const ROLE: &str = "spec.checkGrantedPermission.spec.permissions.roleTemplate.rules[0]";
    let text = |bytes: usize| "A".repeat(bytes);
    let user = |bytes| {
        let subjects = json!([{"kind": "User", "name": text(bytes)}]);
        with(standing(), SUBJECTS, "subjects", subjects)
    };
    let verb = |bytes| with(checked(), RULE, "verbs", json!(["*", text(bytes)]));
    let long = format!("connectors/apis/{}/v1/kind/ns/", "g".repeat(253));
    let resource = |bytes: usize| {
        let name = "n".repeat(bytes - long.len());
        with(
            checked(),
            RULE,
            "resources",
            json!([format!("{long}{name}")]),
        )
    };
    let module = |bytes| with(checked(), CHECKS, "state", json!({"rego": text(bytes)}));
    let approver = |bytes| {
        let approvers = json!({"users": [text(bytes)], "groups": [text(bytes)]});
        with(tekton(), CHECKS, "approvers", approvers)
    };
    let kind = |bytes| of_kind("v1", &text(bytes));
    let before_path = |bytes| labelled(&format!("{}{{.object.metadata.name}}", text(bytes)));
    for (policy, allowed, refused, path, code) in [
        (
            &user as &dyn Fn(usize) -> Value,
            &[1, 512][..],
            &[513, 514][..],
            "spec.defaultPermission.bindingTemplate.subjects[0].name".to_owned(),
            FindingCode::InvalidField,
        ),
        (
            &verb,
            &[1, 63],
            &[0, 64, 65],
            format!("{ROLE}.verbs[1]"),
            FindingCode::InvalidField,
        ),
        (
            &resource,
            &[512],
            &[513, 514],
            format!("{ROLE}.resources[0]"),
            FindingCode::InvalidResource,
        ),
        (
            &module,
            &[1, 16 * 1024],
            &[16 * 1024 + 1],
            format!("{CHECK}.state.rego"),
            FindingCode::RegoLimit,
        ),
        (
            &approver,
            &[1, 512],
            &[0, 513, 514],
            format!("{CHECK}.approvers.users"),
            FindingCode::InvalidField,
        ),
        (
            &approver,
            &[1, 512],
            &[0, 513, 514],
            format!("{CHECK}.approvers.groups"),
            FindingCode::InvalidField,
        ),
        (
            &kind,
            &[1, 63],
            &[0, 64, 65],
            format!("{CHECK}.selector.objectRef.kind"),
            FindingCode::InvalidField,
        ),
        (
            &before_path,
            &[0, 1, 62],
            &[63, 64],
            format!("{CHECK}.selector.labels[\"run\"]"),
            FindingCode::ImpossibleSelector,
        ),
    ] {
        let finding = (path, code);
        for (all, is_refused) in [(allowed, false), (refused, true)] {
            for bytes in all {
                let is_found = found(&policy(*bytes)).contains(&finding);
                assert_eq!(is_found, is_refused, "{finding:?} with {bytes}");
            }
        }
    }
    assert_eq!(super::policy(&module(16 * 1024)).modules.len(), 1);
}

#[test]
fn a_text_beside_a_path_consists_of_what_a_label_value_may_hold() {
    assert_eq!(found(&labelled("a-B_c.1{.object.metadata.name}")), []);
}

#[test]
fn a_policy_has_room_for_its_limit_of_labels_and_of_steps() {
    let path = |steps: usize| format!("{{.object{}}}", ".a".repeat(steps - 1));
    let check = |name: &str, labels: usize, steps: usize| {
        let mut check = checked().pointer(CHECKS).unwrap().clone();
        check["name"] = json!(name);
        check["selector"]["labels"] = (0..labels)
            .map(|number| (format!("l{number}"), json!(path(steps))))
            .collect();
        check
    };
    let of = |checks: &[Value]| {
        let policy = with(
            checked(),
            "/spec/checkGrantedPermission/spec",
            "checks",
            json!(checks),
        );
        found(&policy)
    };
    let at =
        |check: usize| format!("spec.checkGrantedPermission.spec.checks[{check}].selector.labels");
    let full = check("full", 16, 32);
    assert_eq!(of(std::slice::from_ref(&full)), []);
    for steps in [1, 2] {
        // The last check is not looked at any more, so it is told only once.
        let checks = [full.clone(), check("more", 1, steps), check("last", 1, 1)];
        assert_eq!(of(&checks), [(at(1), FindingCode::InvalidTemplate)]);
    }
    for labels in [17, 18] {
        let found = of(&[check("wide", labels, 1)]);
        assert_eq!(found, [(at(0), FindingCode::InvalidLength)]);
    }
}

#[test]
fn a_kind_is_spelled_as_the_api_server_wants_it() {
    for (api_version, kind, wrong) in [
        ("v1", "ConfigMap", None),
        ("example.com/v1beta1", "SignOff2", None),
        ("", "A", Some("apiVersion")),
        ("1", "A", Some("apiVersion")),
        ("v", "A", Some("apiVersion")),
        ("vx", "A", Some("apiVersion")),
        ("pod", "A", Some("apiVersion")),
        ("v1_x", "A", Some("apiVersion")),
        ("v1-x", "A", Some("apiVersion")),
        ("/v1", "A", Some("apiVersion")),
        ("Example_com/v1", "A", Some("apiVersion")),
        ("example.com/one", "A", Some("apiVersion")),
        ("v1", "signOff", Some("kind")),
        ("v1", "Sign-Off", Some("kind")),
        ("v1", "2SignOff", Some("kind")),
    ] {
        let found = found(&of_kind(api_version, kind));
        let at = "spec.checkGrantedPermission.spec.checks[0].selector.objectRef";
        let expected = wrong.map(|field| (format!("{at}.{field}"), FindingCode::InvalidField));
        assert_eq!(found, Vec::from_iter(expected), "{api_version} {kind}");
    }
}

#[test]
fn a_selector_of_connectors_asks_for_keys_and_values_that_can_be() {
    let by = |key: &str, operator: &str, values: Value| {
        let expression = json!({"key": key, "operator": operator, "values": values});
        json!({"matchLabels": {"a": "b"}, "matchExpressions": [expression]})
    };
    let values = Some((".matchExpressions[0].values", FindingCode::InvalidField));
    for (selector, expected) in [
        (json!({"matchLabels": {"a": ""}}), None),
        (
            json!({"matchLabels": {"a": "b c"}}),
            Some((".matchLabels", FindingCode::InvalidField)),
        ),
        (by("a", "In", json!(["", "b"])), None),
        (by("a", "NotIn", json!(["b c"])), values),
        (by("a", "Exists", json!([])), None),
        (by("a", "Exists", json!(["b"])), values),
        (by("c", "DoesNotExist", json!([])), None),
        (
            by("a", "DoesNotExist", json!([])),
            Some(("", FindingCode::ImpossibleSelector)),
        ),
    ] {
        let connector = json!({"selector": selector});
        let found = found(&with(checked(), "/spec", "connector", connector));
        let expected = expected.map(|(end, code)| (format!("spec.connector.selector{end}"), code));
        assert_eq!(found, Vec::from_iter(expected), "{selector}");
    }
}

#[test]
fn what_is_suspicious_is_a_warning() {
    use FindingCode::{
        AliasTemplate, BroadSubject, FixedResource, FixedSelector, NoMountRule, NoPod,
    };
    let labels = format!("{CHECKS}/selector");
    for (policy, code) in [
        (
            with(
                checked(),
                &labels,
                "labels",
                json!({"run": "{.pod.metadata.labels.run}"}),
            ),
            AliasTemplate,
        ),
        (
            with(checked(), &labels, "labels", json!({"run": "fixed"})),
            FixedSelector,
        ),
        (
            with(
                checked(),
                RULE,
                "resources",
                json!(["connectors/apis/v1/pod/{.pod.metadata.namespace}/{.object.pod.name}"]),
            ),
            AliasTemplate,
        ),
        (
            with(
                checked(),
                RULE,
                "resources",
                json!(["connectors/apis/v1/pod/ns/one"]),
            ),
            FixedResource,
        ),
        (with(checked(), RULE, "verbs", json!(["get"])), NoMountRule),
        (
            with(
                checked(),
                RULE,
                "resources",
                json!([
                    "connectors/apis/tekton.dev/v1/pipelineruns/{.object.metadata.namespace}/{.object.metadata.name}"
                ]),
            ),
            NoMountRule,
        ),
        (
            with(
                checked(),
                "/spec/checkGrantedPermission",
                "requesters",
                json!([{"kind": "User", "name": "alice"}, {"kind": "ServiceAccount", "name": "ci"}]),
            ),
            NoPod,
        ),
        (
            with(standing(), STANDING_RULE, "verbs", json!(["get"])),
            NoMountRule,
        ),
        (
            with(
                standing(),
                SUBJECTS,
                "subjects",
                json!([{"kind": "Group", "name": "system:authenticated"}]),
            ),
            BroadSubject,
        ),
    ] {
        assert_eq!(codes(&policy), BTreeSet::from([code]), "{policy}");
        assert!(!has_error(&policy), "{policy}");
    }
}

#[test]
fn a_creator_is_excluded_only_where_a_proof_finds_one() {
    for (provenance, wanted, is_good) in [
        ("Auto", json!({"notRequester": true}), true),
        ("Auto", json!({"users": ["a"], "notRequester": true}), true),
        ("Auto", json!({"notRequester": false}), false),
        ("None", json!({"notRequester": true}), false),
        ("None", json!({"users": ["a"], "notRequester": false}), true),
    ] {
        let policy = with(tekton(), CHECKS, "provenance", json!(provenance));
        let policy = with(policy, CHECKS, "approvers", wanted);
        assert_eq!(has_error(&policy), !is_good, "{policy}");
    }
}

#[test]
fn what_is_suspicious_of_a_pipeline_is_a_warning() {
    use FindingCode::{ApproversOpen, ApproversTooFew, LabelsBelieved};
    let without = |mut policy: Value, field: &str| {
        let check = policy.pointer_mut(CHECKS).unwrap();
        check.as_object_mut().unwrap().remove(field);
        policy
    };
    let too_few = json!({"users": ["a", "a"], "minimum": 2});
    let with_group = json!({"users": ["a"], "groups": ["g"], "minimum": 2});
    for (policy, codes_wanted) in [
        (tekton(), vec![LabelsBelieved]),
        (without(tekton(), "provenance"), vec![]),
        (with(tekton(), CHECKS, "provenance", json!("Auto")), vec![]),
        (
            with(tekton(), CHECKS, "provenance", json!("Required")),
            vec![],
        ),
        (
            without(tekton(), "approvers"),
            vec![ApproversOpen, LabelsBelieved],
        ),
        (
            with(tekton(), CHECKS, "approvers", too_few),
            vec![ApproversTooFew, LabelsBelieved],
        ),
        (
            with(tekton(), CHECKS, "approvers", with_group),
            vec![LabelsBelieved],
        ),
    ] {
        assert_eq!(
            codes(&policy),
            codes_wanted.into_iter().collect(),
            "{policy}"
        );
        assert!(!has_error(&policy), "{policy}");
    }
}

#[test]
fn a_proof_that_no_lineage_gives_cannot_be_required() {
    let asks = |api_version: &str, kind: &str, provenance: &str| {
        let policy = with(
            of_kind(api_version, kind),
            CHECKS,
            "provenance",
            json!(provenance),
        );
        (codes(&policy), has_error(&policy))
    };
    let unavailable = BTreeSet::from([FindingCode::ProofUnavailable]);
    let gate = "openshift-pipelines.org/v1alpha1";
    for (api_version, kind) in [
        ("v1", "ConfigMap"),
        ("example.com/v1", "SignOff"),
        (gate, "ApprovalRequest"),
        ("tekton.dev/v1", "PipelineRun"),
    ] {
        let asked = asks(api_version, kind, "Required");
        assert_eq!(asked, (unavailable.clone(), true), "{kind}");
    }
    let open = BTreeSet::from([FindingCode::ApproversOpen]);
    assert_eq!(asks(gate, "ApprovalTask", "Required"), (open, false));
    assert_eq!(
        asks(gate, "ApprovalRequest", "Auto"),
        (BTreeSet::new(), false)
    );
}

/// Following the advice gives the promised result.
#[test]
fn no_advice_leads_to_a_proof_that_does_not_exist() {
    for mut policy in [tekton(), checked()] {
        for provenance in ["Auto", "Required", "None"] {
            policy = with(policy, CHECKS, "provenance", json!(provenance));
            let Validated { findings, .. } = super::policy(&policy);
            for word in ["Auto", "None"] {
                let advice = format!("provenance: {word}");
                if findings.iter().any(|it| it.fix.contains(&advice)) {
                    let followed = with(policy.clone(), CHECKS, "provenance", json!(word));
                    assert!(!codes(&followed).contains(&FindingCode::ProofUnavailable));
                }
            }
            let leaves_out = |it: &Finding| it.fix.contains("leave provenance out");
            if findings.iter().any(leaves_out) {
                let followed = with(policy.clone(), CHECKS, "provenance", Value::Null);
                assert!(!codes(&followed).contains(&FindingCode::ProofUnavailable));
                assert!(!codes(&followed).contains(&FindingCode::LabelsBelieved));
            }
        }
    }
}

#[test]
fn requesters_that_no_pod_can_be_let_nothing_ask() {
    let of = |requesters: Value| {
        let at = "/spec/checkGrantedPermission";
        let policy = with(checked(), at, "requesters", requesters);
        (codes(&policy), has_error(&policy))
    };
    let account = json!({"kind": "ServiceAccount", "name": "ci"});
    for (subject, is_pod) in [
        (account.clone(), true),
        (
            json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"a": "b"}}}),
            true,
        ),
        (
            json!({"kind": "User", "name": "system:serviceaccount:team:ci"}),
            true,
        ),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts:team"}),
            true,
        ),
        (json!({"kind": "User", "name": "ada"}), false),
        (
            json!({"kind": "User", "name": "system:serviceaccount:ci"}),
            false,
        ),
        (
            json!({"kind": "User", "name": "system:serviceaccount::ci"}),
            false,
        ),
        (json!({"kind": "Group", "name": "system:masters"}), false),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts:"}),
            false,
        ),
        (
            json!({"kind": "Group", "name": "system:unauthenticated"}),
            false,
        ),
    ] {
        let (alone, refused) = of(json!([subject]));
        assert_eq!(alone.contains(&FindingCode::NoPod), !is_pod, "{subject}");
        assert_eq!(refused, !is_pod, "{subject}");
        let (beside, refused) = of(json!([account, subject]));
        assert_eq!(beside.contains(&FindingCode::NoPod), !is_pod, "{subject}");
        assert!(!refused, "{subject}");
    }
}

#[test]
fn requesters_of_which_one_cannot_be_read_are_not_all_called_no_pods() {
    let at = "spec.checkGrantedPermission.requesters";
    let ada = json!({"kind": "User", "name": "ada"});
    for (requesters, expected) in [
        (json!([]), vec![(at.to_owned(), FindingCode::InvalidLength)]),
        (
            json!([ada, 7]),
            vec![
                (format!("{at}[1]"), FindingCode::InvalidField),
                (format!("{at}[0]"), FindingCode::NoPod),
            ],
        ),
    ] {
        let policy = with(
            checked(),
            "/spec/checkGrantedPermission",
            "requesters",
            requesters,
        );
        assert_eq!(found(&policy), expected);
    }
}

#[test]
fn a_field_in_the_wrong_place_is_told_with_the_right_one() {
    let granted = "/spec/checkGrantedPermission";
    for (at, field, place) in [
        ("/spec", "limits", "spec.checkGrantedPermission.spec"),
        (granted, "limits", "spec.checkGrantedPermission.spec"),
        (CHECKS, "limits", "spec.checkGrantedPermission.spec"),
        ("/spec", "requesters", "spec.checkGrantedPermission"),
        (granted, "checks", "spec.checkGrantedPermission.spec"),
        ("/spec", "names", "spec.connector"),
        (
            "/spec/checkGrantedPermission/spec",
            "maxDuration",
            "spec.checkGrantedPermission.spec.limits",
        ),
    ] {
        let policy = with(checked(), at, field, json!({}));
        let Validated { findings, .. } = super::policy(&policy);
        let [finding] = &findings[..] else {
            panic!("{findings:?}")
        };
        let expected = format!("`{field}` belongs under {place}");
        assert_eq!(
            (finding.code, &finding.fix),
            (FindingCode::UnknownField, &expected)
        );
    }
}

#[test]
fn what_can_never_match_is_an_error() {
    let labels = format!("{CHECKS}/selector");
    for text in [
        "two words",
        "two words{.object.metadata.name}",
        "{.object.metadata.name}/x",
        &format!("{}{{.object.metadata.name}}", "x".repeat(63)),
    ] {
        let policy = with(checked(), &labels, "labels", json!({"run": text}));
        assert!(
            codes(&policy).contains(&FindingCode::ImpossibleSelector),
            "{text}"
        );
        assert!(has_error(&policy), "{text}");
    }
    let policy = with(
        checked(),
        &labels,
        "labels",
        json!({"run": "{.object.metadata"}),
    );
    assert_eq!(
        codes(&policy),
        BTreeSet::from([FindingCode::InvalidTemplate])
    );
}

#[test]
fn rules_say_what_is_wrong_with_them() {
    for (resource, code) in [
        ("connectors/apis", FindingCode::InvalidResource),
        ("connectors/*/v1/pod/a/b", FindingCode::InvalidResource),
        (
            "connectors/apis/v1/pod/{.object.metadata.name}/{.object.metadata.namespace}",
            FindingCode::InvalidTemplate,
        ),
        (
            "connectors/proxy/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}",
            FindingCode::WrongPermission,
        ),
    ] {
        let policy = with(checked(), RULE, "resources", json!([resource]));
        assert!(codes(&policy).contains(&code), "{resource}");
        assert!(has_error(&policy), "{resource}");
    }
    let policy = with(
        standing(),
        STANDING_RULE,
        "resources",
        json!(["connectors/apis/v1/pod/a/{.object.metadata.name}"]),
    );
    assert!(codes(&policy).contains(&FindingCode::InvalidTemplate));
}

#[test]
fn modules_are_handed_out_and_not_looked_at() {
    let rego = "package other, and no module at all";
    let policy = with(checked(), CHECKS, "state", json!({"rego": rego}));
    let Validated { findings, modules } = super::policy(&policy);
    assert_eq!(findings, []);
    let path = "spec.checkGrantedPermission.spec.checks[0].state.rego".to_owned();
    let source = rego.to_owned();
    assert_eq!(modules, [Module { path, source }]);
    let finding = modules[0].finding(&RegoFailure::Failed("why".to_owned()));
    assert_eq!(
        (finding.code, finding.message.as_str()),
        (FindingCode::RegoInvalid, "why")
    );
    let long = with(
        checked(),
        CHECKS,
        "state",
        json!({"rego": "x".repeat(16 * 1024 + 1)}),
    );
    assert_eq!(codes(&long), BTreeSet::from([FindingCode::RegoLimit]));
    assert_eq!(super::policy(&long).modules, []);
}

#[test]
fn another_object_is_no_policy() {
    for other in [
        json!(null),
        json!({}),
        with(checked(), "", "kind", json!("Role")),
    ] {
        assert_eq!(codes(&other), BTreeSet::from([FindingCode::NotAPolicy]));
    }
}

/// The number of findings is limited, and errors have priority over warnings.
#[test]
fn there_is_an_end_to_findings() {
    let check = checked().pointer(CHECKS).unwrap().clone();
    let mut policy = checked();
    let mut odd = check.clone();
    odd["selector"]["labels"] = (0..16)
        .map(|n| (format!("l{n}"), json!("two words")))
        .collect();
    policy["spec"]["checkGrantedPermission"]["spec"]["checks"] = json!(vec![odd; 32]);
    assert_eq!(found(&policy).len(), 256);
}

fn merged(base: &Value, patch: &Value) -> Value {
    match (base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            let mut merged = base.clone();
            for (key, value) in patch {
                if value.is_null() {
                    merged.remove(key);
                } else {
                    let before = base.get(key).unwrap_or(&Value::Null);
                    merged.insert(key.clone(), self::merged(before, value));
                }
            }
            Value::Object(merged)
        }
        _ => patch.clone(),
    }
}

fn yaml(path: &PathBuf) -> Value {
    serde_yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The API server refuses and accepts these (`e2e/cases`); this validation must agree.
#[test]
fn what_the_api_server_refuses_is_an_error_and_its_neighbour_is_none() {
    let cases = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../e2e/cases"));
    let mut count = 0;
    for entry in fs::read_dir(cases.join("access-policy")).unwrap() {
        let path = entry.unwrap().path();
        let case = yaml(&path);
        let name = path.display();
        let base = format!("bases/{}.yaml", case["base"].as_str().unwrap());
        let mut base = yaml(&cases.join(base));
        base["metadata"] = checked()["metadata"].clone();
        assert!(has_error(&merged(&base, &case["refused"])), "{name}");
        let accepted = merged(&base, &case["accepted"]);
        assert!(
            !has_error(&accepted),
            "{name}: {:?}",
            policy(&accepted).findings
        );
        count += 1;
    }
    assert!(count > 50, "{count}");
}

proptest! {
    #[test]
    fn what_has_no_error_can_be_read_by_everybody(spec in json_values(), path in "(|/connector|/checkGrantedPermission|/checkGrantedPermission/spec/checks/0|/checkGrantedPermission/spec/permissions)") {
        let mut object = checked();
        let at = format!("/spec{path}");
        if let Some(place) = object.pointer_mut(&at) {
            *place = spec;
        }
        if !has_error(&object) {
            prop_assert!(parse::object::<AccessPolicy>(&object).is_ok());
        }
        prop_assert!(found(&object).len() <= 256);
    }
}

#[test]
fn a_selector_of_subjects_that_names_no_value_is_an_error_and_says_which() {
    let open = json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]});
    let fine = json!({"matchLabels": {"a": "b"}});
    let by_name = json!({"kind": "ServiceAccount", "nameSelector": open});
    let by_namespace =
        json!({"kind": "ServiceAccount", "nameSelector": fine, "namespaceSelector": open});
    for (subject, field) in [
        (by_name, "nameSelector"),
        (by_namespace, "namespaceSelector"),
    ] {
        let mut policy = standing();
        policy["spec"]["defaultPermission"]["bindingTemplate"]["subjects"] = json!([subject]);
        policy["spec"]["checkGrantedPermission"] =
            checked()["spec"]["checkGrantedPermission"].clone();
        policy["spec"]["checkGrantedPermission"]["requesters"] = json!([subject]);
        let Validated { findings, .. } = super::policy(&policy);
        for at in [
            "defaultPermission.bindingTemplate.subjects",
            "checkGrantedPermission.requesters",
        ] {
            let path = format!("spec.{at}[0]");
            let found = findings.iter().find(|it| it.path == path).unwrap();
            assert_eq!(found.code, FindingCode::InvalidSubject, "{found:?}");
            assert_eq!(found.severity, Severity::Error, "{found:?}");
            assert!(
                found.message.starts_with(&format!("{field}: ")),
                "{found:?}"
            );
        }
    }
}

#[test]
fn more_subjects_with_selectors_than_a_policy_may_have_are_an_error() {
    let by_label = |number: usize| json!({"kind": "ServiceAccount", "nameSelector": {"matchLabels": {"a": number.to_string()}}});
    let ignored =
        json!({"kind": "ServiceAccount", "name": "a", "nameSelector": {}, "namespaceSelector": {}});
    let of = |selectors: usize| {
        let mut subjects: Vec<_> = (0..selectors).map(by_label).collect();
        subjects.extend([ignored.clone(), ignored.clone()]);
        let mut policy = standing();
        policy["spec"]["defaultPermission"]["bindingTemplate"]["subjects"] = json!(subjects);
        found(&policy)
    };
    let at = "spec.defaultPermission.bindingTemplate.subjects".to_owned();
    let too_many = (at, FindingCode::InvalidLength);
    assert!(!of(0).contains(&too_many));
    assert!(!of(16).contains(&too_many));
    assert!(of(17).contains(&too_many));
    assert!(of(500).contains(&too_many));
}
