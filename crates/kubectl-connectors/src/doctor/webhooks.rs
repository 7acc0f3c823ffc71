//! The webhooks and their certificate authority.

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::WebhookClientConfig;
use service_kit::certificate::Validity;

use super::commands::{logs, upgrade};
use super::{DoctorFinding, DoctorRead, DoctorSeverity, DoctorWord};
use crate::unread::Presence;

/// The part of the life of an authority, in percent, after which its replacement is late. The webhook begins at half.
const OVERDUE: i32 = 60;

pub(super) fn examine(read: &DoctorRead, now: Timestamp) -> Vec<DoctorFinding> {
    let configurations = [
        (
            "MutatingWebhookConfiguration",
            clients(&read.mutating, |it| {
                let all = it.webhooks.iter().flatten();
                all.map(|it| &it.client_config).collect()
            }),
        ),
        (
            "ValidatingWebhookConfiguration",
            clients(&read.validating, |it| {
                let all = it.webhooks.iter().flatten();
                all.map(|it| &it.client_config).collect()
            }),
        ),
    ];
    let is_trusted = |it: &&WebhookClientConfig| {
        let bundle = it.ca_bundle.as_ref();
        bundle.is_some_and(|it| !it.0.is_empty())
    };
    let mut findings = Vec::new();
    for (kind, found) in configurations {
        let object = format!("{kind} connectors-approval");
        match found {
            Presence::Unread => {}
            Presence::There(all) if !all.is_empty() => {
                if all.iter().all(is_trusted) {
                    findings.extend(authority_old(read, object, &all, now));
                    continue;
                }
                let finding = DoctorFinding::new(
                    DoctorSeverity::Error,
                    DoctorWord::WebhookUntrusted,
                    object,
                    "it names no certificate authority: policies and requests cannot be written",
                    "let the webhook write its authority; its log says why it does not",
                );
                findings.push(finding.with_command(logs(read, "webhook")));
            }
            Presence::Absent | Presence::There(_) => {
                let finding = DoctorFinding::new(
                    DoctorSeverity::Error,
                    DoctorWord::WebhookMissing,
                    object,
                    "it is missing: policies and requests are accepted unseen",
                    "install the chart again",
                );
                findings.push(finding.with_command(upgrade(read)));
            }
        }
    }
    findings
}

/// The webhook replaces its authority at half of its time.
fn authority_old(
    read: &DoctorRead,
    object: String,
    all: &[&WebhookClientConfig],
    now: Timestamp,
) -> Option<DoctorFinding> {
    let bundles = all.iter().filter_map(|it| it.ca_bundle.as_ref());
    let newest = bundles
        .map(|bundle| Validity::of_bundle(&bundle.0))
        .map(|all| all.into_iter().max_by_key(|it| it.until));
    let oldest = newest.min_by_key(|it| it.map(|it| it.until))?;
    let (severity, message) = match oldest {
        None => (
            DoctorSeverity::Error,
            "its certificate authority cannot be read: policies and requests cannot be written"
                .to_owned(),
        ),
        Some(it) if it.until <= now => (
            DoctorSeverity::Error,
            format!(
                "its certificate authority expired at {}: policies and requests cannot be written",
                it.until
            ),
        ),
        Some(it) if !it.fresh(now, OVERDUE) => (
            DoctorSeverity::Warning,
            format!(
                "its certificate authority ends at {}, and the webhook has not replaced it",
                it.until
            ),
        ),
        Some(_) => return None,
    };
    let finding = DoctorFinding::new(
        severity,
        DoctorWord::CertificateOld,
        object,
        message,
        "the webhook renews it when it runs and may write its Secrets; its log says why it does not",
    );
    Some(finding.with_command(logs(read, "webhook")))
}

/// How the API server reaches each webhook of a configuration.
fn clients<'a, K>(
    found: &'a Presence<K>,
    of: impl Fn(&'a K) -> Vec<&'a WebhookClientConfig>,
) -> Presence<Vec<&'a WebhookClientConfig>> {
    match found {
        Presence::Unread => Presence::Unread,
        Presence::Absent => Presence::Absent,
        Presence::There(configuration) => Presence::There(of(configuration)),
    }
}
