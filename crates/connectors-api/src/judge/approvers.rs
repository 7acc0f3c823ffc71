//! Who approved an `ApprovalTask`, from what its own webhook guards: `spec.approvers[].input`. What
//! `status` claims is anybody's word who may write it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use crate::access_policy::Approvers;

/// What an approver writes to say yes.
const YES: &str = "approve";
/// As many names as a status shows.
const MOST_NAMES: usize = 100;
/// The longest name of a person that a policy can hold.
const LONGEST_NAME: usize = 512;

/// The people who said yes, each with the groups in whose name they did so.
#[derive(Debug, Default)]
pub(super) struct Approvals(BTreeMap<String, BTreeSet<String>>);

/// Too few.
#[derive(Debug)]
pub(super) struct Short {
    have: usize,
    need: usize,
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { have, need } = self;
        write!(
            f,
            "has {have} of the {need} approvals that the policy wants from its approvers"
        )
    }
}

/// The approvals that an object records. What is not in the form of an approver is no approval.
pub(super) fn of(object: &Value) -> Approvals {
    let mut approvals = Approvals::default();
    for approver in list(object.pointer("/spec/approvers")) {
        let Some(name) = name(approver) else {
            continue;
        };
        match approver.get("type").and_then(Value::as_str) {
            // Before groups existed there was no type.
            None | Some("" | "User")
                if approver.get("type").is_none_or(Value::is_string) && says_yes(approver) =>
            {
                approvals.0.entry(name.to_owned()).or_default();
            }
            // A yes of the group itself names nobody: its members' do.
            Some("Group") => {
                for member in list(approver.get("users")).filter(|member| says_yes(member)) {
                    if let Some(person) = self::name(member) {
                        let groups = approvals.0.entry(person.to_owned()).or_default();
                        groups.insert(name.to_owned());
                    }
                }
            }
            _ => {}
        }
    }
    approvals
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn name(approver: &Value) -> Option<&str> {
    let name = approver.get("name").and_then(Value::as_str)?;
    (!name.is_empty() && name.len() <= LONGEST_NAME).then_some(name)
}

fn says_yes(approver: &Value) -> bool {
    approver.get("input").and_then(Value::as_str) == Some(YES)
}

impl Approvals {
    /// Whether enough of the wanted people approved. Each person counts once.
    pub(super) fn meet(&self, wanted: &Approvers) -> Result<(), Short> {
        let Approvers {
            users,
            groups,
            minimum,
        } = wanted;
        let counts = |(person, for_groups): &(&String, &BTreeSet<String>)| {
            users.contains(person) || groups.iter().any(|group| for_groups.contains(group))
        };
        let have = self.0.iter().filter(counts).count();
        // No approval at all is never enough, whatever a policy says.
        let need = usize::try_from(*minimum).unwrap_or(1).max(1);
        if have >= need {
            Ok(())
        } else {
            Err(Short { have, need })
        }
    }

    /// Everybody who approved, in the order of their names.
    pub(super) fn everybody(self) -> Vec<String> {
        self.0.into_keys().take(MOST_NAMES).collect()
    }
}
