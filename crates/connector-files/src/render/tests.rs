use std::collections::BTreeSet;

use connectors_api::Connector;
use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::limits::MOST_BYTES;

mod built_in;
mod data;
mod limits;
mod merge;
mod reference;
mod secrets;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A connector of a class, with a proxy if it has an address.
fn connector(name: &str, class: &str, proxy: Option<&str>) -> Connector {
    let status = proxy.map(|url| json!({"proxy": {"httpAddress": {"url": url, "CACerts": PEM}}}));
    serde_json::from_value(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector",
        "metadata": {"name": name, "namespace": "tools", "labels": {"team": "a"}},
        "spec": {"connectorClassName": class, "address": format!("https://{name}.example.com"),
            "params": [{"name": "project", "value": "shop"}]},
        "status": status,
    }))
    .unwrap()
}

const PEM: &str = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";

/// Leaves out every file about a proxy.
const ABOUT_A_PROXY: &str = "!connector.status.proxyAddress,!.env,!http.proxy,!https.proxy,!.curlrc,!context.proxy.caCert,!ca.crt";

/// A class with one configuration.
fn class(name: &str, configuration: &Value) -> ConnectorClass {
    serde_json::from_value(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "ConnectorClass",
        "metadata": {"name": name}, "spec": {"configurations": [configuration]},
    }))
    .unwrap()
}

fn one_file(name: &str, file: &str, text: &str) -> Value {
    json!({"name": name, "data": {file: text}})
}

struct Volume {
    connectors: Vec<(Connector, Option<ConnectorClass>)>,
    names: &'static str,
    params: &'static str,
    token: Option<&'static str>,
    conflict: FileConflict,
}

impl Volume {
    fn of(connectors: Vec<(Connector, Option<ConnectorClass>)>) -> Self {
        Self {
            connectors,
            names: "",
            params: "{}",
            token: Some("t0k3n"),
            conflict: FileConflict::Refuse,
        }
    }

    fn with(configuration: &Value, names: &'static str) -> Self {
        let class = class("oci", configuration);
        let mut volume = Self::of(vec![(connector("harbor", "oci", None), Some(class))]);
        volume.names = names;
        volume
    }

    fn files(&self) -> Result<FileSet, FilesError> {
        let request = FileRequest::parse(Some(self.names), Some(self.params)).unwrap();
        let addresses: Vec<_> = self
            .connectors
            .iter()
            .map(|(it, _)| it.spec.address.clone().unwrap())
            .collect();
        let tools = self.connectors.iter().zip(&addresses);
        let tools = tools.map(|((connector, class), address)| Tool {
            connector,
            class: class.as_ref(),
            address,
        });
        let context = FileContext {
            token: self.token,
            now: NOW,
            conflict: self.conflict,
        };
        render(&request, &tools.collect::<Vec<_>>(), &context)
    }

    fn names(&self) -> Vec<String> {
        let files = self.files().unwrap();
        files.iter().map(|(name, _)| name.to_owned()).collect()
    }
}

#[test]
fn a_volume_that_asks_for_nothing_has_the_token_alone() {
    let mut volume = Volume::of(vec![(connector("harbor", "oci", None), None)]);
    assert_eq!(volume.files().unwrap().get("context.token"), Some("t0k3n"));
    assert_eq!(volume.names(), ["context.token"]);
    volume.token = None;
    assert!(volume.files().unwrap().is_empty());
}

#[test]
fn with_a_proxy_there_are_its_address_its_certificates_and_settings() {
    let connectors = ["a", "b"].map(|name| (connector(name, "oci", Some("http://proxy:80")), None));
    let volume = Volume::of(connectors.into());
    let files = volume.files().unwrap();
    let url = "http://tools%2Fa,tools%2Fb:t0k3n@proxy:80";
    for (name, content) in [
        (
            "connector.status.proxyAddress",
            "http://proxy:80".to_owned(),
        ),
        ("http.proxy", url.to_owned()),
        ("https.proxy", url.to_owned()),
        (".curlrc", format!("proxy = \"{url}\"\n")),
        ("ca.crt", PEM.to_owned()),
        ("context.proxy.caCert", PEM.to_owned()),
    ] {
        assert_eq!(files.get(name), Some(content.as_str()), "{name}");
    }
    assert!(
        files
            .get(".env")
            .unwrap()
            .contains(&format!("https_proxy={url}\n"))
    );
    let mut all = BUILT_IN.map(str::to_owned).to_vec();
    all.sort();
    assert_eq!(volume.names(), all);
}

#[test]
fn different_proxies_are_refused_unless_their_files_are_left_out() {
    let mut volume = Volume::of(vec![
        (connector("a", "oci", Some("http://one")), None),
        (connector("plain", "oci", None), None),
        (connector("b", "oci", Some("http://two")), None),
    ]);
    let error = volume.files().unwrap_err().to_string();
    assert!(
        error.contains("tools/a and tools/b have different proxies"),
        "{error}"
    );
    assert!(error.contains(ABOUT_A_PROXY), "{error}");
    volume.names = "!.env,!http.proxy,!https.proxy,!.curlrc,!ca.crt,!context.proxy.caCert";
    let error = volume.files().unwrap_err().to_string();
    assert!(
        error.ends_with(
            "add `!connector.status.proxyAddress` to the volume attribute `configuration.names`"
        ),
        "{error}"
    );
    volume.names = ABOUT_A_PROXY;
    assert_eq!(volume.names(), ["context.token"]);
    // An address that begins like another one, or differs in case alone, is another proxy.
    for (first, second) in [
        ("http://one:80", "http://one:8080"),
        ("http://one:8080", "http://one:80"),
        ("http://one", "http://one.example"),
        ("http://one/a", "http://one/A"),
    ] {
        let proxied = [("a", first), ("b", second)]
            .map(|(name, address)| (connector(name, "oci", Some(address)), None));
        let error = Volume::of(proxied.into()).files().unwrap_err();
        assert!(
            matches!(error, FilesError::Proxies { .. }),
            "{first} {second}: {error}"
        );
    }
}

/// A class with two configurations that have a parameter of the same name.
fn two_configurations(mirror: &Value) -> Volume {
    let one = json!({
        "name": "docker", "data": {"docker": "{{ .configurations.registry }}"},
        "params": [{"name": "registry"}],
    });
    let mut class = class("oci", &one);
    let more = json!([one, {
        "name": "mirror", "data": {"mirror": "{{ .configurations.registry }}"}, "params": [mirror],
    }]);
    class.spec.configurations = serde_json::from_value(more).unwrap();
    let mut volume = Volume::of(vec![(connector("harbor", "oci", None), Some(class))]);
    volume.names = "docker,mirror";
    volume.params = r#"{"docker": {"registry": "eu"}}"#;
    volume
}

#[test]
fn a_value_of_one_configuration_is_none_of_another() {
    let volume = two_configurations(&json!({"name": "registry", "default": "us"}));
    let files = volume.files().unwrap();
    assert_eq!(
        (files.get("docker"), files.get("mirror")),
        (Some("eu"), Some("us"))
    );
    let volume = two_configurations(&json!({"name": "registry"}));
    let error = volume.files().unwrap_err().to_string();
    assert!(error.contains("needs a value of `registry`"), "{error}");
    assert!(error.contains("mirror"), "{error}");
}

#[test]
fn a_template_sees_connector_class_parameters_and_token() {
    let text = "{{ .connector.metadata.namespace }}/{{ .connector.metadata.name }} {{ .connector.spec.address }} \
        {{ (index .connector.spec.params 0).value }} {{ .connectorclass.metadata.name }} {{ .configurations.registry }} \
        {{ len .connectors }} {{ .context.token | b64enc }} {{ .connector.metadata.labels.team }}\
        {{ if .connector.spec.nothing }}no{{ end }}{{ with .connector.status.proxyAddress }}no{{ end }}";
    let configuration = json!({
        "name": "docker", "data": {"out": text},
        "params": [{"name": "registry", "default": "eu"}],
    });
    let mut volume = Volume::with(&configuration, "docker");
    let out = |volume: &Volume| volume.files().unwrap().get("out").unwrap().to_owned();
    let expected = "tools/harbor https://harbor.example.com shop oci eu 1 dDBrM24= a";
    assert_eq!(out(&volume), expected);
    volume.params = r#"{"docker": {"registry": "us"}}"#;
    assert_eq!(out(&volume), expected.replace(" eu ", " us "));
}

#[test]
fn connectors_of_one_class_are_rendered_together() {
    let text =
        "{{ range .connectors }}{{ .metadata.name }};{{ end }}{{ .connector.metadata.name }}";
    let class = class("oci", &one_file("docker", "out", text));
    let connectors = ["b", "a"].map(|name| (connector(name, "oci", None), Some(class.clone())));
    let mut volume = Volume::of(connectors.into());
    volume.names = "docker";
    assert_eq!(volume.files().unwrap().get("out"), Some("b;a;b"));
}

fn two_classes() -> Volume {
    let classes = ["oci", "git"].map(|name| {
        let class = class(name, &one_file("tool", "config", name));
        (connector(&format!("c-{name}"), name, None), Some(class))
    });
    let mut volume = Volume::of(classes.into());
    volume.names = "tool";
    volume
}

#[test]
fn a_file_of_two_classes_is_refused_unless_one_is_left_out() {
    let mut volume = two_classes();
    let error = volume.files().unwrap_err().to_string();
    assert!(
        error.contains("`config` is written by class oci and again by class git"),
        "{error}"
    );
    for (names, expected) in [
        ("tool,!oci/config", Some("git")),
        ("tool,!git/config", Some("oci")),
        ("tool,!config", None),
    ] {
        volume.names = names;
        assert_eq!(volume.files().unwrap().get("config"), expected, "{names}");
    }
    volume.names = "tool";
    volume.conflict = FileConflict::LastWins;
    assert_eq!(volume.files().unwrap().get("config"), Some("git"));
}

#[test]
fn a_class_may_write_a_built_in_file_itself() {
    let volume = Volume::with(
        &one_file("own", "context.token", "Bearer {{ .context.token }}"),
        "own",
    );
    assert_eq!(
        volume.files().unwrap().get("context.token"),
        Some("Bearer t0k3n")
    );
}

#[test]
fn what_nobody_declares_is_refused_with_what_there_is() {
    let configuration = json!({
        "name": "docker", "data": {"f": ""}, "params": [{"name": "registry"}, {"name": "mirror", "default": ""}],
    });
    let registry = r#"{"docker": {"registry": ""}}"#;
    let misspelt = r#"{"docker": {"registry": "", "x": ""}}"#;
    // The names, the parameters, whether the attributes alone are at fault, and the parts of the text.
    for (names, params, of_attributes, told) in [
        (
            "dcoker",
            "{}",
            true,
            [
                "`configuration.names` cannot list `dcoker`",
                "has a configuration `dcoker`; they have docker",
            ],
        ),
        (
            "docker",
            "{}",
            false,
            [
                "needs a value of `registry`",
                r#"`configuration.params`, an object of objects of texts, as in {"docker": {"registry": "eu"}}"#,
            ],
        ),
        (
            "docker",
            misspelt,
            true,
            [
                "`configuration.params` cannot give a value to `x`",
                "no parameter `x`; it has registry, mirror",
            ],
        ),
        (
            "docker,!g",
            registry,
            true,
            [
                "`configuration.names` leaves out `!g`",
                "they are f, context.token, context.proxy.caCert,",
            ],
        ),
        (
            "docker,!git/f",
            registry,
            true,
            [
                "`configuration.names` leaves out `!git/f`",
                "they are oci/f",
            ],
        ),
    ] {
        let mut volume = Volume::with(&configuration, names);
        volume.params = params;
        let error = volume.files().unwrap_err();
        assert_eq!(error.is_of_attributes(), of_attributes, "{names}: {error}");
        for part in told {
            let error = error.to_string();
            assert!(error.contains(part), "{part} is not in: {error}");
        }
    }
}

#[test]
fn a_class_that_is_missing_may_know_the_name() {
    let mut volume = Volume::with(&one_file("docker", "f", ""), "dcoker");
    volume
        .connectors
        .push((connector("maven", "mvn", None), None));
    let error = volume.files().unwrap_err();
    assert!(!error.is_of_attributes(), "{error}");
    let told =
        "they have docker (the class of connector tools/maven does not exist, or cannot be read)";
    assert!(error.to_string().contains(told), "{error}");
    volume.names = "docker";
    assert!(volume.files().is_ok());
    // No class is read for this.
    let mut built_in = Volume::of(vec![(connector("harbor", "oci", None), None)]);
    built_in.names = "!g";
    let error = built_in.files().unwrap_err();
    assert!(error.is_of_attributes(), "{error}");
    assert!(!error.to_string().contains("the class of"), "{error}");
}

#[test]
fn a_value_that_is_missing_is_never_printed() {
    let volume = Volume::with(
        &one_file("a", "f", "line\nuser = {{ .connector.spec.user }}\n"),
        "a",
    );
    let error = volume.files().unwrap_err();
    assert!(
        matches!(
            &error,
            FilesError::Configuration {
                error: FileTemplateError::MissingValue { line: 2, .. },
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn without_a_token_no_file_has_an_empty_one() {
    let mut volume = Volume::with(&one_file("a", "f", "{{ .context.token }}"), "a");
    volume.token = None;
    let error = volume.files().unwrap_err().to_string();
    assert!(error.contains("a value that is missing"), "{error}");
    let text = "{{ with .context.token }}{{ . }}{{ else }}none{{ end }}";
    let mut volume = Volume::with(&one_file("a", "f", text), "a");
    volume.token = None;
    assert!(
        volume
            .files()
            .unwrap_err()
            .to_string()
            .contains("depends on the pod's token")
    );
    for text in [
        "{{ printf \"pod:%s\" .context.token | b64enc }}",
        "{{ .context.token | quote }}",
        "{{ .context.token | html }}",
        "{{ list .context.token | join \"\" }}",
        // Without its name.
        "{{ .context | toJson }}",
        "{{ range .context }}{{ . }};{{ end }}",
        "{{ index .context (printf \"to%s\" \"ken\") | quote }}",
        "{{ get .context (list \"tok\" \"en\" | join \"\") | b64enc }}",
        "{{ len .context }}{{ values .context | join \",\" }}",
    ] {
        let mut volume = Volume::with(&one_file("a", "f", text), "a");
        volume.token = None;
        assert!(volume.files().is_err(), "{text}");
    }
    let mut volume = Volume::with(&one_file("a", "f", "plain"), "a");
    volume.token = None;
    assert_eq!(volume.files().unwrap().get("f"), Some("plain"));
}

#[test]
fn what_a_message_tells_does_not_depend_on_the_token() {
    let text = "{{ range index .context.token 0 }}\n{{ end }}{{ .connector.spec.user }}";
    for text in [
        text,
        "{{ range untilStep 0 (index .context.token 0 | int) 1 }}\n{{ end }}{{ .connector.spec.user }}",
    ] {
        let mut told = BTreeSet::new();
        for token in ["a", "b", "cc"] {
            let mut volume = Volume::with(&one_file("a", "f", text), "a");
            volume.token = Some(token);
            told.insert(volume.files().unwrap_err().to_string());
        }
        assert_eq!(told.len(), 1, "{told:?}");
    }
}

#[test]
fn an_address_of_a_proxy_is_one_word_or_refused() {
    for bad in [
        "http://a\nLD_PRELOAD=/x",
        "http://a\" upload-file = \"/etc/passwd",
        "socks5://a",
        "http://",
        "http://a/b",
        "a:80",
        "http://u:p@a",
        "http://a b",
        "http://ä",
    ] {
        let volume = Volume::of(vec![(connector("a", "oci", Some(bad)), None)]);
        let error = volume.files().unwrap_err();
        assert!(
            matches!(error, FilesError::ProxyAddress(_)),
            "{bad}: {error}"
        );
    }
    for good in [
        "http://proxy.tools:8080",
        "https://10.0.0.1",
        "http://[fd00::1]:80",
    ] {
        let volume = Volume::of(vec![(connector("a", "oci", Some(good)), None)]);
        assert!(volume.files().is_ok(), "{good}");
    }
}

#[test]
fn all_files_of_a_volume_share_their_steps() {
    let text = "{{ range until 8000 }}{{ end }}";
    let many = |number: usize| {
        let data = (0..number).map(|it| (format!("f{it}"), text.into()));
        json!({"name": "a", "data": Value::Object(data.collect())})
    };
    assert!(Volume::with(&many(2), "a").files().is_ok());
    for number in [40, MOST_FILES] {
        let error = Volume::with(&many(number), "a").files().unwrap_err();
        assert!(error.to_string().contains("steps"), "{number}: {error}");
    }
    let error = Volume::with(&many(MOST_FILES + 1), "a")
        .files()
        .unwrap_err();
    assert_eq!(error, FilesError::TooMuch);
}

/// However the files are spread over classes and configurations.
#[test]
fn the_files_of_all_classes_and_configurations_are_counted_together() {
    let volume = |classes: usize, each: usize, text: &str| {
        let connectors = (0..classes).map(|number| {
            let name = format!("c{number}");
            let of = |configuration: &str| {
                let data =
                    (0..each).map(|it| (format!("{name}-{configuration}-{it}"), text.into()));
                json!({"name": configuration, "data": Value::Object(data.collect())})
            };
            let spec = json!({"configurations": [of("a"), of("b")]});
            let class = json!({"metadata": {"name": name}, "spec": spec});
            let class = serde_json::from_value(class).unwrap();
            (connector(&name, &name, None), Some(class))
        });
        let mut volume = Volume::of(connectors.collect());
        volume.names = "a,b";
        // Without a token there are no other files.
        volume.token = None;
        volume
    };
    let steps = "{{ range until 8000 }}{{ end }}";
    assert!(volume(1, 1, steps).files().is_ok());
    for (classes, each) in [(1, 20), (10, 2), (20, 1)] {
        let error = volume(classes, each, steps).files().unwrap_err();
        assert!(error.to_string().contains("steps"), "{classes}: {error}");
    }
    // Each pair has 64 files, and each pair with one class or one file more has more.
    for (classes, each) in [(1, 32), (8, 4), (32, 1)] {
        let files = volume(classes, each, "x").files().unwrap();
        assert_eq!(files.iter().count(), MOST_FILES);
        for more in [
            volume(classes + 1, each, "x"),
            volume(classes, each + 1, "x"),
        ] {
            assert_eq!(more.files().unwrap_err(), FilesError::TooMuch);
        }
    }
}

/// A file that is left out is none, and a file that replaces another is no further one.
#[test]
fn only_files_that_the_volume_gets_are_counted() {
    let many = |name: &str| {
        let data = (0..MOST_FILES + 2).map(|it| (format!("f{it}"), "x".into()));
        json!({"name": name, "data": Value::Object(data.collect())})
    };
    let mut volume = Volume::with(&many("a"), "a");
    volume.token = None;
    for (names, fits) in [
        ("a", false),
        ("a,!f0", false),
        ("a,!oci/f65", false),
        ("a,!f0,!oci/f65", true),
        ("a,!f0,!f65", true),
        ("a,!f0,!f65,!f1", true),
    ] {
        volume.names = names;
        let left_out = names.split(',').count() - 1;
        let files = fits.then_some(MOST_FILES + 2 - left_out);
        let found = volume.files().map(|it| it.iter().count());
        assert_eq!(found, files.ok_or(FilesError::TooMuch), "{names}");
    }
    let two = ["a", "b"].map(|name| (connector(name, name, None), Some(class(name, &many("a")))));
    let mut twice = Volume::of(two.into());
    (twice.names, twice.token) = ("a,!f0,!f65", None);
    twice.conflict = FileConflict::LastWins;
    assert_eq!(twice.files().map(|it| it.iter().count()), Ok(MOST_FILES));
}

#[test]
fn no_text_no_value_and_no_output_of_a_template_is_larger_than_a_volume() {
    let text = |bytes: usize| format!("{{{{/*{}*/}}}}", "x".repeat(bytes - 8));
    let value = |bytes: usize| format!("{{{{ $x := repeat {bytes} \"x\" }}}}");
    let output = |bytes: usize| {
        let half = bytes / 2;
        let rest = bytes - half;
        format!("{{{{ repeat {half} \"x\" }}}}{{{{ repeat {rest} \"x\" }}}}")
    };
    let made = |template: &str| {
        let mut volume = Volume::with(&one_file("a", "f", template), "a");
        volume.token = None;
        volume.files()
    };
    for (fits, too_large, told) in [
        (
            text(MOST_BYTES),
            text(MOST_BYTES + 1),
            "the text is longer than 262144 bytes",
        ),
        (
            value(MOST_BYTES),
            value(MOST_BYTES + 1),
            "a value is larger than 262144 bytes",
        ),
        (
            output(MOST_BYTES),
            output(MOST_BYTES + 1),
            "the output is longer than 262144 bytes",
        ),
    ] {
        made(&fits).unwrap();
        let error = made(&too_large).unwrap_err().to_string();
        assert!(error.contains(told), "{told}: {error}");
    }
}

#[test]
fn no_printed_form_of_a_set_has_a_token() {
    let volume = Volume::of(vec![(connector("a", "oci", None), None)]);
    let printed = format!("{:?}", volume.files().unwrap());
    assert_eq!(printed, r#"{"context.token"}"#);
}

#[test]
fn a_template_that_is_none_is_named_with_its_class_and_place() {
    for (text, told) in [
        ("{{ .a", "class oci, configuration `a`: f:1:"),
        ("{{ env \"HOME\" }}", "\"env\" is not available"),
        ("x\n{{ frobnicate }}", "f:2:4"),
        ("{{ fail \"no registry\" }}", "no registry"),
        ("{{ repeat 2000000 \"x\" }}", "f:1:"),
        (
            "{{ range until 8000 }}{{ range until 8000 }}{{ end }}{{ end }}",
            "steps",
        ),
    ] {
        let error = Volume::with(&one_file("a", "f", text), "a")
            .files()
            .unwrap_err()
            .to_string();
        assert!(error.contains(told), "{text}: {error}");
    }
}

#[test]
fn a_class_cannot_write_outside_the_volume_or_over_our_own_files() {
    for file in ["../up", "a/b", ".connector", ".error.json", ""] {
        let error = Volume::with(&one_file("a", file, "x"), "a")
            .files()
            .unwrap_err();
        assert!(matches!(error, FilesError::FileName(_)), "{file}: {error}");
    }
}

/// An error is shown in an event, so it holds no token.
#[test]
fn no_error_quotes_the_token() {
    for text in [
        "{{ fail .context.token }}",
        "{{ .context.token.x }}",
        "{{ b64dec .context.token }}",
        "{{ index .context.token \"a\" }}",
        "{{ fromJson .context.token }}",
        "{{ mustFromJson .context.token }}",
        "{{ regexFind .context.token \"a\" }}",
        "{{ .context.token | int | printf \"%z\" }}",
        "{{ urlParse (printf \"%%zz%s\" .context.token) }}",
        "{{ if eq (len .context.token) 5 }}{{ fail \"five\" }}{{ end }}",
    ] {
        if let Err(error) = Volume::with(&one_file("a", "f", text), "a").files() {
            assert!(!error.to_string().contains("t0k3n"), "{text}: {error}");
        }
    }
}
