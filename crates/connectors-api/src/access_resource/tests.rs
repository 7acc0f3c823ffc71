use proptest::prelude::*;
use serde_json::json;

use super::*;

#[test]
fn the_two_forms_of_an_access() {
    let standing = AccessResource::standing(Permission::Apis);
    assert_eq!(standing.to_string(), "connectors/apis");
    assert_eq!(standing.subresource(), "apis");
    let pod = AccessResource::pod(Permission::Proxy, "devops-ns1", "deploy-prod-xxx");
    assert_eq!(
        pod.to_string(),
        "connectors/proxy/v1/pod/devops-ns1/deploy-prod-xxx"
    );
    assert_eq!(pod.subresource(), "proxy/v1/pod/devops-ns1/deploy-prod-xxx");
}

proptest! {
    #[test]
    fn a_pods_subresource_is_spelled_the_same_in_one_piece(
        permission in proptest::sample::select(Permission::ALL),
        namespace in "[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?",
        pod in "[a-z0-9]([-.a-z0-9]{0,8}[a-z0-9])?",
    ) {
        let spelled = AccessResource::subresource_of_pod(permission, &namespace, &pod);
        prop_assert_eq!(spelled, AccessResource::pod(permission, &namespace, &pod).subresource());
    }
}

#[test]
fn a_review_asks_for_everything_on_one_resource_of_one_connector() {
    let review = AccessResource::pod(Permission::Apis, "apps", "web-1").review("tools", "harbor");
    let expected = json!({
        "group": "connectors.alauda.io", "resource": "connectors", "verb": "*",
        "subresource": "apis/v1/pod/apps/web-1", "namespace": "tools", "name": "harbor",
    });
    assert_eq!(json!(review), expected);
}

#[test]
fn other_contexts_than_pods_are_read() {
    let parsed: AccessResource = "connectors/apis/tekton.dev/v1/pipelineruns/ns/run-1"
        .parse()
        .unwrap();
    let context = parsed.context.unwrap();
    assert_eq!(
        (context.api_version.as_str(), context.kind.as_str()),
        ("tekton.dev/v1", "pipelineruns")
    );
}

#[test]
fn standing_access_is_of_no_object() {
    let pod = AccessResource::pod(Permission::Apis, "ns", "web-1");
    assert!(pod.is_of("ns", "web-1"));
    assert!(!pod.is_of("ns", "web"));
    assert!(!pod.is_of("other", "web-1"));
    assert!(!AccessResource::standing(Permission::Apis).is_of("ns", "web-1"));
}

#[test]
fn refuses_what_rbac_would_never_match_or_match_too_widely() {
    use AccessResourceError::{Permission, Segment, Shape};
    let segment = |segment, value: &str| Segment {
        segment,
        value: value.to_owned(),
    };
    for (text, error) in [
        ("", Shape),
        ("connectors", Shape),
        ("*", Shape),
        ("pods/apis", Shape),
        ("/connectors/apis", Shape),
        ("connectors/apis/", Shape),
        ("connectors/apis/v1/pod/ns", Shape),
        ("connectors/apis/a/v1/pod/ns/n/more", Shape),
        ("connectors/*", Permission("*".to_owned())),
        ("connectors/Apis", Permission("Apis".to_owned())),
        ("connectors/apis/v1/pod/ns/*", segment("name", "*")),
        ("connectors/apis/v1/pod//n", segment("namespace", "")),
        ("connectors/apis/v1/Pod/ns/n", segment("kind", "Pod")),
        ("connectors/apis/pod/v1/ns/n", segment("API version", "pod")),
        ("connectors/apis/a1/pod/ns/n", segment("API version", "a1")),
        ("connectors/apis/vx/pod/ns/n", segment("API version", "vx")),
        (
            "connectors/apis/v1A/pod/ns/n",
            segment("API version", "v1A"),
        ),
        (
            "connectors/apis/v1-a/pod/ns/n",
            segment("API version", "v1-a"),
        ),
        (
            "connectors/apis/a_b/v1/pod/ns/n",
            segment("API group", "a_b"),
        ),
        (
            "connectors/apis/v1/pod/ns/{.object.metadata.name}",
            segment("name", "{.object.metadata.name}"),
        ),
    ] {
        assert_eq!(text.parse::<AccessResource>(), Err(error), "{text}");
    }
}

fn resources() -> impl Strategy<Value = AccessResource> {
    let context = (
        "([a-z]{1,5}\\.[a-z]{1,3}/)?v[1-9](beta1)?",
        "[a-z]{1,12}",
        "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
        "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\\.[a-z0-9]{1,9})?",
    );
    let context = context.prop_map(|(api_version, kind, namespace, name)| Context {
        api_version,
        kind,
        namespace,
        name,
    });
    (
        proptest::sample::select(Permission::ALL),
        proptest::option::of(context),
    )
        .prop_map(|(permission, context)| AccessResource {
            permission,
            context,
        })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(resource in resources()) {
        prop_assert_eq!(resource.to_string().parse(), Ok(resource));
    }

    #[test]
    fn what_is_read_is_written_back(text in "connectors/[a-z/.*0-9-]{0,40}") {
        if let Ok(resource) = text.parse::<AccessResource>() {
            prop_assert_eq!(resource.to_string(), text);
        }
    }
}
