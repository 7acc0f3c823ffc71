//! Who is let in where the API server shows a client certificate.

use std::{fs, path::Path};

use prometheus::Registry;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use rustls::pki_types::PrivateKeyDer;
use service_kit::tls::{CallerTls, TlsMetrics};

use super::*;
use crate::clients;

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn write(&self, file: &Path) {
        fs::write(file, self.0.pem()).unwrap();
    }

    /// A connection of somebody with this name.
    async fn ask(&self, caller: &Caller, name: &str) -> Result<Value, Failure> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?.der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der())?;
        let config = ClientConfig::builder()
            .with_root_certificates(caller.trusted()?)
            .with_client_auth_cert(vec![certificate], key)?;
        let connection = caller.handshake_trusting(Arc::new(config)).await?;
        let (mut sender, conversation) = http1::handshake(connection).await?;
        tokio::spawn(conversation);
        Ok(Caller::create(&mut sender).await?)
    }
}

async fn without_a_certificate(caller: &Caller) -> Result<Value, Failure> {
    let mut sender = caller.connect().await?;
    Ok(Caller::create(&mut sender).await?)
}

async fn replica(file: &Path, names: &[&str]) -> Replica {
    let names = names.iter().map(|&it| it.to_owned()).collect();
    let metrics = TlsMetrics::register(&Registry::new()).unwrap();
    let callers = CallerTls::load(file, clients::named(names), &metrics).unwrap();
    let mut replica = Replica::for_callers(Some(callers.verifier())).await;
    replica.keeper.pass().await.unwrap();
    let stop = replica.tasks.stop();
    replica
        .tasks
        .spawn_infallible("client authorities", callers.follow(stop));
    replica
}

#[tokio::test]
async fn with_an_authority_nobody_comes_in_without_its_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.crt");
    let ours = Authority::new();
    ours.write(&file);
    let replica = replica(&file, &[]).await;
    let caller = replica.caller();
    let answer = ours.ask(&caller, "kube-apiserver").await.unwrap();
    assert_eq!(answer["response"]["allowed"], true);
    without_a_certificate(&caller).await.unwrap_err();
    Authority::new()
        .ask(&caller, "kube-apiserver")
        .await
        .unwrap_err();
}

#[tokio::test]
async fn a_client_without_a_certificate_is_told_so_whatever_it_has_sent_already() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.crt");
    Authority::new().write(&file);
    let replica = replica(&file, &[]).await;
    let caller = replica.caller();
    for _ in 0..20 {
        let mut connection = caller.handshake().await.unwrap().into_inner();
        // As an API server does: the review follows its part of the handshake at once.
        for _ in 0..8 {
            connection.write_all(&[b'x'; 4096]).await.unwrap();
            connection.flush().await.unwrap();
            tokio::task::yield_now().await;
        }
        let why = connection.read_u8().await.unwrap_err();
        assert!(report(&why).contains("CertificateRequired"), "{why:?}");
    }
}

#[tokio::test]
async fn with_names_the_certificate_has_to_have_one_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.crt");
    let ours = Authority::new();
    ours.write(&file);
    let replica = replica(&file, &["kube-apiserver"]).await;
    let caller = replica.caller();
    ours.ask(&caller, "kube-apiserver").await.unwrap();
    ours.ask(&caller, "kubelet").await.unwrap_err();
}

#[tokio::test]
async fn a_changed_authority_counts_from_the_next_connection_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.crt");
    let (old, new) = (Authority::new(), Authority::new());
    old.write(&file);
    let replica = replica(&file, &[]).await;
    let caller = replica.caller();
    old.ask(&caller, "a").await.unwrap();
    new.ask(&caller, "a").await.unwrap_err();
    new.write(&file);
    let followed = async {
        while new.ask(&caller, "a").await.is_err() {
            connections::pass(Duration::from_secs(1)).await;
        }
    };
    timeout(Duration::from_secs(20), followed).await.unwrap();
    old.ask(&caller, "a").await.unwrap_err();
}
