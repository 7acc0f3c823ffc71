//! Certificates, an authority and processes of the webhook are replaced while it is called all the time.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use e2e::{
    ApiError,
    api::kinds::{SECRET, VALIDATING_WEBHOOKS},
    install::{NAMESPACE, RELEASE},
};
use serde_json::Value;

use crate::support::{Approval, Gate, Installation, policy, wait_until};

/// The secrets with the webhook's certificate, and with the authority that signed it.
const SERVED: &str = "webhook-tls";
const AUTHORITY: &str = "connectors-ca";
const CALLERS: usize = 3;
/// Before and after everything, so that it is known to work.
const CALM: Duration = Duration::from_secs(2);

/// A field of the secret with the webhook's certificate; nothing while there is none.
fn certificate(installation: &Installation<'_>) -> Option<Value> {
    let mut secret = installation.api().get(SECRET, SERVED).unwrap()?;
    Some(secret["data"]["tls.crt"].take()).filter(|it| !it.is_null())
}

/// The authorities that the API server trusts, for every webhook of ours.
fn trusted(installation: &Installation<'_>) -> Vec<Value> {
    let found = installation.api().get(VALIDATING_WEBHOOKS, RELEASE);
    let mut configuration = found.unwrap().unwrap();
    let webhooks = configuration["webhooks"].as_array_mut().unwrap();
    let roots = webhooks
        .iter_mut()
        .map(|it| it["clientConfig"]["caBundle"].take());
    roots.collect()
}

/// Ends the calls when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn the_webhook_lets_in_the_api_server_and_nobody_without_its_certificate() {
    let gate = Gate::new("callers");
    if gate.scene().cluster().is_none() {
        return; // whether an existing cluster's API server has a certificate to show is not known
    }
    gate.create_policy("let-in", Approval::SignOff);
    // The API server's proxy shows the certificate of no webhook.
    let post = format!(
        "create --raw /api/v1/namespaces/{NAMESPACE}/services/https:webhook:443/proxy/validate/accesspolicies -f -"
    );
    let kubectl = gate.scene().kubectl();
    let refusal = e2e::report(&kubectl.run_with_input(&post, "{}").unwrap_err());
    // Go's client tells of the alert, or of its own write that the alert interrupted.
    let words = ["certificate required", "use of closed network connection"];
    let heard = words.iter().any(|it| refusal.contains(it));
    assert!(heard, "{refusal}");
}

fn replace_certificate(installation: &Installation<'_>) {
    let before = certificate(installation);
    installation.api().delete(SECRET, SERVED).unwrap();
    wait_until("another certificate", || {
        let now = certificate(installation);
        now.is_some() && now != before
    });
}

#[test]
fn no_call_fails_while_certificates_authority_and_processes_are_replaced() {
    let gate = Gate::alone_without_mounts("certificates");
    let installation = Installation::of(&gate);
    let plain = policy("plain", Approval::SignOff);
    let is_over = AtomicBool::new(false);
    let call = || {
        let mut calls = 0_u32;
        while !is_over.load(Ordering::Relaxed) {
            gate.api().try_create(&plain)?;
            calls += 1;
        }
        Ok::<_, ApiError>(calls)
    };
    let answers: Vec<_> = thread::scope(|scope| {
        // Also when something below fails: the scope waits for the callers.
        let over = Over(&is_over);
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(call)).collect();
        thread::sleep(CALM);
        replace_certificate(&installation);
        let before = trusted(&installation);
        installation.api().delete(SECRET, AUTHORITY).unwrap();
        wait_until("another authority", || trusted(&installation) != before);
        // Signed by the other one.
        replace_certificate(&installation);
        installation.restart("webhook");
        installation.wait_until_ready("webhook");
        thread::sleep(CALM);
        drop(over);
        callers.into_iter().map(|it| it.join().unwrap()).collect()
    });
    for answer in answers {
        let calls = answer.expect("a call failed");
        assert!(calls > 10, "{calls} calls");
    }
}
