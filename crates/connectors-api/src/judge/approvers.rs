//! The approvers of an `ApprovalTask`, read from `spec.approvers[].input`, which its own webhook protects.
//! `status` is not used, because any account that can write it can claim anything there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use crate::access_policy::Approvers;
use crate::access_request::Approval;
use crate::approver_record::is_unambiguous;
use crate::field::field;
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
    for approver in list(field(object, &["spec", "approvers"])) {
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

/// An approver that an object lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedApprover {
    /// The name of the user or group.
    pub name: String,
    /// Its members approve.
    pub is_group: bool,
    /// The answer of the approver.
    pub answer: ApproverAnswer,
}

/// The answer of an approver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApproverAnswer {
    /// None yet.
    Awaited,
    /// A yes.
    Approved,
    /// A no.
    Rejected,
}

/// The approvers that an object lists, in its order. Entries without a name are left out.
pub fn listed(object: &Value) -> impl Iterator<Item = ListedApprover> {
    list(field(object, &["spec", "approvers"])).filter_map(|entry| {
        Some(ListedApprover {
            name: name(entry)?.to_owned(),
            is_group: entry.get("type").and_then(Value::as_str) == Some("Group"),
            answer: match entry.get("input").and_then(Value::as_str) {
                Some(YES) => ApproverAnswer::Approved,
                Some(NO) => ApproverAnswer::Rejected,
                Some(_) | None => ApproverAnswer::Awaited,
            },
        })
    })
}

impl ListedApprover {
    /// True when an approval by it can count for a check that names its approvers, and excludes perhaps one user.
    #[must_use]
    pub fn can_count(&self, wanted: &Approvers, excluded: Option<&str>) -> bool {
        let mut said = ApproverWords::default();
        if self.is_group {
            said.groups.insert(self.name.clone());
        }
        // The members of a group have names of their own.
        let user = if self.is_group { "" } else { &self.name };
        counts(wanted, excluded, user, &said)
    }
}

/// The approvers of an object that have not answered, as part of a sentence.
pub(super) fn awaited(object: &Value) -> String {
    let entries = listed(object).filter(|it| it.answer == ApproverAnswer::Awaited);
    let named = |entry: ListedApprover| {
        let group = if entry.is_group { "group " } else { "" };
        format!("{group}{}", entry.name)
    };
    let mut named = entries.map(named);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wanted(approvers: Value) -> Approvers {
        serde_json::from_value(approvers).unwrap()
    }

    #[test]
    fn approvers_are_listed_with_their_answers() {
        let object = json!({"spec": {"approvers": [
            {"name": "alice", "type": "User", "input": "pending"},
            {"name": "bob", "input": "approve"},
            {"name": "qa", "type": "Group", "input": "reject"},
            {"input": "approve"},
        ]}});
        let found: Vec<_> = listed(&object)
            .map(|it| (it.name, it.is_group, it.answer))
            .collect();
        let expected = [
            ("alice", false, ApproverAnswer::Awaited),
            ("bob", false, ApproverAnswer::Approved),
            ("qa", true, ApproverAnswer::Rejected),
        ];
        let expected = expected.map(|(name, group, answer)| (name.to_owned(), group, answer));
        assert_eq!(found, expected);
        assert_eq!(awaited(&object), "its approvers alice");
        assert_eq!(listed(&json!({})).count(), 0);
    }

    #[test]
    fn an_approver_has_a_name_that_a_user_can_have() {
        let longest = "u".repeat(LONGEST_USER);
        let names = [
            json!(""),
            json!(1),
            json!(longest),
            json!(format!("{longest}u")),
        ];
        let entries = names.map(|it| json!({"name": it, "input": "approve"}));
        let object = json!({"spec": {"approvers": entries}});
        let (approving, _) = of(&object).told();
        assert_eq!(approving, [longest.as_str()]);
        let listed: Vec<_> = listed(&object).map(|it| it.name).collect();
        assert_eq!(listed, [longest]);
    }

    #[test]
    fn an_approver_can_count_that_the_check_names_and_does_not_exclude() {
        let approver = |name: &str, is_group| ListedApprover {
            name: name.to_owned(),
            is_group,
            answer: ApproverAnswer::Awaited,
        };
        let named = wanted(json!({"users": ["alice"], "groups": ["qa"]}));
        let anybody = wanted(json!({"notRequester": true}));
        for (of, is_group, of_named, of_anybody) in [
            ("alice", false, true, false),
            ("bob", false, false, true),
            ("qa", true, true, true),
            // A group of a user's name, and a user of a group's.
            ("alice", true, false, true),
            ("qa", false, false, true),
        ] {
            let of = approver(of, is_group);
            assert_eq!(of.can_count(&named, None), of_named, "{of:?}");
            assert_eq!(of.can_count(&anybody, Some("alice")), of_anybody, "{of:?}");
        }
        assert!(!approver("alice", false).can_count(&named, Some("alice")));
    }
}
