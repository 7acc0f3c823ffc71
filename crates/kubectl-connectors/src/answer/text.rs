//! An answer for people.

use std::fmt::Write as _;

use connectors_api::access_request::Phase;
use jiff::Timestamp;

use super::{AnswerEffect, AnswerShown, AnswerWord, EffectWord};
use crate::approval_write::ApprovalAnswer;
use crate::explain::end_text;
use crate::output::{Colours, Tone};

/// The limit of policies that a line names.
const NAMED: usize = 6;

/// The answer and its effects, before it is written.
#[must_use]
pub fn preview(shown: &AnswerShown, now: Timestamp, colours: Colours) -> String {
    let mut text = String::new();
    let object = &shown.object;
    let state = match object.state.as_str() {
        "" => "has no state".to_owned(),
        state => format!("is {}", word(state)),
    };
    let group = object.api_version.split_once('/').map_or("", |(it, _)| it);
    let kind = format!("{}.{group}", object.kind);
    let title = format!(
        "{} {} {}",
        shown.answer.verb(),
        kind.trim_end_matches('.'),
        object.name
    );
    line(&mut text, colours, 0, Tone::Command, &title);
    line(
        &mut text,
        colours,
        1,
        Tone::Dim,
        &format!("it {state}; the answer writes {}", shown.writes),
    );
    for (word, tone, title) in SECTIONS {
        let of_word = || shown.effects.iter().filter(|it| it.effect == word);
        if of_word().next().is_some() {
            line(&mut text, colours, 1, tone, title);
        }
        for effect in of_word() {
            self::effect(&mut text, effect, now, colours);
        }
    }
    if shown.effects.is_empty() && shown.knows_effects() {
        let none = "no request waits for it: it opens and ends nothing now";
        line(&mut text, colours, 1, Tone::Open, none);
    }
    doubts(&mut text, shown, colours);
    let counting: Vec<_> = shown
        .policies
        .iter()
        .take(NAMED)
        .map(|it| format!("{} (check {})", it.policy, it.check))
        .collect();
    if !counting.is_empty() {
        let rest = shown.policies.len().saturating_sub(NAMED);
        let rest = if rest == 0 {
            String::new()
        } else {
            format!(" and {rest} more")
        };
        let told = format!(
            "policies that count {}: {}{rest}",
            object.kind,
            counting.join(", ")
        );
        line(&mut text, colours, 1, Tone::Dim, &told);
        if shown.answer == ApprovalAnswer::Approve {
            let later = "while it is approved, it counts for every later pod for which these checks find it";
            line(&mut text, colours, 1, Tone::Dim, later);
        }
    }
    if let Some(beside) = &shown.beside {
        line(&mut text, colours, 1, Tone::Open, beside);
    }
    text
}

/// A state as tenants wrote it, distinct from the words of the plugin.
fn word(state: &str) -> String {
    match state {
        "approved" | "passed" | "pending" | "rejected" => state.to_owned(),
        other => format!("\"{other}\""),
    }
}

/// The reasons why there may be more effects.
fn doubts(text: &mut String, shown: &AnswerShown, colours: Colours) {
    if shown.left_out > 0 {
        let more = format!(
            "it may open or end more: {} or more requests of the namespace were not looked at",
            shown.left_out
        );
        line(text, colours, 1, Tone::Bad, &more);
    }
    if !shown.doubts.is_empty() {
        let head = "it may open or end more: not everything could be read";
        line(text, colours, 1, Tone::Bad, head);
    }
    for doubt in shown.doubts.iter().take(NAMED) {
        line(text, colours, 2, Tone::Dim, doubt);
    }
    let rest = shown.doubts.len().saturating_sub(NAMED);
    if rest > 0 {
        line(text, colours, 2, Tone::Dim, &format!("and {rest} more"));
    }
}

const SECTIONS: [(EffectWord, Tone, &str); 8] = [
    (EffectWord::Opens, Tone::Good, "opens"),
    (EffectWord::Adds, Tone::Good, "adds to the access of"),
    (
        EffectWord::NotKnown,
        Tone::Bad,
        "may open or refuse, which is not known",
    ),
    (EffectWord::Refuses, Tone::Bad, "refuses for good"),
    (EffectWord::TakesBack, Tone::Bad, "takes back"),
    (EffectWord::MayTakeBack, Tone::Bad, "may take back"),
    (
        EffectWord::Waits,
        Tone::Open,
        "counts for, without opening it",
    ),
    (EffectWord::Keeps, Tone::Dim, "leaves"),
];

fn effect(text: &mut String, effect: &AnswerEffect, now: Timestamp, colours: Colours) {
    let title = format!(
        "pod {} ({})  connector {} ({})  policy {}",
        effect.pod,
        effect.account,
        effect.connector,
        effect.permission,
        effect.policies.join(", ")
    );
    line(text, colours, 2, Tone::Plain, &title);
    if effect.grants.is_empty() {
        line(text, colours, 3, Tone::Dim, &effect.because);
    }
    for grant in &effect.grants {
        let because = format!("every check of policy {} passes", grant.policy);
        line(text, colours, 3, Tone::Dim, &because);
        if !grant.covers_mount {
            let told = "its rules allow no mount of the pod, but what they say";
            line(text, colours, 3, Tone::Open, told);
        }
        for rule in &grant.rules {
            let rule = format!(
                "rule: {} on {}",
                rule.verbs.join(","),
                rule.resources.join(", ")
            );
            line(text, colours, 3, Tone::Plain, &rule);
        }
        for end in &grant.until {
            let until = format!("until {}", end_text(end, now));
            line(text, colours, 3, Tone::Plain, &until);
        }
    }
}

/// The answer with its effects, unless the user has seen them, and its result.
#[must_use]
pub fn text(shown: &AnswerShown, now: Timestamp, colours: Colours) -> String {
    let preview = if shown.asked {
        String::new()
    } else {
        preview(shown, now, colours)
    };
    preview + &result(shown, colours)
}

fn result(shown: &AnswerShown, colours: Colours) -> String {
    let mut text = String::new();
    let object = format!("{} {}", shown.object.kind, shown.object.name);
    let (tone, head) = match shown.outcome {
        AnswerWord::Written | AnswerWord::StillAwaited => (Tone::Good, "written"),
        AnswerWord::OtherEnd => (Tone::Bad, "written, and of no use"),
        AnswerWord::NothingAwaited => (Tone::Open, "nothing to wait for"),
        AnswerWord::Already => (Tone::Good, "nothing to write"),
        AnswerWord::Declined => (Tone::Open, "not written"),
        AnswerWord::Refused => (Tone::Bad, "refused"),
        AnswerWord::NotAsked | AnswerWord::EffectsUnknown | AnswerWord::Changed => {
            (Tone::Bad, "not written")
        }
        AnswerWord::Unknown => (Tone::Bad, "not known whether it is written"),
    };
    let state = match shown.state_after.as_deref() {
        None => String::new(),
        Some("") => "; it has no state yet".to_owned(),
        // The answer of one approver; the approval gate counts them.
        Some("pending") if shown.outcome == AnswerWord::Written => {
            "; it is pending until enough approvers have answered".to_owned()
        }
        Some(state) => format!("; it is {}", word(state)),
    };
    line(
        &mut text,
        colours,
        0,
        tone,
        &format!("{head}: {object}{state}"),
    );
    for request in &shown.requests {
        let phase = |it: Option<Phase>| it.map_or("not looked at yet", |it| it.as_str());
        let (before, after) = (phase(request.before), phase(request.after));
        let moved = if before == after {
            format!("request {}: {after}", request.name)
        } else {
            format!("request {}: {before} → {after}", request.name)
        };
        line(&mut text, colours, 1, Tone::Plain, &moved);
    }
    text
}

fn line(text: &mut String, colours: Colours, depth: usize, tone: Tone, told: &str) {
    let _ = writeln!(text, "{}{}", "  ".repeat(depth), colours.paint(tone, told));
}
