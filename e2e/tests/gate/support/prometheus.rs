//! A real Prometheus on the run's cluster. It runs beside the cluster, and reaches the pods through the API server: it
//! needs no image and no rights in the cluster.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use e2e::{Progress, Tool, cluster, harness::PATIENCE, install::NAMESPACE};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Gate;

/// Between two scrapes, and between two looks at the rules.
const EVERY: &str = "1s";

/// Prometheus and its way to the API server, until it is dropped.
pub(crate) struct Prometheus {
    // Dropped in this order.
    _server: Running,
    _proxy: Running,
    _files: TempDir,
    address: String,
}

/// A program that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Prometheus {
    /// Scrapes the pods of the installation by their annotations, and looks at these rules.
    pub(crate) fn start(gate: &Gate, rules: &Value) -> Self {
        let programs = cluster::prometheus(&Progress::default()).unwrap();
        let kubectl = gate.scene().kubectl();
        let proxy = Tool::ending_with_us(kubectl.program())
            .args(["--kubeconfig".as_ref(), kubectl.kubeconfig().as_os_str()]);
        let proxy = proxy.args(["proxy", "--port=0"]).into_command();
        let (proxy, line) = start(proxy, "Starting to serve on ");
        let api_server = line.rsplit(' ').next().unwrap().to_owned();

        let files = TempDir::new().unwrap();
        let write = |name: &str, content: &Value| {
            fs::write(files.path().join(name), content.to_string()).unwrap();
        };
        // JSON is YAML.
        write("rules.yaml", rules);
        write("prometheus.yaml", &configuration(&api_server));
        let server = server(&programs.join("prometheus"), files.path());
        let (server, line) = start(server, "msg=\"Listening on\"");
        let address = line.split("address=").nth(1).unwrap();
        let address = address.split_whitespace().next().unwrap().to_owned();
        Self {
            _server: server,
            _proxy: proxy,
            _files: files,
            address,
        }
    }

    /// The answer of the API, or why there is none.
    pub(crate) fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, String> {
        let parameters: Vec<String> = parameters
            .iter()
            .map(|(name, value)| format!("{name}={}", escaped(value)))
            .collect();
        let body = parameters.join("&");
        // Without parameters, the API takes a GET alone.
        let method = if body.is_empty() { "GET" } else { "POST" };
        let answer = self
            .call(method, path, &body)
            .map_err(|error| error.to_string())?;
        let (_, answer) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        let mut answer: Value =
            serde_json::from_str(answer).map_err(|error| format!("{error}: {answer}"))?;
        if answer["status"] == "success" {
            Ok(answer["data"].take())
        } else {
            Err(answer["error"].to_string())
        }
    }

    fn call(&self, method: &str, path: &str, body: &str) -> std::io::Result<String> {
        let mut connection = TcpStream::connect(&self.address)?;
        connection.set_read_timeout(Some(Duration::from_secs(10)))?;
        let length = body.len();
        // Of this version every answer ends with its connection.
        write!(
            connection,
            "{method} /api/v1/{path} HTTP/1.0\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// The samples that a query gives now.
    pub(crate) fn query(&self, query: &str) -> Result<Vec<Value>, String> {
        let answer = self.ask("query", &[("query", query)])?;
        let samples = answer["result"].as_array().cloned();
        samples.ok_or_else(|| format!("no samples: {answer}"))
    }

    /// The selectors that a query consists of, each as a query.
    pub(crate) fn selectors(&self, query: &str) -> Result<Vec<String>, String> {
        let mut found = Vec::new();
        collect(&self.ask("parse_query", &[("query", query)])?, &mut found);
        Ok(found)
    }

    /// The alerts that fire, by name.
    pub(crate) fn firing(&self) -> Result<Vec<Value>, String> {
        let answer = self.ask("alerts", &[])?;
        let alerts = answer["alerts"].as_array().cloned().unwrap_or_default();
        let firing = alerts.into_iter().filter(|it| it["state"] == "firing");
        Ok(firing.collect())
    }
}

/// A scrape configuration that follows the usual annotations, with the way through the API server.
fn configuration(api_server: &str) -> Value {
    let annotation = |name: &str| format!("__meta_kubernetes_pod_annotation_prometheus_io_{name}");
    let pod = ["namespace", "pod_name"].map(|it| format!("__meta_kubernetes_{it}"));
    let path = [&pod[0], &pod[1], &annotation("port"), &annotation("path")];
    json!({
        "global": {
            "scrape_interval": EVERY, "scrape_timeout": EVERY, "evaluation_interval": EVERY,
        },
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{
            "job_name": "pods",
            "kubernetes_sd_configs": [{
                "role": "pod", "api_server": format!("http://{api_server}"),
                "namespaces": {"names": [NAMESPACE]},
            }],
            "relabel_configs": [
                {"source_labels": [annotation("scrape")], "action": "keep", "regex": "true"},
                {"source_labels": [pod[1]], "target_label": "instance"},
                {
                    "source_labels": path, "separator": ";", "regex": "(.+);(.+);(.+);(.+)",
                    "target_label": "__metrics_path__",
                    "replacement": "/api/v1/namespaces/$1/pods/$2:$3/proxy$4",
                },
                {"target_label": "__address__", "replacement": api_server},
            ],
        }],
    })
}

fn server(program: &Path, files: &Path) -> Command {
    let flag = |name: &str, file: &str| format!("--{name}={}", files.join(file).display());
    Tool::ending_with_us(program)
        .args([
            flag("config.file", "prometheus.yaml"),
            flag("storage.tsdb.path", "data"),
            "--web.listen-address=127.0.0.1:0".to_owned(),
        ])
        .dir(files)
        .into_command()
}

/// Starts a program, and waits for the line that tells where it listens.
fn start(mut command: Command, says: &'static str) -> (Running, String) {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let outputs: [Box<dyn Read + Send>; 2] = [
        Box::new(child.stdout.take().unwrap()),
        Box::new(child.stderr.take().unwrap()),
    ];
    let running = Running(child);
    let (sender, lines) = mpsc::channel();
    for output in outputs {
        let sender = sender.clone();
        // Read to the end: a program whose output is not taken would stop.
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if line.contains(says) {
                    let _ = sender.send(line);
                } else if line.contains("level=ERROR") {
                    eprintln!("{line}");
                }
            }
        });
    }
    let line = lines.recv_timeout(PATIENCE);
    let line = line.unwrap_or_else(|_| panic!("no line with {says:?}"));
    (running, line)
}

/// A value of a form.
fn escaped(value: &str) -> String {
    let escape = |byte: u8| {
        if byte.is_ascii_alphanumeric() {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    value.bytes().map(escape).collect()
}

/// Walks through the tree of a query.
fn collect(node: &Value, found: &mut Vec<String>) {
    let is_selector = ["vectorSelector", "matrixSelector"]
        .iter()
        .any(|it| node["type"] == *it);
    if is_selector {
        let matchers = node["matchers"].as_array().into_iter().flatten();
        let matchers = matchers.map(|it| {
            let [name, how, value] = ["name", "type", "value"].map(|field| &it[field]);
            format!(
                "{}{}{value}",
                name.as_str().unwrap_or_default(),
                how.as_str().unwrap_or_default()
            )
        });
        let matchers: Vec<String> = matchers.collect();
        found.push(format!("{{{}}}", matchers.join(",")));
        return;
    }
    let fields = node.as_object().into_iter().flat_map(|it| it.values());
    let items = node.as_array().into_iter().flatten();
    fields.chain(items).for_each(|it| collect(it, found));
}

#[test]
fn the_selectors_of_a_query_are_found_at_any_depth() {
    let matcher =
        |name: &str, how: &str, value: &str| json!({"name": name, "type": how, "value": value});
    let of = |kind: &str, name: &str, more: Vec<Value>| {
        let mut matchers = more;
        matchers.push(matcher("__name__", "=", name));
        json!({"type": kind, "name": name, "matchers": matchers})
    };
    let tree = json!({"type": "binaryExpr", "lhs": {"type": "call", "args": [
        of("matrixSelector", "a", vec![matcher("x", "=~", "1|\"2\"")]),
    ]}, "rhs": of("vectorSelector", "b", vec![])});
    let mut found = Vec::new();
    collect(&tree, &mut found);
    let wanted = [r#"{x=~"1|\"2\"",__name__="a"}"#, r#"{__name__="b"}"#];
    assert_eq!(found, wanted);
    assert_eq!(escaped("a{b=\"c\"}+1"), "a%7Bb%3D%22c%22%7D%2B1");
}
