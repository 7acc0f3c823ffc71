//! I4 broken and kept.

use super::*;

fn rule(scene: World, change: impl FnOnce(&mut Value)) -> World {
    scene.edit(ROLE, |event| {
        change(&mut event["responseObject"]["rules"][0]);
    })
}

#[test]
fn a_role_names_our_group_the_connector_and_nothing_else() {
    for (key, value, words) in [
        ("apiGroups", json!([]), "API groups"),
        ("apiGroups", json!(["*"]), "API groups"),
        (
            "apiGroups",
            json!(["connectors.alauda.io", ""]),
            "API groups",
        ),
        ("apiGroups", Value::Null, "API groups"),
        ("resourceNames", json!([]), "about the connectors"),
        ("resourceNames", Value::Null, "about the connectors"),
        (
            "resourceNames",
            json!(["prod", "other"]),
            "about the connectors",
        ),
        ("resourceNames", json!(["other"]), "about the connectors"),
        (
            "nonResourceURLs",
            json!(["/metrics"]),
            "says nonResourceURLs",
        ),
        ("resources", json!([]), "has no resources"),
        ("verbs", json!([]), "has no verbs"),
    ] {
        rule(world(), |rule| rule[key] = value).breaks(Rule::Shape, words);
    }
    world()
        .edit(ROLE, |event| event["responseObject"]["rules"] = json!([]))
        .breaks(Rule::Shape, "no rules");
    let second = |event: &mut Value| {
        let rules = event["responseObject"]["rules"].as_array_mut().unwrap();
        rules.push(json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}));
    };
    world()
        .edit(ROLE, second)
        .breaks(Rule::Shape, "covers \"secrets\"");
}

#[test]
fn resources_end_in_the_requests_own_pod() {
    for resource in [
        "connectors",
        "connectors/apis",
        "connectors/*",
        "*",
        "",
        "connectors/proxy/v1/pod/team/job",
        "connectors/admin/v1/pod/team/job",
        "connectors/apis/v1/pod/team/other",
        "connectors/apis/v1/pod/other/job",
        "connectors/apis/pod/team/job",
        "connectors/apis/a/b/c/d/team/job",
        "connectors/apis/*/pod/team/job",
        "connectors/apis//pod/team/job",
        "secrets/apis/v1/pod/team/job",
        "connectors/apis/v1/pod/team/job/",
        "connectors/apis/v1/pod/team/{.object.metadata.name}",
    ] {
        let words = "covers";
        rule(world(), |rule| {
            rule["resources"] = json!(["connectors/apis/v1/pod/team/job", resource]);
        })
        .breaks(Rule::Shape, words);
    }
    for resource in [
        "connectors/apis/v1/pod/team/job",
        "connectors/apis/tekton.dev/v1/pipelineruns/team/job",
    ] {
        rule(world(), |rule| rule["resources"] = json!([resource])).keeps();
    }
}

#[test]
fn the_permission_is_the_requested_one() {
    let mut scene = rule(world(), |rule| {
        rule["resources"] = json!(["connectors/proxy/v1/pod/team/job"]);
    });
    for event in &mut scene.events {
        if event["responseObject"]["kind"] == "AccessRequest" {
            event["responseObject"]["spec"]["permission"] = "proxy".into();
        }
    }
    scene.keeps();
}

#[test]
fn a_binding_binds_one_account_to_its_own_role() {
    for (pointer, value, words) in [
        ("/roleRef/name", json!("other"), "refers to"),
        ("/roleRef/kind", json!("ClusterRole"), "refers to"),
        ("/roleRef/apiGroup", json!(""), "refers to"),
        ("/subjects", json!([]), "has 0 subjects"),
        ("/subjects/0/kind", json!("Group"), "binds a Group"),
    ] {
        let other =
            |event: &mut Value| *event["responseObject"].pointer_mut(pointer).unwrap() = value;
        world().edit(BINDING, other).breaks(Rule::Shape, words);
    }
    let twice = |event: &mut Value| {
        let subject = event["responseObject"]["subjects"][0].clone();
        event["responseObject"]["subjects"]
            .as_array_mut()
            .unwrap()
            .push(subject);
    };
    world()
        .edit(BINDING, twice)
        .breaks(Rule::Shape, "has 2 subjects");
}

#[test]
fn both_halves_say_whose_they_are() {
    for id in [ROLE, BINDING] {
        let metadata = |change: fn(&mut Value)| {
            world().edit(id, |event| change(&mut event["responseObject"]["metadata"]))
        };
        metadata(|metadata| metadata["labels"]["app.kubernetes.io/managed-by"] = "me".into())
            .breaks(Rule::Shape, "lacks a label");
        metadata(|metadata| metadata["ownerReferences"] = json!([]))
            .breaks(Rule::Shape, "not owned");
        metadata(|metadata| metadata["ownerReferences"][0]["uid"] = "x".into())
            .breaks(Rule::Shape, "not owned");
        let named = |name: &str| {
            world().edit(id, |event| {
                event["responseObject"]["metadata"]["name"] = name.into();
                if event["responseObject"]["roleRef"].is_object() {
                    event["responseObject"]["roleRef"]["name"] = name.into();
                }
            })
        };
        let report = named("car-other-0badcafe").report();
        assert!(
            report
                .to_string()
                .contains("is not named after its request"),
            "{report}"
        );
    }
}

#[test]
fn nobody_changes_a_grant() {
    for (id, resource, body) in [(ROLE, ROLES, role()), (BINDING, BINDINGS, binding())] {
        for verb in ["update", "patch"] {
            for who in ["admin", "controller"] {
                let update = |body: Value| {
                    world().plus(with(
                        call("change", 15_000, who, verb, resource, GRANT),
                        body,
                    ))
                };
                let words = format!("changed by {}", user(who)["username"].as_str().unwrap());
                let mut wider = body.clone();
                wider["rules"] = json!([{"apiGroups": ["*"]}]);
                update(wider).breaks(Rule::Shape, &words);
                let mut hidden = body.clone();
                hidden["metadata"]["labels"] = json!({});
                update(hidden).breaks(Rule::Shape, &words);
                // Fields without an effect on access may change.
                let mut noted = body.clone();
                noted["metadata"]["annotations"] = json!({"a": "b"});
                update(noted).keeps();
            }
        }
        let _ = id;
    }
}
