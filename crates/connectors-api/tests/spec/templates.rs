//! Templates compared with the output of kubectl.

use std::fs;
use std::path::{Path, PathBuf};

use connectors_api::template::{Budget, Template, TemplateData};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    template: String,
    kubectl: Option<String>,
    text: Option<String>,
    error: Option<String>,
    canonical: Option<String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/templates")
}

fn object() -> Value {
    let text = fs::read_to_string(folder().join("object.yaml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

fn cases() -> Vec<Case> {
    let files = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let tables = files.filter(|path| path.file_stem().unwrap() != "object");
    let read = |path: PathBuf| -> Vec<Case> {
        serde_yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap()
    };
    tables.flat_map(read).collect()
}

fn render(template: &str, data: &TemplateData) -> Result<String, String> {
    let template = Template::parse(template).map_err(|error| error.to_string())?;
    template
        .render(data, &mut Budget::default())
        .map_err(|error| error.problem.to_string())
}

#[test]
fn a_template_gives_what_kubectl_prints_or_what_the_table_says() {
    let data = TemplateData::of(object());
    let mut read = 0;
    for case in cases() {
        let expected = match (&case.error, &case.text) {
            (Some(error), None) => Err(error.clone()),
            (None, Some(text)) => Ok(text.clone()),
            (None, None) => Ok(case.kubectl.clone().unwrap()),
            (Some(_), Some(_)) => panic!("{}: text or error", case.template),
        };
        assert_eq!(render(&case.template, &data), expected, "{}", case.template);
        read += 1;
    }
    assert!(read > 200, "only {read} cases");
}

#[test]
fn only_spellings_that_kubectl_does_not_know_are_warned_about() {
    let data = TemplateData::of(object());
    for Case {
        template,
        canonical,
        ..
    } in cases()
    {
        let Ok(parsed) = Template::parse(&template) else {
            continue;
        };
        let warnings = parsed.warnings();
        let advised = warnings.first().map(|warning| warning.canonical.clone());
        assert_eq!(advised, canonical, "{template}");
        // The recommended spelling gives no warning, and has the same meaning.
        let again = Template::parse(&parsed.to_string()).unwrap();
        assert_eq!(again.warnings(), [], "{parsed}");
        assert_eq!(again.to_string(), parsed.to_string());
        assert_eq!(
            render(&parsed.to_string(), &data),
            render(&template, &data),
            "{template}"
        );
    }
}
