//! Templates: a text, then perhaps the object that it is filled from.

use std::collections::BTreeMap;

use connectors_api::template::{
    Budget, LabelTemplates, LabelValue, ResourceTemplate, Template, TemplateData,
};
use serde_json::json;

use crate::{object, parts, pod};

/// A template gives the same text or error in each of its spellings, and takes its values only from the
/// object.
pub fn check(data: &[u8]) {
    let Some(mut parts) = parts(data) else { return };
    let text = parts.next().unwrap_or_default();
    let Some(object) = object(parts.next(), pod) else {
        return;
    };
    let data = TemplateData::of(object);
    if let Ok(template) = Template::parse(text) {
        let rendered = template.render(&data, &mut Budget::default());
        if !template.is_fixed() {
            assert!(rendered.as_ref().map_or(true, |text| !text.is_empty()));
            let nothing = template.render(&TemplateData::of(json!({})), &mut Budget::default());
            assert!(nothing.is_err(), "{text}: {nothing:?}");
        }
        let canonical = template.to_string();
        // The canonical spelling may be longer than another one, and too long for its field.
        if let Ok(again) = Template::parse(&canonical) {
            assert_eq!(again.to_string(), canonical);
            let problem = |rendered: Result<String, _>| {
                rendered.map_err(|error: connectors_api::template::RenderError| error.problem)
            };
            assert_eq!(
                problem(again.render(&data, &mut Budget::default())),
                problem(rendered),
                "{text}"
            );
        }
    }
    labels(text, &data);
    resource(text, &data);
}

/// A selector is never empty, and each of its values is one that a label can have.
fn labels(text: &str, data: &TemplateData) {
    let labels = BTreeMap::from([("run".to_owned(), text.to_owned())]);
    let Ok(labels) = LabelTemplates::parse(&labels) else {
        return;
    };
    if let Ok(rendered) = labels.render(data, &mut Budget::default()) {
        let rendered: Vec<_> = rendered.iter().collect();
        assert_eq!(rendered.len(), 1);
        for (_, value) in rendered {
            assert!(LabelValue::parse(value.as_str()).is_ok());
        }
    }
}

/// A resource is about the object that asks, and about nothing else.
fn resource(text: &str, data: &TemplateData) {
    let Ok(resource) = ResourceTemplate::parse(text) else {
        return;
    };
    if let Ok(resource) = resource.render(data) {
        let own = Template::parse("{.object.metadata.namespace}/{.object.metadata.name}");
        let own = own.map(|own| own.render(data, &mut Budget::default()));
        let own = own.expect("a template").expect("an object with a name");
        let resource = resource.to_string();
        assert!(resource.starts_with("connectors/"), "{resource}");
        assert!(resource.ends_with(&format!("/{own}")), "{resource}");
        assert!(!resource.contains('*'), "{resource}");
    }
}
