//! The sample classes: each is a class of the API, and the tools can read its files.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

use std::{fs, path::Path};

use connector_files::{FileConflict, FileContext, FileRequest, FileSet, Tool, render};
use connectors_api::{Connector, ConnectorClass};
use jiff::Timestamp;
use serde_json::{Value, json};

const TOKEN: &str = "head.claims-1_2.signature";
const PEM: &str = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";

fn class(name: &str) -> ConnectorClass {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/connectorclasses");
    let text = fs::read_to_string(folder.join(name).with_extension("yaml")).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

fn connector(name: &str, with_proxy: bool) -> Connector {
    let status = with_proxy.then(
        || json!({"proxy": {"httpAddress": {"url": "http://proxy.tools:80", "CACerts": PEM}}}),
    );
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "tools"},
        "spec": {"connectorClassName": "x", "address": format!("https://{name}.example.com:8443")},
        "status": status,
    }))
    .unwrap()
}

/// The files of one configuration, for two connectors.
fn files(class_name: &str, configuration: &str, params: &Value, with_proxy: bool) -> FileSet {
    let class = class(class_name);
    let connectors = ["one", "two"].map(|name| connector(name, with_proxy));
    let addresses = connectors
        .each_ref()
        .map(|it| it.spec.address.clone().unwrap());
    let tools = [0, 1].map(|number| Tool {
        connector: &connectors[number],
        class: Some(&class),
        address: &addresses[number],
    });
    let params = json!({configuration: params}).to_string();
    let request = FileRequest::parse(Some(configuration), Some(&params)).unwrap();
    let context = FileContext {
        token: Some(TOKEN),
        now: Timestamp::UNIX_EPOCH,
        conflict: FileConflict::Refuse,
    };
    render(&request, &tools, &context).unwrap()
}

#[test]
fn docker_reads_a_login_for_each_registry() {
    for with_proxy in [false, true] {
        let files = files("docker", "docker", &json!({"user": "ann"}), with_proxy);
        let config: Value = serde_json::from_str(files.get("config.json").unwrap()).unwrap();
        // "ann:" and the token.
        let auth = "YW5uOmhlYWQuY2xhaW1zLTFfMi5zaWduYXR1cmU=";
        let expected = json!({"auths": {
            "one.example.com:8443": {"auth": auth}, "two.example.com:8443": {"auth": auth},
        }});
        assert_eq!(config, expected);
    }
}

#[test]
fn git_reads_a_login_for_each_host() {
    let files = files("git", "git", &json!({}), true);
    let words: Vec<_> = files.get(".netrc").unwrap().split_whitespace().collect();
    let of = |host| ["machine", host, "login", "pod", "password", TOKEN];
    assert_eq!(
        words,
        [of("one.example.com"), of("two.example.com")].concat()
    );
    let config = files.get(".gitconfig").unwrap();
    for line in [
        "[credential \"https://one.example.com:8443\"]",
        "sslCAInfo = ~/ca.crt",
    ] {
        assert!(config.contains(line), "{config}");
    }
}

#[test]
fn kubectl_reads_a_context_for_each_cluster() {
    for with_proxy in [false, true] {
        let files = files(
            "kubernetes",
            "kubeconfig",
            &json!({"namespace": "shop"}),
            with_proxy,
        );
        let config: Value = serde_yaml::from_str(files.get("kubeconfig").unwrap()).unwrap();
        assert_eq!(config["current-context"], "one");
        assert_eq!(
            config["clusters"][1]["cluster"]["server"],
            "https://two.example.com:8443"
        );
        let certificate = &config["clusters"][0]["cluster"]["certificate-authority-data"];
        assert_eq!(certificate.is_string(), with_proxy);
        assert_eq!(config["users"][0]["user"]["token"], TOKEN);
        let context = json!({"cluster": "two", "user": "pod", "namespace": "shop"});
        assert_eq!(config["contexts"][1]["context"], context);
    }
}

#[test]
fn maven_reads_a_server_for_each_repository_and_no_value_breaks_its_xml() {
    let params = json!({"user": "a<b>&\"c\"", "mirrorOf": "central,!own"});
    let files = files("maven", "maven", &params, false);
    let xml = files.get("settings.xml").unwrap();
    for part in [
        "<mirrorOf>central,!own</mirrorOf>",
        "<url>https://one.example.com:8443</url>",
        "<username>a&lt;b&gt;&amp;&#34;c&#34;</username>",
        "<id>two</id>",
        &format!("<password>{TOKEN}</password>"),
    ] {
        assert!(xml.contains(part), "{part} is not in {xml}");
    }
    let open = xml.matches('<').count();
    assert_eq!(open, xml.matches('>').count());
    assert_eq!(open, 2 * xml.matches("</").count());
}

#[test]
fn curl_reads_the_address_and_the_token() {
    for with_proxy in [false, true] {
        let files = files("http", "curl", &json!({"path": "/api/v1"}), with_proxy);
        let config = files.get("curl.conf").unwrap();
        // The built-in `.curlrc` has the proxy, with its login.
        let lines = [
            "url = \"https://one.example.com:8443/api/v1\"".to_owned(),
            format!("header = \"Authorization: Bearer {TOKEN}\""),
        ];
        assert_eq!(config.trim_end().lines().collect::<Vec<_>>(), lines);
    }
}

/// A class without a test stops working unseen.
#[test]
fn every_sample_class_has_a_test() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/connectorclasses");
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    let tested = ["docker", "git", "http", "kubernetes", "maven"];
    assert_eq!(names, tested.map(|it| format!("{it}.yaml")));
}
