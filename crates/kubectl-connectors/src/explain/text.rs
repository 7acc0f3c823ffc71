//! An explanation as text: a tree of access, policy, check, object and proof.

use std::fmt::Write as _;

use connectors_api::access_request::GrantState;
use connectors_api::names::SCHEDULING_GATE;
use connectors_api::policy_words::PolicyWord;
use connectors_api::reason::AccessCheckReady;
use jiff::Timestamp;

use super::report::{
    AccessShown, AccessWord, ApproverWord, CandidateShown, CheckShown, EndShown, Explanation,
    GatingWord, LinkWord, NextShown, PodWord, PolicyShown, VerdictSource,
};
use crate::output::{Colours, Tone};
use crate::terms::span;

/// The limit of subjects that a line names.
const NAMED: usize = 6;

/// The explanation for people.
#[must_use]
pub fn text(explanation: &Explanation, now: Timestamp, colours: Colours) -> String {
    let mut tree = Tree {
        text: String::new(),
        colours,
        now,
    };
    let Explanation {
        pod,
        account,
        gating,
        accesses,
        problems,
    } = explanation;
    let who = match pod {
        Some(pod) => format!("pod {}/{} ({account})", pod.namespace, pod.name),
        None => format!("ServiceAccount {account}"),
    };
    let state = pod.as_ref().map(|it| pod_word(it.state));
    tree.line(
        "",
        &[(Tone::Plain, &who), (Tone::Dim, state.unwrap_or_default())],
    );
    if pod.as_ref().is_some_and(|it| it.gated) {
        let gated = format!(
            "it waits with the scheduling gate {SCHEDULING_GATE}: no node is chosen for it yet"
        );
        tree.line("", &[(Tone::Open, &gated)]);
    }
    if *gating == GatingWord::Off {
        let off = "approvals are switched off in this installation: mounts do not wait";
        tree.line("", &[(Tone::Open, off)]);
    }
    for problem in problems {
        tree.line("", &[(Tone::Bad, problem)]);
    }
    if accesses.is_empty() && problems.is_empty() {
        tree.line(
            "",
            &[(
                Tone::Plain,
                "it mounts no connector: nothing waits for access",
            )],
        );
    }
    for (place, access) in accesses.iter().enumerate() {
        tree.access(access, place + 1 == accesses.len());
    }
    tree.text
}

const fn pod_word(word: PodWord) -> &'static str {
    match word {
        PodWord::Pending => "has not started",
        PodWord::Running => "runs",
        PodWord::Finished => "ran to its end",
        PodWord::Terminating => "is being deleted",
        PodWord::Gone => "is gone",
        PodWord::Unknown => "could not be read",
    }
}

/// A word of an access, as a headline has it.
#[must_use]
pub fn access_word(word: AccessWord) -> (Tone, &'static str) {
    match word {
        AccessWord::Standing => (Tone::Good, "has access, always"),
        AccessWord::Granted => (Tone::Good, "has access"),
        AccessWord::NotInForce => (Tone::Bad, "has no access, though it was granted"),
        AccessWord::NotGated => (Tone::Good, "mounts without access"),
        AccessWord::Kept => (Tone::Open, "keeps its volume, has no access"),
        AccessWord::Waits => (Tone::Open, "waits"),
        AccessWord::Refused => (Tone::Bad, "refused"),
        AccessWord::Ended => (Tone::Dim, "over"),
        AccessWord::CouldAsk => (Tone::Open, "could ask, and would wait"),
        AccessWord::CannotAsk => (Tone::Bad, "could not ask"),
        AccessWord::Unknown => (Tone::Bad, "not known"),
    }
}

fn verdict_mark(verdict: Option<AccessCheckReady>) -> (Tone, &'static str) {
    match verdict {
        Some(AccessCheckReady::AccessCheckPassed) => (Tone::Good, "passes"),
        Some(AccessCheckReady::AccessCheckPending) => (Tone::Open, "waits"),
        Some(AccessCheckReady::AccessCheckRejected) => (Tone::Bad, "says no"),
        Some(AccessCheckReady::AccessCheckFailed) => (Tone::Bad, "fails"),
        None => (Tone::Dim, ""),
    }
}

struct Tree {
    text: String,
    colours: Colours,
    now: Timestamp,
}

/// The branch to a node, and the prefix of the lines below it.
struct Branch {
    here: String,
    below: String,
}

impl Branch {
    fn of(before: &str, is_last: bool) -> Self {
        let (here, below) = if is_last {
            ("└─ ", "   ")
        } else {
            ("├─ ", "│  ")
        };
        Self {
            here: format!("{before}{here}"),
            below: format!("{before}{below}"),
        }
    }
}

impl Tree {
    fn line(&mut self, before: &str, parts: &[(Tone, &str)]) {
        let parts = parts.iter().filter(|(_, text)| !text.is_empty());
        let parts: Vec<_> = parts
            .map(|(tone, text)| self.colours.paint(*tone, text))
            .collect();
        let before = self.colours.paint(Tone::Plain, before);
        let _ = writeln!(self.text, "{before}{}", parts.join("  "));
    }

    fn access(&mut self, access: &AccessShown, is_last: bool) {
        let branch = Branch::of("", is_last);
        let (tone, word) = access_word(access.state);
        let title = format!("connector {} ({})", access.connector, access.permission);
        let since = access
            .seconds
            .map(|it| format!("for {}", span(it)))
            .unwrap_or_default();
        self.line(
            &branch.here,
            &[(Tone::Plain, &title), (tone, word), (Tone::Dim, &since)],
        );
        let below = &branch.below;
        if !access.because.is_empty() {
            self.line(below, &[(Tone::Plain, &access.because)]);
        }
        if let Some(request) = &access.request {
            let phase = request.phase.map_or("not looked at yet", |it| it.as_str());
            let reason = request.reason.map_or("", |it| it.as_str());
            let title = format!("request {}", request.name);
            self.line(
                below,
                &[(Tone::Dim, &title), (Tone::Dim, phase), (Tone::Dim, reason)],
            );
        }
        let (told, others): (Vec<_>, Vec<_>) = access.policies.iter().partition(|it| is_told(it));
        let mut sections = told.len();
        sections += usize::from(!others.is_empty());
        sections += usize::from(!access.ends.is_empty());
        sections += usize::from(!access.next.is_empty());
        let mut next = || {
            sections -= 1;
            Branch::of(below, sections == 0)
        };
        let branches: Vec<_> = told.iter().map(|_| next()).collect();
        let others_at = (!others.is_empty()).then(&mut next);
        let ends_at = (!access.ends.is_empty()).then(&mut next);
        let next_at = (!access.next.is_empty()).then(&mut next);
        for (policy, branch) in told.iter().zip(branches) {
            self.policy(policy, &branch);
        }
        if let Some(branch) = others_at {
            self.others(&others, &branch);
        }
        if let Some(branch) = ends_at {
            self.ends(access.state, &access.ends, &branch);
        }
        if let Some(branch) = next_at {
            self.next(&access.next, &branch);
        }
    }

    fn policy(&mut self, policy: &PolicyShown, branch: &Branch) {
        let title = format!("policy {}", policy.name);
        let (tone, word) = match &policy.grant {
            Some(grant) => match grant.state {
                GrantState::Granted => (Tone::Good, "granted".to_owned()),
                GrantState::Granting => (Tone::Open, "is being granted".to_owned()),
                GrantState::Ended => {
                    let reason = grant.reason.map_or("", |it| it.as_str());
                    (Tone::Bad, format!("ended: {reason}"))
                }
            },
            None if policy.applies == PolicyWord::Yes => {
                let (tone, word) = verdict_mark(policy.verdict);
                (tone, word.to_owned())
            }
            None => (Tone::Dim, "does not apply".to_owned()),
        };
        let source = match policy.source {
            Some(VerdictSource::Status) if policy.grant.is_none() => "as the request records",
            Some(VerdictSource::Status | VerdictSource::Live) | None => "",
        };
        self.line(
            &branch.here,
            &[(Tone::Plain, &title), (tone, &word), (Tone::Dim, source)],
        );
        if policy.applies != PolicyWord::Yes && policy.grant.is_none() {
            self.line(&branch.below, &[(Tone::Dim, &policy.because)]);
        }
        if policy.is_late {
            let told = "its pendingTimeout is over, whatever its checks say";
            self.line(&branch.below, &[(Tone::Bad, told)]);
        }
        if let Some(problem) = &policy.problem {
            self.line(&branch.below, &[(Tone::Bad, problem)]);
        }
        for (place, check) in policy.checks.iter().enumerate() {
            let branch = Branch::of(&branch.below, place + 1 == policy.checks.len());
            self.check(check, &branch);
        }
    }

    fn check(&mut self, check: &CheckShown, branch: &Branch) {
        let of = match &check.selects {
            Some(selects) => format!("{} with {selects}", check.of),
            None => check.of.clone(),
        };
        let title = format!("check {}", check.name);
        let (tone, word) = verdict_mark(check.verdict);
        let is_of_object = check
            .candidates
            .iter()
            .any(|it| it.message == check.message);
        let passes = check.verdict == Some(AccessCheckReady::AccessCheckPassed);
        let reason = if is_of_object || passes {
            ""
        } else {
            &check.reason
        };
        self.line(
            &branch.here,
            &[
                (Tone::Plain, &title),
                (tone, word),
                (Tone::Bad, reason),
                (Tone::Dim, &of),
            ],
        );
        if !is_of_object && !passes {
            self.line(&branch.below, &[(Tone::Plain, &check.message)]);
        }
        for (place, candidate) in check.candidates.iter().enumerate() {
            let branch = Branch::of(&branch.below, place + 1 == check.candidates.len());
            self.candidate(candidate, &branch);
        }
    }

    fn candidate(&mut self, candidate: &CandidateShown, branch: &Branch) {
        let title = format!("{} {}", candidate.kind, candidate.name);
        let (tone, _) = verdict_mark(candidate.verdict);
        let state = if candidate.state.is_empty() {
            &candidate.reason
        } else {
            &candidate.state
        };
        self.line(&branch.here, &[(Tone::Plain, &title), (tone, state)]);
        let below = &branch.below;
        let passes = candidate.verdict == Some(AccessCheckReady::AccessCheckPassed);
        if !passes && !candidate.message.is_empty() {
            let message = format!("{}: {}", candidate.reason, candidate.message);
            self.line(below, &[(Tone::Plain, &message)]);
        }
        self.people(below, "approved by", &candidate.approved_by);
        if let Some(creator) = &candidate.run_creator {
            let told = format!("{creator} created the run, and does not count");
            self.line(below, &[(Tone::Dim, &told)]);
        }
        // Where a proof does not hold, no approval helps.
        if candidate.verdict == Some(AccessCheckReady::AccessCheckPending) {
            self.approvers(candidate, below);
        }
        for link in &candidate.links {
            let title = format!("{} {}", link.kind, link.name);
            let (tone, word) = match link.state {
                LinkWord::Proven => (Tone::Good, "proven"),
                LinkWord::There => (Tone::Plain, "there"),
                LinkWord::Missing => (Tone::Open, "not there"),
                LinkWord::Unread => (Tone::Bad, "not readable for you"),
            };
            self.line(
                below,
                &[(Tone::Dim, "proof:"), (Tone::Plain, &title), (tone, word)],
            );
        }
    }

    fn approvers(&mut self, candidate: &CandidateShown, below: &str) {
        let named = |counts: bool| {
            let open = candidate
                .approvers
                .iter()
                .filter(move |it| it.answer == ApproverWord::Awaited && it.counts == counts);
            let named = open.map(|it| {
                if it.group {
                    format!("group {}", it.name)
                } else {
                    it.name.clone()
                }
            });
            named.collect::<Vec<_>>()
        };
        self.people(below, "may approve:", &named(true));
        self.people(
            below,
            "awaited, but do not count for the policy:",
            &named(false),
        );
        let said = candidate.approvers.iter();
        let said: Vec<_> = said
            .filter_map(|it| match it.answer {
                ApproverWord::Awaited => None,
                ApproverWord::Approved => Some(format!("{} said yes", it.name)),
                ApproverWord::Rejected => Some(format!("{} said no", it.name)),
            })
            .collect();
        self.people(below, "answered:", &said);
        if let Some(writers) = &candidate.writers {
            self.people(below, "may write its state:", writers);
        }
    }

    fn people(&mut self, below: &str, title: &str, people: &[String]) {
        if people.is_empty() {
            return;
        }
        let named: Vec<_> = people.iter().take(NAMED).map(String::as_str).collect();
        let mut told = named.join(", ");
        if let Some(rest) = people.len().checked_sub(NAMED).filter(|it| *it > 0) {
            let _ = write!(told, " and {rest} more");
        }
        self.line(below, &[(Tone::Dim, title), (Tone::Plain, &told)]);
    }

    fn others(&mut self, others: &[&PolicyShown], branch: &Branch) {
        let named: Vec<_> = others
            .iter()
            .take(NAMED)
            .map(|it| it.name.as_str())
            .collect();
        let told = if others.len() > NAMED {
            format!("{} other policies are not about it", others.len())
        } else {
            format!("other policies, not about it: {}", named.join(", "))
        };
        self.line(&branch.here, &[(Tone::Dim, &told)]);
    }

    fn ends(&mut self, state: AccessWord, ends: &[EndShown], branch: &Branch) {
        let title = if state == AccessWord::Granted {
            "access ends when"
        } else {
            "the wait ends when"
        };
        self.line(&branch.here, &[(Tone::Plain, title)]);
        for end in ends {
            let message = format!("- {}", end.message);
            let at = end.at.map_or_else(String::new, |at| due(at, self.now));
            self.line(&branch.below, &[(Tone::Plain, &message), (Tone::Dim, &at)]);
        }
    }

    fn next(&mut self, next: &[NextShown], branch: &Branch) {
        self.line(&branch.here, &[(Tone::Plain, "next")]);
        for one in next {
            let who = if one.who.is_empty() {
                String::new()
            } else {
                format!("{}: ", one.who)
            };
            match &one.command {
                Some(command) => {
                    self.line(&branch.below, &[(Tone::Command, &format!("$ {command}"))]);
                    let effect = format!("  {who}{}", one.effect);
                    self.line(&branch.below, &[(Tone::Dim, &effect)]);
                }
                None => self.line(&branch.below, &[(Tone::Plain, &one.effect)]),
            }
        }
    }
}

/// A future or past time.
fn due(at: Timestamp, now: Timestamp) -> String {
    let left = at.duration_since(now).as_secs();
    if left > 0 {
        format!("in {} ({at})", span(left))
    } else {
        format!("due since {at}")
    }
}

/// The end of an access, with its time, as part of a sentence.
#[must_use]
pub fn end_text(end: &EndShown, now: Timestamp) -> String {
    match end.at {
        Some(at) => format!("{} {}", end.message, due(at, now)),
        None => end.message.clone(),
    }
}

/// Policies of other connectors are only counted.
const fn is_told(policy: &PolicyShown) -> bool {
    let is_near = matches!(
        policy.applies,
        PolicyWord::Yes
            | PolicyWord::OtherSubject
            | PolicyWord::TooMany
            | PolicyWord::Unreadable
            | PolicyWord::Gone
    );
    is_near || policy.grant.is_some()
}
