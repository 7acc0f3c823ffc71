use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

use kube::Config;
use serde_json::{Value, json};
use testkit::{ApiServer, Caller};

use super::{
    ApiClient, ApiError, ApiUser, blocking,
    kinds::{ACCESS_REQUEST, CONFIG_MAP, POD, ROLE},
};

const MOMENT: Duration = Duration::from_millis(10);

/// An API server that simulates the real one, and its administrator in namespace `default`.
pub(crate) fn server() -> (ApiServer, ApiClient) {
    let server = ApiServer::new("2026-11-23T12:00:00Z".parse().unwrap());
    let fake = server.clone();
    let client = blocking(async move { fake.client(&Caller::admin()) });
    let client = ApiClient {
        client: client.unwrap(),
        config: Config::new("http://127.0.0.1:1".parse().unwrap()),
        namespace: "default".to_owned(),
        user: None,
    };
    (server, client)
}

fn config_map(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels},
        "data": {"a": "1"},
    })
}

#[test]
fn an_object_that_is_not_there_is_nothing_and_an_empty_list_is_empty() {
    let (_server, api) = server();
    assert_eq!(api.get(CONFIG_MAP, "none").unwrap(), None);
    assert_eq!(api.list(CONFIG_MAP, "").unwrap(), Vec::<Value>::new());
    let everywhere = api.list_everywhere(ROLE).unwrap();
    assert_eq!(everywhere, Vec::<Value>::new());
    let error = api.delete(CONFIG_MAP, "none").unwrap_err();
    assert!(error.is_not_found(), "{error}");
}

#[test]
fn objects_are_chosen_by_their_labels() {
    let (_server, api) = server();
    for (name, labels) in [
        ("one", json!({"app": "a", "x.io/part": "b"})),
        ("two", json!({"app": "a"})),
        ("plain", json!({})),
    ] {
        api.create(&config_map(name, &labels)).unwrap();
    }
    let chosen = |labels: &str| -> Vec<Value> {
        let found = api.list(CONFIG_MAP, labels).unwrap();
        let name = |it: Value| it["metadata"]["name"].clone();
        found.into_iter().map(name).collect()
    };
    assert_eq!(chosen(""), ["one", "plain", "two"]);
    assert_eq!(chosen("app=a"), ["one", "two"]);
    assert_eq!(chosen("app=a,x.io/part=b"), ["one"]);
    assert_eq!(chosen("app=other"), Vec::<Value>::new());
}

#[test]
fn fields_are_changed_and_what_is_deleted_is_gone() {
    let (_server, api) = server();
    api.apply(&config_map("it", &json!({}))).unwrap();
    let fields = json!({"data": {"a": null, "b": "2"}});
    let changed = api.patch(CONFIG_MAP, "it", &fields).unwrap();
    assert_eq!(changed["data"], json!({"b": "2"}));
    let timed_out = api.wait_until_gone(CONFIG_MAP, "it", MOMENT).unwrap_err();
    assert!(timed_out.to_string().contains("the end of ConfigMap it"));
    api.delete(CONFIG_MAP, "it").unwrap();
    api.wait_until_gone(CONFIG_MAP, "it", MOMENT).unwrap();
}

#[test]
fn a_refusal_names_the_call_and_what_the_server_said() {
    let (_server, api) = server();
    let it = config_map("it", &json!({}));
    api.create(&it).unwrap();
    let refused = api.create(&it).unwrap_err().to_string();
    for words in [
        "/namespaces/default/configmaps",
        "(AlreadyExists)",
        "\"it\"",
    ] {
        assert!(refused.contains(words), "{words} is not in {refused}");
    }
}

#[test]
fn a_try_is_a_dry_run() {
    let (_server, api) = server();
    // This server has none, and says so.
    let refused = api.try_create(&config_map("it", &json!({}))).unwrap_err();
    assert!(refused.to_string().contains("dry run"), "{refused}");
    assert_eq!(api.get(CONFIG_MAP, "it").unwrap(), None);
}

#[test]
fn an_object_without_a_name_or_of_an_unknown_kind_is_not_sent() {
    let (_server, api) = server();
    assert!(matches!(api.get(POD, ""), Err(ApiError::Unnamed(_))));
    assert!(matches!(api.delete(POD, ""), Err(ApiError::Unnamed(_))));
    let nameless = api.apply(&json!({"apiVersion": "v1", "kind": "Pod"}));
    assert!(matches!(nameless, Err(ApiError::Unnamed(_))));
    let unknown = api.create(&json!({"kind": "Pod"})).unwrap_err();
    assert!(unknown.to_string().contains("null \"Pod\""), "{unknown}");
}

#[test]
fn what_is_waited_for_is_given_and_what_was_seen_instead_is_told() {
    let (_server, api) = server();
    api.create(&config_map("it", &json!({}))).unwrap();
    let it = (CONFIG_MAP, "it");
    let found = api.wait_for("it", it, MOMENT, |it| it["data"]["a"] == "1");
    assert_eq!(found.unwrap()["metadata"]["name"], "it");
    let other = api.wait_for("another it", it, MOMENT, |it| it["data"]["a"] == "2");
    let other = other.unwrap_err().to_string();
    assert!(
        other.contains("another it") && other.contains(r#""a":"1""#),
        "{other}"
    );
    let none = (CONFIG_MAP, "none");
    let none = api.wait_for("none", none, MOMENT, |_| true);
    assert!(none.unwrap_err().to_string().contains("no ConfigMap none"));
    let list = api.wait_for_list("two", (CONFIG_MAP, ""), MOMENT, |all| all.len() == 2);
    list.unwrap_err();
}

#[test]
fn versions_change_with_each_write_and_with_nothing_else() {
    let (_server, api) = server();
    let namespaces = ["default".to_owned(), "kube-public".to_owned()];
    let versions = || api.versions(&[CONFIG_MAP, ROLE], &namespaces).unwrap();
    assert!(versions().is_empty());
    api.create(&config_map("it", &json!({}))).unwrap();
    let created = versions();
    assert_eq!((created.len(), versions()), (1, created.clone()));
    let fields = json!({"data": {"a": "2"}});
    api.patch(CONFIG_MAP, "it", &fields).unwrap();
    assert_ne!(versions(), created);
    assert!(api.versions(&[], &namespaces).unwrap().is_empty());
    assert!(api.versions(&[ROLE], &[]).unwrap().is_empty());
}

#[test]
fn answers_of_many_questions_have_their_order() {
    let (_server, api) = server();
    let (admin, stranger) = (
        ApiUser::named("admin").in_group("system:masters"),
        ApiUser::named("stranger"),
    );
    let right = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let users: Vec<&ApiUser> = (0..40)
        .map(|number| if number % 3 == 0 { &admin } else { &stranger })
        .collect();
    let answers = api.allows_each(users.iter().map(|user| (*user, &right)));
    let expected: Vec<bool> = (0..40).map(|number| number % 3 == 0).collect();
    assert_eq!(answers.unwrap(), expected);
    assert!(api.allows(&admin, &right).unwrap());
    assert_eq!(api.allows_each([]).unwrap(), Vec::<bool>::new());
}

#[test]
fn a_status_is_changed_beside_the_rest() {
    let (server, api) = server();
    server.create(json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "AccessRequest",
        "metadata": {"name": "it", "namespace": "default"}, "spec": {},
    }));
    let status = json!({"phase": "Pending"});
    let changed = api.patch_status(ACCESS_REQUEST, "it", &status).unwrap();
    assert_eq!(changed["status"], status);
}

/// Answers every request of a connection with an empty list.
fn answer(stream: TcpStream) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut stream = stream;
    while let Some(Ok(line)) = lines.next() {
        // The end of a head; the requests have no body.
        if line.is_empty() {
            let list = json!({"items": []}).to_string();
            let length = list.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{list}");
            stream.write_all(head.as_bytes()).unwrap();
        }
    }
}

fn api_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || answer(stream));
        }
    });
    format!("http://{address}")
}

/// Otherwise the end of a test waits for half a minute, and its namespace stays.
#[tokio::test]
async fn a_call_that_blocks_a_runtime_does_not_wait_for_that_runtimes_connections() {
    let dir = tempfile::tempdir().unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    let content = json!({
        "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": api_server()}}], "users": [{"name": "u", "user": {}}],
    });
    fs::write(&kubeconfig, content.to_string()).unwrap();
    let api = ApiClient::connect(&kubeconfig, "n").unwrap();
    let client = api.asynchronous().unwrap();
    let request = http::Request::get("/").body(Vec::new()).unwrap();
    client.request_text(request).await.unwrap();
    assert_eq!(api.list(POD, "").unwrap(), Vec::<Value>::new());
}
