//! Certificates: how they are made, and what is read from those that are stored.

use std::sync::Arc;

use connectors_api::hex;
use jiff::{SignedDuration, Timestamp};
use pem::{EncodeConfig, LineEnding, Pem};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, NameConstraints, date_time_ymd,
};
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName, UnixTime,
        pem::{self as pki_pem, PemObject},
    },
    sign::CertifiedKey,
};
use service_kit::certificate::{Validity, parse};
use sha2::{Digest, Sha256};
use thiserror::Error;

/// Machines whose clocks are slower than ours by less than this accept a new certificate at once.
pub(crate) const BACKDATED: SignedDuration = SignedDuration::from_hours(1);

/// The certificate authority is replaced at half of this.
const AUTHORITY_LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Serving certificates are replaced at two thirds of this.
const SERVING_LIFE: SignedDuration = SignedDuration::from_hours(60 * 24);

/// Why a certificate could not be made.
#[derive(Debug, Error)]
pub(crate) enum MakeError {
    /// No key could be drawn, or nothing be signed with it.
    #[error("cannot make a certificate")]
    Sign(#[from] rcgen::Error),
    /// The time cannot be written into a certificate.
    #[error("the clock shows {0}, which no certificate can name")]
    Time(Timestamp),
    /// The certificate that was made is not the one that is read back.
    #[error("the certificate that was made cannot be used")]
    Unusable,
}

/// When a certificate was made, if we made it.
pub(crate) fn made(validity: Validity) -> Timestamp {
    validity
        .from
        .checked_add(BACKDATED)
        .unwrap_or(Timestamp::MAX)
}

/// The certificate of an authority: what clients trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RootCertificate {
    der: CertificateDer<'static>,
    pub(crate) validity: Validity,
}

impl RootCertificate {
    fn read(der: CertificateDer<'static>) -> Option<Self> {
        let validity = {
            let certificate = parse(&der)?;
            if !certificate.is_ca() {
                return None;
            }
            Validity::of(&certificate)?
        };
        Some(Self { der, validity })
    }

    /// Every certificate of a bundle, or nothing when any of it is something else.
    pub(crate) fn bundle(text: &[u8]) -> Option<Vec<Self>> {
        CertificateDer::pem_slice_iter(text)
            .map(|der| Self::read(der.ok()?))
            .collect()
    }
}

/// A bundle as it is published.
pub(crate) fn bundle(roots: &[RootCertificate]) -> String {
    roots.iter().map(|root| pem_text(&root.der)).collect()
}

/// The same for a client of ours. A root that rustls does not take is not trusted.
pub(crate) fn store(roots: &[RootCertificate]) -> RootCertStore {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots.iter().map(|root| root.der.clone()));
    store
}

/// The authority that signs. No `Debug`: it holds a key.
pub(crate) struct Authority {
    pub(crate) root: RootCertificate,
    key: KeyPair,
}

impl Authority {
    /// A new authority that can only speak for services of one namespace.
    pub(crate) fn make(namespace: &str, now: Timestamp) -> Result<Self, MakeError> {
        let key = KeyPair::generate()?;
        let mut params = dated(now, AUTHORITY_LIFE, None)?;
        // Two authorities of one name could not be told apart by people.
        let name = format!("connectors-approval {}", fingerprint(key.public_key_raw()));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        // A stolen key is no key to anything else in the cluster.
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: domains(namespace).map(GeneralSubtree::DnsName).into(),
            excluded_subtrees: Vec::new(),
        });
        let certificate = params.self_signed(&key)?;
        let root = RootCertificate::read(certificate.der().clone()).ok_or(MakeError::Unusable)?;
        Ok(Self { root, key })
    }

    /// An authority that was stored; nothing when it is none, or the key is another's.
    pub(crate) fn read(certificate: &[u8], key: &[u8]) -> Option<Self> {
        let root = RootCertificate::read(single(certificate)?)?;
        let key = KeyPair::from_pem(std::str::from_utf8(key).ok()?).ok()?;
        let fits = {
            let certificate = parse(&root.der)?;
            *certificate.public_key().subject_public_key.data == *key.public_key_raw()
        };
        fits.then_some(Self { root, key })
    }

    /// A serving certificate of these names, which ends no later than the authority.
    pub(crate) fn issue(
        &self,
        names: &[String],
        now: Timestamp,
    ) -> Result<ServerIdentity, MakeError> {
        let key = KeyPair::generate()?;
        let mut params = dated(now, SERVING_LIFE, Some(self.root.validity.until))?;
        params.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
        // For people only, and short: a common name has at most 64 characters, and a namespace 63.
        let service = names.first().and_then(|name| name.split('.').next());
        if let Some(service) = service {
            params.distinguished_name.push(DnType::CommonName, service);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let issuer = Issuer::from_ca_cert_der(&self.root.der, &self.key)?;
        let certificate = params.signed_by(&key, &issuer)?;
        let text = pem_text(certificate.der());
        ServerIdentity::read(text.as_bytes(), key.serialize_pem().as_bytes())
            .ok_or(MakeError::Unusable)
    }

    /// The stored form: certificate and key.
    pub(crate) fn pems(&self) -> [String; 2] {
        [pem_text(&self.root.der), self.key.serialize_pem()]
    }
}

/// The certificate of a server. No `Debug`: it holds a key.
pub(crate) struct ServerIdentity {
    pub(crate) validity: Validity,
    certified: Arc<CertifiedKey>,
    key_pem: String,
}

impl ServerIdentity {
    /// A pair that was stored; nothing when it is none, or the key is another's.
    pub(crate) fn read(certificates: &[u8], key: &[u8]) -> Option<Self> {
        let chain = chain(certificates)?;
        let leaf = parse(chain.first()?)?;
        let validity = Validity::of(&leaf)?;
        let private = PrivateKeyDer::from_pem_slice(key).ok()?;
        let certified =
            CertifiedKey::from_der(chain.clone(), private, &ring::default_provider()).ok()?;
        Some(Self {
            validity,
            certified: Arc::new(certified),
            key_pem: String::from_utf8(key.to_vec()).ok()?,
        })
    }

    /// The form that TLS presents and signs with.
    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.certified)
    }

    /// Whether a client that trusts these roots accepts it, for every name, at this time.
    pub(crate) fn verified(
        &self,
        roots: &[RootCertificate],
        names: &[String],
        now: Timestamp,
    ) -> bool {
        let Some((leaf, intermediates)) = self.certified.cert.split_first() else {
            return false;
        };
        let mut store = RootCertStore::empty();
        for root in roots {
            // The verifier looks at the time of every certificate but the roots; other clients look there too.
            if root.validity.from <= now && now < root.validity.until {
                // A root that cannot be used verifies nothing.
                let _ = store.add(root.der.clone());
            }
        }
        let provider = Arc::new(ring::default_provider());
        // Refused when there is no root at all.
        let Ok(verifier) =
            WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider).build()
        else {
            return false;
        };
        let Ok(seconds) = u64::try_from(now.as_second()) else {
            return false;
        };
        let time = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        !names.is_empty()
            && names.iter().all(|name| {
                ServerName::try_from(name.as_str()).is_ok_and(|name| {
                    verifier
                        .verify_server_cert(leaf, intermediates, &name, &[], time)
                        .is_ok()
                })
            })
    }

    /// The stored form: certificate and key.
    pub(crate) fn pems(&self) -> [String; 2] {
        let certificates = self.certified.cert.iter().map(pem_text).collect();
        [certificates, self.key_pem.clone()]
    }
}

/// The two domains under which a cluster knows the services of a namespace.
pub(crate) fn domains(namespace: &str) -> [String; 2] {
    [
        format!("{namespace}.svc"),
        format!("{namespace}.svc.cluster.local"),
    ]
}

fn dated(
    now: Timestamp,
    life: SignedDuration,
    no_later_than: Option<Timestamp>,
) -> Result<CertificateParams, MakeError> {
    let ends = now.checked_add(life).map_err(|_| MakeError::Time(now))?;
    let starts = now
        .checked_sub(BACKDATED)
        .map_err(|_| MakeError::Time(now))?;
    let ends = no_later_than.map_or(ends, |limit| limit.min(ends));
    let epoch = date_time_ymd(1970, 1, 1);
    let after_epoch = |time: Timestamp| {
        u64::try_from(time.as_second())
            .map(std::time::Duration::from_secs)
            .map_err(|_| MakeError::Time(now))
    };
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = epoch + after_epoch(starts)?;
    params.not_after = epoch + after_epoch(ends)?;
    Ok(params)
}

fn fingerprint(key: &[u8]) -> String {
    hex(&Sha256::digest(key)[..4])
}

/// The certificates of a text, the first of them that of the server.
fn chain(text: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, pki_pem::Error>>()
        .ok()?;
    (!chain.is_empty()).then_some(chain)
}

/// The one certificate of a text.
fn single(text: &[u8]) -> Option<CertificateDer<'static>> {
    let [only]: [_; 1] = chain(text)?.try_into().ok()?;
    Some(only)
}

fn pem_text(der: &CertificateDer<'_>) -> String {
    let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
    pem::encode_config(&Pem::new("CERTIFICATE", der.to_vec()), config)
}
