//! Which client certificates are of the API server.

use rustls::pki_types::CertificateDer;
use service_kit::tls::CallerCheck;
use x509_parser::{certificate::X509Certificate, prelude::FromDer};

/// Accepts a client whose subject has one of these names as its only common name; without names, every client.
pub(crate) fn named(names: Vec<String>) -> CallerCheck {
    Box::new(move |certificate| names.is_empty() || common_name(certificate, &names))
}

fn common_name(certificate: &CertificateDer<'_>, names: &[String]) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let mut common_names = certificate.subject().iter_common_name();
    let (Some(name), None) = (common_names.next(), common_names.next()) else {
        return false;
    };
    name.as_str()
        .is_ok_and(|name| names.iter().any(|it| it == name))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn certificate(common_name: Option<&str>) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if let Some(name) = common_name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn a_name_has_to_be_one_of_those_that_are_given() {
        let api_server = certificate(Some("kube-apiserver"));
        let names = |names: &[&str]| named(names.iter().map(|&it| it.to_owned()).collect());
        assert!(names(&[])(&api_server));
        assert!(names(&["other", "kube-apiserver"])(&api_server));
        for none in [
            names(&["other"]),
            names(&["kube-apiserve"]),
            names(&["ube-apiserver"]),
            names(&["kube-apiserver-2"]),
            names(&["Kube-apiserver"]),
            names(&[""]),
        ] {
            assert!(!none(&api_server));
        }
        assert!(!names(&["kube-apiserver"])(&certificate(None)));
        assert!(!names(&[""])(&certificate(None)));
        assert!(!names(&["x"])(&CertificateDer::from(vec![0; 8])));
    }
}
