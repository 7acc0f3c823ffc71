//! When X.509 certificates hold.

use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use x509_parser::{certificate::X509Certificate, prelude::FromDer as _, time::ASN1Time};

/// When a certificate holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Its first moment.
    pub from: Timestamp,
    /// The moment of its end.
    pub until: Timestamp,
}

impl Validity {
    /// Of a parsed certificate. None if a time is out of the range of timestamps.
    #[must_use]
    pub fn of(certificate: &X509Certificate<'_>) -> Option<Self> {
        let read = |time: ASN1Time| Timestamp::from_second(time.timestamp()).ok();
        let validity = certificate.validity();
        Some(Self {
            from: read(validity.not_before)?,
            until: read(validity.not_after)?,
        })
    }

    /// Of each certificate of a PEM bundle. One that cannot be read is left out, as the API server does.
    #[must_use]
    pub fn of_bundle(pem: &[u8]) -> Vec<Self> {
        CertificateDer::pem_slice_iter(pem)
            .filter_map(|der| Self::of(&parse(&der.ok()?)?))
            .collect()
    }

    /// True when it holds, and less than this part of its time has passed.
    #[must_use]
    pub fn fresh(self, now: Timestamp, percent: i32) -> bool {
        let whole = self.until.duration_since(self.from);
        let due = whole
            .checked_div(100)
            .and_then(|part| part.checked_mul(percent))
            .and_then(|share| self.from.checked_add(share).ok());
        self.from <= now && due.is_some_and(|due| now < due)
    }
}

/// Parses a certificate with nothing behind it.
#[must_use]
pub fn parse<'a>(der: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    rest.is_empty().then_some(certificate)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn pem(from: (i32, u8, u8), until: (i32, u8, u8)) -> String {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(until.0, until.1, until.2);
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().pem()
    }

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn each_certificate_of_a_bundle_has_its_times() {
        let bundle = pem((2026, 1, 1), (2027, 1, 1)) + &pem((2025, 1, 1), (2026, 2, 1));
        let found = Validity::of_bundle(bundle.as_bytes());
        let ends: Vec<_> = found.iter().map(|it| it.until).collect();
        let expected = ["2027-01-01T00:00:00Z", "2026-02-01T00:00:00Z"].map(time);
        assert_eq!(ends, expected);
        assert_eq!(Validity::of_bundle(b""), Vec::new());
    }

    #[test]
    fn what_is_no_certificate_is_left_out() {
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let bundle = pem((2026, 1, 1), (2027, 1, 1)) + broken;
        assert_eq!(Validity::of_bundle(bundle.as_bytes()).len(), 1);
        assert_eq!(Validity::of_bundle(broken.as_bytes()), Vec::new());
    }

    #[test]
    fn a_certificate_is_fresh_from_its_begin_to_a_part_of_its_time() {
        let validity = Validity {
            from: time("2026-01-01T00:00:00Z"),
            until: time("2026-01-11T00:00:00Z"),
        };
        let half = validity.from + SignedDuration::from_hours(5 * 24);
        let second = SignedDuration::from_secs(1);
        assert!(validity.fresh(validity.from, 50) && validity.fresh(half - second, 50));
        assert!(!validity.fresh(half, 50) && !validity.fresh(validity.from - second, 50));
    }
}
