//! The limits on policies of a namespace and of a connector, and the order in which policies count.

use jiff::Timestamp;

use crate::AccessPolicy;

/// The limit of policies with checks that count for one connector and one permission: the oldest count, so
/// that a later policy cannot displace an earlier one.
pub const MOST_PER_CONNECTOR: usize = 64;

/// The limit of policies in one namespace. The webhook refuses further ones.
pub const MOST_PER_NAMESPACE: usize = 256;

/// The age of a policy; policies with the smallest value count first.
// The order of the fields is the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyAge<'a> {
    // A policy without a creation timestamp is not stored yet, so it is the youngest.
    is_unstored: bool,
    created: Option<Timestamp>,
    name: Option<&'a str>,
}

impl<'a> PolicyAge<'a> {
    /// The age of a policy.
    #[must_use]
    pub fn of(policy: &'a AccessPolicy) -> Self {
        let created = policy.metadata.creation_timestamp.as_ref();
        Self::new(created.map(|time| time.0), policy.metadata.name.as_deref())
    }

    /// The age of a policy with that name and creation time.
    #[must_use]
    pub const fn new(created: Option<Timestamp>, name: Option<&'a str>) -> Self {
        Self {
            is_unstored: created.is_none(),
            created,
            name,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(name: &str, created: Option<&str>) -> AccessPolicy {
        let object = json!({
            "metadata": {"name": name, "creationTimestamp": created},
            "spec": {},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn older_policies_come_first_then_names_and_what_is_not_stored_last() {
        let early = Some("2026-01-01T00:00:00Z");
        let late = Some("2026-01-01T00:00:01Z");
        let mut all = [
            policy("a", None),
            policy("b", late),
            policy("d", early),
            policy("c", early),
        ];
        all.sort_by(|a, b| PolicyAge::of(a).cmp(&PolicyAge::of(b)));
        let names = all.map(|it| it.metadata.name.unwrap());
        assert_eq!(names, ["c", "d", "b", "a"]);
    }
}
