use serde_json::json;

use super::*;

fn of(configurations: &serde_json::Value) -> UnreadableTemplates {
    let spec = json!({"configurations": configurations});
    UnreadableTemplates::of(&serde_json::from_value(spec).unwrap())
}

#[test]
fn says_configuration_file_line_and_function() {
    let found = of(&json!([
        {"name": "good", "data": {"a": "{{ .connector.metadata.name | upper }}", "b": ""}},
        {"name": "docker", "data": {"config.json": "{\n{{ nosuch 1 }}\n}"}},
        {"name": "git", "data": {".netrc": "{{ if .x }}"}},
    ]));
    assert!(!found.is_empty());
    let text = found.to_string();
    let first = "2 templates cannot be parsed: configuration `docker`: config.json:2:4: at <nosuch>: \
        function \"nosuch\" not defined; ";
    assert!(text.starts_with(first), "{text}");
    assert!(text.contains("; configuration `git`: .netrc:1:"), "{text}");
}

#[test]
fn a_mistake_that_was_copied_is_counted_and_told_in_each_place() {
    let broken = json!({"a": "{{ nosuch }}", "b": "{{ nosuch }}"});
    let found = of(&json!([
        {"name": "docker", "data": broken},
        {"name": "podman", "data": {"a": "{{ nosuch }}"}},
    ]));
    let text = found.to_string();
    assert!(text.starts_with("3 templates cannot be parsed: "), "{text}");
    assert_eq!(text.matches("configuration `docker`: ").count(), 2);
    assert_eq!(text.matches("configuration `podman`: a:1").count(), 1);
}

#[test]
fn a_class_without_problems_is_empty() {
    let found = of(&json!([{"name": "a", "data": {"x": "{{ now }}"}}, {"name": "b"}]));
    assert!(found.is_empty());
}

#[test]
fn a_thousand_broken_templates_are_a_few_words_and_a_number() {
    let files = (0..1_000).map(|it| (format!("{it:04}"), json!("{{ nosuch }}")));
    let files: serde_json::Map<_, _> = files.collect();
    let text = of(&json!([{"name": "many", "data": files}])).to_string();
    assert!(
        text.starts_with("1000 templates cannot be parsed: "),
        "{text}"
    );
    assert_eq!(text.matches("configuration `many`").count(), MOST_TOLD);
    assert!(text.len() < 400, "{text}");
}

#[test]
fn long_names_and_line_ends_do_not_reach_the_text() {
    let name = "n\n".repeat(1_000);
    let text = of(&json!([{"name": name, "data": {name.as_str(): "{{"}}])).to_string();
    assert!(text.len() < 1_024 && !text.contains('\n'), "{text}");
}

#[test]
fn three_are_told_in_their_order_and_all_are_counted() {
    for count in 1..=5 {
        let each = (0..count).map(|it| {
            // What can be read stands between those that cannot.
            json!({"name": format!("c{it}"), "data": {"a": "good", "b": "{{ nosuch }}", "c": ""}})
        });
        let found = of(&each.collect());
        assert!(!found.is_empty());
        let told = (0..count.min(3)).map(|it| {
            format!("configuration `c{it}`: b:1:4: at <nosuch>: function \"nosuch\" not defined")
        });
        let noun = if count == 1 { "template" } else { "templates" };
        let told = told.collect::<Vec<_>>().join("; ");
        let expected = format!("{count} {noun} cannot be parsed: {told}");
        assert_eq!(found.to_string(), expected);
    }
    assert_eq!(of(&json!([])), UnreadableTemplates::default());
}

#[test]
fn a_text_is_as_long_as_a_volume_takes_in_bytes() {
    for letter in ["x", "ä", "🦀"] {
        let text = |bytes: usize| {
            let letters = letter.repeat(bytes / letter.len());
            letters + &"x".repeat(bytes % letter.len())
        };
        let many = |bytes| of(&json!([{"name": "a", "data": {"f": text(bytes)}}]));
        assert!(many(crate::MOST_BYTES).is_empty(), "{letter}");
        let found = many(crate::MOST_BYTES + 1).to_string();
        assert!(
            found.ends_with("the text is longer than 262144 bytes"),
            "{found}"
        );
    }
}

/// What is told without a pod is what a pod would be told.
#[test]
fn a_template_is_unreadable_exactly_if_no_pod_gets_a_file_from_it() {
    for (text, readable) in [
        ("", true),
        ("{{ .a.b.c }}", true),
        ("{{ .context.token }}", true),
        ("{{ fail \"x\" }}", true),
        ("{{ template \"nosuch\" }}", true),
        ("{{ if false }}{{ nosuch }}{{ end }}", false),
        ("{{ if .a }}", false),
        ("{{ end }}", false),
        ("{{ env \"HOME\" }}", false),
        ("{{ include \"a\" . }}", false),
        ("{{", false),
        ("}}", true),
        ("{{/* a */}}", true),
        ("{{ \"a }}", false),
        ("{{ $x }}", false),
    ] {
        let found = of(&json!([{"name": "a", "data": {"f": text}}]));
        assert_eq!(found.is_empty(), readable, "{text}: {found}");
    }
}
