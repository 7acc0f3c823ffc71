//! The accesses that a rule allows.

use authz::{Attributes, Authorizer, RbacIndex, ResourceRequest, Target, User};
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::build::{
    cluster_role, cluster_role_binding, list, may, named, on, paths, role_binding, rule, user,
};

/// True when this rule alone, bound to the asking user in the whole cluster, allows.
fn allows(rule: &PolicyRule, verb: &str, request: ResourceRequest<'_>) -> bool {
    may(&holding(rule), &alice(), verb, request)
}

fn holding(rule: &PolicyRule) -> RbacIndex {
    let mut index = RbacIndex::default();
    let rules = std::slice::from_ref(rule);
    index.apply(&cluster_role("r", rules)).unwrap();
    let binding = cluster_role_binding("b", "ClusterRole/r", &["User/alice"]);
    index.apply(&binding).unwrap();
    index
}

fn alice() -> User {
    user("alice", "")
}

#[test]
fn a_verb_is_named_or_all_are() {
    for (verbs, verb, expected) in [
        ("get", "get", true),
        ("get list", "list", true),
        ("*", "get", true),
        ("*", "*", true),
        ("get list watch", "*", false),
        ("get", "GET", false),
        ("get", "ge", false),
        ("g*", "get", false),
        ("''", "", true),
        ("", "get", false),
        ("", "", false),
    ] {
        let rule = rule(verbs, "''", "pods");
        assert_eq!(
            allows(&rule, verb, on("", "pods")),
            expected,
            "{verbs} {verb}"
        );
    }
}

#[test]
fn an_api_group_is_named_or_all_are() {
    for (groups, group, expected) in [
        ("''", "", true),
        ("apps", "apps", true),
        ("'' apps", "apps", true),
        ("*", "apps", true),
        ("*", "", true),
        ("apps", "", false),
        ("''", "apps", false),
        ("apps", "*", false),
        ("*.io", "x.io", false),
        ("", "", false),
        ("", "apps", false),
    ] {
        let request = ResourceRequest {
            group,
            ..on("", "pods")
        };
        let rule = rule("get", groups, "pods");
        assert_eq!(allows(&rule, "get", request), expected, "{groups} {group}");
    }
}

#[test]
fn a_resource_is_matched_whole_or_by_its_subresource_field() {
    let pod = "apis/v1/pod/ns/p";
    for (resources, resource, subresource, expected) in [
        ("pods", "pods", "", true),
        ("pods", "pods", "log", false),
        ("pods", "pod", "", false),
        ("pods/log", "pods", "log", true),
        ("pods/log", "pods/log", "", true),
        ("pods/log", "pods", "", false),
        ("pods/log", "pods", "lo", false),
        ("pods/*", "pods", "log", false),
        ("pods/*", "pods", "*", true),
        ("services pods", "pods", "", true),
        ("*", "pods", "", true),
        ("*", "pods", "log", true),
        ("*", "", "", true),
        ("*", "", "log", true),
        ("*/*", "pods", "log", false),
        ("*/log", "pods", "log", true),
        ("*/log", "pods/log", "", false),
        ("*/log", "pods", "", false),
        ("*/log", "log", "", false),
        ("*/log", "*", "log", true),
        ("*/log", "*/log", "", true),
        ("*/log", "pods", "x/log", false),
        ("*/", "pods", "", false),
        ("*/", "pods/", "", false),
        // Resources that contain slashes themselves.
        ("connectors/apis/v1/pod/ns/p", "connectors", pod, true),
        (
            "connectors/apis/v1/pod/ns/p",
            "connectors/apis/v1/pod/ns/p",
            "",
            true,
        ),
        (
            "connectors/apis/v1/pod/ns/p",
            "connectors/apis",
            "v1/pod/ns/p",
            true,
        ),
        (
            "connectors/apis/v1/pod/ns/p",
            "connectors",
            "apis/v1/pod/ns/pp",
            false,
        ),
        ("connectors/apis", "connectors", pod, false),
        ("connectors/apis/v1/pod/ns/p", "connectors", "apis", false),
        ("connectors/*", "connectors", pod, false),
        ("*/apis/v1/pod/ns/p", "connectors", pod, true),
        (
            "*/apis/v1/pod/ns/p",
            "connectors/apis/v1/pod/ns/p",
            "",
            false,
        ),
        ("*/v1/pod/ns/p", "connectors/apis", "v1/pod/ns/p", true),
        ("*/v1/pod/ns/p", "connectors", pod, false),
        // Empty and absent.
        ("", "pods", "", false),
        ("", "", "", false),
        ("''", "", "", true),
        ("''", "pods", "", false),
        ("/log", "", "log", true),
        ("log", "", "log", false),
    ] {
        let request = ResourceRequest {
            resource,
            subresource,
            ..ResourceRequest::default()
        };
        let rule = rule("get", "''", resources);
        assert_eq!(
            allows(&rule, "get", request),
            expected,
            "{resources} {resource} {subresource}"
        );
    }
}

#[test]
fn names_narrow_a_rule_and_none_do_not() {
    for (names, name, expected) in [
        ("", "x", true),
        ("", "", true),
        ("x", "x", true),
        ("x y", "y", true),
        ("x", "y", false),
        ("x", "xx", false),
        ("x", "", false),
        ("*", "x", false),
        ("*", "*", true),
        ("''", "", true),
        ("''", "x", false),
    ] {
        let request = ResourceRequest {
            name,
            ..on("", "pods")
        };
        let rule = named(names, rule("get", "''", "pods"));
        assert_eq!(allows(&rule, "get", request), expected, "{names} {name}");
    }
}

#[test]
fn an_absent_list_of_names_is_an_empty_one() {
    let absent = rule("get", "''", "pods");
    let empty = PolicyRule {
        resource_names: Some(vec![]),
        ..absent.clone()
    };
    assert!(allows(&absent, "get", on("", "pods")));
    assert!(allows(&empty, "get", on("", "pods")));
}

#[test]
fn many_resources_with_many_names_keep_both_limits() {
    let words = |prefix: &str| {
        let words = (0..40).map(|number| format!("{prefix}{number}"));
        words.collect::<Vec<_>>().join(" ")
    };
    let rule = named(&words("n"), rule("get", "''", &words("r")));
    let request = |resource, name| ResourceRequest {
        name,
        ..on("", resource)
    };
    assert!(allows(&rule, "get", request("r39", "n0")));
    assert!(!allows(&rule, "get", request("r39", "n40")));
    assert!(!allows(&rule, "get", request("r40", "n0")));
    assert!(!allows(&rule, "get", request("r0", "")));
}

#[test]
fn a_path_is_matched_whole_or_by_its_beginning() {
    for (urls, path, expected) in [
        ("/healthz", "/healthz", true),
        ("/healthz", "/healthz/etcd", false),
        ("/healthz", "/", false),
        ("/healthz/*", "/healthz/etcd", true),
        ("/healthz/*", "/healthz/", true),
        ("/healthz/*", "/healthz", false),
        ("/healthz*", "/healthz", true),
        ("/a**", "/ab", true),
        ("/a/*/b", "/a/x/b", false),
        ("/a/*/b", "/a/*/b", true),
        ("*", "/anything", true),
        ("*", "", true),
        ("**", "/anything", true),
        ("/metrics /version", "/version", true),
        ("''", "", true),
        ("''", "/", false),
        ("", "", false),
        ("", "/", false),
    ] {
        let attributes = Attributes {
            user: &alice(),
            verb: "get",
            target: Target::Path(path),
        };
        let verdict = holding(&paths("get", urls)).authorize(&attributes);
        assert_eq!(verdict.is_allowed(), expected, "{urls} {path}");
        let verdict = holding(&paths("post", urls)).authorize(&attributes);
        assert!(!verdict.is_allowed(), "another verb on {urls}");
    }
}

#[test]
fn resources_and_paths_are_two_worlds() {
    let everywhere = rule("*", "*", "*");
    let anything = paths("*", "*");
    let path = |rule| {
        let attributes = Attributes {
            user: &alice(),
            verb: "get",
            target: Target::Path("/metrics"),
        };
        holding(rule).authorize(&attributes).is_allowed()
    };
    assert!(!path(&everywhere));
    assert!(path(&anything));
    assert!(allows(&everywhere, "get", on("ns", "pods")));
    assert!(!allows(&anything, "get", on("ns", "pods")));
}

#[test]
fn paths_count_only_through_bindings_of_the_cluster() {
    let mut index = RbacIndex::default();
    index
        .apply(&cluster_role("r", &[paths("get", "*")]))
        .unwrap();
    index
        .apply(&role_binding("ns", "b", "ClusterRole/r", &["User/alice"]))
        .unwrap();
    let attributes = Attributes {
        user: &alice(),
        verb: "get",
        target: Target::Path("/metrics"),
    };
    assert!(!index.authorize(&attributes).is_allowed());
}

#[test]
fn verb_group_resource_and_name_must_come_from_one_rule() {
    let mut index = RbacIndex::default();
    let rules = [
        named("x", rule("get", "''", "secrets")),
        rule("get", "apps", "secrets"),
        rule("delete", "''", "secrets"),
        rule("get", "''", "pods"),
    ];
    index.apply(&cluster_role("r", &rules)).unwrap();
    index
        .apply(&cluster_role_binding("b", "ClusterRole/r", &["User/alice"]))
        .unwrap();
    assert!(!may(&index, &alice(), "get", on("", "secrets")));
    assert!(may(&index, &alice(), "delete", on("", "secrets")));
    assert_eq!(list("'' a"), ["", "a"]);
}
