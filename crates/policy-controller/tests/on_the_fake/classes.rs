//! The authors of classes are told about templates that cannot be parsed.

use std::time::Duration;

use policy_controller::classes::PAUSE;
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::support::{Cluster, soon};

fn class(cluster: &Cluster, name: &str, files: Value) {
    cluster.put(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "ConnectorClass",
        "metadata": {"name": name}, "spec": {"configurations": [{"name": "docker", "data": files}]},
    }));
}

fn edit(cluster: &Cluster, name: &str, files: &Value) {
    cluster.server.change("connectorclasses", "", name, |it| {
        it["spec"]["configurations"][0]["data"] = files.clone();
    });
}

fn unreadable(file: &str, function: &str) -> String {
    format!(
        "TemplatesUnreadable: no pod gets the file of such a template: 1 template cannot be parsed: configuration \
         `docker`: {file}: at <{function}>: function \"{function}\" not defined"
    )
}

#[tokio::test(start_paused = true)]
async fn authors_of_classes_are_told_about_templates_once_and_when_they_are_mended() {
    let cluster = Cluster::new();
    class(
        &cluster,
        "good",
        json!({"a": "{{ .connector.spec.address | upper }}"}),
    );
    class(&cluster, "bad", json!({"config.json": "{\n{{ nosuch }}}"}));
    let process = cluster.start("one");
    soon().await;
    let first = unreadable("config.json:2:4", "nosuch");
    assert_eq!(cluster.events(), [first.as_str()]);

    // A change of something else, and then of the mistake.
    cluster.server.change("connectorclasses", "", "bad", |it| {
        it["metadata"]["labels"] = json!({"team": "a"});
    });
    soon().await;
    assert_eq!(cluster.events().len(), 1);
    edit(&cluster, "bad", &json!({"config.json": "{{ other }}"}));
    soon().await;
    edit(&cluster, "bad", &json!({"config.json": "{{ now }}"}));
    soon().await;
    let second = unreadable("config.json:1:4", "other");
    let mended = "TemplatesReadable: all templates can be parsed";
    assert_eq!(cluster.events(), [first.as_str(), second.as_str(), mended]);

    // The next leader has nothing to tell.
    cluster.kill(&process);
    let _next = cluster.start("two");
    sleep(Duration::from_mins(2)).await;
    assert_eq!(cluster.events().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_class_costs_one_event_however_much_is_wrong_and_however_often_it_is_written() {
    let cluster = Cluster::new();
    let files = (0..1_000).map(|it| (format!("{it:04}"), json!("{{ nosuch }}")));
    class(
        &cluster,
        "many",
        Value::Object(files.collect::<Map<_, _>>()),
    );
    let _process = cluster.start("one");
    soon().await;
    let events = cluster.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].contains("1000 templates"), "{events:?}");
    assert!(events[0].len() < 1_024, "{events:?}");

    // A hundred writes within ten seconds, each with another mistake.
    for number in 0..100 {
        edit(
            &cluster,
            "many",
            &json!({"a": format!("{{{{ f{number} }}}}")}),
        );
        sleep(PAUSE / 10).await;
    }
    soon().await;
    let events = cluster.events();
    assert!((2..=13).contains(&events.len()), "{events:?}");
    assert_eq!(events.last(), Some(&unreadable("a:1:4", "f99")));
}
