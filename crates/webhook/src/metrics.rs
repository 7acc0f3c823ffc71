//! The metrics of this service.

use std::time::Duration;

use prometheus::Registry;
use service_kit::{certificate::Validity, families, label_values};

use crate::page::Page;

/// Everything.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    pub(crate) reviews: ReviewMetrics,
    pub(crate) certificates: CertificateMetrics,
    pub(crate) peers: PeerMetrics,
}

families! {
    /// The results of reviews.
    pub(crate) struct ReviewMetrics {
        answers: counters("connectors_admission_reviews_total", "Admission reviews, by answer", &["webhook", "answer"]),
        seconds: histograms(
            "connectors_admission_review_seconds", "Time to answer a review",
            &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0], &["webhook"]
        ),
    }
}

families! {
    /// How often an address had its share.
    pub(crate) struct PeerMetrics {
        limits: counters(
            "connectors_admission_peer_limits_total", "Times that an address had its share and wanted more", &["limit"]
        ),
    }
}

label_values! {
    /// The object of a write that keeps the certificates.
    pub(crate) enum RenewedObject {
        /// The stored authority.
        Authority = "authority",
        /// The `ConfigMap` with the published authorities.
        Bundle = "bundle",
        /// The webhook configurations.
        Announcement = "announcement",
        /// The certificate of the webhook.
        Webhook = "webhook-tls",
        /// The certificate of the evaluation service.
        Evaluation = "evaluation-service-tls",
    }
}

families! {
    /// How the certificates stand.
    pub(crate) struct CertificateMetrics {
        ends: fractions(
            "connectors_certificate_not_after_timestamp_seconds", "When a stored certificate ends, in seconds since 1970", &["certificate"]
        ),
        renewals: counters_of(
            "connectors_certificate_renewals_total", "Writes of this process to keep the certificates", &["object"],
            RenewedObject::WORDS
        ),
        failures: counter(
            "connectors_certificate_failures_total", "Attempts to bring the certificates in order that failed"
        ),
    }
}

/// How a review was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// Admitted as it is, or with what was filled in.
    Allowed,
    /// Refused for what it says.
    Refused,
    /// Refused because it could not be judged.
    Unjudged,
    /// No review at all.
    Malformed,
}

impl Answered {
    pub(crate) const ALL: [Self; 4] = [
        Self::Allowed,
        Self::Refused,
        Self::Unjudged,
        Self::Malformed,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
            Self::Unjudged => "unjudged",
            Self::Malformed => "malformed",
        }
    }
}

/// The limits that an address has a share of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Open connections: what is over the share is closed.
    Connections,
    /// Memory of reviews.
    Memory,
    /// Calls to the API server.
    Calls,
    /// Rego, in the evaluation service.
    Rego,
}

impl Limit {
    pub(crate) const ALL: [Self; 4] = [Self::Connections, Self::Memory, Self::Calls, Self::Rego];

    /// As metrics and logs have it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Memory => "memory",
            Self::Calls => "calls",
            Self::Rego => "rego",
        }
    }
}

impl Metrics {
    /// Makes the metrics, once per process.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let metrics = Self {
            reviews: ReviewMetrics::register(registry)?,
            certificates: CertificateMetrics::register(registry)?,
            peers: PeerMetrics::register(registry)?,
        };
        // All results are there from the start, so that a rate over them has a zero to begin from.
        for page in Page::ALL {
            for outcome in Answered::ALL {
                let labels = [page.word(), outcome.word()];
                metrics.reviews.answers.with_label_values(&labels);
            }
            metrics.reviews.seconds.with_label_values(&[page.word()]);
        }
        for limit in Limit::ALL {
            metrics.peers.limits.with_label_values(&[limit.word()]);
        }
        Ok(metrics)
    }
}

impl ReviewMetrics {
    pub(crate) fn answered(&self, page: Page, outcome: Answered, took: Duration) {
        let labels = [page.word(), outcome.word()];
        self.answers.with_label_values(&labels).inc();
        let seconds = self.seconds.with_label_values(&labels[..1]);
        seconds.observe(took.as_secs_f64());
    }

    #[cfg(test)]
    pub(crate) fn counted(&self, page: Page, outcome: Answered) -> u64 {
        let labels = [page.word(), outcome.word()];
        self.answers.with_label_values(&labels).get()
    }
}

impl PeerMetrics {
    pub(crate) fn reached(&self, limit: Limit) {
        self.limits.with_label_values(&[limit.word()]).inc();
    }

    #[cfg(test)]
    pub(crate) fn counted(&self, limit: Limit) -> u64 {
        self.limits.with_label_values(&[limit.word()]).get()
    }
}

impl CertificateMetrics {
    pub(crate) fn ends(&self, certificate: &str, validity: Validity) {
        let ends = validity.until.as_duration().as_secs_f64();
        self.ends.with_label_values(&[certificate]).set(ends);
    }

    pub(crate) fn renewed(&self, object: RenewedObject) {
        self.renewals.with_label_values(&[object.as_str()]).inc();
    }

    pub(crate) fn failed(&self) {
        self.failures.inc();
    }
}
