//! Forged runs: an author of the namespace, with the role `edit` and the additions of Tekton and the gate,
//! tries to have a pod let in that no approver has approved. The numbers are those of docs/threat-model.md.
//!
//! A forgery that the API server refuses has failed too: then admission, or the gate's webhook, stops it earlier.

mod approvals;
mod children;
mod pods;

use e2e::{ApiClient, ApiError, api::kinds::POD, harness::say};
use serde_json::Value;

use super::live::Live;
use crate::support::{pipelines::wait_for_word, uid};

/// An action of the tenant. An error is the refusal of the API server.
type Deed = fn(&Live, &ApiClient) -> Result<(), ApiError>;

#[derive(Clone, Copy)]
struct Forgery {
    name: &'static str,
    /// Before the honest run.
    before: Option<Deed>,
    run: fn() -> Value,
    /// Once its children are there.
    after: Deed,
    /// The pod that must not be let in.
    pod: &'static str,
    /// Several where the order of creation within a second decides, or which of two contradictions is seen first.
    words: &'static [&'static str],
}

fn approve(live: &Live, _: &ApiClient) -> Result<(), ApiError> {
    live.answer("run-wait", "alice", None, "approve")
}

fn approve_as_mallory(live: &Live, approval: &str) -> Result<(), ApiError> {
    live.answer(approval, "mallory", None, "approve")
}

/// Tries one forgery; true when the API server let it through.
fn is_tried(forgery: &Forgery, number: usize) -> bool {
    let Forgery {
        name,
        before,
        run,
        after,
        pod,
        words,
    } = forgery;
    let live = Live::new(&format!("tk-forged-{number}"));
    let tenant = live.tenant();
    let refusal = match before.map_or(Ok(()), |before| before(&live, &tenant)) {
        Ok(()) => {
            live.create(&run());
            live.wait_for_both();
            after(&live, &tenant).err()
        }
        Err(refusal) => Some(refusal),
    };
    if let Some(refusal) = refusal {
        let text = refusal.to_string();
        let is_no = text.contains("forbidden") || text.contains("denied the request");
        assert!(is_no, "{name}: {text}");
        say(&format!("{name}: refused by the API server: {text}"));
        return false;
    }
    let scene = live.gate.scene();
    scene.wait_for_object(&format!("pod {pod} of {name}"), POD, pod, |_| true);
    let request = wait_for_word(&live.gate, pod, words);
    live.gate.assert_held(pod);
    assert!(!live.gate.may_use(pod), "{name}");
    live.gate.assert_unbound(&uid(&request));
    true
}

#[test]
fn each_forgery_is_refused_with_its_own_reason() {
    let all = [pods::ALL, children::ALL, approvals::ALL].concat();
    let tried = all.iter().enumerate();
    let tried = tried.filter(|(number, it)| is_tried(it, *number)).count();
    say(&format!(
        "{tried} of {} forgeries got past the API server, none past the proof",
        all.len()
    ));
}
