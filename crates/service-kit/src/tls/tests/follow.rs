//! Files that are followed, for each kind of value that is made of them.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime, pem::PemObject};
use tokio::time::sleep;

use super::*;
use crate::{shutdown::Tasks, tls::CallerTls};

/// A little more than it takes until files are looked at.
const SOON: Duration = Duration::from_secs(6);

fn callers(mounted: &Mounted, metrics: &TlsMetrics) -> CallerTls {
    // Every signed client may call.
    CallerTls::load(mounted.path("ca.crt"), Box::new(|_| true), metrics).unwrap()
}

fn may_call(
    verifier: &dyn rustls::server::danger::ClientCertVerifier,
    (certificate, _): &(String, String),
) -> bool {
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
    let answer = verifier.verify_client_cert(&certificate, &[], UnixTime::now());
    answer.is_ok()
}

/// A mounted Secret, file by file.
type Content<'a> = &'a [(&'a str, &'a str)];

/// Each content of the file decides about callers of the old and of the new authority. A broken file changes
/// nothing.
#[tokio::test(start_paused = true)]
async fn callers_are_trusted_by_the_authorities_that_the_file_holds_now() {
    let (old, new, metrics) = (Authority::new("old"), Authority::new("new"), metrics());
    let (of_old, of_new) = (old.issue(), new.issue());
    let both = format!("{}{}", old.0.pem(), new.0.pem());
    let mut ca = Mounted::new(&[("ca.crt", &old.0.pem())]);
    let callers = callers(&ca, &metrics);
    let (verifier, tasks) = (callers.verifier(), Tasks::new());
    tokio::spawn(callers.follow(tasks.stop()));
    let trusted = || [&of_old, &of_new].map(|it| may_call(&*verifier, it));
    assert_eq!(trusted(), [true, false]);
    let (old_alone, new_alone) = (old.0.pem(), new.0.pem());
    let half = &new_alone[..new_alone.len() / 2];
    let contents: [(Content<'_>, [bool; 2]); 8] = [
        (&[("ca.crt", &both)], [true, true]),
        (&[("ca.crt", "")], [true, true]),
        (&[], [true, true]),
        (&[("ca.crt", &new_alone)], [false, true]),
        (&[("ca.crt", half)], [false, true]),
        // The same content again, after a broken one.
        (&[("ca.crt", &new_alone)], [false, true]),
        (&[("ca.crt", &both)], [true, true]),
        (&[("ca.crt", &old_alone)], [true, false]),
    ];
    for (place, (content, expected)) in contents.into_iter().enumerate() {
        ca.swap(content);
        sleep(SOON).await;
        assert_eq!(trusted(), expected, "content {place}");
    }
    assert_eq!(counted(&metrics, "client-roots"), (5, 3));
}

#[tokio::test(start_paused = true)]
async fn changed_files_count_within_seconds_without_anybody_saying_so() {
    let (old, new, metrics) = (Authority::new("old"), Authority::new("new"), metrics());
    let (first, second) = (old.issue(), new.issue());
    let mut ca = Mounted::new(&[("ca.crt", &old.0.pem())]);
    let mut mounted = Mounted::new(&[("tls.crt", &first.0), ("tls.key", &first.1)]);
    let server = server(&mounted, &metrics).unwrap();
    let client = client(&ca, &metrics);
    let (serving, trusting, tasks) = (server.config(), client.config(), Tasks::new());
    tokio::spawn(server.follow(tasks.stop()));
    tokio::spawn(client.follow(tasks.stop()));
    let seen = || handshake(serving.clone(), trusting.borrow().clone());
    let before = seen().await.unwrap();
    mounted.swap(&[("tls.crt", &second.0), ("tls.key", &second.1)]);
    sleep(SOON).await;
    assert_eq!(seen().await, None, "nobody trusts the new certificate yet");
    ca.swap(&[("ca.crt", &new.0.pem())]);
    sleep(SOON).await;
    assert_ne!(seen().await.unwrap(), before);
    mounted.swap(&[("tls.crt", &first.0), ("tls.key", &first.1)]);
    sleep(SOON).await;
    assert_eq!(
        seen().await,
        None,
        "the old authority is not trusted any more"
    );
}
