//! The forms of the output.

use kubectl_connectors::output::Colours;
use serde_json::Value;
use testkit::Caller;

use crate::cluster::{Cluster, change};

const EXPLAIN: [&str; 4] = ["explain", "pod/build-1", "-n", "team-a"];

fn all_texts() -> [Option<&'static str>; 3] {
    [None, Some("json"), Some("yaml")]
}

#[tokio::test]
async fn no_form_shows_more_of_an_object_than_it_is_asked_for() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    for form in all_texts() {
        let args = EXPLAIN.iter().copied();
        let args: Vec<_> = args.chain(form.iter().flat_map(|it| ["-o", it])).collect();
        let outcome = cluster.run(&args).await;
        assert!(outcome.output.contains("chg-42"), "{}", outcome.output);
        assert!(!outcome.output.contains("hunter2"), "{}", outcome.output);
    }
}

#[tokio::test]
async fn yaml_and_json_say_the_same() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("pending")));
    let json = cluster.explained().await;
    let args: Vec<_> = EXPLAIN.iter().copied().chain(["-o", "yaml"]).collect();
    let yaml: Value = serde_yaml::from_str(&cluster.run(&args).await.output).unwrap();
    assert_eq!(yaml, json);
}

#[tokio::test]
async fn colours_and_control_characters_reach_a_terminal_only_from_the_plugin_itself() {
    let cluster = Cluster::waiting();
    cluster.put(change("chg-42", Some("wait\u{1b}[2J")));
    let outcome = cluster.run(&EXPLAIN).await;
    assert!(!outcome.output.contains('\u{1b}'), "{:?}", outcome.output);
    let admin = Caller::admin();
    let outcome = cluster.run_coloured(&admin, &EXPLAIN, Colours::On).await;
    assert!(
        outcome.output.contains("\u{1b}[33m"),
        "{:?}",
        outcome.output
    );
    assert!(
        !outcome.output.contains("\u{1b}[2J"),
        "{:?}",
        outcome.output
    );
}
