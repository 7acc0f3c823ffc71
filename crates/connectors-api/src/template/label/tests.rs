use serde_json::{Value, json};

use super::*;
use crate::template::{RenderProblem, TemplateProblem};

fn labels(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn pod(labels: &Value) -> TemplateData {
    TemplateData::of(json!({"metadata": {"namespace": "ns", "name": "pod", "labels": labels}}))
}

const RUN: (&str, &str) = (
    "tekton.dev/pipelineRun",
    r#"{.object.metadata.labels["tekton\.dev/pipelineRun"]}"#,
);

#[test]
fn a_selector_of_the_source_document_is_filled() {
    let stage = (
        "tekton.dev/stageName",
        r#"{.object.metadata.labels["tekton\.dev/stageName"]}"#,
    );
    let templates = LabelTemplates::parse(&labels(&[RUN, stage, ("fixed", "yes")])).unwrap();
    let rendered = templates
        .render(
            &pod(&json!({"tekton.dev/pipelineRun": "run-1", "tekton.dev/stageName": "prod"})),
            &mut Budget::default(),
        )
        .unwrap();
    assert_eq!(
        rendered.to_string(),
        "fixed=yes,tekton.dev/pipelineRun=run-1,tekton.dev/stageName=prod"
    );
    let all = [
        (RUN.0, "run-1"),
        (stage.0, "prod"),
        ("fixed", "yes"),
        ("more", "x"),
    ];
    let matches = |labels: &BTreeMap<String, String>| {
        rendered.match_found(|key| labels.get(key).map(String::as_str))
    };
    assert!(matches(&labels(&all)));
    for missing in 0..3 {
        let mut most = all.to_vec();
        most.remove(missing);
        assert!(!matches(&labels(&most)), "{missing}");
    }
    assert!(!matches(&labels(&[
        (RUN.0, "run-10"),
        (stage.0, "prod"),
        ("fixed", "yes")
    ])));
    assert!(!matches(&BTreeMap::new()));
}

#[test]
fn no_selector_selects_everything() {
    assert_eq!(
        LabelTemplates::parse(&BTreeMap::new()).unwrap_err(),
        LabelTemplatesError::NoLabels
    );
}

#[test]
fn one_label_that_cannot_be_filled_leaves_no_selector() {
    let templates = LabelTemplates::parse(&labels(&[("fixed", "yes"), RUN])).unwrap();
    for (value, problem) in [
        (json!({}), RenderProblem::NoLabel(RUN.0.to_owned())),
        (json!(null), RenderProblem::NoLabel(RUN.0.to_owned())),
        (
            json!({"tekton.dev/pipelineRun": null}),
            RenderProblem::NotText("null"),
        ),
        (json!({"tekton.dev/pipelineRun": ""}), RenderProblem::Empty),
        (
            json!({"tekton.dev/pipelineRun": 1}),
            RenderProblem::NotText("a number"),
        ),
        (
            json!({"tekton.dev/pipelineRun": ["run-1"]}),
            RenderProblem::NotText("a list"),
        ),
    ] {
        let error = templates
            .render(&pod(&value), &mut Budget::default())
            .unwrap_err();
        let expected = RenderError {
            path: RUN.1.to_owned(),
            problem,
        };
        assert_eq!(
            error,
            RenderLabelsError::Render {
                key: RUN.0.to_owned(),
                error: expected
            },
            "{value}"
        );
    }
}

#[test]
fn a_value_that_is_no_label_value_is_refused_and_not_shown() {
    let templates =
        LabelTemplates::parse(&labels(&[("a", "{.object.metadata.annotations.x}")])).unwrap();
    for value in [
        "a b",
        "a,b",
        "x=y",
        "-",
        "a-",
        " a",
        "ä",
        "a\nb",
        &"a".repeat(64),
    ] {
        let data = TemplateData::of(json!({"metadata": {"annotations": {"x": value}}}));
        let error = templates.render(&data, &mut Budget::default()).unwrap_err();
        assert!(matches!(error, RenderLabelsError::Value { .. }), "{value}");
        assert_eq!(
            error.to_string(),
            format!("a: {{.object.metadata.annotations.x}}: {LabelValueError}")
        );
    }
}

#[test]
fn what_cannot_be_a_label_is_refused_before_there_is_a_pod() {
    use LabelTemplatesError::{Key, Template, Value};
    for (key, text, error) in [
        ("", "x", Key(String::new())),
        ("a,b", "x", Key("a,b".to_owned())),
        ("!a", "x", Key("!a".to_owned())),
        (
            "a",
            "x y",
            Value {
                key: "a".to_owned(),
                error: LabelValueError,
            },
        ),
        (
            "a",
            "}",
            Value {
                key: "a".to_owned(),
                error: LabelValueError,
            },
        ),
        (
            "a",
            "",
            Template {
                key: "a".to_owned(),
                error: TemplateError {
                    at: 1,
                    problem: TemplateProblem::Empty,
                },
            },
        ),
    ] {
        assert_eq!(
            LabelTemplates::parse(&labels(&[(key, text)])).unwrap_err(),
            error
        );
    }
}

#[test]
fn warnings_name_their_label() {
    let templates = LabelTemplates::parse(&labels(&[
        ("a", "{.pod.metadata.name}"),
        ("b", "{.object.metadata.name}"),
    ]))
    .unwrap();
    let warning = Warning {
        written: "{.pod.metadata.name}".to_owned(),
        canonical: "{.object.metadata.name}".to_owned(),
    };
    assert_eq!(templates.warnings(), [("a", warning)]);
}
