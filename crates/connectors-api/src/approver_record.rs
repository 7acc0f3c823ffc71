//! The form in which an `ApprovalTask` records its approvers: `spec.approvers`, which its own webhook protects.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use crate::field::field;

/// True if no two field names of the approvers differ only in case.
///
/// The gate's webhook accepts field names in any case, and the last of several counts. The API server keeps
/// all of them. An approver could show the webhook one list, and every other reader a second one.
#[must_use]
pub fn is_unambiguous(approval: &Value) -> bool {
    let spec = approval.get("spec");
    let approvers = list(approval, &["spec", "approvers"]);
    let entries = approvers.flat_map(|entry| {
        let members = list(entry, &["users"]);
        std::iter::once(entry).chain(members)
    });
    let mut parts = std::iter::once(approval).chain(spec).chain(entries);
    parts.all(|part| {
        let mut seen = BTreeSet::new();
        let mut keys = part.as_object().into_iter().flat_map(|it| it.keys());
        keys.all(|key| seen.insert(folded(key)))
    })
}

/// A name as Go compares names of fields: in lower case, with the two letters beyond ASCII that fold into it.
fn folded(key: &str) -> Cow<'_, str> {
    let stays = |letter: u8| letter.is_ascii() && !letter.is_ascii_uppercase();
    if key.bytes().all(stays) {
        return key.into();
    }
    let fold = |letter| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        letter => letter.to_ascii_lowercase(),
    };
    key.chars().map(fold).collect()
}

/// The entries of a list; none where there is no list.
fn list<'a>(value: &'a Value, path: &[&str]) -> impl Iterator<Item = &'a Value> {
    let entries = field(value, path).and_then(Value::as_array);
    entries.into_iter().flatten()
}
