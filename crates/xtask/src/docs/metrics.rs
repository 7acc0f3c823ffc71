//! The families of metrics, read from the code that registers them.

use std::collections::BTreeMap;

use super::tree::{self, is_snake};

/// A family of metrics.
#[derive(Debug, PartialEq)]
pub(super) struct Family {
    name: String,
    labels: Vec<String>,
    help: String,
    /// The crates whose processes show it.
    of: Vec<String>,
}

impl Family {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// All families, in the order of the files that register them; those of `service-kit` are of the crates that name them.
pub(super) fn families(files: &BTreeMap<String, String>) -> Vec<Family> {
    let sources = tree::sources(files).into_iter();
    let shipped: Vec<(&str, &str)> = sources.map(|it| (it.member, it.code)).collect();
    let mut families = Vec::new();
    for (name, text) in &shipped {
        if !["families! {", ".register(Box::new("]
            .iter()
            .any(|it| text.contains(it))
        {
            continue;
        }
        let kind = text
            .split("pub struct ")
            .nth(1)
            .and_then(|it| it.split(|at: char| !at.is_alphanumeric()).next());
        let shared = format!("{}::register", kind.unwrap_or_default());
        let of: Vec<String> = if *name == "service-kit" {
            let users = shipped.iter().filter(|(_, text)| text.contains(&shared));
            users.map(|(name, _)| (*name).to_owned()).collect()
        } else {
            vec![(*name).to_owned()]
        };
        families.extend(in_file(text, &of));
    }
    families
}

/// A family is a name, its help and perhaps `&["label", …]`, one behind the other.
fn in_file(text: &str, of: &[String]) -> Vec<Family> {
    // Strings and the text between them, in turn.
    let parts: Vec<&str> = text.split('"').collect();
    let is_family = |at: &usize| match parts[*at..] {
        [name, between, help, ..] => is_snake(name) && between.trim() == "," && help.contains(' '),
        _ => false,
    };
    let begins: Vec<usize> = (1..parts.len()).filter(is_family).collect();
    let ends = begins.iter().skip(1).copied().chain([parts.len()]);
    let family = |(begin, end): (&usize, usize)| {
        let behind = parts[begin + 3..end].join("\"");
        let statement = behind.split(';').next().unwrap_or_default();
        let labels = statement
            // Buckets are a list, too.
            .split_once("&[\"")
            .and_then(|(_, rest)| rest.split_once(']'));
        let labels = labels.map_or("", |(labels, _)| labels).split('"');
        Family {
            name: parts[*begin].to_owned(),
            labels: labels
                .filter(|it| is_snake(it))
                .map(ToOwned::to_owned)
                .collect(),
            help: parts[begin + 2].to_owned(),
            of: of.to_vec(),
        }
    };
    begins.iter().zip(ends).map(family).collect()
}

/// The table of the document.
pub(super) fn table(families: &[Family]) -> String {
    let rows = families.iter().map(|family| {
        let Family {
            name,
            labels,
            help,
            of,
        } = family;
        let labels: Vec<String> = labels.iter().map(|it| format!("`{it}`")).collect();
        let (labels, of) = (labels.join(", "), of.join(", "));
        format!("| `{name}` | {labels} | {help} | {of} |\n")
    });
    let head = "| metric | labels | what it tells | of |\n|---|---|---|---|\n";
    head.to_owned() + &rows.collect::<String>()
}

#[test]
fn families_are_read_with_their_labels_and_whose_they_are() {
    let file = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let files = BTreeMap::from([
        file(
            "crates/kit/src/metrics.rs",
            "let calls = counters(\n    \"kit_calls_total\",\n    \"Calls, by result\",\n    &[\"call\", \"result\"],\n)?;\n\
             let held = gauge(\"kit_held\", \"Calls that wait\")?;\nregistry.register(Box::new(held))?;\n\
             held.with_label_values(&[\"none\"]);",
        ),
        file(
            "crates/kit/src/waits.rs",
            "families! {\n    struct Waits {\n        waits: histograms(\"kit_wait_seconds\", \"How long calls wait\", &[0.1, 1.0], &[\"call\"]),\n\
             \n        open: gauge(\"kit_open\", \"Open calls\"),\n    }\n}",
        ),
        file("crates/kit/src/lib.rs", "TlsMetrics::register(registry)?;"),
        file(
            "crates/kit/src/oracle/service.rs",
            "TlsMetrics::register(&registry).unwrap();",
        ),
        file(
            "crates/kit/src/metrics/tests.rs",
            "registry.register(Box::new(gauge(\"kit_test\", \"A test\")))",
        ),
        file(
            "crates/service-kit/src/tls.rs",
            "pub struct TlsMetrics(IntCounterVec);\nOpts::new(\"tls_total\", \"Changes of files\"); registry.register(Box::new(it))",
        ),
    ]);
    assert_eq!(
        table(&families(&files)),
        "| metric | labels | what it tells | of |\n|---|---|---|---|\n\
         | `kit_calls_total` | `call`, `result` | Calls, by result | kit |\n\
         | `kit_held` |  | Calls that wait | kit |\n\
         | `kit_wait_seconds` | `call` | How long calls wait | kit |\n\
         | `kit_open` |  | Open calls | kit |\n\
         | `tls_total` |  | Changes of files | kit |\n"
    );
}
