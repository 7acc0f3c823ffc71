//! The approvers of an `ApprovalTask`, read from `spec.approvers[].input`, which its own webhook protects.
//! `status` is not used, because any account that can write it can claim anything there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use crate::access_policy::Approvers;
use crate::access_request::Approval;
use crate::lineage::approval::is_unambiguous;
use crate::names::LONGEST_USER;

/// The input of an approver that means approval.
const YES: &str = "approve";
/// The input of an approver that means rejection.
const NO: &str = "reject";
/// The limit of awaited approvers in a message.
const MOST_AWAITED: usize = 4;
/// The limit of names in a status.
const MOST_NAMES: usize = 100;

/// The limit of approvals with a group or a message in a status.
const MOST_APPROVALS: usize = 16;
/// The longest message in a status, in characters.
const LONGEST_MESSAGE: usize = 256;

/// The approving users.
#[derive(Debug, Default)]
pub(super) struct Approvals(BTreeMap<String, ApproverWords>);

/// The group and message that a user added to an approval.
#[derive(Debug, Default)]
struct ApproverWords {
    /// The groups through which the user approved.
    groups: BTreeSet<String>,
    message: Option<String>,
}

impl ApproverWords {
    /// The message of the first entry that has one counts.
    fn hear(&mut self, entry: &Value) {
        let message = entry.get("message").and_then(Value::as_str);
        if self.message.is_none() {
            // Control characters would reach the terminals of users that read a status.
            let shown = |it: &str| {
                let shown = it.chars().filter(|it| !it.is_control());
                shown.take(LONGEST_MESSAGE).collect()
            };
            let shown = message.map(shown);
            self.message = shown.filter(|it: &String| !it.is_empty());
        }
    }
}

/// The number of approvals is too low.
#[derive(Debug)]
pub(super) struct Short {
    have: usize,
    need: usize,
    /// The creator of the run does not count.
    without_creator: bool,
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            have,
            need,
            without_creator,
        } = self;
        write!(
            f,
            "has {have} of the {need} approvals that the policy wants from its approvers"
        )?;
        if *without_creator {
            f.write_str(", and that of the creator of the run does not count")?;
        }
        f.write_str(
            "; the gate takes no more answers: start a new run that asks for more approvals",
        )
    }
}

/// The approvals that an object records. Entries in another form are ignored.
pub(super) fn of(object: &Value) -> Approvals {
    let mut approvals = Approvals::default();
    if !is_unambiguous(object) {
        return approvals;
    }
    for approver in list(object.pointer("/spec/approvers")) {
        let Some(name) = name(approver) else {
            continue;
        };
        match approver.get("type").and_then(Value::as_str) {
            // Objects from before groups existed have no type; the gate reads null in the same way.
            None | Some("" | "User")
                if approver
                    .get("type")
                    .is_none_or(|it| it.is_string() || it.is_null())
                    && says_yes(approver) =>
            {
                approvals
                    .0
                    .entry(name.to_owned())
                    .or_default()
                    .hear(approver);
            }
            // An approval by the group entry itself identifies no user; those of its members do, once the group says yes,
            // as in the gate.
            Some("Group") if says_yes(approver) => {
                for member in list(approver.get("users")).filter(|member| says_yes(member)) {
                    if let Some(person) = self::name(member) {
                        let said = approvals.0.entry(person.to_owned()).or_default();
                        said.groups.insert(name.to_owned());
                        said.hear(member);
                    }
                }
            }
            _ => {}
        }
    }
    approvals
}

/// The approvers of an object that have not answered, as part of a sentence.
pub(super) fn awaited(object: &Value) -> String {
    let has_answered = |it: &&Value| {
        let input = it.get("input").and_then(Value::as_str);
        matches!(input, Some(YES | NO))
    };
    let entries = list(object.pointer("/spec/approvers")).filter(|it| !has_answered(it));
    let named = |entry: &Value| {
        let is_group = entry.get("type").and_then(Value::as_str) == Some("Group");
        let group = if is_group { "group " } else { "" };
        Some(format!("{group}{}", name(entry)?))
    };
    let mut named = entries.filter_map(named);
    let first: Vec<_> = named.by_ref().take(MOST_AWAITED).collect();
    match (first.is_empty(), named.count()) {
        (true, _) => "its approvers".to_owned(),
        (false, 0) => format!("its approvers {}", first.join(", ")),
        (false, others) => format!("its approvers {} and {others} more", first.join(", ")),
    }
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn name(approver: &Value) -> Option<&str> {
    let name = approver.get("name").and_then(Value::as_str)?;
    (!name.is_empty() && name.len() <= LONGEST_USER).then_some(name)
}

fn says_yes(approver: &Value) -> bool {
    approver.get("input").and_then(Value::as_str) == Some(YES)
}

/// True when a user is one of the wanted approvers, and not excluded.
fn counts(wanted: &Approvers, excluded: Option<&str>, person: &str, said: &ApproverWords) -> bool {
    let Approvers {
        users,
        groups,
        minimum: _,
        not_requester,
    } = wanted;
    let is_anybody = *not_requester && users.is_empty() && groups.is_empty();
    let is_wanted = is_anybody
        || users.iter().any(|it| it == person)
        || groups.iter().any(|group| said.groups.contains(group));
    is_wanted && excluded != Some(person)
}

impl Approvals {
    /// Checks that there are enough approvals. All of them have to count: see [`Self::counted`].
    pub(super) fn meet(&self, wanted: &Approvers) -> Result<(), Short> {
        let have = self.0.len();
        // Zero approvals never suffice, regardless of the policy.
        let need = usize::try_from(wanted.minimum).unwrap_or(1).max(1);
        if have >= need {
            Ok(())
        } else {
            Err(Short {
                have,
                need,
                without_creator: wanted.not_requester,
            })
        }
    }

    /// The approvals of the wanted users alone. Each user counts once, and an excluded user not at all.
    pub(super) fn counted(mut self, wanted: &Approvers, excluded: Option<&str>) -> Self {
        self.0
            .retain(|person, said| counts(wanted, excluded, person, said));
        self
    }

    /// The names of the approving users, and the approvals with a group or a message, both ordered by name.
    pub(super) fn told(self) -> (Vec<String>, Vec<Approval>) {
        let names = self.0.keys().take(MOST_NAMES).cloned().collect();
        let approval = |(user, said): (String, ApproverWords)| Approval {
            user,
            group: said.groups.into_iter().next(),
            message: said.message,
        };
        let approvals = self.0.into_iter().map(approval);
        let approvals = approvals.filter(|it| it.group.is_some() || it.message.is_some());
        (names, approvals.take(MOST_APPROVALS).collect())
    }
}
