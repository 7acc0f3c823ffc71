//! Connections: the roots that they trust, the name that they expect, and the time for which they are tried.

use tokio::net::TcpListener;

use super::super::ClientFiles;
use super::*;

async fn is_refused(client: &Client) {
    let error = client.who_is_there().await.unwrap_err();
    assert!(
        error.may_pass() && error.code() != Some(Code::DeadlineExceeded),
        "{error}"
    );
}

impl Client {
    /// A call that the server answers by itself.
    async fn who_is_there(&self) -> Result<(), EvaluationCallError> {
        let answer = self.batch_check_access(&[question("a")]).await;
        answer.map(|_| ())
    }
}

/// Ends all connections, and listens with a certificate of this authority from then on.
async fn replace(server: FakeServer, authority: &Authority) -> FakeServer {
    let address = server.stop().await;
    FakeServer::start_at(authority, address, b"h2").await
}

/// An authority that was removed must not be able to answer in the service's place.
#[tokio::test]
async fn each_new_connection_trusts_the_roots_of_its_time_whatever_was_trusted_before() {
    let (old, new) = (Authority::new(), Authority::new());
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let mut server = FakeServer::start(&old).await;
    fs::write(at("token"), "t").unwrap();
    fs::write(at("ca.crt"), old.pem()).unwrap();
    let (tls, roots) = tls(&old);
    let followed = Client::new(ClientSettings {
        url: server.url.clone(),
        tls: roots,
        token_file: at("token"),
    });
    let files = Client::from_files(ClientFiles {
        url: server.url.clone(),
        connect_to: None,
        roots_file: at("ca.crt"),
        token_file: at("token"),
    });
    let clients = [followed.unwrap(), files.unwrap()];
    for client in &clients {
        client.who_is_there().await.unwrap();
    }
    // The old authority is not trusted any more, and still has its key.
    tls.send_replace(new.client());
    fs::write(at("ca.crt"), new.pem()).unwrap();
    server = replace(server, &old).await;
    for client in &clients {
        // The first call may meet the end of the connection.
        is_refused(client).await;
        is_refused(client).await;
    }
    server = replace(server, &new).await;
    for client in &clients {
        let _ = client.who_is_there().await;
        client.who_is_there().await.unwrap();
    }
    // Without roots no server is trusted.
    fs::write(at("ca.crt"), "").unwrap();
    let _server = replace(server, &new).await;
    for _ in 0..2 {
        is_refused(&clients[1]).await;
    }
}

/// The server at an address proves the name of the URL, and not that of the address.
#[tokio::test]
async fn a_certificate_of_another_name_is_refused() {
    let world = World::new().await;
    let port = world.server.url.rsplit_once(':').unwrap().1;
    let at = |name: &str| world.directory.path().join(name);
    fs::write(at("ca.crt"), world.authority.pem()).unwrap();
    for (host, is_trusted) in [
        ("localhost", true),
        ("LOCALHOST", true),
        ("elsewhere", false),
        ("localhost.example", false),
        ("a.localhost", false),
        ("127.0.0.1", false),
        ("[::1]", false),
    ] {
        let url = format!("https://{host}:1");
        let address = ([127, 0, 0, 1], port.parse().unwrap()).into();
        let client = Client::from_files(ClientFiles {
            url,
            connect_to: Some(address),
            roots_file: at("ca.crt"),
            token_file: at("token"),
        });
        let said = client.unwrap().who_is_there().await;
        assert_eq!(said.is_ok(), is_trusted, "{host}");
    }
}

/// Otherwise each call would use up its whole deadline on it.
#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_is_given_up_before_the_deadline() {
    let world = World::new().await;
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = silent.local_addr().unwrap();
    let client = Client::new(ClientSettings {
        url: format!("https://localhost:{}", address.port()),
        tls: world.tls.subscribe(),
        token_file: world.directory.path().join("token"),
    });
    tokio::time::pause();
    let began = Instant::now();
    is_refused(&client.unwrap()).await;
    let took = began.elapsed();
    let due = Duration::from_secs(3);
    assert!(
        took >= due && took < due + Duration::from_millis(100),
        "{took:?}"
    );
}

#[tokio::test]
async fn a_url_that_is_none_is_told_and_not_called() {
    for url in [
        "http://localhost:1",
        "localhost:1",
        "https://localhost:1/x",
        "https://a:1/?x",
        "https://a:99999",
        "https://a:",
        "https://[::1]:x",
    ] {
        let files = ClientFiles {
            url: url.to_owned(),
            connect_to: None,
            roots_file: "/ca.crt".into(),
            token_file: "/token".into(),
        };
        let error = Client::from_files(files).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("`{url}` is not a URL of the form https://host:port")
        );
    }
}
