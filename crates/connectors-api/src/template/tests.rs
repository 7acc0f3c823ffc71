use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::json_values;

fn render(template: &str, object: Value) -> Result<String, RenderProblem> {
    let template = Template::parse(template).unwrap();
    template
        .render(&TemplateData::of(object), &mut Budget::default())
        .map_err(|error| error.problem)
}

/// A value nested `depth` deep under the name `a`.
fn nested(depth: usize) -> Value {
    (0..depth).fold(json!("end"), |inner, _| json!({"a": inner}))
}

#[test]
fn a_path_without_object_or_name_has_an_error_of_its_own() {
    use TemplateProblem::{Descendants, NoPath, Root};
    for (template, problem) in [
        ("{}", NoPath),
        ("{ }", NoPath),
        ("{$}", Root),
        ("{@}", Root),
        ("{.*}", Root),
        ("{..name}", Root),
        ("{.objects.name}", Root),
        ("{.Object.name}", Root),
        ("{.podx.name}", Root),
        ("{.pod.pod.name}", Root),
        ("{.object.pod['pod'].name}", Root),
        ("{..}", Descendants),
        ("{.object..}", Descendants),
        ("{.object...name}", Descendants),
    ] {
        let error = Template::parse(template).unwrap_err();
        assert_eq!(error.problem, problem, "{template}");
    }
}

#[test]
fn an_error_names_the_path_and_no_value() {
    let template = Template::parse("a{.object.metadata.name}-{.pod.metadata.labels.x}").unwrap();
    let object = json!({"metadata": {"name": "n", "labels": {"x": ["secret"]}}});
    let error = template
        .render(&TemplateData::of(object), &mut Budget::default())
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "{.pod.metadata.labels.x}: must be a string, not a list"
    );
}

#[test]
fn an_error_says_where() {
    let error = Template::parse("größe-{.object.metadata|x}").unwrap_err();
    assert_eq!(error.at, 24);
    assert_eq!(error.problem, TemplateProblem::Unexpected('|'));
}

#[test]
fn a_template_is_no_longer_than_its_field() {
    assert!(Template::parse(&"x".repeat(1024)).is_ok());
    let error = Template::parse(&"x".repeat(1025)).unwrap_err();
    assert_eq!(error.problem, TemplateProblem::TooLong);
}

#[test]
fn a_slice_needs_no_number_and_a_number_needs_a_digit() {
    let parse = |brackets: &str| Template::parse(&format!("{{.object.list[{brackets}]}}"));
    let longest = "9".repeat(15);
    for brackets in ["0", "-1", ":", ":2", "1:", "-2:", "::1", &longest] {
        assert!(parse(brackets).is_ok(), "{brackets}");
    }
    let too_long = format!("{longest}9");
    for brackets in ["-", "-:", ":-", "1:-", "::-", &too_long] {
        let error = parse(brackets).unwrap_err();
        assert_eq!(error.problem, TemplateProblem::Number, "{brackets}");
    }
}

#[test]
fn a_path_has_a_bounded_number_of_steps() {
    let path = |steps: usize| format!("{{.object{}}}", ".a".repeat(steps - 1));
    assert_eq!(Template::parse(&path(32)).unwrap().steps(), 32);
    let error = Template::parse(&path(33)).unwrap_err();
    assert_eq!(error.problem, TemplateProblem::TooManySteps);
    // The contents of brackets and filters count, too.
    for (text, steps) in [
        ("{.object['a','b','c']}", 4),
        ("{.object.items[?(@.a.b==\"x\")].c}", 6),
        ("{.object..a}-{.object.*}", 4),
        ("fixed", 0),
    ] {
        assert_eq!(Template::parse(text).unwrap().steps(), steps, "{text}");
    }
}

#[test]
fn a_fixed_text_depends_on_nothing() {
    assert!(Template::parse("fixed").unwrap().is_fixed());
    assert!(Template::parse("{'fixed'}").unwrap().is_fixed());
    assert!(!Template::parse("x{.object.a}").unwrap().is_fixed());
}

#[test]
fn each_spelling_of_a_root_has_one_canonical_form() {
    for (written, canonical) in [
        ("{.object.name}", "{.object.name}"),
        ("{.object.pod.name}", "{.object.metadata.name}"),
        ("{.pod.name}", "{.object.metadata.name}"),
        ("{.pod.namespace}", "{.object.metadata.namespace}"),
        ("{.pod.spec}", "{.object.spec}"),
        // Only the name itself is another spelling.
        ("{.pod.name.first}", "{.object.name.first}"),
        ("{.pod.name[0]}", "{.object.name[0]}"),
        ("{.pod..name}", "{.object..name}"),
        // A name that cannot follow two dots.
        ("{.pod..['-name']}", "{.object..['-name']}"),
    ] {
        let found = Template::parse(written).unwrap().to_string();
        assert_eq!(found, canonical, "{written}");
    }
}

#[test]
fn a_filter_compares_an_item_at_a_place_with_its_type_alone() {
    let compared = |index: i64, literal: &str, item: Value| {
        let template = format!("{{.object.list[?(@[{index}]=={literal})][0]}}");
        render(&template, json!({"list": [item]}))
    };
    let number = Err(RenderProblem::Comparison("a number"));
    for (index, item) in [
        (0, json!([7, "x", "x"])),
        (1, json!(["x", 7, "x"])),
        (-1, json!(["x", "x", 7])),
        (-3, json!([7, "x", "x"])),
    ] {
        assert_eq!(compared(index, "\"x\"", item), number, "{index}");
    }
    assert_eq!(
        compared(-1, "7", json!(["found", "x", 7])),
        Ok("found".to_owned())
    );
}

#[test]
fn a_brace_that_is_text_stays_text_in_the_canonical_form() {
    for (text, canonical) in [
        (
            "a{'{.object.pod.metadata.name}'}",
            "a{'{'}.object.pod.metadata.name}",
        ),
        ("{\"{\"}{.pod.name}", "{'{'}{.object.metadata.name}"),
    ] {
        let template = Template::parse(text).unwrap();
        assert_eq!(template.to_string(), canonical);
        let again = Template::parse(canonical).unwrap();
        assert_eq!(again.to_string(), canonical);
        let data = TemplateData::of(json!({"metadata": {"name": "n"}}));
        assert_eq!(
            again.render(&data, &mut Budget::default()),
            template.render(&data, &mut Budget::default())
        );
    }
}

#[test]
fn many_templates_take_no_longer_than_one() {
    let template = Template::parse("{.object..name}").unwrap();
    let object = json!({"name": "n", "list": vec![0; 30_000]});
    let (data, mut budget) = (TemplateData::of(object), Budget::default());
    for _ in 0..3 {
        assert_eq!(template.render(&data, &mut budget).unwrap(), "n");
    }
    let error = template.render(&data, &mut budget).unwrap_err();
    assert_eq!(error.problem, RenderProblem::TooMuch);
}

#[test]
fn no_template_takes_as_long_as_its_author_likes() {
    let descents = format!("{{.object{}}}", "..a".repeat(31));
    let unions = format!("{{.object{}..a}}", "['a','a','a']".repeat(9));
    let filters = format!("{{.object{}.list[?(@.x==\"y\")]}}", "['a','a']".repeat(12));
    let list: Vec<_> = (0..1000).map(|_| json!({"x": "z"})).collect();
    let mut deep = json!({"list": list});
    for _ in 0..12 {
        deep = json!({"a": deep});
    }
    for (template, object) in [
        (&descents, nested(120)),
        (&unions, nested(120)),
        (&filters, deep),
    ] {
        assert_eq!(
            render(template, object),
            Err(RenderProblem::TooMuch),
            "{template}"
        );
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,60}") {
        let _ = Template::parse(&text);
    }

    #[test]
    fn no_template_like_text_panics_on_any_object(
        text in r#"\{\.(object|pod)([.\[\]'"*:,\\?()@=!<>{} $0-9a-c-]|\.metadata|\.name|\['|'\]|\[\?\(@\.a==|\.\.){0,12}\}?"#,
        object in json_values(),
    ) {
        if let Ok(template) = Template::parse(&text) {
            if let Ok(rendered) = template.render(&TemplateData::of(object.clone()), &mut Budget::default()) {
                prop_assert!(!rendered.is_empty());
            }
            // The canonical form has the same meaning.
            let again = Template::parse(&template.to_string()).unwrap();
            prop_assert_eq!(again.to_string(), template.to_string());
            prop_assert_eq!(
                again.render(&TemplateData::of(object.clone()), &mut Budget::default()).map_err(|error| error.problem),
                template.render(&TemplateData::of(object), &mut Budget::default()).map_err(|error| error.problem)
            );
        }
    }

    /// No name can be mistaken for another, however it is quoted for the engine.
    #[test]
    fn every_name_that_can_be_written_is_found(name in "[^\\\\\\p{Cc}]{1,12}") {
        let escaped: String = name.chars().flat_map(|letter| ['\\', letter]).collect();
        let object = json!({name.clone(): "found", "other": "x"});
        prop_assert_eq!(render(&format!("{{.object.{escaped}}}"), object.clone()), Ok("found".to_owned()));
        if !name.contains(path::breaks_key) {
            for quote in ['\'', '"'] {
                let text = format!("{{.object[{quote}{escaped}{quote}]}}");
                prop_assert_eq!(render(&text, object.clone()), Ok("found".to_owned()));
            }
        }
    }

    #[test]
    fn every_text_that_can_be_written_is_compared_whole(text in "[^\\p{Cc}]{0,12}", other in "[^\\p{Cc}]{0,3}") {
        let quoted = text.replace('\\', r"\\").replace('"', "\\\"");
        let object = json!({"list": [{"x": text, "name": "found"}, {"x": format!("{text}{other}!"), "name": "other"}]});
        let template = format!("{{.object.list[?(@.x==\"{quoted}\")].name}}");
        prop_assert_eq!(render(&template, object), Ok("found".to_owned()));
    }
}
