//! The next step about the certificates, from the stored objects and the time.
//!
//! A step depends only on objects that were read back from the cluster. So an authority signs nothing before
//! its certificate was seen published, by any process, and two processes that plan at once want the same.

use jiff::{SignedDuration, Timestamp};

use service_kit::certificate::Validity;

use super::x509::{self, Authority, BACKDATED, RootCertificate, ServerIdentity};

/// The kubelet brings a new bundle to pods within about two minutes. Until then, what clients trust
/// already stays in use.
pub(crate) const SPREADING: SignedDuration = SignedDuration::from_mins(10);
/// How long a bundle keeps what nothing stored is signed by any more: a process may be late to load.
pub(crate) const KEPT: SignedDuration = SignedDuration::from_hours(1);

/// Percent of its life after which an authority is replaced.
const AUTHORITY_DUE: i32 = 50;
/// Percent of its life after which a serving certificate is replaced.
const SERVING_DUE: i32 = 66;

/// A server that gets a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Webhook,
    Evaluation,
}

impl Server {
    pub(crate) const ALL: [Self; 2] = [Self::Webhook, Self::Evaluation];

    /// Its Service, and the first part of its names.
    pub(crate) const fn service(self) -> &'static str {
        match self {
            Self::Webhook => "webhook",
            Self::Evaluation => "evaluation-service",
        }
    }

    /// The Secret that its certificate is stored in.
    pub(crate) const fn secret(self) -> &'static str {
        match self {
            Self::Webhook => "webhook-tls",
            Self::Evaluation => "evaluation-service-tls",
        }
    }

    /// The names that its callers know it by.
    pub(crate) fn names(self, namespace: &str) -> Vec<String> {
        super::x509::domains(namespace)
            .map(|domain| format!("{}.{domain}", self.service()))
            .into()
    }
}

/// The authorities that callers which read the `ConfigMap` trust.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bundle {
    /// Empty when there is none, or none that can be read.
    pub(crate) roots: Vec<RootCertificate>,
    /// When the roots were last changed, if that is known.
    pub(crate) changed: Option<Timestamp>,
}

/// Everything that is stored. What cannot be read counts as absent.
pub(crate) struct StoredCertificates {
    pub(crate) authority: Option<Authority>,
    pub(crate) bundle: Bundle,
    /// The authorities that the API server trusts, for each webhook of ours in each configuration that exists.
    pub(crate) announced: Vec<Vec<RootCertificate>>,
    /// In the order of [`Server::ALL`].
    pub(crate) serving: [Option<ServerIdentity>; 2],
}

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CertificateStep {
    /// Make an authority and store it in the place of the one that was read.
    MakeAuthority,
    /// Write these roots into the `ConfigMap`.
    Publish(Vec<RootCertificate>),
    /// Write these roots into the webhook configurations.
    Announce(Vec<RootCertificate>),
    /// Make a certificate for this server, signed by the stored authority.
    Issue(Server),
    /// Everything is as it has to be, for now.
    Rest,
}

/// The next step, for the servers of one namespace.
pub(crate) fn plan(
    stored: &StoredCertificates,
    namespace: &str,
    now: Timestamp,
) -> CertificateStep {
    let fresh = |authority: &&Authority| authority.root.validity.fresh(now, AUTHORITY_DUE);
    let Some(authority) = stored.authority.as_ref().filter(fresh) else {
        return CertificateStep::MakeAuthority;
    };
    let wanted = wanted(authority, stored, namespace, now);
    // Another replica's clock may be ahead a little; a time beyond that is an accident.
    let plausible = |changed: &Timestamp| changed.duration_since(now) <= BACKDATED;
    let changed = stored.bundle.changed.filter(plausible);
    let Some(changed) = changed.filter(|_| stored.bundle.roots == wanted) else {
        return CertificateStep::Publish(wanted);
    };
    if stored.announced.iter().any(|roots| *roots != wanted) {
        return CertificateStep::Announce(wanted);
    }
    let spread = now.duration_since(changed) >= SPREADING;
    for (server, pair) in Server::ALL.into_iter().zip(&stored.serving) {
        let names = server.names(namespace);
        let state = state(pair.as_ref(), authority, &wanted, &names, now);
        match state {
            CertificateState::Useless | CertificateState::Due => {
                return CertificateStep::Issue(server);
            }
            // A bundle that is written again and again never spreads, and no caller accepts an expired certificate.
            CertificateState::Older { until }
                if spread || until.duration_since(now) <= SPREADING =>
            {
                return CertificateStep::Issue(server);
            }
            CertificateState::Older { .. } | CertificateState::Good => {}
        }
    }
    CertificateStep::Rest
}

/// How a serving certificate stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CertificateState {
    /// No caller accepts it: waiting makes nothing better.
    Useless,
    /// It works, and is old. A caller that accepts it accepts a newer one of the same authority: waiting makes nothing
    /// better.
    Due,
    /// It works until then, and an earlier authority signed it: first callers learn of the later one.
    Older {
        until: Timestamp,
    },
    Good,
}

fn state(
    pair: Option<&ServerIdentity>,
    authority: &Authority,
    trusted: &[RootCertificate],
    names: &[String],
    now: Timestamp,
) -> CertificateState {
    let Some(pair) = pair.filter(|pair| pair.verified(trusted, names, now)) else {
        return CertificateState::Useless;
    };
    let Validity { until, .. } = pair.validity;
    if !pair.verified(std::slice::from_ref(&authority.root), names, now) {
        CertificateState::Older { until }
    } else if pair.validity.fresh(now, SERVING_DUE) {
        CertificateState::Good
    } else {
        CertificateState::Due
    }
}

/// The authority first; older roots until nothing can be in use that needs them.
fn wanted(
    authority: &Authority,
    stored: &StoredCertificates,
    namespace: &str,
    now: Timestamp,
) -> Vec<RootCertificate> {
    let mut roots = vec![authority.root.clone()];
    let settled = Server::ALL
        .into_iter()
        .zip(&stored.serving)
        .all(|(server, pair)| {
            let names = server.names(namespace);
            pair.as_ref().is_some_and(|pair| {
                pair.verified(&roots, &names, now)
                    && now.duration_since(x509::made(pair.validity)) >= KEPT
            })
        });
    if !settled {
        for root in &stored.bundle.roots {
            if !roots.contains(root) && now < root.validity.until {
                roots.push(root.clone());
            }
        }
    }
    roots
}

#[cfg(test)]
mod tests;
