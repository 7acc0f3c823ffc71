//! The order that decides which of several requests of one tuple counts.

use jiff::Timestamp;

use crate::access_request::Phase;
use crate::{AccessRequest, AccessRequestSpec, Permission};

/// The common key of requests of one namespace about the same access: one of them decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestTuple {
    pod_uid: String,
    subject_namespace: String,
    subject: String,
    connector: String,
    permission: Permission,
}

impl RequestTuple {
    /// The tuple of a request. None without a pod UID: such a request has no duplicates.
    #[must_use]
    pub fn of(spec: &AccessRequestSpec) -> Option<Self> {
        let subject = (spec.subject_namespace(), spec.subject.name.as_str());
        let uid = spec.context.object_ref.uid.as_deref()?;
        Self::new(uid, subject, &spec.connector_ref.name, spec.permission)
    }

    /// From its parts: the UID of the pod, namespace and name of the subject, the connector and the permission.
    #[must_use]
    pub fn new(
        pod_uid: &str,
        (subject_namespace, subject): (&str, &str),
        connector: &str,
        permission: Permission,
    ) -> Option<Self> {
        (!pod_uid.is_empty()).then(|| Self {
            pod_uid: pod_uid.to_owned(),
            subject_namespace: subject_namespace.to_owned(),
            subject: subject.to_owned(),
            connector: connector.to_owned(),
            permission,
        })
    }
}

/// The one that decides: a granted, rejected, revoked or ended one, else the oldest, then the smaller UID.
/// Of several that were granted, rejected, revoked or ended, again the oldest. An invalid one decides only alone.
pub fn deciding<'a>(
    requests: impl IntoIterator<Item = &'a AccessRequest>,
) -> Option<&'a AccessRequest> {
    requests.into_iter().min_by_key(|request| Rank::of(request))
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RequestProgress {
    Decided,
    Open,
    /// It never gets access, so it must not hide a request that may get it.
    Invalid,
}

/// The rank of a request among those of its tuple: the smallest decides.
// The order of the fields is the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank<'a> {
    standing: RequestProgress,
    // A request without a creation timestamp is not stored yet, so it is the youngest.
    is_unstored: bool,
    created: Option<Timestamp>,
    uid: Option<&'a str>,
}

impl<'a> Rank<'a> {
    /// From all fields that the rule uses.
    #[must_use]
    pub const fn new(
        phase: Option<Phase>,
        created: Option<Timestamp>,
        uid: Option<&'a str>,
    ) -> Self {
        let standing = match phase {
            Some(Phase::Granted | Phase::Rejected | Phase::Revoked | Phase::Ended) => {
                RequestProgress::Decided
            }
            Some(Phase::Pending) | None => RequestProgress::Open,
            Some(Phase::Invalid) => RequestProgress::Invalid,
        };
        Self {
            standing,
            is_unstored: created.is_none(),
            created,
            uid,
        }
    }

    /// From a whole request.
    #[must_use]
    pub fn of(request: &'a AccessRequest) -> Self {
        let AccessRequest {
            metadata, status, ..
        } = request;
        let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
        let phase = status.as_ref().and_then(|status| status.phase);
        Self::new(phase, created, metadata.uid.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(uid: &str, created: Option<&str>, phase: Option<&str>) -> AccessRequest {
        serde_json::from_value(json!({
            "metadata": {"name": uid, "uid": uid, "creationTimestamp": created},
            "spec": {
                "subject": {"kind": "ServiceAccount", "name": "s"},
                "connectorRef": {"name": "c"},
                "context": {"objectRef": {"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": "p", "uid": "u"}},
            },
            "status": {"phase": phase},
        }))
        .unwrap()
    }

    const EARLY: Option<&str> = Some("2026-01-01T00:00:00Z");
    const LATE: Option<&str> = Some("2026-01-01T00:00:01Z");

    #[test]
    fn what_was_decided_decides_then_age_then_uid() {
        let cases = vec![
            (
                request("b", LATE, Some("Granted")),
                request("a", EARLY, None),
            ),
            (
                request("b", LATE, Some("Rejected")),
                request("a", EARLY, Some("Pending")),
            ),
            (
                request("b", LATE, Some("Revoked")),
                request("a", EARLY, Some("Invalid")),
            ),
            (
                request("b", LATE, Some("Ended")),
                request("a", EARLY, Some("Pending")),
            ),
            (
                request("b", EARLY, Some("Rejected")),
                request("a", LATE, Some("Granted")),
            ),
            (
                request("b", EARLY, None),
                request("a", LATE, Some("Pending")),
            ),
            (
                request("b", LATE, None),
                request("a", EARLY, Some("Invalid")),
            ),
            (
                request("b", LATE, Some("Pending")),
                request("a", EARLY, Some("Invalid")),
            ),
            (
                request("b", EARLY, Some("Invalid")),
                request("a", LATE, Some("Invalid")),
            ),
            (request("a", EARLY, None), request("b", EARLY, None)),
            (request("b", LATE, None), request("a", None, None)),
        ];
        for (first, second) in cases {
            let name = |found: Option<&AccessRequest>| found.unwrap().metadata.uid.clone();
            assert_eq!(name(deciding([&first, &second])), first.metadata.uid);
            assert_eq!(name(deciding([&second, &first])), first.metadata.uid);
        }
        assert!(deciding([]).is_none());
    }

    #[test]
    fn requests_for_nearly_the_same_are_of_other_tuples() {
        let base = request("a", None, None).spec;
        let tuple = |change: &dyn Fn(&mut AccessRequestSpec)| {
            let mut spec = base.clone();
            change(&mut spec);
            RequestTuple::of(&spec)
        };
        let exact = tuple(&|_| ());
        for other in ["u-1", "U", "uu"] {
            let pod = tuple(&|it| it.context.object_ref.uid = Some(other.to_owned()));
            assert_ne!(pod, exact);
        }
        for (name, other) in [("s", "S"), ("s", "ss"), ("s", "s-1")] {
            assert_eq!(base.subject.name, name);
            assert_ne!(tuple(&|it| it.subject.name = other.to_owned()), exact);
        }
        for other in ["C", "cc", "c-1", ""] {
            assert_ne!(tuple(&|it| it.connector_ref.name = other.to_owned()), exact);
        }
    }

    #[test]
    fn every_part_of_the_tuple_counts() {
        let base = request("a", None, None).spec;
        let tuple = RequestTuple::of(&base);
        assert!(tuple.is_some());
        let mut written_out = base.clone();
        written_out.subject.namespace = Some("n".to_owned());
        written_out.connector_ref.namespace =
            Some("anything: it can only be the request's".to_owned());
        written_out.context.object_ref.name = "the UID says which pod".to_owned();
        assert_eq!(RequestTuple::of(&written_out), tuple);

        let changed: [fn(&mut AccessRequestSpec); 6] = [
            |spec| spec.subject.name = "t".to_owned(),
            |spec| spec.subject.namespace = Some("m".to_owned()),
            |spec| spec.connector_ref.name = "d".to_owned(),
            |spec| spec.permission = crate::Permission::Proxy,
            |spec| spec.context.object_ref.uid = Some("v".to_owned()),
            |spec| spec.context.object_ref.uid = None,
        ];
        for change in changed {
            let mut other = base.clone();
            change(&mut other);
            assert_ne!(RequestTuple::of(&other), tuple, "{other:?}");
        }
        for nobody in [None, Some(String::new())] {
            let mut nobodys = base.clone();
            nobodys.context.object_ref.uid = nobody;
            assert_eq!(RequestTuple::of(&nobodys), None);
        }
    }
}
