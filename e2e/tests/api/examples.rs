//! Every example of the source document behaves on a real API server as its first lines say.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Refusal, Scene, documents, files, scene};

/// The namespace that the document's examples are written in.
const NAMESPACE: &str = "devops-ns1";

/// The `# outcome:` line of an example.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Applies,
    Refused(String),
    Denied,
}

#[tokio::test]
async fn every_example_ends_as_it_says() {
    let mut wrong = Vec::new();
    for file in files("e2e/examples/source") {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let scene = scene("example").await;
        for document in documents(&text.replace(NAMESPACE, &scene.namespace)) {
            if let Err(why) = check(&scene, &document, &outcome(&name, &text)).await {
                wrong.push(format!("{name}: {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_refused_has_a_corrected_sibling() {
    for file in files("e2e/examples/source") {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let is_refused = matches!(
            outcome(&name, &fs::read_to_string(&file).unwrap()),
            Outcome::Refused(_)
        );
        let sibling = file.with_extension("corrected.yaml");
        assert_eq!(is_refused, sibling.exists(), "{name}");
        if is_refused {
            assert_eq!(
                outcome(&name, &fs::read_to_string(sibling).unwrap()),
                Outcome::Applies
            );
        }
    }
}

fn outcome(file: impl AsRef<Path>, text: &str) -> Outcome {
    let stated = text
        .lines()
        .find_map(|line| line.strip_prefix("# outcome: "));
    match stated {
        Some("applies") => Outcome::Applies,
        Some("denied") => Outcome::Denied,
        Some(other) if other.starts_with("refused: ") => {
            Outcome::Refused(other["refused: ".len()..].to_owned())
        }
        Some(_) | None => panic!("{} does not say its outcome", file.as_ref().display()),
    }
}

async fn check(scene: &Scene, document: &Value, outcome: &Outcome) -> Result<(), String> {
    match (outcome, submit(scene, document).await) {
        (Outcome::Applies, Ok(_)) => Ok(()),
        (Outcome::Denied, Ok(review)) if review["status"]["allowed"] == false => Ok(()),
        (Outcome::Refused(message), Err(refusal)) if refusal.message.contains(message) => Ok(()),
        (_, Ok(object)) => Err(format!("the answer was {object}")),
        (_, Err(refusal)) => Err(refusal.message),
    }
}

/// Creates the object, and then its status if it has one, which must come back as it was written.
async fn submit(scene: &Scene, document: &Value) -> Result<Value, Refusal> {
    let created = scene.create(document).await?;
    if document["status"].is_null() {
        return Ok(created);
    }
    let mut with_status = created;
    with_status["status"] = document["status"].clone();
    let updated = scene.update_status(&with_status).await?;
    assert_eq!(updated["status"], document["status"]);
    Ok(updated)
}
