//! The token that the kubelet hands to the driver appears nowhere else, and no private key does.

use std::fs;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use e2e::api::kinds::{ACCESS_POLICY, ACCESS_REQUEST, EVENT, POD, SECRET};
use e2e::harness::say;
use serde_json::Value;

use crate::support::{Approval, Gate, Installation};

#[test]
fn no_token_and_no_private_key_is_found_in_logs_events_status_metrics_or_on_the_disk() {
    let gate = Gate::alone("tokens");
    let installation = Installation::of(&gate);
    gate.create_policy("release", Approval::SignOff);
    gate.start_pod("job");
    gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.wait_for_output("job");

    let mut told = installation.logs().unwrap();
    told.extend(installation.metrics().unwrap());
    for kind in [EVENT, ACCESS_REQUEST, ACCESS_POLICY, POD] {
        let objects = gate.api().list_everywhere(kind).unwrap();
        assert!(!objects.is_empty(), "there is no {kind}");
        told.push((kind.to_string(), Value::from(objects).to_string()));
    }
    assert!(
        told.len() >= 7,
        "too few places were searched: {}",
        told.len()
    );
    told.extend(on_disk(&gate));
    let keys = private_keys(&installation);
    assert!(!keys.is_empty(), "the installation has no private key");
    for (place, text) in told {
        assert!(!text.is_empty(), "{place} says nothing at all");
        assert_eq!(tokens(&text), Vec::<&str>::new(), "in {place}");
        let told = keys.iter().filter(|line| text.contains(line.as_str()));
        assert_eq!(told.count(), 0, "a private key stands in {place}");
    }
}

/// The files of the kubelet on the node's disk, with what it noted about volumes. What is mounted below is not seen from
/// here.
fn on_disk(gate: &Gate) -> Vec<(String, String)> {
    let Some(cluster) = gate.scene().cluster() else {
        say("not searched: the disk of this node cannot be read from here");
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut dirs = vec![cluster.kubelet_dir()];
    while let Some(dir) = dirs.pop() {
        // Other pods end meanwhile.
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                dirs.push(path);
            } else if kind.is_file() {
                let text = fs::read(&path).unwrap_or_default();
                let text = String::from_utf8_lossy(&text).into_owned();
                found.push((path.display().to_string(), text));
            }
        }
    }
    let uid = gate.pod_uid("job");
    let noted =
        |(path, _): &(String, String)| path.contains(&uid) && path.ends_with("vol_data.json");
    assert!(
        found.iter().any(noted),
        "the pod's volume is not on the disk"
    );
    // An empty file holds nothing.
    found.retain(|(_, text)| !text.is_empty());
    found
}

/// The private keys of the installation as their Secrets have them, and each line of them: a part is told as well as all.
fn private_keys(installation: &Installation<'_>) -> Vec<String> {
    let secrets = installation.api().list(SECRET, "").unwrap();
    let values = secrets
        .iter()
        .filter_map(|it| it["data"].as_object())
        .flat_map(|it| it.values())
        .filter_map(Value::as_str);
    let found = values.flat_map(|encoded| {
        let key = STANDARD.decode(encoded).unwrap_or_default();
        let key = String::from_utf8(key).unwrap_or_default();
        let is_key = key.contains("PRIVATE KEY");
        let lines = key
            .lines()
            .filter(|it| it.len() > 40 && !it.starts_with('-'));
        let all = lines.map(str::to_owned).chain([encoded.to_owned()]);
        all.filter(|_| is_key).collect::<Vec<_>>()
    });
    found.collect()
}

/// Everything that looks like a signed token: three parts of base64, of which the first is a JSON object.
fn tokens(text: &str) -> Vec<&str> {
    let is_part = |part: &&str| {
        part.len() > 8
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    text.split(|letter: char| !(letter.is_ascii_alphanumeric() || "-_.".contains(letter)))
        .filter(|word| word.starts_with("eyJ"))
        .filter(|word| word.split('.').count() == 3 && word.split('.').all(|part| is_part(&part)))
        .collect()
}

#[test]
fn a_token_would_be_found() {
    let token = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOlsieCJdfQ.c2lnbmF0dXJlLWhlcmU";
    let line = format!(r#"level=info token="{token}" other"#);
    assert_eq!(tokens(&line), [token]);
    assert_eq!(tokens("eyJub3QtYS10b2tlbg and a.b.c"), Vec::<&str>::new());
}
