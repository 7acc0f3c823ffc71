//! The texts for users: `kubectl explain` and the short names.

use e2e::{harness::Scene, install};

const KINDS: [&str; 4] = [
    "connector",
    "connectorclass",
    "accesspolicy",
    "accessrequest",
];

#[test]
fn explain_describes_every_kind_and_the_gated_part_of_a_policy() {
    let scene = Scene::new("explain");
    install::api(scene.kubectl()).unwrap();
    for kind in KINDS {
        scene.wait_for(
            "the kind in the published schema",
            &format!("explain {kind}"),
            |text| text.contains("DESCRIPTION:") && !text.contains("<empty>"),
        );
    }
    let text = scene
        .run("explain accesspolicy.spec.checkGrantedPermission")
        .unwrap();
    for field in ["requesters", "spec"] {
        assert!(text.contains(&format!("  {field}\t")), "{text}");
    }
    assert!(!text.contains("<no description>"), "{text}");
    let tree = scene
        .run("explain accesspolicy.spec.checkGrantedPermission --recursive")
        .unwrap();
    for field in [
        "fieldSelector",
        "objectRef",
        "rego",
        "minimum",
        "pendingTimeout",
    ] {
        assert!(tree.contains(field), "{tree}");
    }
}

#[test]
fn short_names_and_the_category_lead_to_the_kinds() {
    let scene = Scene::new("short-names");
    install::api(scene.kubectl()).unwrap();
    for (short, plural) in [
        ("conn", "connectors"),
        ("apol", "accesspolicies"),
        ("areq", "accessrequests"),
        ("connclass", "connectorclasses"),
    ] {
        let words = "api-resources --api-group=connectors.alauda.io --categories=connectors-approval --no-headers";
        scene.wait_for("the resource in discovery", words, |text| {
            text.lines().any(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words.first() == Some(&plural) && words.get(1) == Some(&short)
            })
        });
    }
}
