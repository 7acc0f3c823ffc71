//! A client that is configured by files only.

use super::super::ClientFiles;
use super::*;

/// A client whose files do not exist yet, with an unreachable port in its URL.
fn client(world: &World) -> Client {
    let address = world.server.url.trim_start_matches("https://localhost:");
    let port: u16 = address.parse().unwrap();
    let client = Client::from_files(ClientFiles {
        url: "https://localhost:1".to_owned(),
        connect_to: Some(([127, 0, 0, 1], port).into()),
        roots_file: world.directory.path().join("ca.crt"),
        token_file: world.directory.path().join("token"),
    });
    client.unwrap()
}

async fn refused(client: &Client) -> String {
    let error = client.check_access(question("harbor")).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::Unavailable), "{error}");
    assert!(error.may_pass());
    error.to_string()
}

#[tokio::test]
async fn roots_are_those_of_the_file_at_each_connection() {
    let mut world = World::new().await;
    world.client = client(&world);
    let error = refused(&world.client).await;
    assert!(error.contains("ca.crt"), "{error}");

    let stranger = Authority::new();
    let write = |pem: String| fs::write(world.directory.path().join("ca.crt"), pem).unwrap();
    write(stranger.pem());
    let error = refused(&world.client).await;
    assert!(error.contains("invalid peer certificate"), "{error}");

    // Both authorities, as during a rotation.
    write(stranger.pem() + &world.authority.pem());
    let (bearer, answer) = world.check(Ok(no("found"))).await;
    assert_eq!(
        (&*bearer, &*answer.unwrap().reason),
        ("Bearer first", "found")
    );
    // An open connection is not affected by changes of its file.
    fs::remove_file(world.directory.path().join("ca.crt")).unwrap();
    let (_, answer) = world.check(Ok(no("again"))).await;
    assert_eq!(answer.unwrap().reason, "again");
}
