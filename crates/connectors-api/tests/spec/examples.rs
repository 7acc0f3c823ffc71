//! The examples of the source document, parsed by the types.

use std::fs;
use std::path::{Path, PathBuf};

use connectors_api::{AccessPolicy, AccessRequest, parse};
use serde::Deserialize;
use serde_json::Value;

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../e2e/examples/source");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

#[test]
fn every_example_that_applies_is_read() {
    let mut read = 0;
    for file in examples() {
        let text = fs::read_to_string(&file).unwrap();
        if !text.contains("# outcome: applies\n") {
            continue;
        }
        for document in serde_yaml::Deserializer::from_str(&text) {
            let object = Value::deserialize(document).unwrap();
            let result = match object["kind"].as_str().unwrap() {
                "AccessPolicy" => parse::object::<AccessPolicy>(&object).map(drop),
                "AccessRequest" => parse::object::<AccessRequest>(&object).map(drop),
                _ => continue,
            };
            assert_eq!(result, Ok(()), "{}", file.display());
            read += 1;
        }
    }
    assert!(read >= 14, "only {read} examples");
}
