use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::json_values;

fn pod(namespace: &str, name: &str) -> TemplateData {
    TemplateData::of(json!({"metadata": {"namespace": namespace, "name": name}}))
}

fn render(text: &str, data: &TemplateData) -> Result<String, String> {
    let template = ResourceTemplate::parse(text).map_err(|error| error.to_string())?;
    let rendered = template.render(data).map_err(|error| error.to_string())?;
    Ok(rendered.to_string())
}

#[test]
fn only_both_of_its_namespace_and_its_name_make_it_the_askers_own() {
    let (namespace, name) = ("{.object.metadata.namespace}", "{.object.metadata.name}");
    for (of, called, is_own) in [
        (namespace, name, true),
        (namespace, "web-1", false),
        ("apps", name, false),
        ("apps", "web-1", false),
    ] {
        let text = format!("connectors/apis/v1/pod/{of}/{called}");
        let template = ResourceTemplate::parse(&text).unwrap();
        assert_eq!(template.is_own(), is_own, "{text}");
    }
}

#[test]
fn only_pods_of_the_core_group_mount() {
    for (kind, is_of_pods) in [("v1/pod", true), ("v2/pod", false), ("v1/pods", false)] {
        let text = format!("connectors/apis/{kind}/apps/web-1");
        let template = ResourceTemplate::parse(&text).unwrap();
        assert_eq!(template.is_of_pods(), is_of_pods, "{text}");
    }
}

#[test]
fn every_spelling_of_the_source_document_names_the_pod() {
    for (prefix, namespace, name, warnings) in [
        (
            "v1/pod",
            "{.object.metadata.namespace}",
            "{.object.metadata.name}",
            0,
        ),
        (
            "v1/pod",
            "{.object.pod.metadata.namespace}",
            "{.object.pod.metadata.name}",
            2,
        ),
        (
            "v1/pod",
            "{.pod.metadata.namespace}",
            "{.pod.metadata.name}",
            2,
        ),
        ("v1/pod", "{.object.pod.namespace}", "{.object.pod.name}", 2),
        (
            "tekton.dev/v1/pipelineruns",
            "{.object.pod.metadata.namespace}",
            "{.object.pod.name}",
            2,
        ),
        (
            "v1/pod",
            "{ .object['metadata'].namespace }",
            r#"{$.object["metadata"]['name']}"#,
            0,
        ),
        ("v1/pod", "ns", "{.object.metadata.name}", 0),
        ("v1/pod", "{.object.metadata.namespace}", "web-1", 0),
        ("v1/pod", "ns", "web-1", 0),
    ] {
        let text = format!("connectors/apis/{prefix}/{namespace}/{name}");
        let template = ResourceTemplate::parse(&text).unwrap();
        let rendered = template.render(&pod("ns", "web-1")).unwrap();
        assert_eq!(
            rendered.to_string(),
            format!("connectors/apis/{prefix}/ns/web-1")
        );
        assert_eq!(template.warnings().len(), warnings, "{text}");
    }
}

#[test]
fn a_path_to_anything_else_or_elsewhere_is_refused() {
    let (namespace, name) = ("{.object.metadata.namespace}", "{.object.metadata.name}");
    for (text, path) in [
        (format!("connectors/apis/v1/pod/{name}/{namespace}"), name),
        (
            format!("connectors/apis/v1/pod/{namespace}/{namespace}"),
            namespace,
        ),
        (format!("connectors/apis/v1/pod/{name}/{name}"), name),
        (
            format!("connectors/apis/v1/{name}/{namespace}/{name}"),
            name,
        ),
        (format!("connectors/{name}/v1/pod/{namespace}/{name}"), name),
        (format!("{name}/apis/v1/pod/{namespace}/{name}"), name),
        (
            format!("connectors/apis/v1/pod/{namespace}/web-{name}"),
            name,
        ),
        (format!("connectors/apis/v1/pod/{namespace}/{name}-1"), name),
        (format!("connectors/apis/v1/pod/{namespace}{name}"), name),
        (
            format!("connectors/apis/v1/pod/{namespace}/{name}/"),
            namespace,
        ),
        (
            "connectors/apis/v1/pod/ns/{.object.metadata.uid}".to_owned(),
            "{.object.metadata.uid}",
        ),
        (
            "connectors/apis/v1/pod/ns/{.object..name}".to_owned(),
            "{.object..name}",
        ),
        (
            "connectors/apis/v1/pod/ns/{.object.metadata['name','x']}".to_owned(),
            "{.object.metadata['name','x']}",
        ),
        (
            "connectors/apis/v1/pod/ns/{.object.metadata.labels.app}".to_owned(),
            "{.object.metadata.labels.app}",
        ),
    ] {
        assert_eq!(
            ResourceTemplate::parse(&text).unwrap_err(),
            ResourceTemplateError::Place(path.to_owned()),
            "{text}"
        );
    }
}

#[test]
fn one_approval_opens_one_pod() {
    use ResourceTemplateError::{Resource, Standing};
    assert_eq!(
        ResourceTemplate::parse("connectors/apis").unwrap_err(),
        Standing
    );
    for wide in [
        "connectors/apis/*",
        "*",
        "connectors/*",
        "connectors/apis/v1/pod/ns/*",
        "connectors/apis/v1/pod/ns",
    ] {
        assert!(
            matches!(ResourceTemplate::parse(wide), Err(Resource(_))),
            "{wide}"
        );
    }
    for foreign in [
        "connectors/apis/v1/pod/{.object.metadata.namespace}/other",
        "connectors/apis/v1/pod/other/{.object.metadata.name}",
        "connectors/apis/v1/pod/other/web-1",
        "connectors/apis/v1/pod/ns/web-11",
    ] {
        let template = ResourceTemplate::parse(foreign).unwrap();
        let error = template.render(&pod("ns", "web-1")).unwrap_err();
        assert!(
            matches!(error, RenderResourceError::Foreign(_)),
            "{foreign}"
        );
    }
}

#[test]
fn an_object_without_a_name_gets_nothing() {
    let text = "connectors/apis/v1/pod/{.object.metadata.namespace}/{.object.metadata.name}";
    for (object, expected) in [
        (
            json!({}),
            "{.object.metadata.namespace}: the object has nothing there",
        ),
        (
            json!(null),
            "{.object.metadata.namespace}: the object has nothing there",
        ),
        (
            json!({"metadata": {"namespace": ""}}),
            "{.object.metadata.namespace}: the value is empty",
        ),
        (
            json!({"metadata": {"namespace": "ns"}}),
            "{.object.metadata.name}: the object has nothing there",
        ),
        (
            json!({"metadata": {"namespace": "ns", "name": 7}}),
            "{.object.metadata.name}: must be a string, not a number",
        ),
        (
            json!({"metadata": {"namespace": "ns", "name": "*"}}),
            "`*` cannot be the name of an object",
        ),
        (
            json!({"metadata": {"namespace": "ns", "name": "a/b"}}),
            "`a/b` cannot be the name of an object",
        ),
        (
            json!({"metadata": {"namespace": "n/s", "name": "a"}}),
            "`n/s` cannot be the namespace of an object",
        ),
    ] {
        let data = TemplateData::of(object.clone());
        assert_eq!(render(text, &data), Err(expected.to_owned()), "{object}");
    }
}

proptest! {
    /// The result is about the object, for every template and object.
    #[test]
    fn what_is_granted_ends_in_the_object(
        text in r"connectors/(apis|proxy)/v1/pod/(ns|x|\{\.object\.metadata\.namespace\})/(ns|x|\{\.pod\.metadata\.name\}|\{\.object\.\PC{0,9}\})",
        object in json_values(),
        named in ("(ns|x)", "(ns|x)"),
    ) {
        for data in [TemplateData::of(object), pod(&named.0, &named.1)] {
            if let Ok(resource) = render(&text, &data) {
                let metadata = &data.object()["metadata"];
                let own = format!("/{}/{}", metadata["namespace"].as_str().unwrap(), metadata["name"].as_str().unwrap());
                prop_assert!(resource.ends_with(&own), "{resource}");
            }
        }
    }
}
