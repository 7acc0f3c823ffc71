//! The properties hold for every input of the fuzzer's corpus.

use std::{fs, path::Path};

use input_properties::{class_template, lineage, protobuf, rego, template};

fn inputs(target: &str) -> Vec<(String, Vec<u8>)> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let files = fs::read_dir(corpus.join(target)).unwrap();
    let inputs: Vec<_> = files
        .map(|file| file.unwrap().path())
        .map(|path| (path.display().to_string(), fs::read(&path).unwrap()))
        .collect();
    assert!(!inputs.is_empty(), "{target}");
    inputs
}

fn hold(target: &str, property: fn(&[u8])) {
    for (name, input) in inputs(target) {
        println!("{name}");
        property(&input);
    }
}

#[test]
fn the_properties_of_lineages_hold_for_the_corpus() {
    hold("lineage", lineage::check);
}

#[test]
fn the_properties_of_messages_hold_for_the_corpus() {
    hold("protobuf", protobuf::check);
}

#[test]
fn the_properties_of_templates_hold_for_the_corpus() {
    hold("template", template::check);
}

#[test]
fn the_properties_of_templates_of_classes_hold_for_the_corpus() {
    hold("class-template", class_template::check);
}

/// The fuzzer alone tries the modules that take more time, memory or stack than there is: they end its process.
#[test]
fn the_properties_of_modules_hold_for_the_corpus() {
    for (name, input) in inputs("rego") {
        if !name.contains("/bomb-") {
            println!("{name}");
            rego::check(&input);
        }
    }
}
