//! How an answer is written into an approval object. Pure: the object is an argument, and no other field changes.

use authz::User;
use connectors_api::approver_record::is_unambiguous;
use connectors_api::check_state::{CheckOutcome, ObjectState};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use thiserror::Error;

/// The answer to an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum ApprovalAnswer {
    /// A yes.
    Approve,
    /// A no.
    Reject,
}

impl ApprovalAnswer {
    /// The word of the command, and of the approval gate for an approver's input.
    #[must_use]
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
        }
    }

    /// The word of the duck type.
    #[must_use]
    pub const fn state(self) -> &'static str {
        match self {
            Self::Approve => "approved",
            Self::Reject => "rejected",
        }
    }

    /// The fields of an object of the duck type that hold the answer.
    #[must_use]
    pub fn state_fields(self) -> Value {
        json!({"status": {"state": self.state()}})
    }
}

/// One write that holds the answer of a user.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalWrite {
    /// The fields are those of the status, which is written separately.
    pub is_status: bool,
    /// A merge patch. It holds the version of the object, so that a changed object is not written.
    pub patch: Value,
    /// The object with the answer.
    pub after: Value,
    /// The field and its value, as a sentence.
    pub says: String,
}

/// The content of an answer.
#[derive(Clone, Copy, Debug)]
pub struct WishedAnswer<'a> {
    /// Yes or no.
    pub answer: ApprovalAnswer,
    /// A group of the user that is an approver.
    pub group: Option<&'a str>,
    /// The message of the approver.
    pub message: Option<&'a str>,
}

/// Why nothing is written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AnswerRefusal {
    /// The object has the answer.
    #[error("{0}: there is nothing to write")]
    Already(String),
    /// The user has given the other answer.
    #[error("{user} has {word} it already, and no other answer is written over it")]
    AnsweredOtherwise {
        /// The user.
        user: String,
        /// The answer that the user gave.
        word: &'static str,
    },
    /// The object takes no answer any more.
    #[error("it is {0}, and takes no more answers")]
    Closed(String),
    /// A no is final for the requests that wait.
    #[error("it is rejected, which refuses for good what waits for it")]
    SaysNo,
    /// An approver said no, which a yes in the same group would write over.
    #[error("{0} has said no, which refuses it for good")]
    SomeSaysNo(String),
    /// The gate and other readers see different approvers.
    #[error("it has fields that differ in case alone: nothing is written into it")]
    Ambiguous,
    /// The user is no approver.
    #[error(
        "neither {user} nor a group of this user is an approver; its approvers are {approvers}"
    )]
    NoApprover {
        /// The user.
        user: String,
        /// The approvers.
        approvers: String,
    },
    /// The group is no approver, or the user is not in it.
    #[error(
        "group {group} is no approver that {user} can answer for; its approvers are {approvers}"
    )]
    NoGroup {
        /// The group.
        group: String,
        /// The user.
        user: String,
        /// The approvers.
        approvers: String,
    },
    /// More than one group could answer.
    #[error("{user} can answer for the groups {groups}: name one with --group")]
    SeveralGroups {
        /// The user.
        user: String,
        /// The groups.
        groups: String,
    },
    /// The kind has no approvers.
    #[error("objects of kind {0} list no approvers: leave --group out")]
    GroupOfNone(String),
    /// The kind has no field for a message.
    #[error("objects of kind {0} have no field for a message: leave --message out")]
    MessageOfNone(String),
}

impl AnswerRefusal {
    /// True when another command line would be accepted.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::NoGroup { .. }
            | Self::SeveralGroups { .. }
            | Self::GroupOfNone(_)
            | Self::MessageOfNone(_) => true,
            Self::Already(_)
            | Self::AnsweredOtherwise { .. }
            | Self::Closed(_)
            | Self::SaysNo
            | Self::SomeSaysNo(_)
            | Self::Ambiguous
            | Self::NoApprover { .. } => false,
        }
    }
}

/// The write of an answer into `status.state`.
pub fn of_state(
    object: &Value,
    kind: &str,
    has_status: bool,
    wish: WishedAnswer<'_>,
) -> Result<ApprovalWrite, AnswerRefusal> {
    let WishedAnswer {
        answer,
        group,
        message,
    } = wish;
    if group.is_some() {
        return Err(AnswerRefusal::GroupOfNone(kind.to_owned()));
    }
    if message.is_some() {
        return Err(AnswerRefusal::MessageOfNone(kind.to_owned()));
    }
    let state = ObjectState::of(object).ok();
    let outcome = state.as_ref().map(ObjectState::outcome);
    match (answer, outcome) {
        (ApprovalAnswer::Approve, Some(CheckOutcome::Passed))
        | (ApprovalAnswer::Reject, Some(CheckOutcome::Rejected)) => {
            let word = state.map(String::from).unwrap_or_default();
            return Err(AnswerRefusal::Already(format!("it is {word} already")));
        }
        (ApprovalAnswer::Approve, Some(CheckOutcome::Rejected)) => {
            return Err(AnswerRefusal::SaysNo);
        }
        (
            ApprovalAnswer::Approve | ApprovalAnswer::Reject,
            None | Some(CheckOutcome::Passed | CheckOutcome::Pending | CheckOutcome::NotHolding),
        ) => {}
    }
    let mut after = object.clone();
    if !after["status"].is_object() {
        after["status"] = json!({});
    }
    after["status"]["state"] = answer.state().into();
    Ok(ApprovalWrite {
        is_status: has_status,
        patch: versioned(object, answer.state_fields()),
        after,
        says: format!("status.state: {}", answer.state()),
    })
}

/// The write of an approver's answer into its own entry of `spec.approvers`.
pub fn of_approver(
    object: &Value,
    user: &User,
    wish: WishedAnswer<'_>,
) -> Result<ApprovalWrite, AnswerRefusal> {
    if let Some(state) = object.pointer("/status/state").and_then(Value::as_str)
        && matches!(state, "approved" | "rejected")
    {
        return Err(AnswerRefusal::Closed(state.to_owned()));
    }
    if !is_unambiguous(object) {
        return Err(AnswerRefusal::Ambiguous);
    }
    let entries = object.pointer("/spec/approvers").and_then(Value::as_array);
    let mut entries = entries.cloned().unwrap_or_default();
    if wish.answer == ApprovalAnswer::Approve
        && let Some(name) = rejecting(&entries)
    {
        return Err(AnswerRefusal::SomeSaysNo(name));
    }
    let place = place(&entries, user, wish)?;
    let word = wish.answer.verb();
    let Some(entry) = entries.get_mut(place.at()) else {
        return Err(no_approver(&entries, user));
    };
    let says = match place {
        EntryPlace::Own(_) => {
            answer(entry, wish);
            format!("spec.approvers: {word} by {}", user.name)
        }
        EntryPlace::OfGroup(_) => {
            let group = text(entry, "name").to_owned();
            // The gate counts the answer of a member once the group has the same input.
            entry["input"] = word.into();
            let mut members: Vec<Value> = members(entry).cloned().collect();
            let known = members.iter_mut().find(|it| text(it, "name") == user.name);
            if let Some(known) = known {
                answer(known, wish);
            } else {
                let mut member = json!({"name": user.name});
                answer(&mut member, wish);
                members.push(member);
            }
            entry["users"] = members.into();
            format!("spec.approvers: {word} by {} for group {group}", user.name)
        }
    };
    let fields = json!({"spec": {"approvers": entries}});
    let mut after = object.clone();
    after["spec"]["approvers"] = entries.into();
    decide(&mut after, wish.answer);
    Ok(ApprovalWrite {
        is_status: false,
        patch: versioned(object, fields),
        after,
        says,
    })
}

/// The first approver who has said no.
fn rejecting(entries: &[Value]) -> Option<String> {
    let all = entries
        .iter()
        .flat_map(|it| members(it).chain(std::iter::once(it)));
    let mut rejecting = all.filter(|it| text(it, "input") == "reject");
    rejecting.next().map(|it| text(it, "name").to_owned())
}

/// The entry of an approver.
#[derive(Clone, Copy, Debug)]
enum EntryPlace {
    /// That of the user.
    Own(usize),
    /// That of a group of the user.
    OfGroup(usize),
}

impl EntryPlace {
    const fn at(self) -> usize {
        match self {
            Self::Own(at) | Self::OfGroup(at) => at,
        }
    }
}

/// The entry that a user may answer. An entry of the user precedes those of groups.
fn place(
    entries: &[Value],
    user: &User,
    WishedAnswer { answer, group, .. }: WishedAnswer<'_>,
) -> Result<EntryPlace, AnswerRefusal> {
    let is_member = |entry: &Value| {
        let name = text(entry, "name");
        is_group(entry)
            && (user.groups.iter().any(|it| it == name)
                || members(entry).any(|it| text(it, "name") == user.name))
    };
    let said = |entry: &Value| match text(entry, "input") {
        "approve" => Some("approved"),
        "reject" => Some("rejected"),
        _ => None,
    };
    let own_word = |entry: &Value| {
        let mut members = members(entry);
        members
            .find(|it| text(it, "name") == user.name)
            .and_then(said)
    };
    let answered = |word: &'static str| {
        Err(if word == answer.state() {
            AnswerRefusal::Already(format!("{} has {word} it already", user.name))
        } else {
            AnswerRefusal::AnsweredOtherwise {
                user: user.name.clone(),
                word,
            }
        })
    };
    let numbered = || entries.iter().enumerate();
    if let Some(group) = group {
        let found = numbered().find(|(_, it)| text(it, "name") == group && is_member(it));
        let Some((at, entry)) = found else {
            return Err(AnswerRefusal::NoGroup {
                group: group.to_owned(),
                user: user.name.clone(),
                approvers: listed(entries),
            });
        };
        return own_word(entry).map_or(Ok(EntryPlace::OfGroup(at)), answered);
    }
    let own = numbered().find(|(_, it)| !is_group(it) && text(it, "name") == user.name);
    if let Some((at, entry)) = own {
        return said(entry).map_or(Ok(EntryPlace::Own(at)), answered);
    }
    let (done, open): (Vec<_>, Vec<_>) = numbered()
        .filter(|(_, it)| is_member(it))
        .partition(|(_, it)| own_word(it).is_some());
    let words: Vec<_> = done.iter().filter_map(|(_, it)| own_word(it)).collect();
    let same = words.iter().find(|it| **it == answer.state());
    match (open.as_slice(), same.or(words.first())) {
        ([(at, _)], _) => Ok(EntryPlace::OfGroup(*at)),
        ([], Some(word)) => answered(word),
        ([], None) => Err(no_approver(entries, user)),
        ([_, ..], _) => {
            let names: Vec<_> = open.iter().map(|(_, it)| text(it, "name")).collect();
            Err(AnswerRefusal::SeveralGroups {
                user: user.name.clone(),
                groups: names.join(", "),
            })
        }
    }
}

fn no_approver(entries: &[Value], user: &User) -> AnswerRefusal {
    AnswerRefusal::NoApprover {
        user: user.name.clone(),
        approvers: listed(entries),
    }
}

/// The limit of approvers that a sentence names.
const NAMED: usize = 6;

fn listed(entries: &[Value]) -> String {
    let named = entries.iter().take(NAMED).map(|it| {
        let group = if is_group(it) { "group " } else { "" };
        format!("{group}{}", text(it, "name"))
    });
    let named: Vec<_> = named.collect();
    match entries.len().saturating_sub(NAMED) {
        0 if named.is_empty() => "none".to_owned(),
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn is_group(entry: &Value) -> bool {
    text(entry, "type") == "Group"
}

fn members(entry: &Value) -> impl Iterator<Item = &Value> {
    let members = entry.get("users").and_then(Value::as_array);
    members.into_iter().flatten()
}

fn answer(entry: &mut Value, wish: WishedAnswer<'_>) {
    entry["input"] = wish.answer.verb().into();
    if let Some(message) = wish.message {
        entry["message"] = message.into();
    }
}

/// Writes the state that the gate derives from the answers: one no rejects, and as many users as are required approve.
fn decide(after: &mut Value, answer: ApprovalAnswer) {
    let required = after.pointer("/spec/numberOfApprovalsRequired");
    let required = required.and_then(Value::as_u64).unwrap_or(1).max(1);
    let says_yes = |it: &&Value| text(it, "input") == "approve";
    let entries = after.pointer("/spec/approvers").and_then(Value::as_array);
    let mut users: Vec<&str> = Vec::new();
    for entry in entries.into_iter().flatten().filter(says_yes) {
        if is_group(entry) {
            users.extend(members(entry).filter(says_yes).map(|it| text(it, "name")));
        } else {
            users.push(text(entry, "name"));
        }
    }
    users.sort_unstable();
    users.dedup();
    let is_met = u64::try_from(users.len()).is_ok_and(|it| it >= required);
    let state = match answer {
        ApprovalAnswer::Reject => Some("rejected"),
        ApprovalAnswer::Approve => is_met.then_some("approved"),
    };
    if let Some(state) = state {
        if !after["status"].is_object() {
            after["status"] = json!({});
        }
        after["status"]["state"] = state.into();
    }
}

/// A merge patch that the API server refuses if the object changed since it was read.
fn versioned(object: &Value, mut fields: Value) -> Value {
    let version = object.pointer("/metadata/resourceVersion");
    fields["metadata"] = json!({"resourceVersion": version});
    fields
}

fn text<'a>(entry: &'a Value, field: &str) -> &'a str {
    let text = entry.get(field).and_then(Value::as_str);
    text.unwrap_or_default()
}

#[cfg(test)]
mod gate_tests;

#[cfg(test)]
mod tests {
    use super::*;

    const APPROVE: WishedAnswer<'_> = WishedAnswer {
        answer: ApprovalAnswer::Approve,
        group: None,
        message: None,
    };

    fn user(name: &str, groups: &[&str]) -> User {
        User {
            name: name.to_owned(),
            groups: groups.iter().map(|it| (*it).to_owned()).collect(),
        }
    }

    fn change(state: Option<&str>) -> Value {
        let mut change =
            json!({"metadata": {"name": "chg-42", "resourceVersion": "7"}, "spec": {"note": "n"}});
        if let Some(state) = state {
            change["status"] = json!({"state": state, "by": "board"});
        }
        change
    }

    fn task(approvers: &Value, required: u64) -> Value {
        json!({
            "metadata": {"name": "wait", "resourceVersion": "7"},
            "spec": {"approvers": approvers, "numberOfApprovalsRequired": required, "description": "d"},
            "status": {"state": "pending"},
        })
    }

    fn two() -> Value {
        json!([
            {"name": "alice", "type": "User", "input": "pending"},
            {"name": "qa", "type": "Group", "input": "pending"},
        ])
    }

    #[test]
    fn a_state_is_written_beside_the_other_fields_in_the_version_that_was_read() {
        let write = of_state(&change(Some("pending")), "ChangeRequest", true, APPROVE).unwrap();
        let patch = json!({"metadata": {"resourceVersion": "7"}, "status": {"state": "approved"}});
        assert_eq!(write.patch, patch);
        assert!(write.is_status);
        assert_eq!(
            write.after["status"],
            json!({"state": "approved", "by": "board"})
        );
        assert_eq!(write.after["spec"], change(None)["spec"]);
        let reject = WishedAnswer {
            answer: ApprovalAnswer::Reject,
            ..APPROVE
        };
        // A withdrawal of an approval.
        let write = of_state(&change(Some("approved")), "ChangeRequest", false, reject).unwrap();
        assert_eq!(write.patch["status"], json!({"state": "rejected"}));
        assert!(!write.is_status);
    }

    #[test]
    fn a_state_that_says_it_already_or_says_no_is_not_written() {
        let refusal =
            |state, wish| of_state(&change(Some(state)), "ChangeRequest", true, wish).unwrap_err();
        let reject = WishedAnswer {
            answer: ApprovalAnswer::Reject,
            ..APPROVE
        };
        let already = |word: &str| AnswerRefusal::Already(format!("it is {word} already"));
        assert_eq!(refusal("passed", APPROVE), already("passed"));
        assert_eq!(refusal("rejected", reject), already("rejected"));
        assert_eq!(refusal("rejected", APPROVE), AnswerRefusal::SaysNo);
        let with_message = WishedAnswer {
            message: Some("ok"),
            ..APPROVE
        };
        assert!(refusal("pending", with_message).is_usage());
        let for_group = WishedAnswer {
            group: Some("qa"),
            ..APPROVE
        };
        assert!(refusal("pending", for_group).is_usage());
    }

    #[test]
    fn an_approver_answers_in_its_own_entry_alone() {
        let wish = WishedAnswer {
            message: Some("looks good"),
            ..APPROVE
        };
        let write = of_approver(&task(&two(), 1), &user("alice", &["qa"]), wish).unwrap();
        let approvers = json!([
            {"name": "alice", "type": "User", "input": "approve", "message": "looks good"},
            {"name": "qa", "type": "Group", "input": "pending"},
        ]);
        let patch = json!({"metadata": {"resourceVersion": "7"}, "spec": {"approvers": approvers}});
        assert_eq!(write.patch, patch);
        assert!(!write.is_status);
        assert_eq!(write.after["status"]["state"], "approved");
        assert_eq!(write.says, "spec.approvers: approve by alice");
    }

    #[test]
    fn a_member_answers_for_a_group_under_its_own_name() {
        let mut approvers = two();
        approvers[1]["input"] = "approve".into();
        approvers[1]["users"] = json!([{"name": "carol", "input": "approve"}]);
        let write = of_approver(&task(&approvers, 2), &user("bob", &["qa"]), APPROVE).unwrap();
        let group = &write.patch["spec"]["approvers"][1];
        assert_eq!(group["input"], "approve");
        let users =
            json!([{"name": "carol", "input": "approve"}, {"name": "bob", "input": "approve"}]);
        assert_eq!(group["users"], users);
        assert_eq!(write.after["status"]["state"], "approved");
        // A listed member needs no group of the same name.
        approvers[1]["users"] = json!([{"name": "bob", "input": "pending"}]);
        let write = of_approver(&task(&approvers, 2), &user("bob", &[]), APPROVE).unwrap();
        let users = &write.patch["spec"]["approvers"][1]["users"];
        assert_eq!(*users, json!([{"name": "bob", "input": "approve"}]));
        assert_eq!(write.after["status"]["state"], "pending");
    }

    #[test]
    fn a_no_rejects_whatever_the_others_said() {
        let reject = WishedAnswer {
            answer: ApprovalAnswer::Reject,
            ..APPROVE
        };
        let write = of_approver(&task(&two(), 2), &user("bob", &["qa"]), reject).unwrap();
        assert_eq!(write.patch["spec"]["approvers"][1]["input"], "reject");
        assert_eq!(write.after["status"]["state"], "rejected");
    }

    #[test]
    fn a_user_who_is_no_approver_or_has_answered_writes_nothing() {
        let refusal = |approvers: &Value, user: &User, group| {
            let wish = WishedAnswer { group, ..APPROVE };
            of_approver(&task(approvers, 2), user, wish).unwrap_err()
        };
        let stranger = refusal(&two(), &user("mallory", &["dev"]), None);
        assert!(!stranger.is_usage());
        assert!(
            stranger.to_string().contains("alice, group qa"),
            "{stranger}"
        );
        // A user with the name of a group, and a group with the name of a user.
        assert!(matches!(
            refusal(&two(), &user("qa", &[]), None),
            AnswerRefusal::NoApprover { .. }
        ));
        assert!(matches!(
            refusal(&two(), &user("mallory", &["alice"]), None),
            AnswerRefusal::NoApprover { .. }
        ));
        let other_group = refusal(&two(), &user("alice", &[]), Some("qa"));
        assert!(matches!(other_group, AnswerRefusal::NoGroup { .. }));
        let mut answered = two();
        answered[0]["input"] = "reject".into();
        let again = refusal(&answered, &user("alice", &[]), None);
        assert_eq!(again, AnswerRefusal::SomeSaysNo("alice".to_owned()));
        let mut of_groups = two();
        of_groups[0] = json!({"name": "sec", "type": "Group", "input": "pending"});
        let several = refusal(&of_groups, &user("bob", &["qa", "sec"]), None);
        assert!(
            several.is_usage() && several.to_string().contains("sec, qa"),
            "{several}"
        );
        let mut closed = task(&two(), 1);
        closed["status"]["state"] = "approved".into();
        let closed = of_approver(&closed, &user("alice", &[]), APPROVE).unwrap_err();
        assert_eq!(closed, AnswerRefusal::Closed("approved".to_owned()));
    }

    /// A script must not take the other answer for its own.
    #[test]
    fn an_answer_that_was_given_is_there_already_and_the_other_one_is_refused() {
        let own = |word: &str| json!([{"name": "bob", "type": "User", "input": word}]);
        let member = |word: &str| json!([{"name": "qa", "type": "Group", "input": word, "users": [{"name": "bob", "input": word}]}]);
        for group in [None, Some("qa")] {
            for (given, entries) in
                [("approve", "approved"), ("reject", "rejected")].map(|(input, word)| {
                    (
                        word,
                        if group.is_none() {
                            own(input)
                        } else {
                            member(input)
                        },
                    )
                })
            {
                let wish = WishedAnswer {
                    answer: ApprovalAnswer::Reject,
                    group,
                    ..APPROVE
                };
                let said = of_approver(&task(&entries, 2), &user("bob", &[]), wish).unwrap_err();
                let expected = match given {
                    "rejected" => AnswerRefusal::Already("bob has rejected it already".to_owned()),
                    word => AnswerRefusal::AnsweredOtherwise {
                        user: "bob".to_owned(),
                        word,
                    },
                };
                assert_eq!(said, expected);
            }
        }
    }

    #[test]
    fn a_yes_is_not_written_over_a_no_of_another_approver() {
        let member = json!([
            {"name": "qa", "type": "Group", "input": "pending", "users": [{"name": "bob", "input": "reject"}]},
        ]);
        let own = json!([
            {"name": "bob", "type": "User", "input": "reject"},
            {"name": "qa", "type": "Group", "input": "pending"},
        ]);
        for entries in [member, own] {
            let refusal = of_approver(&task(&entries, 1), &user("carol", &["qa"]), APPROVE);
            let no = AnswerRefusal::SomeSaysNo("bob".to_owned());
            assert_eq!(refusal.unwrap_err(), no);
        }
    }

    #[test]
    fn an_approval_that_reads_differently_in_another_case_is_not_written() {
        let mut entries = two();
        entries[0]["Input"] = "reject".into();
        let refusal = of_approver(&task(&entries, 1), &user("alice", &[]), APPROVE);
        assert_eq!(refusal.unwrap_err(), AnswerRefusal::Ambiguous);
    }
}
